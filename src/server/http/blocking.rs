//! Blocking reads: a request that is held until what it reads has moved (`nomad-http-api` 2.8).

use std::time::Duration;

use super::parameters::Wait;
use crate::server::services::Services;
use crate::state::State;

/// No read waits longer, and one that does not say waits so long.
const LONGEST: Duration = Duration::from_secs(300);

/// Returns when the index of the table, or of the one thing that is read, is beyond the one that the
/// client has seen, when the time is up, or when the agent stops; in every case there is something to
/// answer. Adds up to a sixteenth of the time, so that clients that came together do not come back
/// together.
pub(super) async fn hold(services: &Services, wait: Wait, table: impl Fn(&State) -> u64) {
    if wait.index == 0 {
        return;
    }
    let asked = match wait.duration {
        Duration::ZERO => LONGEST,
        asked => asked.min(LONGEST),
    };
    let limit = asked + asked.mul_f64(services.ids.jitter() / 16.0);
    let mut changes = services.cell.subscribe();
    let moved = async {
        while services.cell.read(&table) <= wait.index {
            // The cell is gone: nothing will move any more.
            if changes.changed().await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        biased;
        () = moved => {}
        () = services.stopping.cancelled() => {}
        () = tokio::time::sleep(limit) => {}
    }
}
