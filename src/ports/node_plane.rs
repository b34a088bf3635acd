//! The server as all nodes see it: it knows each node by its registration, and answers each one for itself.
//!
//! Who calls is decided by the connection, which registers once, and never by a later request.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use super::cluster_memory::ClusterPosition;
use super::control_plane::ControlPlane;
use super::mount_observer::MountObserver;
use super::observer::PluginObserver;
use nomad_csi_model::{HostSession, Node, NodeId};

/// What only a node and the server know. `Debug` hides it.
#[derive(Clone)]
pub struct NodeSecret([u8; Self::LENGTH]);

impl NodeSecret {
    /// The number of its bytes.
    pub const LENGTH: usize = 32;

    /// Wraps the bytes.
    pub fn new(bytes: [u8; Self::LENGTH]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes. The server stores their hash only.
    pub fn expose(&self) -> &[u8; Self::LENGTH] {
        &self.0
    }
}

impl fmt::Debug for NodeSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NodeSecret([REDACTED])")
    }
}

/// What a node says of itself at the begin of a connection.
#[derive(Clone, Debug)]
pub struct Registration {
    /// The node, as it offers itself to jobs. What an operator decides about it is not for the node to say: the server keeps
    /// what it has on record.
    pub node: Node,
    /// The secret of the node.
    pub secret: NodeSecret,
    /// The run of its process.
    pub session: HostSession,
    /// The boot of its machine.
    pub boot_id: String,
    /// The version of its program.
    pub version: String,
    /// What its program can do beyond the first version of the protocol.
    pub features: Vec<String>,
    /// The highest place that it knows in the log of its cluster.
    pub known: Option<ClusterPosition>,
}

/// A node is not registered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegistrationRefused {
    /// The secret is not the one on record for this node ID.
    #[error("the secret of the node is not the one on record")]
    WrongSecret,
    /// The node knows another cluster than that of the server.
    #[error("the node belongs to cluster `{node}`, and the server to cluster `{server}`")]
    OtherCluster {
        /// The cluster of the node.
        node: String,
        /// The cluster of the server.
        server: String,
    },
    /// The node knows more of the log than the server has: the server was restored from a backup.
    #[error("the node knows a later state of the cluster than the server: {0}")]
    WentBack(String),
    /// Another process has this node ID, and is connected.
    #[error("another process with this node ID is connected")]
    Duplicate,
    /// The server does not record nodes.
    #[error(transparent)]
    NotLeader(#[from] NotLeader),
    /// The server stops.
    #[error("the server is stopping")]
    Stopping,
    /// The registration failed; the same one may succeed later.
    #[error("{0}")]
    Failed(String),
}

/// The server is not the leader, so it does not answer nodes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the server is not the leader")]
pub struct NotLeader {
    /// The address of the leader for nodes, if the server knows it.
    pub leader: Option<String>,
}

/// The server as all nodes see it.
#[async_trait]
pub trait NodePlane: Send + Sync {
    /// Records a node and its session durably, before anything is sent to that session (rule 12 of the claims machine).
    ///
    /// The secret decides first: nothing is recorded and nothing of the node is said to a caller that does not have it. A node
    /// ID that is not on record is recorded with the hash of this secret. Returns where the log is.
    ///
    /// # Errors
    /// Why it is not recorded.
    async fn register(
        &self,
        registration: Registration,
    ) -> Result<ClusterPosition, RegistrationRefused>;

    /// Returns where the log is, if this server is the leader. A list of allocations that was made before is not newer than that.
    ///
    /// # Errors
    /// If it is not the leader.
    fn position(&self) -> Result<ClusterPosition, NotLeader>;

    /// Returns the server as this node sees it: the same one for each call, because it remembers refused mounts. It checks that an allocation is one of this node, and answers for one of another
    /// node as for one that does not exist.
    fn of(&self, node: &NodeId) -> Arc<dyn ControlPlane>;

    /// Returns the receiver of plugin changes of this node. It refuses an instance whose allocation is one of another node.
    fn plugins_of(&self, node: &NodeId) -> Arc<dyn PluginObserver>;

    /// Returns the receiver of what happens to the mounts of this node.
    fn mounts_of(&self, node: &NodeId) -> Arc<dyn MountObserver>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_secret_of_a_node_is_in_no_debug_output() {
        let registration = Registration {
            node: Node::new("n1".into(), "alpha", "dc1"),
            secret: NodeSecret::new([0xab; NodeSecret::LENGTH]),
            session: "s1".into(),
            boot_id: "b1".to_owned(),
            version: "0.1.0".to_owned(),
            features: vec![],
            known: None,
        };
        let shown = format!("{registration:?}").to_lowercase();
        assert!(shown.contains("redacted"), "{shown}");
        assert!(!shown.contains("171") && !shown.contains("abab"), "{shown}");
    }
}
