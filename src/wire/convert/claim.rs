//! Claims of volumes, and creations that did not end, from the agent's JSON.

use crate::claim::{ClaimDocument, ClaimProblemDocument};
use crate::creation::CreationDocument;
use nomad_csi_model::{
    AllocId, ClaimProblem, ExternalId, Namespace, NamespacedId, NodeId, PluginId, VolumeAlias,
    VolumeClaim, VolumeCreation, VolumeId,
};

/// Converts a claim.
pub fn claim_from_wire(claim: &ClaimDocument) -> VolumeClaim {
    let namespace = Namespace::new(&claim.namespace);
    VolumeClaim {
        volume: NamespacedId::new(namespace, VolumeId::new(&claim.volume_id)),
        alloc: AllocId::new(&claim.alloc_id),
        alias: VolumeAlias::new(&claim.alias),
        node: NodeId::new(&claim.node_id),
        plugin_id: PluginId::new(&claim.plugin_id),
        external_id: ExternalId::new(&claim.external_id),
        access_mode: claim.access_mode.clone(),
        attachment_mode: claim.attachment_mode.clone(),
        read_only: claim.read_only,
        state: claim.state.clone(),
        is_published: claim.published == "yes",
        target_path: claim.target_path.clone(),
        granted_at: claim.granted_at,
        failed_attempts: claim.failed_attempts,
        next_attempt: Some(claim.next_attempt).filter(|next| *next > 0),
        problem: claim.problem.as_ref().map(problem_from_wire),
    }
}

fn problem_from_wire(problem: &ClaimProblemDocument) -> ClaimProblem {
    ClaimProblem {
        step: problem.step.clone(),
        error: problem.error.clone(),
        help: Some(problem.help.clone()).filter(|help| !help.is_empty()),
        since: problem.since,
    }
}

/// Converts a creation that did not end.
pub fn creation_from_wire(document: &CreationDocument) -> VolumeCreation {
    let (namespace, state) = (Namespace::new(&document.namespace), &document.creation);
    VolumeCreation {
        volume: NamespacedId::new(namespace, VolumeId::new(&document.id)),
        plugin_id: PluginId::new(&document.plugin_id),
        provider_name: state.provider_name.clone(),
        requests: state.requests,
        since: document.create_time,
        failed_attempts: state.failed_attempts,
        next_attempt: Some(state.next_attempt).filter(|next| *next > 0),
        problem: Some(state.problem.clone()).filter(|problem| !problem.is_empty()),
    }
}
