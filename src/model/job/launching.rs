//! Jobs that only other jobs are made from: at given times, or on request.
//!
//! Such a job runs nothing itself. A job that is made from it has its definition, and knows its parent.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::keywords::PayloadRule;
use crate::id::JobId;

/// When a job starts by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Periodic {
    /// True if it does.
    pub is_enabled: bool,
    /// The one cron expression of the older form; empty if there is none.
    pub cron: String,
    /// The cron expressions.
    pub crons: Vec<String>,
    /// The time zone of the expressions; empty for UTC.
    pub time_zone: String,
    /// True if a launch is left out while a job of an earlier one runs.
    pub prohibits_overlap: bool,
}

impl Default for Periodic {
    fn default() -> Self {
        Self {
            is_enabled: true,
            cron: String::new(),
            crons: vec![],
            time_zone: String::new(),
            prohibits_overlap: false,
        }
    }
}

impl Periodic {
    /// Returns all cron expressions.
    pub fn expressions(&self) -> impl Iterator<Item = &str> {
        let one = (!self.cron.is_empty()).then_some(self.cron.as_str());
        one.into_iter().chain(self.crons.iter().map(String::as_str))
    }
}

/// The values that a request has to give to each job that is made from a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameterized {
    /// The rule for the payload of a request.
    pub payload: PayloadRule,
    /// The keys of `meta` that a request must have.
    pub meta_required: Vec<String>,
    /// The keys of `meta` that a request may have.
    pub meta_optional: Vec<String>,
}

/// The job that a job was made from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobOrigin {
    /// Its ID, in the same namespace.
    pub parent: JobId,
    /// The request that made it; `None` for a launch of a periodic job.
    pub dispatch: Option<Dispatch>,
}

/// The request that a job was made for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dispatch {
    /// The token that makes a repeated request the same request; empty if there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub idempotency_token: String,
    /// The payload of the request.
    #[serde(default, skip_serializing_if = "Payload::is_empty")]
    pub payload: Payload,
}

/// The bytes that a dispatched job gets, which may be secret.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Payload(Vec<u8>);

impl Payload {
    /// The most bytes of a payload.
    pub const MAX_BYTES: usize = 16 << 10;

    /// Wraps bytes.
    pub const fn new(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// Returns whether there are no bytes.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the bytes.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Payload({} bytes)", self.0.len())
    }
}

impl TryFrom<String> for Payload {
    type Error = base64::DecodeError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        STANDARD.decode(text).map(Self)
    }
}

impl From<Payload> for String {
    fn from(payload: Payload) -> Self {
        STANDARD.encode(payload.0)
    }
}
