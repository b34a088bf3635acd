//! The values that the variables of a run have, for what is written down of a run.
//!
//! A value is kept only if it may be shown: its variable is not sensitive, neither the variable nor a key of the value has the
//! name of a secret, and no secret and no mount flag is made of it, also not through local values and `for_each`.

use std::collections::{BTreeMap, BTreeSet};

use super::declarations::{Local, Variable};
use super::value_sources::{DEFAULT, source_text};
use super::variables::{Assigned, ValueOrigin};
use super::walk::for_each_expression;
use crate::expression::budget::Budget;
use crate::expression::functions::encoding::json_text;
use crate::expression::names::{Names, Reference, references};
use crate::expression::tree::{Expr, ExprKind, Key};
use crate::expression::value::{Kind, Value};
use crate::mask;
use crate::schema;
use crate::tree::{Node, Object, Value as NodeValue};
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

impl VariableValue {
    /// Returns whether the value is the default.
    pub fn is_default(&self) -> bool {
        self.from == DEFAULT
    }
}

/// Returns the variables that have values, by name.
pub(super) fn variable_values(
    variables: &BTreeMap<&str, Variable<'_, '_>>,
    (assigned, secret): (&[Option<Assigned>], &BTreeSet<u32>),
    names: &mut Names,
    budget: &mut Budget,
) -> Vec<VariableValue> {
    let mut values = vec![];
    for (name, variable) in variables {
        let slot = names.variable(name) as usize;
        let Some(Some(Assigned { value, origin })) = assigned.get(slot) else {
            continue;
        };
        let is_hidden = variable.is_sensitive
            || mask::is_sensitive(name)
            || has_key_of_secret(value)
            || secret.contains(&names.variable(name));
        let shown = if is_hidden { None } else { json_text(value, budget) };
        // Readers of JSON refuse some numbers that the language has.
        let shown = shown.filter(|text| serde_json::from_str::<serde_json::Value>(text).is_ok());
        let place = match origin {
            ValueOrigin::Default(span) | ValueOrigin::File(span) => Some(*span),
            ValueOrigin::Environment | ValueOrigin::CommandLine => None,
        };
        let from = source_text(name, *origin);
        values.push(VariableValue { name: (*name).to_owned(), value: shown, from, place });
    }
    values
}

/// Returns the variables that secrets and mount flags are made of.
pub(super) fn variables_of_secrets(
    objects: &[(usize, &Object<'_>)],
    locals: &BTreeMap<&str, Local<'_, '_>>,
    names: &mut Names,
) -> BTreeSet<u32> {
    let mut search = SecretSearch::default();
    for (_, object) in objects {
        search.object(object, false);
    }
    if search.uses_each {
        search.waiting.append(&mut search.of_for_each);
    }
    let mut of_local: BTreeMap<u32, Vec<Reference>> = BTreeMap::new();
    for (name, local) in locals {
        let used = of_local.entry(names.local(name)).or_default();
        for entry in &local.entries {
            for_each_expression(&entry.value, &mut |expression| {
                used.extend(references(&expression.root).map(|(reference, _)| reference));
            });
        }
    }
    let mut found = BTreeSet::new();
    let mut visited = BTreeSet::new();
    while let Some(next) = search.waiting.pop() {
        match next {
            Reference::Variable(slot) => drop(found.insert(slot)),
            Reference::Local(slot) if visited.insert(slot) => {
                search.waiting.extend(of_local.get(&slot).into_iter().flatten());
            }
            Reference::Local(_) => {}
        }
    }
    found
}

/// Looks for the names that secrets use. Documents have a limited number of levels.
#[derive(Default)]
struct SecretSearch {
    waiting: Vec<Reference>,
    of_for_each: Vec<Reference>,
    uses_each: bool,
}

impl SecretSearch {
    fn object(&mut self, object: &Object<'_>, is_secret: bool) {
        for entry in object.entries.iter().chain(&object.duplicates) {
            let key = &*entry.key.text;
            if key == schema::FOR_EACH {
                let of_for_each = &mut self.of_for_each;
                for_each_expression(&entry.value, &mut |expression| {
                    of_for_each.extend(references(&expression.root).map(|(name, _)| name));
                });
            }
            self.node(&entry.value, is_secret || mask::is_sensitive(key));
        }
    }

    fn node(&mut self, node: &Node<'_>, is_secret: bool) {
        match &node.value {
            NodeValue::Object(object) => self.object(object, is_secret),
            NodeValue::List(items) => items.iter().for_each(|item| self.node(item, is_secret)),
            NodeValue::Expression(expression) => self.expression(&expression.root, is_secret),
            NodeValue::Null
            | NodeValue::Invalid
            | NodeValue::Scalar(_)
            | NodeValue::Reference(_)
            | NodeValue::Unknown => {}
        }
    }

    fn expression(&mut self, root: &Expr, is_secret: bool) {
        if !is_secret && !root.nodes().any(names_secret) {
            return;
        }
        self.waiting.extend(references(root).map(|(name, _)| name));
        let is_each = |node: &Expr| matches!(node.kind, ExprKind::EachKey | ExprKind::EachValue);
        self.uses_each |= root.nodes().any(is_each);
    }
}

/// Returns whether an expression has a text or a key with the name of a secret.
fn names_secret(node: &Expr) -> bool {
    if let ExprKind::Constant(Value { kind: Kind::Text(text), .. }) = &node.kind {
        return mask::is_sensitive(text);
    }
    let is_secret = |key: &Key| matches!(key, Key::Name(name, _) if mask::is_sensitive(name));
    matches!(&node.kind, ExprKind::Map(items) if items.iter().any(|(key, _)| is_secret(key)))
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
