//! The rules of an ACL policy, and what they grant.
//!
//! A server enforces them and a client predicts them with these functions, so they cannot differ. Unknown words grant
//! nothing; a server refuses to store them ([`checked_acl_policy`]). Coarse policies (`policy = "read"`) become the
//! capabilities that they include. HCL and JSON mean the same; labels in HCL are keys in JSON. The rules of a namespace
//! come from its own label or from the closest pattern alone, and `deny` overrides what stands beside it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::tree::{Entry, Node, Object, Value};
use super::{hcl, json};
use nomad_csi_model::Namespace;
use nomad_csi_model::diagnostic::{Diagnostics, SourceMap};

/// The capabilities in a namespace that a policy can name.
const NAMESPACE_CAPABILITIES: [&str; 27] = [
    "alloc-exec",
    "alloc-lifecycle",
    "alloc-node-exec",
    "csi-list-volume",
    "csi-mount-volume",
    "csi-read-volume",
    "csi-register-plugin",
    "csi-write-volume",
    "deny",
    "dispatch-job",
    "host-volume-create",
    "host-volume-delete",
    "host-volume-read",
    "host-volume-register",
    "host-volume-write",
    "list-jobs",
    "list-scaling-policies",
    "parse-job",
    "read-fs",
    "read-job",
    "read-job-scaling",
    "read-logs",
    "read-scaling-policy",
    "scale-job",
    "sentinel-override",
    "submit-job",
    "submit-recommendation",
];

/// The capabilities on variables.
/// The capabilities on host volumes.
const HOST_VOLUME_CAPABILITIES: [&str; 3] = ["deny", "mount-readonly", "mount-readwrite"];

/// The capabilities on variables.
const VARIABLE_CAPABILITIES: [&str; 5] = ["deny", "destroy", "list", "read", "write"];

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
    /// The level for the cluster itself.
    pub operator: Option<AclLevel>,
    /// Capabilities on host volumes, by name or by a pattern with `*`.
    pub host_volumes: BTreeMap<String, BTreeSet<String>>,
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

/// Returns the capabilities of `policy = WORD` in a namespace; `None` if it is no such word.
fn capabilities_of_level(word: &str) -> Option<&'static [&'static str]> {
    match word {
        "deny" => Some(&["deny"]),
        "read" => Some(&[
            "list-jobs",
            "parse-job",
            "read-job",
            "csi-list-volume",
            "csi-read-volume",
            "read-job-scaling",
            "list-scaling-policies",
            "read-scaling-policy",
            "host-volume-read",
        ]),
        "write" => Some(&[
            "list-jobs",
            "parse-job",
            "read-job",
            "csi-list-volume",
            "csi-read-volume",
            "read-job-scaling",
            "list-scaling-policies",
            "read-scaling-policy",
            "host-volume-read",
            "scale-job",
            "submit-job",
            "dispatch-job",
            "read-logs",
            "read-fs",
            "alloc-exec",
            "alloc-lifecycle",
            "csi-mount-volume",
            "csi-write-volume",
            "submit-recommendation",
            "host-volume-create",
            "host-volume-register",
            "host-volume-write",
            "host-volume-delete",
        ]),
        // Nomad before 2.0 does not grant `read-job`.
        "scale" => Some(&[
            "list-scaling-policies",
            "read-job",
            "read-job-scaling",
            "read-scaling-policy",
            "scale-job",
        ]),
        _ => None,
    }
}

/// Parses rules, in HCL or JSON. What is not known grants nothing.
///
/// # Errors
/// If the rules are neither; no server stores such rules.
pub fn acl_policy(rules: &str) -> Result<AclPolicy, String> {
    Ok(read(rules)?.policy)
}

/// Parses rules that are to be stored: every word must be known, and the rules must say something.
///
/// # Errors
/// Says what is wrong, if they are neither HCL nor JSON, are empty, or have a word that grants nothing.
pub fn checked_acl_policy(rules: &str) -> Result<AclPolicy, String> {
    let read = read(rules)?;
    if let Some(problem) = read.problems.into_iter().next() {
        return Err(problem);
    }
    if read.rules == 0 {
        return Err("the policy has no rule".to_owned());
    }
    Ok(read.policy)
}

/// A policy while it is read.
#[derive(Default)]
struct PolicyReader {
    policy: AclPolicy,
    /// What is not known, in the order of the text.
    problems: Vec<String>,
    /// How many rules there are, also of a kind that grants nothing here.
    rules: usize,
}

fn read(rules: &str) -> Result<PolicyReader, String> {
    let (mut sources, mut diagnostics) = (SourceMap::default(), Diagnostics::default());
    let source = sources.add("rules", rules);
    let parsed = if rules.trim_start().starts_with('{') {
        json::parse(rules, source, &mut diagnostics)
    } else {
        hcl::parse(rules, source, &mut diagnostics)
    };
    let document = parsed.map_err(|problem| problem.message)?;
    let mut reader = PolicyReader::default();
    if diagnostics.has_errors() {
        let messages = diagnostics.iter().map(|problem| problem.message.clone());
        reader.problems.extend(messages);
    }
    for entry in &document.entries {
        reader.rule(entry);
    }
    Ok(reader)
}

impl PolicyReader {
    fn rule(&mut self, entry: &Entry<'_>) {
        self.rules += 1;
        let levels: &[&str] = match &*entry.key.text {
            "plugin" => &["list", "read", "write", "deny"],
            "agent" | "node" | "operator" | "quota" => &["read", "write", "deny"],
            "namespace" => {
                let problems = labelled(entry, |label, object| self.namespace(label, object));
                return self.problems.extend(problems);
            }
            "host_volume" => {
                let problems = labelled(entry, |label, object| self.host_volume(label, object));
                return self.problems.extend(problems);
            }
            // Pools cannot be changed here, and Nomad's policies name them.
            "node_pool" => {
                let problems = labelled(entry, |_, _| {});
                return self.problems.extend(problems);
            }
            unknown => return self.problems.push(format!("`{unknown}` is not a rule of a policy")),
        };
        let kind = &*entry.key.text;
        let word = match level_word(entry) {
            Ok(word) => word,
            Err(problem) => return self.problems.push(problem),
        };
        if !levels.contains(&word) {
            let known = levels.join("`, `");
            let problem = format!("`{kind}` has the policy `{word}`: `{known}` are known");
            return self.problems.push(problem);
        }
        let level = AclLevel::parse(word);
        match kind {
            "plugin" => raise_level(&mut self.policy.plugin, level),
            "agent" => raise_level(&mut self.policy.agent, level),
            "node" => raise_level(&mut self.policy.node, level),
            "operator" => raise_level(&mut self.policy.operator, level),
            _ => {}
        }
    }

    fn host_volume(&mut self, label: &str, object: &Object<'_>) {
        let words = self.policy.host_volumes.entry(label.to_owned()).or_default();
        for entry in &object.entries {
            match &*entry.key.text {
                "policy" => match text(&entry.value).unwrap_or_default() {
                    "deny" => drop(words.insert("deny".to_owned())),
                    "read" => drop(words.insert("mount-readonly".to_owned())),
                    "write" => {
                        words.extend(["mount-readonly", "mount-readwrite"].map(str::to_owned));
                    }
                    word => self.problems.push(format!(
                        "host volume `{label}` has the policy `{word}`: `read`, `write`, `deny` are known"
                    )),
                },
                "capabilities" => {
                    let listed = texts(&entry.value, label, &HOST_VOLUME_CAPABILITIES);
                    words.extend(listed.0);
                    self.problems.extend(listed.1);
                }
                unknown => self.problems.push(format!(
                    "host volume `{label}` has `{unknown}`: `policy`, `capabilities` are known"
                )),
            }
        }
    }

    fn namespace(&mut self, label: &str, object: &Object<'_>) {
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '*');
        if !(1..=128).contains(&label.len()) || !label.chars().all(is_allowed) {
            self.problems.push(format!(
                "`{label}` is not a namespace: it must have 1 to 128 letters, digits, `-` and `*`"
            ));
        }
        let rules = self.policy.namespaces.entry(label.to_owned()).or_default();
        for entry in &object.entries {
            match &*entry.key.text {
                "policy" => {
                    let word = text(&entry.value).unwrap_or_default();
                    match capabilities_of_level(word) {
                        Some(words) => rules.capabilities.extend(words.iter().map(ToString::to_string)),
                        None => self.problems.push(format!(
                            "namespace `{label}` has the policy `{word}`: `read`, `write`, `scale`, `deny` are known"
                        )),
                    }
                }
                "capabilities" => {
                    let listed = texts(&entry.value, label, &NAMESPACE_CAPABILITIES);
                    rules.capabilities.extend(listed.0);
                    self.problems.extend(listed.1);
                }
                "variables" => self.problems.extend(variables(rules, entry)),
                unknown => self.problems.push(format!(
                    "namespace `{label}` has `{unknown}`: `policy`, `capabilities`, `variables` are known"
                )),
            }
        }
    }
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
        for (label, words) in other.host_volumes {
            self.host_volumes.entry(label).or_default().extend(words);
        }
        raise_level(&mut self.plugin, other.plugin);
        raise_level(&mut self.agent, other.agent);
        raise_level(&mut self.node, other.node);
        raise_level(&mut self.operator, other.operator);
        self
    }

    /// Returns whether one of these capabilities is granted in a namespace, or for [`Namespace::ALL`] in any.
    pub fn has_any(&self, namespace: &Namespace, capabilities: &[&str]) -> bool {
        if namespace.as_str() == Namespace::ALL {
            return self.namespaces.values().any(|own| own.has_any(capabilities));
        }
        let label = closest(self.namespaces.keys(), namespace.as_str());
        label.is_some_and(|label| self.namespaces[label].has_any(capabilities))
    }

    /// Returns whether anything at all is granted in a namespace.
    pub fn enters(&self, namespace: &Namespace) -> bool {
        let label = closest(self.namespaces.keys(), namespace.as_str());
        label.is_some_and(|label| {
            let own = &self.namespaces[label];
            let grants = |words: &BTreeSet<String>| !words.contains("deny") && !words.is_empty();
            grants(&own.capabilities) || own.variables.values().any(grants)
        })
    }

    /// Returns whether a capability is granted on the variable at a path. `*` also matches `/`, and the closest rule wins.
    pub fn has_variable(&self, namespace: &Namespace, path: &str, capability: &str) -> bool {
        let labels = self.namespaces.iter();
        let labels = labels.filter(|(label, _)| matches(label, namespace.as_str()));
        let rules = labels.flat_map(|(label, own)| {
            let paths = own.variables.iter().filter(|(rule, _)| matches(rule, path));
            paths.map(move |(rule, words)| ((label, rule), words))
        });
        let closest = rules.min_by_key(|((label, rule), _)| {
            let is_other = label.as_str() != namespace.as_str() || rule.as_str() != path;
            let distance = distance(label, namespace.as_str()) + distance(rule, path);
            (is_other, distance, Reverse((*label, *rule)))
        });
        let Some((_, words)) = closest else {
            return false;
        };
        let reads = capability == "list" && words.contains("read");
        !words.contains("deny") && (words.contains(capability) || reads)
    }

    /// Returns the rules of variables, by path, of every label that matches a namespace.
    pub fn variable_rules(
        &self,
        namespace: &Namespace,
    ) -> impl Iterator<Item = (&String, &BTreeSet<String>)> {
        let labels = self.namespaces.iter();
        let matching = labels.filter(|(label, _)| matches(label, namespace.as_str()));
        matching.flat_map(|(_, own)| &own.variables)
    }

    /// Returns whether a host volume may be mounted.
    pub fn mounts_host_volume(&self, name: &str, read_only: bool) -> bool {
        let Some(label) = closest(self.host_volumes.keys(), name) else {
            return false;
        };
        let words = &self.host_volumes[label];
        let reads = read_only && words.contains("mount-readonly");
        !words.contains("deny") && (reads || words.contains("mount-readwrite"))
    }

    /// Returns whether plugins may be listed.
    pub fn lists_plugins(&self) -> bool {
        matches!(self.plugin, Some(AclLevel::List | AclLevel::Read))
    }

    /// Returns whether plugins may be read. `write` does not grant it.
    pub fn reads_plugins(&self) -> bool {
        self.plugin == Some(AclLevel::Read)
    }
}

impl NamespaceRules {
    /// Returns whether one of these capabilities is granted.
    pub fn has_any(&self, capabilities: &[&str]) -> bool {
        let words = &self.capabilities;
        !words.contains("deny") && capabilities.iter().any(|word| words.contains(*word))
    }
}

/// Returns the label itself, or the matching pattern with the smallest difference; of equal ones the last, as Nomad does.
fn closest<'l>(labels: impl Iterator<Item = &'l String>, name: &str) -> Option<&'l String> {
    let matching = labels.filter(|label| matches(label, name));
    matching.min_by_key(|label| (label.as_str() != name, distance(label, name), Reverse(*label)))
}

/// How many characters of a name a pattern leaves open.
fn distance(label: &str, name: &str) -> usize {
    let stars = label.matches('*').count();
    (name.len() + stars).saturating_sub(label.len())
}

/// Returns whether a pattern with `*` matches a name.
fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else {
        return false;
    };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    true
}

fn raise_level(own: &mut Option<AclLevel>, other: Option<AclLevel>) {
    *own = (*own).max(other);
}

/// Reads the rules of variables, and returns what is not known.
fn variables(rules: &mut NamespaceRules, entry: &Entry<'_>) -> Vec<String> {
    let Value::Object(object) = &entry.value.value else {
        return vec!["`variables` is not a block".to_owned()];
    };
    let mut problems = vec![];
    for path in &object.entries {
        if path.key.text != "path" {
            problems.push(format!("`variables` has `{}`: `path` is known", path.key.text));
            continue;
        }
        let missing = labelled(path, |label, object| {
            let capabilities = rules.variables.entry(label.to_owned()).or_default();
            for list in &object.entries {
                if list.key.text != "capabilities" {
                    let key = &list.key.text;
                    problems.push(format!("path `{label}` has `{key}`: `capabilities` is known"));
                    continue;
                }
                let listed = texts(&list.value, label, &VARIABLE_CAPABILITIES);
                capabilities.extend(listed.0);
                problems.extend(listed.1);
            }
        });
        problems.extend(missing);
    }
    problems
}

/// `key "label" { … }`, or `"key": {"label": {…}}`. Returns what is wrong with the form.
fn labelled(entry: &Entry<'_>, mut see: impl FnMut(&str, &Object<'_>)) -> Option<String> {
    let key = &entry.key.text;
    let Value::Object(object) = &entry.value.value else {
        return Some(format!("`{key}` is not a block with a name"));
    };
    if let [label] = &entry.labels[..] {
        see(&label.text, object);
        return None;
    }
    if !entry.labels.is_empty() {
        return Some(format!("a `{key}` has more than one name"));
    }
    let mut problem = None;
    for inner in &object.entries {
        match &inner.value.value {
            Value::Object(object) => see(&inner.key.text, object),
            Value::Null
            | Value::Invalid
            | Value::Reference(_)
            | Value::Unknown
            | Value::Expression(_)
            | Value::Scalar(_)
            | Value::List(_) => problem = Some(format!("a `{key}` has no name")),
        }
    }
    problem
}

/// The word of a block that has one policy and nothing else.
fn level_word<'n>(entry: &'n Entry<'_>) -> Result<&'n str, String> {
    let kind = &entry.key.text;
    let Value::Object(object) = &entry.value.value else {
        return Err(format!("`{kind}` is not a block"));
    };
    if !entry.labels.is_empty() {
        return Err(format!("`{kind}` has a name, and is of all"));
    }
    match &object.entries[..] {
        [] => Ok(""),
        [policy] if policy.key.text == "policy" => Ok(text(&policy.value).unwrap_or_default()),
        [other] => Err(format!("`{kind}` has `{}`: `policy` is known", other.key.text)),
        _ => Err(format!("`{kind}` has more than one `policy`, or something else beside it")),
    }
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

/// Returns the words of a list, and what is wrong with it.
fn texts(node: &Node<'_>, of: &str, known: &[&str]) -> (Vec<String>, Vec<String>) {
    let not_words = || format!("the `capabilities` of `{of}` are not a list of texts");
    let Value::List(items) = &node.value else {
        return (vec![], vec![not_words()]);
    };
    let (mut words, mut problems) = (vec![], vec![]);
    for item in items {
        match text(item) {
            Some(word) => {
                if !known.contains(&word) {
                    problems
                        .push(format!("`{of}` has the capability `{word}`, which is not known"));
                }
                words.push(word.to_owned());
            }
            None => problems.push(not_words()),
        }
    }
    (words, problems)
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

    #[test]
    fn a_server_stores_only_what_it_knows() {
        for (rules, expected) in [
            ("", "the policy has no rule"),
            ("namespace \"a\" {", ""),
            ("nodes { policy = \"read\" }", "`nodes` is not a rule of a policy"),
            (
                "node { policy = \"list\" }",
                "`node` has the policy `list`: `read`, `write`, `deny` are known",
            ),
            ("node { }", "`node` has the policy ``: `read`, `write`, `deny` are known"),
            (
                "plugin { policy = \"all\" }",
                "`plugin` has the policy `all`: `list`, `read`, `write`, `deny` are known",
            ),
            ("namespace { policy = \"read\" }", "a `namespace` has no name"),
            (
                "namespace \"a b\" { policy = \"read\" }",
                "`a b` is not a namespace: it must have 1 to 128 letters, digits, `-` and `*`",
            ),
            (
                "namespace \"a\" { policy = \"list\" }",
                "namespace `a` has the policy `list`: `read`, `write`, `scale`, `deny` are known",
            ),
            (
                "namespace \"a\" { capabilities = [\"csi-write\"] }",
                "`a` has the capability `csi-write`, which is not known",
            ),
            (
                "namespace \"a\" { variable \"x\" { } }",
                "namespace `a` has `variable`: `policy`, `capabilities`, `variables` are known",
            ),
            (
                "namespace \"a\" { variables { path \"x\" { capabilities = [\"all\"] } } }",
                "`x` has the capability `all`, which is not known",
            ),
            (
                "namespace \"a\" { variables { path \"x\" { policy = \"read\" } } }",
                "path `x` has `policy`: `capabilities` is known",
            ),
        ] {
            let refused = checked_acl_policy(rules).expect_err(rules);
            assert!(refused == expected || expected.is_empty(), "{rules}: {refused}");
        }
        for rules in [
            "quota { policy = \"read\" }",
            "node_pool \"*\" { policy = \"write\" }",
            "host_volume \"x\" { policy = \"write\" }",
            "operator { policy = \"write\" }",
            "namespace \"*\" { policy = \"scale\" }",
            "namespace \"*\" { variables { path \"*\" { capabilities = [\"list\", \"deny\"] } } }",
        ] {
            assert_eq!(checked_acl_policy(rules), acl_policy(rules), "{rules}");
        }
    }

    #[test]
    fn a_token_enters_the_namespaces_in_which_it_may_do_anything() {
        let policy = acl_policy(
            r#"
            namespace "read" { policy = "read" }
            namespace "denied" { policy = "deny" }
            namespace "vars" { variables { path "a" { capabilities = ["list"] } } }
            namespace "none" { }
            namespace "team-*" { capabilities = ["csi-list-volume"] }
            "#,
        )
        .unwrap();
        let names = ["read", "denied", "vars", "none", "team-a", "team", "other"];
        let entered = names.into_iter().filter(|name| policy.enters(&Namespace::new(*name)));
        assert_eq!(entered.collect::<Vec<_>>(), ["read", "vars", "team-a"]);
    }

    /// What is dropped without a word could be a `deny`.
    #[test]
    fn nothing_of_a_policy_is_dropped_without_a_word() {
        for rules in [
            "namespace \"a\" { policy = \"write\"\n capabilities = [deny] }",
            "namespace \"a\" { policy = \"write\"\n capabilities = \"deny\" }",
            "namespace \"a\" { policy = \"write\"\n capabilities = concat([\"deny\"], []) }",
            "namespace \"a\" \"b\" { policy = \"deny\" }",
            "node {\n policy = \"write\"\n policy = \"deny\"\n}",
            "operator {\n policy = \"write\"\n capabilities = [\"deny\"]\n}",
            "node \"n1\" { policy = \"write\" }",
            "host_volume \"a\" { policy = \"all\" }",
            "host_volume \"a\" { capabilities = [\"mount\"] }",
            "host_volume { policy = \"deny\" }",
        ] {
            assert!(checked_acl_policy(rules).is_err(), "{rules}");
        }
    }

    /// Of patterns that differ equally the last one decides, as in Nomad.
    #[test]
    fn of_equally_close_patterns_the_last_decides() {
        let policy = acl_policy(
            r#"
            namespace "*prod" {
              policy = "write"
              variables { path "a*" { capabilities = ["write"] } }
            }
            namespace "team*" { policy = "deny" }
            namespace "x" { variables {
              path "a/*" { capabilities = ["deny"] }
              path "*/b" { capabilities = ["write"] }
            } }
            "#,
        )
        .unwrap();
        let team = Namespace::new("team-prod");
        assert!(!policy.has_any(&team, &["csi-write-volume"]));
        assert!(policy.has_any(&Namespace::new("a-prod"), &["csi-write-volume"]));
        assert!(policy.has_variable(&team, "abc", "write"), "only one rule has the path");
        assert!(!policy.has_variable(&Namespace::new("x"), "a/b", "write"));
        assert!(policy.has_variable(&Namespace::new("x"), "c/b", "write"));
    }

    #[test]
    fn host_volumes_are_mounted_by_their_closest_rule() {
        let policy = acl_policy(
            r#"
            host_volume "*" { policy = "read" }
            host_volume "scratch-*" { policy = "write" }
            host_volume "scratch-secret" { policy = "deny" }
            "#,
        )
        .unwrap();
        for (name, read, write) in
            [("data", true, false), ("scratch-1", true, true), ("scratch-secret", false, false)]
        {
            assert_eq!(policy.mounts_host_volume(name, true), read, "{name}");
            assert_eq!(policy.mounts_host_volume(name, false), write, "{name}");
        }
        assert!(!AclPolicy::default().mounts_host_volume("data", true));
    }
}
