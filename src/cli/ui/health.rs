//! The health of a volume, as text.

use super::table::{heading, table};
use nomad_csi_model::{VolumeHealth, VolumeStatus, one_line};

/// Returns the conditions of a volume, and what could not be read.
pub(crate) fn volume_health(health: &VolumeHealth) -> String {
    let mut text = format!("\n{}", heading("Health"));
    if health.statuses.is_empty() && health.unknown.is_empty() {
        text.push_str("No adverse condition is known\n");
    }
    if !health.statuses.is_empty() {
        let rows = health.statuses.iter().map(|(node, status)| {
            let node = node.as_ref();
            [
                node.map_or_else(|| "controller".to_owned(), ToString::to_string),
                status.kind.to_string(),
                status.reason.clone(),
                status.message.clone(),
            ]
        });
        text += &table(["Reported By", "Status", "Reason", "Message"], rows);
    }
    let notes = health.unknown.iter().map(|reason| {
        let reason = one_line(reason);
        format!("note: the health is not complete: {reason}\n")
    });
    text.extend(notes);
    text
}

/// Returns the conditions in one cell of a table.
pub(crate) fn statuses_text(statuses: &[VolumeStatus]) -> String {
    let texts: Vec<String> = statuses.iter().map(ToString::to_string).collect();
    texts.join("; ")
}
