//! The nodes of a server: how they register, and what each of them may ask and report.

mod node_plugins;
mod plane;
mod presence;

pub(super) use plane::RecordedNodes;
pub(super) use presence::PresenceDriver;
pub use presence::PresenceLimits;
