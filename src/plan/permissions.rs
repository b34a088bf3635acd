//! What each step needs of an ACL, what a token has, and what is missing.
//!
//! A server says "Permission denied" without saying what was missing, and says it in the middle of an
//! apply. Here it is known before: every call has its capabilities (`nomad-http-api` 2.10,
//! `nomad-neighbour-apis` 1.11 and 3.7), a token has what its policies grant together (3.5), and a
//! namespace's rules are those of its own label or of the closest pattern (3.6). Where what a token may
//! do cannot be known (a workload's identity), nothing is predicted.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::action::{Action, Plan, ReplaceSteps};
use crate::diagnostic::{Code, Diagnostic};
use crate::model::{Namespace, SetName};
use crate::spec::{AclLevel, AclPolicy};

/// A capability of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum VolumeCapability {
    /// Listing volumes.
    List,
    /// Reading one.
    Read,
    /// Creating, registering, changing, removing.
    Write,
    /// Detaching from a node.
    Mount,
}

impl VolumeCapability {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::List, Self::Read, Self::Write, Self::Mount];

    /// The smallest capability that gives it: `csi-read-volume`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::List => "csi-list-volume",
            Self::Read => "csi-read-volume",
            Self::Write => "csi-write-volume",
            Self::Mount => "csi-mount-volume",
        }
    }

    /// Everything that gives it (`nomad-http-api` 2.10).
    const fn given_by(self) -> &'static [&'static str] {
        match self {
            Self::List => &[
                "csi-list-volume",
                "csi-read-volume",
                "csi-mount-volume",
                "list-jobs",
            ],
            Self::Read => &["csi-read-volume", "csi-mount-volume", "read-job"],
            Self::Write => &["csi-write-volume"],
            Self::Mount => &["csi-mount-volume"],
        }
    }
}

/// Something that a token must be allowed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Permission {
    /// A capability on the volumes of a namespace.
    Volumes(Namespace, VolumeCapability),
    /// A capability (`list`, `read`, `write`, `destroy`) on the variables below a path.
    Variables(Namespace, String, &'static str),
    /// Listing plugins.
    ListPlugins,
    /// Reading plugins; every write of a volume needs it too.
    ReadPlugins,
    /// Asking an agent for its version.
    ReadAgent,
}

impl std::fmt::Display for Permission {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Volumes(namespace, capability) => {
                write!(f, "{} in namespace {namespace}", capability.as_str())
            }
            Self::Variables(namespace, path, capability) => {
                write!(
                    f,
                    "{capability} on variables {path} in namespace {namespace}"
                )
            }
            Self::ListPlugins => f.write_str("plugin list"),
            Self::ReadPlugins => f.write_str("plugin read"),
            Self::ReadAgent => f.write_str("agent read"),
        }
    }
}

/// What is done that needs a permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// Reading what is there: every plan.
    Observe,
    /// Listing what is there.
    List,
    /// Creating a volume, registering or changing one, making it larger.
    Write,
    /// Removing a registration.
    Deregister,
    /// Deleting data.
    Delete,
    /// Taking or deleting a snapshot.
    Snapshot,
    /// Detaching from a node.
    Detach,
}

impl Step {
    /// As it stands in a list: "reading volumes".
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Observe => "reading volumes",
            Self::List => "listing volumes",
            Self::Write => "creating, registering and changing volumes",
            Self::Deregister => "deregistering volumes",
            Self::Delete => "deleting data",
            Self::Snapshot => "taking snapshots",
            Self::Detach => "detaching volumes",
        }
    }

    /// What it needs in a namespace (`nomad-http-api` 2.10).
    pub fn needs(self, namespace: &Namespace) -> Vec<Permission> {
        let on = |capability| Permission::Volumes(namespace.clone(), capability);
        match self {
            Self::Observe => vec![on(VolumeCapability::Read), Permission::ReadPlugins],
            Self::List => vec![on(VolumeCapability::List)],
            Self::Deregister => vec![on(VolumeCapability::Write)],
            Self::Write | Self::Delete | Self::Snapshot => {
                vec![on(VolumeCapability::Write), Permission::ReadPlugins]
            }
            Self::Detach => vec![on(VolumeCapability::Mount), Permission::ReadPlugins],
        }
    }
}

/// Where a ledger is kept in variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerPlace {
    /// In this namespace.
    pub namespace: Namespace,
    /// For this set.
    pub set: SetName,
}

/// Permissions, each with what it is for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs(BTreeMap<Permission, BTreeSet<&'static str>>);

impl Needs {
    /// Adds what a step needs in a namespace.
    pub fn add(&mut self, step: Step, namespace: &Namespace) {
        for permission in step.needs(namespace) {
            self.0.entry(permission).or_default().insert(step.as_str());
        }
    }

    /// Adds what keeping a ledger needs: `nomad-csi/sets/<set>/…`, its lock among them.
    pub fn add_ledger(&mut self, place: &LedgerPlace) {
        let path = format!("nomad-csi/sets/{}/*", place.set);
        for capability in ["destroy", "list", "read", "write"] {
            let on = Permission::Variables(place.namespace.clone(), path.clone(), capability);
            self.0.entry(on).or_default().insert("keeping the ledger");
        }
    }

    /// What a plan needs to be carried out: what it read is read again, and each action is done.
    pub fn of_plan(plan: &Plan, ledger: Option<&LedgerPlace>) -> Self {
        let mut needs = Self::default();
        for planned in &plan.volumes {
            let namespace = &planned.key.namespace;
            let steps: &[Step] = match &planned.action {
                Action::Unchanged | Action::Waits(_) | Action::Blocked(_) => &[],
                Action::Create(_) | Action::Register(_) | Action::Update(_) | Action::Expand(_) => {
                    &[Step::Write]
                }
                Action::Replace(replace) => match (replace.steps, replace.snapshot_first) {
                    (ReplaceSteps::DeregisterThenRegister, false) => {
                        &[Step::Deregister, Step::Write]
                    }
                    (ReplaceSteps::DeregisterThenRegister, true) => {
                        &[Step::Snapshot, Step::Deregister, Step::Write]
                    }
                    (ReplaceSteps::DeleteThenCreate, false) => &[Step::Delete, Step::Write],
                    (ReplaceSteps::DeleteThenCreate, true) => {
                        &[Step::Snapshot, Step::Delete, Step::Write]
                    }
                },
                Action::Deregister => &[Step::Deregister],
                Action::DeleteData => &[Step::Delete],
            };
            needs.add(Step::Observe, namespace);
            steps.iter().for_each(|step| needs.add(*step, namespace));
        }
        if let Some(place) = ledger {
            needs.add_ledger(place);
        }
        needs
    }

    /// All of them, each with what it is for.
    pub fn iter(&self) -> impl Iterator<Item = (&Permission, &BTreeSet<&'static str>)> {
        self.0.iter()
    }

    /// Those that are not granted; none if that cannot be known.
    pub fn missing(&self, grants: &Grants) -> Self {
        let missing = self
            .0
            .iter()
            .filter(|(one, _)| grants.allows(one) == Some(false));
        Self(
            missing
                .map(|(one, why)| (one.clone(), why.clone()))
                .collect(),
        )
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The smallest policy that grants all of them, to be pasted.
    pub fn policy(&self) -> String {
        let mut namespaces: BTreeMap<&Namespace, OfNamespace<'_>> = BTreeMap::new();
        let mut rest = String::new();
        let reads = self.0.contains_key(&Permission::ReadPlugins);
        for permission in self.0.keys() {
            match permission {
                Permission::Volumes(namespace, capability) => {
                    let own = namespaces.entry(namespace).or_default();
                    own.capabilities.insert(capability.as_str());
                }
                Permission::Variables(namespace, path, capability) => {
                    let own = namespaces.entry(namespace).or_default();
                    own.variables.entry(path).or_default().insert(capability);
                }
                Permission::ListPlugins if reads => {}
                Permission::ListPlugins => rest += "plugin {\n  policy = \"list\"\n}\n",
                Permission::ReadPlugins => rest += "plugin {\n  policy = \"read\"\n}\n",
                Permission::ReadAgent => rest += "agent {\n  policy = \"read\"\n}\n",
            }
        }
        let blocks = namespaces.iter().map(|(name, own)| own.block(name));
        blocks.chain((!rest.is_empty()).then_some(rest)).collect()
    }
}

#[derive(Default)]
struct OfNamespace<'n> {
    capabilities: BTreeSet<&'static str>,
    variables: BTreeMap<&'n str, BTreeSet<&'static str>>,
}

impl OfNamespace<'_> {
    fn block(&self, namespace: &Namespace) -> String {
        let list = |words: &BTreeSet<&str>| {
            let quoted: Vec<_> = words.iter().map(|word| format!("\"{word}\"")).collect();
            quoted.join(", ")
        };
        let mut out = format!("namespace \"{namespace}\" {{\n");
        if !self.capabilities.is_empty() {
            let _ = writeln!(out, "  capabilities = [{}]", list(&self.capabilities));
        }
        if !self.variables.is_empty() {
            out += "  variables {\n";
            for (path, words) in &self.variables {
                let _ = writeln!(
                    out,
                    "    path \"{path}\" {{\n      capabilities = [{}]\n    }}",
                    list(words)
                );
            }
            out += "  }\n";
        }
        out + "}\n"
    }
}

/// What a token may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Grants {
    /// Everything: a management token, or a server that asks nobody.
    Everything,
    /// What its policies grant together.
    Rules(AclPolicy),
    /// It cannot be known.
    Unknown,
}

impl Grants {
    /// What these policies grant together.
    pub fn of(policies: impl IntoIterator<Item = AclPolicy>) -> Self {
        Self::Rules(
            policies
                .into_iter()
                .fold(AclPolicy::default(), AclPolicy::merged),
        )
    }

    /// Whether that is allowed; `None` if it cannot be known.
    pub fn allows(&self, permission: &Permission) -> Option<bool> {
        match self {
            Self::Everything => Some(true),
            Self::Rules(rules) => Some(granted(rules, permission)),
            Self::Unknown => None,
        }
    }
}

impl Grants {
    /// Whether the volumes of every namespace can be listed, also of those that the token cannot even
    /// see: there is a rule for all namespaces, and none of a closer name that takes it away. `None`
    /// if it cannot be known. Nomad 2.0.5 lists with `*` all namespaces to whoever may list in one
    /// (`nomad-http-api` 2.10); what deletes data does not rely on that.
    pub fn lists_every_namespace(&self) -> Option<bool> {
        match self {
            Self::Everything => Some(true),
            Self::Unknown => None,
            Self::Rules(rules) => {
                let mut labels = rules.namespaces.keys();
                let lists = |label: &String| {
                    let namespace = &rules.namespaces[label];
                    gives(&namespace.capabilities, VolumeCapability::List)
                };
                Some(rules.namespaces.contains_key(Namespace::ALL) && labels.all(lists))
            }
        }
    }
}

/// Why a token cannot do what is needed, with the smallest policy that grants all of it; `None` if
/// nothing is known to be missing.
pub fn missing_permissions(needs: &Needs, grants: &Grants) -> Option<Diagnostic> {
    let missing = needs.missing(grants);
    if missing.is_empty() {
        return None;
    }
    let count = match missing.0.len() {
        1 => "a permission".to_owned(),
        count => format!("{count} permissions"),
    };
    let message = format!("the token lacks {count}, so the server would refuse");
    let lines = missing.iter().map(|(permission, why)| {
        let why: Vec<_> = why.iter().copied().collect();
        format!("missing: {permission}, for {}", why.join(", "))
    });
    let diagnostic = Diagnostic::error(Code::AclMissingPermission, message);
    let diagnostic = lines.fold(diagnostic, Diagnostic::note);
    Some(diagnostic.help(format!(
        "give the token a policy with these rules, which grant all that is needed:\n{}",
        needs.policy().trim_end()
    )))
}

fn granted(rules: &AclPolicy, permission: &Permission) -> bool {
    match permission {
        Permission::Volumes(namespace, capability) => volumes(rules, namespace, *capability),
        Permission::Variables(namespace, path, capability) => {
            variables(rules, namespace, path, capability)
        }
        Permission::ListPlugins => matches!(rules.plugin, Some(AclLevel::List | AclLevel::Read)),
        Permission::ReadPlugins => rules.plugin == Some(AclLevel::Read),
        Permission::ReadAgent => matches!(rules.agent, Some(AclLevel::Read | AclLevel::Write)),
    }
}

fn gives(words: &BTreeSet<String>, capability: VolumeCapability) -> bool {
    let mut givers = capability.given_by().iter();
    !words.contains("deny") && givers.any(|word| words.contains(*word))
}

fn volumes(rules: &AclPolicy, namespace: &Namespace, capability: VolumeCapability) -> bool {
    let gives = |words: &BTreeSet<String>| gives(words, capability);
    if namespace.as_str() == Namespace::ALL {
        return rules
            .namespaces
            .values()
            .any(|own| gives(&own.capabilities));
    }
    let label = closest(rules.namespaces.keys(), namespace.as_str());
    label.is_some_and(|label| gives(&rules.namespaces[label].capabilities))
}

/// A rule of a path holds for what it matches, `*` across `/` too; of several, the closest (3.6).
fn variables(rules: &AclPolicy, namespace: &Namespace, path: &str, capability: &str) -> bool {
    let wanted = format!("{namespace}\0{path}");
    let all: BTreeMap<String, &BTreeSet<String>> = rules
        .namespaces
        .iter()
        .flat_map(|(label, own)| {
            let own = own.variables.iter();
            own.map(move |(path, words)| (format!("{label}\0{path}"), words))
        })
        .collect();
    let Some(words) = closest(all.keys(), &wanted).and_then(|key| all.get(key)) else {
        return false;
    };
    let reads = capability == "list" && words.contains("read");
    !words.contains("deny") && (words.contains(capability) || reads)
}

/// The label itself, else the matching pattern that differs the least.
fn closest<'l>(labels: impl Iterator<Item = &'l String>, name: &str) -> Option<&'l String> {
    let matching = labels.filter(|label| matches(label, name));
    matching.min_by_key(|label| {
        let stars = label.matches('*').count();
        let distance = (name.len() + stars).saturating_sub(label.len());
        (label.as_str() != name, distance)
    })
}

/// Whether a pattern with `*` stands for a name.
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

#[cfg(test)]
mod tests;
