//! Every row round-trips, and a damaged or unknown row is refused.

use proptest::prelude::*;

use super::*;
use nomad_csi_claims::state::samples::{History, key, registered};

fn an_event() -> Event {
    Event::new(-5, registered(&key("default", "db"), "ext-1"))
}

/// Encodes a payload of any version, as that version of the program would.
pub(in crate::store) fn enclosed(place: &RowKey, version: u16, payload: &[u8]) -> Vec<u8> {
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
        assert!(matches!(error, CodecError::Corrupt { .. }), "{end}: {error}");
    }
}

/// The meaning of version 1 never changes; the first release wrote this row.
#[test]
fn events_of_version_1_stay_readable() {
    let payload =
        br#"{"at":5,"kind":{"volume_delete_intended":{"key":{"namespace":"default","id":"db"}}}}"#;
    let row = enclosed(&RowKey::Event { index: 9 }, 1, payload);
    let kind = nomad_csi_claims::state::EventKind::VolumeDeleteIntended {
        key: key("default", "db"),
        instance: None,
        request: None,
    };
    assert_eq!(decode_event(9, &row).unwrap(), Event::new(5, kind));
}

/// Version 8 adds what a step sends and the registration of a forced deregistration. Without them, a step
/// sends what its claim says, and all claims of the volume are released, as version 7 meant it.
#[test]
fn claim_events_of_version_7_stay_readable() {
    use nomad_csi_claims::claim::{ClaimEvent, Step, Tombstone};
    use nomad_csi_model::{AllocId, NodeId, RemoteVolume, SealedSecrets};

    let started = ClaimEvent::StepStarted {
        step: Step::ControllerPublish(NodeId::new("n1")),
        instance: AllocId::new("p1"),
        inputs: None,
    };
    let tombstone = Tombstone {
        volume: key("default", "db"),
        secrets: SealedSecrets::new(vec![1, 2]),
        since: 4,
    };
    let orphaned = ClaimEvent::Orphaned { tombstone: Box::new(tombstone), registration: None };
    for (event, payload) in [
        (started, r#"{"step_started":{"step":{"controller_publish":"n1"},"instance":"p1"}}"#),
        (
            orphaned,
            r#"{"orphaned":{"tombstone":{"volume":{"namespace":"default","id":"db"},"secrets":"0102","since":4}}}"#,
        ),
    ] {
        let payload = format!(
            r#"{{"at":5,"kind":{{"claim":{{"volume":{{"plugin_id":"p","external_id":"e"}},"event":{payload}}}}}}}"#
        );
        let row = enclosed(&RowKey::Event { index: 9 }, 7, payload.as_bytes());
        let kind = nomad_csi_claims::state::EventKind::Claim {
            volume: RemoteVolume {
                plugin_id: "p".into(),
                external_id: nomad_csi_model::ExternalId::new("e"),
            },
            event: Box::new(event),
        };
        assert_eq!(decode_event(9, &row).unwrap(), Event::new(5, kind));
    }
}

/// Ignoring an unknown field would lose its data.
#[test]
fn unknown_fields_and_kinds_are_refused() {
    for payload in [
        &br#"{"at":5,"kind":{"volume_deleted":{"key":{"namespace":"a","id":"b"},"by":"x"}}}"#[..],
        br#"{"at":5,"kind":{"volume_renamed":{}}}"#,
        br#"{"at":5,"kind":{"volume_deleted":{"key":{"namespace":"a","id":"b"}}},"by":"x"}"#,
    ] {
        let row = enclosed(&RowKey::Event { index: 9 }, 1, payload);
        let error = decode_event(9, &row).unwrap_err();
        assert!(matches!(error, CodecError::Undecodable { .. }), "{error}");
    }
}

#[test]
fn a_moved_row_is_refused() {
    let row = encode_event(7, &an_event()).unwrap();
    assert!(decode_event(8, &row).is_err());
    assert!(check_envelope(&RowKey::SnapshotHeader { index: 7 }, &row).is_err());
}

#[test]
fn an_event_of_a_later_version_is_refused_with_both_numbers() {
    let event = RowKey::Event { index: 7 };
    let payload = b"{\"at\":1,\"kind\":\"whatever\"}";
    let row = enclosed(&event, EVENT_VERSION + 1, payload);
    let later = EVENT_VERSION + 1;
    assert_eq!(
        decode_event(7, &row).unwrap_err().to_string(),
        format!(
            "event 7 has version {later}, and this program reads versions up to {EVENT_VERSION}"
        )
    );
}
