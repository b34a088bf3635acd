//! Every row round-trips; a moved, changed or later row is refused.

use super::*;
use crate::store::codec::SNAPSHOT_VERSION;
use crate::store::codec::tests::enclosed;
use nomad_csi_claims::state::StateSnapshot;
use nomad_csi_claims::state::samples::{History, key};

fn snapshot(seed: u64) -> StateSnapshot {
    let mut history = History::new(seed);
    history.by_ref().take(300).for_each(drop);
    StateSnapshot::from(history.state())
}

#[test]
fn every_record_round_trips() {
    let snapshot = snapshot(3);
    let mut tables = std::collections::BTreeSet::new();
    for record in &snapshot.records {
        let key = record_key(&record.subject(), 9);
        tables.insert(key.table);
        let row = encode_record(key.clone(), Some(record)).unwrap();
        assert_eq!(decode_record(key.clone(), &row).unwrap().as_ref(), Some(record));
        let gone = encode_record(key.clone(), None).unwrap();
        assert_eq!(decode_record(key, &gone).unwrap(), None);
    }
    assert_eq!(Vec::from_iter(tables), [1, 2, 3, 4, 5, 6, 7, 8, 9], "every table");
    let header =
        SnapshotHeader { numbers: snapshot.numbers.clone(), objects: [(Table::Volumes, 3)].into() };
    let index = snapshot.numbers.index;
    let row = encode_header(&header).unwrap();
    assert_eq!(decode_header(index, &row).unwrap(), header);
    assert!(decode_header(index + 1, &row).is_err());
}

/// The two parts of a key cannot be confused either.
#[test]
fn a_row_under_another_key_is_refused() {
    let record = &snapshot(3).records[0];
    let key = RecordKey { table: 4, group: "ab".to_owned(), name: "c".to_owned(), index: 9 };
    let row = encode_record(key.clone(), Some(record)).unwrap();
    for other in [
        RecordKey { table: 3, ..key.clone() },
        RecordKey { index: 8, ..key.clone() },
        RecordKey { name: "d".to_owned(), ..key.clone() },
        RecordKey { group: "a".to_owned(), name: "bc".to_owned(), ..key.clone() },
    ] {
        let error = decode_record(other, &row).unwrap_err();
        assert!(matches!(error, CodecError::Corrupt { .. }), "{error}");
    }
}

/// Version 8 of snapshots kept one tombstone for all registrations, and not what steps send.
#[test]
fn claims_of_version_8_stay_readable() {
    use nomad_csi_claims::state::ClaimsRecord;
    use nomad_csi_model::RemoteVolume;

    let payload = r#"{"volume":{"plugin_id":"p","external_id":"e"},"claims":{
        "claims":[[{"alloc":"a1","alias":"data"},{"volume":{"namespace":"default","id":"db"},
        "node":"n1","external_node":"i-1","usage":{"capability":{"access_mode":"single-node-writer",
        "attachment_mode":"file-system"},"fs_type":"ext4","flags":{"sealed":"","fingerprint":""}},
        "read_only":false,"intent":"release","published":"yes","granted_at":1,
        "call":{"index":3,"is_setup":true,"instance":"p1"}}]],
        "stagings":{},"attachments":{"n1":{"external_node":"i-1","state":"yes",
        "call":{"index":2,"is_setup":true,"instance":"p1"}}},
        "modes":{"access_mode":"single-node-writer","attachment_mode":"file-system"},
        "tombstone":{"volume":{"namespace":"default","id":"db"},"secrets":"0102","since":4}},
        "modify_index":4,"modify_time":4}"#;
    let volume =
        RemoteVolume { plugin_id: "p".into(), external_id: nomad_csi_model::ExternalId::new("e") };
    let place = record_key(&Subject::Claims(volume.clone()), 7);
    let row = enclosed(&RowKey::Record(place.clone()), 8, payload.as_bytes());
    let Some(StoredRecord::Claims(record)) = decode_record(place, &row).unwrap() else {
        panic!("it is a record of claims");
    };
    let ClaimsRecord { claims, .. } = &*record;
    assert_eq!(record.volume, volume);
    let gone: Vec<_> = claims.tombstones.iter().map(|gone| &gone.volume).collect();
    assert_eq!(gone, [&key("default", "db")]);
    assert!(claims.attachments.values().all(|one| one.made_for.is_none()));
    assert_eq!(nomad_csi_claims::claim::violations(claims), Vec::<String>::new());
}

#[test]
fn a_record_of_a_later_version_is_refused_with_both_numbers() {
    let key = record_key(&Subject::Volume(key("default", "db")), 7);
    let row = enclosed(&RowKey::Record(key.clone()), SNAPSHOT_VERSION + 1, b"{}");
    let later = SNAPSHOT_VERSION + 1;
    assert_eq!(
        decode_record(key, &row).unwrap_err().to_string(),
        format!(
            "record `default` `db` of snapshot 7 has version {later}, and this program reads versions up to {SNAPSHOT_VERSION}"
        )
    );
}
