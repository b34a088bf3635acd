//! Reads the nodes on which allocations of volumes may run.
//!
//! A node that the list does not have is read by itself: a list may be older than the allocation.

use std::collections::BTreeSet;

use crate::ports::ClusterApi;
use nomad_csi_model::{ClientNode, NodeId, SeenNodes, Volume};

/// Returns all nodes, and why if they cannot be read.
pub(super) async fn seen_nodes(api: &dyn ClusterApi, volumes: &[Volume]) -> SeenNodes {
    let mut nodes = match api.list_nodes().await {
        Ok(nodes) => nodes,
        Err(error) => return SeenNodes::Unread(error.message),
    };
    let of = |volume: &Volume| -> Vec<NodeId> {
        let allocs = volume.allocs.iter();
        allocs.map(|alloc| alloc.node_id.clone()).collect()
    };
    let named: BTreeSet<NodeId> = volumes.iter().flat_map(of).collect();
    let listed: BTreeSet<NodeId> = nodes.iter().map(|node| node.id.clone()).collect();
    for id in named.difference(&listed).filter(|id| !id.as_str().is_empty()) {
        match api.read_node(id).await {
            Ok(None) => {}
            Ok(Some(node)) => nodes.push(ClientNode {
                id: id.clone(),
                name: node.value.name,
                status: node.value.status,
                is_fenced: false,
                has_returned: false,
                description: node.value.status_description,
                modify_index: node.value.modify_index,
            }),
            Err(error) => return SeenNodes::Unread(error.message),
        }
    }
    SeenNodes::Read(nodes)
}
