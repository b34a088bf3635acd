//! Finds the expressions in the texts of YAML and JSON.
//!
//! Every text value of a document of the language is a template. Keys, labels, comments and types of variables are not.

use std::ops::Range;
use std::rc::Rc;

use crate::expression::embedded::parse_template;
use crate::expression::names::Names;
use crate::expression::place::TextPlace;
use crate::part_place::{WrittenText, place_of_part};
use crate::schema;
use crate::syntax::Syntax;
use crate::tree::{Node, Object, PlacedExpression, ScalarKind, Value};
use nomad_csi_model::diagnostic::{Diagnostics, SourceMap, Span};

/// Turns the texts of a document into expressions.
pub(crate) fn read_templates(
    document: &mut Object<'_>,
    text: &str,
    syntax: Syntax,
    names: &mut Names,
    diagnostics: &mut Diagnostics,
) {
    let mut reader = TemplateReader { text, syntax, names, diagnostics };
    for entry in &mut document.entries {
        match &mut entry.value.value {
            _ if schema::declares_nothing(&entry.key.text, syntax) => {}
            Value::Object(variables) if entry.key.text == "variable" => {
                for variable in &mut variables.entries {
                    reader.variable(&mut variable.value);
                }
            }
            Value::Null
            | Value::Invalid
            | Value::Scalar(_)
            | Value::Reference(_)
            | Value::Unknown
            | Value::Expression(_)
            | Value::List(_)
            | Value::Object(_) => {
                // Below the fields of a block, `//` is a key as any other.
                let levels = match &*entry.key.text {
                    schema::DEFAULTS | schema::LOCALS => 1,
                    _ => 2,
                };
                reader.node(&mut entry.value, levels);
            }
        }
    }
}

struct TemplateReader<'r> {
    text: &'r str,
    syntax: Syntax,
    names: &'r mut Names,
    diagnostics: &'r mut Diagnostics,
}

impl TemplateReader<'_> {
    /// Returns the place of a part of a text, also if the source writes the text otherwise.
    fn place_of(&self, part: &Range<u32>, place: TextPlace, value: &str) -> Span {
        let span = match place {
            TextPlace::Whole(span) => span,
            TextPlace::Exact(_) => return place.of(part),
        };
        // The search goes through the text, and a problem that is only counted shows no place.
        if self.diagnostics.is_full() {
            return span;
        }
        let source = self.text.get(span.range()).unwrap_or_default();
        let found = place_of_part(source, value, &(part.start as usize..part.end as usize));
        found.map_or(span, |found| {
            let start = span.range().start;
            SourceMap::span(span.source, start + found.start..start + found.end)
        })
    }

    fn is_comment(&self, key: &str) -> bool {
        self.syntax == Syntax::Json && key == "//"
    }

    /// Reads a variable. Its type is no template.
    fn variable(&mut self, node: &mut Node<'_>) {
        let Value::Object(fields) = &mut node.value else {
            return self.node(node, 0);
        };
        for field in &mut fields.entries {
            if field.key.text != "type" && !self.is_comment(&field.key.text) {
                self.node(&mut field.value, 0);
            }
        }
    }

    /// Reads a node in which keys of this many levels can be comments.
    fn node(&mut self, node: &mut Node<'_>, levels: usize) {
        match &mut node.value {
            Value::Null
            | Value::Invalid
            | Value::Reference(_)
            | Value::Unknown
            | Value::Expression(_) => {}
            Value::List(items) => items.iter_mut().for_each(|item| self.node(item, levels)),
            Value::Object(object) => {
                for entry in &mut object.entries {
                    if levels == 0 || !self.is_comment(&entry.key.text) {
                        self.node(&mut entry.value, levels.saturating_sub(1));
                    }
                }
            }
            Value::Scalar(scalar) if scalar.kind == ScalarKind::Text => {
                let place = text_place(self.text, node.span, &scalar.text);
                match parse_template(&scalar.text, self.names) {
                    Ok(None) => {}
                    Ok(Some(root)) => {
                        let source = self.text.get(node.span.range()).unwrap_or_default();
                        let written = match place {
                            TextPlace::Exact(_) => None,
                            TextPlace::Whole(_) => WrittenText::new(source, &scalar.text),
                        };
                        let written = written.map(Rc::new);
                        node.value = Value::Expression(PlacedExpression { root, place, written });
                    }
                    Err(problems) => {
                        for problem in problems {
                            let place_of = |part: &_| self.place_of(part, place, &scalar.text);
                            let problem = problem.into_diagnostic_with(place_of);
                            self.diagnostics.push(problem);
                        }
                        node.value = Value::Invalid;
                    }
                }
            }
            Value::Scalar(_) => {}
        }
    }
}

/// Returns the position of the content of a text, if the file writes it without escapes and folds.
fn text_place(text: &str, span: Span, value: &str) -> TextPlace {
    let range = span.range();
    let written = text.get(range.clone()).unwrap_or_default();
    let quote = usize::from(written.starts_with(['"', '\'']));
    match written.get(quote..written.len().saturating_sub(quote)) {
        Some(inner) if inner == value => TextPlace::Exact(SourceMap::span(
            span.source,
            range.start + quote..range.start + quote + inner.len(),
        )),
        _ => TextPlace::Whole(span),
    }
}
