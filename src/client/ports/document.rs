//! [`Document`]: the JSON text of one object as the server sent it.
//!
//! A document keeps text, because parsed JSON takes ten times the memory and most documents are
//! only passed on. [`Document::value`] parses it on demand. Serde writes a document as the JSON that
//! it contains, in any output format.

use std::fmt;

use serde::{Serialize, Serializer};
use serde_json::Value;

/// JSON, stored as text.
#[derive(Clone)]
pub struct Document(Box<str>);

impl Document {
    /// Creates a document from text that the caller has already parsed as JSON.
    pub fn new(text: impl Into<Box<str>>) -> Self {
        Self(text.into())
    }

    /// Serialises a value; the document is `null` if that fails.
    pub fn of(what: &impl Serialize) -> Self {
        Self::new(serde_json::to_string(what).unwrap_or_else(|_| "null".to_owned()))
    }

    /// Returns the text.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Parses the text.
    pub fn value(&self) -> Value {
        serde_json::from_str(&self.0).unwrap_or_default()
    }
}

impl fmt::Display for Document {
    /// Writes the text unchanged.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl PartialEq for Document {
    /// Returns whether both have the same text.
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Serialize for Document {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value().serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_unchanged_and_serde_writes_it_in_any_format() {
        let text = r#"{ "b":1,"a":[1.50,null] }"#;
        let document = Document::new(text);
        assert_eq!(document.to_string(), text);
        assert_eq!(document.value()["a"][0], 1.5);
        let indented = serde_json::to_string_pretty(&[&document]).unwrap();
        assert_eq!(
            indented,
            "[\n  {\n    \"b\": 1,\n    \"a\": [\n      1.5,\n      null\n    ]\n  }\n]"
        );
        assert_eq!(serde_yaml::to_string(&document).unwrap(), "b: 1\na:\n- 1.5\n- null\n");
        assert_ne!(document, Document::of(&document.value()));
    }
}
