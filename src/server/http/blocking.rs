//! Nomad's blocking queries: a read waits until the index of its table changes.

use std::time::Duration;

use super::parameters::Wait;
use super::request::ApiRequest;
use crate::server::error::ServerError;
use crate::state::State;

/// The default and the longest wait.
const MAX_WAIT: Duration = Duration::from_secs(300);

/// Waits until the index is beyond the client's, the time is up, or the agent stops. Adds up to a
/// sixteenth of the time as jitter, which spreads the next requests of many clients. The connection
/// is in a waiting place meanwhile.
pub(super) async fn wait_for_index(
    request: &ApiRequest,
    wait: Wait,
    index_of: impl Fn(&State) -> u64,
) -> Result<(), ServerError> {
    let services = &request.services;
    if wait.index == 0 || request.has_waited || services.cell.read(&index_of) > wait.index {
        return Ok(());
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
    let waiting = async {
        tokio::select! {
            biased;
            () = changed => {}
            () = services.stopping.cancelled() => {}
            () = tokio::time::sleep(limit) => {}
        }
    };
    Ok(request.connection.wait(waiting).await?)
}
