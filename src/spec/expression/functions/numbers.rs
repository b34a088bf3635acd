//! Functions of numbers and sizes.

use super::call::{Failure, text};
use crate::expression::budget::Budget;
use crate::expression::operators::order;
use crate::expression::problem::shortened;
use crate::expression::value::{Kind, Value};
use nomad_csi_model::Bytes;

type Result = std::result::Result<Value, Failure>;

pub(super) fn tonumber(args: &[Value], budget: &mut Budget) -> Result {
    let text = text(args, 0);
    budget.read_text(text.len())?;
    let is_plain = text.bytes().all(|b| b.is_ascii_digit() || b"+-.eE".contains(&b));
    let whole = text.parse().ok().filter(|_| is_plain).map(Kind::Integer);
    let number = whole.or_else(|| {
        let float: f64 = text.parse().ok().filter(|_| is_plain)?;
        Kind::number(float)
    });
    let number = number.ok_or_else(|| Failure::Argument {
        index: 0,
        reason: format!("`\"{}\"` is not a number", shortened(text)),
        hidden: "the text is not a number",
    });
    Ok(number?.into())
}

pub(super) fn min(args: &[Value], _: &mut Budget) -> Result {
    Ok(extreme(args, std::cmp::Ordering::Less))
}

pub(super) fn max(args: &[Value], _: &mut Budget) -> Result {
    Ok(extreme(args, std::cmp::Ordering::Greater))
}

fn extreme(args: &[Value], wanted: std::cmp::Ordering) -> Value {
    let best =
        args.iter().reduce(
            |best, next| {
                if order(&next.kind, &best.kind) == Some(wanted) { next } else { best }
            },
        );
    best.cloned().unwrap_or(Value::NULL)
}

pub(super) fn floor(args: &[Value], _: &mut Budget) -> Result {
    match args.first().map(|value| &value.kind) {
        Some(Kind::Float(number)) => {
            Ok(Kind::number(number.floor()).ok_or(Failure::TooLarge)?.into())
        }
        Some(kind) => Ok(kind.clone().into()),
        None => Ok(Value::NULL),
    }
}

pub(super) fn bytes(args: &[Value], budget: &mut Budget) -> Result {
    let text = text(args, 0);
    budget.read_text(text.len())?;
    match Bytes::parse(text) {
        Ok(size) => Ok(Value::integer(size.to_wire())),
        Err(problem) => {
            const LONGEST: usize = 100;
            let hidden = "the text is not a size";
            let reason = if text.len() > LONGEST { hidden.to_owned() } else { problem.to_string() };
            Err(Failure::Argument { index: 0, reason, hidden })
        }
    }
}
