use super::*;
use crate::ports::VolumeReader as _;
use crate::ports::fake::{CallFault, FakeServer};
use nomad_csi_model::{AccessMode, AttachmentMode, Bytes, Capability, Namespace};
use nomad_csi_plan::MergeRules;

fn external(id: &str) -> ExternalVolume {
    ExternalVolume {
        health: None,
        external_id: ExternalId::new(id),
        capacity: Bytes::ZERO,
        context: [].into(),
        clone_id: None,
        snapshot_id: None,
        published_nodes: vec![],
        condition: None,
    }
}

fn summary(namespace: &str, id: &str, plugin: &str, external: Option<&str>) -> VolumeSummary {
    VolumeSummary {
        namespace: Namespace::new(namespace),
        id: VolumeId::new(id),
        name: id.into(),
        external_id: external.map(ExternalId::new),
        plugin_id: PluginId::new(plugin),
        provider: "csi.example".into(),
        schedulable: true,
        access_mode: None,
        attachment_mode: None,
        readers: 0,
        writers: 0,
        create_index: 1,
        modify_index: 1,
        spec_index: 1,
    }
}

fn request(id: &VolumeId, remote: &str) -> VolumeRequest {
    let capability = Capability {
        access_mode: AccessMode::SingleNodeWriter,
        attachment_mode: AttachmentMode::FileSystem,
    };
    let key = NamespacedId::new(Namespace::default(), id.clone());
    VolumeRequest {
        name: Some(id.to_string()),
        external_id: Some(ExternalId::new(remote)),
        ..VolumeRequest::new(key, PluginId::new("ebs"), vec![capability])
    }
}

fn server() -> FakeServer {
    let server = FakeServer::new(MergeRules::AGENT);
    server.add_plugin("ebs");
    server
}

fn temporary(remote: &str) -> VolumeRequest {
    let name = deletion_name(&PluginId::new("ebs"), &ExternalId::new(remote));
    request(&name, remote)
}

/// Volumes match by the provider's ID, in every namespace and at every plugin (B35).
#[test]
fn registered_volumes_are_not_orphans() {
    let plugin = PluginId::new("ebs");
    let started = deletion_name(&plugin, &ExternalId::new("v4"));
    let registered = [
        summary("default", "db", "ebs", Some("v1")),
        summary("prod", "copy", "ebs", Some("v1")),
        summary("prod", "v2", "ebs", None),
        summary("prod", "other", "ebs-old", Some("v3")),
        summary("default", started.as_str(), "ebs", Some("v4")),
        summary("prod", "lost", "ebs", Some("v9")),
        summary("prod", "elsewhere", "efs", Some("f1")),
    ];
    let listed = ["v1", "v2", "v3", "v4", "v5"].map(external);
    let inventory = Inventory::new(&plugin, listed.to_vec(), &registered);
    let found: Vec<(&str, usize, bool)> = inventory
        .listed
        .iter()
        .map(|one| {
            let id = one.volume.external_id.as_str();
            (id, one.registered.len(), one.deletion.is_some())
        })
        .collect();
    let expected =
        [("v1", 2, false), ("v2", 1, false), ("v3", 1, false), ("v4", 0, true), ("v5", 0, false)];
    assert_eq!(found, expected);
    let orphans: Vec<&str> =
        inventory.orphans().map(|one| one.volume.external_id.as_str()).collect();
    assert_eq!(orphans, ["v4", "v5"]);
    let missing: Vec<&str> = inventory.missing.iter().map(|one| one.id.as_str()).collect();
    assert_eq!(missing, ["lost"]);
}

#[test]
fn a_deletion_name_is_unique_per_volume_and_plugin() {
    let name = |plugin: &str, id: &str| deletion_name(&PluginId::new(plugin), &ExternalId::new(id));
    assert_eq!(name("ebs", "v1"), name("ebs", "v1"));
    assert_ne!(name("ebs", "v1"), name("ebs", "v2"));
    assert_ne!(name("eb", "sv1"), name("ebs", "v1"));
    assert_eq!(name("ebs", "a/b").problem(), None);
}

#[tokio::test(start_paused = true)]
async fn an_orphan_is_deleted_in_two_steps_and_a_second_run_continues() {
    let server = server();
    let desired = temporary("v1");
    server.fail_next("delete", CallFault::Refused);
    assert_eq!(register_orphan(&server, &desired).await, Ok(vec![]));
    let secrets = Secrets::default();
    let first = delete_orphan(&server, &desired.key(), &secrets).await;
    assert!(matches!(first, OrphanDeletion::Incomplete(_)), "{first:?}");
    assert_eq!(register_orphan(&server, &desired).await, Ok(vec![]));
    let second = delete_orphan(&server, &desired.key(), &secrets).await;
    assert_eq!(second, OrphanDeletion::Deleted);
    let id = desired.id.as_str();
    let writes = ["register", "delete", "delete"].map(|call| format!("{call} {id}"));
    assert_eq!(server.writes(), writes, "it is registered once");
    assert_eq!(delete_orphan(&server, &desired.key(), &secrets).await, OrphanDeletion::Deleted);
}

#[tokio::test(start_paused = true)]
async fn a_lost_reply_of_either_step_is_resolved() {
    let server = server();
    let desired = temporary("v1");
    server.fail_next("register", CallFault::ReplyLost);
    server.fail_next("delete", CallFault::ReplyLost);
    assert_eq!(register_orphan(&server, &desired).await, Ok(vec![]));
    let ended = delete_orphan(&server, &desired.key(), &Secrets::default()).await;
    assert_eq!(ended, OrphanDeletion::Deleted);
    server.fail_next("register", CallFault::RequestLost);
    assert!(register_orphan(&server, &desired).await.is_err(), "the outcome is unknown");
}

#[tokio::test(start_paused = true)]
async fn an_orphan_registered_between_the_steps_is_not_deleted() {
    let server = server();
    let desired = temporary("v1");
    assert_eq!(register_orphan(&server, &desired).await, Ok(vec![]));
    let theirs = request(&VolumeId::new("db"), "v1");
    server.register_volume(&theirs).await.expect("it is taken");
    let ended = delete_orphan(&server, &desired.key(), &Secrets::default()).await;
    let OrphanDeletion::Refused(reasons) = ended else {
        panic!("their data is gone: {ended:?}");
    };
    assert_eq!(reasons[0].code, Code::VolumeShared);
    assert_eq!(server.read_volume(&desired.key()).await, Ok(None));
    let there = server.read_volume(&theirs.key()).await.expect("it answers");
    assert!(there.is_some(), "theirs stays");
    let writes = server.writes();
    assert!(!writes.iter().any(|call| call.starts_with("delete")), "{writes:?}");
}

#[tokio::test]
async fn a_volume_is_not_registered_twice() {
    let server = server();
    let theirs = request(&VolumeId::new("db"), "v1");
    server.register_volume(&theirs).await.expect("it is taken");
    for (id, remote) in [("again", "v1"), ("db", "v2")] {
        let refused = register_orphan(&server, &request(&VolumeId::new(id), remote)).await;
        let code = refused.map_err(|problem| problem.code);
        assert_eq!(code, Err(Code::OrphanRegistered), "{id} {remote}");
    }
    assert_eq!(server.writes(), ["register db"]);
}
