//! The health that the embedded plugin reports: real conditions, and those of `--fault health:…`.

use nomad_csi_hostpath::ProfileOptions;
use nomad_csi_proto as proto;
use nomad_csi_proto::VolumeHealthErrorType::{DataLoss, Degraded, Inaccessible};
use nomad_csi_proto::volume_capability::access_mode::Mode;
use tonic::Code;

use crate::support::hostpath::{PluginFixture, TestHost, code, device, writer};
use crate::support::plugin_client::{Publish, Reported, block, sized};

const MIB: i64 = 1 << 20;

fn status(kind: proto::VolumeHealthErrorType, reason: &str) -> Reported {
    (kind, reason.to_owned())
}

fn with_fault(fault: &str) -> ProfileOptions {
    ProfileOptions { fault: vec![fault.to_owned()], ..ProfileOptions::default() }
}

/// Returns a page of the list: IDs with their first status, and the next token.
async fn list(
    fixture: &mut PluginFixture,
    max_entries: i32,
    token: &str,
) -> Result<(Vec<(String, Reported)>, String), tonic::Status> {
    let request = proto::ControllerListVolumeHealthRequest {
        max_entries,
        starting_token: token.to_owned(),
        ..Default::default()
    };
    let client = &mut fixture.client.controller;
    let answer = client.controller_list_volume_health(request).await?;
    let answer = answer.into_inner();
    let entries = answer.entries.into_iter().map(|entry| {
        let first = &entry.health_statuses[0];
        let reported = (first.status(), first.reason.clone());
        (entry.volume_id, reported)
    });
    Ok((entries.collect(), answer.next_token))
}

#[tokio::test]
async fn only_volumes_with_a_condition_are_listed() {
    let mut fixture = PluginFixture::new().await;
    let mut ids = vec![];
    for name in ["a", "b", "c", "d"] {
        ids.push(fixture.client.create(name).await);
    }
    assert_eq!(list(&mut fixture, 0, "").await.unwrap(), (vec![], String::new()));
    ids.sort();
    let lost = status(DataLoss, "DataMissing");
    let mut expected = vec![];
    for id in &ids[1..] {
        fixture.use_once(id, writer()).await;
        std::fs::remove_dir(fixture.data(id)).unwrap();
        expected.push((id.clone(), lost.clone()));
    }
    let (first, token) = list(&mut fixture, 2, "").await.unwrap();
    assert_eq!(first, expected[..2]);
    let (second, end) = list(&mut fixture, 2, &token).await.unwrap();
    assert_eq!((second.as_slice(), end.as_str()), (&expected[2..], ""));
    assert_eq!(list(&mut fixture, 3, "").await.unwrap().1, "");
    assert_eq!(code(list(&mut fixture, 0, "page-2").await), Code::Aborted);
    assert_eq!(code(list(&mut fixture, -1, "").await), Code::InvalidArgument);
    assert_eq!(fixture.client.health(&ids[0]).await.unwrap(), []);
    assert_eq!(fixture.client.health(&ids[1]).await.unwrap(), [lost]);
    assert_eq!(code(fixture.client.health("nothing").await), Code::NotFound);
    assert_eq!(code(fixture.client.node_health("nothing").await), Code::NotFound);
}

#[tokio::test]
async fn the_node_reports_what_its_paths_show() {
    let mut fixture = PluginFixture::with_devices().await;
    let storage = fixture.plugin.host.storage.clone();
    let mounter = fixture.plugin.mounter.clone();
    let id = fixture.client.try_create(sized("a", MIB)).await.unwrap();
    assert_eq!(fixture.client.node_health(&id).await.unwrap(), []);
    let staging = fixture.create_dir("staging");
    fixture.client.stage(&id, &staging, writer()).await.unwrap();
    assert_eq!(fixture.client.node_health(&id).await.unwrap(), []);
    storage.set_file_system_errors(3);
    let errors = status(Degraded, "FileSystemErrors");
    assert_eq!(fixture.client.node_health(&id).await.unwrap(), [errors]);
    storage.set_file_system_errors(0);
    // The device goes, and its mount stays.
    storage.reboot();
    let lost = status(Inaccessible, "DeviceLost");
    assert_eq!(fixture.client.node_health(&id).await.unwrap(), [lost]);
    mounter.reboot();
    let unmounted = status(Inaccessible, "NotMounted");
    assert_eq!(fixture.client.node_health(&id).await.unwrap(), [unmounted]);
    fixture.client.stage(&id, &staging, writer()).await.unwrap();
    assert_eq!(fixture.client.node_health(&id).await.unwrap(), []);
    fixture.client.unstage(&id, &staging).await.unwrap();
    assert_eq!(fixture.client.node_health(&id).await.unwrap(), []);
}

#[tokio::test]
async fn a_block_volume_without_its_device_is_inaccessible() {
    let mut fixture = PluginFixture::with_devices().await;
    let capability = block(Mode::SingleNodeWriter);
    let id = fixture.client.try_create(device("a", MIB)).await.unwrap();
    let staging = fixture.create_dir("staging");
    let target = fixture.path("target");
    let client = &mut fixture.client;
    client.stage(&id, &staging, capability.clone()).await.unwrap();
    let publish =
        Publish { id: &id, staging: &staging, target: &target, capability, read_only: false };
    client.publish(publish).await.unwrap();
    assert_eq!(client.node_health(&id).await.unwrap(), []);
    fixture.plugin.host.storage.reboot();
    let lost = status(Inaccessible, "DeviceLost");
    assert_eq!(fixture.client.node_health(&id).await.unwrap(), [lost]);
}

#[tokio::test]
async fn every_fault_of_health_is_reported() {
    for (fault, expected) in [
        ("data-missing", status(DataLoss, "DataMissing")),
        ("data-truncated", status(DataLoss, "DataTruncated")),
        ("device-lost", status(Inaccessible, "DeviceLost")),
        ("file-system-errors", status(Degraded, "FileSystemErrors")),
        ("read-only", status(Degraded, "FileSystemReadOnly")),
        ("no-space", status(Degraded, "NoSpace")),
    ] {
        let options = with_fault(&format!("health:{fault}"));
        let mut fixture = PluginFixture::on_host(TestHost::with_devices(), options).await;
        let id = fixture.client.try_create(sized("a", MIB)).await.unwrap();
        let staging = fixture.create_dir("staging");
        // A fault changes what is reported, and nothing else.
        fixture.client.stage(&id, &staging, writer()).await.unwrap();
        let reported = fixture.client.node_health(&id).await.unwrap();
        assert_eq!(reported, [expected], "{fault}");
    }
}

#[tokio::test]
async fn the_storage_has_its_own_health() {
    for (options, expected) in [
        (ProfileOptions::default(), None),
        (with_fault("health:no-space"), Some("NoSpace")),
        (with_fault("health:storage-failed"), Some("CatalogFailed")),
    ] {
        let mut fixture = PluginFixture::on_host(TestHost::with_devices(), options).await;
        let request = proto::NodeGetStorageHealthRequest::default();
        let answer = fixture.client.node.node_get_storage_health(request).await;
        let health = answer.unwrap().into_inner().backend_health;
        let reasons: Vec<_> = health.iter().map(|entry| entry.reason.as_str()).collect();
        assert_eq!(reasons, Vec::from_iter(expected));
    }
}

/// CSI 1.13: only a plugin with SNAPSHOT_ACCESSIBILITY_CONSTRAINTS returns where a snapshot is usable.
#[tokio::test]
async fn a_snapshot_is_usable_where_the_plugin_is() {
    let options =
        ProfileOptions { topology: vec!["t.x/zone=a".to_owned()], ..ProfileOptions::default() };
    let mut fixture = PluginFixture::on_host(TestHost::with_devices(), options).await;
    let id = fixture.client.create("a").await;
    let place = |zone: &str| proto::Topology {
        segments: [("t.x/zone".to_owned(), zone.to_owned())].into(),
    };
    let request = |zone: &str| proto::CreateSnapshotRequest {
        name: "s".to_owned(),
        source_volume_id: id.clone(),
        accessibility_requirements: Some(proto::TopologyRequirement {
            requisite: vec![place(zone)],
            preferred: vec![],
        }),
        ..Default::default()
    };
    let client = &mut fixture.client.controller;
    let refused = client.create_snapshot(request("b")).await;
    assert_eq!(code(refused), Code::ResourceExhausted);
    let made = client.create_snapshot(request("a")).await.unwrap();
    let snapshot = made.into_inner().snapshot.unwrap();
    assert_eq!(snapshot.accessible_topology, [place("a")]);
    let mut fixture = fixture.restart_with(ProfileOptions::default()).await;
    let client = &mut fixture.client.controller;
    let refused = client.create_snapshot(request("a")).await;
    assert_eq!(code(refused), Code::InvalidArgument);
    let again = fixture.client.snapshot("s", &id).await.unwrap();
    assert_eq!(again.accessible_topology, []);
}
