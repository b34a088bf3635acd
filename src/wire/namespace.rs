//! A namespace.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A namespace, as servers list it and as clients write it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NamespaceDocument {
    /// The namespace's name.
    pub name: String,
    /// A description for users.
    pub description: String,
    /// The quota, of Nomad Enterprise.
    pub quota: String,
    /// The task drivers and network modes that jobs may use.
    pub capabilities: Option<Value>,
    /// The node pools that jobs may use.
    pub node_pool_configuration: Option<Value>,
    /// The settings of Vault.
    pub vault_configuration: Option<Value>,
    /// The settings of Consul.
    pub consul_configuration: Option<Value>,
    /// Values for people and programs.
    pub meta: Option<BTreeMap<String, String>>,
    /// A checksum that only Nomad computes.
    pub hash: String,
    /// The index of the creation.
    pub create_index: u64,
    /// The index of the last change.
    pub modify_index: u64,
}

impl NamespaceDocument {
    /// Returns a field that restricts jobs and has a value. A server that ignored it would permit what
    /// the author forbids.
    pub fn unsupported_field(&self) -> Option<&'static str> {
        let restrictions = [
            ("Capabilities", &self.capabilities),
            ("NodePoolConfiguration", &self.node_pool_configuration),
            ("VaultConfiguration", &self.vault_configuration),
            ("ConsulConfiguration", &self.consul_configuration),
        ];
        let set = restrictions.iter().find(|(_, value)| has_content(value));
        match set {
            Some((name, _)) => Some(name),
            None => (!self.quota.is_empty()).then_some("Quota"),
        }
    }
}

/// Returns whether the value says anything: neither null nor empty, at any depth.
fn has_content(value: &Option<Value>) -> bool {
    fn says_anything(value: &Value) -> bool {
        match value {
            Value::Null => false,
            Value::Bool(value) => *value,
            Value::Number(_) => true,
            Value::String(text) => !text.is_empty(),
            Value::Array(values) => values.iter().any(says_anything),
            Value::Object(fields) => fields.values().any(says_anything),
        }
    }
    value.as_ref().is_some_and(says_anything)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restriction_that_the_agent_ignores_is_found() {
        for (body, expected) in [
            (r#"{"Name":"a","Capabilities":null}"#, None),
            (r#"{"Capabilities":{"EnabledTaskDrivers":null,"DisabledTaskDrivers":[]}}"#, None),
            (r#"{"Capabilities":{"EnabledTaskDrivers":["exec"]}}"#, Some("Capabilities")),
            (r#"{"NodePoolConfiguration":{"Default":"gpu"}}"#, Some("NodePoolConfiguration")),
            (r#"{"Quota":"small"}"#, Some("Quota")),
        ] {
            let document: NamespaceDocument = serde_json::from_str(body).unwrap();
            assert_eq!(document.unsupported_field(), expected, "{body}");
        }
    }
}
