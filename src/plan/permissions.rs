//! The ACL permissions that each operation requires, and those that a token lacks.
//!
//! Nomad returns "Permission denied" without the missing permission, possibly in the middle of an
//! apply. This module predicts it before the first call. A token has everything that its policies
//! grant together. The rules of a namespace come from its own label or from the closest pattern. If a
//! token's permissions are unknown, as for a workload identity, nothing is predicted.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::action::{Action, Plan, ReplaceSteps};
use nomad_csi_model::diagnostic::{Code, Diagnostic};
use nomad_csi_model::{Namespace, SecretRef, SecretRefs, SetName, UnresolvedRequest};
use nomad_csi_spec::{AclLevel, AclPolicy};

/// A namespace capability for CSI volumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AclVolumeCapability {
    /// List volumes.
    List,
    /// Read a volume.
    Read,
    /// Create, register, update and remove volumes.
    Write,
    /// Detach a volume from a node.
    Mount,
    /// Read the allocations that may use a volume without a claim.
    ReadJobs,
}

impl AclVolumeCapability {
    /// All capabilities.
    pub const ALL: [Self; 5] = [Self::List, Self::Read, Self::Write, Self::Mount, Self::ReadJobs];

    /// Its name in a policy: `csi-read-volume`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::List => "csi-list-volume",
            Self::Read => "csi-read-volume",
            Self::Write => "csi-write-volume",
            Self::Mount => "csi-mount-volume",
            Self::ReadJobs => "read-job",
        }
    }

    /// Returns the names in a policy that grant it.
    pub const fn granted_by(self) -> &'static [&'static str] {
        match self {
            Self::List => &["csi-list-volume", "csi-read-volume", "csi-mount-volume", "list-jobs"],
            Self::Read => &["csi-read-volume", "csi-mount-volume", "read-job"],
            Self::Write => &["csi-write-volume"],
            Self::Mount => &["csi-mount-volume"],
            Self::ReadJobs => &["read-job"],
        }
    }
}

/// A permission of a token.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Permission {
    /// A capability on the volumes of a namespace.
    Volumes(Namespace, AclVolumeCapability),
    /// A capability (`list`, `read`, `write`, `destroy`) on the variables below a path.
    Variables(Namespace, String, &'static str),
    /// List plugins.
    ListPlugins,
    /// Read plugins; every write of a volume also requires it.
    ReadPlugins,
    /// Read nodes: tasks may write on one that is away.
    ReadNodes,
    /// Read the agent's configuration, for its version. Without it, plans follow the rules of the
    /// strictest version.
    ReadAgent,
}

impl Permission {
    /// Returns whether commands work without it.
    pub fn is_optional(&self) -> bool {
        matches!(self, Self::ReadAgent)
    }
}

impl std::fmt::Display for Permission {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Volumes(namespace, capability) => {
                write!(f, "{} in namespace {namespace}", capability.as_str())
            }
            Self::Variables(namespace, path, capability) => {
                write!(f, "{capability} on variables {path} in namespace {namespace}")
            }
            Self::ListPlugins => f.write_str("plugin list"),
            Self::ReadPlugins => f.write_str("plugin read"),
            Self::ReadNodes => f.write_str("node read"),
            Self::ReadAgent => f.write_str("agent read"),
        }
    }
}

/// An operation that requires permissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AclOperation {
    /// Read volumes and plugins, as every plan does.
    Observe,
    /// List volumes.
    List,
    /// Create, register, update or expand a volume.
    Write,
    /// Remove a registration.
    Deregister,
    /// Delete data.
    Delete,
    /// Take or delete a snapshot.
    Snapshot,
    /// Detach a volume from a node.
    Detach,
}

impl AclOperation {
    /// Describes the operation in a list: "reading volumes".
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Observe => "reading volumes",
            Self::List => "listing volumes",
            Self::Write => "creating, registering and updating volumes",
            Self::Deregister => "deregistering volumes",
            Self::Delete => "deleting data",
            Self::Snapshot => "taking snapshots",
            Self::Detach => "detaching volumes",
        }
    }

    /// Returns the permissions that it requires in a namespace.
    pub fn permissions(self, namespace: &Namespace) -> Vec<Permission> {
        let on = |capability| Permission::Volumes(namespace.clone(), capability);
        match self {
            Self::Observe => vec![on(AclVolumeCapability::Read), Permission::ReadPlugins],
            Self::List => vec![on(AclVolumeCapability::List)],
            Self::Deregister => vec![on(AclVolumeCapability::Write)],
            Self::Write | Self::Snapshot => {
                vec![on(AclVolumeCapability::Write), Permission::ReadPlugins]
            }
            Self::Delete => vec![
                on(AclVolumeCapability::Write),
                on(AclVolumeCapability::ReadJobs),
                Permission::ReadPlugins,
                Permission::ReadNodes,
            ],
            Self::Detach => vec![on(AclVolumeCapability::Mount), Permission::ReadPlugins],
        }
    }
}

/// The location of a ledger in Nomad variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerLocation {
    /// The namespace.
    pub namespace: Namespace,
    /// The set.
    pub set: SetName,
}

/// Required permissions, each with the operations that need it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequiredPermissions(BTreeMap<Permission, BTreeSet<&'static str>>);

impl RequiredPermissions {
    /// Adds the permissions of an operation in a namespace.
    pub fn add(&mut self, operation: AclOperation, namespace: &Namespace) {
        for permission in operation.permissions(namespace) {
            self.0.entry(permission).or_default().insert(operation.as_str());
        }
    }

    /// Adds the permissions to read the variables that the secrets of a request refer to.
    pub fn add_secrets(&mut self, request: &UnresolvedRequest) {
        for (_, reference) in request.secrets.iter().flat_map(SecretRefs::iter) {
            let SecretRef::NomadVar { path, .. } = reference else {
                continue;
            };
            let on = Permission::Variables(request.namespace.clone(), path.clone(), "read");
            self.0.entry(on).or_default().insert("reading secrets");
        }
    }

    /// Adds the permission to read the server's version, which is optional.
    pub fn add_version(&mut self) {
        let why = "knowing the server's version (optional)";
        self.0.entry(Permission::ReadAgent).or_default().insert(why);
    }

    /// Adds the permissions for reading a ledger.
    pub fn add_ledger_reading(&mut self, location: &LedgerLocation) {
        self.add_variables(location, &["list", "read"], "reading the ledger");
    }

    /// Adds the permissions for a ledger and its lock: `nomad-csi/sets/<set>/…`.
    pub fn add_ledger(&mut self, location: &LedgerLocation) {
        let all = ["destroy", "list", "read", "write"];
        self.add_variables(location, &all, "writing the ledger");
    }

    fn add_variables(
        &mut self,
        location: &LedgerLocation,
        capabilities: &[&'static str],
        why: &'static str,
    ) {
        let path = format!("nomad-csi/sets/{}/*", location.set);
        for capability in capabilities {
            let on = Permission::Variables(location.namespace.clone(), path.clone(), capability);
            self.0.entry(on).or_default().insert(why);
        }
    }

    /// Returns the permissions for applying a plan, which also reads the volumes again.
    pub fn of_plan(plan: &Plan, ledger: Option<&LedgerLocation>) -> Self {
        let mut required = Self::default();
        for planned in &plan.volumes {
            let namespace = &planned.key.namespace;
            let operations: &[AclOperation] = match &planned.action {
                Action::Unchanged | Action::WaitingForClaims(_) | Action::Blocked(_) => &[],
                Action::RegisterAgain(again) if again.replaces.is_some() => {
                    &[AclOperation::Deregister, AclOperation::Write]
                }
                Action::Create(_)
                | Action::Register(_)
                | Action::RegisterAgain(_)
                | Action::Recreate(_)
                | Action::Update(_)
                | Action::Expand(_) => &[AclOperation::Write],
                Action::Replace(replace) => match (replace.steps, replace.snapshot_first) {
                    (ReplaceSteps::DeregisterThenRegister, false) => {
                        &[AclOperation::Deregister, AclOperation::Write]
                    }
                    (ReplaceSteps::DeregisterThenRegister, true) => {
                        &[AclOperation::Snapshot, AclOperation::Deregister, AclOperation::Write]
                    }
                    (ReplaceSteps::DeleteThenCreate, false) => {
                        &[AclOperation::Delete, AclOperation::Write]
                    }
                    (ReplaceSteps::DeleteThenCreate, true) => {
                        &[AclOperation::Snapshot, AclOperation::Delete, AclOperation::Write]
                    }
                },
                Action::Deregister => &[AclOperation::Deregister],
                Action::DeleteData => &[AclOperation::Delete],
            };
            required.add(AclOperation::Observe, namespace);
            if let Some(request) = planned.request() {
                required.add_secrets(request);
            }
            for operation in operations {
                required.add(*operation, namespace);
            }
        }
        if let Some(location) = ledger {
            required.add_ledger(location);
        }
        required.add_version();
        required
    }

    /// Returns all permissions, each with the operations that need it.
    pub fn iter(&self) -> impl Iterator<Item = (&Permission, &BTreeSet<&'static str>)> {
        self.0.iter()
    }

    /// Returns the permissions that are not granted, without optional ones; none if the grants are
    /// unknown.
    pub fn missing(&self, grants: &Grants) -> Self {
        let missing = self
            .0
            .iter()
            .filter(|(one, _)| !one.is_optional() && grants.allows(one) == Some(false));
        Self(missing.map(|(one, why)| (one.clone(), why.clone())).collect())
    }

    /// Returns whether no permission is required.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the smallest policy that grants all permissions.
    pub fn policy(&self) -> String {
        let mut namespaces: BTreeMap<&Namespace, NamespaceRules<'_>> = BTreeMap::new();
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
                Permission::ReadNodes => rest += "node {\n  policy = \"read\"\n}\n",
                Permission::ReadAgent => rest += AGENT_RULE,
            }
        }
        let blocks = namespaces.iter().map(|(name, own)| own.block(name));
        blocks.chain((!rest.is_empty()).then_some(rest)).collect()
    }
}

/// The rule for [`Permission::ReadAgent`], with its reason.
const AGENT_RULE: &str =
    "# The version of the server, whose rules a plan follows. Without it, the strictest apply.
agent {
  policy = \"read\"
}
";

#[derive(Default)]
struct NamespaceRules<'n> {
    capabilities: BTreeSet<&'static str>,
    variables: BTreeMap<&'n str, BTreeSet<&'static str>>,
}

impl NamespaceRules<'_> {
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

/// The permissions of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Grants {
    /// Everything: a management token, or a server without ACLs.
    Everything,
    /// The rules of its policies together.
    Rules(AclPolicy),
    /// The permissions cannot be determined.
    Unknown,
}

impl Grants {
    /// Returns what these policies grant together.
    pub fn of(policies: impl IntoIterator<Item = AclPolicy>) -> Self {
        Self::Rules(policies.into_iter().fold(AclPolicy::default(), AclPolicy::merged))
    }

    /// Returns whether a permission is granted; `None` if unknown.
    pub fn allows(&self, permission: &Permission) -> Option<bool> {
        match self {
            Self::Everything => Some(true),
            Self::Rules(rules) => Some(granted(rules, permission)),
            Self::Unknown => None,
        }
    }
}

impl Grants {
    /// Returns whether the token can list the volumes of every namespace: a rule for all namespaces grants it
    /// and no closer rule revokes it. `None` if unknown. Nomad 2.0.5 lists the volumes of all
    /// namespaces with `*` if the token can list in one of them; deleting data does not rely on that.
    pub fn lists_every_namespace(&self) -> Option<bool> {
        self.has_everywhere(AclVolumeCapability::List)
    }

    /// Returns whether the token can read the allocations of every namespace; `None` if unknown. Nomad leaves those of other
    /// namespaces out of its list.
    pub fn reads_every_job(&self) -> Option<bool> {
        self.has_everywhere(AclVolumeCapability::ReadJobs)
    }

    fn has_everywhere(&self, capability: AclVolumeCapability) -> Option<bool> {
        match self {
            Self::Everything => Some(true),
            Self::Unknown => None,
            Self::Rules(rules) => {
                let mut own = rules.namespaces.values();
                let grants = own.all(|own| own.has_any(capability.granted_by()));
                Some(rules.namespaces.contains_key(Namespace::ALL) && grants)
            }
        }
    }
}

impl Grants {
    /// Returns whether the token can read the ledger of every set in the variables of a namespace; `None` if unknown.
    /// Nomad leaves variables that a token cannot read out of its lists.
    pub fn reads_every_set(&self, namespace: &Namespace) -> Option<bool> {
        let rules = match self {
            Self::Everything => return Some(true),
            Self::Unknown => return None,
            Self::Rules(rules) => rules,
        };
        // A closer rule may revoke what the general one grants.
        let mut closer = rules.variable_rules(namespace).filter(|(path, _)| path.starts_with(SETS));
        let grants = |words: &BTreeSet<String>| words.contains("read") && !words.contains("deny");
        let reads_all = rules.has_variable(namespace, &format!("{SETS}*"), "read");
        Some(reads_all && closer.all(|(_, words)| grants(words)))
    }
}

/// The start of the paths of all sets.
const SETS: &str = "nomad-csi/sets/";

/// Returns the error for permissions that `holder` (`the token`) lacks, with a `remedy` that ends in the
/// smallest policy that grants all required ones; `None` if none is known to be missing.
pub fn missing_permissions(
    required: &RequiredPermissions,
    grants: &Grants,
    (holder, remedy): (&str, &str),
) -> Option<Diagnostic> {
    let missing = required.missing(grants);
    if missing.is_empty() {
        return None;
    }
    let count = match missing.0.len() {
        1 => "1 permission".to_owned(),
        count => format!("{count} permissions"),
    };
    let message = format!("{holder} lacks {count} that this command needs");
    let lines = missing.iter().map(|(permission, why)| {
        let why: Vec<_> = why.iter().copied().collect();
        format!("missing: {permission}, for {}", why.join(", "))
    });
    let diagnostic = Diagnostic::error(Code::AclMissingPermission, message);
    let diagnostic = lines.fold(diagnostic, Diagnostic::note);
    Some(diagnostic.block(format!("{remedy}:\n{}", required.policy().trim_end())))
}

fn granted(rules: &AclPolicy, permission: &Permission) -> bool {
    match permission {
        Permission::Volumes(namespace, capability) => {
            rules.has_any(namespace, capability.granted_by())
        }
        Permission::Variables(namespace, path, capability) => {
            rules.has_variable(namespace, path, capability)
        }
        Permission::ListPlugins => rules.lists_plugins(),
        Permission::ReadPlugins => rules.reads_plugins(),
        Permission::ReadNodes => matches!(rules.node, Some(AclLevel::Read | AclLevel::Write)),
        Permission::ReadAgent => matches!(rules.agent, Some(AclLevel::Read | AclLevel::Write)),
    }
}

#[cfg(test)]
mod tests;
