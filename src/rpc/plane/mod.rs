//! Owns the service that nodes call: `proto/nomadcsi/plane/v1/plane.proto`.
//!
//! Failures of what was asked are data; a status says that there is no answer. Which node asks is a property of its
//! connection.

mod alloc_list;
mod cluster_file;
mod convert;
mod event_queue;
mod guarded_service;
mod known_cluster;
mod messages;
mod node_profile;
mod refusal;
mod remote;
mod servers;
mod service;
mod status;

#[cfg(test)]
mod tests;

pub use cluster_file::ClusterFile;
pub use node_profile::NodeProfile;
pub use remote::RemoteControlPlane;
pub use service::ControlPlaneService;
