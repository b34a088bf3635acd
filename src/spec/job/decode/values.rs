//! Converts values to the types of their fields, and reports values that do not fit.

use std::borrow::Cow;
use std::ops::Range;
use std::time::Duration;

use super::fields::{FieldReader, Fields};
use crate::value_reader::ValueReader as _;
use crate::{
    Entry, Node, Scalar, ScalarKind, Syntax, TextProblem, Value, place_of_part, runtime_text,
};
use nomad_csi_model::GoDuration;
use nomad_csi_model::diagnostic::{Code, Diagnostic, SourceMap, Span, closest_match};

impl<'t, 'a> FieldReader<'_> {
    /// Decodes the value of a key with `read`. If there is one that it cannot read, marks the place.
    fn value<T>(
        &mut self,
        fields: &Fields<'t, 'a>,
        key: &'static str,
        read: impl FnOnce(&mut Self, &Node<'_>) -> Option<T>,
    ) -> Option<T> {
        let node = &self.single(fields, key)?.value;
        let value = match node.value {
            Value::Null if self.syntax != Syntax::Hcl => return None,
            Value::Invalid => None,
            _ => read(self, node),
        };
        if value.is_none() {
            self.places.mark_unreadable(fields.place.field(key));
        }
        value
    }

    /// Decodes a text.
    pub(super) fn text(&mut self, fields: &Fields<'t, 'a>, key: &'static str) -> Option<String> {
        self.value(fields, key, |reader, node| reader.text_of(key, node))
    }

    /// Decodes the text of a value. A number or a boolean is its text.
    pub(super) fn text_of(&mut self, key: &str, node: &Node<'_>) -> Option<String> {
        match &node.value {
            Value::Scalar(scalar) => match scalar.kind {
                ScalarKind::Text => self.evaluated(node, &scalar.text),
                ScalarKind::Number => Some(self.number_text(scalar)),
                ScalarKind::Boolean => Some(scalar.text.to_string()),
            },
            Value::Invalid => None,
            Value::Null
            | Value::Reference(_)
            | Value::Unknown
            | Value::Expression(_)
            | Value::List(_)
            | Value::Object(_) => {
                self.wrong_type(key, node, "a text");
                None
            }
        }
    }

    /// Returns the text of a number: in HCL and JSON that of its value, in YAML as written.
    fn number_text(&self, scalar: &Scalar<'_>) -> String {
        let written = &*scalar.text;
        match (self.syntax, written.parse::<f64>()) {
            (Syntax::Yaml, _) | (_, Err(_)) => written.to_owned(),
            (Syntax::Hcl | Syntax::Json, Ok(number)) => match written.parse::<i64>() {
                Ok(integer) => integer.to_string(),
                Err(_) => number.to_string(),
            },
        }
    }

    fn evaluated(&mut self, node: &Node<'_>, text: &str) -> Option<String> {
        match runtime_text(text) {
            Ok(text) => Some(Cow::into_owned(text)),
            Err(problems) => {
                for problem in problems {
                    self.diagnostics.push(match problem {
                        TextProblem::NeedsEvaluation { what, range } => {
                            crate::unevaluated(what, self.part_span(node, text, &range)).help(
                                "write `$${` for a literal `${`, and `%%{` for a literal `%{`",
                            )
                        }
                        TextProblem::Malformed { range } => {
                            let span = self.part_span(node, text, &range);
                            crate::malformed_reference(text.get(range).unwrap_or_default(), span)
                        }
                    });
                }
                None
            }
        }
    }

    /// Returns the place of a part of a text, or that of the text if its source is written otherwise.
    fn part_span(&self, node: &Node<'_>, text: &str, part: &Range<usize>) -> Span {
        let place = place_of_part(self.source_text(node.span), text, part);
        place.map_or(node.span, |place| {
            let start = node.span.range().start;
            SourceMap::span(node.span.source, start + place.start..start + place.end)
        })
    }

    /// Decodes a boolean, also in quotes.
    pub(super) fn boolean(&mut self, fields: &Fields<'t, 'a>, key: &'static str) -> Option<bool> {
        self.value(fields, key, |reader, node| {
            let value = match &node.value {
                Value::Scalar(scalar) if scalar.kind != ScalarKind::Number => {
                    match scalar.text.to_ascii_lowercase().as_str() {
                        "true" => Some(true),
                        "false" => Some(false),
                        _ => None,
                    }
                }
                _ => None,
            };
            if value.is_none() {
                reader.wrong_type(key, node, "`true` or `false`");
            }
            value
        })
    }

    /// Decodes a whole number, also in quotes.
    pub(super) fn integer(&mut self, fields: &Fields<'t, 'a>, key: &'static str) -> Option<i64> {
        let is_null = |entry: &&Entry<'_>| matches!(entry.value.value, Value::Null);
        if fields.all(key).first().is_some_and(is_null) {
            return None;
        }
        self.value(fields, key, |reader, node| {
            let value = match &node.value {
                Value::Scalar(scalar) if scalar.kind != ScalarKind::Boolean => {
                    scalar.text.parse::<i64>().ok()
                }
                _ => None,
            };
            if value.is_none() {
                reader.wrong_type(key, node, "a whole number");
            }
            value
        })
    }

    /// Decodes a duration such as `30s`. Nomad reads a number without a unit as nanoseconds, which
    /// is never meant, so it is refused.
    pub(super) fn duration(
        &mut self,
        fields: &Fields<'t, 'a>,
        key: &'static str,
    ) -> Option<Duration> {
        self.value(fields, key, |reader, node| reader.duration_of(key, node))
    }

    fn duration_of(&mut self, key: &'static str, node: &Node<'_>) -> Option<Duration> {
        let scalar = match &node.value {
            Value::Scalar(scalar) if scalar.kind != ScalarKind::Boolean => scalar,
            _ => {
                self.wrong_type(key, node, "a duration");
                return None;
            }
        };
        let text = &*scalar.text;
        let has_no_unit = text != "0" && text.parse::<f64>().is_ok();
        let problem = |message: String, label: String| {
            Diagnostic::error(Code::JobInvalidValue, message).label(node.span, label)
        };
        let parsed = GoDuration::parse(text);
        self.diagnostics.push(match parsed.ok().map(GoDuration::to_std) {
            Some(Some(duration)) => return Some(duration),
            Some(None) => problem(
                format!("`{key}` is negative"),
                "expected a duration such as `30s`".to_owned(),
            ),
            None if has_no_unit => problem(
                format!("`{key}` has no unit: Nomad would read nanoseconds"),
                format!("write a unit, such as `\"{text}s\"`"),
            ),
            None => problem(
                format!("`{key}` is not a duration"),
                "expected a duration such as `30s` or `1m30s`".to_owned(),
            ),
        });
        None
    }

    /// Decodes a list of texts.
    pub(super) fn text_list(
        &mut self,
        fields: &Fields<'t, 'a>,
        key: &'static str,
    ) -> Option<Vec<String>> {
        self.value(fields, key, |reader, node| {
            let Value::List(items) = &node.value else {
                reader.wrong_type(key, node, "a list of texts");
                return None;
            };
            let texts: Vec<_> = items.iter().map(|item| reader.text_of(key, item)).collect();
            texts.into_iter().collect()
        })
    }

    /// Decodes a word of a fixed set. `kind` names it in messages: "access mode".
    pub(super) fn word<T: Copy>(
        &mut self,
        fields: &Fields<'t, 'a>,
        key: &'static str,
        set: &WordSet<T>,
    ) -> Option<T> {
        self.value(fields, key, |reader, node| {
            let text = reader.text_of(key, node)?;
            let found = set.words.iter().find(|(word, _)| *word == text);
            if let Some((_, value)) = found {
                return Some(*value);
            }
            let words: Vec<_> = set.words.iter().map(|(word, _)| *word).collect();
            let plain = text.to_lowercase().replace('_', "-");
            let near = closest_match(&plain, words.iter().copied());
            reader.unknown_word(set.code, set.kind, (node, &text), near, &words);
            None
        })
    }
}

/// The words of a field, and what each means.
pub(super) struct WordSet<T> {
    pub(super) code: Code,
    /// The name of such a word in messages: "access mode".
    pub(super) kind: &'static str,
    pub(super) words: Vec<(&'static str, T)>,
}

impl<T: Copy> WordSet<T> {
    /// The words of these values.
    pub(super) fn of(
        code: Code,
        kind: &'static str,
        values: &[T],
        word: fn(T) -> &'static str,
    ) -> Self {
        let words = values.iter().map(|value| (word(*value), *value)).collect();
        Self { code, kind, words }
    }
}
