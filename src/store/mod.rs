//! The files of the agent's data directory: the journal in an embedded database, the key of stored
//! secrets, and the lock that excludes a second agent.

mod codec;
mod embedded;
mod key_file;
mod lock;
mod seal;
mod storage;

pub use codec::{EVENT_VERSION, SNAPSHOT_VERSION};
pub use embedded::EmbeddedJournal;
pub use key_file::KeyError;
pub use lock::{DataLock, LockError, LockOwner};
pub use seal::KeySealer;
pub use storage::{FileStorage, Storage};
