//! Unregistered volumes of a provider, as text and as JSON.

use serde_json::json;

use super::table::{heading, table};
use super::volume::statuses_text;
use nomad_csi_client::ports::Document;
use nomad_csi_client::reconcile::ListedVolume;
use nomad_csi_model::{ExternalNodeId, VolumeSummary};
use nomad_csi_wire::status_to_wire;

/// Returns a table of orphans, and one of registered volumes that the provider does not list.
pub(crate) fn orphan_list(orphans: &[&ListedVolume], missing: &[VolumeSummary]) -> String {
    let mut text = String::new();
    if !orphans.is_empty() {
        let rows = orphans.iter().map(|one| {
            let health = match (&one.volume.condition, one.volume.statuses()) {
                (Some(condition), Some(statuses)) if statuses.is_empty() => {
                    condition.message.clone()
                }
                (_, statuses) => statuses_text(&statuses.unwrap_or_default()),
            };
            let nodes = one.volume.published_nodes.iter().map(ExternalNodeId::as_str);
            [
                one.volume.external_id.to_string(),
                size(one),
                nodes.collect::<Vec<_>>().join(","),
                health,
                state(one).to_owned(),
            ]
        });
        let headings = ["External ID", "Size", "Published To", "Health", "State"];
        text += &table(headings, rows);
    }
    if !missing.is_empty() {
        if !text.is_empty() {
            text.push('\n');
        }
        text += &heading("Registered, but not listed by the provider");
        let rows = missing.iter().map(|volume| {
            let external = volume.external_id.as_ref();
            [
                volume.id.to_string(),
                volume.namespace.to_string(),
                external.map_or_else(|| volume.id.to_string(), ToString::to_string),
            ]
        });
        text += &table(["ID", "Namespace", "External ID"], rows);
    }
    text
}

fn size(listed: &ListedVolume) -> String {
    match listed.volume.capacity {
        size if size.is_zero() => "unknown".to_owned(),
        size => size.binary(),
    }
}

fn state(listed: &ListedVolume) -> &'static str {
    match listed.deletion {
        Some(_) => "deletion started",
        None => "orphan",
    }
}

/// Returns an orphan as JSON.
pub(crate) fn orphan_document(listed: &ListedVolume) -> Document {
    let volume = &listed.volume;
    let condition = volume.reported_condition().unwrap_or_default();
    let nodes = volume.published_nodes.iter();
    let nodes: Vec<_> = nodes.map(ExternalNodeId::as_str).collect();
    let health = volume.statuses().map(|statuses| {
        let documents: Vec<_> = statuses.iter().map(status_to_wire).collect();
        documents
    });
    let mut document = json!({
        "CapacityBytes": volume.capacity.to_wire(),
        "CloneID": volume.clone_id,
        "ID": volume.external_id.as_str(),
        "IsAbnormal": condition.abnormal,
        "PublishedExternalNodeIDs": nodes,
        "SnapshotID": volume.snapshot_id,
        "State": state(listed),
        "Status": condition.message,
    });
    if let Some(health) = health {
        document["Health"] = json!(health);
    }
    Document::of(&document)
}
