//! The domain types: volumes, capabilities, plugins, nodes and their parts.
//!
//! These types do not depend on Nomad's JSON, HCL or protobuf; `wire`, `spec` and `csi` convert to
//! them. A type checks its rules when it is built, so its users need no further checks.

mod alloc;
mod bytes;
mod capability;
mod display;
mod external;
mod hex;
mod hidden_field;
mod id;
mod mount_options;
mod node;
mod plugin;
mod secrets;
mod server_version;
mod set_name;
mod snapshot;
mod text;
mod topology;
mod variable;
mod volume;

pub use alloc::{Alloc, ClientStatus, DesiredStatus};
pub use bytes::{Bytes, BytesError, CapacityRange};
pub use capability::{AccessMode, AttachmentMode, Capability};
pub use display::{ago, one_line, visible_char};
pub use external::{Condition, ExternalVolume};
pub use hex::hex;
pub use hidden_field::HiddenField;
pub use id::{
    AllocId, ExternalId, ExternalNodeId, IdProblem, Namespace, NamespacedId, NodeId, PluginId,
    SnapshotId, VariablePath, VolumeId,
};
pub use mount_options::MountOptions;
pub use node::{Node, NodeStatus};
pub use plugin::{
    ControllerCapabilities, ControllerInfo, Health, HealthCount, NodeCapabilities, NodeInfo,
    Plugin, PluginInstance, PluginSummary,
};
pub use secrets::{SealedSecrets, Secret, SecretOwner, SecretRef, SecretRefs, Secrets};
pub use server_version::{InvalidVersion, ServerVersion};
pub use set_name::{SetName, SetNameProblem};
pub use snapshot::Snapshot;
pub use text::Text;
pub use topology::{Topology, TopologyRequest};
pub use variable::{PathProblem, VariableKey};
pub use volume::{UnresolvedRequest, Volume, VolumeRequest, VolumeSummary};
