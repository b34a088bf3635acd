//! Every row round-trips, and a damaged or unknown row is refused.

use proptest::prelude::*;

use super::*;
use crate::state::samples::{History, key, registered, started, state_of};
use crate::state::{EventKind, RecordedFlags, State};

fn an_event() -> Event {
    Event::new(-5, registered(&key("default", "db"), "ext-1"))
}

fn snapshot_of(seed: u64, events: usize) -> StateSnapshot {
    let mut history = History::new(seed);
    history.by_ref().take(events).for_each(drop);
    StateSnapshot::from(history.state())
}

fn parts(snapshot: &StateSnapshot) -> Vec<Vec<u8>> {
    encode_snapshot(snapshot).collect::<Result<_, _>>().unwrap()
}

/// Encodes a payload of any version, as that version of the program would.
fn enclosed(place: RowKey, version: u16, payload: &[u8]) -> Vec<u8> {
    let mut row = vec![place.kind()];
    row.extend(version.to_be_bytes());
    row.extend(place.checksum(version, payload));
    row.extend(payload);
    row
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn every_event_round_trips(seed: u64) {
        for (index, event) in (2..).zip(History::new(seed).take(60)) {
            let row = encode_event(index, &event).unwrap();
            prop_assert_eq!(decode_event(index, &row).unwrap(), event);
        }
    }

    #[test]
    fn every_snapshot_round_trips(seed: u64, events in 0_usize..200) {
        let snapshot = snapshot_of(seed, events);
        let read = decode_snapshot(snapshot.index, parts(&snapshot)).unwrap();
        prop_assert_eq!(read, snapshot);
    }

    #[test]
    fn a_row_with_one_flipped_bit_is_refused(at: prop::sample::Index, bit in 0_u8..8) {
        let mut row = encode_event(7, &an_event()).unwrap();
        let at = at.index(row.len());
        row[at] ^= 1 << bit;
        let changed = matches!(decode_event(7, &row), Err(CodecError::Corrupt { .. }));
        prop_assert!(changed, "byte {}", at);
    }
}

#[test]
fn a_torn_row_is_refused() {
    let row = encode_event(7, &an_event()).unwrap();
    for end in 0..row.len() {
        let error = decode_event(7, &row[..end]).unwrap_err();
        assert!(
            matches!(error, CodecError::Corrupt { .. }),
            "{end}: {error}"
        );
    }
}

#[test]
fn a_moved_row_is_refused() {
    let row = encode_event(7, &an_event()).unwrap();
    assert!(decode_event(8, &row).is_err());
    let snapshot = snapshot_of(1, 50);
    let mut parts = parts(&snapshot);
    assert!(decode_snapshot(snapshot.index + 1, &parts).is_err());
    parts.swap(0, 1);
    assert!(decode_snapshot(snapshot.index, &parts).is_err());
    assert!(decode_event(snapshot.index, &parts[0]).is_err());
}

#[test]
fn a_later_version_is_refused_with_both_numbers() {
    let event = RowKey::Event { index: 7 };
    let row = enclosed(
        event,
        EVENT_VERSION + 1,
        b"{\"at\":1,\"kind\":\"whatever\"}",
    );
    assert_eq!(
        decode_event(7, &row).unwrap_err().to_string(),
        "event 7 has version 5, and this program reads versions up to 4"
    );
    let part = RowKey::SnapshotPart { index: 7, part: 0 };
    let row = enclosed(part, SNAPSHOT_VERSION + 1, b"[]");
    assert_eq!(
        decode_snapshot(7, [row]).unwrap_err().to_string(),
        "part 0 of snapshot 7 has version 5, and this program reads versions up to 4"
    );
}

/// The meaning of version 1 never changes; the first release wrote this row.
#[test]
fn events_of_version_1_stay_readable() {
    let payload =
        br#"{"at":5,"kind":{"volume_delete_intended":{"key":{"namespace":"default","id":"db"}}}}"#;
    let row = enclosed(RowKey::Event { index: 9 }, 1, payload);
    let kind = crate::state::EventKind::VolumeDeleteIntended {
        key: key("default", "db"),
    };
    assert_eq!(decode_event(9, &row).unwrap(), Event::new(5, kind));
}

/// Snapshots of version 1 contain no variables.
#[test]
fn snapshots_of_version_1_stay_readable() {
    let head = br#"{"origin":"o","volumes_index":4,"plugins_index":1,"plugins":[],"nodes":[],"volumes":0}"#;
    let row = enclosed(RowKey::SnapshotPart { index: 9, part: 0 }, 1, head);
    let snapshot = decode_snapshot(9, [row]).unwrap();
    assert_eq!((snapshot.index, snapshot.volumes_index), (9, 4));
    assert_eq!(snapshot.variables_index, State::FIRST_INDEX);
    assert_eq!(snapshot.variables, vec![]);
}

/// Up to version 3 a plugin has one instance per node, in events and in snapshots.
#[test]
fn plugins_by_node_stay_readable() {
    let instance = r#"{"alloc_id":"task-1","health":{"healthy":true,"description":"healthy"},"updated_at":5,"provider":"p","provider_version":"1","requires_controller":true,"requires_topologies":false,"controller":null,"node":null}"#;
    let payload = format!(
        r#"{{"at":5,"kind":{{"plugin_instance_observed":{{"plugin":"ebs","node":"n1","instance":{instance}}}}}}}"#
    );
    let row = enclosed(RowKey::Event { index: 9 }, 3, payload.as_bytes());
    let EventKind::PluginInstanceObserved {
        instance: observed, ..
    } = decode_event(9, &row).unwrap().kind
    else {
        panic!("the event is of another kind")
    };
    let gone = br#"{"at":5,"kind":{"plugin_instance_gone":{"plugin":"ebs","node":"n1"}}}"#;
    let row = enclosed(RowKey::Event { index: 10 }, 3, gone);
    let gone = decode_event(10, &row).unwrap().kind;
    assert!(matches!(gone, EventKind::PluginInstanceGone { .. }));

    let head = format!(
        r#"{{"origin":"o","volumes_index":4,"plugins_index":7,"plugins":[["ebs",{{"instances":{{"n1":{instance}}},"create_index":6,"modify_index":7,"create_time":1,"modify_time":2}}]],"nodes":[],"volumes":0,"variables_index":1,"variables":0}}"#
    );
    let part = RowKey::SnapshotPart { index: 9, part: 0 };
    let snapshot = decode_snapshot(9, [enclosed(part, 3, head.as_bytes())]).unwrap();
    let record = &snapshot.plugins[&PluginId::new("ebs")];
    let alloc = &record.allocs[&observed.alloc_id];
    assert_eq!((alloc.node.as_str(), alloc.create_index), ("n1", 6));
    assert_eq!((record.create_index, record.modify_index), (6, 7));
    assert_eq!(alloc.instance, *observed);
    let read_again = decode_snapshot(9, parts(&snapshot)).unwrap();
    assert_eq!(read_again, snapshot);
}

/// Versions 1 and 2 store mount flags in clear text, in events and snapshots.
#[test]
fn definitions_with_flags_in_the_clear_stay_readable() {
    let definition = r#"{"key":{"namespace":"default","id":"db"},"name":"","plugin_id":"cifs","capabilities":[],"capacity":{"min":0,"max":0},"topology_request":null,"clone_id":null,"snapshot_id":null,"mount_options":{"fs_type":"cifs","mount_flags":["password=hunter2"]},"parameters":{}}"#;
    let payload = format!(
        r#"{{"at":5,"kind":{{"volume_create_intended":{{"definition":{definition},"secrets":""}}}}}}"#
    );
    let row = enclosed(RowKey::Event { index: 9 }, 1, payload.as_bytes());
    let EventKind::VolumeCreateIntended {
        definition: read, ..
    } = decode_event(9, &row).unwrap().kind
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
    let rows = [
        enclosed(part(0), 1, head.as_bytes()),
        enclosed(part(1), 1, volume.as_bytes()),
    ];
    let snapshot = decode_snapshot(9, rows).unwrap();
    assert_eq!(snapshot.volumes[0].definition, *read);
}

/// Ignoring an unknown field would lose its data.
#[test]
fn unknown_fields_and_kinds_are_refused() {
    for payload in [
        &br#"{"at":5,"kind":{"volume_deleted":{"key":{"namespace":"a","id":"b"},"by":"x"}}}"#[..],
        br#"{"at":5,"kind":{"volume_renamed":{}}}"#,
        br#"{"at":5,"kind":{"volume_deleted":{"key":{"namespace":"a","id":"b"}}},"by":"x"}"#,
    ] {
        let row = enclosed(RowKey::Event { index: 9 }, 1, payload);
        let error = decode_event(9, &row).unwrap_err();
        assert!(matches!(error, CodecError::Undecodable { .. }), "{error}");
    }
}

#[test]
fn large_snapshots_have_several_parts_and_a_missing_part_is_detected() {
    let volumes = (0..3000).map(|n| registered(&key("default", &format!("v{n}")), "ext"));
    let state = state_of([started()].into_iter().chain(volumes));
    let snapshot = StateSnapshot::from(&state);
    let mut parts = parts(&snapshot);
    assert!(parts.len() >= 3, "{} parts", parts.len());
    let largest = parts.iter().map(Vec::len).max();
    assert!(largest < Some(PART_BYTES + (64 << 10)), "{largest:?}");
    let read = decode_snapshot(snapshot.index, &parts).unwrap();
    assert_eq!(State::from(read), state);
    parts.pop();
    let error = decode_snapshot(snapshot.index, &parts).unwrap_err();
    assert!(matches!(error, CodecError::Incomplete { .. }), "{error}");
    let nothing: [&[u8]; 0] = [];
    assert!(decode_snapshot(snapshot.index, nothing).is_err());
}
