//! The contents of the history of a volume, also of long histories.

use proptest::prelude::*;

use super::*;
use crate::state::samples::{
    History, create_intended, created, key, registered, started, state_of,
};
use nomad_csi_model::AllocId;

fn lost(node: &str) -> EventKind {
    EventKind::NodeLost { node: NodeId::new(node), reason: "fenced by an operator".to_owned() }
}

#[test]
fn a_volume_has_its_own_events_and_no_others() {
    let (db, web) = (key("default", "db"), key("default", "web"));
    let mut history = VolumeHistory::new(&state_of([started()]), &db, 0);
    let events = [
        (create_intended(&db), true),
        (created(&db, "ext-1"), true),
        (registered(&web, "ext-2"), false),
        (lost("node-1"), false),
        (EventKind::AllocEnded { alloc: AllocId::new("a1") }, false),
        (EventKind::VolumeDeregistered { key: db.clone() }, true),
    ];
    for (event, expected) in events {
        assert_eq!(history.contains(&event), expected, "{event:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// A history that begins in the middle has the events that the whole one has from there on, as long as
    /// the volume stays the same. It may know claims of another registration that are older.
    #[test]
    fn the_state_makes_up_for_events_that_are_gone(seed: u64, cut in 0_usize..200) {
        let mut events = History::new(seed);
        let mut whole: Vec<_> = (0..12)
            .map(|number| VolumeHistory::new(events.state(), &key("default", &format!("volume-{number}")), 0))
            .collect();
        for event in events.by_ref().take(cut) {
            for history in &mut whole {
                history.contains(&event.kind);
            }
        }
        let state = events.state().clone();
        for history in &mut whole {
            let now = state.remote_volume(&history.key);
            history.remote_volumes.retain(|volume| Some(volume) == now.as_ref());
            let record = now.and_then(|volume| state.claims(&volume));
            history.claims.retain(|key, _| record.is_some_and(|record| record.claims.claims.contains_key(key)));
        }
        let late = whole.iter().map(|history| VolumeHistory::new(&state, &history.key, i64::MAX));
        let mut late: Vec<_> = late.collect();
        for event in events.take(60) {
            for (whole, late) in whole.iter_mut().zip(&mut late) {
                let (is_in_whole, is_in_late) = (whole.contains(&event.kind), late.contains(&event.kind));
                prop_assert!(is_in_late || !is_in_whole, "{:?}", event);
            }
        }
    }
}
