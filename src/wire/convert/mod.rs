//! Conversion between Nomad's JSON and the model.
//!
//! Conversion from a server's JSON never fails, because data of every server version must be
//! readable. From a client's request only user fields are used (W22: Nomad stores server fields).
//! Invalid values in a request are reported as [`RequestProblem`], never dropped.

mod allocation;
mod capacity;
mod claim;
mod cluster;
mod external;
mod plugin;
mod stats;
mod task_state;
mod volume;
mod volume_stub;

pub use allocation::{allocation_from_wire, allocation_to_wire};
pub use capacity::{capacity_from_wire, capacity_to_wire};
pub use claim::{claim_from_wire, creation_from_wire};
pub use cluster::{blocked_evaluation_from_wire, client_node_from_wire};
pub use external::{
    external_volume_from_wire, external_volume_to_wire, snapshot_from_wire, snapshot_to_wire,
    status_from_wire, status_to_wire, volume_health_to_wire,
};
pub use plugin::{
    instance_to_wire, node_to_wire, plugin_from_wire, plugin_summary_from_wire,
    plugin_summary_to_wire, plugin_to_wire,
};
pub use stats::{stats_from_wire, stats_to_wire};
pub use task_state::{task_state_to_wire, task_states_to_wire};
pub use volume::{
    RedactedValue, RequestProblem, WriteKind, request_from_wire, request_to_wire, volume_from_wire,
    volume_to_wire,
};
pub use volume_stub::{stub_to_wire, summary_from_wire};

#[cfg(test)]
mod tests;
