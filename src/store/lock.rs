//! The lock of a data directory, which allows one agent per directory.
//!
//! The operating system's lock on a file is authoritative; it ends with the process that holds it.
//! The content of the file only describes the owner and its socket for other processes. The content
//! may be stale or incomplete and is then ignored.

use std::fs::{File, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::diagnostic::Code;

const FILE_NAME: &str = "agent.lock";

/// The agent that holds a data directory's lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockOwner {
    /// The process ID.
    pub pid: u32,
    /// The Unix socket of the agent's HTTP API, after it is open.
    pub socket: Option<PathBuf>,
    /// The start time in nanoseconds since the epoch.
    pub started_at: i64,
}

/// The lock cannot be acquired.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another agent holds the lock.
    #[error("another agent{} holds the lock of the data directory `{}`", describe_process(.owner.as_ref()), directory.display())]
    Locked {
        /// The data directory.
        directory: PathBuf,
        /// The owner; `None` if it is unknown.
        owner: Option<LockOwner>,
    },
    /// The lock file cannot be used.
    #[error("cannot lock `{}`", path.display())]
    Unavailable {
        /// The lock file.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
}

impl LockError {
    /// Returns the code of this error.
    pub fn code(&self) -> Code {
        match self {
            Self::Locked { .. } => Code::DataInUse,
            Self::Unavailable { .. } => Code::DataUnavailable,
        }
    }
}

fn describe_process(owner: Option<&LockOwner>) -> String {
    owner.map_or_else(String::new, |owner| format!(" (process {})", owner.pid))
}

/// The lock of one data directory, until it is dropped or the process exits. Calls block.
#[derive(Debug)]
pub struct DataLock {
    file: File,
    path: PathBuf,
}

impl DataLock {
    /// Acquires the lock of an existing directory and records its owner.
    ///
    /// # Errors
    /// Fails immediately if another process holds the lock or the file cannot be used.
    pub fn acquire(directory: &Path, owner: &LockOwner) -> Result<Self, LockError> {
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
                return Err(LockError::Locked {
                    directory: directory.to_owned(),
                    owner: read_owner(&mut file),
                });
            }
            Err(TryLockError::Error(source)) => return Err(unavailable(source)),
        }
        let mut lock = Self { file, path };
        lock.record(owner)?;
        Ok(lock)
    }

    /// Records the owner again, after its socket is open.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn record(&mut self, owner: &LockOwner) -> Result<(), LockError> {
        self.write(owner).map_err(|source| LockError::Unavailable {
            path: self.path.clone(),
            source,
        })
    }

    fn write(&mut self, owner: &LockOwner) -> io::Result<()> {
        let text = serde_json::to_vec(owner)?;
        self.file.set_len(0)?;
        self.file.rewind()?;
        self.file.write_all(&text)
    }
}

/// Reads the recorded owner; `None` if the content is incomplete or foreign.
fn read_owner(file: &mut File) -> Option<LockOwner> {
    let mut text = Vec::new();
    file.take(64 << 10).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

impl Drop for DataLock {
    /// Keeps the file, because removing it could let two agents lock two files of the same name.
    fn drop(&mut self) {
        self.file.set_len(0).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(pid: u32) -> LockOwner {
        LockOwner {
            pid,
            socket: Some("/run/agent.sock".into()),
            started_at: 7,
        }
    }

    #[test]
    fn a_second_agent_gets_the_recorded_owner() {
        let directory = tempfile::tempdir().unwrap();
        let mut first = DataLock::acquire(directory.path(), &owner(1)).unwrap();
        first.record(&owner(2)).unwrap();
        let error = DataLock::acquire(directory.path(), &owner(3)).unwrap_err();
        assert!(matches!(&error, LockError::Locked { owner: Some(h), .. } if *h == owner(2)));
        assert!(
            error
                .to_string()
                .starts_with("another agent (process 2) holds the lock"),
            "{error}"
        );
    }

    #[test]
    fn an_unlocked_file_can_be_locked_whatever_its_content() {
        let directory = tempfile::tempdir().unwrap();
        drop(DataLock::acquire(directory.path(), &owner(1)).unwrap());
        for stale in [
            &b"{\"pid\":1,"[..],
            b"",
            &serde_json::to_vec(&owner(9)).unwrap(),
        ] {
            std::fs::write(directory.path().join(FILE_NAME), stale).unwrap();
            drop(DataLock::acquire(directory.path(), &owner(2)).unwrap());
        }
    }

    #[test]
    fn an_incomplete_owner_is_not_named() {
        let directory = tempfile::tempdir().unwrap();
        let lock = DataLock::acquire(directory.path(), &owner(1)).unwrap();
        lock.file.set_len(5).unwrap();
        let error = DataLock::acquire(directory.path(), &owner(3)).unwrap_err();
        assert!(matches!(error, LockError::Locked { owner: None, .. }));
    }

    #[test]
    fn a_missing_directory_is_named() {
        let error = DataLock::acquire(Path::new("/nonexistent/data"), &owner(1)).unwrap_err();
        assert_eq!(error.code(), Code::DataUnavailable);
        assert_eq!(
            error.to_string(),
            "cannot lock `/nonexistent/data/agent.lock`"
        );
    }
}
