//! The typed error body of the embedded agent.
//!
//! Nomad's errors are plain text. A client that sends [`ErrorBody::MEDIA_TYPE`] in `Accept` gets this
//! body from the embedded agent, and plain text from a Nomad cluster.

use serde::{Deserialize, Serialize};

/// An error: what happened, why, and what to do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ErrorBody {
    /// The stable code, such as `volume/in-use`.
    pub code: String,
    /// The headline without a full stop: what happened to which object.
    pub message: String,
    /// Facts that the reader needs to judge, one sentence each.
    pub notes: Vec<String>,
    /// Remedies, one sentence each.
    pub help: Vec<String>,
    /// The plain text for other clients: Nomad's error text where Nomad has one.
    pub text: String,
    /// IDs of the allocations whose claims prevent the operation.
    pub claiming_allocs: Vec<String>,
}

impl ErrorBody {
    /// The media type of this body.
    pub const MEDIA_TYPE: &'static str = "application/vnd.nomad-csi.error+json";
}
