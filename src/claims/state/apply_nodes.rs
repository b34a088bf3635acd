//! What the state has of the processes of nodes.
//!
//! A request to a node names the process that is on record, so one that starts is recorded before it is called (rule 12 of the
//! claims machine).

use super::plugin_record::{PluginAlloc, PluginRecord};
use super::tables::State;
use crate::claim::EventPlace;
use nomad_csi_model::{HostSession, Node, NodeId, NodeStatus, PluginId};

/// The health of a plugin instance that has not answered since the process began that calls it.
const NOT_PROBED: &str = "not probed since the agent started";

/// Makes instances of a plugin unhealthy until their next fingerprint.
pub(super) fn doubt_instances(
    state: &mut State,
    id: &PluginId,
    at: EventPlace,
    is_meant: impl Fn(&PluginAlloc) -> bool,
) {
    let Some(plugin) = state.plugins.get_mut(id) else {
        return;
    };
    for alloc in plugin.allocs.values_mut().filter(|alloc| is_meant(alloc)) {
        let instance = &mut alloc.instance;
        instance.health.healthy = false;
        NOT_PROBED.clone_into(&mut instance.health.description);
        instance.updated_at = at.time;
    }
    plugin.modify_index = at.index;
    plugin.modify_time = at.time;
    state.plugins_index = at.index;
}

/// Returns the plugins that have an instance on a node.
pub(super) fn plugins_on(state: &State, node: &NodeId) -> Vec<PluginId> {
    let is_there = |plugin: &PluginRecord| plugin.allocs.values().any(|alloc| alloc.node == *node);
    let there = state.plugins.iter().filter(|(_, plugin)| is_there(plugin));
    there.map(|(id, _)| id.clone()).collect()
}

/// Records a node, as a whole.
pub(super) fn node_registered(state: &mut State, node: &Node, at: EventPlace) {
    let known = state.nodes.get(&node.id).filter(|known| known.status == node.status);
    let status_since = known.map_or(at.time, |known| known.status_since);
    state.nodes.insert(node.id.clone(), Node { status_since, ..node.clone() });
    state.nodes_index = at.index;
}

/// Records that a node is not connected.
pub(super) fn node_disconnected(state: &mut State, node: &NodeId, at: EventPlace) {
    node_status(state, node, NodeStatus::Disconnected, at);
}

/// Records that a node is down.
pub(super) fn node_down(state: &mut State, node: &NodeId, at: EventPlace) {
    node_status(state, node, NodeStatus::Down, at);
}

fn node_status(state: &mut State, node: &NodeId, status: NodeStatus, at: EventPlace) {
    let Some(known) = state.nodes.get_mut(node).filter(|known| known.status != status) else {
        return;
    };
    (known.status, known.status_since) = (status, at.time);
    state.nodes_index = at.index;
    // What readers get of the plugins there is different now.
    for plugin in plugins_on(state, node) {
        if let Some(plugin) = state.plugins.get_mut(&plugin) {
            (plugin.modify_index, plugin.modify_time) = (at.index, at.time);
        }
        state.plugins_index = at.index;
    }
}

/// Records the process of a node that can be called. Of another one, no plugin has answered yet.
pub(super) fn node_connected(
    state: &mut State,
    node: &NodeId,
    (session, secret_hash): (&HostSession, Option<&str>),
    at: EventPlace,
) {
    if let Some(secret_hash) = secret_hash {
        state.node_secrets.insert(node.clone(), secret_hash.to_owned());
    }
    node_status(state, node, NodeStatus::Ready, at);
    let before = state.sessions.insert(node.clone(), session.clone());
    state.nodes_index = at.index;
    if before.as_ref() == Some(session) {
        return;
    }
    for plugin in plugins_on(state, node) {
        doubt_instances(state, &plugin, at, |alloc| alloc.node == *node);
    }
}
