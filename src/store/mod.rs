//! What the agent keeps in its data directory: the journal in an embedded database, the key that
//! secrets are sealed with, and the lock that keeps a second agent away.

mod codec;
mod embedded;
mod key_file;
mod lock;
mod seal;
mod storage;

pub use codec::{EVENT_VERSION, SNAPSHOT_VERSION};
pub use embedded::EmbeddedJournal;
pub use key_file::KeyError;
pub use lock::{DataLock, Holder, LockError};
pub use seal::KeySealer;
pub use storage::{FileStorage, Storage};
