//! The lock of a data directory, which allows one agent per directory.
//!
//! The operating system's lock on a file is authoritative; it ends with the process that holds it.
//! The content of the file only describes the owner and its socket for other processes. The content
//! may be stale or incomplete and is then ignored. A process of another user that holds the lock is
//! named by what the kernel knows.

use std::fs::{File, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use nomad_csi_model::diagnostic::Code;
use nomad_csi_model::private::{self, LockProcess, NotPrivate};

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
    #[error("{} holds the lock of the data directory `{}`", describe_holder(.owner.as_ref(), .stranger.as_ref()), directory.display())]
    Locked {
        /// The data directory.
        directory: PathBuf,
        /// The owner; `None` if it is unknown.
        owner: Option<LockOwner>,
        /// The process that holds the lock, if it runs as another user. Then the owner is unknown.
        stranger: Option<LockProcess>,
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
            Self::Unavailable { source, .. } if NotPrivate::find(source).is_some() => {
                Code::FileNotPrivate
            }
            Self::Unavailable { .. } => Code::DataUnavailable,
        }
    }
}

fn describe_holder(owner: Option<&LockOwner>, stranger: Option<&LockProcess>) -> String {
    match (stranger, owner) {
        (Some(stranger), _) => {
            format!("process {} of user ID {}", stranger.pid, stranger.user)
        }
        (None, Some(owner)) => format!("another agent (process {})", owner.pid),
        (None, None) => "another agent".to_owned(),
    }
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
        let unavailable = |source| LockError::Unavailable { path: path.clone(), source };
        let mut file = private::open_or_create(&path).map_err(unavailable)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(locked(directory, &mut file));
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
        self.write(owner)
            .map_err(|source| LockError::Unavailable { path: self.path.clone(), source })
    }

    fn write(&mut self, owner: &LockOwner) -> io::Result<()> {
        let text = serde_json::to_vec(owner)?;
        self.file.set_len(0)?;
        self.file.rewind()?;
        self.file.write_all(&text)
    }
}

/// Names the holder of a lock: its recorded owner, or a stranger who recorded nothing here.
fn locked(directory: &Path, file: &mut File) -> LockError {
    let stranger = private::lock_owner(file);
    LockError::Locked {
        directory: directory.to_owned(),
        owner: match stranger {
            Some(_) => None,
            None => read_owner(file),
        },
        stranger,
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
        // A process that another thread starts at this moment has a copy of the file until it runs its
        // program. Closing the file would keep the lock for as long.
        self.file.unlock().ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(pid: u32) -> LockOwner {
        LockOwner { pid, socket: Some("/run/agent.sock".into()), started_at: 7 }
    }

    /// A process that another thread starts has a copy of every open file until it runs its program.
    #[test]
    fn a_released_lock_is_free_although_a_copy_of_its_file_is_open() {
        let directory = tempfile::tempdir().unwrap();
        let first = DataLock::acquire(directory.path(), &owner(1)).unwrap();
        let copy = first.file.try_clone().unwrap();
        drop(first);
        assert!(DataLock::acquire(directory.path(), &owner(2)).is_ok());
        drop(copy);
    }

    #[test]
    fn a_second_agent_gets_the_recorded_owner() {
        let directory = tempfile::tempdir().unwrap();
        let mut first = DataLock::acquire(directory.path(), &owner(1)).unwrap();
        first.record(&owner(2)).unwrap();
        let error = DataLock::acquire(directory.path(), &owner(3)).unwrap_err();
        assert!(matches!(&error, LockError::Locked { owner: Some(h), .. } if *h == owner(2)));
        assert!(
            error.to_string().starts_with("another agent (process 2) holds the lock"),
            "{error}"
        );
    }

    #[test]
    fn an_unlocked_file_can_be_locked_whatever_its_content() {
        let directory = tempfile::tempdir().unwrap();
        drop(DataLock::acquire(directory.path(), &owner(1)).unwrap());
        for stale in [&b"{\"pid\":1,"[..], b"", &serde_json::to_vec(&owner(9)).unwrap()] {
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
    fn a_planted_link_is_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let precious = directory.path().join("precious");
        std::fs::write(&precious, "precious").unwrap();
        std::os::unix::fs::symlink(&precious, directory.path().join(FILE_NAME)).unwrap();
        let error = DataLock::acquire(directory.path(), &owner(1)).unwrap_err();
        assert_eq!(error.code(), Code::FileNotPrivate);
        assert_eq!(std::fs::read(&precious).unwrap(), b"precious");
    }

    #[test]
    fn a_stranger_who_holds_the_lock_is_named() {
        let stranger = LockProcess { pid: 4711, user: 1000 };
        let error =
            LockError::Locked { directory: "/data".into(), owner: None, stranger: Some(stranger) };
        let expected = "process 4711 of user ID 1000 holds the lock of the data directory `/data`";
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn a_missing_directory_is_named() {
        let error = DataLock::acquire(Path::new("/nonexistent/data"), &owner(1)).unwrap_err();
        assert_eq!(error.code(), Code::DataUnavailable);
        assert_eq!(error.to_string(), "cannot lock `/nonexistent/data/agent.lock`");
    }
}
