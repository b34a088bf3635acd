//! [`NodeProfile`]: what a node says of itself at each connection.

use nomad_csi_model::{HostSession, Node};
use nomad_csi_ports::NodeSecret;

/// What a node says of itself at each connection.
#[derive(Clone, Debug)]
pub struct NodeProfile {
    /// The node, as it offers itself to jobs.
    pub node: Node,
    /// The secret of the node.
    pub secret: NodeSecret,
    /// The run of this process.
    pub session: HostSession,
    /// The boot of the machine.
    pub boot_id: String,
    /// The version of the program.
    pub version: String,
    /// What the program can do beyond the first version of the protocol.
    pub features: Vec<String>,
}
