//! A provider's own volumes and snapshots, in requests and answers.
//!
//! Times are seconds on the wire and nanoseconds in the model. Empty words are "none".

use super::volume::some_text;
use crate::model::{
    Bytes, Condition, ExternalId, ExternalNodeId, ExternalVolume, PluginId, Snapshot, SnapshotId,
};
use crate::wire::external::ExternalVolumeDocument;
use crate::wire::snapshot::SnapshotDocument;

const SECOND: i64 = 1_000_000_000;

/// A volume of a provider's list.
pub fn external_volume_from_wire(document: &ExternalVolumeDocument) -> ExternalVolume {
    let nodes = document.published_external_node_ids.iter().flatten();
    let is_said = document.is_abnormal || !document.status.is_empty();
    ExternalVolume {
        external_id: ExternalId::new(&document.external_id),
        capacity: Bytes::from_wire(document.capacity_bytes),
        context: document.volume_context.clone().unwrap_or_default(),
        clone_id: some_text(&document.clone_id),
        snapshot_id: some_text(&document.snapshot_id),
        published_nodes: nodes
            .filter(|id| !id.is_empty())
            .map(ExternalNodeId::new)
            .collect(),
        condition: is_said.then(|| Condition {
            abnormal: document.is_abnormal,
            message: document.status.clone(),
        }),
    }
}

/// A volume for a provider's list.
pub fn external_volume_to_wire(volume: &ExternalVolume) -> ExternalVolumeDocument {
    let nodes = volume.published_nodes.iter().map(ToString::to_string);
    let condition = volume.condition.clone().unwrap_or_default();
    ExternalVolumeDocument {
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

/// A snapshot out of an answer.
pub fn snapshot_from_wire(document: &SnapshotDocument) -> Snapshot {
    Snapshot {
        id: SnapshotId::new(&document.id),
        source: ExternalId::new(&document.external_source_volume_id),
        size: Bytes::from_wire(document.size_bytes),
        create_time: document.create_time.saturating_mul(SECOND),
        is_ready: document.is_ready,
    }
}

/// A snapshot for an answer; `plugin` is given in lists only.
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
    use crate::wire::{ExternalVolumesResponse, SnapshotsResponse, decode};

    /// Recorded of a real Nomad 2.0.5, with csi-driver-host-path (`answers.jsonl`, `external`).
    #[test]
    fn a_providers_list_reads_as_nomad_answers_it() {
        let text = br#"{"Index":0,"KnownLeader":false,"LastContact":0,"NextToken":"","Volumes":[{"CapacityBytes":5242880,"CloneID":"","ExternalID":"07d7","IsAbnormal":false,"PublishedExternalNodeIDs":[""],"SnapshotID":"","Status":"","VolumeContext":null}]}"#;
        let response: ExternalVolumesResponse = decode(text).expect("it is a list");
        let volume = external_volume_from_wire(&response.volumes[0]);
        let expected = ExternalVolume {
            external_id: ExternalId::new("07d7"),
            capacity: Bytes::from_wire(5_242_880),
            context: Default::default(),
            clone_id: None,
            snapshot_id: None,
            published_nodes: vec![],
            condition: None,
        };
        assert_eq!(volume, expected);
        assert_eq!(
            external_volume_from_wire(&external_volume_to_wire(&volume)),
            volume
        );
    }

    /// Recorded likewise (`snapshot-list`).
    #[test]
    fn a_snapshot_writes_as_nomad_writes_it() {
        let text = r#"{"Index":0,"KnownLeader":false,"LastContact":0,"NextToken":"","Snapshots":[{"CreateTime":1795263668,"ExternalSourceVolumeID":"07d7","ID":"07fa","IsReady":true,"Name":"","Parameters":null,"PluginID":"hostpath","Secrets":null,"SizeBytes":5242880,"SourceVolumeID":""}]}"#;
        let mut response: SnapshotsResponse = decode(text.as_bytes()).expect("it is a list");
        let documents = response.snapshots.take().expect("there are some");
        let snapshot = snapshot_from_wire(&documents[0]);
        let again = snapshot_to_wire(&snapshot, Some(&PluginId::new("hostpath")));
        response.snapshots = Some(vec![again]);
        assert_eq!(
            serde_json::to_string(&response).expect("it can be written"),
            text
        );
    }
}
