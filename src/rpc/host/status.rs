//! The meaning of a status of gRPC: the call has no answer.
//!
//! It was certainly not carried out if it did not leave, if the peer refused its stream, or if the status has the metadata
//! `ncsi-not-sent`. In every other case it may have taken effect.

use std::error::Error;

use tonic::Status;
use tonic::metadata::MetadataValue;

/// The metadata of a status that says that nothing of the call was carried out.
const NOT_SENT: &str = "ncsi-not-sent";

/// Marks a status as one of a call of which nothing was carried out.
pub(super) fn not_sent(mut status: Status) -> Status {
    status.metadata_mut().insert(NOT_SENT, MetadataValue::from_static("1"));
    status
}

/// Returns whether nothing of the call was certainly carried out.
pub(super) fn was_not_sent(status: &Status) -> bool {
    status.metadata().contains_key(NOT_SENT)
        || is_not_connected(status)
        || is_refused_stream(status)
}

/// Only a status that the client creates has a source.
fn sources(status: &Status) -> impl Iterator<Item = &(dyn Error + 'static)> {
    std::iter::successors(status.source(), |error| (*error).source())
}

fn is_not_connected(status: &Status) -> bool {
    sources(status).any(<dyn std::error::Error>::is::<tonic::ConnectError>)
}

/// A stream that the peer refused was not processed (RFC 9113, 8.7).
fn is_refused_stream(status: &Status) -> bool {
    let reset = sources(status).find_map(|error| error.downcast_ref::<h2::Error>());
    reset.is_some_and(|error| {
        error.is_remote() && error.is_reset() && error.reason() == Some(h2::Reason::REFUSED_STREAM)
    })
}
