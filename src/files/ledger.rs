//! The ledger in a local file: for servers without variables, and for who wants it so.
//!
//! The file is replaced whole, by a new one of mode 0600 beside it, so that a crash leaves the old or
//! the new and never a half. Whoever writes holds the operating system's lock on `PATH.lock` while
//! he reads, compares and replaces, which makes that a check-and-set; every shard counts its own
//! revisions. The lock of a set is the operating system's on `PATH.SET.lock`, which ends with the
//! process that holds it, however that ends; what is written in it only says who that is.
//!
//! The file concerns one machine: on a network file system without locks it guards nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, TryLockError};
use std::io::{self, ErrorKind, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::specs::reason;
use crate::diagnostic::Code;
use crate::plan::{SetName, ShardChange, ShardName, StoredSet, StoredShard};
use crate::ports::{Ledger, LedgerError, LedgerFailure, LockHolder, SetLock};

/// The format that this program writes and reads.
const FORMAT: u32 = 1;

/// A ledger in a local file.
#[derive(Clone, Debug)]
pub struct FileLedger {
    path: PathBuf,
    name: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    format: u32,
    sets: BTreeMap<String, BTreeMap<String, Shard>>,
}

/// A shard; its JSON stands there as JSON, so that people can read the file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Shard {
    revision: u64,
    content: Value,
}

impl Default for Content {
    fn default() -> Self {
        Self {
            format: FORMAT,
            sets: BTreeMap::new(),
        }
    }
}

impl FileLedger {
    /// The ledger in that file, which need not be there yet; its directory must.
    pub fn new(path: PathBuf) -> Self {
        Self {
            name: format!("the file {}", path.display()),
            path,
        }
    }

    fn beside(&self, ending: &str) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(ending);
        PathBuf::from(name)
    }

    fn unavailable(&self, doing: &str, error: &io::Error) -> LedgerError {
        let message = format!("{} could not be {doing}: {}", self.name, reason(error));
        LedgerError::new(LedgerFailure::Unavailable, Code::LedgerFile, message)
    }

    fn load(&self) -> Result<Content, LedgerError> {
        let text = match std::fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Content::default()),
            Err(error) => return Err(self.unavailable("read", &error)),
        };
        let damaged = |why: String| {
            let message = format!("{} is no ledger that this program reads: {why}", self.name);
            LedgerError::new(LedgerFailure::Unavailable, Code::LedgerUnusable, message)
        };
        let content: Content =
            serde_json::from_str(&text).map_err(|error| damaged(error.to_string()))?;
        if content.format == FORMAT {
            Ok(content)
        } else {
            Err(damaged(format!("it has format {}", content.format)))
        }
    }

    fn store(&self, content: &Content) -> io::Result<()> {
        let directory = match self.path.parent() {
            Some(directory) if directory != Path::new("") => directory,
            Some(_) | None => Path::new("."),
        };
        // A new file is its owner's alone (0600) wherever there are modes.
        let mut file = tempfile::NamedTempFile::new_in(directory)?;
        serde_json::to_writer_pretty(&mut file, content)?;
        file.write_all(b"\n")?;
        file.as_file().sync_all()?;
        file.persist(&self.path)?;
        #[cfg(unix)]
        File::open(directory)?.sync_all()?;
        Ok(())
    }

    fn read_now(&self, set: &SetName) -> Result<StoredSet, LedgerError> {
        let mut content = self.load()?;
        let shards = content.sets.remove(set.as_str()).unwrap_or_default();
        let stored = |(name, shard): (String, Shard)| {
            let text = shard.content.to_string();
            let revision = shard.revision;
            Some((ShardName::parse(&name)?, StoredShard { revision, text }))
        };
        Ok(StoredSet {
            shards: shards.into_iter().filter_map(stored).collect(),
        })
    }

    /// All changes or none, and the revision that they have since.
    fn write_now(&self, set: &SetName, changes: &[ShardChange]) -> Result<u64, LedgerError> {
        let guard = self.beside(".lock");
        let lock = lock_file(&guard).map_err(|error| self.unavailable("locked", &error))?;
        lock.lock()
            .map_err(|error| self.unavailable("locked", &error))?;
        let mut content = self.load()?;
        let shards = content.sets.entry(set.as_str().to_owned()).or_default();
        let revision = 1 + shards
            .values()
            .map(|shard| shard.revision)
            .max()
            .unwrap_or(0);
        for change in changes {
            let now = shards.get(change.shard.as_str());
            if now.map(|shard| shard.revision) != change.expected {
                return Err(LedgerError::conflict(set));
            }
            match &change.text {
                Some(text) => {
                    let content = serde_json::from_str(text)
                        .map_err(|error| self.unavailable("written", &error.into()))?;
                    let shard = Shard { revision, content };
                    shards.insert(change.shard.as_str().to_owned(), shard);
                }
                None => drop(shards.remove(change.shard.as_str())),
            }
        }
        if shards.is_empty() {
            content.sets.remove(set.as_str());
        }
        self.store(&content)
            .map_err(|error| self.unavailable("written", &error))?;
        Ok(revision)
    }

    fn lock_now(&self, set: &SetName, holder: &LockHolder) -> Result<FileLock, LedgerError> {
        let path = self.beside(&format!(".{set}.lock"));
        let unavailable = |error: &io::Error| self.unavailable("locked", error);
        let mut file = lock_file(&path).map_err(|error| unavailable(&error))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(LedgerError::held(set, read_holder(&mut file)));
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

fn lock_file(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// What a holder wrote; `None` if he is just writing it, or another program wrote it.
fn read_holder(file: &mut File) -> Option<LockHolder> {
    let mut text = vec![];
    file.take(64 << 10).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

/// Blocking work on a thread for it.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, LedgerError> + Send + 'static,
) -> Result<T, LedgerError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => {
            let message = format!("the thread that works on the ledger's file ended: {error}");
            Err(LedgerError::new(
                LedgerFailure::Unavailable,
                Code::Internal,
                message,
            ))
        }
    }
}

#[async_trait]
impl Ledger for FileLedger {
    fn name(&self) -> &str {
        &self.name
    }

    async fn sets(&self) -> Result<BTreeSet<SetName>, LedgerError> {
        let this = self.clone();
        let content = blocking(move || this.load()).await?;
        let names = content
            .sets
            .keys()
            .filter_map(|name| SetName::parse(name).ok());
        Ok(names.collect())
    }

    async fn read(&self, set: &SetName) -> Result<StoredSet, LedgerError> {
        let (this, set) = (self.clone(), set.clone());
        blocking(move || this.read_now(&set)).await
    }

    async fn write(
        &self,
        set: &SetName,
        stored: &mut StoredSet,
        changes: &[ShardChange],
    ) -> Result<(), LedgerError> {
        let (this, set, owned) = (self.clone(), set.clone(), changes.to_vec());
        let revision = blocking(move || this.write_now(&set, &owned)).await?;
        changes
            .iter()
            .for_each(|change| stored.record(change, revision));
        Ok(())
    }

    async fn lock(
        &self,
        set: &SetName,
        holder: &LockHolder,
    ) -> Result<Box<dyn SetLock>, LedgerError> {
        let (this, set, holder) = (self.clone(), set.clone(), holder.clone());
        let lock = blocking(move || this.lock_now(&set, &holder)).await?;
        Ok(Box::new(lock))
    }
}

/// A lock that is held, until it is dropped or the process ends. The file stays: removing it would
/// let two lock two files of one name.
struct FileLock {
    file: File,
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // What stands there is only for who comes while it is held.
        self.file.set_len(0).ok();
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
