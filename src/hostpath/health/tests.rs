use super::*;

fn healthy() -> VolumeFacts {
    VolumeFacts {
        id: "v".to_owned(),
        data: DataState::Complete,
        unwritten_bytes: 1 << 30,
        available_bytes: 1 << 30,
        paths: vec![at("/staging", usable(0, false, false))],
    }
}

fn usable(file_system_errors: u64, refuses_writes: bool, is_full: bool) -> PathState {
    PathState::Usable { file_system_errors, refuses_writes, is_full }
}

fn at(path: &str, state: PathState) -> PathFacts {
    PathFacts { path: path.to_owned(), state }
}

fn statuses(change: impl FnOnce(&mut VolumeFacts)) -> Vec<(VolumeHealthErrorType, String)> {
    let mut facts = healthy();
    change(&mut facts);
    let entries = volume_statuses(&facts);
    for entry in &entries {
        assert!(entry.message.contains("volume `v`"), "{entry:?}");
    }
    let entries = entries.into_iter();
    entries.map(|entry| (entry.status(), entry.reason)).collect()
}

fn expect(found: &[(VolumeHealthErrorType, String)], expected: &[(VolumeHealthErrorType, &str)]) {
    let found: Vec<_> = found.iter().map(|(status, reason)| (*status, reason.as_str())).collect();
    assert_eq!(found, expected);
}

#[test]
fn each_fact_has_its_status() {
    use VolumeHealthErrorType::{DataLoss, Degraded, Inaccessible};
    expect(&statuses(|_| {}), &[]);
    expect(
        &statuses(|facts| facts.data = DataState::Missing("/d".into())),
        &[(DataLoss, "DataMissing")],
    );
    let truncated = DataState::Truncated { path: "/d".into(), bytes: 1, expected_bytes: 2 };
    expect(&statuses(|facts| facts.data = truncated), &[(DataLoss, "DataTruncated")]);
    for (state, status, reason) in [
        (PathState::NotMounted, Inaccessible, "NotMounted"),
        (PathState::DeviceLost, Inaccessible, "DeviceLost"),
        (PathState::OtherMount, Inaccessible, "OtherMount"),
        (PathState::Unreadable("EIO".to_owned()), Inaccessible, "FileSystemFailed"),
        (usable(3, false, false), Degraded, "FileSystemErrors"),
        (usable(0, true, false), Degraded, "FileSystemReadOnly"),
        (usable(0, false, true), Degraded, "VolumeFull"),
    ] {
        expect(&statuses(|facts| facts.paths[0].state = state), &[(status, reason)]);
    }
}

#[test]
fn a_volume_needs_only_the_space_that_it_has_not_written() {
    use VolumeHealthErrorType::Degraded;
    let with = |unwritten_bytes, available_bytes| {
        statuses(|facts| {
            facts.unwritten_bytes = unwritten_bytes;
            facts.available_bytes = available_bytes;
        })
    };
    expect(&with(0, 0), &[]);
    expect(&with(4096, 4096), &[]);
    expect(&with(4096, 4095), &[(Degraded, "NoSpace")]);
    expect(&with(u64::MAX, LOW_SPACE_BYTES), &[]);
    expect(&with(u64::MAX, LOW_SPACE_BYTES - 1), &[(Degraded, "NoSpace")]);
}

/// CSI forbids two entries with the same status and reason.
#[test]
fn one_condition_of_two_paths_is_one_status() {
    use VolumeHealthErrorType::Inaccessible;
    let found = statuses(|facts| {
        facts.paths = vec![
            at("/a", PathState::DeviceLost),
            at("/b", PathState::DeviceLost),
            at("/c", PathState::NotMounted),
        ];
    });
    expect(&found, &[(Inaccessible, "DeviceLost"), (Inaccessible, "NotMounted")]);
}

#[test]
fn the_storage_has_its_own_conditions() {
    let reasons = |facts: StorageFacts| -> Vec<_> {
        let statuses = storage_statuses(&facts).into_iter();
        statuses.map(|status| (status.status, status.reason)).collect()
    };
    let healthy = StorageFacts {
        available_bytes: Ok(LOW_SPACE_BYTES),
        refuses_writes: false,
        catalog: Ok(()),
    };
    assert_eq!(reasons(healthy.clone()), []);
    let degraded =
        StorageFacts { available_bytes: Ok(LOW_SPACE_BYTES - 1), refuses_writes: true, ..healthy };
    assert_eq!(
        reasons(degraded),
        [
            (StorageHealthErrorType::StorageDegraded, "NoSpace"),
            (StorageHealthErrorType::StorageDegraded, "FileSystemReadOnly"),
        ]
    );
    let failed = StorageFacts {
        available_bytes: Err("EIO".to_owned()),
        refuses_writes: false,
        catalog: Err("EIO".to_owned()),
    };
    assert_eq!(
        reasons(failed),
        [
            (StorageHealthErrorType::StorageUnreachable, "CatalogFailed"),
            (StorageHealthErrorType::StorageUnreachable, "FileSystemFailed"),
        ]
    );
}

#[test]
fn every_fault_changes_what_is_reported() {
    for (name, fault) in HealthFault::NAMES {
        let mut volume = healthy();
        fault.inject(&mut volume, "/d".into());
        let mut storage =
            StorageFacts { available_bytes: Ok(u64::MAX), refuses_writes: false, catalog: Ok(()) };
        fault.inject_storage(&mut storage);
        let is_reported =
            !volume_statuses(&volume).is_empty() || !storage_statuses(&storage).is_empty();
        assert!(is_reported, "{name}");
    }
}
