//! Owns the embedded CSI plugin, which keeps volumes on the machine it runs on.
//!
//! The plugin is a process of its own, reachable only over its socket ([`serve()`]). A volume is a
//! file with a file system, a block device, or a plain directory; all data lies below the state
//! directory. The plugin has every part of CSI 1.13 that makes sense on one machine. A
//! [`PluginProfile`] takes capabilities away or injects faults, so that tests can imitate other
//! plugins.
//!
//! After every answered call, and after a `kill -9` at any moment: one name is one volume, a volume
//! or snapshot that was answered exists, a group snapshot is whole or absent, nothing in use is
//! deleted, and no file system stays frozen.

mod call_context;
mod catalog;
mod config;
mod data;
mod detach_watch;
mod error;
mod health;
mod plugin;
mod profile;
mod recovery;
mod request;
mod serve;
mod services;
mod shared;
mod size;
mod snapshots;
mod topology;
mod volume_capability;
mod volumes;

pub use config::{Config, ConfigError};
pub use plugin::Host;
pub use profile::{PluginProfile, ProfileOptions};
pub use serve::{ServeError, serve};
pub use shared::{Placement, PlacementOptions, Role, SharedConfig};
pub use volumes::first_mount_using;

#[cfg(test)]
mod tests;
