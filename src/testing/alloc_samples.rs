//! Allocations for tests.

use nomad_csi_model::{Alloc, AllocId, ClientStatus, DesiredStatus, NodeId};

/// Returns an allocation of job `web` on a node.
pub fn alloc(id: &str, node: &str, desired: DesiredStatus, client: ClientStatus) -> Alloc {
    Alloc {
        id: AllocId::new(id),
        node_id: NodeId::new(node),
        node_name: String::new(),
        evaluation_id: String::new(),
        job_id: "web".to_owned(),
        task_group: "g".to_owned(),
        job_version: 0,
        desired,
        client,
        create_time: 0,
        modify_time: 0,
    }
}
