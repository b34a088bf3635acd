//! A chain of sets composes to the state that it was made of.

use std::collections::HashSet;

use super::*;
use nomad_csi_claims::state::samples::History;
use nomad_csi_claims::state::{State, Subject};

/// Returns states of one history, each with what changed since the one before.
fn states(seed: u64, count: usize) -> Vec<(State, HashSet<Subject>)> {
    let mut history = History::new(seed);
    let mut states = vec![];
    let mut before: Option<State> = None;
    for _ in 0..count {
        history.by_ref().take(40).for_each(drop);
        let state = history.state().clone();
        let all: HashSet<_> = state.all_subjects();
        let earlier = before.as_ref().map(State::all_subjects).unwrap_or_default();
        let changed = all.union(&earlier).filter(|subject| {
            before.as_ref().and_then(|before| before.stored(subject)) != state.stored(subject)
        });
        let changed = changed.cloned().collect();
        before = Some(state.clone());
        states.push((state, changed));
    }
    states
}

fn add(rows: &mut SnapshotRows, changes: &SnapshotChanges) {
    for row in snapshot_rows(changes) {
        rows.add(changes.numbers.index, row.unwrap()).unwrap();
    }
}

#[test]
fn a_chain_of_sets_is_the_state() {
    for seed in 1..6 {
        let mut rows = SnapshotRows::default();
        let states = states(seed, 5);
        for (at, (state, changed)) in states.iter().enumerate() {
            let changes = match at {
                0 => SnapshotChanges::complete(state),
                _ => SnapshotChanges::of(state, changed.clone()),
            };
            add(&mut rows, &changes);
        }
        let (last, _) = states.last().unwrap();
        let snapshot = rows.finish(last.index()).unwrap();
        assert_eq!(&State::from(snapshot), last, "seed {seed}");
    }
}

#[test]
fn a_chain_without_one_of_its_sets_is_refused() {
    let states = states(1, 3);
    let mut rows = SnapshotRows::default();
    add(&mut rows, &SnapshotChanges::complete(&states[0].0));
    let [_, (_, middle), (last, changed)] = &states[..] else { unreachable!() };
    assert!(middle.iter().any(|subject| !changed.contains(subject)), "the middle set matters");
    add(&mut rows, &SnapshotChanges::of(last, changed.clone()));
    let error = rows.finish(last.index()).unwrap_err();
    assert_eq!(error.kind(), JournalErrorKind::Damaged, "{error}");
    let headless = SnapshotRows::default();
    assert!(headless.finish(last.index()).is_err());
}

#[test]
fn a_row_of_another_set_is_refused() {
    let (state, _) = states(1, 1).remove(0);
    let changes = SnapshotChanges::complete(&state);
    let mut rows = SnapshotRows::default();
    for row in snapshot_rows(&changes).skip(1) {
        rows.add(state.index() + 1, row.unwrap()).unwrap();
    }
    let header = snapshot_rows(&changes).next().unwrap().unwrap();
    rows.add(state.index(), header.clone()).unwrap();
    assert!(rows.finish(state.index()).is_err());
    assert!(SnapshotRows::default().add(state.index() + 1, header).is_err());
}
