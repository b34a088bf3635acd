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

/// Converts a blocked evaluation. The reasons are its own, and those of the evaluation that made it.
pub fn blocked_evaluation_from_wire(
    blocked: &EvaluationDocument,
    previous: Option<&EvaluationDocument>,
) -> BlockedEvaluation {
    let documents = [Some(blocked), previous].into_iter().flatten();
    let placements = documents.flat_map(|document| document.failed_placements.iter().flatten());
    let reasons: BTreeSet<&String> = placements
        .flat_map(|(_, placement)| placement.constraint_filtered.iter().flatten())
        .map(|(reason, _)| reason)
        .collect();
    BlockedEvaluation {
        id: blocked.id.clone(),
        job_id: blocked.job_id.clone(),
        reasons: reasons.into_iter().cloned().collect(),
    }
}
