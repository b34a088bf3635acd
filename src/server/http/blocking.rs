//! Nomad's blocking queries: a read waits until the index of its table changes.

use std::time::Duration;

use super::parameters::Wait;
use crate::server::services::Services;
use crate::state::State;

/// The default and the longest wait.
const MAX_WAIT: Duration = Duration::from_secs(300);

/// Waits until the index is beyond the client's, the time is up, or the agent stops. Adds up to a
/// sixteenth of the time as jitter, which spreads the next requests of many clients.
pub(super) async fn wait_for_index(
    services: &Services,
    wait: Wait,
    index_of: impl Fn(&State) -> u64,
) {
    if wait.index == 0 {
        return;
    }
    let requested = match wait.duration {
        Duration::ZERO => MAX_WAIT,
        duration => duration.min(MAX_WAIT),
    };
    let limit = requested + requested.mul_f64(services.ids.jitter() / 16.0);
    let mut changes = services.cell.subscribe();
    let changed = async {
        while services.cell.read(&index_of) <= wait.index {
            // The cell has stopped; the index cannot change any more.
            if changes.changed().await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        biased;
        () = changed => {}
        () = services.stopping.cancelled() => {}
        () = tokio::time::sleep(limit) => {}
    }
}
