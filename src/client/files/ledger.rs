//! The ledger in a local file, for servers without variables.
//!
//! Every write replaces the file with a new one of mode 0600, so a crash leaves the old or the new
//! content. A writer holds the operating system's lock on `PATH.lock` while it reads, compares and
//! replaces the file, which makes the write a check-and-set. Each shard has its own revision. The
//! lock of a set is the operating system's lock on `PATH.SET.lock`, which ends with the process;
//! its content only names the holder.
//!
//! The files are private (`private`): one of another user or behind a link is not used. The file is
//! for one machine: a network file system without locks does not protect it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, TryLockError};
use std::io::{self, ErrorKind, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::output_place::place_of_new;
use super::specs::reason;
use crate::ports::{Ledger, LedgerError, LedgerFailure, LockHolder, SetLock};
use nomad_csi_model::diagnostic::Code;
use nomad_csi_model::private::{self, LockProcess, NotPrivate};
use nomad_csi_plan::{SetName, ShardChange, ShardName, StoredSet, StoredShard};

/// The format that this program writes and reads.
const FORMAT: u32 = 1;

/// A ledger in a local file.
#[derive(Clone, Debug)]
pub struct FileLedger {
    working_directory: PathBuf,
    path: PathBuf,
    name: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LedgerFileContent {
    format: u32,
    sets: BTreeMap<String, BTreeMap<String, Shard>>,
}

/// A shard, stored as readable JSON.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Shard {
    revision: u64,
    content: Value,
}

impl Default for LedgerFileContent {
    fn default() -> Self {
        Self { format: FORMAT, sets: BTreeMap::new() }
    }
}

impl FileLedger {
    /// Returns the ledger in a file, relative to the working directory. The file need not exist, but its directory must;
    /// links to it lead where those of an output may lead.
    pub fn new(working_directory: &Path, file: &Path) -> Self {
        let path = working_directory.join(file);
        Self {
            name: format!("the file `{}`", path.display()),
            working_directory: working_directory.to_owned(),
            path,
        }
    }

    /// Runs blocking work on a thread for it, unless the path leads where no output goes.
    async fn on_disk<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, LedgerError> + Send + 'static,
    ) -> Result<T, LedgerError> {
        let this = self.clone();
        blocking(move || {
            place_of_new(&this.working_directory, &this.path).map_err(|refused| {
                let texts = refused.iter().map(|one| one.message.clone());
                let message = texts.collect::<Vec<_>>().join("; ");
                LedgerError::new(LedgerFailure::Unavailable, Code::LedgerFile, message)
            })?;
            work(&this)
        })
        .await
    }

    fn sibling(&self, ending: &str) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(ending);
        PathBuf::from(name)
    }

    fn unavailable(&self, verb: &str, error: &io::Error) -> LedgerError {
        let (code, why) = match NotPrivate::find(error) {
            Some(refused) => (Code::FileNotPrivate, format!("{refused}; {}", refused.help())),
            None => (Code::LedgerFile, reason(error)),
        };
        let message = format!("cannot {verb} {}: {why}", self.name);
        LedgerError::new(LedgerFailure::Unavailable, code, message)
    }

    fn load(&self) -> Result<LedgerFileContent, LedgerError> {
        let mut text = String::new();
        let opened = private::open_to_read(&self.path);
        match opened.and_then(|mut file| file.read_to_string(&mut text)) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Ok(LedgerFileContent::default());
            }
            Err(error) => return Err(self.unavailable("read", &error)),
        }
        let damaged = |why: String| {
            let message = format!("cannot read the ledger in {}: {why}", self.name);
            LedgerError::new(LedgerFailure::Unavailable, Code::LedgerUnusable, message)
        };
        let content: LedgerFileContent = serde_json::from_str(&text).map_err(|error| {
            // The library's own text quotes the file, which may be another's.
            let (line, column) = (error.line(), error.column());
            damaged(format!("line {line}, column {column} is not of a ledger"))
        })?;
        if content.format == FORMAT {
            Ok(content)
        } else {
            Err(damaged(format!("unknown format {}", content.format)))
        }
    }

    fn store(&self, content: &LedgerFileContent) -> io::Result<()> {
        let mut text = serde_json::to_vec_pretty(content)?;
        text.push(b'\n');
        private::replace(&self.path, &text)
    }

    fn read_blocking(&self, set: &SetName) -> Result<StoredSet, LedgerError> {
        let mut content = self.load()?;
        let shards = content.sets.remove(set.as_str()).unwrap_or_default();
        let stored = |(name, shard): (String, Shard)| {
            let text = shard.content.to_string();
            let revision = shard.revision;
            Some((ShardName::parse(&name)?, StoredShard { revision, text }))
        };
        Ok(StoredSet { shards: shards.into_iter().filter_map(stored).collect() })
    }

    /// Writes all changes or none, and returns their revision.
    fn write_blocking(&self, set: &SetName, changes: &[ShardChange]) -> Result<u64, LedgerError> {
        let guard = self.sibling(".lock");
        let lock =
            private::open_or_create(&guard).map_err(|error| self.unavailable("lock", &error))?;
        self.wait_for(set, &lock)?;
        let mut content = self.load()?;
        let shards = content.sets.entry(set.as_str().to_owned()).or_default();
        let revision = 1 + shards.values().map(|shard| shard.revision).max().unwrap_or(0);
        for change in changes {
            let name = change.shard.to_string();
            let now = shards.get(&name);
            if now.map(|shard| shard.revision) != change.expected {
                return Err(LedgerError::conflict(set));
            }
            match &change.text {
                Some(text) => {
                    let content = serde_json::from_str(text)
                        .map_err(|error| self.unavailable("write", &error.into()))?;
                    let shard = Shard { revision, content };
                    shards.insert(name, shard);
                }
                None => drop(shards.remove(&name)),
            }
        }
        if shards.is_empty() {
            content.sets.remove(set.as_str());
        }
        self.store(&content).map_err(|error| self.unavailable("write", &error))?;
        Ok(revision)
    }

    /// Waits for the lock on the file, but not for a process of another user.
    fn wait_for(&self, set: &SetName, guard: &File) -> Result<(), LedgerError> {
        match guard.try_lock() {
            Ok(()) => Ok(()),
            Err(TryLockError::WouldBlock) => match private::lock_owner(guard) {
                Some(stranger) => Err(locked_by_stranger(set, &stranger)),
                None => guard.lock().map_err(|error| self.unavailable("lock", &error)),
            },
            Err(TryLockError::Error(error)) => Err(self.unavailable("lock", &error)),
        }
    }

    fn lock_blocking(&self, set: &SetName, holder: &LockHolder) -> Result<FileLock, LedgerError> {
        let path = self.sibling(&format!(".{set}.lock"));
        let unavailable = |error: &io::Error| self.unavailable("lock", error);
        let mut file = private::open_or_create(&path).map_err(|error| unavailable(&error))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(match private::lock_owner(&file) {
                    Some(stranger) => locked_by_stranger(set, &stranger),
                    None => LedgerError::locked(set, read_holder(&mut file)),
                });
            }
            Err(TryLockError::Error(error)) => return Err(unavailable(&error)),
        }
        let write = |file: &mut File| {
            file.set_len(0)?;
            file.rewind()?;
            file.write_all(&serde_json::to_vec(holder)?)
        };
        write(&mut file).map_err(|error| unavailable(&error))?;
        Ok(FileLock { file })
    }
}

fn locked_by_stranger(set: &SetName, stranger: &LockProcess) -> LedgerError {
    let LockProcess { pid, user } = stranger;
    let message = format!("process {pid} of user ID {user} holds the lock of set `{set}`");
    LedgerError::new(LedgerFailure::Locked(None), Code::LedgerHeld, message)
}

/// Reads the holder of a lock; `None` while it is being written, or if another program wrote it.
fn read_holder(file: &mut File) -> Option<LockHolder> {
    let mut text = vec![];
    file.take(64 << 10).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

/// Runs blocking work on a thread for it.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, LedgerError> + Send + 'static,
) -> Result<T, LedgerError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => {
            let message = format!("the ledger thread failed: {error}");
            Err(LedgerError::new(LedgerFailure::Unavailable, Code::Internal, message))
        }
    }
}

#[async_trait]
impl Ledger for FileLedger {
    fn name(&self) -> &str {
        &self.name
    }

    fn is_on_server(&self) -> bool {
        false
    }

    async fn sets(&self) -> Result<BTreeSet<SetName>, LedgerError> {
        let content = self.on_disk(Self::load).await?;
        let names = content.sets.keys().filter_map(|name| SetName::parse(name).ok());
        Ok(names.collect())
    }

    async fn read(&self, set: &SetName) -> Result<StoredSet, LedgerError> {
        let set = set.clone();
        self.on_disk(move |this| this.read_blocking(&set)).await
    }

    async fn write(
        &self,
        set: &SetName,
        stored: &mut StoredSet,
        changes: Vec<ShardChange>,
    ) -> Result<(), LedgerError> {
        let (set, written) = (set.clone(), changes.clone());
        let work = move |this: &Self| this.write_blocking(&set, &written);
        let revision = self.on_disk(work).await?;
        let changes = changes.into_iter();
        changes.for_each(|change| stored.record(change, revision));
        Ok(())
    }

    async fn lock(
        &self,
        set: &SetName,
        holder: &LockHolder,
    ) -> Result<Box<dyn SetLock>, LedgerError> {
        let (set, holder) = (set.clone(), holder.clone());
        let work = move |this: &Self| this.lock_blocking(&set, &holder);
        let lock = self.on_disk(work).await?;
        Ok(Box::new(lock))
    }

    /// The kernel releases the lock of a file with its process.
    async fn release_ended(&self, _: &SetName, _: &LockHolder) -> Result<(), LedgerError> {
        Ok(())
    }
}

/// The held lock of a set, until it is dropped or the process ends. The file stays: if it were
/// removed, two processes could lock two files of one name.
struct FileLock {
    file: File,
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // The content is only for processes that wait for the lock.
        self.file.set_len(0).ok();
        // A process that another thread starts at this moment has a copy of the file until it runs its
        // program. Closing the file would keep the lock for as long.
        self.file.unlock().ok();
    }
}

#[async_trait]
impl SetLock for FileLock {
    fn time_to_live(&self) -> Option<Duration> {
        None
    }

    async fn renew(&self) -> Result<(), LedgerError> {
        Ok(())
    }

    async fn release(self: Box<Self>) -> Result<(), LedgerError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
