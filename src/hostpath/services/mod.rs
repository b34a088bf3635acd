//! The plugin's CSI services over gRPC, and the layers before them, which log calls and inject faults.
//!
//! A service validates a request ([`request`](super::request)), runs the work, and builds the
//! response.

mod call_log_layer;
mod controller;
mod fault_layer;
mod group_controller;
mod identity;
mod measured_layer;
mod node;
mod snapshot_metadata;

pub(super) use call_log_layer::CallLogLayer;
pub(super) use controller::ControllerService;
pub(super) use fault_layer::FaultLayer;
pub(super) use group_controller::GroupControllerService;
pub(super) use identity::IdentityService;
pub(super) use measured_layer::MeasuredLayer;
pub(super) use node::NodeService;
pub(super) use snapshot_metadata::SnapshotMetadataService;
