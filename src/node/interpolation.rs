//! Replaces references such as `${NOMAD_ALLOC_ID}` in the texts of a task.
//!
//! A reference is replaced once: a value that contains `${…}` stays as it is. A reference that is neither to a variable
//! of the task nor in the words of Nomad stays as written, so that a shell of the task can read it. One in the words of
//! Nomad that has no value is an error: without it, a path would become shorter, or two nodes would have one name.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use nomad_csi_model::Node;

/// How references in the words of Nomad begin.
const NOMADS: [&str; 5] = ["NOMAD_", "attr.", "meta.", "node.", "env["];

/// The values of references by name.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Interpolation {
    values: BTreeMap<String, String>,
    /// The node, whose fields and attributes have values too.
    node: Option<Arc<Node>>,
}

/// A reference in the words of Nomad without a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`${{{0}}}` has no value on this node")]
pub(super) struct MissingReference(String);

impl Interpolation {
    /// Creates the values from pairs of name and value. The last one of a name counts.
    pub(super) fn new(pairs: impl IntoIterator<Item = (String, String)>) -> Self {
        Self { values: pairs.into_iter().collect(), node: None }
    }

    /// Adds the values of a node.
    pub(super) fn on_node(self, node: Arc<Node>) -> Self {
        Self { node: Some(node), ..self }
    }

    fn value(&self, name: &str) -> Option<String> {
        let value = self.values.get(name).cloned();
        value.or_else(|| self.node.as_ref()?.reference(name))
    }

    /// Checks that every reference in the words of Nomad has a value.
    ///
    /// # Errors
    /// The first that has none.
    pub(super) fn check(&self, text: &str) -> Result<(), MissingReference> {
        let references = text.split("${").skip(1);
        let names = references.filter_map(|after| Some(after.split_once('}')?.0.trim()));
        let is_nomads = |name: &&str| NOMADS.iter().any(|start| name.starts_with(start));
        match names.filter(is_nomads).find(|name| self.value(name).is_none()) {
            Some(name) => Err(MissingReference(name.to_owned())),
            None => Ok(()),
        }
    }

    /// Checks the texts in a value of a driver's configuration.
    ///
    /// # Errors
    /// The first reference that has no value.
    pub(super) fn check_json(&self, value: &Value) -> Result<(), MissingReference> {
        match value {
            Value::String(text) => self.check(text),
            Value::Array(items) => items.iter().try_for_each(|item| self.check_json(item)),
            Value::Object(fields) => fields.values().try_for_each(|field| self.check_json(field)),
            Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
        }
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
            match self.value(name.trim()) {
                Some(value) => {
                    replaced.push_str(&value);
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
            Value::Object(fields) => {
                fields.iter().map(|(key, value)| (key.clone(), self.json(value))).collect()
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn values() -> Interpolation {
        let pairs = [("NOMAD_ALLOC_INDEX", "3"), ("LOOP", "${LOOP}"), ("EMPTY", "")];
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
    fn references_in_nomads_words_need_a_value() {
        let mut node = Node::new("n1".into(), "alpha", "dc1");
        node.attributes.insert("kernel.name".into(), "linux".into());
        let values = values().on_node(Arc::new(node));
        for (text, missing) in [
            ("${NOMAD_ALLOC_INDEX} ${attr.kernel.name} ${node.unique.name}", None),
            ("${HOME} ${1:-x} $NOMAD_X ${", None),
            ("a/${NOMAD_META_set}/*", Some("NOMAD_META_set")),
            ("${NOMAD_PORT_http}", Some("NOMAD_PORT_http")),
            ("${ attr.unique.network.ip-address }", Some("attr.unique.network.ip-address")),
            ("${attr.kernel.name}${meta.rack}", Some("meta.rack")),
            ("${node.class}", Some("node.class")),
            ("${env[\"HOME\"]}", Some("env[\"HOME\"]")),
        ] {
            let expected = missing.map(|name| MissingReference(name.to_owned()));
            assert_eq!(values.check(text).err(), expected, "{text}");
            let nested = json!({"args": [1, {"k": text}]});
            assert_eq!(values.check_json(&nested).err(), expected, "{text}");
        }
        assert_eq!(values.text("${attr.kernel.name}-${node.unique.name}"), "linux-alpha");
    }

    #[test]
    fn texts_at_every_depth_of_a_configuration_are_replaced() {
        let config =
            json!({"args": ["-i", "${NOMAD_ALLOC_INDEX}"], "n": 1, "b": [{"k": "${EMPTY}"}]});
        let expected = json!({"args": ["-i", "3"], "n": 1, "b": [{"k": ""}]});
        assert_eq!(values().json(&config), expected);
    }
}
