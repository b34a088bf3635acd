//! Delete: the provider deletes a volume, and its registration is removed.
//!
//! The agent checks for claims and for other registrations before it asks the plugin, then records
//! the intent. From then on only a delete is possible. The answer resolves the intent: the volume is
//! gone, or it is registered as before if certainly nothing was deleted. Without an answer the intent
//! stays, and the next delete sends the same call again.

use std::collections::BTreeSet;

use tracing::{info, warn};

use super::call_effect::{PriorCalls, certainly_had_no_effect};
use super::creation::CreationProtocol;
use super::limiter::{LockedResource, OperationLimiter};
use super::plugin::VolumePlugin;
use super::store::{VolumeStore, unchanged};
use crate::candidates::Candidates;
use crate::cell::Expected;
use crate::early_reply::reply_early;
use crate::error::{CallTarget, ControllerOperation, PluginFailure, ResidualState, ServerError};
use crate::forward::ControllerCaller;
use crate::forward_error::ForwardError;
use crate::plugin_call_queue::CallClass;
use crate::plugin_call_queues::CallPermit;
use crate::sealing::VolumeSealer;
use nomad_csi_claims::state::{EventKind, Phase, VolumeView, volumes_of_data};
use nomad_csi_model::retry::Verdict;
use nomad_csi_model::{CapacityReport, ExternalId, NamespacedId, Secrets, Volume};
use nomad_csi_ports::StatusCode;

/// Deletes volumes.
pub(super) struct VolumeDeleter {
    pub(super) store: VolumeStore,
    pub(super) sealer: VolumeSealer,
    pub(super) limiter: OperationLimiter,
    pub(super) controller_caller: ControllerCaller,
    pub(super) creation: CreationProtocol,
}

/// A recorded deletion.
struct DeleteIntent {
    /// Index of the record that contains it.
    index: u64,
    prior: PriorCalls,
}

impl VolumeDeleter {
    pub(super) async fn delete(
        &self,
        key: &NamespacedId,
        secrets: Secrets,
        at: Option<u64>,
    ) -> Result<u64, ServerError> {
        let resource = LockedResource::Volume(key.clone());
        let _permit = self.limiter.acquire(resource).await?;
        self.store.check_spec_index(key, at)?;
        self.store.retry_on_conflict(key, || self.delete_once(key, &secrets)).await
    }

    async fn delete_once(&self, key: &NamespacedId, secrets: &Secrets) -> Result<u64, ServerError> {
        let existed = self.store.record(key).is_some();
        self.creation.settle(key, None).await?;
        let existing = match self.store.view(key) {
            Some(existing) => existing,
            // The creation was pending and had no effect, so the volume counts as deleted.
            None if existed => return Ok(self.store.index()),
            None => return Err(ServerError::VolumeNotFound(key.clone())),
        };
        let volume = existing.volume();
        let external = LockedResource::External(volume.plugin_id.clone(), volume.remote_id());
        let _external = self.limiter.acquire(external).await?;
        self.check_deletable(&existing)?;
        let candidates = self.candidates(&volume)?;
        let class = CallClass::Release;
        let permit = self.limiter.acquire_call(class, &volume.plugin_id).await?;
        let stored = self.sealer.secrets_of(&existing.record)?;
        let secrets = stored.merged_with(secrets);
        let intent = self.record_intent(&existing).await?;
        let to = (&candidates, &permit);
        let answer = self.send(&volume, to, secrets).await;
        self.record_answer(&volume, intent, answer).await
    }

    /// The controllers that can delete the volume.
    fn candidates(&self, volume: &Volume) -> Result<Candidates, ServerError> {
        let id = &volume.plugin_id;
        let plugin = self.store.read(|state| VolumePlugin::read(state, id));
        let plugin = plugin.ok_or_else(|| ServerError::PluginNotFound(id.clone()))?;
        if !plugin.needs_controller() {
            return Err(ServerError::CannotDelete { volume: volume.key(), plugin: id.clone() });
        }
        plugin.candidates().map_err(|error| failure(volume, error.into(), ResidualState::None))
    }

    /// Refuses a volume that has claims, or that is registered more than once. The claims of a registration
    /// that is gone count too: its data may still be attached.
    fn check_deletable(&self, existing: &VolumeView) -> Result<(), ServerError> {
        let volume = existing.volume();
        if volume.is_claimed() {
            return Err(in_use(&volume));
        }
        let key = volume.key();
        let external_id = volume.remote_id();
        let mut others = self.store.read(|state| volumes_of_data(state, existing));
        others.retain(|other| *other != key);
        if !others.is_empty() {
            return Err(ServerError::Shared { volume: key, external_id, others });
        }
        let orphaned = existing.claims.iter().flat_map(|record| record.claims.claims.keys());
        let claiming: BTreeSet<_> = orphaned.map(|key| key.alloc.clone()).collect();
        match claiming.is_empty() {
            true => Ok(()),
            false => Err(ServerError::VolumeInUse {
                volume: key,
                claiming_allocs: claiming.into_iter().collect(),
            }),
        }
    }

    /// Records the intent, unless it is on record already.
    async fn record_intent(&self, existing: &VolumeView) -> Result<DeleteIntent, ServerError> {
        let record = &existing.record;
        match record.phase {
            Phase::Deleting => {
                Ok(DeleteIntent { index: record.modify_index, prior: PriorCalls::Possible })
            }
            Phase::Registered | Phase::Creating => {
                let key = record.key().clone();
                let event = EventKind::VolumeDeleteIntended { key };
                Ok(DeleteIntent {
                    index: self.store.commit(unchanged(record), event).await?,
                    prior: PriorCalls::None,
                })
            }
        }
    }

    async fn send(
        &self,
        volume: &Volume,
        to: (&Candidates, &CallPermit),
        secrets: Secrets,
    ) -> Result<(), ForwardError> {
        let external_id: ExternalId = volume.remote_id();
        let rpc = ControllerOperation::Delete.rpc();
        let report = |error| reply_early(failure(volume, error, self.pending(&volume.key())));
        let answer = self.controller_caller.change(to, rpc, report, |controller| {
            let (external_id, secrets) = (external_id.clone(), secrets.clone());
            async move { controller.delete_volume(external_id, secrets).await }
        });
        match answer.await {
            Err(ForwardError::Failed { error, .. }) if error.verdict == Verdict::AlreadyDone => {
                Ok(())
            }
            answer => answer,
        }
    }

    /// The state that a failure leaves while the intent is on record.
    fn pending(&self, key: &NamespacedId) -> ResidualState {
        ResidualState::PendingIntent { provider_name: self.store.provider_name(key) }
    }

    async fn record_answer(
        &self,
        volume: &Volume,
        intent: DeleteIntent,
        answer: Result<(), ForwardError>,
    ) -> Result<u64, ServerError> {
        let key = volume.key();
        let expected = Expected::VolumeAt(key.clone(), intent.index);
        let error = match answer {
            Ok(()) => {
                let event = EventKind::VolumeDeleted { key: key.clone() };
                let index = self.store.commit(expected, event).await?;
                info!(volume.id = %key.id, volume.namespace = %key.namespace, index, "volume deleted");
                return Ok(index);
            }
            Err(error) => error,
        };
        let pending = self.pending(&key);
        if !certainly_had_no_effect(&error, intent.prior) && !is_in_use_at_provider(&error) {
            return Err(failure(volume, error, pending));
        }
        let event = EventKind::VolumeDeleteAbandoned { key: key.clone() };
        let residual = match self.store.commit(expected, event).await {
            Ok(_) => ResidualState::None,
            Err(error) => {
                warn!(volume.id = %key.id, volume.namespace = %key.namespace, error = error.detail(),
                    "the intent to delete the volume stays on record");
                pending
            }
        };
        Err(failure(volume, error, residual))
    }
}

/// Returns whether the plugin reports that the volume is in use: then no earlier call has deleted it.
fn is_in_use_at_provider(error: &ForwardError) -> bool {
    match error {
        ForwardError::Failed { error, .. } => error.code == StatusCode::FailedPrecondition,
        ForwardError::NoController(_) | ForwardError::TimedOut { .. } => false,
    }
}

/// The refusal of a volume that has claims.
pub(super) fn in_use(volume: &Volume) -> ServerError {
    ServerError::VolumeInUse {
        volume: volume.key(),
        claiming_allocs: volume.claiming_allocs().cloned().collect(),
    }
}

fn failure(volume: &Volume, error: ForwardError, residual: ResidualState) -> ServerError {
    ServerError::Plugin(Box::new(PluginFailure {
        operation: ControllerOperation::Delete,
        target: CallTarget::Volume(volume.key()),
        subject: volume.remote_id().to_string(),
        plugin: volume.plugin_id.clone(),
        error,
        residual,
        capacity: CapacityReport::default(),
    }))
}
