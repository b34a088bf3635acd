//! Finds the variables that decide the value of an expression, so that a problem of the value names where it comes from.
//!
//! A variable counts also if a local value leads to it. Two are enough for a message. No value is kept, only its place.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::declarations::Declarations;
use super::variables::{Assigned, ValueOrigin};
use super::walk::for_each_placed_expression;
use crate::expression::names::{Names, Reference, references};
use crate::expression::tree::{Expr, ExprKind};
use crate::origin::{ExpressionSources, FieldPlaces, ValueSource};
use crate::tree::{Entry, Node, Value};
use nomad_csi_model::diagnostic::Span;

/// Limit of the variables of one expression.
const MAX_SOURCES: usize = 2;

/// Limit of the local values between an expression and a variable.
const MAX_VISITED: usize = 100;

/// The sources of the values of variables, and the variables of local values, by slot.
#[derive(Default)]
pub(super) struct ValueSources {
    variables: Vec<Option<Arc<ValueSource>>>,
    locals: BTreeMap<u32, BTreeSet<Reference>>,
}

impl ValueSources {
    pub(super) fn new(
        declarations: &Declarations<'_, '_>,
        assigned: &[Option<Assigned>],
        names: &mut Names,
    ) -> Self {
        let mut sources = Self { variables: vec![None; assigned.len()], locals: BTreeMap::new() };
        for name in declarations.variables.keys() {
            let slot = names.variable(name) as usize;
            let origin = assigned.get(slot).and_then(Option::as_ref).map(|one| one.origin);
            if let (Some(place), Some(origin)) = (sources.variables.get_mut(slot), origin) {
                *place = Some(Arc::new(source_of(name, origin)));
            }
        }
        for (name, local) in &declarations.locals {
            let mut used = BTreeSet::new();
            for entry in &local.entries {
                for_each_placed_expression(&entry.value, &mut |_, expression| {
                    let all = references(&expression.root).map(|(reference, _)| reference);
                    used.extend(all.take(MAX_VISITED.saturating_sub(used.len())));
                });
            }
            if !used.is_empty() {
                sources.locals.insert(names.local(name), used);
            }
        }
        sources
    }

    /// Returns the places of entries, with the sources of their expressions.
    pub(super) fn places_of<'n, 'a: 'n>(
        &self,
        entries: impl IntoIterator<Item = &'n Entry<'a>>,
    ) -> Arc<FieldPlaces> {
        let mut places = FieldPlaces::default();
        for entry in entries {
            places.written.extend([entry.key.span, entry.value.span]);
            add_aliased(&entry.value, &mut places.written);
            for_each_placed_expression(&entry.value, &mut |at, expression| {
                let variables = self.of_expression(&expression.root);
                let uses_each = expression.root.nodes().any(is_each);
                if uses_each || !variables.is_empty() {
                    places.expressions.push(ExpressionSources { at, variables, uses_each });
                }
            });
        }
        places.expressions.sort_by_key(|one| one.at);
        places.into()
    }

    /// Returns the sources of the first variables of an expression.
    fn of_expression(&self, root: &Expr) -> Vec<Arc<ValueSource>> {
        let mut found: Vec<Arc<ValueSource>> = vec![];
        let mut waiting: Vec<Reference> =
            references(root).map(|(reference, _)| reference).collect();
        waiting.reverse();
        let mut visited = BTreeSet::new();
        while let Some(next) = waiting.pop() {
            if found.len() >= MAX_SOURCES || visited.len() >= MAX_VISITED {
                break;
            }
            if !visited.insert(next) {
                continue;
            }
            match next {
                Reference::Variable(slot) => {
                    found.extend(self.variables.get(slot as usize).cloned().flatten());
                }
                Reference::Local(slot) => {
                    waiting.extend(self.locals.get(&slot).into_iter().flatten().take(MAX_VISITED));
                }
            }
        }
        found
    }
}

/// Adds the positions of values that are elsewhere than the value in which they are.
fn add_aliased(node: &Node<'_>, places: &mut Vec<Span>) {
    let mut add = |span: Span, inner: Option<&Node<'_>>| {
        if !node.span.contains(span) {
            places.push(span);
        }
        if let Some(inner) = inner {
            add_aliased(inner, places);
        }
    };
    match &node.value {
        Value::List(items) => items.iter().for_each(|item| add(item.span, Some(item))),
        Value::Object(object) => object.entries.iter().for_each(|entry| {
            add(entry.key.span, None);
            add(entry.value.span, Some(&entry.value));
        }),
        Value::Null
        | Value::Invalid
        | Value::Scalar(_)
        | Value::Reference(_)
        | Value::Expression(_)
        | Value::Unknown => {}
    }
}

fn is_each(node: &Expr) -> bool {
    matches!(node.kind, ExprKind::EachKey | ExprKind::EachValue)
}

fn source_of(name: &str, origin: ValueOrigin) -> ValueSource {
    let from = source_text(name, origin);
    let (from, place) = match origin {
        ValueOrigin::Default(span) => (format!("{from} at"), Some(span)),
        ValueOrigin::File(span) => (from, Some(span)),
        ValueOrigin::Environment | ValueOrigin::CommandLine => (from, None),
    };
    ValueSource { text: format!("`var.{name}` has its value from {from}").into(), place }
}

/// The source of a value that nothing gives.
pub(super) const DEFAULT: &str = "its default";

/// Returns the source of the value of a variable in words.
pub(super) fn source_text(name: &str, origin: ValueOrigin) -> String {
    match origin {
        ValueOrigin::Default(_) => DEFAULT.to_owned(),
        ValueOrigin::Environment => format!("NOMAD_CSI_VAR_{name}"),
        ValueOrigin::File(_) => "`--var-file`".to_owned(),
        ValueOrigin::CommandLine => "`--var`".to_owned(),
    }
}
