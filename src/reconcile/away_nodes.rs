//! Reads the nodes on which tasks may run that the server has forgotten.
//!
//! The list of nodes has no time, but a node's index changes with the time of its last change. So nodes that are ready are
//! read from the one that changed last, until one has not changed for long enough.

use super::seen_nodes::seen_nodes;
use crate::model::{ClientNode, SeenNodes};
use crate::plan::{AwayNode, NodeChange, NodeEvent, NodeHistory, Presence};
use crate::ports::ClusterApi;
use crate::wire::{NodeDocument, NodeEventDocument, nanoseconds_from_wire};

/// The most nodes that are read by themselves. The others count as away.
const MOST_READ: usize = 500;
/// The status of a node that has registered and not yet sent a heartbeat.
const INITIALIZING: &str = "initializing";
/// The subsystems whose events a server records itself.
const OF_SERVER: [&str; 3] = ["Cluster", "Drain", "Scheduler"];
/// The time of a node is in seconds. Nomad writes nanoseconds if it makes a node ineligible by itself.
const MOST_SECONDS: i64 = 1_000_000_000_000;

/// Returns the nodes that are away or have just returned, or why they could not be read.
///
/// # Errors
/// Why the list could not be read. A node that cannot be read counts as away.
pub(super) async fn away_nodes(api: &dyn ClusterApi, now: i64) -> Result<Vec<AwayNode>, String> {
    let nodes = match seen_nodes(api, &[]).await {
        SeenNodes::Read(nodes) => SeenNodes::Read(nodes),
        SeenNodes::Unread(why) => return Err(why),
    };
    let mut found = vec![];
    for (position, node) in nodes.away().unwrap_or_default().into_iter().enumerate() {
        let history = history(api, node, position).await;
        let is_new = node.status == INITIALIZING
            && history.as_ref().is_some_and(NodeHistory::was_never_missed);
        if !is_new {
            found.push(away_node(node, history.as_ref(), Presence::Unknown));
        }
    }
    let mut ready = nodes.ready().unwrap_or_default();
    ready.sort_by_key(|node| std::cmp::Reverse(node.modify_index));
    for (position, node) in ready.into_iter().enumerate() {
        let history = history(api, node, position).await;
        if history
            .as_ref()
            .is_some_and(|history| history.is_settled(now))
        {
            break;
        }
        let presence = history.as_ref().map(|history| history.presence(now));
        match presence.unwrap_or(Presence::Unknown) {
            Presence::Settled => {}
            presence => found.push(away_node(node, history.as_ref(), presence)),
        }
    }
    Ok(found)
}

fn away_node(node: &ClientNode, history: Option<&NodeHistory>, presence: Presence) -> AwayNode {
    AwayNode {
        node: node.clone(),
        since: history.and_then(NodeHistory::away_since),
        missed: history.and_then(NodeHistory::missed),
        presence,
    }
}

async fn history(api: &dyn ClusterApi, node: &ClientNode, position: usize) -> Option<NodeHistory> {
    if position >= MOST_READ {
        return None;
    }
    let read = api.read_node(&node.id).await.ok()?;
    // A node that was purged meanwhile is gone.
    Some(read.map_or_else(NodeHistory::default, |read| history_of(&read.value)))
}

fn history_of(node: &NodeDocument) -> NodeHistory {
    let event = |event: &NodeEventDocument| {
        let is_of_server = OF_SERVER.contains(&event.subsystem.as_str());
        let time = nanoseconds_from_wire(event.timestamp.as_deref());
        NodeEvent {
            index: event.create_index,
            time: Some(time).filter(|time| is_of_server && *time > 0),
            change: match event.message.as_str() {
                "Node heartbeat missed" => NodeChange::Missed,
                "Node reregistered by heartbeat" | "Node re-registered" => NodeChange::Returned,
                _ => NodeChange::Other,
            },
        }
    };
    let changed = match node.status_updated_at {
        ..=0 => None,
        nanoseconds @ MOST_SECONDS.. => Some(nanoseconds),
        seconds => seconds.checked_mul(1_000_000_000),
    };
    NodeHistory {
        events: node.events.iter().map(event).collect(),
        changed,
    }
}
