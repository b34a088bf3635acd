//! Conversion of allocations.

use crate::allocation::AllocationStub;
use nomad_csi_model::{Alloc, AllocId, ClientStatus, DesiredStatus, NodeId};

/// Converts an allocation from JSON. An unknown status of a later Nomad is preserved.
pub fn allocation_from_wire(stub: &AllocationStub) -> Alloc {
    let desired = match stub.desired_status.as_str() {
        "run" => DesiredStatus::Run,
        "stop" => DesiredStatus::Stop,
        "evict" => DesiredStatus::Evict,
        other => DesiredStatus::Other(other.to_owned()),
    };
    let client = match stub.client_status.as_str() {
        "pending" => ClientStatus::Pending,
        "running" => ClientStatus::Running,
        "complete" => ClientStatus::Complete,
        "failed" => ClientStatus::Failed,
        "lost" => ClientStatus::Lost,
        "unknown" => ClientStatus::Unknown,
        other => ClientStatus::Other(other.to_owned()),
    };
    Alloc {
        id: AllocId::new(&stub.id),
        node_id: NodeId::new(&stub.node_id),
        node_name: stub.node_name.clone(),
        evaluation_id: stub.eval_id.clone(),
        job_id: stub.job_id.clone(),
        task_group: stub.task_group.clone(),
        job_version: stub.job_version,
        desired,
        client,
        create_time: stub.create_time,
        modify_time: stub.modify_time,
    }
}

/// Converts an allocation to JSON.
pub fn allocation_to_wire(alloc: &Alloc) -> AllocationStub {
    AllocationStub {
        client_status: alloc.client.as_str().to_owned(),
        create_time: alloc.create_time,
        desired_status: alloc.desired.as_str().to_owned(),
        eval_id: alloc.evaluation_id.clone(),
        id: alloc.id.to_string(),
        job_id: alloc.job_id.clone(),
        job_version: alloc.job_version,
        modify_time: alloc.modify_time,
        node_id: alloc.node_id.to_string(),
        node_name: alloc.node_name.clone(),
        task_group: alloc.task_group.clone(),
        ..AllocationStub::default()
    }
}
