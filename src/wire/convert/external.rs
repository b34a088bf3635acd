//! Conversion of a provider's volumes and snapshots.
//!
//! Times are seconds in JSON and nanoseconds in the model. Empty strings mean `None`.

use super::volume::non_empty;
use crate::external::{ExternalVolumeDocument, VolumeHealthDocument, VolumeStatusDocument};
use crate::snapshot::SnapshotDocument;
use nomad_csi_model::{
    Bytes, Condition, ExternalId, ExternalNodeId, ExternalVolume, PluginId, Snapshot, SnapshotId,
    VolumeHealth, VolumeStatus, VolumeStatusKind,
};

const SECOND: i64 = 1_000_000_000;

/// Converts a volume in a provider's list from JSON.
pub fn external_volume_from_wire(document: &ExternalVolumeDocument) -> ExternalVolume {
    let nodes = document.published_external_node_ids.iter().flatten();
    let health = document.health.as_ref();
    let health = health.map(|statuses| statuses.iter().map(status_from_wire).collect());
    // The condition of a volume with health is made from it, for Nomad's clients.
    let is_said = health.is_none() && (document.is_abnormal || !document.status.is_empty());
    ExternalVolume {
        health,
        external_id: ExternalId::new(&document.external_id),
        capacity: Bytes::from_wire(document.capacity_bytes),
        context: document.volume_context.clone().unwrap_or_default(),
        clone_id: non_empty(&document.clone_id),
        snapshot_id: non_empty(&document.snapshot_id),
        published_nodes: nodes.filter(|id| !id.is_empty()).map(ExternalNodeId::new).collect(),
        condition: is_said.then(|| Condition {
            abnormal: document.is_abnormal,
            message: document.status.clone(),
        }),
    }
}

/// Converts a volume in a provider's list to JSON.
pub fn external_volume_to_wire(volume: &ExternalVolume) -> ExternalVolumeDocument {
    let nodes = volume.published_nodes.iter().map(ToString::to_string);
    let condition = volume.reported_condition().unwrap_or_default();
    let health = volume.health.as_ref();
    ExternalVolumeDocument {
        health: health.map(|statuses| statuses.iter().map(status_to_wire).collect()),
        capacity_bytes: volume.capacity.to_wire(),
        clone_id: volume.clone_id.clone().unwrap_or_default(),
        external_id: volume.external_id.to_string(),
        is_abnormal: condition.abnormal,
        published_external_node_ids: Some(nodes.collect()),
        snapshot_id: volume.snapshot_id.clone().unwrap_or_default(),
        status: condition.message,
        volume_context: (!volume.context.is_empty()).then(|| volume.context.clone()),
    }
}

/// Converts the health of a volume to JSON.
pub fn volume_health_to_wire(health: &VolumeHealth) -> VolumeHealthDocument {
    let statuses = health.statuses.iter().map(|(node, status)| {
        let node_id = node.as_ref().map_or_else(String::new, ToString::to_string);
        VolumeStatusDocument { node_id, ..status_to_wire(status) }
    });
    VolumeHealthDocument { health: statuses.collect(), unknown: health.unknown.clone() }
}

/// Converts a condition of a volume from JSON.
pub fn status_from_wire(document: &VolumeStatusDocument) -> VolumeStatus {
    VolumeStatus {
        kind: VolumeStatusKind::parse(&document.status),
        reason: document.reason.clone(),
        message: document.message.clone(),
    }
}

/// Converts a condition of a volume to JSON, as its controller reports it.
pub fn status_to_wire(status: &VolumeStatus) -> VolumeStatusDocument {
    VolumeStatusDocument {
        status: status.kind.to_string(),
        reason: status.reason.clone(),
        message: status.message.clone(),
        node_id: String::new(),
    }
}

/// Converts a snapshot from JSON.
pub fn snapshot_from_wire(document: &SnapshotDocument) -> Snapshot {
    Snapshot {
        id: SnapshotId::new(&document.id),
        source: ExternalId::new(&document.external_source_volume_id),
        size: Bytes::from_wire(document.size_bytes),
        create_time: document.create_time.saturating_mul(SECOND),
        is_ready: document.is_ready,
    }
}

/// Converts a snapshot to JSON.
pub fn snapshot_to_wire(snapshot: &Snapshot, plugin: Option<&PluginId>) -> SnapshotDocument {
    SnapshotDocument {
        create_time: snapshot.create_time / SECOND,
        external_source_volume_id: snapshot.source.to_string(),
        id: snapshot.id.to_string(),
        is_ready: snapshot.is_ready,
        plugin_id: plugin.map_or_else(String::new, ToString::to_string),
        size_bytes: snapshot.size.to_wire(),
        ..SnapshotDocument::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ExternalVolumesResponse, SnapshotsResponse, decode};

    /// Nomad's clients read the health as a condition, and this program's as it is.
    #[test]
    fn health_survives_the_conversion_and_is_a_condition_for_nomad() {
        let response =
            r#"{"ExternalID":"v","Health":[{"Status":"TYPE_9","Reason":"New","Message":"m"}]}"#;
        let document: ExternalVolumeDocument = serde_json::from_str(response).unwrap();
        let unknown = external_volume_from_wire(&document);
        let shown = external_volume_to_wire(&unknown);
        assert_eq!((shown.is_abnormal, shown.status.as_str()), (false, "TYPE_9 (New): m"));
        assert_eq!(shown.health, document.health);
        let mut lost = unknown;
        for status in lost.health.iter_mut().flatten() {
            status.kind = VolumeStatusKind::DataLoss;
        }
        let shown = external_volume_to_wire(&lost);
        assert!(shown.is_abnormal);
        assert_eq!(external_volume_from_wire(&shown), lost);
    }

    /// The response is from Nomad 2.0.5 with csi-driver-host-path (`answers.jsonl`, `external`).
    #[test]
    fn a_provider_list_converts_from_nomads_response() {
        let text = br#"{"Index":0,"KnownLeader":false,"LastContact":0,"NextToken":"","Volumes":[{"CapacityBytes":5242880,"CloneID":"","ExternalID":"07d7","IsAbnormal":false,"PublishedExternalNodeIDs":[""],"SnapshotID":"","Status":"","VolumeContext":null}]}"#;
        let response: ExternalVolumesResponse = decode(text).expect("cannot decode the list");
        let volume = external_volume_from_wire(&response.volumes[0]);
        let expected = ExternalVolume {
            health: None,
            external_id: ExternalId::new("07d7"),
            capacity: Bytes::from_wire(5_242_880),
            context: Default::default(),
            clone_id: None,
            snapshot_id: None,
            published_nodes: vec![],
            condition: None,
        };
        assert_eq!(volume, expected);
        assert_eq!(external_volume_from_wire(&external_volume_to_wire(&volume)), volume);
    }

    /// The response is from the same source (`snapshot-list`).
    #[test]
    fn a_snapshot_converts_to_nomads_response() {
        let text = r#"{"Index":0,"KnownLeader":false,"LastContact":0,"NextToken":"","Snapshots":[{"CreateTime":1795263668,"ExternalSourceVolumeID":"07d7","ID":"07fa","IsReady":true,"Name":"","Parameters":null,"PluginID":"hostpath","Secrets":null,"SizeBytes":5242880,"SourceVolumeID":""}]}"#;
        let mut response: SnapshotsResponse =
            decode(text.as_bytes()).expect("cannot decode the list");
        let documents = response.snapshots.take().expect("the list is missing");
        let snapshot = snapshot_from_wire(&documents[0]);
        let again = snapshot_to_wire(&snapshot, Some(&PluginId::new("hostpath")));
        response.snapshots = Some(vec![again]);
        assert_eq!(serde_json::to_string(&response).expect("cannot serialise the list"), text);
    }
}
