//! A node that was lost and has returned: until it is swept, nothing runs there but what its sweep needs.
//!
//! The sweep calls the node's plugins (rule 7 of the claims machine). So a group that runs a plugin and uses no CSI
//! volume has its place there, whether the node is eligible, drains, or neither. Every other group waits.

use crate::state::State;
use nomad_csi_model::{NodeId, TaskGroup};

/// Returns whether the sweep of the node may need the group.
pub(super) fn is_needed_for_sweep(state: &State, node: &NodeId, group: &TaskGroup) -> bool {
    let loss = state.node_loss(node);
    loss.is_some_and(|loss| loss.has_returned) && group.only_serves_plugins()
}
