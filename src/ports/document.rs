//! [`Document`]: a server's own JSON of one thing, kept as its text.
//!
//! Parsed JSON takes ten times the memory of its text, and most documents of a list are only handed
//! on. So the text is what is kept, and whoever wants to look inside parses it then. Written out by
//! serde, a document is the JSON that it holds, in whatever form is written.

use std::fmt;

use serde::{Serialize, Serializer};
use serde_json::Value;

/// JSON as its text.
#[derive(Clone)]
pub struct Document(Box<str>);

impl Document {
    /// That text, which the caller has read as JSON before.
    pub fn new(text: impl Into<Box<str>>) -> Self {
        Self(text.into())
    }

    /// The JSON of something; `null` if it has none.
    pub fn of(what: &impl Serialize) -> Self {
        Self::new(serde_json::to_string(what).unwrap_or_else(|_| "null".to_owned()))
    }

    /// What the text says.
    pub fn value(&self) -> Value {
        serde_json::from_str(&self.0).unwrap_or_default()
    }
}

impl fmt::Display for Document {
    /// The text as it is.
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
    /// Whether both are the same text.
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
    fn the_text_stays_as_it_is_and_is_written_in_the_form_that_is_asked_for() {
        let text = r#"{ "b":1,"a":[1.50,null] }"#;
        let document = Document::new(text);
        assert_eq!(document.to_string(), text);
        assert_eq!(document.value()["a"][0], 1.5);
        let indented = serde_json::to_string_pretty(&[&document]).unwrap();
        assert_eq!(
            indented,
            "[\n  {\n    \"b\": 1,\n    \"a\": [\n      1.5,\n      null\n    ]\n  }\n]"
        );
        assert_eq!(
            serde_yaml::to_string(&document).unwrap(),
            "b: 1\na:\n- 1.5\n- null\n"
        );
        assert_ne!(document, Document::of(&document.value()));
    }
}
