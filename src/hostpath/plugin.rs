//! What the plugin's services share, and the rule that work once begun is not given up.
//!
//! gRPC drops a call's future when the caller goes away or its deadline passes. CSI wants the
//! opposite: a cancelled call undoes nothing and may go on (`csi-spec` 3.5). So every call's work
//! runs in a task of its own, which a stop of the plugin waits for. One operation at a time about
//! one volume: a second one is ABORTED at once, so nothing queues up (3.4).

use std::collections::BTreeSet;
use std::future::Future;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use tokio_util::task::TaskTracker;
use tonic::Status;

use super::catalog::{Catalog, Stage, VolumeRecord};
use super::data::Data;
use super::error::{Machine, Pending};
use crate::ports::{IdSource, Mounter};

/// The plugin: its records, its data, and what it needs of the machine.
pub(super) struct Plugin {
    pub(super) catalog: Catalog,
    pub(super) data: Data,
    pub(super) mounter: Arc<dyn Mounter>,
    pub(super) ids: Arc<dyn IdSource>,
    pub(super) node_id: String,
    pending: Arc<Mutex<BTreeSet<Subject>>>,
    work: TaskTracker,
}

/// What an operation is about. A name and an ID may be spelled alike.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Subject {
    /// A volume that is being created.
    Name(String),
    /// A volume.
    Volume(String),
}

impl Plugin {
    /// The plugin of a state directory that exists. Blocking: what an earlier run began to create
    /// is undone here, since nobody was told of it.
    pub(super) fn open(
        state_dir: &Path,
        node_id: String,
        mounter: Arc<dyn Mounter>,
        ids: Arc<dyn IdSource>,
    ) -> Result<Self, Machine> {
        // The mount table knows no symbolic links.
        let state_dir = state_dir
            .canonicalize()
            .map_err(Machine::files("find the state directory"))?;
        let volumes = state_dir.join("volumes");
        private_directory(&volumes)
            .and_then(|()| std::fs::File::open(&state_dir)?.sync_all())
            .map_err(Machine::files("make the directory of volumes"))?;
        let plugin = Self {
            catalog: Catalog::open(&state_dir.join("catalog.redb"))?,
            data: Data::open(&volumes).map_err(Machine::files("open the directory of volumes"))?,
            mounter,
            ids,
            node_id,
            pending: Arc::default(),
            work: TaskTracker::new(),
        };
        plugin.undo_creations()?;
        Ok(plugin)
    }

    fn undo_creations(&self) -> Result<(), Machine> {
        for record in self.catalog.unfinished()? {
            if record.stage == Stage::Creating {
                self.data
                    .remove_empty(&record.id)
                    .map_err(Machine::files("undo the creation of a volume"))?;
                self.catalog.forget(&record)?;
            }
        }
        Ok(())
    }

    /// Begins an operation; the next one about the same subject has to wait for the guard's end.
    pub(super) fn begin(&self, subject: Subject) -> Result<Operation, Pending> {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        if !pending.insert(subject.clone()) {
            let (Subject::Name(text) | Subject::Volume(text)) = subject;
            return Err(Pending(text));
        }
        Ok(Operation {
            subject,
            pending: self.pending.clone(),
        })
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
        self.data.stop_removals();
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
