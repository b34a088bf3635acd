//! Visits the expressions and the keys of a node.

use crate::tree::{Node, PlacedExpression, SpannedText, Value};
use nomad_csi_model::diagnostic::Span;

/// Calls `see` for every expression in a node.
pub(super) fn for_each_expression<'n>(
    node: &'n Node<'_>,
    see: &mut impl FnMut(&'n PlacedExpression),
) {
    for_each_placed_expression(node, &mut |_, expression| see(expression));
}

/// Calls `see` for every expression in a node, with the position of its value.
pub(super) fn for_each_placed_expression<'n>(
    node: &'n Node<'_>,
    see: &mut impl FnMut(Span, &'n PlacedExpression),
) {
    match &node.value {
        Value::Expression(expression) => see(node.span, expression),
        Value::List(items) => items.iter().for_each(|item| for_each_placed_expression(item, see)),
        Value::Object(object) => {
            let values = object.entries.iter().map(|entry| &entry.value);
            values.for_each(|value| for_each_placed_expression(value, see));
        }
        Value::Null | Value::Invalid | Value::Scalar(_) | Value::Reference(_) | Value::Unknown => {}
    }
}

/// Calls `see` for every key in a node.
pub(super) fn for_each_key<'n, 'a>(node: &'n Node<'a>, see: &mut impl FnMut(&'n SpannedText<'a>)) {
    match &node.value {
        Value::List(items) => items.iter().for_each(|item| for_each_key(item, see)),
        Value::Object(object) => object.entries.iter().for_each(|entry| {
            see(&entry.key);
            for_each_key(&entry.value, see);
        }),
        Value::Null
        | Value::Invalid
        | Value::Scalar(_)
        | Value::Reference(_)
        | Value::Expression(_)
        | Value::Unknown => {}
    }
}
