//! Rules of an ACL policy, as far as volumes need them.
//!
//! Read as leniently as a server reads what it has stored: what is not known grants nothing
//! (`nomad-neighbour-apis` 3.4). Coarse words (`policy = "read"`) become the capabilities that they
//! stand for (3.5), so that nobody has to know both. HCL and JSON mean the same; labels of HCL are
//! keys in JSON.

use std::collections::{BTreeMap, BTreeSet};

use super::tree::{Entry, Node, Object, Value};
use super::{hcl, json};
use crate::diagnostic::{Diagnostics, SourceMap};

/// What the rules of one policy, or of several together, grant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AclPolicy {
    /// By namespace, or a pattern of namespaces with `*`.
    pub namespaces: BTreeMap<String, NamespaceRules>,
    /// On plugins.
    pub plugin: Option<AclLevel>,
    /// On agents.
    pub agent: Option<AclLevel>,
}

/// What is granted in a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamespaceRules {
    /// Capabilities by their words, those of a coarse word spelled out: `csi-write-volume`, `deny`.
    pub capabilities: BTreeSet<String>,
    /// Capabilities on variables, by path or pattern of paths.
    pub variables: BTreeMap<String, BTreeSet<String>>,
}

/// A coarse word. Of several policies the strongest holds, in this order (3.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AclLevel {
    /// Lists only.
    List,
    /// Reads.
    Read,
    /// Writes; on plugins it grants nothing, and hides a `read` of another policy.
    Write,
    /// Nothing, whatever else is said.
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

/// What `policy = WORD` stands for in a namespace, as far as volumes are concerned (3.5).
fn coarse(word: &str) -> &'static [&'static str] {
    match word {
        "deny" => &["deny"],
        "read" => &[
            "list-jobs",
            "read-job",
            "csi-list-volume",
            "csi-read-volume",
        ],
        "write" => &[
            "list-jobs",
            "read-job",
            "submit-job",
            "csi-list-volume",
            "csi-read-volume",
            "csi-mount-volume",
            "csi-write-volume",
        ],
        // Before Nomad 2.0 it is not: there such a token is refused what is foretold as granted.
        "scale" => &["read-job"],
        _ => &[],
    }
}

/// Reads rules, in HCL or JSON.
///
/// # Errors
/// If they are neither; a server stores no such rules.
pub fn acl_policy(rules: &str) -> Result<AclPolicy, String> {
    let (mut sources, mut said) = (SourceMap::default(), Diagnostics::default());
    let source = sources.add("rules", rules);
    let read = if rules.trim_start().starts_with('{') {
        json::parse(rules, source, &mut said)
    } else {
        hcl::parse(rules, source, &mut said)
    };
    let document = read.map_err(|problem| problem.message)?;
    let mut policy = AclPolicy::default();
    for entry in &document.entries {
        match &*entry.key.text {
            "namespace" => labelled(entry, |label, object| namespace(&mut policy, label, object)),
            "plugin" => stronger(&mut policy.plugin, level(entry)),
            "agent" => stronger(&mut policy.agent, level(entry)),
            _ => {}
        }
    }
    Ok(policy)
}

impl AclPolicy {
    /// Both together, as a server merges the policies of a token (3.5): capabilities are united, of
    /// coarse words the strongest holds.
    #[must_use]
    pub fn merged(mut self, other: Self) -> Self {
        for (label, rules) in other.namespaces {
            let own = self.namespaces.entry(label).or_default();
            own.capabilities.extend(rules.capabilities);
            for (path, capabilities) in rules.variables {
                own.variables.entry(path).or_default().extend(capabilities);
            }
        }
        stronger(&mut self.plugin, other.plugin);
        stronger(&mut self.agent, other.agent);
        self
    }
}

fn stronger(own: &mut Option<AclLevel>, other: Option<AclLevel>) {
    *own = (*own).max(other);
}

fn namespace(policy: &mut AclPolicy, label: &str, object: &Object<'_>) {
    let rules = policy.namespaces.entry(label.to_owned()).or_default();
    for entry in &object.entries {
        match &*entry.key.text {
            "policy" => {
                let words = text(&entry.value).map_or(&[][..], coarse);
                rules
                    .capabilities
                    .extend(words.iter().map(ToString::to_string));
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
            let lists = object
                .entries
                .iter()
                .filter(|one| one.key.text == "capabilities");
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
        | Value::Broken
        | Value::Reference(_)
        | Value::Unknown
        | Value::List(_)
        | Value::Object(_) => None,
    }
}

fn texts(node: &Node<'_>) -> Vec<String> {
    match &node.value {
        Value::List(items) => items.iter().filter_map(text).map(str::to_owned).collect(),
        Value::Null
        | Value::Broken
        | Value::Reference(_)
        | Value::Unknown
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
          capabilities = ["csi-write-volume", "unheard-of"]
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
    fn rules_mean_the_same_in_both_languages() {
        let json = r#"{
            "namespace": {"prod-*": {
                "policy": "read",
                "capabilities": ["csi-write-volume", "unheard-of", "deny"],
                "variables": {"path": {"nomad-csi/sets/*": {"capabilities": ["read", "write"]}}}
            }},
            "plugin": {"policy": "read"}, "agent": {"policy": "write"}
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
            (policy.plugin, policy.agent),
            (Some(AclLevel::Read), Some(AclLevel::Write))
        );
    }

    /// `nomad-neighbour-apis` 3.5: the plugin quirk too.
    #[test]
    fn of_coarse_words_the_strongest_holds() {
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
    fn what_is_no_policy_is_an_error_and_nothing_grants_nothing() {
        assert!(acl_policy("namespace \"a\" {").is_err());
        assert_eq!(acl_policy(""), Ok(AclPolicy::default()));
    }
}
