//! The values that the variables of a run have, for what is written down of a run.
//!
//! A value is kept only if it may be shown: neither its variable is sensitive, nor has the variable or a key of the value the
//! name of a secret.

use std::collections::BTreeMap;

use super::declarations::Variable;
use super::value_sources::source_text;
use super::variables::{Assigned, ValueOrigin};
use crate::expression::budget::Budget;
use crate::expression::functions::encoding::json_text;
use crate::expression::names::Names;
use crate::expression::value::{Kind, Value};
use crate::mask;
use nomad_csi_model::diagnostic::Span;

/// A variable with a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VariableValue {
    /// Its name.
    pub name: String,
    /// Its value in JSON; `None` if it may not be shown.
    pub value: Option<String>,
    /// Where it comes from: `--var`.
    pub from: String,
    /// Its position, if it is in a file.
    pub place: Option<Span>,
}

/// Returns the variables that have values, by name.
pub(super) fn variable_values(
    variables: &BTreeMap<&str, Variable<'_, '_>>,
    assigned: &[Option<Assigned>],
    names: &mut Names,
    budget: &mut Budget,
) -> Vec<VariableValue> {
    let mut values = vec![];
    for (name, variable) in variables {
        let slot = names.variable(name) as usize;
        let Some(Some(Assigned { value, origin })) = assigned.get(slot) else {
            continue;
        };
        let is_hidden =
            variable.is_sensitive || mask::is_sensitive(name) || has_key_of_secret(value);
        let shown = if is_hidden { None } else { json_text(value, budget) };
        let place = match origin {
            ValueOrigin::Default(span) | ValueOrigin::File(span) => Some(*span),
            ValueOrigin::Environment | ValueOrigin::CommandLine => None,
        };
        let from = source_text(name, *origin);
        values.push(VariableValue { name: (*name).to_owned(), value: shown, from, place });
    }
    values
}

/// Returns whether a key inside a value has the name of a secret. No value has more than 64 levels, and literals share no parts.
fn has_key_of_secret(value: &Value) -> bool {
    match &value.kind {
        Kind::List(items, _) => items.iter().any(has_key_of_secret),
        Kind::Map(items, _) => {
            items.iter().any(|(key, item)| mask::is_sensitive(key) || has_key_of_secret(item))
        }
        Kind::Null
        | Kind::Bool(_)
        | Kind::Integer(_)
        | Kind::Float(_)
        | Kind::Text(_)
        | Kind::Secret(_)
        | Kind::Unknown => false,
    }
}
