//! The embedded CSI plugin: volumes that are directories of the machine it runs on.
//!
//! A complete plugin in a process of its own, reachable only over its socket ([`serve()`]). A volume
//! is a directory below the state directory; staging and publishing are real bind mounts. It
//! advertises what it has: create, delete, validate, list, capacity, single volumes; stage, publish,
//! statistics. It has no snapshots, clones, expansion, attachment, topology, block devices or mount
//! groups, and refuses each in words.
//!
//! What holds after every answered call, also after `kill -9` at any moment: one name is one volume,
//! a volume that was answered is there, a deleted one is not listed and its data is gone or going,
//! and nothing is deleted that is mounted. Its records are `catalog`'s, its directories
//! `data`'s, its mounts `volume`'s.

mod catalog;
mod config;
mod controller;
mod data;
mod error;
mod identity;
mod node;
mod place;
mod plugin;
mod publishing;
mod request;
mod serve;
mod staging;
mod usage;
mod volume;
mod volumes;

pub use config::{Config, ConfigError};
pub use place::first_use;
pub use serve::{ServeError, serve};
