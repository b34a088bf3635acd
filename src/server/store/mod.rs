//! The files of the agent's data directory: the journal in an embedded database, the key of stored
//! secrets, the identity of the node, and the lock that excludes a second agent.

mod codec;
mod create_once;
mod embedded;
mod failure;
mod key_file;
mod key_rotation;
mod lock;
mod node_id;
mod parts_codec;
mod record_codec;
mod record_table;
mod rows;
mod seal;

pub use codec::{EVENT_VERSION, SNAPSHOT_VERSION};
pub use embedded::EmbeddedJournal;
#[cfg(any(test, feature = "testing"))]
pub use embedded::forget_that_it_is_sealed;
pub use key_file::KeyError;
pub use key_rotation::{KeyRotation, KeyVerification, ResealError};
pub use lock::{DataLock, LockError, LockOwner};
pub use node_id::{NodeIdError, open_node_id};
pub use rows::{
    RowError, SnapshotRow, SnapshotRows, decode_event_row, encode_event_row, snapshot_rows,
};
pub use seal::KeySealer;
