//! Conversion of the statistics of published volumes.

use crate::stats::{
    ConditionDocument, NodeStatsDocument, PublishedStatsDocument, QuantityDocument,
};
use nomad_csi_model::{Condition, NodeId, PublishedStats, Quantity, VolumeStats};

/// Converts the statistics of a volume to JSON.
pub fn stats_to_wire(stats: &PublishedStats) -> PublishedStatsDocument {
    let nodes = stats.nodes.iter().map(|(node, stats)| NodeStatsDocument {
        node_id: node.to_string(),
        bytes: stats.bytes.map(quantity_to_wire),
        inodes: stats.inodes.map(quantity_to_wire),
        condition: stats.condition.as_ref().map(|condition| ConditionDocument {
            abnormal: condition.abnormal,
            message: condition.message.clone(),
        }),
        problems: stats.problems.clone(),
    });
    PublishedStatsDocument { stats: nodes.collect(), unknown: stats.unknown.clone() }
}

/// Converts the statistics of a volume from JSON.
pub fn stats_from_wire(document: PublishedStatsDocument) -> PublishedStats {
    let nodes = document.stats.into_iter().map(|on_node| {
        let stats = VolumeStats {
            bytes: on_node.bytes.map(quantity_from_wire),
            inodes: on_node.inodes.map(quantity_from_wire),
            condition: on_node.condition.map(|condition| Condition {
                abnormal: condition.abnormal,
                message: condition.message,
            }),
            problems: on_node.problems,
        };
        (NodeId::new(on_node.node_id), stats)
    });
    PublishedStats { nodes: nodes.collect(), unknown: document.unknown }
}

fn quantity_to_wire(quantity: Quantity) -> QuantityDocument {
    QuantityDocument { total: quantity.total, used: quantity.used, available: quantity.available }
}

fn quantity_from_wire(document: QuantityDocument) -> Quantity {
    Quantity { total: document.total, used: document.used, available: document.available }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An unknown value has no field, so that a reader does not take it for a zero.
    #[test]
    fn statistics_survive_the_conversion_and_say_nothing_of_what_is_not_known() {
        let stats = PublishedStats {
            nodes: vec![(
                NodeId::new("n1"),
                VolumeStats {
                    bytes: Some(Quantity { total: Some(u64::MAX), used: Some(0), available: None }),
                    inodes: None,
                    condition: Some(Condition { abnormal: false, message: "fine".to_owned() }),
                    problems: vec!["wrong".to_owned()],
                },
            )],
            unknown: vec!["node `n2`: away".to_owned()],
        };
        let document = stats_to_wire(&stats);
        let text = serde_json::to_string(&document).unwrap();
        assert_eq!(
            text,
            r#"{"Stats":[{"NodeID":"n1","Bytes":{"Total":18446744073709551615,"Used":0},"Condition":{"Abnormal":false,"Message":"fine"},"Problems":["wrong"]}],"Unknown":["node `n2`: away"]}"#
        );
        let read: PublishedStatsDocument = serde_json::from_str(&text).unwrap();
        assert_eq!(stats_from_wire(read), stats);
    }
}
