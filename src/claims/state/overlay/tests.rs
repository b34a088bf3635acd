//! An event on its subjects is the same as on the whole state.

use proptest::prelude::*;

use super::*;
use crate::state::apply::{apply, check};
use crate::state::event::Event;
use crate::state::samples::{History, key, registered, state_of};

/// Returns the part of a state that consists of these subjects.
fn part<'a>(state: &State, subjects: impl IntoIterator<Item = &'a Subject>) -> State {
    let mut part = without_records(state);
    for subject in subjects {
        copy_subject(&mut part, state, subject);
    }
    part
}

fn attempt(overlay: &mut Overlay<'_>, event: &Event) -> bool {
    let subjects = HashSet::from_iter(overlay.subjects_of(&event.kind));
    let change = |state: &mut State| {
        check(state, event)?;
        apply(state, event);
        Ok::<_, crate::state::EventConflict>(())
    };
    overlay.attempt(subjects, change).is_ok()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Events that are not valid come from another history.
    #[test]
    fn an_overlay_accepts_and_changes_what_the_state_does(seed: u64, other: u64, start in 0_usize..80) {
        let mut history = History::new(seed);
        history.by_ref().take(start).for_each(drop);
        let base = history.state().clone();
        let (mut state, mut overlay) = (base.clone(), Overlay::new(&base));
        let mut others = History::new(other).skip(1);
        for step in 0..60 {
            let event = if step % 3 == 0 { others.next() } else { history.next() };
            let event = event.unwrap();
            let is_valid = check(&state, &event).is_ok();
            prop_assert_eq!(attempt(&mut overlay, &event), is_valid, "{:?}", event);
            if is_valid {
                apply(&mut state, &event);
            }
            prop_assert_eq!(&part(&state, overlay.touched()), &overlay.changed);
        }
        let all = &base.all_subjects() | &state.all_subjects();
        let untouched: Vec<_> = all.difference(overlay.touched()).collect();
        let numbers = without_records(&state);
        for subject in untouched {
            let (mut before, mut after) = (numbers.clone(), numbers.clone());
            copy_subject(&mut before, &base, subject);
            copy_subject(&mut after, &state, subject);
            prop_assert_eq!(before, after, "{:?} is not a subject of the event that changed it", subject);
        }
    }
}

#[test]
fn a_failed_change_leaves_no_trace() {
    let db = key("default", "db");
    let base = state_of([registered(&db, "ext-1")]);
    let mut overlay = Overlay::new(&base);
    let before = overlay.changed.clone();
    let subject = Subject::Volume(db.clone());
    let failed: Result<(), &str> = overlay.attempt([subject].into(), |state| {
        state.remove(&db);
        state.index += 1;
        Err("no")
    });
    assert_eq!(failed, Err("no"));
    assert_eq!(overlay.changed, before);
    assert!(overlay.touched().is_empty());
}
