//! Draining: which allocations must leave a node, and when a drain is complete.
//!
//! Services and batch jobs leave at once. System jobs, among which are node plugins, stay until the others
//! have ended and given their volumes back: without its plugin a volume could not be released. They stay
//! for good if the operator wants that. The drain ends when nothing is left that must leave; the node
//! stays ineligible.

use crate::state::{AllocRecord, State};
use nomad_csi_model::{JobType, Node};

/// Returns whether an allocation of a job of this type must leave the node now.
pub(super) fn must_leave(state: &State, node: &Node, job_type: JobType) -> bool {
    let drains = node.is_draining && !node.is_eligible;
    match job_type.is_per_node() {
        true => drains && !node.keeps_system_jobs && !remains(state, node, is_of_others),
        false => drains,
    }
}

/// Returns whether nothing is left on a draining node that must leave it.
pub fn is_drained(state: &State, node: &Node) -> bool {
    let is_meant = match node.keeps_system_jobs {
        true => is_of_others,
        false => |_| true,
    };
    !remains(state, node, is_meant)
}

/// Returns whether a job other than a system job placed the allocation.
fn is_of_others(job_type: JobType) -> bool {
    !job_type.is_per_node()
}

/// Returns whether such an allocation of a job is on the node, or has not given back a volume there.
fn remains(state: &State, node: &Node, is_meant: fn(JobType) -> bool) -> bool {
    let here = |alloc: &AllocRecord| {
        let placement = alloc.placement.as_deref();
        alloc.node == node.id && placement.is_some_and(|one| is_meant(one.job.job.job_type))
    };
    let mut here = state.allocs().filter(|(_, alloc)| here(alloc));
    here.any(|(id, alloc)| !alloc.has_ended || state.claims_of(id).next().is_some())
}
