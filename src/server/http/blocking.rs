//! Nomad's blocking queries: a read waits until something changes that its response shows.
//!
//! As in Nomad, the index is the one of a whole table: a client that has not seen the table's last
//! change gets its response at once. Otherwise only a change of the objects in the response ends the
//! wait.

use std::time::Duration;

use super::parameters::Wait;
use super::request::IncomingRequest;
use crate::error::ServerError;
use nomad_csi_claims::state::{State, Topic};

/// The default and the longest wait.
const MAX_WAIT: Duration = Duration::from_secs(300);

/// Waits until one of the topics changes and the index is beyond the client's, the time is up, or the agent stops. Adds up to a
/// sixteenth of the time as jitter, which spreads the next requests of many clients. The connection
/// is in a waiting place in the meantime.
pub(super) async fn wait_for_index(
    request: &IncomingRequest,
    wait: Wait,
    topics: impl Fn(&State) -> Vec<Topic>,
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
    let limit = requested + requested.mul_f64(services.jitter() / 16.0);
    let is_beyond = |state: &State| index_of(state) > wait.index;
    let changed = services.cell.wait_until(topics, is_beyond);
    let waiting = async {
        tokio::select! {
            biased;
            _ = changed => {}
            () = services.stopping.cancelled() => {}
            () = tokio::time::sleep(limit) => {}
        }
    };
    Ok(request.connection.wait(waiting).await?)
}
