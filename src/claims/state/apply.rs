//! The transitions of the state.
//!
//! [`check`] tests whether an event is valid in a state; [`apply`] performs it. `apply` is total: an
//! invalid event only increases the index. The writer checks before it commits and replay checks
//! again, so a journal of this program never contains an invalid event.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::acl::{apply_acl, is_acl_event_valid};
use super::acl_record::AclKey;
use super::apply_claims::{
    alloc_ended, alloc_started, apply_claim, expand_on_nodes, forget_unclaimed, has_claims,
    is_claim_event_valid, is_node_event_valid, node_booted, node_lost, node_returned, node_swept,
};
use super::apply_jobs::{apply_alloc, apply_job, is_alloc_event_valid, is_job_event_valid};
use super::apply_nodes::{
    doubt_instances, node_connected, node_disconnected, node_down, node_registered,
};
use super::event::{Event, EventKind};
use super::namespaces::{apply_namespace, entered_namespace, is_namespace_event_valid};
use super::plugin_record::{PluginAlloc, PluginRecord};
use super::record::{
    CreateRequest, IntentController, IntentRequest, NamedCall, Phase, ProviderFacts,
    VolumeDefinition, VolumeIntent, VolumeRecord,
};
use super::tables::State;
use super::variable::{VariableEvent, VariableRecord};
use crate::claim::EventPlace;
use nomad_csi_model::{
    AllocId, Namespace, NamespacedId, NodeId, PluginId, PluginInstance, RemoteVolume,
    SealedSecrets, VariableKey,
};

/// An event is not valid in the state: another event came first.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EventConflict {
    /// The volume is in another phase.
    #[error("`{event}` is not valid for volume {}, which {}", .volume.quoted(), describe_phase(.phase.as_ref()))]
    Volume {
        /// The event's name.
        event: &'static str,
        /// The volume of the event.
        volume: NamespacedId,
        /// The phase of the volume; `None` if it does not exist.
        phase: Option<Phase>,
    },
    /// The claims of the volume are not as the event needs them, or its registration or allocation.
    #[error("`{event}` is not valid for the claims of volume `{}`", .volume.external_id)]
    Claim {
        /// The event's name.
        event: &'static str,
        /// The volume of the event.
        volume: RemoteVolume,
    },
    /// The volume has claims.
    #[error("`{event}` is not valid for volume {}, which has claims", .volume.quoted())]
    Claimed {
        /// The event's name.
        event: &'static str,
        /// The volume of the event.
        volume: NamespacedId,
    },
    /// The event would give a volume with claims another plugin or external ID (B12).
    #[error("`{event}` is not valid for volume {}, whose claims are of another external volume", .volume.quoted())]
    Identity {
        /// The event's name.
        event: &'static str,
        /// The volume of the event.
        volume: NamespacedId,
    },
    /// The allocation or node is not as the event needs it.
    #[error("`{event}` is not valid for the state of the allocation or node")]
    Node {
        /// The event's name.
        event: &'static str,
    },
    /// The job or the allocation is not as the event needs it.
    #[error("`{event}` is not valid for the state of the job or allocation")]
    Job {
        /// The event's name.
        event: &'static str,
    },
    /// The namespace does not exist, or is not empty.
    #[error("`{event}` is not valid for namespace `{namespace}`")]
    Namespace {
        /// The event's name.
        event: &'static str,
        /// The namespace.
        namespace: Namespace,
    },
    /// The object of the ACL does not exist, or is not as its writer saw it.
    #[error("`{event}` is not valid for {key:?}")]
    Acl {
        /// The event's name.
        event: &'static str,
        /// The object.
        key: AclKey,
    },
    /// The variable does not exist, or another client holds its lock, or no client does.
    #[error("`{event}` is not valid for variable `{variable}`")]
    Variable {
        /// The event's name.
        event: &'static str,
        /// The variable of the event.
        variable: VariableKey,
    },
}

fn describe_phase(phase: Option<&Phase>) -> String {
    match phase {
        None => "does not exist".to_owned(),
        Some(phase) => format!("is {phase}"),
    }
}

/// Checks whether the event is valid in the state.
///
/// # Errors
/// Fails if the volume of the event is in another phase, or if the lock of the variable does not
/// match the event.
pub fn check(state: &State, event: &Event) -> Result<(), EventConflict> {
    if let EventKind::Claim { volume, event: change } = &event.kind {
        let is_valid = is_claim_event_valid(state, volume, change);
        return is_valid
            .then_some(())
            .ok_or_else(|| EventConflict::Claim { event: change.name(), volume: volume.clone() });
    }
    if !is_node_event_valid(state, &event.kind) {
        let event = event.kind.name();
        return Err(EventConflict::Node { event });
    }
    let is_valid_job = match &event.kind {
        EventKind::Job { job, event } => is_job_event_valid(state, job, event),
        EventKind::PlacedAlloc { alloc, event } => is_alloc_event_valid(state, alloc, event),
        _ => true,
    };
    if !is_valid_job {
        let event = event.kind.name();
        return Err(EventConflict::Job { event });
    }
    if let EventKind::Namespace { name, event } = &event.kind
        && !is_namespace_event_valid(state, name, event)
    {
        return Err(EventConflict::Namespace { event: event.name(), namespace: name.clone() });
    }
    if let EventKind::Acl { key, event } = &event.kind
        && !is_acl_event_valid(state, key, event)
    {
        return Err(EventConflict::Acl { event: event.name(), key: key.clone() });
    }
    if let EventKind::Variable { key, event } = &event.kind {
        let record = state.variables.get(key).map(Arc::as_ref);
        if event.is_valid(record) {
            return Ok(());
        }
        return Err(EventConflict::Variable { event: event.name(), variable: key.clone() });
    }
    let Some(key) = event.kind.volume() else {
        return Ok(());
    };
    if removes_unclaimed(&event.kind) && has_claims(state, key) {
        return Err(EventConflict::Claimed { event: event.kind.name(), volume: key.clone() });
    }
    let record = state.volumes.get(key);
    if record.is_some_and(|record| changes_identity(&event.kind, record)) && has_claims(state, key)
    {
        return Err(EventConflict::Identity { event: event.kind.name(), volume: key.clone() });
    }
    let phase = record.map(|record| record.phase);
    let pending = Pending {
        expansion: record.is_some_and(|record| record.expanding.is_some()),
        modification: record.is_some_and(|record| record.modifying.is_some()),
    };
    if is_valid(&event.kind, phase, pending) {
        return Ok(());
    }
    Err(EventConflict::Volume { event: event.kind.name(), volume: key.clone(), phase })
}

/// Returns whether the event begins or completes the removal of a volume that must not have claims.
fn removes_unclaimed(kind: &EventKind) -> bool {
    matches!(kind, EventKind::VolumeDeleteIntended { .. } | EventKind::VolumeDeregistered { .. })
}

/// Returns whether the event gives a registered volume another plugin or external ID: its claims are of the
/// volume that it was.
fn changes_identity(kind: &EventKind, record: &VolumeRecord) -> bool {
    let EventKind::VolumeUpdated { definition, provided, .. } = kind else {
        return false;
    };
    let is_same = definition.plugin_id == record.definition.plugin_id
        && provided.external_id == record.provided.external_id;
    record.phase == Phase::Registered && !is_same
}

/// The changes of a volume whose results are not recorded.
#[derive(Clone, Copy)]
struct Pending {
    expansion: bool,
    modification: bool,
}

fn is_valid(kind: &EventKind, phase: Option<Phase>, pending: Pending) -> bool {
    use Phase::{Creating, Deleting, Registered};
    match kind {
        EventKind::AgentStarted { .. }
        | EventKind::LeaderStarted { .. }
        | EventKind::NodeConnected { .. }
        | EventKind::NodeDisconnected { .. }
        | EventKind::NodeDown { .. }
        | EventKind::KeyRotationStarted
        | EventKind::NodeRegistered { .. }
        | EventKind::PluginInstanceObserved { .. }
        | EventKind::PluginInstanceGone { .. }
        | EventKind::PluginAllocObserved { .. }
        | EventKind::PluginAllocGone { .. }
        | EventKind::Claim { .. }
        | EventKind::AllocStarted { .. }
        | EventKind::AllocEnded { .. }
        | EventKind::AllocForgotten { .. }
        | EventKind::NodeBooted { .. }
        | EventKind::NodeLost { .. }
        | EventKind::NodeReturned { .. }
        | EventKind::NodeSwept { .. }
        | EventKind::Job { .. }
        | EventKind::PlacedAlloc { .. }
        | EventKind::Namespace { .. }
        | EventKind::Acl { .. }
        | EventKind::Variable { .. } => true,
        EventKind::VolumeCreateIntended { .. } => matches!(phase, None | Some(Creating)),
        EventKind::VolumeCreated { .. } | EventKind::VolumeCreateAbandoned { .. } => {
            phase == Some(Creating)
        }
        EventKind::VolumeRegistered { .. } => phase.is_none(),
        EventKind::VolumeUpdated { .. }
        | EventKind::VolumeExpandIntended { .. }
        | EventKind::VolumeModifyIntended { .. } => phase == Some(Registered),
        EventKind::VolumeExpanded { .. } | EventKind::VolumeExpandAbandoned { .. } => {
            phase == Some(Registered) && pending.expansion
        }
        EventKind::VolumeModified { .. } | EventKind::VolumeModifyAbandoned { .. } => {
            phase == Some(Registered) && pending.modification
        }
        EventKind::VolumeDeleteIntended { .. } | EventKind::VolumeDeregistered { .. } => {
            matches!(phase, Some(Registered | Deleting))
        }
        EventKind::VolumeDeleteAbandoned { .. } | EventKind::VolumeDeleted { .. } => {
            phase == Some(Deleting)
        }
    }
}

/// Performs the event. The index increases by one, also for an invalid event.
pub fn apply(state: &mut State, event: &Event) {
    state.index += 1;
    if check(state, event).is_err() {
        return;
    }
    let at = EventPlace { index: state.index, time: event.at };
    if event.kind.volume().is_some() {
        state.volumes_index = at.index;
    }
    if let Some(name) = entered_namespace(&event.kind) {
        state.ensure_namespace(name, at.index);
    }
    apply_kind(state, &event.kind, at);
}

fn apply_kind(state: &mut State, kind: &EventKind, at: EventPlace) {
    match kind {
        EventKind::AgentStarted { origin } => agent_started(state, origin, at),
        EventKind::LeaderStarted { origin } => leader_started(state, origin, at),
        EventKind::KeyRotationStarted => {}
        EventKind::NodeRegistered { node } => node_registered(state, node, at),
        EventKind::PluginInstanceObserved { plugin, node, instance } => {
            remove_allocs(state, plugin, at, |alloc| {
                alloc.node == *node && alloc.instance.alloc_id != instance.alloc_id
            });
            alloc_observed(state, plugin, node, instance, at);
        }
        EventKind::PluginInstanceGone { plugin, node } => {
            remove_allocs(state, plugin, at, |alloc| alloc.node == *node);
            remove_plugin_if_empty(state, plugin);
        }
        EventKind::PluginAllocObserved { plugin, node, instance } => {
            alloc_observed(state, plugin, node, instance, at);
        }
        EventKind::PluginAllocGone { plugin, alloc } => alloc_gone(state, plugin, alloc, at),
        EventKind::Claim { volume, event } => apply_claim(state, volume, event, at),
        EventKind::AllocStarted { alloc, node } => alloc_started(state, alloc, node, at),
        EventKind::AllocEnded { alloc } => alloc_ended(state, alloc, at),
        EventKind::AllocForgotten { alloc } => alloc_forgotten(state, alloc, at),
        EventKind::NodeBooted { node, boot_id } => node_booted(state, node, boot_id, at),
        EventKind::NodeConnected { node, session, secret_hash } => {
            node_connected(state, node, (session, secret_hash.as_deref()), at);
        }
        EventKind::NodeDisconnected { node } => node_disconnected(state, node, at),
        EventKind::NodeDown { node } => node_down(state, node, at),
        EventKind::NodeLost { node, reason } => node_lost(state, node, reason, at),
        EventKind::NodeReturned { node } => node_returned(state, node, at),
        EventKind::NodeSwept { node } => node_swept(state, node, at),
        EventKind::Job { job, event } => apply_job(state, job, event, at),
        EventKind::PlacedAlloc { alloc, event } => apply_alloc(state, alloc, event, at),
        EventKind::Namespace { name, event } => apply_namespace(state, name, event, at),
        EventKind::Acl { key, event } => apply_acl(state, key, event, at),
        EventKind::Variable { key, event } => apply_variable(state, key, event, at.time),
        EventKind::VolumeCreateIntended { definition, secrets, earlier, instance, request } => {
            let call = named_call(instance, request, at);
            create_intended(state, definition, (secrets, earlier), call, at);
        }
        EventKind::VolumeRegistered { definition, provided, secrets } => {
            volume_registered(state, definition, provided, secrets, at);
        }
        EventKind::VolumeCreated { key, provided } => {
            change(state, key, at, |record| end_creation(record, provided));
        }
        EventKind::VolumeUpdated { definition, provided, secrets } => {
            volume_updated(state, definition, provided, secrets, at);
        }
        EventKind::VolumeDeleteIntended { key, instance, request } => {
            let call = named_call(instance, request, at);
            intend(state, key, (VolumeIntent::Delete, call), at, |record, controller| {
                record.settling_by = controller;
                record.phase = Phase::Deleting;
            });
        }
        EventKind::VolumeDeleteAbandoned { key } => {
            change(state, key, at, |record| {
                (record.phase, record.settling_by) = (Phase::Registered, None);
            });
        }
        EventKind::VolumeExpandIntended { key, to, instance, request } => {
            let call = named_call(instance, request, at);
            intend(state, key, (VolumeIntent::Expand, call), at, |record, controller| {
                record.expanding_by = controller;
                record.expanding = Some(*to);
            });
        }
        EventKind::VolumeExpanded { key, capacity, node_expansion_required } => {
            change(state, key, at, |record| {
                record.provided.capacity = *capacity;
                end_expansion(record);
                record.node_expansion_pending |= *node_expansion_required;
            });
            expand_on_nodes(state, key, at);
        }
        EventKind::VolumeExpandAbandoned { key, .. } => {
            change(state, key, at, end_expansion);
        }
        EventKind::VolumeModifyIntended { key, parameters, instance, request } => {
            let call = named_call(instance, request, at);
            intend(state, key, (VolumeIntent::Modify, call), at, |record, controller| {
                record.modifying_by = controller;
                record.modifying = Some(parameters.clone());
            });
        }
        EventKind::VolumeModified { key } => change(state, key, at, put_in_force),
        EventKind::VolumeModifyAbandoned { key, may_have_changed } => {
            change(state, key, at, |record| modify_abandoned(record, *may_have_changed));
        }
        EventKind::VolumeCreateAbandoned { key, .. }
        | EventKind::VolumeDeleted { key }
        | EventKind::VolumeDeregistered { key } => {
            let remote = state.remote_volume(key);
            state.remove(key);
            forget_unclaimed(state, remote.as_ref());
        }
    }
}

fn alloc_forgotten(state: &mut State, alloc: &AllocId, at: EventPlace) {
    state.remove_alloc(alloc);
    state.allocs_index = at.index;
}

fn leader_started(state: &mut State, origin: &str, at: EventPlace) {
    if state.origin.is_empty() {
        origin.clone_into(&mut state.origin);
    }
    state.leaders.add(at.index, origin);
    correct_lock_times(state, at.time);
}

fn agent_started(state: &mut State, origin: &str, at: EventPlace) {
    let ids: Vec<_> = state.plugins.keys().cloned().collect();
    for id in ids {
        doubt_instances(state, &id, at, |_| true);
    }
    leader_started(state, origin, at);
}

fn alloc_observed(
    state: &mut State,
    plugin: &PluginId,
    node: &NodeId,
    instance: &PluginInstance,
    at: EventPlace,
) {
    let new = || PluginRecord {
        allocs: Default::default(),
        create_index: at.index,
        modify_index: at.index,
        create_time: at.time,
        modify_time: at.time,
    };
    let record = state.plugins.entry(plugin.clone()).or_insert_with(new);
    let known = record.allocs.get(&instance.alloc_id);
    let same_program = known.filter(|alloc| is_same_program(&alloc.instance, instance));
    let alloc = PluginAlloc {
        node: node.clone(),
        create_index: known.map_or(at.index, |alloc| alloc.create_index),
        program_index: same_program.map_or(at.index, |alloc| alloc.program_index),
        instance: instance.clone(),
    };
    record.allocs.insert(instance.alloc_id.clone(), alloc);
    record.modify_index = at.index;
    record.modify_time = at.time;
    state.plugins_index = at.index;
}

/// Returns whether two fingerprints of an instance are of one program: the same process, of the same version. A version says
/// little, because a build may keep that of the one before.
fn is_same_program(before: &PluginInstance, now: &PluginInstance) -> bool {
    let facts = |instance: &PluginInstance| {
        let PluginInstance { provider, provider_version, process, .. } = instance;
        (provider.clone(), provider_version.clone(), process.clone())
    };
    // An earlier version did not record the process.
    now.process.is_some() && facts(before) == facts(now)
}

/// Removes these allocations of a plugin, and keeps the plugin.
fn remove_allocs(
    state: &mut State,
    plugin: &PluginId,
    at: EventPlace,
    is_gone: impl Fn(&PluginAlloc) -> bool,
) {
    let Some(record) = state.plugins.get_mut(plugin) else {
        return;
    };
    let before = record.allocs.len();
    record.allocs.retain(|_, alloc| !is_gone(alloc));
    if record.allocs.len() < before {
        record.modify_index = at.index;
        record.modify_time = at.time;
        state.plugins_index = at.index;
    }
}

fn alloc_gone(state: &mut State, plugin: &PluginId, alloc: &AllocId, at: EventPlace) {
    remove_allocs(state, plugin, at, |known| known.instance.alloc_id == *alloc);
    remove_plugin_if_empty(state, plugin);
}

fn remove_plugin_if_empty(state: &mut State, plugin: &PluginId) {
    let is_empty = |record: &PluginRecord| record.allocs.is_empty();
    if state.plugins.get(plugin).is_some_and(is_empty) {
        state.plugins.remove(plugin);
    }
}

/// A retried create keeps its first index, which is part of the name for CreateVolume.
fn create_intended(
    state: &mut State,
    definition: &VolumeDefinition,
    (secrets, earlier): (&SealedSecrets, &[CreateRequest]),
    call: NamedCall<'_>,
    at: EventPlace,
) {
    let mut record = new_record(definition, secrets, Phase::Creating, at);
    record.earlier_creates = earlier.to_vec();
    let first = || IntentController::first(call);
    let before = state.volumes.get(&definition.key);
    let again = |before: &Arc<VolumeRecord>| before.controller_for(VolumeIntent::Create, call);
    record.settling_by = before.map_or_else(first, again);
    if let Some(first) = before {
        record.create_index = first.create_index;
        record.create_time = first.create_time;
    }
    state.put_new(record);
}

/// Replaces the registration. Other data has other mutable parameters.
fn volume_updated(
    state: &mut State,
    definition: &VolumeDefinition,
    provided: &ProviderFacts,
    secrets: &SealedSecrets,
    at: EventPlace,
) {
    change(state, &definition.key, at, |record| {
        let is_same = record.definition.plugin_id == definition.plugin_id
            && record.provided.external_id == provided.external_id;
        if !is_same {
            record.mutable_parameters.clear();
            end_modification(record);
        }
        record.definition = definition.clone();
        record.provided = provided.clone();
        record.secrets = secrets.clone();
    });
}

fn end_creation(record: &mut VolumeRecord, provided: &ProviderFacts) {
    record.provided = provided.clone();
    record.phase = Phase::Registered;
    record.earlier_creates = vec![];
    record.settling_by = None;
}

fn end_expansion(record: &mut VolumeRecord) {
    (record.expanding, record.expanding_by) = (None, None);
}

fn end_modification(record: &mut VolumeRecord) {
    (record.modifying, record.modifying_by) = (None, None);
}

/// Of a change that may have happened it is not known which of its parameters are in force.
fn modify_abandoned(record: &mut VolumeRecord, may_have_changed: bool) {
    if may_have_changed {
        let changed = record.modifying.take().unwrap_or_default();
        record.mutable_parameters.retain(|name, _| !changed.contains_key(name));
    }
    end_modification(record);
}

/// The mutable parameters of a change that has succeeded. Those that it does not name stay.
fn put_in_force(record: &mut VolumeRecord) {
    let changed = record.modifying.take().unwrap_or_default();
    end_modification(record);
    record.mutable_parameters.extend(changed);
}

fn volume_registered(
    state: &mut State,
    definition: &VolumeDefinition,
    provided: &ProviderFacts,
    secrets: &SealedSecrets,
    at: EventPlace,
) {
    let record = new_record(definition, secrets, Phase::Registered, at);
    let provided = provided.clone();
    state.put_new(VolumeRecord { provided, ..record });
}

fn new_record(
    definition: &VolumeDefinition,
    secrets: &SealedSecrets,
    phase: Phase,
    at: EventPlace,
) -> VolumeRecord {
    VolumeRecord {
        definition: definition.clone(),
        provided: ProviderFacts::default(),
        secrets: secrets.clone(),
        phase,
        earlier_creates: vec![],
        settling_by: None,
        expanding: None,
        expanding_by: None,
        node_expansion_pending: false,
        mutable_parameters: BTreeMap::new(),
        modifying: None,
        modifying_by: None,
        used_index: 0,
        used_time: 0,
        create_index: at.index,
        modify_index: at.index,
        create_time: at.time,
        modify_time: at.time,
    }
}

fn named_call<'a>(
    instance: &'a Option<AllocId>,
    request: &'a Option<IntentRequest>,
    at: EventPlace,
) -> NamedCall<'a> {
    NamedCall { instance: instance.as_ref(), request: request.as_ref(), index: at.index }
}

/// Records an intent with the controller that gets its call.
fn intend(
    state: &mut State,
    key: &NamespacedId,
    (intent, call): (VolumeIntent, NamedCall<'_>),
    at: EventPlace,
    edit: impl FnOnce(&mut VolumeRecord, Option<IntentController>),
) {
    change(state, key, at, |record| {
        let controller = record.controller_for(intent, call);
        edit(record, controller);
    });
}

fn change(
    state: &mut State,
    key: &NamespacedId,
    at: EventPlace,
    edit: impl FnOnce(&mut VolumeRecord),
) {
    let Some(record) = state.volumes.get(key) else {
        return;
    };
    let mut record = VolumeRecord::clone(record);
    edit(&mut record);
    record.modify_index = at.index;
    record.modify_time = at.time;
    state.put_new(record);
}

/// Performs a variable event. A renewal does not change the table's index.
fn apply_variable(state: &mut State, key: &VariableKey, event: &VariableEvent, time: i64) {
    let index = state.index;
    let before = state.variables.get(key).map(Arc::as_ref);
    let after = event.applied(key, before, (index, time));
    let is_renewal = matches!(event, VariableEvent::LockRenewed { .. });
    match after {
        Some(record) => state.put_variable(Arc::new(record)),
        None => state.remove_variable(key),
    }
    if !is_renewal {
        state.variables_index = index;
    }
}

/// Corrects locks when the agent starts. A renewal in the future means that the clock was set back,
/// and would extend the lock.
fn correct_lock_times(state: &mut State, time: i64) {
    let locked: Vec<_> = state.lock_ends.iter().map(|(_, key)| key.clone()).collect();
    for key in locked {
        let Some(record) = state.variables.get(&key) else {
            continue;
        };
        let mut record = VariableRecord::clone(record);
        if let Some(lock) = &mut record.lock
            && lock.renewed_at > time
        {
            lock.renewed_at = time;
            state.put_variable(Arc::new(record));
        }
    }
}

#[cfg(test)]
mod tests;
