//! Replaces references such as `${NOMAD_ALLOC_ID}` in the texts of a task.
//!
//! A reference is replaced once: a value that contains `${…}` stays as it is. A reference that is neither to a variable
//! of the task nor in the words of Nomad stays as written, so that a shell of the task can read it. One in the words of
//! Nomad that has no value stays as written, too, but the caller can check for it first: in the configuration of a driver
//! it is an error, as in Nomad, and in a path, which must not become shorter.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use nomad_csi_model::diagnostic::closest_match;
use nomad_csi_model::{Node, Reference, TextPart, text_parts};

/// The number of attributes that a message names.
const LISTED_NAMES: usize = 20;

/// The values of references by name.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Interpolation {
    values: BTreeMap<String, String>,
    /// The node, whose fields and attributes have values too.
    node: Option<Arc<Node>>,
}

/// A reference in the words of Nomad without a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{reference}` has no value on this node; {hint}")]
pub(super) struct MissingReference {
    reference: String,
    /// What was meant, or what there is.
    hint: String,
}

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
        self.check_values(text, |_| true)
    }

    /// Checks that no reference in the words of Nomad would make a path shorter, or the names of two nodes equal.
    ///
    /// # Errors
    /// The first that has no value, or an empty one.
    pub(super) fn check_filled(&self, text: &str) -> Result<(), MissingReference> {
        self.check_values(text, |value| !value.is_empty())
    }

    fn check_values(
        &self,
        text: &str,
        is_enough: impl Fn(&str) -> bool,
    ) -> Result<(), MissingReference> {
        for part in text_parts(text) {
            let TextPart::Reference(reference) = part else {
                continue;
            };
            let value = self.value(&reference.name);
            if reference.is_nomads && !value.as_deref().is_some_and(&is_enough) {
                return Err(self.missing(&reference, value.is_some()));
            }
        }
        Ok(())
    }

    /// Describes a missing value. Variables of the job are not named: they may be secrets.
    fn missing(&self, reference: &Reference<'_>, is_empty: bool) -> MissingReference {
        let variables = self.values.keys().filter(|name| is_variable_of_every_task(name)).cloned();
        let of_node = self.node.as_ref().map(|node| node.reference_names()).unwrap_or_default();
        let known: Vec<_> = variables.chain(of_node).collect();
        let similar = closest_match(&reference.name, known.iter().map(String::as_str));
        let hint = match similar {
            _ if is_empty => "it is empty here, and the path would become shorter".to_owned(),
            Some(similar) if similar != reference.name => format!("did you mean `${{{similar}}}`?"),
            Some(_) | None => known_names(&reference.name, &known),
        };
        MissingReference { reference: reference.written.to_owned(), hint }
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
        let replaced = text_parts(text).into_iter().map(|part| match part {
            TextPart::Literal(literal) => literal.to_owned(),
            TextPart::Reference(Reference { written, name, .. }) => {
                self.value(&name).unwrap_or_else(|| written.to_owned())
            }
        });
        replaced.collect()
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

/// The variables of `meta` and of the job differ from task to task.
fn is_variable_of_every_task(name: &str) -> bool {
    name.starts_with("NOMAD_") && !name.starts_with("NOMAD_META_")
}

/// Returns what there is of the kind of a reference.
fn known_names(name: &str, known: &[String]) -> String {
    let kind = ["attr.", "node."].into_iter().find(|kind| name.starts_with(kind));
    let Some(kind) = kind else {
        return match name {
            name if name.starts_with("meta.") => {
                "the nodes of this agent have no `meta`".to_owned()
            }
            name if name.starts_with("NOMAD_META_") => {
                "set it in `meta` of the job, its group or its task".to_owned()
            }
            name if name.starts_with("NOMAD_") => "the agent does not set this variable".to_owned(),
            _ => "the task has no such variable".to_owned(),
        };
    };
    let is_driver = |name: &str| name.starts_with("attr.driver.");
    let of_kind = known.iter().filter(|known| known.starts_with(kind) && !is_driver(known));
    let names: Vec<_> = of_kind.take(LISTED_NAMES).map(|known| format!("`{known}`")).collect();
    match names.is_empty() {
        true => "it has no attributes".to_owned(),
        false => format!("it has {}", names.join(", ")),
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

    fn on_alpha() -> Interpolation {
        let mut node = Node::new("n1".into(), "alpha", "dc1");
        node.attributes.insert("kernel.name".into(), "linux".into());
        values().on_node(Arc::new(node))
    }

    #[test]
    fn references_in_nomads_words_need_a_value() {
        let values = on_alpha();
        for (text, missing) in [
            ("${NOMAD_ALLOC_INDEX} ${attr.kernel.name} ${node.unique.name}", None),
            ("${HOME} ${1:-x} $NOMAD_X ${", None),
            ("${node.class}${env[\"NOMAD_ALLOC_INDEX\"]}${attr[\"kernel.name\"]}", None),
            ("a/${NOMAD_META_set}/*", Some(("NOMAD_META_set", "set it in `meta` of the job"))),
            ("${NOMAD_PORT_http}", Some(("NOMAD_PORT_http", "does not set this variable"))),
            ("${NOMAD_ALLOC_INDX}", Some(("NOMAD_ALLOC_INDX", "mean `${NOMAD_ALLOC_INDEX}`?"))),
            (
                "${attr.kernel.nme}",
                Some(("attr.kernel.nme", "did you mean `${attr.kernel.name}`?")),
            ),
            (
                "${ attr.cpu.arch }",
                Some((" attr.cpu.arch ", "it has `attr.kernel.name`, `attr.unique.hostname`")),
            ),
            ("${attr.kernel.name}${meta.rack}", Some(("meta.rack", "have no `meta`"))),
            ("${env[\"HOME\"]}", Some(("env[\"HOME\"]", "no such variable"))),
        ] {
            let found = values.check(text);
            let nested = json!({"args": [1, {"k": text}]});
            assert_eq!(values.check_json(&nested), found, "{text}");
            let Some((name, hint)) = missing else {
                assert_eq!(found, Ok(()), "{text}");
                continue;
            };
            let message = found.unwrap_err().to_string();
            let start = format!("`${{{name}}}` has no value on this node; ");
            assert!(message.starts_with(&start) && message.contains(hint), "{text}: {message}");
        }
        assert_eq!(values.text("${attr.kernel.name}-${node.unique.name}"), "linux-alpha");
        assert_eq!(values.text("${env[\"NOMAD_ALLOC_INDEX\"]}${node.class}."), "3.");
    }

    #[test]
    fn a_path_does_not_become_shorter() {
        let values = on_alpha();
        assert_eq!(values.check_filled("/data/${NOMAD_ALLOC_INDEX}${EMPTY}"), Ok(()));
        let missing = values.check_filled("/data/${node.class}").unwrap_err().to_string();
        let expected = "`${node.class}` has no value on this node; it is empty here, and the path would become shorter";
        assert_eq!(missing, expected);
        assert!(values.check_filled("/data/${meta.rack}").is_err());
    }

    #[test]
    fn texts_at_every_depth_of_a_configuration_are_replaced() {
        let config =
            json!({"args": ["-i", "${NOMAD_ALLOC_INDEX}"], "n": 1, "b": [{"k": "${EMPTY}"}]});
        let expected = json!({"args": ["-i", "3"], "n": 1, "b": [{"k": ""}]});
        assert_eq!(values().json(&config), expected);
    }
}
