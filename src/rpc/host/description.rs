//! [`HostDescription`]: which run of an agent is at the other end of a connection.

use nomad_csi_model::HostSession;

/// The run of a node's agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostDescription {
    /// The session of the agent.
    pub session: HostSession,
    /// The kernel's ID of the boot of the machine.
    pub boot_id: String,
}
