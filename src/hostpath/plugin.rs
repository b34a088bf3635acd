//! What the plugin's services share, and the rule that work once begun is not given up.
//!
//! gRPC drops a call's future when the caller goes away or its deadline passes. CSI wants the
//! opposite: a cancelled call undoes nothing and may go on (`csi-spec` 3.5). So every call's work
//! runs in a task of its own, which a stop of the plugin waits for. One operation at a time about
//! one volume: a second one is ABORTED at once, so nothing queues up (3.4).

use std::collections::BTreeSet;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::task::TaskTracker;
use tonic::Status;

use super::abilities::Ability;
use super::catalog::{Backing, Catalog, Stage, VolumeRecord};
use super::data::Data;
use super::error::{Machine, Pending};
use super::play::Play;
use crate::ports::{BlockStorage, Clock, IdSource, Mounter};

/// What the plugin needs of the machine.
#[derive(Clone)]
pub struct Host {
    /// Mounts.
    pub mounter: Arc<dyn Mounter>,
    /// Devices, file systems, copies.
    pub storage: Arc<dyn BlockStorage>,
    /// When snapshots are cut.
    pub clock: Arc<dyn Clock>,
    /// IDs of volumes and snapshots.
    pub ids: Arc<dyn IdSource>,
}

/// The plugin: its records, its data, and what it needs of the machine.
pub(super) struct Plugin {
    pub(super) catalog: Catalog,
    /// Volumes that are directories.
    pub(super) directories: Data,
    /// Volumes that are files.
    pub(super) images: Data,
    /// Snapshots of both.
    pub(super) snapshots: Data,
    pub(super) state_dir: PathBuf,
    pub(super) host: Host,
    pub(super) node_id: String,
    pub(super) play: Play,
    pending: Arc<Mutex<BTreeSet<Subject>>>,
    promising: Mutex<()>,
    work: TaskTracker,
}

/// What an operation is about. A name and an ID may be spelled alike.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Subject {
    /// A volume that is being created.
    Name(String),
    /// A volume.
    Volume(String),
    /// A snapshot, or a group of them, that is being cut.
    SnapshotName(String),
    /// A snapshot, or a group of them.
    Snapshot(String),
}

impl Plugin {
    /// The plugin of a state directory that exists. Blocking.
    pub(super) fn open(
        state_dir: &Path,
        node_id: String,
        play: Play,
        host: Host,
    ) -> Result<Self, Machine> {
        // The mount table knows no symbolic links.
        let state_dir = state_dir
            .canonicalize()
            .map_err(Machine::files("find the state directory"))?;
        let below = |name: &str| {
            let path = state_dir.join(name);
            private_directory(&path)
                .and_then(|()| Data::open(&path))
                .map_err(Machine::files(format!("make the directory {name}")))
        };
        // A size that cannot be had cannot be changed either.
        let mut play = play;
        if !host.storage.offers().has_sizes() {
            let sizes = [Ability::Expand, Ability::NodeExpand];
            play.abilities.without.extend(sizes);
        }
        let plugin = Self {
            catalog: Catalog::open(&state_dir.join("catalog.redb"))?,
            directories: below("volumes")?,
            images: below("images")?,
            snapshots: below("snapshots")?,
            host,
            node_id,
            play,
            pending: Arc::default(),
            promising: Mutex::default(),
            work: TaskTracker::new(),
            state_dir,
        };
        std::fs::File::open(&plugin.state_dir)
            .and_then(|directory| directory.sync_all())
            .map_err(Machine::files("make its directories durable"))?;
        Ok(plugin)
    }

    /// Where a volume's data is.
    pub(super) fn data_of(&self, backing: Backing) -> &Data {
        match backing {
            Backing::Directory => &self.directories,
            Backing::Image | Backing::Block => &self.images,
        }
    }

    /// Whether the plugin can do that.
    pub(super) fn has(&self, ability: Ability) -> bool {
        self.play.abilities.has(ability)
    }

    /// Begins an operation; the next one about the same subject has to wait for the guard's end.
    pub(super) fn begin(&self, subject: Subject) -> Result<Operation, Pending> {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        if !pending.insert(subject.clone()) {
            let (Subject::Name(text)
            | Subject::Volume(text)
            | Subject::SnapshotName(text)
            | Subject::Snapshot(text)) = subject;
            return Err(Pending(text));
        }
        Ok(Operation {
            subject,
            pending: self.pending.clone(),
        })
    }

    /// While this is held nobody else promises room: between looking how much there is and putting
    /// down what was promised of it. Blocking.
    pub(super) fn promise(&self) -> MutexGuard<'_, ()> {
        self.promising
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs work to its end, whether the caller waits for it or not.
    pub(super) async fn run<T, E>(
        &self,
        work: impl Future<Output = Result<T, E>> + Send + 'static,
    ) -> Result<T, Status>
    where
        T: Send + 'static,
        E: From<Machine> + Send + 'static,
        Status: From<E>,
    {
        let result = self.work.spawn(work).await;
        result
            .unwrap_or_else(|ended| Err(E::from(Machine::Ended(ended))))
            .map_err(Status::from)
    }

    /// Runs work that nobody waits for but a stop of the plugin.
    pub(super) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        drop(self.work.spawn(work));
    }

    /// Lets removals end where they are; the next start takes them up.
    pub(super) fn stop_removals(&self) {
        self.directories.stop_removals();
        self.snapshots.stop_removals();
    }

    /// Runs a blocking part of some work.
    pub(super) async fn blocking<T, E>(
        self: &Arc<Self>,
        part: impl FnOnce(&Self) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<Machine> + Send + 'static,
    {
        let plugin = self.clone();
        let result = tokio::task::spawn_blocking(move || part(&plugin)).await;
        result.unwrap_or_else(|ended| Err(E::from(Machine::Ended(ended))))
    }

    /// The same, for the parts that fail as the machine does.
    pub(super) async fn files<T: Send + 'static>(
        self: &Arc<Self>,
        action: impl Into<String>,
        part: impl FnOnce(&Self) -> std::io::Result<T> + Send + 'static,
    ) -> Result<T, Machine> {
        let action = action.into();
        self.blocking(move |plugin| part(plugin).map_err(Machine::files(action)))
            .await
    }

    /// The volume of that ID, if it exists for callers.
    pub(super) fn ready(&self, id: &str) -> Result<Option<VolumeRecord>, Machine> {
        let record = self.catalog.volume(id)?;
        Ok(record.filter(|record| record.stage == Stage::Ready))
    }

    /// Waits until all work is done; none can be begun any more.
    pub(super) async fn finish(&self) {
        self.work.close();
        self.work.wait().await;
    }
}

/// An operation under way; its end is when it is dropped.
#[derive(Debug)]
pub(super) struct Operation {
    subject: Subject,
    pending: Arc<Mutex<BTreeSet<Subject>>>,
}

impl Drop for Operation {
    fn drop(&mut self) {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        pending.remove(&self.subject);
    }
}

/// Makes a directory, with those above it, for this user alone. One that is there stays as it is.
pub(super) fn private_directory(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
}
