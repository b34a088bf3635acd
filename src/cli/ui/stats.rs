//! How much a volume has of bytes and inodes, as text.

use super::table::{heading, table};
use nomad_csi_model::{Bytes, PublishedStats, Quantity, StatsUnit, VolumeStats, one_line};

/// Returns the statistics of a volume on the nodes where it is published, and what could not be read; nothing if it
/// is published nowhere.
pub(crate) fn published_stats(stats: &PublishedStats) -> String {
    if *stats == PublishedStats::default() {
        return String::new();
    }
    let mut text = format!("\n{}", heading("Usage"));
    let rows: Vec<_> = stats
        .nodes
        .iter()
        .flat_map(|(node, stats)| {
            let node = node.to_string();
            stats.quantities().map(move |(unit, quantity)| row(node.clone(), unit, &quantity))
        })
        .collect();
    if !rows.is_empty() {
        text += &table(["Node", "Unit", "Used", "Total", "Available", "Used %"], rows);
    }
    let on_nodes = stats.nodes.iter().flat_map(|(node, stats)| {
        let notes = notes(stats).into_iter();
        notes.map(move |note| format!("note: node `{node}`: {}\n", one_line(&note)))
    });
    text.extend(on_nodes);
    let unknown = stats.unknown.iter().map(|reason| {
        let reason = one_line(reason);
        format!("note: the usage is not complete: {reason}\n")
    });
    text.extend(unknown);
    text
}

fn row(node: String, unit: StatsUnit, quantity: &Quantity) -> [String; 6] {
    let number = |number: Option<u64>| match (unit, number) {
        (_, None) => "unknown".to_owned(),
        (StatsUnit::Bytes, Some(bytes)) => Bytes::new(bytes).unwrap_or(Bytes::MAX).binary(),
        (StatsUnit::Inodes, Some(inodes)) => inodes.to_string(),
    };
    let percent = quantity.percent_used();
    [
        node,
        unit.as_str().to_owned(),
        number(quantity.used),
        number(quantity.total),
        number(quantity.available),
        percent.map_or_else(|| "unknown".to_owned(), |percent| format!("{percent}%")),
    ]
}

/// Returns what is wrong on a node, and that nothing is known.
fn notes(stats: &VolumeStats) -> Vec<String> {
    let abnormal = stats.condition.as_ref().filter(|one| one.abnormal);
    let abnormal = abnormal.map(|condition| match condition.message.as_str() {
        "" => "the plugin reports an abnormal condition".to_owned(),
        message => format!("the plugin reports an abnormal condition: {message}"),
    });
    let mut notes: Vec<String> = abnormal.into_iter().collect();
    notes.extend(stats.problems.iter().cloned());
    if notes.is_empty() && stats.quantities().next().is_none() {
        notes.push("the plugin reports no numbers".to_owned());
    }
    notes
}
