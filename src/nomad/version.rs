//! Who answers: a Nomad or our own agent, and what follows from it.
//!
//! Our agent names itself in a header of every answer ([`AGENT`]). It is looked for on
//! `/v1/regions`, which needs no token (`nomad-neighbour-apis`) and which every Nomad has. Without
//! the header, whatever answered is treated as a Nomad, which promises least.

use http::HeaderMap;

use crate::plan::MergeRules;
use crate::wire::AGENT;

/// Whose API it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Server {
    /// A Nomad of any version, or something that looks like one.
    Nomad,
    /// Our agent.
    Agent,
}

impl Server {
    /// Who gave an answer with these headers.
    pub(super) fn of(headers: &HeaderMap) -> Self {
        if headers.contains_key(AGENT) {
            Self::Agent
        } else {
            Self::Nomad
        }
    }

    /// How it merges an update into a volume.
    pub(super) fn merge_rules(self) -> MergeRules {
        match self {
            Self::Nomad => MergeRules::NOMAD,
            Self::Agent => MergeRules::AGENT,
        }
    }
}
