//! What a specification says to this program and not to a server: `set`, `ignore`.
//!
//! Nomad has no field of these names, and its reader drops keys that it does not know
//! (`nomad-http-api` 5.3 and 5.5), so a file that has them means the same volume there.

use super::reader::{Reader, Reading};
use crate::diagnostic::{Code, Diagnostic, Span, nearest};
use crate::model::SetName;
use crate::spec::schema;
use crate::spec::tree::{Entry, Node, Value};

impl Reader<'_> {
    /// The set that a file names, and where.
    pub(super) fn set(&mut self, entries: &[&Entry<'_>]) -> Option<(SetName, Span)> {
        let entry = self.single(entries)?;
        let text = self.text(schema::SET, &entry.value, Reading::AsWritten)?;
        match SetName::parse(&text) {
            Ok(name) => Some((name, entry.value.span)),
            Err(problem) => {
                let message = format!("`{text}` cannot be a set's name");
                self.diagnostics.push(
                    Diagnostic::error(Code::SpecSetName, message)
                        .label(entry.value.span, problem.to_string()),
                );
                None
            }
        }
    }

    /// The fields whose drift is ignored.
    pub(super) fn ignore(&mut self, entries: &[&Entry<'_>]) -> Vec<String> {
        let Some(entry) = self.single(entries) else {
            return vec![];
        };
        match &entry.value.value {
            Value::List(items) => {
                let named = items.iter().filter_map(|item| self.ignored(item));
                named.collect()
            }
            Value::Null | Value::Broken => vec![],
            Value::Scalar(_) | Value::Reference(_) | Value::Unknown | Value::Object(_) => {
                self.wrong_type("ignore", &entry.value, "a list of fields");
                vec![]
            }
        }
    }

    fn ignored(&mut self, item: &Node<'_>) -> Option<String> {
        let text = self.text("ignore", item, Reading::AsWritten)?;
        let fields: Vec<_> = schema::drifting().collect();
        if fields.contains(&text) {
            return Some(text);
        }
        let message = format!("`{text}` is not a field whose drift could be seen");
        let diagnostic = Diagnostic::error(Code::SpecUnknownField, message);
        self.diagnostics
            .push(match nearest(&text, fields.iter().map(String::as_str)) {
                Some(near) => diagnostic
                    .label(item.span, format!("did you mean `{near}`?"))
                    .replace(
                        item.span,
                        self.like(item.span, near),
                        "a field of a similar name exists",
                    ),
                None => diagnostic.label(item.span, format!("known are {}", fields.join(", "))),
            });
        None
    }
}
