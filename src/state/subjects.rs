//! The subjects of an event: every object that its check reads or that it changes.
//!
//! The writer decides several commits in one write on a copy of their subjects (`overlay`), so a
//! missing subject would let two commits pass that contradict each other. A property test compares
//! each event on its subjects with the same event on the whole state.

use super::apply_claims::claimed_on;
use super::event::{EventKind, Subject};
use super::tables::State;
use crate::claim::ClaimEvent;
use crate::model::RemoteVolume;

/// Returns the subjects of an event in this state. Registrations of a claimed volume are found in `other`
/// too: one part of a state may have the claims and another the registration.
pub(super) fn subjects(state: &State, other: &State, kind: &EventKind) -> Vec<Subject> {
    match kind {
        EventKind::AgentStarted { .. } => subjects_of_start(state),
        EventKind::NodeRegistered { node } => vec![Subject::Node(node.id.clone())],
        EventKind::PluginInstanceObserved { plugin, .. }
        | EventKind::PluginInstanceGone { plugin, .. }
        | EventKind::PluginAllocObserved { plugin, .. }
        | EventKind::PluginAllocGone { plugin, .. } => vec![Subject::Plugin(plugin.clone())],
        EventKind::Claim { volume, event } => subjects_of_claim([state, other], volume, event),
        EventKind::AllocStarted { alloc, .. }
        | EventKind::AllocEnded { alloc }
        | EventKind::AllocForgotten { alloc } => {
            let claims = state.claims_of(alloc).map(|(_, volume)| volume.clone());
            let claims = claims.map(Subject::Claims);
            claims.chain([Subject::Alloc(alloc.clone())]).collect()
        }
        EventKind::NodeBooted { node, .. } => {
            let claimed = claimed_on(state, node);
            let mut all = vec![Subject::Node(node.clone())];
            all.extend(
                claimed
                    .iter()
                    .flat_map(|volume| with_registrations([state, other], volume)),
            );
            all
        }
        EventKind::NodeLost { node, .. }
        | EventKind::NodeReturned { node }
        | EventKind::NodeSwept { node } => vec![Subject::Node(node.clone())],
        EventKind::Variable { key, .. } => vec![Subject::Variable(key.clone())],
        EventKind::VolumeDeleteIntended { key }
        | EventKind::VolumeDeregistered { key }
        | EventKind::VolumeDeleted { key }
        | EventKind::VolumeExpanded { key, .. } => {
            let remote = state.remote_volume(key);
            let mut all =
                remote.map_or(vec![], |volume| with_registrations([state, other], &volume));
            all.push(Subject::Volume(key.clone()));
            all
        }
        EventKind::VolumeUpdated { definition, .. } => {
            let claims = state.remote_volume(&definition.key).map(Subject::Claims);
            let own = [Subject::Volume(definition.key.clone())];
            own.into_iter().chain(claims).collect()
        }
        EventKind::VolumeCreateIntended { .. }
        | EventKind::VolumeCreated { .. }
        | EventKind::VolumeCreateAbandoned { .. }
        | EventKind::VolumeRegistered { .. }
        | EventKind::VolumeDeleteAbandoned { .. }
        | EventKind::VolumeExpandIntended { .. }
        | EventKind::VolumeExpandAbandoned { .. } => {
            Vec::from_iter(kind.volume().cloned().map(Subject::Volume))
        }
    }
}

/// A claim needs its allocation and its registration, and is shown at every registration.
fn subjects_of_claim(
    states: [&State; 2],
    volume: &RemoteVolume,
    event: &ClaimEvent,
) -> Vec<Subject> {
    let mut all = with_registrations(states, volume);
    if let ClaimEvent::Granted { key, claim } = event {
        all.push(Subject::Volume(claim.volume.clone()));
        all.push(Subject::Alloc(key.alloc.clone()));
        all.extend(states[0].claimed_as(key).cloned().map(Subject::Claims));
    }
    all
}

fn with_registrations(states: [&State; 2], volume: &RemoteVolume) -> Vec<Subject> {
    let registrations = states
        .into_iter()
        .flat_map(|state| state.registrations(volume));
    let keys = registrations.map(|record| Subject::Volume(record.key().clone()));
    keys.chain([Subject::Claims(volume.clone())]).collect()
}

/// A start makes every plugin unhealthy, and corrects the times of all locks.
fn subjects_of_start(state: &State) -> Vec<Subject> {
    let plugins = state.plugins.keys().cloned().map(Subject::Plugin);
    let locked = state.lock_ends.iter().map(|(_, key)| key.clone());
    plugins.chain(locked.map(Subject::Variable)).collect()
}
