//! Snapshots, as text and as JSON. The JSON uses the keys of Nomad's List Snapshots API that servers
//! fill in.

use serde_json::json;

use super::allocs::TimeReference;
use super::table::{key_values, table};
use super::time::{ago, local_time};
use nomad_csi_client::ports::Document;
use nomad_csi_model::{Bytes, PluginId, Snapshot};

/// Returns a table of snapshots, with exact times and sizes if `wide`.
pub(crate) fn snapshot_list(snapshots: &[Snapshot], now: &TimeReference, wide: bool) -> String {
    let rows = snapshots.iter().map(|snapshot| {
        let (size, time) = if wide {
            (exactly(snapshot.size), local_time(snapshot.create_time, &now.zone))
        } else {
            (about(snapshot.size), ago(snapshot.create_time, now.now))
        };
        [
            snapshot.id.to_string(),
            snapshot.source.to_string(),
            size,
            time,
            snapshot.is_ready.to_string(),
        ]
    });
    let headings = ["Snapshot ID", "External Volume ID", "Size", "Create Time", "Ready"];
    table(headings, rows)
}

/// Returns the details of one snapshot.
pub(crate) fn snapshot_detail(
    snapshot: &Snapshot,
    plugin: &PluginId,
    now: &TimeReference,
) -> String {
    let age = ago(snapshot.create_time, now.now);
    let time = local_time(snapshot.create_time, &now.zone);
    let time = if time.is_empty() { time } else { format!("{time} ({age})") };
    key_values([
        ("Snapshot ID", snapshot.id.to_string()),
        ("External Volume ID", snapshot.source.to_string()),
        ("Plugin ID", plugin.to_string()),
        ("Size", about(snapshot.size)),
        ("Create Time", time),
        ("Ready", snapshot.is_ready.to_string()),
    ])
}

/// Returns one snapshot as JSON, with its time in seconds since the epoch as in Nomad.
pub(crate) fn snapshot_document(snapshot: &Snapshot, plugin: &PluginId) -> Document {
    Document::of(&json!({
        "CreateTime": snapshot.create_time / 1_000_000_000,
        "ExternalSourceVolumeID": snapshot.source.as_str(),
        "ID": snapshot.id.as_str(),
        "IsReady": snapshot.is_ready,
        "PluginID": plugin.as_str(),
        "SizeBytes": snapshot.size.to_wire(),
    }))
}

fn about(size: Bytes) -> String {
    if size.is_zero() { "unknown".to_owned() } else { size.binary() }
}

fn exactly(size: Bytes) -> String {
    if size.is_zero() { "unknown".to_owned() } else { format!("{} bytes", size.get()) }
}
