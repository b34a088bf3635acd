//! The test of an expression on the JSON of a list item.
//!
//! A field that the item does not have is an error. A key that a map does not have is not: it equals and
//! contains nothing, and it is empty. `null` is the same as a missing key.

use serde_json::{Map, Value};

use super::expression::{Condition, Expression, Filter, Test};
use super::problem::FieldProblem;
use super::selector::Selector;
use crate::boolean::parse_boolean;
use nomad_csi_model::diagnostic::closest_match;

impl Filter {
    /// Returns whether the expression is true for a list item.
    ///
    /// # Errors
    /// If it names a field that the item does not have, or tests a value of another kind.
    pub fn matches(&self, item: &Map<String, Value>) -> Result<bool, FieldProblem> {
        is_true(&self.0, item)
    }
}

fn is_true(expression: &Expression, item: &Map<String, Value>) -> Result<bool, FieldProblem> {
    match expression {
        Expression::Condition(condition) => holds(condition, item),
        Expression::Not(negated) => Ok(!is_true(negated, item)?),
        Expression::All(parts) => decided(parts, item, false),
        Expression::Any(parts) => decided(parts, item, true),
    }
}

/// Tests the parts in order until one has the decisive value.
fn decided(
    parts: &[Expression],
    item: &Map<String, Value>,
    decisive: bool,
) -> Result<bool, FieldProblem> {
    for part in parts {
        if is_true(part, item)? == decisive {
            return Ok(decisive);
        }
    }
    Ok(!decisive)
}

fn holds(condition: &Condition, item: &Map<String, Value>) -> Result<bool, FieldProblem> {
    let value = find(&condition.selector, item)?;
    let passed = passes(&condition.test, value).map_err(|kind| FieldProblem::Kind {
        selector: condition.selector.to_string(),
        kind,
        condition: condition.to_string(),
    })?;
    Ok(passed != condition.is_negated)
}

/// Returns the selected value; `None` if a map on the way does not have the key.
fn find<'a>(
    selector: &Selector,
    item: &'a Map<String, Value>,
) -> Result<Option<&'a Value>, FieldProblem> {
    let Some((field, inside)) = selector.parts() else {
        return Ok(None);
    };
    let unknown = || FieldProblem::Unknown {
        field: field.to_owned(),
        similar: closest_match(field, item.keys().map(String::as_str)).map(ToOwned::to_owned),
    };
    let mut value = Some(item.get(field).ok_or_else(unknown)?);
    for part in inside {
        value = value.and_then(|value| match value {
            Value::Object(map) => map.get(part),
            Value::Array(list) => list.get(part.parse::<usize>().ok()?),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
        });
    }
    Ok(value)
}

/// Returns whether a value passes a test; the kind of the value if it cannot be tested.
fn passes(test: &Test, value: Option<&Value>) -> Result<bool, &'static str> {
    let Some(value) = value.filter(|value| !value.is_null()) else {
        return Ok(*test == Test::IsEmpty);
    };
    let passed = match (test, value) {
        (Test::Equals(expected), value) => equals(value, expected),
        (Test::Contains(part), Value::String(text)) => Some(text.contains(part)),
        (Test::Contains(key), Value::Object(map)) => Some(map.contains_key(key)),
        (Test::Contains(expected), Value::Array(list)) => {
            let mut elements = list.iter();
            Some(elements.any(|element| equals(element, expected) == Some(true)))
        }
        (Test::IsEmpty, Value::String(text)) => Some(text.is_empty()),
        (Test::IsEmpty, Value::Object(map)) => Some(map.is_empty()),
        (Test::IsEmpty, Value::Array(list)) => Some(list.is_empty()),
        (Test::Matches(pattern), Value::String(text)) => Some(pattern.is_match(text)),
        (Test::Contains(_) | Test::IsEmpty | Test::Matches(_), _) => None,
    };
    passed.ok_or_else(|| kind(value))
}

/// Returns whether a value is what the text says; `None` if the text is no value of that kind.
fn equals(value: &Value, text: &str) -> Option<bool> {
    match value {
        Value::String(value) => Some(value == text),
        Value::Bool(value) => parse_boolean(text).map(|expected| *value == expected),
        Value::Number(value) => {
            let whole = value.as_i64().map(i128::from);
            let whole = whole.or_else(|| value.as_u64().map(i128::from))?;
            text.parse::<i128>().ok().map(|expected| whole == expected)
        }
        Value::Null => Some(false),
        Value::Array(_) | Value::Object(_) => None,
    }
}

const fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a map",
    }
}
