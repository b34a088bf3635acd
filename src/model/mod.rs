//! The field's nouns: volumes, capabilities, plugins, nodes and what they are made of.
//!
//! Types here know nothing of Nomad's JSON, of HCL or of protobuf: `wire`, `spec` and `csi` turn
//! those into these. What a type promises is checked when it is built; afterwards nobody asks again.

mod alloc;
mod bytes;
mod capability;
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
mod topology;
mod variable;
mod volume;

pub use alloc::{Alloc, ClientStatus, DesiredStatus};
pub use bytes::{Bytes, BytesError, CapacityRange};
pub use capability::{AccessMode, AttachmentMode, Capability};
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
pub use topology::{Topology, TopologyRequest};
pub use variable::{PathProblem, VariableKey};
pub use volume::{Volume, VolumeRequest, VolumeSummary, WantedRequest};
