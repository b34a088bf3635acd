//! Visits the expressions of a node.

use crate::tree::{Node, PlacedExpression, Value};

/// Calls `see` for every expression in a node.
pub(super) fn for_each_expression<'n>(
    node: &'n Node<'_>,
    see: &mut impl FnMut(&'n PlacedExpression),
) {
    match &node.value {
        Value::Expression(expression) => see(expression),
        Value::List(items) => items.iter().for_each(|item| for_each_expression(item, see)),
        Value::Object(object) => {
            object.entries.iter().for_each(|entry| for_each_expression(&entry.value, see));
        }
        Value::Null | Value::Invalid | Value::Scalar(_) | Value::Reference(_) | Value::Unknown => {}
    }
}
