//! Parses the rules of an ACL policy, as far as volumes need them.
//!
//! Unknown rules grant nothing, as on a server. Coarse policies (`policy = "read"`) become the
//! capabilities that they include. HCL and JSON mean the same; labels in HCL are keys in JSON.

use std::collections::{BTreeMap, BTreeSet};

use super::tree::{Entry, Node, Object, Value};
use super::{hcl, json};
use nomad_csi_model::diagnostic::{Diagnostics, SourceMap};

/// The grants of one or more policies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AclPolicy {
    /// Rules by namespace, or by a pattern of namespaces with `*`.
    pub namespaces: BTreeMap<String, NamespaceRules>,
    /// The level for plugins.
    pub plugin: Option<AclLevel>,
    /// The level for agents.
    pub agent: Option<AclLevel>,
    /// The level for nodes.
    pub node: Option<AclLevel>,
}

/// The grants of a policy in a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamespaceRules {
    /// Capabilities, including those of a coarse policy: `csi-write-volume`, `deny`.
    pub capabilities: BTreeSet<String>,
    /// Capabilities on variables, by path or pattern of paths.
    pub variables: BTreeMap<String, BTreeSet<String>>,
}

/// A coarse policy, in ascending order. The highest level of several policies applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AclLevel {
    /// Lists.
    List,
    /// Reads.
    Read,
    /// Writes. For plugins it grants nothing, and overrides `read` of another policy.
    Write,
    /// Grants nothing, and overrides every other level.
    Deny,
}

impl AclLevel {
    fn parse(word: &str) -> Option<Self> {
        match word {
            "list" => Some(Self::List),
            "read" => Some(Self::Read),
            "write" => Some(Self::Write),
            "deny" => Some(Self::Deny),
            _ => None,
        }
    }
}

/// Returns the capabilities of `policy = WORD` in a namespace, as far as volumes need them.
fn capabilities_of_level(word: &str) -> &'static [&'static str] {
    match word {
        "deny" => &["deny"],
        "read" => &["list-jobs", "read-job", "csi-list-volume", "csi-read-volume"],
        "write" => &[
            "list-jobs",
            "read-job",
            "submit-job",
            "csi-list-volume",
            "csi-read-volume",
            "csi-mount-volume",
            "csi-write-volume",
        ],
        // Nomad before 2.0 does not grant it.
        "scale" => &["read-job"],
        _ => &[],
    }
}

/// Parses rules, in HCL or JSON.
///
/// # Errors
/// If the rules are neither; no server stores such rules.
pub fn acl_policy(rules: &str) -> Result<AclPolicy, String> {
    let (mut sources, mut diagnostics) = (SourceMap::default(), Diagnostics::default());
    let source = sources.add("rules", rules);
    let read = if rules.trim_start().starts_with('{') {
        json::parse(rules, source, &mut diagnostics)
    } else {
        hcl::parse(rules, source, &mut diagnostics)
    };
    let document = read.map_err(|problem| problem.message)?;
    let mut policy = AclPolicy::default();
    for entry in &document.entries {
        match &*entry.key.text {
            "namespace" => labelled(entry, |label, object| namespace(&mut policy, label, object)),
            "plugin" => raise_level(&mut policy.plugin, level(entry)),
            "agent" => raise_level(&mut policy.agent, level(entry)),
            "node" => raise_level(&mut policy.node, level(entry)),
            _ => {}
        }
    }
    Ok(policy)
}

impl AclPolicy {
    /// Merges two policies as a server does for a token: the union of the capabilities, and the
    /// higher level.
    #[must_use]
    pub fn merged(mut self, other: Self) -> Self {
        for (label, rules) in other.namespaces {
            let own = self.namespaces.entry(label).or_default();
            own.capabilities.extend(rules.capabilities);
            for (path, capabilities) in rules.variables {
                own.variables.entry(path).or_default().extend(capabilities);
            }
        }
        raise_level(&mut self.plugin, other.plugin);
        raise_level(&mut self.agent, other.agent);
        raise_level(&mut self.node, other.node);
        self
    }
}

fn raise_level(own: &mut Option<AclLevel>, other: Option<AclLevel>) {
    *own = (*own).max(other);
}

fn namespace(policy: &mut AclPolicy, label: &str, object: &Object<'_>) {
    let rules = policy.namespaces.entry(label.to_owned()).or_default();
    for entry in &object.entries {
        match &*entry.key.text {
            "policy" => {
                let words = text(&entry.value).map_or(&[][..], capabilities_of_level);
                rules.capabilities.extend(words.iter().map(ToString::to_string));
            }
            "capabilities" => rules.capabilities.extend(texts(&entry.value)),
            "variables" => variables(rules, entry),
            _ => {}
        }
    }
}

fn variables(rules: &mut NamespaceRules, entry: &Entry<'_>) {
    let Value::Object(object) = &entry.value.value else {
        return;
    };
    for path in object.entries.iter().filter(|one| one.key.text == "path") {
        labelled(path, |label, object| {
            let capabilities = rules.variables.entry(label.to_owned()).or_default();
            let lists = object.entries.iter().filter(|one| one.key.text == "capabilities");
            capabilities.extend(lists.flat_map(|list| texts(&list.value)));
        });
    }
}

/// `key "label" { … }`, or `"key": {"label": {…}}`.
fn labelled(entry: &Entry<'_>, mut see: impl FnMut(&str, &Object<'_>)) {
    let Value::Object(object) = &entry.value.value else {
        return;
    };
    if let [label] = &entry.labels[..] {
        return see(&label.text, object);
    }
    for inner in &object.entries {
        if let Value::Object(object) = &inner.value.value {
            see(&inner.key.text, object);
        }
    }
}

fn level(entry: &Entry<'_>) -> Option<AclLevel> {
    let Value::Object(object) = &entry.value.value else {
        return None;
    };
    let policy = object.entries.iter().find(|one| one.key.text == "policy")?;
    AclLevel::parse(text(&policy.value)?)
}

fn text<'n>(node: &'n Node<'_>) -> Option<&'n str> {
    match &node.value {
        Value::Scalar(scalar) => Some(&scalar.text),
        Value::Null
        | Value::Invalid
        | Value::Reference(_)
        | Value::Unknown
        | Value::Expression(_)
        | Value::List(_)
        | Value::Object(_) => None,
    }
}

fn texts(node: &Node<'_>) -> Vec<String> {
    match &node.value {
        Value::List(items) => items.iter().filter_map(text).map(str::to_owned).collect(),
        Value::Null
        | Value::Invalid
        | Value::Reference(_)
        | Value::Unknown
        | Value::Expression(_)
        | Value::Scalar(_)
        | Value::Object(_) => {
            vec![]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HCL: &str = r#"
        namespace "prod-*" {
          policy       = "read"
          capabilities = ["csi-write-volume", "made-up"]
          variables {
            path "nomad-csi/sets/*" {
              capabilities = ["read", "write"]
            }
          }
        }
        namespace "prod-*" { capabilities = ["deny"] }
        node { policy = "read" }
        plugin { policy = "read" }
        agent { policy = "write" }
    "#;

    #[test]
    fn hcl_and_json_mean_the_same() {
        let json = r#"{
            "namespace": {"prod-*": {
                "policy": "read",
                "capabilities": ["csi-write-volume", "made-up", "deny"],
                "variables": {"path": {"nomad-csi/sets/*": {"capabilities": ["read", "write"]}}}
            }},
            "plugin": {"policy": "read"}, "agent": {"policy": "write"}, "node": {"policy": "read"}
        }"#;
        let policy = acl_policy(HCL).unwrap();
        assert_eq!(acl_policy(json).unwrap(), policy);
        let rules = &policy.namespaces["prod-*"];
        for word in ["deny", "read-job", "csi-read-volume", "csi-write-volume"] {
            assert!(rules.capabilities.contains(word), "{word}");
        }
        assert!(!rules.capabilities.contains("csi-mount-volume"));
        assert_eq!(rules.variables["nomad-csi/sets/*"].len(), 2);
        assert_eq!(
            (policy.plugin, policy.agent, policy.node),
            (Some(AclLevel::Read), Some(AclLevel::Write), Some(AclLevel::Read))
        );
    }

    /// Includes `write` for plugins, which overrides `read`.
    #[test]
    fn the_highest_level_applies() {
        let of = |word: &str| acl_policy(&format!("plugin {{ policy = \"{word}\" }}")).unwrap();
        for (one, other, together) in [
            ("list", "read", AclLevel::Read),
            ("write", "read", AclLevel::Write),
            ("deny", "write", AclLevel::Deny),
        ] {
            assert_eq!(of(one).merged(of(other)).plugin, Some(together));
            assert_eq!(of(other).merged(of(one)).plugin, Some(together));
        }
        assert_eq!(of("scale").plugin, None);
    }

    #[test]
    fn an_invalid_policy_is_an_error_and_an_empty_one_grants_nothing() {
        assert!(acl_policy("namespace \"a\" {").is_err());
        assert_eq!(acl_policy(""), Ok(AclPolicy::default()));
    }
}
