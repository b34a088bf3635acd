//! A follower whose history is not that of the leader.

use std::sync::Arc;

use super::{event, started_cell, updated};
use crate::cell::{Expected, FollowedState};
use crate::fake::MemoryJournal;
use nomad_csi_claims::state::State;
use nomad_csi_claims::state::samples::{key, registered};

/// The journal was restored, and another leader has gone on: the next event is of a volume that the follower does not know.
#[tokio::test(start_paused = true)]
async fn an_event_that_does_not_fit_is_followed_by_reading_everything() {
    let (journal, restored) = (MemoryJournal::default(), MemoryJournal::default());
    let (db, other) = (key("default", "db"), key("default", "other"));
    let before = started_cell(&journal).await;
    before.commit(Expected::Any, event(registered(&db, "1"))).await.unwrap();
    let followed = FollowedState::open(Arc::new(journal.clone())).await.unwrap();
    let after = started_cell(&restored).await;
    after.commit(Expected::Any, event(registered(&other, "2"))).await.unwrap();
    after.commit(Expected::Any, updated(&other, "3")).await.unwrap();
    journal.become_copy_of(&restored);
    followed.wait_until_current().await.unwrap();
    assert_eq!(followed.cell().read(State::clone), after.read(State::clone));
    followed.cell().stop().await;
}
