//! Finds the numbers of an expression that may become a part of a text, or the value of a field.

use std::ops::Range;

use super::functions::table::Function;
use super::tree::{Expr, ExprKind};
use super::value::Kind;

/// The functions that only calculate with their numbers.
const CALCULATING: [&str; 6] = ["min", "max", "floor", "range", "element", "substr"];

/// Calls `see` for each number that is kept as it is: a side of an operator and an index are only calculated with.
pub(crate) fn for_each_kept_number(expr: &Expr, see: &mut impl FnMut(&Range<u32>)) {
    match &expr.kind {
        ExprKind::Constant(value) => {
            if matches!(value.kind, Kind::Integer(_) | Kind::Float(_)) {
                see(&expr.at);
            }
        }
        ExprKind::List(items) | ExprKind::Template(items) => {
            items.iter().for_each(|item| for_each_kept_number(item, see));
        }
        ExprKind::Map(items) => {
            items.iter().for_each(|(_, value)| for_each_kept_number(value, see));
        }
        ExprKind::Call(function, args, _) => {
            let name = Function::get(*function).map_or("", |function| function.name);
            if !CALCULATING.contains(&name) {
                args.iter().for_each(|arg| for_each_kept_number(arg, see));
            }
        }
        ExprKind::Condition(three) => {
            let [_, then, otherwise] = &**three;
            for_each_kept_number(then, see);
            for_each_kept_number(otherwise, see);
        }
        ExprKind::Get(get) => for_each_kept_number(&get.of, see),
        ExprKind::Index(pair) => {
            let [of, _] = &**pair;
            for_each_kept_number(of, see);
        }
        ExprKind::For(each) => {
            for_each_kept_number(&each.collection, see);
            for_each_kept_number(&each.value, see);
        }
        ExprKind::Negate(inner) => for_each_kept_number(inner, see),
        ExprKind::Variable(_)
        | ExprKind::Local(_)
        | ExprKind::EachKey
        | ExprKind::EachValue
        | ExprKind::CountIndex
        | ExprKind::VolumeName(_)
        | ExprKind::Bound(_)
        | ExprKind::Not(_)
        | ExprKind::Binary(..)
        | ExprKind::Source(..)
        | ExprKind::Unknown => {}
    }
}
