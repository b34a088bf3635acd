//! A client node in a server's list.

use super::alloc::NodeContact;
use super::id::NodeId;

/// A client node in a server's list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientNode {
    /// The ID.
    pub id: NodeId,
    /// The name, usually the host name; not unique.
    pub name: String,
    /// The server's word: `initializing`, `ready`, `down` or `disconnected`.
    pub status: String,
}

impl ClientNode {
    /// Whether the server can call the node.
    pub fn is_ready(&self) -> bool {
        self.status == "ready"
    }

    /// What the server's record of the node's allocations is worth. A node that is missing in a complete
    /// list was purged: [`NodeContact::Gone`].
    pub fn contact(&self) -> NodeContact {
        match self.is_ready() {
            true => NodeContact::Up,
            false => NodeContact::Silent,
        }
    }
}
