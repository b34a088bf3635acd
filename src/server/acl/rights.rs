//! [`Rights`]: what the client of a request may do.

use std::sync::Arc;

use nomad_csi_model::Namespace;
use nomad_csi_spec::{AclLevel, AclPolicy};

/// What the client of a request may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rights {
    /// Everything: the operator, a management token, or a server without an ACL, which checks the operator by itself.
    Everything,
    /// What these rules grant.
    Granted(Arc<AclPolicy>),
}

impl Rights {
    /// Returns whether it may manage the cluster.
    pub fn is_management(&self) -> bool {
        matches!(self, Self::Everything)
    }

    /// Returns whether it has one of these capabilities in a namespace, or for [`Namespace::ALL`] in any.
    pub fn has_any(&self, namespace: &Namespace, capabilities: &[&str]) -> bool {
        match self {
            Self::Everything => true,
            Self::Granted(rules) => rules.has_any(namespace, capabilities),
        }
    }

    /// Returns whether it may do anything at all in a namespace.
    pub fn enters(&self, namespace: &Namespace) -> bool {
        match self {
            Self::Everything => true,
            Self::Granted(rules) => rules.enters(namespace),
        }
    }

    /// Returns whether it has a capability on the variable at a path.
    pub fn has_variable(&self, namespace: &Namespace, path: &str, capability: &str) -> bool {
        match self {
            Self::Everything => true,
            Self::Granted(rules) => rules.has_variable(namespace, path, capability),
        }
    }

    /// Returns whether it mounts a host volume.
    pub fn mounts_host_volume(&self, name: &str, read_only: bool) -> bool {
        match self {
            Self::Everything => true,
            Self::Granted(rules) => rules.mounts_host_volume(name, read_only),
        }
    }

    /// Returns whether it lists plugins.
    pub fn lists_plugins(&self) -> bool {
        match self {
            Self::Everything => true,
            Self::Granted(rules) => rules.lists_plugins(),
        }
    }

    /// Returns whether it reads plugins.
    pub fn reads_plugins(&self) -> bool {
        match self {
            Self::Everything => true,
            Self::Granted(rules) => rules.reads_plugins(),
        }
    }

    /// Returns whether it reads what agents say about themselves.
    pub fn reads_agents(&self) -> bool {
        self.has_level(|rules| rules.agent, AclLevel::Read)
    }

    /// Returns whether it reads nodes.
    pub fn reads_nodes(&self) -> bool {
        self.has_level(|rules| rules.node, AclLevel::Read)
    }

    /// Returns whether it changes nodes.
    pub fn writes_nodes(&self) -> bool {
        self.has_level(|rules| rules.node, AclLevel::Write)
    }

    /// Returns whether it operates the cluster.
    pub fn operates(&self) -> bool {
        self.has_level(|rules| rules.operator, AclLevel::Write)
    }

    fn has_level(&self, level: impl Fn(&AclPolicy) -> Option<AclLevel>, needed: AclLevel) -> bool {
        match self {
            Self::Everything => true,
            Self::Granted(rules) => match level(rules) {
                None | Some(AclLevel::Deny | AclLevel::List) => false,
                Some(granted @ (AclLevel::Read | AclLevel::Write)) => granted >= needed,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use nomad_csi_spec::acl_policy;

    use super::*;

    fn granted(rules: &str) -> Rights {
        Rights::Granted(Arc::new(acl_policy(rules).unwrap()))
    }

    #[test]
    fn a_level_grants_itself_and_what_is_below_and_deny_nothing() {
        for (word, reads, writes) in
            [("read", true, false), ("write", true, true), ("deny", false, false)]
        {
            let rights = granted(&format!(
                "node {{ policy = \"{word}\" }}\nagent {{ policy = \"{word}\" }}\noperator {{ policy = \"{word}\" }}"
            ));
            assert_eq!((rights.reads_nodes(), rights.writes_nodes()), (reads, writes), "{word}");
            assert_eq!((rights.reads_agents(), rights.operates()), (reads, writes), "{word}");
        }
        let none = granted("");
        assert!(!none.reads_nodes() && !none.reads_agents() && !none.operates());
        assert!(!none.is_management() && !none.reads_plugins() && !none.lists_plugins());
    }

    /// Nomad's quirk: who writes plugins does not read them.
    #[test]
    fn who_writes_plugins_neither_lists_nor_reads_them() {
        for (word, lists, reads) in [
            ("list", true, false),
            ("read", true, true),
            ("write", false, false),
            ("deny", false, false),
        ] {
            let rights = granted(&format!("plugin {{ policy = \"{word}\" }}"));
            assert_eq!((rights.lists_plugins(), rights.reads_plugins()), (lists, reads), "{word}");
        }
    }
}
