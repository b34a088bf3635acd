//! Decodes the fields of this program that no server receives: `set` and `ignore`.
//!
//! Nomad has no fields of these names and ignores unknown keys, so such a file declares the same
//! volume there.

use super::reader::{Reader, ScalarConversion};
use crate::schema;
use crate::tree::{Entry, Node, Value};
use crate::value_reader::ValueReader as _;
use nomad_csi_model::SetName;
use nomad_csi_model::diagnostic::{Code, Diagnostic, Span, closest_match};

impl Reader<'_> {
    /// Decodes the set of a file, with its position.
    pub(crate) fn set(&mut self, entries: &[&Entry<'_>]) -> Option<(SetName, Span)> {
        let entry = self.single(entries)?;
        if matches!(entry.value.value, Value::Null) {
            // Volumes of no set would be planned without those that the set has.
            self.diagnostics.push(
                Diagnostic::error(Code::SpecSetName, "`set` is null, and names no set")
                    .label(entry.value.span, "expected the name of a set")
                    .help("write a name, or remove `set` if the volumes belong to no set"),
            );
            return None;
        }
        let text = self.text(schema::SET, &entry.value, ScalarConversion::AsWritten)?;
        match SetName::parse(&text) {
            Ok(name) => Some((name, entry.value.span)),
            Err(problem) => {
                let message = format!("invalid set name `{text}`");
                self.diagnostics.push(
                    Diagnostic::error(Code::SpecSetName, message)
                        .label(entry.value.span, problem.to_string()),
                );
                None
            }
        }
    }

    /// Decodes the fields whose drift is ignored.
    pub(super) fn ignore(&mut self, entries: &[&Entry<'_>]) -> Vec<String> {
        let Some(entry) = self.single(entries) else {
            return vec![];
        };
        match &entry.value.value {
            Value::List(items) => {
                let named = items.iter().filter_map(|item| self.ignored(item));
                named.collect()
            }
            Value::Null | Value::Invalid => vec![],
            Value::Scalar(_)
            | Value::Reference(_)
            | Value::Unknown
            | Value::Expression(_)
            | Value::Object(_) => {
                self.wrong_type("ignore", &entry.value, "a list of fields");
                vec![]
            }
        }
    }

    fn ignored(&mut self, item: &Node<'_>) -> Option<String> {
        let text = self.text("ignore", item, ScalarConversion::AsWritten)?;
        let fields: Vec<_> = schema::drift_fields().collect();
        if fields.contains(&text) {
            return Some(text);
        }
        let message = format!("`{text}` is not a field that drift can check");
        let diagnostic = Diagnostic::error(Code::SpecUnknownField, message);
        self.diagnostics.push(match closest_match(&text, fields.iter().map(String::as_str)) {
            Some(near) => self.suggested(diagnostic, item.span, near, "field"),
            None => diagnostic.label(item.span, format!("expected one of {}", fields.join(", "))),
        });
        None
    }
}
