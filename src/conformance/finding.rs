//! What a check finds: broken rules, the calls that show them, and leftovers. Values only.

use std::time::Duration;

/// How strongly the specification demands a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// SHOULD, or a habit on which orchestrators rely. The check still passes.
    Advice,
    /// MUST.
    Must,
}

/// A rule that the plugin breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How strongly the specification demands the rule.
    pub level: Level,
    /// The expected response, and why.
    pub expected: String,
    /// The actual response.
    pub got: String,
    /// The request; empty if the finding is not about one call.
    pub sent: String,
}

/// One call and its response, without secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// The RPC and the fields of the request.
    pub sent: String,
    /// `OK` with the fields of the response, or a code and a message.
    pub got: String,
    /// The duration of the call.
    pub elapsed: Duration,
}

/// A resource that the clean-up could not remove.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftover {
    /// The resource, such as `volume 4711`.
    pub what: String,
    /// The reason.
    pub why: String,
}
