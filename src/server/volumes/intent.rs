//! An intent to create, and what becomes of it.
//!
//! It stands in the record before CreateVolume is sent, and leaves it in one of two ways: the answer
//! is recorded, or it is certain that neither this call nor an earlier one under the same name has
//! made anything, and the intent is abandoned. What is certain follows from the answers alone
//! ([`leaves_nothing`]). The caller has the volume's lane.

use tracing::{info, warn};

use super::desk::{Desk, changed, unchanged};
use super::plugin::PluginFacts;
use crate::model::{MountOptions, NamespacedId, PluginId, Secrets};
use crate::ports::{CreateVolume, CreatedVolume, StatusCode, VolumeSource};
use crate::server::cell::Expected;
use crate::server::error::{Aftermath, Object, Operation, PluginFailure, ServerError};
use crate::server::forward::{Candidates, ForwardError, Outcome};
use crate::server::lanes::Lane;
use crate::state::{EventKind, Phase, Provided, VolumeDefinition, VolumeRecord, provider_name};

/// What may have been sent before under the same intent, without an answer on record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Earlier {
    /// Nothing.
    Nothing,
    /// Calls that may have taken effect.
    Calls,
}

/// An intent to create that stands in the record.
pub(super) struct Intent {
    pub(super) record: VolumeRecord,
    secrets: Secrets,
    mount_options: MountOptions,
    provider_name: String,
    earlier: Earlier,
}

/// A plugin that can be called now, and a place among its calls.
pub(super) struct Route {
    plugin: PluginFacts,
    candidates: Candidates,
    _slot: Lane<PluginId>,
}

impl Desk {
    /// Finds out what came of a creation that was begun, for whoever wants something else of the
    /// volume; afterwards it is registered, or not there.
    pub(super) async fn settle_if_creating(
        &self,
        key: &NamespacedId,
        secrets: Option<&Secrets>,
    ) -> Result<(), ServerError> {
        let record = self.cell.read(|state| state.record(key).cloned());
        let Some(record) = record.filter(|record| record.phase == Phase::Creating) else {
            return Ok(());
        };
        match self.resume(&record, secrets).await {
            Err(error) if is_refused_for_good(&error) => self.forget(key).await,
            settled => settled,
        }
    }

    /// Nobody wants the volume any more, and the provider never made it.
    async fn forget(&self, key: &NamespacedId) -> Result<(), ServerError> {
        let record = self.cell.read(|state| state.record(key).cloned());
        let Some(record) = record.filter(|record| record.phase == Phase::Creating) else {
            return Ok(());
        };
        let event = EventKind::VolumeCreateAbandoned { key: key.clone() };
        self.commit(unchanged(&record), event).await?;
        Ok(())
    }

    /// Sends again what is on record, with other secrets if there are any: a token that was wrong is
    /// no reason to be stuck.
    pub(super) async fn resume(
        &self,
        record: &VolumeRecord,
        secrets: Option<&Secrets>,
    ) -> Result<(), ServerError> {
        let route = self.route(&record.definition, self.pending(record)).await?;
        let stored = self.secrets_of(record);
        let intent = match secrets {
            Some(secrets) if stored.as_ref().ok() != Some(secrets) => {
                let definition = record.definition.clone();
                let expected = unchanged(record);
                self.intend(expected, definition, secrets.clone(), Earlier::Calls)
                    .await?
            }
            Some(_) | None => self.intent(record.clone(), stored?, Earlier::Calls)?,
        };
        self.carry_out(&intent, &route).await
    }

    /// Whom to call, and when it is this call's turn.
    pub(super) async fn route(
        &self,
        definition: &VolumeDefinition,
        aftermath: Aftermath,
    ) -> Result<Route, ServerError> {
        let id = &definition.plugin_id;
        let plugin = self.cell.read(|state| PluginFacts::look(state, id));
        let plugin = plugin.ok_or_else(|| ServerError::UnknownPlugin(id.clone()))?;
        let candidates = plugin
            .candidates()
            .map_err(|error| failure(definition, error.into(), aftermath))?;
        Ok(Route {
            _slot: self.slot(&self.creates, id).await?,
            plugin,
            candidates,
        })
    }

    /// Records an intent.
    pub(super) async fn intend(
        &self,
        expected: Expected,
        definition: VolumeDefinition,
        secrets: Secrets,
        earlier: Earlier,
    ) -> Result<Intent, ServerError> {
        let key = definition.key.clone();
        let event = EventKind::VolumeCreateIntended {
            definition: Box::new(definition),
            secrets: self.seal(&key, &secrets),
        };
        self.commit(expected, event).await?;
        let record = self.cell.read(|state| state.record(&key).cloned());
        let record = record.ok_or_else(|| changed(&key))?;
        self.intent(VolumeRecord::clone(&record), secrets, earlier)
    }

    fn intent(
        &self,
        record: VolumeRecord,
        secrets: Secrets,
        earlier: Earlier,
    ) -> Result<Intent, ServerError> {
        let provider_name = self.cell.read(|state| provider_name(state, &record));
        let mount_options = self.mount_options_of(&record.definition)?;
        Ok(Intent {
            record,
            secrets,
            mount_options: mount_options.unwrap_or_default(),
            provider_name,
            earlier,
        })
    }

    pub(super) fn pending(&self, record: &VolumeRecord) -> Aftermath {
        let provider_name = self.cell.read(|state| provider_name(state, record));
        Aftermath::Intent { provider_name }
    }

    /// Sends what is on record, and records the answer.
    pub(super) async fn carry_out(
        &self,
        intent: &Intent,
        route: &Route,
    ) -> Result<(), ServerError> {
        let key = intent.record.key();
        let created = match self.send(intent, route).await {
            Ok(created) => created,
            Err(error) => return Err(self.not_created(intent, error).await),
        };
        let (provider, provider_version) = route.plugin.provider();
        let provided = Provided {
            provider: provider.to_owned(),
            provider_version: provider_version.to_owned(),
            external_id: Some(created.external_id),
            capacity: created.capacity,
            context: created.context,
            topologies: created.topologies,
        };
        let event = EventKind::VolumeCreated {
            key: key.clone(),
            provided: Box::new(provided),
        };
        let index = self.commit(unchanged(&intent.record), event).await?;
        info!(volume.id = %key.id, volume.namespace = %key.namespace, index, "volume created");
        Ok(())
    }

    async fn send(&self, intent: &Intent, route: &Route) -> Result<CreatedVolume, ForwardError> {
        let request = create_request(intent, &route.plugin);
        let call = self
            .forward
            .call(&route.candidates, Operation::Create.rpc(), |controller| {
                let request = request.clone();
                async move { controller.create_volume(request).await }
            });
        call.await
    }

    async fn not_created(&self, intent: &Intent, error: ForwardError) -> ServerError {
        let gone = leaves_nothing(&error, intent.earlier) && self.abandon(intent).await;
        let aftermath = if gone {
            Aftermath::Nothing
        } else {
            self.pending(&intent.record)
        };
        failure(&intent.record.definition, error, aftermath)
    }

    /// Whether the intent is off the record; if not, the next request finds it there.
    async fn abandon(&self, intent: &Intent) -> bool {
        let key = intent.record.key().clone();
        let event = EventKind::VolumeCreateAbandoned { key: key.clone() };
        match self.commit(unchanged(&intent.record), event).await {
            Ok(_) => true,
            Err(error) => {
                warn!(volume.id = %key.id, volume.namespace = %key.namespace, error = error.in_full(),
                    "the intent to create the volume stays on record");
                false
            }
        }
    }
}

/// Whether a failed call, and whatever was sent before it, certainly leaves nothing behind.
pub(super) fn leaves_nothing(error: &ForwardError, earlier: Earlier) -> bool {
    match (error.outcome(), earlier) {
        (Outcome::Nothing, Earlier::Nothing) => true,
        (Outcome::Unknown, _) | (_, Earlier::Calls) => false,
    }
}

/// Whether the plugin refuses what was asked for, as it is: then it has refused the identical call
/// before, whatever became of the answer. Time does not change this, as it changes whether there is
/// room, or the source of a copy.
fn is_refused_for_good(error: &ServerError) -> bool {
    has_answered(error, StatusCode::InvalidArgument) || has_answered(error, StatusCode::OutOfRange)
}

/// Whether the plugin's last answer was this.
pub(super) fn has_answered(error: &ServerError, code: StatusCode) -> bool {
    let ServerError::Plugin(failure) = error else {
        return false;
    };
    match &failure.error {
        ForwardError::Failed { error, .. } => error.code == code,
        ForwardError::NoController(_) | ForwardError::TimedOut { .. } => false,
    }
}

fn failure(
    definition: &VolumeDefinition,
    error: ForwardError,
    aftermath: Aftermath,
) -> ServerError {
    ServerError::Plugin(Box::new(PluginFailure {
        operation: Operation::Create,
        object: Object::Volume(definition.key.clone()),
        subject: definition.name.clone(),
        plugin: definition.plugin_id.clone(),
        error,
        aftermath,
    }))
}

fn create_request(intent: &Intent, plugin: &PluginFacts) -> CreateVolume {
    let definition = &intent.record.definition;
    let source = match (&definition.clone_id, &definition.snapshot_id) {
        (Some(id), _) => Some(VolumeSource::Volume(id.clone())),
        (None, Some(id)) => Some(VolumeSource::Snapshot(id.clone())),
        (None, None) => None,
    };
    let topology = definition.topology_request.clone();
    CreateVolume {
        name: intent.provider_name.clone(),
        capacity: definition.capacity,
        capabilities: definition.capabilities.clone(),
        mount_options: intent.mount_options.clone(),
        parameters: definition.parameters.clone(),
        secrets: intent.secrets.clone(),
        source,
        topology: topology.filter(|request| plugin.has_topology() && !request.is_empty()),
    }
}
