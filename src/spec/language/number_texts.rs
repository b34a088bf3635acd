//! Warns of numbers of which a text would show less than is written.
//!
//! A version such as `1.10` is meant as text. Without quotes it is the number 1.1, and so is every text that is made of it.
//! Where a type says that a number is meant, and where a number is only calculated with, there is nothing to warn of. The
//! values of fields themselves are converted, and warned of, when the volume is decoded.

use super::declarations::Declarations;
use super::type_constraint::Type;
use super::variables::VariableFile;
use super::walk::for_each_expression;
use crate::decode::Document;
use crate::expression::number_places::for_each_kept_number;
use crate::expression::place::TextPlace;
use crate::expression::value::{Kind, Value as Evaluated};
use crate::mask;
use crate::tree::{Entry, Node, ScalarKind, Value};
use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics, SourceId, Span};

/// Warns of the numbers of all declarations. Returns the places of those that may be secret, which have to be hidden.
pub(super) fn warn_of_numbers(
    declarations: &Declarations<'_, '_>,
    documents: &[Document<'_>],
    files: &[VariableFile<'_>],
    diagnostics: &mut Diagnostics,
) -> Vec<Span> {
    let mut texts: Vec<(SourceId, &str)> =
        documents.iter().map(|document| (document.source, document.text)).collect();
    texts.sort_by_key(|(source, _)| *source);
    texts.dedup_by_key(|(source, _)| *source);
    let mut checker = Checker { texts, diagnostics, hidden: vec![] };
    for variable in declarations.variables.values() {
        let kind = variable.declared_type();
        for entry in &variable.default {
            checker.entry(entry, kind.as_ref(), variable.is_sensitive);
        }
    }
    for file in files {
        for entry in &file.object.entries {
            let variable = declarations.variables.get(&*entry.key.text);
            let kind = variable.and_then(|variable| {
                let default = variable.default.first();
                variable.declared_type().or_else(|| default.and_then(|entry| of_number(entry)))
            });
            // The value of a variable that no file declares has no effect.
            if let Some(variable) = variable {
                checker.entry(entry, kind.as_ref(), variable.is_sensitive);
            }
        }
    }
    let locals = declarations.locals.values().flat_map(|local| &local.entries);
    for entry in locals {
        checker.entry(entry, None, false);
    }
    let volumes = declarations.volumes.iter().map(|volume| volume.block.object);
    let classes = declarations.classes.values().map(|class| class.object);
    let defaults = declarations.defaults.values().map(|defaults| defaults.object);
    for entry in volumes.chain(classes).chain(defaults).flat_map(|object| &object.entries) {
        checker.field(entry, false);
    }
    checker.hidden
}

/// Returns the type that a default without a type gives, if it is a number.
fn of_number(default: &Entry<'_>) -> Option<Type> {
    match &default.value.value {
        Value::Scalar(scalar) if scalar.kind == ScalarKind::Number => Some(Type::Number),
        Value::Scalar(_)
        | Value::Null
        | Value::Invalid
        | Value::Reference(_)
        | Value::Unknown
        | Value::Expression(_)
        | Value::List(_)
        | Value::Object(_) => None,
    }
}

/// Returns the type of the items of a list.
fn of_item(kind: &Type) -> Option<&Type> {
    match kind {
        Type::List(inner) => Some(inner),
        Type::Any | Type::String | Type::Number | Type::Bool | Type::Map(_) | Type::Object(_) => {
            None
        }
    }
}

struct Checker<'c> {
    texts: Vec<(SourceId, &'c str)>,
    diagnostics: &'c mut Diagnostics,
    /// The places of numbers that may be secret.
    hidden: Vec<Span>,
}

impl Checker<'_> {
    fn entry(&mut self, entry: &Entry<'_>, kind: Option<&Type>, is_hidden: bool) {
        let kind = match entry.list {
            Some(_) => kind.and_then(of_item).or(kind),
            None => kind,
        };
        let is_hidden = is_hidden || mask::is_sensitive(&entry.key.text);
        self.node(&entry.value, kind, is_hidden);
    }

    /// Checks a literal value of a type, and the expressions in it.
    fn node(&mut self, node: &Node<'_>, kind: Option<&Type>, is_hidden: bool) {
        match &node.value {
            Value::Scalar(scalar) if scalar.kind == ScalarKind::Number => {
                if matches!(kind, None | Some(Type::Any)) {
                    let written = self.text_at(node.span).unwrap_or(&scalar.text).to_owned();
                    self.number(&written, node.span, is_hidden);
                }
            }
            Value::List(items) => {
                let inner = kind.and_then(of_item);
                items.iter().for_each(|item| self.node(item, inner, is_hidden));
            }
            Value::Object(object) => {
                for entry in &object.entries {
                    let inner = kind.and_then(|kind| kind.of_key(&entry.key.text));
                    self.entry(entry, inner, is_hidden);
                }
            }
            Value::Expression(_) => self.expressions(node, is_hidden),
            Value::Scalar(_)
            | Value::Null
            | Value::Invalid
            | Value::Reference(_)
            | Value::Unknown => {}
        }
    }

    /// Checks the expressions in a field of a volume, of which each key within decides whether it is hidden.
    fn field(&mut self, entry: &Entry<'_>, is_hidden: bool) {
        let is_hidden = is_hidden || mask::is_sensitive(&entry.key.text);
        self.field_value(&entry.value, is_hidden);
    }

    fn field_value(&mut self, node: &Node<'_>, is_hidden: bool) {
        match &node.value {
            Value::Expression(_) => self.expressions(node, is_hidden),
            Value::List(items) => items.iter().for_each(|item| self.field_value(item, is_hidden)),
            Value::Object(object) => {
                object.entries.iter().for_each(|entry| self.field(entry, is_hidden));
            }
            Value::Scalar(_)
            | Value::Null
            | Value::Invalid
            | Value::Reference(_)
            | Value::Unknown => {}
        }
    }

    fn expressions(&mut self, node: &Node<'_>, is_hidden: bool) {
        let mut places = vec![];
        for_each_expression(node, &mut |expression| {
            // With escapes, a part of the text has no place.
            if let TextPlace::Exact(_) = expression.place {
                for_each_kept_number(&expression.root, &mut |at| {
                    places.push(expression.place.of(at));
                });
            }
        });
        for place in places {
            let written = self.text_at(place).unwrap_or_default().to_owned();
            self.number(&written, place, is_hidden);
        }
    }

    fn text_at(&self, span: Span) -> Option<&str> {
        let found = self.texts.binary_search_by_key(&span.source, |(source, _)| *source).ok()?;
        self.texts.get(found)?.1.get(span.range())
    }

    fn number(&mut self, written: &str, at: Span, is_hidden: bool) {
        let Some(text) = other_text(written) else {
            return;
        };
        let message = match is_hidden {
            true => "a number without quotes is another text than it is written".to_owned(),
            false => format!("the number `{written}` is `{text}` in a text"),
        };
        let help = match is_hidden {
            true => "put it in quotes if it is text".to_owned(),
            false => format!("write `\"{written}\"` if it is text, or `{text}` if it is a number"),
        };
        let problem = Diagnostic::warning(Code::SpecNumberAsText, message);
        if is_hidden {
            self.hidden.push(at);
        }
        self.diagnostics.push(problem.label(at, "a number").help(help));
    }
}

/// Returns the text of a number if it is another one than it is written with.
fn other_text(written: &str) -> Option<String> {
    let is_number = written
        .starts_with(|c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.'))
        && written.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
    if !is_number || written.parse::<i64>().is_ok_and(|number| number.to_string() == written) {
        return None;
    }
    let kind = written.parse::<f64>().ok().and_then(Kind::number)?;
    let text = Evaluated::from(kind).to_text()?;
    (*text != *written).then(|| text.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_has_another_text_if_it_is_not_written_as_it_is_shown() {
        for (written, expected) in [
            ("1.10", Some("1.1")),
            ("1.0", Some("1")),
            ("010", Some("10")),
            ("-2.50", Some("-2.5")),
            ("1e3", Some("1000")),
            ("12E4", Some("120000")),
            ("+5", Some("5")),
            (".5", Some("0.5")),
            ("1.1", None),
            ("10", None),
            ("-3", None),
            ("0.5", None),
            ("x", None),
            ("", None),
            ("1.2.3", None),
        ] {
            assert_eq!(other_text(written).as_deref(), expected, "{written}");
        }
    }
}
