//! What a provider has and nobody registered, for people and machines.

use serde_json::json;

use super::printer::one_line;
use super::table::{heading, table};
use crate::model::{ExternalId, ExternalNodeId, NamespacedId, PluginId, VolumeSummary};
use crate::ports::Document;
use crate::reconcile::Listed;

/// Orphans, and what is registered and not in the provider's list.
pub(crate) fn orphan_list(orphans: &[&Listed], missing: &[VolumeSummary]) -> String {
    let mut text = String::new();
    if !orphans.is_empty() {
        let rows = orphans.iter().map(|one| {
            let condition = one.volume.condition.as_ref();
            let condition = condition.map(|condition| match condition.abnormal {
                true => format!("abnormal: {}", condition.message),
                false => condition.message.clone(),
            });
            let nodes = one
                .volume
                .published_nodes
                .iter()
                .map(ExternalNodeId::as_str);
            [
                one.volume.external_id.to_string(),
                size(one),
                nodes.collect::<Vec<_>>().join(","),
                condition.unwrap_or_default(),
                state(one).to_owned(),
            ]
        });
        let headings = ["External ID", "Size", "Published To", "Condition", "State"];
        text += &table(headings, rows);
    }
    if !missing.is_empty() {
        if !text.is_empty() {
            text.push('\n');
        }
        text += &heading("Registered, and not in the provider's list");
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

fn size(listed: &Listed) -> String {
    match listed.volume.capacity {
        size if size.is_zero() => "unknown".to_owned(),
        size => size.binary(),
    }
}

fn state(listed: &Listed) -> &'static str {
    match listed.deletion {
        Some(_) => "deletion begun",
        None => "orphan",
    }
}

/// One as JSON.
pub(crate) fn orphan_document(listed: &Listed) -> Document {
    let volume = &listed.volume;
    let condition = volume.condition.clone().unwrap_or_default();
    let nodes = volume.published_nodes.iter();
    let nodes: Vec<_> = nodes.map(ExternalNodeId::as_str).collect();
    Document::of(&json!({
        "CapacityBytes": volume.capacity.to_wire(),
        "CloneID": volume.clone_id,
        "ID": volume.external_id.as_str(),
        "IsAbnormal": condition.abnormal,
        "PublishedExternalNodeIDs": nodes,
        "SnapshotID": volume.snapshot_id,
        "State": state(listed),
        "Status": condition.message,
    }))
}

/// What the deletion of one does, step by step.
pub(crate) fn orphan_steps(
    plugin: &PluginId,
    remote: &ExternalId,
    listed: Option<&Listed>,
    key: &NamespacedId,
    is_begun: bool,
) -> String {
    let what = match listed {
        Some(listed) => size(listed),
        None => "no longer in the provider's list".to_owned(),
    };
    let first = format!(
        "register it as volume {} in namespace {}",
        key.id, key.namespace
    );
    let first = if is_begun {
        format!("{first} (done by a run before)")
    } else {
        first
    };
    let lines = [
        format!("- delete the orphan {remote} of plugin {plugin} ({what})"),
        format!("    1. {first}"),
        "    2. delete that volume, and its data in the storage provider".to_owned(),
        "    the data cannot be brought back; whether another cluster uses it, nobody here knows"
            .to_owned(),
    ];
    lines.map(|line| one_line(&line)).join("\n")
}
