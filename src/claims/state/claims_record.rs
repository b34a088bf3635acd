//! The stored claims of one external volume, and what the state knows of allocations and lost nodes.
//!
//! Claims are a table of their own: a step of a claim moves the index that clients see, and never the
//! revision that a register or a saved plan compares (W08).

use serde::{Deserialize, Serialize};

use super::job_record::Placement;
use crate::claim::{Claims, EventPlace};
use nomad_csi_model::{NodeId, RemoteVolume};

/// The stored claims of one external volume. It exists while something of them is recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimsRecord {
    /// The volume.
    pub volume: RemoteVolume,
    /// Its claims.
    pub claims: Claims,
    /// The index of the last change.
    pub modify_index: u64,
    /// The time of the last change, in nanoseconds since the epoch.
    pub modify_time: i64,
}

/// An allocation that claims volumes, or was placed for a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AllocRecord {
    /// Its node.
    pub node: NodeId,
    /// True if its tasks have ended for good. A task that is shutting down may still write.
    pub has_ended: bool,
    /// The job that it was placed for; `None` if a client made it with a claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<Box<Placement>>,
    /// The index of the first event.
    pub create_index: u64,
    /// The index of the last change.
    pub modify_index: u64,
    /// The time of the first event, in nanoseconds since the epoch.
    pub create_time: i64,
    /// The time of the last change, in nanoseconds since the epoch.
    pub modify_time: i64,
}

impl AllocRecord {
    /// Creates the record of an allocation that starts.
    pub(super) fn new(node: NodeId, at: EventPlace) -> Self {
        Self {
            node,
            has_ended: false,
            placement: None,
            create_index: at.index,
            modify_index: at.index,
            create_time: at.time,
            modify_time: at.time,
        }
    }
}

/// A node that is lost: nothing is called there until it returned and was swept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeLoss {
    /// Why it is lost: `fenced by an operator`.
    pub reason: String,
    /// When it was declared lost, in nanoseconds since the epoch.
    pub since: i64,
    /// True if it can be called again, for a sweep only.
    pub has_returned: bool,
}
