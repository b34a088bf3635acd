//! Creations that did not end, as a table and in detail.

use super::allocs::TimeReference;
use super::printer::one_line;
use super::table::{heading, key_values, table};
use super::time::ago;
use nomad_csi_model::{VolumeCreation, until};

/// Returns the creations as a section below a list of volumes.
pub(crate) fn creation_list(creations: &[VolumeCreation], now: &TimeReference) -> String {
    let rows = creations.iter().map(|creation| {
        [
            creation.volume.id.to_string(),
            creation.volume.namespace.to_string(),
            creation.plugin_id.to_string(),
            ago(creation.since, now.now),
            next_attempt(creation, now),
            one_line(creation.problem.as_deref().unwrap_or("-")),
        ]
    });
    let headings = ["ID", "Namespace", "Plugin ID", "Began", "Continued", "Problem"];
    format!("\n{}{}", heading("Creations that did not end"), table(headings, rows))
}

/// Returns one creation in detail.
pub(crate) fn creation_detail(creation: &VolumeCreation, now: &TimeReference) -> String {
    let mut fields = vec![
        ("ID", creation.volume.id.to_string()),
        ("Namespace", creation.volume.namespace.to_string()),
        ("Plugin ID", creation.plugin_id.to_string()),
        ("State", "being created".to_owned()),
        ("Name at Provider", creation.provider_name.clone()),
        ("Requests", creation.requests.to_string()),
        ("Began", ago(creation.since, now.now)),
        ("Failed Attempts", creation.failed_attempts.to_string()),
        ("Continued", next_attempt(creation, now)),
    ];
    fields.extend(creation.problem.clone().map(|problem| ("Problem", problem)));
    key_values(fields)
}

fn next_attempt(creation: &VolumeCreation, now: &TimeReference) -> String {
    match creation.next_attempt {
        Some(next) => until(next, now.now),
        None if creation.problem.is_some() => "when the plugin changes".to_owned(),
        None => "now".to_owned(),
    }
}
