//! Reads the nodes on which tasks may run that the server has forgotten.
//!
//! The list of nodes has no time, but a node's index changes with the time of its last change. So nodes that are ready are
//! read from the one that changed last, until one has not changed for long enough.

use futures_util::{StreamExt as _, stream};

use crate::ports::ClusterApi;
use nomad_csi_model::{ClientNode, SeenNodes};
use nomad_csi_plan::{AwayNode, NodeChange, NodeEvent, NodeHistory, Presence};
use nomad_csi_wire::{NodeDocument, NodeEventDocument, nanoseconds_from_wire};

/// The most nodes that are read by themselves. The others count as away.
const MOST_READ: usize = 500;
/// The status of a node that has registered and not yet sent a heartbeat.
const INITIALIZING: &str = "initializing";
/// The subsystems whose events a server records itself.
const OF_SERVER: [&str; 3] = ["Cluster", "Drain", "Scheduler"];
/// The time of a node is in seconds. Nomad writes nanoseconds if it makes a node ineligible by itself.
const MOST_SECONDS: i64 = 1_000_000_000_000;

/// Returns the nodes of a list that are away or have just returned. Those that are away are read `parallelism` at a time.
///
/// # Errors
/// Why the list could not be read. A node that cannot be read counts as away.
pub(super) async fn away_nodes(
    api: &dyn ClusterApi,
    nodes: &SeenNodes,
    parallelism: usize,
    now: i64,
) -> Result<Vec<AwayNode>, String> {
    if let SeenNodes::Unread(why) = nodes {
        return Err(why.clone());
    }
    let away = nodes.away().unwrap_or_default().into_iter().enumerate();
    let reads = away.map(async |(position, node)| (node, history(api, node, position).await));
    let read: Vec<_> = stream::iter(reads).buffered(parallelism.max(1)).collect().await;
    let is_new = |node: &ClientNode, history: Option<&NodeHistory>| {
        node.status == INITIALIZING && history.is_some_and(NodeHistory::was_never_missed)
    };
    let away = read.iter().filter(|(node, history)| !is_new(node, history.as_ref()));
    let mut found: Vec<_> =
        away.map(|(node, history)| away_node(node, history.as_ref(), None)).collect();
    let mut ready = nodes.ready().unwrap_or_default();
    ready.sort_by_key(|node| std::cmp::Reverse(node.modify_index));
    for (position, node) in ready.into_iter().enumerate() {
        let history = history(api, node, position).await;
        let history = history.as_ref();
        if history.is_some_and(|history| history.is_settled(now)) {
            break;
        }
        match history.map_or(Presence::Unknown, |history| history.presence(now)) {
            Presence::Settled => {}
            Presence::Returned(at) => found.push(away_node(node, history, Some(at))),
            Presence::Unknown => found.push(away_node(node, history, None)),
        }
    }
    Ok(found)
}

fn away_node(node: &ClientNode, history: Option<&NodeHistory>, returned: Option<i64>) -> AwayNode {
    AwayNode {
        node: node.clone(),
        since: history.and_then(NodeHistory::away_since),
        missed: history.and_then(NodeHistory::missed),
        returned,
    }
}

async fn history(api: &dyn ClusterApi, node: &ClientNode, position: usize) -> Option<NodeHistory> {
    if position >= MOST_READ {
        return None;
    }
    let read = api.read_node(&node.id).await.ok()?;
    // A node that was purged in the meantime is gone.
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
    NodeHistory { events: node.events.iter().map(event).collect(), changed }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const SECOND: i64 = 1_000_000_000;

    fn read(node: serde_json::Value) -> NodeHistory {
        history_of(&serde_json::from_value(node).unwrap())
    }

    /// The messages are those of Nomad 1.1 to 2.0.
    #[test]
    fn only_what_a_server_records_has_a_time() {
        let event = |subsystem: &str, message: &str| json!({"Subsystem": subsystem, "Message": message, "CreateIndex": 7, "Timestamp": "1970-01-01T00:00:09Z"});
        for (subsystem, message, time, change) in [
            ("Cluster", "Node heartbeat missed", Some(9), NodeChange::Missed),
            ("Cluster", "Node reregistered by heartbeat", Some(9), NodeChange::Returned),
            ("Cluster", "Node re-registered", Some(9), NodeChange::Returned),
            ("Cluster", "Node registered", Some(9), NodeChange::Other),
            ("Drain", "Node drain strategy set", Some(9), NodeChange::Other),
            ("Storage", "Mount volume", None, NodeChange::Other),
            ("Driver", "Healthy", None, NodeChange::Other),
        ] {
            let expected =
                NodeEvent { index: 7, time: time.map(|seconds| seconds * SECOND), change };
            let history = read(json!({"Events": [event(subsystem, message)]}));
            assert_eq!(history.events, [expected], "{subsystem} {message}");
        }
        let without = json!({"Subsystem": "Cluster", "Message": "Node heartbeat missed"});
        assert_eq!(read(json!({"Events": [without]})).events[0].time, None);
    }

    #[test]
    fn the_time_of_a_record_is_in_seconds_or_nanoseconds() {
        for (written, expected) in [
            (json!(1_767_323_045), Some(1_767_323_045 * SECOND)),
            (json!(1_767_323_045_000_000_001_i64), Some(1_767_323_045_000_000_001)),
            (json!(0), None),
            (json!(-62_135_596_800_i64), None),
        ] {
            let changed = read(json!({"StatusUpdatedAt": written})).changed;
            assert_eq!(changed, expected, "{written}");
        }
    }
}
