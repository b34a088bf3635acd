//! The protocol of CreateVolume: intent, call, answer.
//!
//! The intent is recorded before the call, with the controller that gets it. It is removed in one of two ways: the answer is recorded,
//! or neither this call nor an earlier one under the same name can have created anything, and the
//! intent is abandoned. The answers alone decide which ([`certainly_had_no_effect`]). Callers hold
//! the volume's lock.
//!
//! A creation may have been requested in several ways before one was answered. The intent has every request
//! that was sent and may have created the volume. They all have one name, so at most one has, and the plugin
//! refuses the others: they are sent one after the other, the newest first, until one is answered. A refusal says nothing of
//! the same request with other secrets.

use std::sync::Arc;

use tracing::{info, warn};

use super::call_effect::{certainly_had_no_effect, is_certainly_refused, is_permanently_refused};
use super::capacity::read_capacity_for;
use super::deps::VolumeDeps;
use super::named_intent::{NamedIntent, Prior, is_named, named_call};
use super::plugin::VolumePlugin;
use super::store::unchanged;
use crate::cell::{CommitError, Expected};
use crate::early_reply::EarlyReply;
use crate::error::{
    CallDescription, CallTarget, ControllerOperation, PluginFailure, ResidualState, ServerError,
};
use crate::forward::PermittedCalls;
use crate::forward_error::ForwardError;
use crate::plugin_call_queue::CallClass;
use nomad_csi_claims::state::{
    ControllerCall, CreateRequest, EventKind, IntentRequest, Phase, ProviderFacts, State,
    VolumeDefinition, VolumeIntent, VolumeRecord, provider_name, went_to_one_program,
};
use nomad_csi_model::{
    AllocId, CapacityReport, MountOptions, NamespacedId, PluginId, RemoteVolume, SealedSecrets,
    Secrets,
};
use nomad_csi_ports::{CreateVolume, CreatedVolume, GetCapacity, Rpc, StatusCode, VolumeSource};

/// A recorded intent to create a volume.
pub(super) struct CreateIntent {
    named: NamedIntent,
    secrets: Secrets,
    mount_options: MountOptions,
    provider_name: String,
}

impl CreateIntent {
    /// Returns the record as it is now.
    pub(super) fn record(&self) -> VolumeRecord {
        self.named.latest()
    }
}

/// A plugin, and the right to call it.
pub(super) struct PreparedCall {
    plugin: VolumePlugin,
    calls: PermittedCalls,
}

/// A creation that was given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenUp {
    /// The plugin.
    pub plugin: PluginId,
    /// The name of the volume at the provider, if it was created.
    pub provider_name: String,
    /// The index of the change.
    pub index: u64,
}

/// Resolves a pending creation before another operation on the volume. Afterwards the volume is
/// registered or absent.
pub(super) async fn settle_creation(
    deps: &VolumeDeps,
    reply: &EarlyReply,
    key: &NamespacedId,
    secrets: Option<&Secrets>,
) -> Result<(), ServerError> {
    let record = deps.store.record(key);
    let Some(record) = record.filter(|record| record.phase == Phase::Creating) else {
        return Ok(());
    };
    match resume_creation(deps, reply, &record, secrets, false).await {
        Err(error) if is_permanently_refused(&error) => {
            remove_refused_intent(deps, key, error).await
        }
        settled => settled,
    }
}

/// Removes the intent of a volume that the provider has never created. If another controller, or another version of the
/// plugin, may have created it before, the refusal proves nothing, and the intent stays.
async fn remove_refused_intent(
    deps: &VolumeDeps,
    key: &NamespacedId,
    refusal: ServerError,
) -> Result<(), ServerError> {
    let record = deps.store.record(key);
    let Some(record) = record.filter(|record| record.phase == Phase::Creating) else {
        return Ok(());
    };
    let is_answer_for_all =
        |state: &State| went_to_one_program(state, &record, VolumeIntent::Create);
    if !deps.store.read(is_answer_for_all) {
        return Err(refusal);
    }
    let event = EventKind::VolumeCreateAbandoned { key: key.clone(), may_remain: None };
    deps.store.commit(unchanged(&record), event).await?;
    Ok(())
}

/// Removes the intent of a volume that the provider may have. The caller has the volume's lock, so no call is
/// under way.
pub(super) async fn give_up_intent(
    deps: &VolumeDeps,
    key: &NamespacedId,
) -> Result<GivenUp, ServerError> {
    let (record, event) = giving_up_event(deps, key)?;
    let provider_name = deps.store.read(|state| provider_name(state, &record));
    let index = deps.store.commit(unchanged(&record), event).await?;
    Ok(GivenUp { plugin: record.definition.plugin_id.clone(), provider_name, index })
}

/// Returns the event that gives a pending creation up, with the record that it is for.
pub(super) fn giving_up_event(
    deps: &VolumeDeps,
    key: &NamespacedId,
) -> Result<(Arc<VolumeRecord>, EventKind), ServerError> {
    let record = deps.store.record(key);
    let record = record.filter(|record| record.phase == Phase::Creating);
    let record = record.ok_or_else(|| ServerError::NoPendingCreation(key.clone()))?;
    let name = deps.store.read(|state| provider_name(state, &record));
    warn!(volume.id = %key.id, volume.namespace = %key.namespace, provider_name = name,
        "a pending creation is given up; the provider may have a volume of that name");
    let event = EventKind::VolumeCreateAbandoned { key: key.clone(), may_remain: Some(name) };
    Ok((record, event))
}

/// Sends the recorded requests again. Given secrets replace the recorded ones, so that a wrong
/// token can be corrected.
pub(super) async fn resume_creation(
    deps: &VolumeDeps,
    reply: &EarlyReply,
    record: &VolumeRecord,
    secrets: Option<&Secrets>,
    may_share: bool,
) -> Result<(), ServerError> {
    let call = prepare_call(deps, &record.definition, deps.pending(record)).await?;
    let stored = deps.sealer.secrets_of(record);
    let changed = secrets.filter(|secrets| stored.as_ref().ok() != Some(secrets));
    let request = changed.map(|secrets| create_request(deps, &record.definition, secrets));
    let create = VolumeIntent::Create;
    let fingerprint = call.fingerprint(deps, &record.secrets, &record.definition).ok();
    let named = fingerprint.filter(|fingerprint| {
        request.is_none() && is_named(deps, record, (create, fingerprint), &call.calls)
    });
    let intent = match (named, request) {
        (Some(fingerprint), None) => {
            let create = (create, fingerprint);
            let named = NamedIntent::found(deps, record.clone(), create, Prior::Possible);
            intent(deps, named)?
        }
        (_, request) => {
            let recorded = || CreateRequest {
                definition: record.definition.clone(),
                secrets: record.secrets.clone(),
            };
            let request = request.unwrap_or_else(recorded);
            let earlier = record.earlier_creates.clone();
            let expected = (unchanged(record), call.preferred());
            record_intent(deps, &call, expected, (request, earlier), Prior::Possible).await?
        }
    };
    match send_and_record(deps, reply, &intent, &call, may_share).await {
        Err(error) if is_certainly_refused(&error) => {
            try_earlier_requests(deps, reply, &intent, secrets, &call, may_share, error).await
        }
        ended => ended,
    }
}

/// Sends the earlier requests of an intent whose own request was refused: one of them may have created the
/// volume. They go to the instance that refused it. Without an answer to any, the intent is as it was.
///
/// # Errors
/// That of the first request without an answer, or `refusal` if each one is refused.
pub(super) async fn try_earlier_requests(
    deps: &VolumeDeps,
    reply: &EarlyReply,
    intent: &CreateIntent,
    secrets: Option<&Secrets>,
    call: &PreparedCall,
    may_share: bool,
    refusal: ServerError,
) -> Result<(), ServerError> {
    let mut record = intent.record();
    let sent = record.create_requests();
    let mut refusal = refusal;
    for (at, request) in sent.iter().enumerate().skip(1) {
        let request = match secrets {
            Some(secrets) => create_request(deps, &request.definition, secrets),
            None => request.clone(),
        };
        let mut others = sent.clone();
        others.remove(at);
        let instance = record.controller_of(VolumeIntent::Create);
        let instance = instance.map(|controller| controller.instance.clone());
        let expected = (unchanged(&record), instance);
        let next = record_intent(deps, call, expected, (request, others), Prior::Sent).await?;
        match send_and_record(deps, reply, &next, call, may_share).await {
            Ok(()) => return Ok(()),
            Err(error) if is_certainly_refused(&error) => {
                // A refusal that says that the volume exists is the one to know of.
                if is_permanently_refused(&refusal) {
                    refusal = error;
                }
            }
            Err(error) => return Err(error),
        }
        record = next.record();
    }
    if sent.len() > 1 {
        restore_intent(deps, &intent.record()).await;
    }
    Err(refusal)
}

/// A request as it is recorded.
pub(super) fn create_request(
    deps: &VolumeDeps,
    definition: &VolumeDefinition,
    secrets: &Secrets,
) -> CreateRequest {
    CreateRequest {
        definition: definition.clone(),
        secrets: deps.sealer.seal(&definition.key, secrets),
    }
}

/// Finds the plugin's usable controllers and waits for a permit to call them.
pub(super) async fn prepare_call(
    deps: &VolumeDeps,
    definition: &VolumeDefinition,
    residual: ResidualState,
) -> Result<PreparedCall, ServerError> {
    let plugin = deps.store.plugin(&definition.plugin_id)?;
    let description = description(definition);
    let bound = creation(definition);
    let class = (CallClass::Create, &bound);
    let calls = deps.admit_for(class, &plugin, &description, residual).await?;
    Ok(PreparedCall { plugin, calls })
}

impl PreparedCall {
    /// Returns the instance that is called first.
    pub(super) fn preferred(&self) -> Option<AllocId> {
        self.calls.preferred().cloned()
    }

    /// Returns the fingerprint of what a request sends besides its definition, which the record has.
    fn fingerprint(
        &self,
        deps: &VolumeDeps,
        sealed: &SealedSecrets,
        definition: &VolumeDefinition,
    ) -> Result<String, ServerError> {
        let secrets = deps.sealer.open_secrets(&definition.key, sealed)?;
        let facts = [("topology".to_owned(), self.plugin.has_topology().to_string())];
        Ok(deps.sealer.request_fingerprint(&definition.key, facts, &secrets))
    }
}

fn creation(definition: &VolumeDefinition) -> ControllerCall {
    ControllerCall::Create { plugin: definition.plugin_id.clone(), key: definition.key.clone() }
}

/// Records an intent for an instance, with the requests that were sent before.
pub(super) async fn record_intent(
    deps: &VolumeDeps,
    call: &PreparedCall,
    (expected, instance): (Expected, Option<AllocId>),
    (request, earlier): (CreateRequest, Vec<CreateRequest>),
    prior: Prior,
) -> Result<CreateIntent, ServerError> {
    let (key, bound) = (request.definition.key.clone(), creation(&request.definition));
    let fingerprint = call.fingerprint(deps, &request.secrets, &request.definition)?;
    let create = (VolumeIntent::Create, instance.as_ref());
    let named = match deps.store.record(&key) {
        Some(record) => deps.store.intent_request(&record, create, &fingerprint),
        None => IntentRequest { fingerprint: fingerprint.clone(), has_new_instance: false },
    };
    let event = EventKind::VolumeCreateIntended {
        definition: Box::new(request.definition),
        secrets: request.secrets,
        earlier,
        instance: instance.clone(),
        request: Some(named),
    };
    let what = (&key, &bound, (VolumeIntent::Create, fingerprint));
    intent(deps, NamedIntent::record(deps, what, (expected, instance), event, prior).await?)
}

fn intent(deps: &VolumeDeps, named: NamedIntent) -> Result<CreateIntent, ServerError> {
    let record = named.latest();
    let provider_name = deps.store.read(|state| provider_name(state, &record));
    let mount_options = deps.sealer.mount_options_of(&record.definition)?;
    Ok(CreateIntent {
        secrets: deps.sealer.secrets_of(&record)?,
        named,
        mount_options: mount_options.unwrap_or_default(),
        provider_name,
    })
}

/// Sends CreateVolume as the intent records it, and records the answer. Data of another volume is an error, unless the
/// client allows that volumes share data.
pub(super) async fn send_and_record(
    deps: &VolumeDeps,
    reply: &EarlyReply,
    intent: &CreateIntent,
    call: &PreparedCall,
    may_share: bool,
) -> Result<(), ServerError> {
    let created = match send(deps, reply, intent, call).await {
        Ok(created) => created,
        Err(error) => return Err(record_failure(deps, intent, call, error).await),
    };
    let (provider, provider_version) = call.plugin.provider();
    let record = intent.record();
    let key = record.key();
    let volume = RemoteVolume {
        plugin_id: record.definition.plugin_id.clone(),
        external_id: created.external_id.clone(),
    };
    let sent = (&intent.secrets, &intent.mount_options);
    let volume_context = deps.sealer.seal_volume_context(&volume, created.context, sent);
    let provided = ProviderFacts {
        provider: provider.into(),
        provider_version: provider_version.into(),
        external_id: Some(created.external_id),
        capacity: created.capacity,
        context: volume_context.into(),
        topologies: created.topologies.into(),
    };
    let expected = match may_share {
        true => unchanged(&record),
        false => Expected::VolumeAloneAt {
            key: key.clone(),
            at: Some(record.modify_index),
            data: volume,
        },
    };
    let event = EventKind::VolumeCreated { key: key.clone(), provided: Box::new(provided) };
    let index = match deps.store.commit(expected, event).await {
        // The plugin has answered with the data of another volume, so this one is not deleted at the provider.
        Err(shared @ CommitError::Shared { .. }) => {
            abandon_intent(deps, intent).await;
            return Err(shared.into());
        }
        committed => committed?,
    };
    info!(volume.id = %key.id, volume.namespace = %key.namespace, index, "volume created");
    Ok(())
}

async fn send(
    deps: &VolumeDeps,
    reply: &EarlyReply,
    intent: &CreateIntent,
    call: &PreparedCall,
) -> Result<CreatedVolume, ForwardError> {
    let request = rpc_request(intent, &call.plugin);
    let record = intent.record();
    let residual = deps.pending(&record);
    let description = description(&record.definition);
    let report = |error| reply.send(description.failed(error, residual.clone()));
    let answer = call.calls.change((Rpc::CreateVolume, &intent.named), report, |controller| {
        let request = request.clone();
        async move { controller.create_volume(request).await }
    });
    answer.await
}

async fn record_failure(
    deps: &VolumeDeps,
    intent: &CreateIntent,
    call: &PreparedCall,
    error: ForwardError,
) -> ServerError {
    let is_abandoned =
        certainly_had_no_effect(&error, intent.named.prior()) && abandon_intent(deps, intent).await;
    let record = intent.record();
    let residual = if is_abandoned { ResidualState::None } else { deps.pending(&record) };
    let capacity = match is_without_room(&error) {
        true => capacity_for(intent, call).await,
        false => CapacityReport::default(),
    };
    let failure = description(&record.definition).failed(error, residual);
    PluginFailure { capacity, ..failure }.into()
}

/// Asks what the provider has left for the volume that it refused.
async fn capacity_for(intent: &CreateIntent, call: &PreparedCall) -> CapacityReport {
    let sent = rpc_request(intent, &call.plugin);
    let desired = sent.topology.unwrap_or_default();
    let topologies = desired.required.into_iter().chain(desired.preferred);
    let request = GetCapacity {
        capabilities: sent.capabilities,
        mount_options: sent.mount_options,
        parameters: sent.parameters,
        topology: None,
    };
    read_capacity_for(&call.plugin, &call.calls, &request, topologies.collect()).await
}

/// Removes the intent. Returns whether it was removed; if not, the next request finds it.
async fn abandon_intent(deps: &VolumeDeps, intent: &CreateIntent) -> bool {
    let record = intent.record();
    let key = record.key().clone();
    let event = EventKind::VolumeCreateAbandoned { key: key.clone(), may_remain: None };
    match deps.store.commit(unchanged(&record), event).await {
        Ok(_) => true,
        Err(error) => {
            warn!(volume.id = %key.id, volume.namespace = %key.namespace, error = error.detail(),
                "the intent to create the volume stays on record");
            false
        }
    }
}

/// Records an earlier intent again, after requests that created nothing: only those of the earlier one may
/// have created the volume. It keeps its controller.
pub(super) async fn restore_intent(deps: &VolumeDeps, earlier: &VolumeRecord) {
    let key = earlier.key();
    let Some(now) = deps.store.record(key) else {
        return;
    };
    let (instance, request) = named_call(&now, VolumeIntent::Create).unzip();
    let call = creation(&earlier.definition);
    let bound = instance.clone().map(|instance| Expected::Controller(call, instance));
    let expected = [unchanged(&now)].into_iter().chain(bound).collect();
    let event = EventKind::VolumeCreateIntended {
        definition: Box::new(earlier.definition.clone()),
        secrets: earlier.secrets.clone(),
        earlier: earlier.earlier_creates.clone(),
        instance,
        request: request.flatten(),
    };
    if let Err(error) = deps.store.commit_all(expected, vec![event]).await {
        warn!(volume.id = %key.id, volume.namespace = %key.namespace, error = error.detail(),
            "a request that created nothing stays among those that may have");
    }
}

fn description(definition: &VolumeDefinition) -> CallDescription {
    CallDescription {
        operation: ControllerOperation::Create,
        target: CallTarget::Volume(definition.key.clone()),
        subject: definition.name.clone(),
        plugin: definition.plugin_id.clone(),
    }
}

/// Returns whether the provider has no room for the volume, or none of its size.
fn is_without_room(error: &ForwardError) -> bool {
    let ForwardError::Failed { error, .. } = error else {
        return false;
    };
    matches!(error.code, StatusCode::ResourceExhausted | StatusCode::OutOfRange)
}

fn rpc_request(intent: &CreateIntent, plugin: &VolumePlugin) -> CreateVolume {
    let record = intent.record();
    let definition = &record.definition;
    let source = match (&definition.clone_id, &definition.snapshot_id) {
        (Some(id), _) => Some(VolumeSource::Volume(id.clone())),
        (None, Some(id)) => Some(VolumeSource::Snapshot(id.clone())),
        (None, None) => None,
    };
    let topology = definition.topology_request.as_deref().cloned();
    CreateVolume {
        name: intent.provider_name.clone(),
        capacity: definition.capacity,
        capabilities: definition.capabilities.to_vec(),
        mount_options: intent.mount_options.clone(),
        parameters: definition.parameters.to_map(),
        secrets: intent.secrets.clone(),
        source,
        topology: topology.filter(|request| plugin.has_topology() && !request.is_empty()),
    }
}
