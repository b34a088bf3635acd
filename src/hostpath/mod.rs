//! The embedded CSI plugin: volumes on the machine it runs on.
//!
//! A complete plugin in a process of its own, reachable only over its socket ([`serve()`]). A volume
//! is an image with a file system of its own, or a block device, or (where loop devices cannot be
//! had, or somebody asks for it) a plain directory; all of it below the state directory. It has all
//! of CSI 1.12 that makes sense on one machine, and any part of it can be taken away or made to fail
//! ([`Play`]), so that it stands for every kind of plugin.
//!
//! What holds after every answered call, also after `kill -9` at any moment: one name is one volume,
//! a volume that was answered is there, a deleted one is not listed and its data is gone or going,
//! a group of snapshots is whole or not there, nothing is deleted that is in use, and no file system
//! stays frozen. Its records are `catalog`'s, its files and directories `data`'s, its mounts
//! and devices `volume`'s, what an earlier run left `recovery`'s.

mod abilities;
mod attaching;
mod catalog;
mod condition;
mod config;
mod controller;
mod cutting;
mod data;
mod error;
mod expansion;
mod faults;
mod gate;
mod group;
mod group_snapshots;
mod identity;
mod metadata;
mod modification;
mod node;
mod parameters;
mod place;
mod play;
mod plugin;
mod publishing;
mod recovery;
mod request;
mod serve;
mod size;
mod snapshots;
mod staging;
mod topology;
mod usage;
mod volume;
mod volumes;

pub use config::{Config, ConfigError};
pub use place::first_use;
pub use play::{Play, PlayOptions};
pub use plugin::Host;
pub use serve::{ServeError, serve};

#[cfg(test)]
mod tests;
