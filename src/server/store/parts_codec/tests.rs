//! Snapshots that earlier versions wrote stay readable, byte for byte.

use super::*;
use crate::store::codec::decode_event;
use crate::store::codec::tests::enclosed;
use nomad_csi_claims::state::{EventKind, RecordedFlags};

/// Snapshots of version 1 contain no variables.
#[test]
fn snapshots_of_version_1_stay_readable() {
    let head = br#"{"origin":"o","volumes_index":4,"plugins_index":1,"plugins":[],"nodes":[],"volumes":0}"#;
    let row = enclosed(&RowKey::SnapshotPart { index: 9, part: 0 }, 1, head);
    let snapshot = decode_parts(9, [row]).unwrap();
    let numbers = &snapshot.numbers;
    assert_eq!((numbers.index, numbers.volumes_index), (9, 4));
    assert_eq!(numbers.variables_index, State::FIRST_INDEX);
    assert_eq!(snapshot.records, vec![]);
}

/// Up to version 3 a plugin has one instance per node, in events and in snapshots.
#[test]
fn plugins_by_node_stay_readable() {
    let instance = r#"{"alloc_id":"task-1","health":{"healthy":true,"description":"healthy"},"updated_at":5,"provider":"p","provider_version":"1","requires_controller":true,"requires_topologies":false,"controller":null,"node":null}"#;
    let payload = format!(
        r#"{{"at":5,"kind":{{"plugin_instance_observed":{{"plugin":"ebs","node":"n1","instance":{instance}}}}}}}"#
    );
    let row = enclosed(&RowKey::Event { index: 9 }, 3, payload.as_bytes());
    let EventKind::PluginInstanceObserved { instance: observed, .. } =
        decode_event(9, &row).unwrap().kind
    else {
        panic!("the event is of another kind")
    };
    let gone = br#"{"at":5,"kind":{"plugin_instance_gone":{"plugin":"ebs","node":"n1"}}}"#;
    let row = enclosed(&RowKey::Event { index: 10 }, 3, gone);
    let gone = decode_event(10, &row).unwrap().kind;
    assert!(matches!(gone, EventKind::PluginInstanceGone { .. }));

    let head = format!(
        r#"{{"origin":"o","volumes_index":4,"plugins_index":7,"plugins":[["ebs",{{"instances":{{"n1":{instance}}},"create_index":6,"modify_index":7,"create_time":1,"modify_time":2}}]],"nodes":[],"volumes":0,"variables_index":1,"variables":0}}"#
    );
    let part = RowKey::SnapshotPart { index: 9, part: 0 };
    let snapshot = decode_parts(9, [enclosed(&part, 3, head.as_bytes())]).unwrap();
    let StoredRecord::Plugin(id, record) = &snapshot.records[0] else {
        panic!("{:?}", snapshot.records)
    };
    assert_eq!(id.as_str(), "ebs");
    let alloc = &record.allocs[&observed.alloc_id];
    assert_eq!((alloc.node.as_str(), alloc.create_index), ("n1", 6));
    assert_eq!((record.create_index, record.modify_index), (6, 7));
    assert_eq!(alloc.instance, *observed);
}

/// Versions 1 and 2 store mount flags in clear text, in events and snapshots.
#[test]
fn definitions_with_flags_in_the_clear_stay_readable() {
    let definition = r#"{"key":{"namespace":"default","id":"db"},"name":"","plugin_id":"cifs","capabilities":[],"capacity":{"min":0,"max":0},"topology_request":null,"clone_id":null,"snapshot_id":null,"mount_options":{"fs_type":"cifs","mount_flags":["password=hunter2"]},"parameters":{}}"#;
    let payload = format!(
        r#"{{"at":5,"kind":{{"volume_create_intended":{{"definition":{definition},"secrets":""}}}}}}"#
    );
    let row = enclosed(&RowKey::Event { index: 9 }, 1, payload.as_bytes());
    let EventKind::VolumeCreateIntended { definition: read, .. } =
        decode_event(9, &row).unwrap().kind
    else {
        panic!("the event is of another kind")
    };
    let flags = RecordedFlags::Clear(vec!["password=hunter2".to_owned()]);
    assert_eq!(read.mount_options.as_ref().unwrap().mount_flags, flags);

    let head =
        r#"{"origin":"o","volumes_index":9,"plugins_index":0,"plugins":[],"nodes":[],"volumes":1}"#;
    let volume = format!(
        r#"{{"definition":{definition},"provided":{{"provider":"","provider_version":"","external_id":null,"capacity":0,"context":{{}},"topologies":[]}},"secrets":"","phase":"creating","create_index":9,"modify_index":9,"create_time":5,"modify_time":5}}"#
    );
    let part = |part| RowKey::SnapshotPart { index: 9, part };
    let rows = [enclosed(&part(0), 1, head.as_bytes()), enclosed(&part(1), 1, volume.as_bytes())];
    let snapshot = decode_parts(9, rows).unwrap();
    let StoredRecord::Volume(record) = &snapshot.records[0] else {
        panic!("{:?}", snapshot.records)
    };
    assert_eq!(record.definition, *read);
}

#[test]
fn a_missing_or_moved_part_is_detected() {
    let head = br#"{"origin":"o","volumes_index":4,"plugins_index":1,"plugins":[],"nodes":[],"volumes":1}"#;
    let row = enclosed(&RowKey::SnapshotPart { index: 9, part: 0 }, 4, head);
    let error = decode_parts(9, [&row]).unwrap_err();
    assert!(matches!(error, CodecError::Incomplete { .. }), "{error}");
    assert!(decode_parts(10, [&row]).is_err());
    let nothing: [&[u8]; 0] = [];
    assert!(decode_parts(9, nothing).is_err());
}

/// Later versions have no parts.
#[test]
fn a_part_of_a_later_version_is_refused_with_both_numbers() {
    let row = enclosed(&RowKey::SnapshotPart { index: 7, part: 0 }, 5, b"[]");
    assert_eq!(
        decode_parts(7, [row]).unwrap_err().to_string(),
        "part 0 of snapshot 7 has version 5, and this program reads versions up to 4"
    );
}
