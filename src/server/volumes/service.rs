//! [`VolumeService`]: the entry point of all volume operations.
//!
//! Every operation runs as its own task. A client that disconnects loses the answer but does not
//! interrupt the operation, and a panic fails only that operation. A client whose operation waits for
//! a late answer of the plugin gets an error, and the operation goes on. [`VolumeService::stop`] bounds how
//! long tasks run; the next request continues an aborted one, as after a crash.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{Instrument as _, Span};

use super::capacity::read_capacity;
use super::create::{continue_creation, create_volumes, give_up_creation};
use super::creation::GivenUp;
use super::delete::delete_volume;
use super::deps::{VolumeDeps, volume_span};
use super::deregister::deregister_volumes;
use super::health::{count_health, read_health};
use super::limits::VolumeLimits;
use super::modify::{ModifiedVolume, modify_volume};
use super::pending::{CreationPauses, PendingCreation};
use super::provider::{
    CreatedSnapshot, SnapshotRequest, create_snapshots, delete_snapshot, list_snapshots,
    list_volumes,
};
use super::register::register_volumes;
use super::submission::{VolumeSubmission, VolumeWriteResult};
use crate::early_reply::EarlyReply;
use crate::error::ServerError;
use crate::ports::ServerPorts;
use nomad_csi_model::{
    CapacityReport, ExternalVolume, NamespacedId, PluginId, Secrets, Snapshot, SnapshotId,
    VolumeHealth,
};
use nomad_csi_ports::{Page, PageRequest, VolumeHealthCounts};

/// Runs volume operations. Clones share their state.
#[derive(Clone)]
pub struct VolumeService {
    deps: Arc<VolumeDeps>,
    pending: CreationPauses,
    tasks: TaskTracker,
    /// Cancelled when new operations are refused.
    stopping: CancellationToken,
    /// Cancelled when running operations are aborted.
    aborting: CancellationToken,
}

impl VolumeService {
    /// A service over these ports.
    pub fn new(ports: ServerPorts, limits: &VolumeLimits) -> Self {
        Self {
            deps: Arc::new(VolumeDeps::new(ports, limits)),
            pending: CreationPauses::default(),
            tasks: TaskTracker::new(),
            stopping: CancellationToken::new(),
            aborting: CancellationToken::new(),
        }
    }

    /// Registers volumes that the provider has, or updates their registrations: all of them or none, in one
    /// durable write.
    ///
    /// # Errors
    /// If one of them cannot be registered. The error names it if there are several.
    pub async fn register(
        &self,
        volumes: Vec<VolumeSubmission>,
    ) -> Result<VolumeWriteResult, ServerError> {
        self.register_at(volumes, None).await
    }

    /// Registers volumes like [`VolumeService::register`], only if the specification of each last changed
    /// at this index; with index 0, only if there is none.
    ///
    /// # Errors
    /// Those of [`VolumeService::register`], and if a specification is another one.
    pub async fn register_at(
        &self,
        volumes: Vec<VolumeSubmission>,
        at: Option<u64>,
    ) -> Result<VolumeWriteResult, ServerError> {
        self.run(Span::current(), |deps, reply| async move {
            register_volumes(&deps, &reply, volumes, at).await
        })
        .await
    }

    /// Creates volumes at their providers and registers them; updates those that exist. Each volume is
    /// independent: those that succeeded stay if others fail.
    ///
    /// # Errors
    /// All failures in one error, even a single one.
    pub async fn create(
        &self,
        volumes: Vec<VolumeSubmission>,
    ) -> Result<VolumeWriteResult, ServerError> {
        let created = self.run(Span::current(), |deps, reply| async move {
            create_volumes(&deps, &reply, volumes).await
        });
        created.await.map_err(as_list)
    }

    /// The pauses of the creations that did not end.
    pub(super) fn creation_pauses(&self) -> CreationPauses {
        self.pending.clone()
    }

    /// Returns the selected creations that did not end, sorted by namespace and ID, with the index of the state.
    pub fn pending_creations(
        &self,
        is_selected: impl Fn(&NamespacedId) -> bool,
    ) -> (Vec<PendingCreation>, u64) {
        let store = &self.deps.store;
        store.read(|state| (self.pending.pending(state, is_selected), state.index()))
    }

    /// Continues a creation that did not end.
    pub(super) async fn continue_creation(&self, key: NamespacedId) -> Result<(), ServerError> {
        self.run(volume_span(&key), |deps, reply| async move {
            continue_creation(&deps, &reply, &key).await
        })
        .await
    }

    /// Gives up a creation that did not end: the agent forgets it, and the provider may have the volume. Waits
    /// until no call is under way.
    ///
    /// # Errors
    /// If no creation of the volume is pending, or a call does not end in time.
    pub async fn give_up_creation(&self, key: NamespacedId) -> Result<GivenUp, ServerError> {
        self.run(volume_span(&key), |deps, _| async move { give_up_creation(&deps, &key).await })
            .await
    }

    /// Deletes a volume at its provider and removes its registration. `secrets` overlay the stored
    /// ones. Returns the index at which the volume is gone.
    ///
    /// # Errors
    /// If it does not exist, is in use or shared, or if the provider did not delete it.
    pub async fn delete(&self, key: NamespacedId, secrets: Secrets) -> Result<u64, ServerError> {
        self.delete_at(key, secrets, None).await
    }

    /// Deletes a volume like [`VolumeService::delete`], only if its specification last changed at this
    /// index.
    ///
    /// # Errors
    /// Those of [`VolumeService::delete`], and if the specification is another one.
    pub async fn delete_at(
        &self,
        key: NamespacedId,
        secrets: Secrets,
        at: Option<u64>,
    ) -> Result<u64, ServerError> {
        self.run(volume_span(&key), |deps, reply| async move {
            delete_volume(&deps, &reply, &key, secrets, at).await
        })
        .await
    }

    /// Changes mutable parameters of a volume at its provider. Those that are not named stay as they are.
    ///
    /// # Errors
    /// If the volume does not exist, a limit is exceeded, the plugin cannot modify volumes, or it failed. The error says
    /// whether the change is pending; the same request continues it.
    pub async fn modify(
        &self,
        key: NamespacedId,
        parameters: BTreeMap<String, String>,
    ) -> Result<ModifiedVolume, ServerError> {
        self.run(volume_span(&key), |deps, reply| async move {
            modify_volume(&deps, &reply, &key, &parameters).await
        })
        .await
    }

    /// Removes the registration of a volume; the provider keeps it. `force` ignores claims of
    /// allocations that have ended, and removes a creation whose outcome is unknown. Returns the index
    /// at which the registration is gone.
    ///
    /// # Errors
    /// If it does not exist or is in use.
    pub async fn deregister(&self, key: NamespacedId, force: bool) -> Result<u64, ServerError> {
        self.deregister_at(key, force, None).await
    }

    /// Removes a registration like [`VolumeService::deregister`], only if its specification last changed
    /// at this index.
    ///
    /// # Errors
    /// Those of [`VolumeService::deregister`], and if the specification is another one.
    pub async fn deregister_at(
        &self,
        key: NamespacedId,
        force: bool,
        at: Option<u64>,
    ) -> Result<u64, ServerError> {
        self.run(volume_span(&key), |deps, reply| async move {
            deregister_volumes(&deps, &reply, &BTreeSet::from([key]), force, at).await
        })
        .await
    }

    /// Removes several registrations, all or none.
    ///
    /// # Errors
    /// Those of [`VolumeService::deregister`], with the volume.
    pub async fn deregister_all(
        &self,
        keys: BTreeSet<NamespacedId>,
        force: bool,
    ) -> Result<u64, ServerError> {
        self.run(Span::current(), |deps, reply| async move {
            deregister_volumes(&deps, &reply, &keys, force, None).await
        })
        .await
    }

    /// Asks the plugin for the health of a volume, and the nodes that use it.
    ///
    /// # Errors
    /// If the volume does not exist. What does not answer is part of the report.
    pub async fn health(&self, key: NamespacedId) -> Result<VolumeHealth, ServerError> {
        self.run(volume_span(&key), |deps, _| async move { read_health(&deps, &key).await }).await
    }

    /// Asks a plugin what its provider can still provide, for each topology of its nodes.
    ///
    /// # Errors
    /// If the plugin does not exist. What does not answer is part of the report.
    pub async fn capacity(&self, plugin: PluginId) -> Result<CapacityReport, ServerError> {
        self.run(Span::current(), |deps, _| async move { read_capacity(&deps, &plugin).await })
            .await
    }

    /// Asks the plugins that list the health of their volumes, and counts the registered volumes by it.
    ///
    /// # Errors
    /// If the service stops.
    pub async fn count_health(&self) -> Result<VolumeHealthCounts, ServerError> {
        self.run(Span::current(), |deps, _| async move { Ok(count_health(&deps).await) }).await
    }

    /// Returns a page of the provider's volumes, registered or not.
    ///
    /// # Errors
    /// If the plugin is unknown, cannot list, or does not answer.
    pub async fn list_external(
        &self,
        plugin: PluginId,
        page: PageRequest,
    ) -> Result<Page<ExternalVolume>, ServerError> {
        self.run(Span::current(), |deps, _| async move { list_volumes(&deps, &plugin, page).await })
            .await
    }

    /// Returns a page of the provider's snapshots.
    ///
    /// # Errors
    /// If the plugin is unknown, cannot list, or does not answer.
    pub async fn list_snapshots(
        &self,
        plugin: PluginId,
        page: PageRequest,
        secrets: Secrets,
    ) -> Result<Page<Snapshot>, ServerError> {
        self.run(Span::current(), |deps, _| async move {
            list_snapshots(&deps, &plugin, page, secrets).await
        })
        .await
    }

    /// Creates snapshots. If the provider has a snapshot of that name and volume, returns that one.
    /// Each snapshot is independent: those that were created stay if others fail.
    ///
    /// # Errors
    /// All failures in one error, even a single one. Each reports whether its snapshot may exist, and the error
    /// names the snapshots that were created.
    pub async fn create_snapshots(
        &self,
        requests: Vec<SnapshotRequest>,
    ) -> Result<Vec<CreatedSnapshot>, ServerError> {
        let created = self.run(Span::current(), |deps, reply| async move {
            create_snapshots(&deps, &reply, requests).await
        });
        created.await.map_err(as_list)
    }

    /// Deletes a snapshot at the provider. Succeeds if it does not exist.
    ///
    /// # Errors
    /// If the plugin is unknown, cannot delete snapshots, or failed.
    pub async fn delete_snapshot(
        &self,
        plugin: PluginId,
        id: SnapshotId,
        secrets: Secrets,
    ) -> Result<(), ServerError> {
        self.run(Span::current(), |deps, reply| async move {
            delete_snapshot(&deps, &reply, &plugin, &id, secrets).await
        })
        .await
    }

    /// Refuses new operations, waits for running ones, and aborts those that exceed `grace`.
    pub async fn stop(&self, grace: Duration) {
        self.stopping.cancel();
        self.tasks.close();
        if tokio::time::timeout(grace, self.tasks.wait()).await.is_err() {
            self.aborting.cancel();
            self.tasks.wait().await;
        }
    }

    /// Runs an operation as a task in a span. The client gets its result, or what it replies before.
    async fn run<T, F>(
        &self,
        span: Span,
        operation: impl FnOnce(Arc<VolumeDeps>, EarlyReply) -> F,
    ) -> Result<T, ServerError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, ServerError>> + Send + 'static,
    {
        if self.stopping.is_cancelled() {
            return Err(ServerError::Stopping);
        }
        let aborting = self.aborting.clone();
        let (reply, early) = EarlyReply::channel();
        let operation = operation(self.deps.clone(), reply);
        let operation = async move {
            tokio::select! {
                result = operation => result,
                () = aborting.cancelled() => Err(ServerError::Stopping),
            }
        };
        let task = self.tasks.spawn(operation.instrument(span));
        tokio::select! {
            biased;
            result = task => result.unwrap_or_else(|failed| Err(panicked(&failed))),
            Ok(error) = early => Err(error),
        }
    }
}

/// Returns a list of failures also for a single failed call.
fn as_list(error: ServerError) -> ServerError {
    match error {
        failed @ ServerError::Plugin(_) => ServerError::Multiple(vec![failed]),
        error => error,
    }
}

fn panicked(failed: &tokio::task::JoinError) -> ServerError {
    tracing::error!(error = %failed, "a volume operation panicked");
    ServerError::Internal("a volume operation panicked".into())
}
