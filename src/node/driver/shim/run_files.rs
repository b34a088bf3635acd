//! The files in the directory of a run, and who writes them.
//!
//! | File | Writer | Content |
//! |---|---|---|
//! | `spec.json` | the agent, before anything else | what to run |
//! | `lock` | | the shim holds its `flock` as long as it lives; an agent takes it to settle a run whose shim is gone |
//! | `state.json` | the shim; an agent under the lock | where the run is |
//! | `state.reserve` | the shim, before the task starts | space for the final state, which a task that fills the disk cannot take |
//! | `stop.json` | the agent | its existence requests the stop |
//! | `stdout.N`, `stderr.N` | the shim | output, the highest number newest |
//! | `shim.log` | `launch` and the shim | their own errors, normally empty |
//! | `root/` | | where the task's root is mounted, in the task's mount namespace only |
//!
//! Each JSON file has a format version. It is written under a temporary name and renamed, and only a final state is
//! made durable: after a power cut the boot ID says that the task is gone. Another file may then be blank, which nothing
//! else makes it: its run is of an earlier boot. Every function blocks.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, FlockOperation, fallocate, flock};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::super::process_id::ProcessId;
use super::run_spec::RunSpec;
use super::run_state::RunState;
use nomad_csi_model::private;

/// The version of the files that this program writes. It reads every version up to this one.
const FORMAT: u32 = 1;
/// The file whose space the final state gets on a full disk.
const RESERVE: &str = "state.reserve";
/// Its size. A final state that is longer waits for space.
const RESERVED: usize = 32 << 10;
/// No file is longer: an environment has at most 6 MiB.
const LONGEST: u64 = 16 << 20;

/// The lock of a run. Dropping it releases the lock.
#[derive(Debug)]
pub(super) struct RunLock {
    _file: OwnedFd,
}

/// The directory of a run.
#[derive(Clone, Debug)]
pub(super) struct RunFiles {
    directory: PathBuf,
}

/// A file with its format version.
#[derive(Serialize, Deserialize)]
struct Versioned<T> {
    version: u32,
    #[serde(flatten)]
    content: T,
}

#[derive(Deserialize)]
struct Version {
    version: u32,
}

/// An empty file, whose existence counts.
#[derive(Serialize)]
struct Request {}

impl RunFiles {
    pub(super) fn new(directory: &Path) -> Self {
        Self { directory: directory.to_owned() }
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Creates the directory and records the request, unless an earlier one was recorded and is not blank.
    pub(super) fn create(&self, spec: &RunSpec) -> io::Result<()> {
        private::create_directory(&self.directory)?;
        private::create_subdirectory(&self.root())?;
        let file = self.temporary("spec.json", spec)?;
        let path = self.path("spec.json");
        let earlier = self.read_text("spec.json")?;
        let written = match earlier.is_some_and(|text| is_blank(&text)) {
            true => file.persist(path),
            false => file.persist_noclobber(path),
        };
        match written {
            Ok(_) => Ok(()),
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(self.about("write", "spec.json", &error.error)),
        }
    }

    pub(super) fn read_spec(&self) -> io::Result<RunSpec> {
        let spec = self.read("spec.json")?;
        spec.ok_or_else(|| self.about("read", "spec.json", &io::ErrorKind::NotFound.into()))
    }

    /// Returns the state; `None` if the run was never started. A blank one is that of a run whose shim belongs to an
    /// earlier boot: who settles it takes the lock first, so a shim that lives would prevent it.
    pub(super) fn read_state(&self) -> io::Result<Option<RunState>> {
        let text = self.read_text("state.json")?;
        if text.is_some_and(|text| is_blank(&text)) {
            let shim = ProcessId::of_an_earlier_boot();
            return Ok(Some(RunState::Starting { shim }));
        }
        self.read("state.json")
    }

    /// Writes the state. A final one is durable when this returns, and has space of its own on a full disk.
    pub(super) fn write_state(&self, state: &RunState) -> io::Result<()> {
        let path = self.path("state.json");
        let written = self.temporary("state.json", state).and_then(|file| {
            let written = persist(file, &path, state.is_final());
            written.map_err(|error| self.about("write", "state.json", &error))
        });
        let written = match written {
            Err(error) if state.is_final() && is_full(&error) => {
                self.write_reserved(state).map_err(|_| error)
            }
            written => written,
        };
        if written.is_ok() && state.is_final() {
            // What is not needed any more is removed with the run at the latest.
            let _is_gone = std::fs::remove_file(self.path(RESERVE)).is_ok();
        }
        written
    }

    /// Keeps space for the final state.
    pub(super) fn reserve_state(&self) -> io::Result<()> {
        let reserved = private::open_or_create(&self.path(RESERVE)).and_then(|file| {
            let size = u64::try_from(RESERVED).unwrap_or(u64::MAX);
            match fallocate(&file, FallocateFlags::empty(), 0, size) {
                // A file system without this has the space after a write.
                Err(rustix::io::Errno::OPNOTSUPP) => file.write_all_at(&[b' '; RESERVED], 0),
                kept => Ok(kept?),
            }
        });
        reserved.map_err(|error| self.about("keep space in", RESERVE, &error))
    }

    /// Writes a final state into the space that was kept for it. The text is as long as that, so no block is given back
    /// before the new content is safe.
    fn write_reserved(&self, state: &RunState) -> io::Result<()> {
        let mut text = versioned(state)?;
        if text.len() > RESERVED {
            return Err(io::ErrorKind::StorageFull.into());
        }
        text.resize(RESERVED, b' ');
        let file = private::open_existing(&self.path(RESERVE))?;
        file.write_all_at(&text, 0)?;
        file.sync_all()?;
        std::fs::rename(self.path(RESERVE), self.path("state.json"))?;
        File::open(&self.directory)?.sync_all()
    }

    /// Writes the state of a run whose files do not name its shim, which lives, unless the shim does in the meantime.
    pub(super) fn recover(&self, shim: ProcessId) -> io::Result<()> {
        private::create_directory(&self.directory)?;
        let state = RunState::Starting { shim };
        let path = self.path("state.json");
        if path.try_exists()? {
            return match self.read_state() {
                Ok(Some(known)) if known.is_final() || known.shim() == state.shim() => Ok(()),
                Ok(_) | Err(_) => self.write_state(&state),
            };
        }
        match self.temporary("state.json", &state)?.persist_noclobber(path) {
            Ok(_) => Ok(()),
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(self.about("write", "state.json", &error.error)),
        }
    }

    /// Returns whether the request is there.
    pub(super) fn is_requested(&self) -> io::Result<bool> {
        self.path("spec.json").try_exists()
    }

    /// Requests the stop, also of a run that does not exist yet.
    pub(super) fn request_stop(&self) -> io::Result<()> {
        private::create_directory(&self.directory)?;
        let file = self.temporary("stop.json", &Request {})?;
        let written = persist(file, &self.path("stop.json"), false);
        written.map_err(|error| self.about("write", "stop.json", &error))
    }

    pub(super) fn is_stop_requested(&self) -> bool {
        self.path("stop.json").exists()
    }

    /// Takes the lock; `None` if another process holds it.
    pub(super) fn try_lock(&self) -> io::Result<Option<RunLock>> {
        let file = private::open_or_create(&self.path("lock"))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(RunLock { _file: file.into() })),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(self.about("lock", "lock", &error.into())),
        }
    }

    /// Where the root of the task is mounted.
    pub(super) fn root(&self) -> PathBuf {
        self.path("root")
    }

    /// Opens the log of the shim for appending.
    pub(super) fn open_shim_log(&self) -> io::Result<File> {
        let file = private::open_or_create(&self.path("shim.log"))?;
        rustix::fs::fcntl_setfl(&file, rustix::fs::OFlags::APPEND)?;
        Ok(file)
    }

    /// Returns the errors of the shim, for the message about a start that failed.
    pub(super) fn read_shim_log(&self) -> String {
        let mut text = vec![];
        let read = private::open_to_read(&self.path("shim.log"))
            .and_then(|file| file.take(4096).read_to_end(&mut text));
        match read {
            Ok(_) => String::from_utf8_lossy(&text).trim().to_owned(),
            Err(_) => String::new(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    fn read<T: DeserializeOwned>(&self, name: &str) -> io::Result<Option<T>> {
        let text = self.read_text(name)?;
        let content = text.map(|text| decode(&text)).transpose();
        content.map_err(|error| self.about("read", name, &error))
    }

    fn read_text(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        let mut text = vec![];
        let read = private::open_to_read(&self.path(name))
            .and_then(|file| file.take(LONGEST).read_to_end(&mut text));
        match read {
            Ok(_) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.about("read", name, &error)),
        }
    }

    fn temporary<T: Serialize>(
        &self,
        name: &str,
        content: &T,
    ) -> io::Result<tempfile::NamedTempFile> {
        let text = versioned(content)?;
        let written = private::temporary_in(&self.directory).and_then(|mut file| {
            file.write_all(&text)?;
            Ok(file)
        });
        written.map_err(|error| self.about("write", name, &error))
    }

    fn about(&self, action: &str, name: &str, error: &io::Error) -> io::Error {
        let path = self.path(name);
        let message = format!("cannot {action} `{}`: {error}", path.display());
        io::Error::new(error.kind(), message)
    }
}

fn versioned<T: Serialize>(content: &T) -> serde_json::Result<Vec<u8>> {
    let version = FORMAT;
    serde_json::to_vec(&Versioned { version, content })
}

/// Returns whether the disk, or the user's part of it, has no space left.
fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Returns whether a power failure has taken the content of a file that was not synced: nothing is left, or zeros.
fn is_blank(text: &[u8]) -> bool {
    text.iter().all(|byte| *byte == 0)
}

/// Returns the content of a file of this version or an earlier one. A damaged one is `InvalidData`.
fn decode<T: DeserializeOwned>(text: &[u8]) -> io::Result<T> {
    let invalid = |message: String| io::Error::new(io::ErrorKind::InvalidData, message);
    let damaged = |error: serde_json::Error| invalid(format!("it is damaged: {error}"));
    let Version { version } = serde_json::from_slice(text).map_err(damaged)?;
    if version > FORMAT {
        let message = format!(
            "a newer version of nomad-csi wrote it (format {version}, this version reads {FORMAT}); \
             install that version again, or end the task first"
        );
        return Err(io::Error::new(io::ErrorKind::Unsupported, message));
    }
    let file: Versioned<T> = serde_json::from_slice(text).map_err(damaged)?;
    Ok(file.content)
}

fn persist(file: tempfile::NamedTempFile, path: &Path, is_durable: bool) -> io::Result<()> {
    if is_durable {
        file.as_file().sync_all()?;
    }
    file.persist(path)?;
    if is_durable && let Some(directory) = path.parent() {
        File::open(directory)?.sync_all()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
