//! One agent per data directory.
//!
//! What counts is the operating system's lock on a file there, which ends with the process that holds
//! it, however that ends. What is written in the file only says who that is and where his socket
//! is, for those who come too late: it can be stale or cut short, and then nothing is said.

use std::fs::{File, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::diagnostic::Code;

const FILE_NAME: &str = "agent.lock";

/// Who holds a data directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// His process ID.
    pub pid: u32,
    /// The Unix socket on which he serves the HTTP API, once he does.
    pub socket: Option<PathBuf>,
    /// When he started, nanoseconds since the epoch.
    pub started_at: i64,
}

/// The data directory is not ours.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another agent holds it.
    #[error("the data directory {} is held by another agent{}", directory.display(), named(.holder.as_ref()))]
    Held {
        /// Which.
        directory: PathBuf,
        /// Who; `None` if he has not said so yet.
        holder: Option<Holder>,
    },
    /// The lock cannot be taken.
    #[error("cannot lock {}", path.display())]
    Unavailable {
        /// The lock file.
        path: PathBuf,
        /// The operating system's reason.
        #[source]
        source: io::Error,
    },
}

impl LockError {
    /// The code that stands for it.
    pub fn code(&self) -> Code {
        match self {
            Self::Held { .. } => Code::DataInUse,
            Self::Unavailable { .. } => Code::DataUnavailable,
        }
    }
}

fn named(holder: Option<&Holder>) -> String {
    holder.map_or_else(String::new, |holder| format!(", process {}", holder.pid))
}

/// The right to a data directory, until it is dropped or the process ends. Blocking calls.
#[derive(Debug)]
pub struct DataLock {
    file: File,
    path: PathBuf,
}

impl DataLock {
    /// Takes the lock, and says who has it. The directory must exist.
    ///
    /// # Errors
    /// At once, if another process has it or the file cannot be used.
    pub fn acquire(directory: &Path, holder: &Holder) -> Result<Self, LockError> {
        let path = directory.join(FILE_NAME);
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false);
        let unavailable = |source| LockError::Unavailable {
            path: path.clone(),
            source,
        };
        let mut file = options.open(&path).map_err(unavailable)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(LockError::Held {
                    directory: directory.to_owned(),
                    holder: read_holder(&mut file),
                });
            }
            Err(TryLockError::Error(source)) => return Err(unavailable(source)),
        }
        let mut lock = Self { file, path };
        lock.record(holder)?;
        Ok(lock)
    }

    /// Says anew who has the lock: when the socket is there.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn record(&mut self, holder: &Holder) -> Result<(), LockError> {
        self.write(holder).map_err(|source| LockError::Unavailable {
            path: self.path.clone(),
            source,
        })
    }

    fn write(&mut self, holder: &Holder) -> io::Result<()> {
        let text = serde_json::to_vec(holder)?;
        self.file.set_len(0)?;
        self.file.rewind()?;
        self.file.write_all(&text)
    }
}

/// What a holder wrote; `None` if he is just writing it, or another program wrote it.
fn read_holder(file: &mut File) -> Option<Holder> {
    let mut text = Vec::new();
    file.take(64 << 10).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

impl Drop for DataLock {
    /// The file stays: removing it would let two agents lock two files of one name.
    fn drop(&mut self) {
        self.file.set_len(0).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(pid: u32) -> Holder {
        Holder {
            pid,
            socket: Some("/run/agent.sock".into()),
            started_at: 7,
        }
    }

    #[test]
    fn a_second_agent_learns_who_has_the_directory_and_where_he_listens() {
        let directory = tempfile::tempdir().unwrap();
        let mut first = DataLock::acquire(directory.path(), &holder(1)).unwrap();
        first.record(&holder(2)).unwrap();
        let refused = DataLock::acquire(directory.path(), &holder(3)).unwrap_err();
        assert!(matches!(&refused, LockError::Held { holder: Some(h), .. } if *h == holder(2)));
        assert!(
            refused.to_string().ends_with("by another agent, process 2"),
            "{refused}"
        );
    }

    #[test]
    fn a_lock_that_nobody_holds_is_free_whatever_stands_in_the_file() {
        let directory = tempfile::tempdir().unwrap();
        drop(DataLock::acquire(directory.path(), &holder(1)).unwrap());
        for stale in [
            &b"{\"pid\":1,"[..],
            b"",
            &serde_json::to_vec(&holder(9)).unwrap(),
        ] {
            std::fs::write(directory.path().join(FILE_NAME), stale).unwrap();
            drop(DataLock::acquire(directory.path(), &holder(2)).unwrap());
        }
    }

    #[test]
    fn a_holder_who_has_not_said_who_he_is_is_not_named() {
        let directory = tempfile::tempdir().unwrap();
        let lock = DataLock::acquire(directory.path(), &holder(1)).unwrap();
        lock.file.set_len(5).unwrap();
        let refused = DataLock::acquire(directory.path(), &holder(3)).unwrap_err();
        assert!(matches!(refused, LockError::Held { holder: None, .. }));
    }

    #[test]
    fn a_directory_that_is_not_there_is_named() {
        let refused = DataLock::acquire(Path::new("/nonexistent/data"), &holder(1)).unwrap_err();
        assert_eq!(refused.code(), Code::DataUnavailable);
        assert_eq!(
            refused.to_string(),
            "cannot lock /nonexistent/data/agent.lock"
        );
    }
}
