//! The scheduler's decision about a job, in JSON.

use nomad_csi_claims::place::{Decision, SlotOutcome};
use nomad_csi_claims::state::State;
use nomad_csi_model::{AllocId, ClientStatus, JobKey, NodeId};
use nomad_csi_wire::{NodeRefusalDocument, PlacementDocument, PlacementSlotDocument};

/// Returns what the scheduler decides about each slot of a job.
pub(super) fn placement_document(
    state: &State,
    key: &JobKey,
    decision: &Decision,
) -> PlacementDocument {
    let name = |id: &NodeId| state.node(id).map_or_else(String::new, |node| node.name.clone());
    let status = |id: &AllocId| {
        let placement = state.alloc(id).and_then(|alloc| alloc.placement.as_deref());
        let report = placement.and_then(|placement| placement.report.as_ref());
        let status = report.map_or(&ClientStatus::Pending, |report| &report.status);
        status.as_str().to_owned()
    };
    let slots = decision.slots.iter().map(|slot| {
        let (outcome, alloc, node, at) = match &slot.outcome {
            SlotOutcome::Runs { alloc, node } => ("runs", Some(alloc), Some(node), 0),
            SlotOutcome::Placed(node) => ("place", None, Some(node), 0),
            SlotOutcome::Waits => ("wait", None, None, 0),
            SlotOutcome::PausesUntil(at) => ("pause", None, None, *at),
            SlotOutcome::Ended => ("ended", None, None, 0),
        };
        let refusals = slot.refusals.iter().map(|(node, reasons)| NodeRefusalDocument {
            node_id: node.to_string(),
            node_name: name(node),
            reasons: reasons.clone(),
        });
        PlacementSlotDocument {
            alloc_id: alloc.map(ToString::to_string).unwrap_or_default(),
            client_status: alloc.map(status).unwrap_or_default(),
            index: slot.index,
            node_id: node.map(ToString::to_string).unwrap_or_default(),
            node_name: node.map(name).unwrap_or_default(),
            not_before: at,
            outcome: outcome.to_owned(),
            refusals: refusals.collect(),
            task_group: slot.group.clone(),
        }
    });
    PlacementDocument {
        index: state.index(),
        job_id: key.id.to_string(),
        namespace: key.namespace.to_string(),
        slots: slots.collect(),
    }
}
