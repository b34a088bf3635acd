//! Replaces references such as `${NOMAD_ALLOC_ID}` in the texts of a task.
//!
//! A reference is replaced once: a value that contains `${…}` stays as it is. A reference to something unknown stays
//! as written, as in Nomad, so that a shell or a template of the task can read it.

use std::collections::BTreeMap;

use serde_json::Value;

/// The values of references by name.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Interpolation(BTreeMap<String, String>);

impl Interpolation {
    /// Creates the values from pairs of name and value. The last one of a name counts.
    pub(super) fn new(pairs: impl IntoIterator<Item = (String, String)>) -> Self {
        Self(pairs.into_iter().collect())
    }

    /// Returns the text with its references replaced.
    pub(super) fn text(&self, text: &str) -> String {
        let mut replaced = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, reference)) = rest.split_once("${") {
            replaced.push_str(before);
            let Some((name, after)) = reference.split_once('}') else {
                replaced.push_str("${");
                rest = reference;
                continue;
            };
            match self.0.get(name.trim()) {
                Some(value) => {
                    replaced.push_str(value);
                    rest = after;
                }
                None => {
                    replaced.push_str("${");
                    rest = reference;
                }
            }
        }
        replaced.push_str(rest);
        replaced
    }

    /// Returns a value of a driver's configuration with the references in its texts replaced.
    pub(super) fn json(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(text)),
            Value::Array(items) => items.iter().map(|item| self.json(item)).collect(),
            Value::Object(fields) => fields
                .iter()
                .map(|(key, value)| (key.clone(), self.json(value)))
                .collect(),
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn values() -> Interpolation {
        let pairs = [
            ("NOMAD_ALLOC_INDEX", "3"),
            ("LOOP", "${LOOP}"),
            ("EMPTY", ""),
        ];
        Interpolation::new(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())))
    }

    #[test]
    fn known_references_are_replaced_once_and_others_stay() {
        for (text, expected) in [
            ("", ""),
            ("plain $HOME {}", "plain $HOME {}"),
            ("/data/${NOMAD_ALLOC_INDEX}/x", "/data/3/x"),
            ("${NOMAD_ALLOC_INDEX}${NOMAD_ALLOC_INDEX}", "33"),
            ("${ NOMAD_ALLOC_INDEX }", "3"),
            ("${LOOP}", "${LOOP}"),
            ("a${EMPTY}b", "ab"),
            ("${attr.kernel.name}", "${attr.kernel.name}"),
            ("${unknown ${NOMAD_ALLOC_INDEX}", "${unknown 3"),
            ("${NOMAD_ALLOC_INDEX", "${NOMAD_ALLOC_INDEX"),
            ("ä${NOMAD_ALLOC_INDEX}ö", "ä3ö"),
        ] {
            assert_eq!(values().text(text), expected, "{text}");
        }
    }

    #[test]
    fn texts_at_every_depth_of_a_configuration_are_replaced() {
        let config =
            json!({"args": ["-i", "${NOMAD_ALLOC_INDEX}"], "n": 1, "b": [{"k": "${EMPTY}"}]});
        let expected = json!({"args": ["-i", "3"], "n": 1, "b": [{"k": ""}]});
        assert_eq!(values().json(&config), expected);
    }
}
