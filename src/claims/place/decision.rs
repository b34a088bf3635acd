//! [`Decision`]: what a job needs, as [`super::evaluate()`] returns it.

use std::collections::BTreeMap;

use crate::state::GroupFailure;
use nomad_csi_model::{AllocId, NodeId};

/// An allocation to place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The group.
    pub group: String,
    /// The index in the group.
    pub index: u32,
    /// The node.
    pub node: NodeId,
}

/// The outcome for a slot of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SlotOutcome {
    /// An allocation runs, and stays.
    Runs {
        /// The allocation.
        alloc: AllocId,
        /// Its node.
        node: NodeId,
    },
    /// An allocation is placed on this node.
    Placed(NodeId),
    /// No node can take the allocation.
    Waits,
    /// The last allocation failed, and is replaced at this time, in nanoseconds since the epoch.
    PausesUntil(i64),
    /// The work is done, or has failed for good.
    Ended,
}

/// A slot of a group: one of the allocations that the job wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotDecision {
    /// The group.
    pub group: String,
    /// The index in the group.
    pub index: u32,
    /// Its outcome.
    pub outcome: SlotOutcome,
    /// The nodes that cannot take an allocation that is desired now, with every reason.
    pub refusals: BTreeMap<NodeId, Vec<String>>,
}

/// The needs of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// The allocations to place.
    pub place: Vec<Placed>,
    /// The allocations to stop, with the reason.
    pub stop: Vec<(AllocId, &'static str)>,
    /// The groups with allocations that no node can take.
    pub failures: BTreeMap<String, GroupFailure>,
    /// Every slot, in the order of groups and indexes.
    pub slots: Vec<SlotDecision>,
    /// How many allocations of each group stay as they are.
    pub unchanged: BTreeMap<String, u32>,
    /// When to decide again although nothing changes, in nanoseconds since the epoch.
    pub wake_at: Option<i64>,
}

impl Decision {
    /// Returns what can be carried out of it while nothing may be placed: what it would have placed waits, for this
    /// reason.
    #[must_use]
    pub fn without_placements(mut self, reason: &str) -> Self {
        for placed in std::mem::take(&mut self.place) {
            let failure = self.failures.entry(placed.group).or_default();
            failure.queued += 1;
            let reasons = failure.nodes.entry(placed.node).or_default();
            if !reasons.iter().any(|known| known == reason) {
                reasons.push(reason.to_owned());
            }
        }
        self
    }
}
