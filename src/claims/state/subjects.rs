//! The subjects of an event: every object that its check reads or that it changes.
//!
//! The writer decides several commits in one write on a copy of their subjects (`overlay`), so a
//! missing subject would let two commits pass that contradict each other. A property test compares
//! each event on its subjects with the same event on the whole state.

use super::acl_record::{AclEntry, AclEvent, AclKey};
use super::apply_claims::claimed_on;
use super::apply_nodes::plugins_on;
use super::event::{EventKind, Subject};
use super::job_record::{AllocEvent, JobEvent};
use super::namespace_record::NamespaceEvent;
use super::namespaces::entered_namespace;
use super::tables::State;
use crate::claim::ClaimEvent;
use nomad_csi_model::{AllocId, Job, JobKey, Namespace, NamespacedId, RemoteVolume};

/// Returns the subjects of an event. The state may be in several parts: one may have the claims of a
/// volume and another its registration.
pub(super) fn subjects(parts: &[&State], kind: &EventKind) -> Vec<Subject> {
    let entered = entered_namespace(kind).cloned();
    let entered = entered.map(Subject::Namespace);
    entered.into_iter().chain(own_subjects(parts, kind)).collect()
}

fn own_subjects(parts: &[&State], kind: &EventKind) -> Vec<Subject> {
    match kind {
        EventKind::AgentStarted { .. } => {
            parts.iter().copied().flat_map(subjects_of_start).collect()
        }
        EventKind::LeaderStarted { .. } => {
            parts.iter().copied().flat_map(subjects_of_locks).collect()
        }
        EventKind::KeyRotationStarted => vec![],
        EventKind::NodeRegistered { node } => vec![Subject::Node(node.id.clone())],
        EventKind::PluginInstanceObserved { plugin, .. }
        | EventKind::PluginInstanceGone { plugin, .. }
        | EventKind::PluginAllocObserved { plugin, .. }
        | EventKind::PluginAllocGone { plugin, .. } => vec![Subject::Plugin(plugin.clone())],
        EventKind::Claim { volume, event } => subjects_of_claim(parts, volume, event),
        EventKind::AllocStarted { alloc, .. }
        | EventKind::AllocEnded { alloc }
        | EventKind::AllocForgotten { alloc } => {
            let own = [Subject::Alloc(alloc.clone())];
            claims_of(parts, alloc).chain(own).collect()
        }
        EventKind::Job { job, event } => subjects_of_job(parts, job, event),
        EventKind::PlacedAlloc { alloc, event } => subjects_of_alloc(alloc, event),
        EventKind::NodeBooted { node, .. } => {
            let claimed = parts.iter().flat_map(|state| claimed_on(state, node));
            let claimed = claimed.flat_map(|volume| with_registrations(parts, &volume));
            claimed.chain([Subject::Node(node.clone())]).collect()
        }
        EventKind::NodeConnected { node, .. }
        | EventKind::NodeDisconnected { node }
        | EventKind::NodeDown { node } => {
            let plugins = parts.iter().flat_map(|state| plugins_on(state, node));
            plugins.map(Subject::Plugin).chain([Subject::Node(node.clone())]).collect()
        }
        EventKind::NodeLost { node, .. }
        | EventKind::NodeReturned { node }
        | EventKind::NodeSwept { node } => vec![Subject::Node(node.clone())],
        EventKind::Namespace { name, event } => subjects_of_namespace(parts, name, event),
        EventKind::Acl { key, event } => subjects_of_acl(parts, key, event),
        EventKind::Variable { key, .. } => vec![Subject::Variable(key.clone())],
        EventKind::VolumeDeleteIntended { key, .. }
        | EventKind::VolumeDeregistered { key }
        | EventKind::VolumeDeleted { key }
        | EventKind::VolumeExpanded { key, .. } => {
            let remote = remote_volumes(parts, key);
            let shared = remote.flat_map(|volume| with_registrations(parts, &volume));
            shared.chain([Subject::Volume(key.clone())]).collect()
        }
        EventKind::VolumeUpdated { definition, .. } => {
            let claims = remote_volumes(parts, &definition.key).map(Subject::Claims);
            let own = [Subject::Volume(definition.key.clone())];
            claims.chain(own).collect()
        }
        EventKind::VolumeCreateIntended { .. }
        | EventKind::VolumeCreated { .. }
        | EventKind::VolumeCreateAbandoned { .. }
        | EventKind::VolumeRegistered { .. }
        | EventKind::VolumeDeleteAbandoned { .. }
        | EventKind::VolumeExpandIntended { .. }
        | EventKind::VolumeExpandAbandoned { .. }
        | EventKind::VolumeModifyIntended { .. }
        | EventKind::VolumeModified { .. }
        | EventKind::VolumeModifyAbandoned { .. } => {
            Vec::from_iter(kind.volume().cloned().map(Subject::Volume))
        }
    }
}

/// The claims of every volume that an allocation uses.
pub(super) fn claims_of<'a>(
    parts: &'a [&State],
    alloc: &'a AllocId,
) -> impl Iterator<Item = Subject> {
    let claims = parts.iter().flat_map(|state| state.claims_of(alloc));
    claims.map(|(_, volume)| Subject::Claims(volume.clone()))
}

/// Only an empty namespace is deleted.
fn subjects_of_namespace(
    parts: &[&State],
    name: &Namespace,
    event: &NamespaceEvent,
) -> Vec<Subject> {
    let mut all = vec![Subject::Namespace(name.clone())];
    if *event == NamespaceEvent::Deleted {
        for contents in parts.iter().map(|state| state.namespace_contents(name)) {
            let jobs = contents.running_jobs.into_iter().chain(contents.stopped_jobs);
            all.extend(contents.volumes.into_iter().map(Subject::Volume));
            all.extend(jobs.map(Subject::Job));
            all.extend(contents.variables.into_iter().map(Subject::Variable));
        }
    }
    all
}

/// A secret is of one token.
fn subjects_of_acl(parts: &[&State], key: &AclKey, event: &AclEvent) -> Vec<Subject> {
    let own = Subject::Acl(key.clone());
    let AclEvent::Written { entry: AclEntry::Token(token), .. } = event else {
        return vec![own];
    };
    let owners = parts.iter().filter_map(|state| state.acl_token_of(&token.secret_hash));
    owners.map(|record| Subject::Acl(record.key.clone())).chain([own]).collect()
}

/// A claim needs its allocation and its registration, and is shown at every registration.
fn subjects_of_claim(parts: &[&State], volume: &RemoteVolume, event: &ClaimEvent) -> Vec<Subject> {
    let mut all = with_registrations(parts, volume);
    if let ClaimEvent::Granted { key, claim } = event {
        all.push(Subject::Volume(claim.volume.clone()));
        all.push(Subject::Alloc(key.alloc.clone()));
        let others = parts.iter().filter_map(|state| state.claimed_as(key));
        all.extend(others.cloned().map(Subject::Claims));
    }
    all
}

/// A job is forgotten only without allocations. What it expects of plugins is shown at these.
fn subjects_of_job(parts: &[&State], job: &JobKey, event: &JobEvent) -> Vec<Subject> {
    let mut all = vec![Subject::Job(job.clone())];
    let recorded = parts.iter().filter_map(|state| state.jobs.get(job));
    let recorded = recorded.map(|record| &record.current.job);
    let served = |job: &Job| {
        let plugins = job.served_plugins().cloned();
        plugins.map(Subject::Plugin).collect::<Vec<_>>()
    };
    match event {
        JobEvent::Evaluated { .. } | JobEvent::Launched { .. } => {}
        JobEvent::Registered { job, .. } => {
            all.extend(recorded.chain([&**job]).flat_map(served));
        }
        JobEvent::Stopped { .. } => all.extend(recorded.flat_map(served)),
        JobEvent::Forgotten => {
            all.extend(recorded.flat_map(served));
            let allocs = parts.iter().flat_map(|state| state.allocs_of_job(job));
            all.extend(allocs.map(|(id, _, _)| Subject::Alloc(id.clone())));
        }
    }
    all
}

fn subjects_of_alloc(alloc: &AllocId, event: &AllocEvent) -> Vec<Subject> {
    let own = Subject::Alloc(alloc.clone());
    match event {
        AllocEvent::Placed { job, node, .. } => {
            vec![own, Subject::Job(job.clone()), Subject::Node(node.clone())]
        }
        AllocEvent::StopRequested { .. }
        | AllocEvent::CutOff { .. }
        | AllocEvent::Reported { .. } => vec![own],
    }
}

fn remote_volumes(parts: &[&State], key: &NamespacedId) -> impl Iterator<Item = RemoteVolume> {
    parts.iter().filter_map(|state| state.remote_volume(key))
}

pub(super) fn with_registrations(parts: &[&State], volume: &RemoteVolume) -> Vec<Subject> {
    let registrations = parts.iter().flat_map(|state| state.registrations(volume));
    let keys = registrations.map(|record| Subject::Volume(record.key().clone()));
    keys.chain([Subject::Claims(volume.clone())]).collect()
}

/// A start makes every plugin unhealthy, and corrects the times of all locks.
fn subjects_of_start(state: &State) -> impl Iterator<Item = Subject> {
    let plugins = state.plugins.keys().cloned().map(Subject::Plugin);
    plugins.chain(subjects_of_locks(state))
}

fn subjects_of_locks(state: &State) -> impl Iterator<Item = Subject> {
    let locked = state.lock_ends.iter().map(|(_, key)| key.clone());
    locked.map(Subject::Variable)
}
