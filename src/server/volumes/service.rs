//! [`Volumes`]: where requests about volumes come in.
//!
//! Every operation runs as a task of its own: a client that hangs up loses the answer and does not
//! cut the operation short, and a defect in one is that one's error. Tasks end at the latest some
//! time after [`Volumes::stop`]; what is cut off then is continued by the next request, as after a
//! crash.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::desk::{Desk, VolumeLimits, VolumePorts};
use super::provider::SnapshotRequest;
use crate::model::{
    ExternalVolume, NamespacedId, PluginId, Secrets, Snapshot, SnapshotId, VolumeRequest,
};
use crate::ports::{Page, PageRequest};
use crate::server::error::ServerError;
use crate::state::VolumeView;
use crate::wire::RequestProblem;

/// What a client wants written, as far as it could be read.
#[derive(Clone, Debug)]
pub struct Submitted {
    /// What was understood.
    pub request: VolumeRequest,
    /// What was not.
    pub problems: Vec<RequestProblem>,
}

impl From<VolumeRequest> for Submitted {
    /// All of it was understood.
    fn from(request: VolumeRequest) -> Self {
        Self {
            request,
            problems: vec![],
        }
    }
}

/// What a write came to.
#[derive(Clone, Debug, Default)]
pub struct WriteOutcome {
    /// Index at which all of it can be read.
    pub index: u64,
    /// The volumes as they are now, in the order of the request.
    pub volumes: Vec<VolumeView>,
    /// What was taken otherwise than it was said, a sentence each.
    pub warnings: Vec<String>,
}

/// The volume operations. A clone is the same.
#[derive(Clone)]
pub struct Volumes {
    desk: Arc<Desk>,
    tasks: TaskTracker,
    /// No operation begins any more.
    stopping: CancellationToken,
    /// Running operations are cut off.
    cut_off: CancellationToken,
}

impl Volumes {
    /// Operations over these ports.
    pub fn new(ports: VolumePorts, limits: VolumeLimits) -> Self {
        Self {
            desk: Arc::new(Desk::new(ports, limits)),
            tasks: TaskTracker::new(),
            stopping: CancellationToken::new(),
            cut_off: CancellationToken::new(),
        }
    }

    /// Registers volumes that the provider has, or updates their registrations: all of them or none
    /// (B94). A crash between them leaves those before it; the same request then does the rest.
    ///
    /// # Errors
    /// If one of them cannot be registered; it is named if there are several.
    pub async fn register(&self, volumes: Vec<Submitted>) -> Result<WriteOutcome, ServerError> {
        let desk = self.desk.clone();
        self.run(async move { desk.register(volumes).await }).await
    }

    /// Creates volumes in their providers and registers them; those that exist are updated (B01).
    /// Each for itself: those that succeeded stay if others fail (B94).
    ///
    /// # Errors
    /// All failures in one, even if there is one.
    pub async fn create(&self, volumes: Vec<Submitted>) -> Result<WriteOutcome, ServerError> {
        let desk = self.desk.clone();
        self.run(async move { desk.create_all(volumes).await })
            .await
    }

    /// Deletes a volume in its provider and forgets it. `secrets` overlay the stored ones. Returns
    /// the index at which it is gone.
    ///
    /// # Errors
    /// If it is not there, in use, shared, or if the provider did not delete it.
    pub async fn delete(&self, key: NamespacedId, secrets: Secrets) -> Result<u64, ServerError> {
        let desk = self.desk.clone();
        self.run(async move { desk.delete(&key, secrets).await })
            .await
    }

    /// Forgets a volume; the provider keeps it. With `force`, also if only allocations that have
    /// ended claim it, or if what came of its creation cannot be found out. Returns the index at
    /// which it is gone.
    ///
    /// # Errors
    /// If it is not there or in use.
    pub async fn deregister(&self, key: NamespacedId, force: bool) -> Result<u64, ServerError> {
        let desk = self.desk.clone();
        self.run(async move { desk.deregister(&key, force).await })
            .await
    }

    /// A page of what the plugin's provider has, registered or not.
    ///
    /// # Errors
    /// If the plugin is not known, cannot list, or does not answer.
    pub async fn list_external(
        &self,
        plugin: PluginId,
        page: PageRequest,
    ) -> Result<Page<ExternalVolume>, ServerError> {
        let desk = self.desk.clone();
        self.run(async move { desk.list_external(&plugin, page).await })
            .await
    }

    /// A page of the snapshots that the plugin's provider has, whoever made them.
    ///
    /// # Errors
    /// If the plugin is not known, cannot list, or does not answer.
    pub async fn list_snapshots(
        &self,
        plugin: PluginId,
        page: PageRequest,
        secrets: Secrets,
    ) -> Result<Page<Snapshot>, ServerError> {
        let desk = self.desk.clone();
        self.run(async move { desk.list_snapshots(&plugin, page, secrets).await })
            .await
    }

    /// Cuts snapshots; of a name that the provider knows for the same volume, gives that one. Each
    /// for itself: those that were cut stay if others fail.
    ///
    /// # Errors
    /// All failures in one, even if there is one; each says whether its snapshot may have been cut.
    pub async fn create_snapshots(
        &self,
        requests: Vec<SnapshotRequest>,
    ) -> Result<Vec<Snapshot>, ServerError> {
        let desk = self.desk.clone();
        self.run(async move { desk.create_snapshots(requests).await })
            .await
    }

    /// Deletes a snapshot in the provider; one that is not there is deleted.
    ///
    /// # Errors
    /// If the plugin is not known, cannot do it, or did not.
    pub async fn delete_snapshot(
        &self,
        plugin: PluginId,
        id: SnapshotId,
        secrets: Secrets,
    ) -> Result<(), ServerError> {
        let desk = self.desk.clone();
        self.run(async move { desk.delete_snapshot(&plugin, &id, secrets).await })
            .await
    }

    /// Begins nothing new, waits for what is running, cuts off what runs longer than `grace`.
    pub async fn stop(&self, grace: Duration) {
        self.stopping.cancel();
        self.tasks.close();
        if tokio::time::timeout(grace, self.tasks.wait())
            .await
            .is_err()
        {
            self.cut_off.cancel();
            self.tasks.wait().await;
        }
    }

    async fn run<T: Send + 'static>(
        &self,
        operation: impl Future<Output = Result<T, ServerError>> + Send + 'static,
    ) -> Result<T, ServerError> {
        if self.stopping.is_cancelled() {
            return Err(ServerError::Stopping);
        }
        let cut_off = self.cut_off.clone();
        let task = self.tasks.spawn(async move {
            tokio::select! {
                result = operation => result,
                () = cut_off.cancelled() => Err(ServerError::Stopping),
            }
        });
        match task.await {
            Ok(result) => result,
            Err(failed) => {
                tracing::error!(error = %failed, "an operation on a volume ended in a defect");
                Err(ServerError::Defect("an operation on a volume".into()))
            }
        }
    }
}
