//! What the agent keeps in its data directory: the journal in an embedded database, the key that
//! secrets are sealed with, and the lock that keeps a second agent away.

mod codec;
mod embedded;
mod lock;
mod seal;

pub use codec::{EVENT_VERSION, SNAPSHOT_VERSION};
pub use embedded::{EmbeddedJournal, FileStorage, Storage};
pub use lock::{DataLock, Holder, LockError};
pub use seal::{KeyError, KeySealer};
