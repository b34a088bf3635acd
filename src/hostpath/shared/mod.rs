//! The directory that several processes of the plugin share, as nodes share a network storage.
//!
//! One process is the controller: it owns the catalogue, and writes each record of a volume to a file. The others are
//! nodes: each has a state directory of its own with what it has staged, and reads the records. A volume is attached to
//! a node while a file of that node exists; only the controller makes and removes it.
//!
//! ```text
//! DIR/controller/            the state of the controller, which only one process has open
//! DIR/images/, DIR/volumes/, DIR/snapshots/   the data
//! DIR/records/VOLUME.json    the record of a volume
//! DIR/prepared/VOLUME.json   what a node did to the file system of an image
//! DIR/attached/VOLUME/NODE   the attachment of a volume to a node
//! DIR/calls.jsonl            the beginning and the end of each call of each process
//! ```
//!
//! A file gets its name when it is complete, so none is read half-written.

mod attachment_files;
mod call_log;
mod directory;
mod files;
mod options;
mod record_files;

pub(super) use attachment_files::{AttachDecision, Elsewhere, decide_attach, is_node_name};
pub(super) use call_log::{CallInProgress, CallLog};
pub(super) use directory::SharedDirectory;
pub use options::{Placement, PlacementOptions, Role, SharedConfig};
pub(super) use record_files::RecordFiles;

#[cfg(test)]
mod tests;
