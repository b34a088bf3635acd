//! What kind of plugin this is: its capabilities, and the faults that it simulates.
//!
//! Every option is checked when the plugin starts (`plugin serve --help`). Nothing here does I/O.

mod capabilities;
mod faults;
mod plugin_profile;

#[cfg(test)]
pub(super) use capabilities::PluginCapabilities;
pub(super) use capabilities::PluginCapability;
pub(super) use faults::{Fault, FaultKind};
pub(super) use plugin_profile::DefaultBacking;
pub use plugin_profile::{PluginProfile, ProfileOptions};
