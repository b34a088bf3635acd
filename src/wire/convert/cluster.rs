//! Conversion of listed nodes and of evaluations.

use std::collections::BTreeSet;

use crate::evaluation::EvaluationDocument;
use crate::node::NodeStub;
use nomad_csi_model::{BlockedEvaluation, ClientNode, NodeId};

/// Converts a node of a list.
pub fn client_node_from_wire(stub: &NodeStub) -> ClientNode {
    ClientNode {
        id: NodeId::new(&stub.id),
        name: stub.name.clone(),
        status: stub.status.clone(),
        is_fenced: stub.fenced,
        has_returned: stub.returned,
        description: stub.status_description.clone(),
        modify_index: stub.modify_index,
    }
}

/// Converts a blocked evaluation. The reasons are its own, which the scheduler renews, or those of the evaluation that
/// made it if it has none.
pub fn blocked_evaluation_from_wire(
    blocked: &EvaluationDocument,
    previous: Option<&EvaluationDocument>,
) -> BlockedEvaluation {
    let reasons_of = |document: &EvaluationDocument| -> BTreeSet<String> {
        let placements = document.failed_placements.iter().flatten();
        let reasons = placements.flat_map(|(_, one)| one.constraint_filtered.iter().flatten());
        reasons.map(|(reason, _)| reason.clone()).collect()
    };
    let own = reasons_of(blocked);
    let reasons = match (own.is_empty(), previous) {
        (true, Some(previous)) => reasons_of(previous),
        (true, None) | (false, _) => own,
    };
    BlockedEvaluation {
        id: blocked.id.clone(),
        job_id: blocked.job_id.clone(),
        reasons: reasons.into_iter().collect(),
    }
}
