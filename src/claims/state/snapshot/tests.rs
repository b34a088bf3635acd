//! A chain of changes gives the same snapshot as the state.

use proptest::prelude::*;

use super::*;
use crate::state::replay::replay_changes;
use crate::state::samples::History;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_snapshot_with_all_changes_is_the_snapshot_of_the_state(
        seed: u64, parts in prop::collection::vec(0_usize..40, 1..5),
    ) {
        let mut history = History::new(seed);
        let mut snapshot = None;
        for part in parts {
            let events: Vec<_> = history.by_ref().take(part).collect();
            let (state, changed) = replay_changes(snapshot.clone(), events).unwrap();
            prop_assert_eq!(&state, history.state());
            let changes = SnapshotChanges::of(&state, changed);
            snapshot = Some(StateSnapshot::changed(snapshot, changes));
            prop_assert_eq!(snapshot.as_ref(), Some(&StateSnapshot::from(&state)));
            prop_assert_eq!(State::from(snapshot.clone().unwrap()), state.clone());
            let complete = SnapshotChanges::complete(&state);
            prop_assert_eq!(StateSnapshot::changed(None, complete), StateSnapshot::from(&state));
        }
    }
}
