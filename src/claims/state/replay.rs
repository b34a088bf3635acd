//! Replay of events after a snapshot.

use std::collections::HashSet;

use super::apply::{EventConflict, apply, check};
use super::event::{Event, Subject};
use super::snapshot::StateSnapshot;
use super::subjects::subjects;
use super::tables::State;

/// An event is not valid after the events before it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("event {index} contradicts earlier events")]
pub struct ReplayError {
    /// The index of the event.
    pub index: u64,
    /// Why the event is not valid.
    #[source]
    pub conflict: EventConflict,
}

/// Returns the state after the snapshot, if any, and all events.
///
/// # Errors
/// Fails at the first invalid event. No journal of this program contains one.
pub fn replay(
    snapshot: Option<StateSnapshot>,
    events: impl IntoIterator<Item = Event>,
) -> Result<State, ReplayError> {
    replay_changes(snapshot, events).map(|(state, _)| state)
}

/// Like [`replay`], and returns the subjects of the events too: what changed since the snapshot.
///
/// # Errors
/// See [`replay`].
pub fn replay_changes(
    snapshot: Option<StateSnapshot>,
    events: impl IntoIterator<Item = Event>,
) -> Result<(State, HashSet<Subject>), ReplayError> {
    let mut state = snapshot.map(State::from).unwrap_or_default();
    let adopted = state.adopt_namespaces().into_iter();
    let mut changed: HashSet<_> = adopted.map(Subject::Namespace).collect();
    for event in events {
        check(&state, &event)
            .map_err(|misfit| ReplayError { index: state.index + 1, conflict: misfit })?;
        changed.extend(subjects(&[&state], &event.kind));
        apply(&mut state, &event);
    }
    Ok((state, changed))
}
