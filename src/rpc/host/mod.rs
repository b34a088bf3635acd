//! The calls of a server to a node: [`RemoteNode`] on the server, [`NodeHostService`] on the node.
//!
//! Both sides are the ports of `nomad_csi_ports`, so a caller cannot see whether a node is remote, except for two failures: the
//! node was not reached, or it did not answer. A failure of a port is data, and comes back equal.

mod alloc_call;
mod answer;
mod deadline;
mod description;
mod enumeration;
mod failure;
mod field;
mod limits;
mod log_call;
mod messages;
mod plugin_call;
mod plugin_dispatch;
mod remote_allocs;
mod remote_logs;
mod remote_node;
mod remote_plugin;
mod service;
mod status;
mod step;

pub use description::HostDescription;
pub use remote_node::RemoteNode;
pub use service::NodeHostService;

#[cfg(test)]
mod tests;
