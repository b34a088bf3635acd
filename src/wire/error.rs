//! The typed error that our own server sends to who asks for it.
//!
//! Nomad's errors are a line of text. A client that names [`ErrorBody::MEDIA_TYPE`] in `Accept` gets
//! this instead from our agent, and the text from a Nomad cluster.

use serde::{Deserialize, Serialize};

/// What happened, why, and what to do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ErrorBody {
    /// The stable word: `volume/in-use`.
    pub code: String,
    /// One sentence without a full stop: what happened to which object.
    pub message: String,
    /// What to do, a sentence each.
    pub help: Vec<String>,
    /// What a client without this type gets: Nomad's own words where it has some.
    pub text: String,
    /// IDs of the allocations that stand in the way, if any do.
    pub holders: Vec<String>,
}

impl ErrorBody {
    /// The media type by which it is asked for and announced.
    pub const MEDIA_TYPE: &'static str = "application/vnd.nomad-csi.error+json";
}
