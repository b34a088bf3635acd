//! The meaning of a status of gRPC: the call has no answer.
//!
//! It was certainly not carried out if it did not leave, if the peer refused its stream, or if the status has the metadata
//! `ncsi-not-sent`. In every other case it may have taken effect.

use std::error::Error as _;

use tonic::metadata::MetadataValue;
use tonic::{Code, Status};

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
fn is_not_connected(status: &Status) -> bool {
    let mut source = status.source();
    while let Some(error) = source {
        if error.is::<tonic::ConnectError>() {
            return true;
        }
        source = error.source();
    }
    false
}

/// Of all resets of a stream, the library reports only REFUSED_STREAM as unavailable. The text tells it from a connection
/// that does not respond; the library has no type for either.
fn is_refused_stream(status: &Status) -> bool {
    status.code() == Code::Unavailable
        && status.source().is_some()
        && status.message().starts_with("h2 protocol error")
}
