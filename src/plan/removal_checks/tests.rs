//! The obstacles to a removal.

use super::*;
use nomad_csi_model::{Alloc, AllocId, ClientStatus, DesiredStatus, ExternalId, NodeId};

fn alloc(id: &str, desired: DesiredStatus, client: ClientStatus) -> Alloc {
    Alloc {
        id: AllocId::new(id),
        node_id: NodeId::new("0a1b"),
        node_name: "worker-1".into(),
        evaluation_id: String::new(),
        job_id: "mysql".into(),
        task_group: "db".into(),
        job_version: 3,
        desired,
        client,
        create_time: 0,
        modify_time: 0,
    }
}

fn volume(claims: &[&str], allocs: Vec<Alloc>) -> Volume {
    let document = serde_json::json!({
        "ID": "db", "Namespace": "default", "PluginID": "ebs", "ExternalID": "vol-1",
    });
    let document = nomad_csi_wire::decode_value(&document).unwrap();
    Volume {
        write_allocs: claims.iter().map(|id| AllocId::new(*id)).collect(),
        allocs,
        ..nomad_csi_wire::volume_from_wire(&document)
    }
}

fn other(namespace: &str, id: &str, external_id: Option<&str>, plugin: &str) -> VolumeSummary {
    let document = serde_json::json!({"ID": id, "Namespace": namespace, "PluginID": plugin});
    let document = nomad_csi_wire::decode_value(&document).unwrap();
    VolumeSummary {
        external_id: external_id.map(ExternalId::new),
        ..nomad_csi_wire::summary_from_wire(&document)
    }
}

const DEREGISTER: Removal = Removal::Deregister { force: false };

fn problems(volume: &Volume, removal: Removal, others: &[VolumeSummary]) -> Vec<Diagnostic> {
    removal_problems(volume, removal, others, &ClaimDrops::default())
}

#[test]
fn a_claimed_volume_is_not_removed_and_its_allocations_are_reported() {
    let claimed = volume(&["a1"], vec![alloc("a1", DesiredStatus::Run, ClientStatus::Running)]);
    for removal in [DEREGISTER, Removal::Delete] {
        let found = problems(&claimed, removal, &[]);
        assert_eq!(found.len(), 1, "{removal:?}");
        assert_eq!(found[0].code, Code::VolumeInUse);
        assert_eq!(
            found[0].notes,
            ["allocation a1: job mysql, group db, node worker-1 (0a1b), running"]
        );
    }
    assert!(problems(&volume(&[], vec![]), Removal::Delete, &[]).is_empty());
}

/// The same external ID is registered twice (W13).
#[test]
fn shared_data_is_not_deleted() {
    let mine = volume(&[], vec![]);
    for (other, shares) in [
        (other("default", "db", Some("vol-1"), "ebs"), false),
        (other("prod", "db", Some("vol-1"), "ebs"), true),
        (other("default", "copy", Some("vol-1"), "ebs"), true),
        (other("default", "vol-1", None, "ebs"), true),
        // Another plugin, whose provider is not known.
        (other("default", "copy", Some("vol-1"), "ceph"), true),
        (other("default", "copy", Some("vol-2"), "ebs"), false),
    ] {
        let found = problems(&mine, Removal::Delete, std::slice::from_ref(&other));
        assert_eq!(!found.is_empty(), shares, "{other:?}");
        assert!(problems(&mine, DEREGISTER, &[other]).is_empty());
    }
}

/// A new version of a driver runs beside the old one, under another plugin ID.
#[test]
fn data_that_another_plugin_of_the_provider_serves_is_not_deleted() {
    let of = |provider: &str| VolumeSummary {
        provider: provider.to_owned(),
        ..other("default", "copy", Some("vol-1"), "ebs-next")
    };
    for (own, its, is_refused) in [
        ("ebs.csi", "ebs.csi", true),
        ("ebs.csi", "", true),
        ("", "ebs.csi", true),
        ("ebs.csi", "ceph.csi", false),
    ] {
        let volume = Volume { provider: own.to_owned(), ..volume(&[], vec![]) };
        let found = problems(&volume, Removal::Delete, &[of(its)]);
        let codes: Vec<_> = found.iter().map(|problem| problem.code).collect();
        let expected: &[Code] = if is_refused { &[Code::VolumeShared] } else { &[] };
        assert_eq!(codes, expected, "{own} {its}");
        assert_eq!(problems(&volume, DEREGISTER, &[of(its)]), []);
    }
}
