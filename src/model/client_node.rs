//! A client node in a server's list.

use super::alloc::NodeContact;
use super::id::NodeId;

/// A node, as far as a server shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeSight {
    /// Its client is connected.
    Up,
    /// Its client is not known to be connected; the server's word for its status.
    Away(String),
    /// An operator declared that it cannot write any more.
    Fenced,
    /// The server does not have it any more.
    Gone,
    /// It could not be read.
    Unread,
}

impl NodeSight {
    /// Returns what the server's record of the node's allocations is worth.
    pub const fn contact(&self) -> NodeContact {
        match self {
            Self::Up => NodeContact::Up,
            Self::Away(_) | Self::Unread => NodeContact::Silent,
            Self::Fenced | Self::Gone => NodeContact::Gone,
        }
    }
}

/// A client node in a server's list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientNode {
    /// The ID.
    pub id: NodeId,
    /// The name, usually the host name; not unique.
    pub name: String,
    /// The server's word: `initializing`, `ready`, `down` or `disconnected`.
    pub status: String,
    /// True if an operator declared that it cannot write any more. Only the agent fences nodes.
    pub is_fenced: bool,
    /// True if a fenced node has returned, and is swept before it is used.
    pub has_returned: bool,
    /// Why the node has its status, in the server's words.
    pub description: String,
    /// The index of the last change of its record.
    pub modify_index: u64,
}

impl ClientNode {
    /// Returns whether the server can call the node.
    pub fn is_ready(&self) -> bool {
        self.status == "ready"
    }

    /// Returns what the server's record of the node's allocations is worth. A node that is missing in a complete
    /// list was purged: [`NodeContact::Gone`].
    pub fn contact(&self) -> NodeContact {
        self.sight().contact()
    }

    /// Returns what the server shows of the node.
    pub fn sight(&self) -> NodeSight {
        if self.is_fenced {
            NodeSight::Fenced
        } else if self.is_ready() {
            NodeSight::Up
        } else {
            NodeSight::Away(self.status.clone())
        }
    }
}
