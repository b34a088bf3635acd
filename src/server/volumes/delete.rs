//! Delete and deregister: a volume is forgotten, with its data or without.
//!
//! `csi-orchestration` 2.8, 2.9. Before the plugin is asked, it is certain that nobody uses the
//! volume and that it is registered once, and the intent is recorded (W09); from then on nothing
//! else can be done with it. The plugin's answer ends it: gone, or, if it is certain that nothing
//! was deleted, registered as before. Without an answer the intent stays, and the next deletion
//! sends the same call again.

use tracing::{info, warn};

use super::desk::{Desk, Subject, unchanged};
use super::intent::{Earlier, leaves_nothing};
use super::plugin::PluginFacts;
use crate::model::{ExternalId, NamespacedId, Secrets, Volume};
use crate::ports::StatusCode;
use crate::retry::Verdict;
use crate::server::cell::{CommitError, Expected};
use crate::server::error::{Aftermath, Object, Operation, PluginFailure, ServerError};
use crate::server::forward::{Candidates, ForwardError};
use crate::state::{EventKind, Phase, VolumeView, provider_name, sharing, volume};

impl Desk {
    pub(super) async fn delete(
        &self,
        key: &NamespacedId,
        secrets: Secrets,
    ) -> Result<u64, ServerError> {
        let _turn = self.turn(Subject::Volume(key.clone())).await?;
        for _ in 0..self.limits.merges {
            match self.delete_once(key, &secrets).await {
                Err(ServerError::Commit(CommitError::Conflict { .. } | CommitError::Misfit(_))) => {
                }
                result => return result,
            }
        }
        Err(ServerError::KeepsChanging(key.clone()))
    }

    async fn delete_once(&self, key: &NamespacedId, secrets: &Secrets) -> Result<u64, ServerError> {
        let was_there = self.cell.read(|state| state.record(key).is_some());
        self.settle_if_creating(key, None).await?;
        let existing = self.cell.read(|state| volume(state, key));
        let Some(existing) = existing else {
            return self.nothing_left(key, was_there);
        };
        let volume = existing.volume();
        let subject = Subject::External(volume.plugin_id.clone(), volume.remote_id());
        let _external = self.turn(subject).await?;
        self.may_be_deleted(&volume)?;
        let candidates = self.deleters(&volume)?;
        let _slot = self.slot(&self.deletes, &volume.plugin_id).await?;
        let secrets = self.secrets_of(&existing.record)?.overlaid_by(secrets);
        let intent = self.intend_delete(&existing).await?;
        let answer = self.send_delete(&volume, &candidates, secrets).await;
        self.record_delete(&volume, intent, answer).await
    }

    /// A creation that left nothing is as good as deleted.
    fn nothing_left(&self, key: &NamespacedId, was_there: bool) -> Result<u64, ServerError> {
        if was_there {
            Ok(self.cell.index())
        } else {
            Err(ServerError::VolumeNotFound(key.clone()))
        }
    }

    /// Who can delete it.
    fn deleters(&self, volume: &Volume) -> Result<Candidates, ServerError> {
        let id = &volume.plugin_id;
        let plugin = self.cell.read(|state| PluginFacts::look(state, id));
        let plugin = plugin.ok_or_else(|| ServerError::PluginGone(id.clone()))?;
        if !plugin.needs_controller() {
            return Err(ServerError::CannotDelete {
                volume: volume.key(),
                plugin: id.clone(),
            });
        }
        plugin
            .candidates()
            .map_err(|error| failure(volume, error.into(), Aftermath::Nothing))
    }

    /// Nobody uses it, and nobody else has it.
    fn may_be_deleted(&self, volume: &Volume) -> Result<(), ServerError> {
        let key = volume.key();
        if volume.is_claimed() {
            return Err(in_use(volume));
        }
        let external_id = volume.remote_id();
        let mut others = self
            .cell
            .read(|state| sharing(state, &volume.plugin_id, &external_id));
        others.retain(|other| *other != key);
        if others.is_empty() {
            return Ok(());
        }
        Err(ServerError::Shared {
            volume: key,
            external_id,
            others,
        })
    }

    /// Records the intent, unless it stands there already.
    async fn intend_delete(&self, existing: &VolumeView) -> Result<Intent, ServerError> {
        let record = &existing.record;
        match record.phase {
            Phase::Deleting => Ok(Intent {
                index: record.modify_index,
                earlier: Earlier::Calls,
            }),
            Phase::Registered | Phase::Creating => {
                let key = record.key().clone();
                let event = EventKind::VolumeDeleteIntended { key };
                Ok(Intent {
                    index: self.commit(unchanged(record), event).await?,
                    earlier: Earlier::Nothing,
                })
            }
        }
    }

    async fn send_delete(
        &self,
        volume: &Volume,
        candidates: &Candidates,
        secrets: Secrets,
    ) -> Result<(), ForwardError> {
        let external_id: ExternalId = volume.remote_id();
        let call = self
            .forward
            .call(candidates, Operation::Delete.rpc(), |controller| {
                let (external_id, secrets) = (external_id.clone(), secrets.clone());
                async move { controller.delete_volume(external_id, secrets).await }
            });
        match call.await {
            Err(ForwardError::Failed { error, .. }) if error.verdict == Verdict::AlreadyDone => {
                Ok(())
            }
            answer => answer,
        }
    }

    async fn record_delete(
        &self,
        volume: &Volume,
        intent: Intent,
        answer: Result<(), ForwardError>,
    ) -> Result<u64, ServerError> {
        let key = volume.key();
        let expected = Expected::VolumeAt(key.clone(), intent.index);
        let error = match answer {
            Ok(()) => {
                let event = EventKind::VolumeDeleted { key: key.clone() };
                let index = self.commit(expected, event).await?;
                info!(volume.id = %key.id, volume.namespace = %key.namespace, index, "volume deleted");
                return Ok(index);
            }
            Err(error) => error,
        };
        let pending = Aftermath::Intent {
            provider_name: self.provider_name(&key),
        };
        if !leaves_nothing(&error, intent.earlier) && !is_still_there(&error) {
            return Err(failure(volume, error, pending));
        }
        let event = EventKind::VolumeDeleteAbandoned { key: key.clone() };
        let aftermath = match self.commit(expected, event).await {
            Ok(_) => Aftermath::Nothing,
            Err(error) => {
                warn!(volume.id = %key.id, volume.namespace = %key.namespace, error = error.in_full(),
                    "the intent to delete the volume stays on record");
                pending
            }
        };
        Err(failure(volume, error, aftermath))
    }

    fn provider_name(&self, key: &NamespacedId) -> String {
        self.cell.read(|state| {
            let record = state.record(key);
            record.map_or_else(String::new, |record| provider_name(state, record))
        })
    }

    pub(super) async fn deregister(
        &self,
        key: &NamespacedId,
        force: bool,
    ) -> Result<u64, ServerError> {
        let _turn = self.turn(Subject::Volume(key.clone())).await?;
        for _ in 0..self.limits.merges {
            match self.deregister_once(key, force).await {
                Err(ServerError::Commit(CommitError::Conflict { .. } | CommitError::Misfit(_))) => {
                }
                result => return result,
            }
        }
        Err(ServerError::KeepsChanging(key.clone()))
    }

    async fn deregister_once(&self, key: &NamespacedId, force: bool) -> Result<u64, ServerError> {
        let is_there = self.cell.read(|state| state.record(key).is_some());
        if !is_there {
            return Err(ServerError::VolumeNotFound(key.clone()));
        }
        match self.settle_if_creating(key, None).await {
            Err(_) if force => return self.give_up_creation(key).await,
            settled => settled?,
        }
        let existing = self.cell.read(|state| volume(state, key));
        let Some(existing) = existing else {
            return self.nothing_left(key, true);
        };
        let volume = existing.volume();
        let ended = || volume.allocs.iter().all(|alloc| alloc.client.is_terminal());
        if volume.is_claimed() && !(force && ended()) {
            return Err(in_use(&volume));
        }
        let event = EventKind::VolumeDeregistered { key: key.clone() };
        let index = self.commit(unchanged(&existing.record), event).await?;
        info!(volume.id = %key.id, volume.namespace = %key.namespace, index, "volume deregistered");
        Ok(index)
    }

    /// The operator's word that what may be left in the provider is his to clean up.
    async fn give_up_creation(&self, key: &NamespacedId) -> Result<u64, ServerError> {
        let record = self.cell.read(|state| state.record(key).cloned());
        let record = record.ok_or_else(|| ServerError::VolumeNotFound(key.clone()))?;
        let provider_name = self.provider_name(key);
        let event = EventKind::VolumeCreateAbandoned { key: key.clone() };
        let index = self.commit(unchanged(&record), event).await?;
        warn!(volume.id = %key.id, volume.namespace = %key.namespace, index, provider_name,
            "a creation was given up by force; the provider may have a volume of that name");
        Ok(index)
    }
}

/// A deletion on record.
struct Intent {
    /// Index of the record that holds it.
    index: u64,
    /// Whether DeleteVolume may have been sent before.
    earlier: Earlier,
}

/// Whether the plugin says that the volume is there and in use: then no earlier call has deleted it.
fn is_still_there(error: &ForwardError) -> bool {
    match error {
        ForwardError::Failed { error, .. } => error.code == StatusCode::FailedPrecondition,
        ForwardError::NoController(_) | ForwardError::TimedOut { .. } => false,
    }
}

fn in_use(volume: &Volume) -> ServerError {
    ServerError::VolumeInUse {
        volume: volume.key(),
        holders: volume.claimants().cloned().collect(),
    }
}

fn failure(volume: &Volume, error: ForwardError, aftermath: Aftermath) -> ServerError {
    ServerError::Plugin(Box::new(PluginFailure {
        operation: Operation::Delete,
        object: Object::Volume(volume.key()),
        subject: volume.remote_id().to_string(),
        plugin: volume.plugin_id.clone(),
        error,
        aftermath,
    }))
}
