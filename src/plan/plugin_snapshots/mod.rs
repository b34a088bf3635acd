//! Files with what is known of plugins (`*.plugin.json`), for checks without a server.
//!
//! A file is what a server knew at a moment (`plugin snapshot`), or what a plugin said on its socket (`plugin probe -o
//! json`). A plugin of a file counts as healthy. What a file does not say is unknown, and blocks nothing.

mod document;
mod read;
mod snapshot;

pub use document::{SnapshotDocument, SnapshotTopology};
pub use read::{SnapshotProblem, read_snapshot};
pub use snapshot::{PluginSnapshot, PluginSnapshots, SnapshotOrigin};

#[cfg(test)]
mod tests;
