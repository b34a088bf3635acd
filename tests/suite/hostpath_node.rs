//! The Node service of the embedded plugin over its socket, without privileges.
//!
//! Mounts are simulated in memory; `tests/e2e/hostpath.rs` uses real ones.

use std::path::{Path, PathBuf};

use nomad_csi_ports::{MountCalls as _, MountFlags};
use nomad_csi_proto as proto;
use nomad_csi_proto::volume_capability::access_mode::Mode;
use nomad_csi_testing::FakeMounter;
use tonic::Code;

use crate::support::hostpath::{PluginFixture, code, writer};
use crate::support::plugin_client::{Client, Publish, mount};

/// csi-sanity expects a missing argument to be reported before an unknown volume. An unknown volume
/// is NOT_FOUND for every call except a deletion.
#[tokio::test]
async fn arguments_are_checked_before_existence() {
    let mut fixture = PluginFixture::new().await;
    let staging = fixture.create_dir("staging");
    let target = fixture.path("target");
    let client = &mut fixture.client;
    let relative = Path::new("relative/path");
    let dots = staging.join("../x");
    let publish = |id, staging, target| Publish {
        id,
        staging,
        target,
        capability: writer(),
        read_only: false,
    };
    let long = "v".repeat(129);
    for id in ["", long.as_str()] {
        assert_eq!(code(client.delete(id).await), Code::InvalidArgument);
        assert_eq!(code(client.stage(id, &staging, writer()).await), Code::InvalidArgument);
        assert_eq!(code(client.unstage(id, &staging).await), Code::InvalidArgument);
        assert_eq!(code(client.unpublish(id, &target).await), Code::InvalidArgument);
        let published = client.publish(publish(id, &staging, &target)).await;
        assert_eq!(code(published), Code::InvalidArgument);
    }
    for path in [Path::new(""), relative, Path::new("/"), &dots] {
        assert_eq!(code(client.stage("no", path, writer()).await), Code::InvalidArgument);
        assert_eq!(code(client.unstage("no", path).await), Code::InvalidArgument);
        assert_eq!(code(client.unpublish("no", path).await), Code::InvalidArgument);
        let published = client.publish(publish("no", &staging, path)).await;
        assert_eq!(code(published), Code::InvalidArgument, "{}", path.display());
    }
    assert_eq!(code(client.stage("no", &staging, writer()).await), Code::NotFound);
    assert_eq!(code(client.unstage("no", &staging).await), Code::NotFound);
    assert_eq!(code(client.unpublish("no", &target).await), Code::NotFound);
    assert_eq!(code(client.publish(publish("no", &staging, &target)).await), Code::NotFound);
    let without_capability = proto::NodeStageVolumeRequest {
        volume_id: "no".to_owned(),
        staging_target_path: staging.to_str().unwrap().to_owned(),
        ..Default::default()
    };
    let staged = client.node.node_stage_volume(without_capability.clone()).await;
    assert_eq!(code(staged), Code::InvalidArgument);
    let foreign_context = proto::NodeStageVolumeRequest {
        volume_capability: Some(writer()),
        volume_context: [("k".to_owned(), "v".to_owned())].into(),
        ..without_capability
    };
    let staged = client.node.node_stage_volume(foreign_context).await;
    assert_eq!(code(staged), Code::InvalidArgument);
    let stats = |id: &str, path: &str| proto::NodeGetVolumeStatsRequest {
        volume_id: id.to_owned(),
        volume_path: path.to_owned(),
        staging_target_path: String::new(),
    };
    for (request, expected) in [
        (stats("", "/x"), Code::InvalidArgument),
        (stats("no", ""), Code::InvalidArgument),
        (stats("no", "some/path"), Code::NotFound),
    ] {
        assert_eq!(code(client.node.node_get_volume_stats(request).await), expected);
    }
}

/// The table of NodePublishVolume in CSI, row by row.
#[tokio::test]
async fn a_second_publish_follows_the_table_of_csi() {
    let one = [Mode::SingleNodeWriter, Mode::SingleNodeReaderOnly, Mode::SingleNodeSingleWriter];
    let many = [
        Mode::SingleNodeMultiWriter,
        Mode::MultiNodeReaderOnly,
        Mode::MultiNodeSingleWriter,
        Mode::MultiNodeMultiWriter,
    ];
    let mut fixture = PluginFixture::new().await;
    for mode in one.into_iter().chain(many) {
        let name = mode.as_str_name();
        let id = fixture.client.create(name).await;
        let (staging, target, second) = (
            fixture.create_dir(&format!("{name}-staging")),
            fixture.path(&format!("{name}-target")),
            fixture.path(&format!("{name}-second")),
        );
        let capability = mount(mode, &[]);
        let publish = Publish {
            id: &id,
            staging: &staging,
            target: &target,
            capability: capability.clone(),
            read_only: false,
        };
        let client = &mut fixture.client;
        client.stage(&id, &staging, capability.clone()).await.unwrap();
        client.publish(publish.clone()).await.unwrap();
        // Same target path, same arguments.
        client.publish(publish.clone()).await.unwrap();
        // Same target path, other arguments.
        let read_only = Publish { read_only: true, ..publish.clone() };
        assert_eq!(code(client.publish(read_only).await), Code::AlreadyExists, "{name}");
        // Another target path.
        let elsewhere = client.publish(Publish { target: &second, ..publish }).await;
        if one.contains(&mode) {
            let refused = elsewhere.unwrap_err();
            assert_eq!(refused.code(), Code::FailedPrecondition, "{name}");
            assert!(refused.message().contains(target.to_str().unwrap()), "{refused}");
            assert!(!second.exists());
        } else {
            elsewhere.unwrap();
            client.unpublish(&id, &second).await.unwrap();
        }
        client.unpublish(&id, &target).await.unwrap();
        client.unstage(&id, &staging).await.unwrap();
        client.delete(&id).await.unwrap();
    }
    assert_eq!(fixture.targets(), Vec::<PathBuf>::new());
}

#[tokio::test]
async fn every_step_of_a_lifecycle_can_be_repeated() {
    let mut fixture = PluginFixture::new().await;
    let id = fixture.client.create("a").await;
    let (staging, target) = (fixture.create_dir("staging"), fixture.path("target"));
    let publish = Publish {
        id: &id,
        staging: &staging,
        target: &target,
        capability: writer(),
        read_only: true,
    };
    let refused = fixture.client.publish(publish.clone()).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(refused.message().contains("stage it first"), "{refused}");
    for _ in 0..2 {
        fixture.client.stage(&id, &staging, writer()).await.unwrap();
        fixture.client.publish(publish.clone()).await.unwrap();
    }
    let mounts = fixture.plugin.mounter.mounts();
    assert_eq!(fixture.targets(), [staging.clone(), target.clone()]);
    assert_eq!(mounts.iter().map(|m| m.flags.read_only).collect::<Vec<_>>(), [false, true]);
    assert!(mounts.iter().all(|mount| mount.root == fixture.data(&id)));
    let other = mount(Mode::SingleNodeReaderOnly, &[]);
    let staged = fixture.client.stage(&id, &staging, other).await;
    assert_eq!(code(staged), Code::AlreadyExists);
    let refused = fixture.client.delete(&id).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(refused.message().contains(staging.to_str().unwrap()), "{refused}");
    let stats = proto::NodeGetVolumeStatsRequest {
        volume_id: id.clone(),
        volume_path: target.to_str().unwrap().to_owned(),
        staging_target_path: String::new(),
    };
    let usage = fixture.client.node.node_get_volume_stats(stats.clone()).await;
    let usage = usage.unwrap().into_inner().usage;
    assert_eq!(usage.len(), 2);
    assert!(usage.iter().all(|usage| usage.total > 0));
    for _ in 0..2 {
        fixture.client.unpublish(&id, &target).await.unwrap();
        assert!(!target.exists());
    }
    let gone = fixture.client.node.node_get_volume_stats(stats).await;
    assert_eq!(code(gone), Code::NotFound);
    for _ in 0..2 {
        fixture.client.unstage(&id, &staging).await.unwrap();
        assert!(staging.is_dir(), "the orchestrator owns the staging directory");
    }
    fixture.client.delete(&id).await.unwrap();
}

#[tokio::test]
async fn reader_modes_are_always_mounted_read_only() {
    let mut fixture = PluginFixture::new().await;
    let id = fixture.client.create("a").await;
    let (staging, target) = (fixture.create_dir("staging"), fixture.path("target"));
    let capability = mount(Mode::MultiNodeReaderOnly, &["nosuid"]);
    fixture.client.stage(&id, &staging, capability.clone()).await.unwrap();
    let publish =
        Publish { id: &id, staging: &staging, target: &target, capability, read_only: false };
    fixture.client.publish(publish).await.unwrap();
    let mounted = fixture.plugin.mounter.mounts();
    assert!(mounted[1].flags.read_only && mounted[1].flags.no_suid, "{mounted:?}");
}

/// Stages a volume for a writer, and publishes it.
async fn stage_and_publish(client: &mut Client, id: &str, staging: &Path, target: &Path) {
    client.stage(id, staging, writer()).await.unwrap();
    let publish = Publish { id, staging, target, capability: writer(), read_only: false };
    client.publish(publish).await.unwrap();
}

/// A record follows a renamed directory only with its mount: names at the ends of paths are the same for two allocations.
#[tokio::test]
async fn the_path_of_another_allocation_is_no_renamed_one() {
    let mut fixture = PluginFixture::new().await;
    let id = fixture.client.create("a").await;
    let staging = fixture.create_dir("staging");
    let first = fixture.create_dir("before/a1/data").join("mount");
    stage_and_publish(&mut fixture.client, &id, &staging, &first).await;
    let root = fixture.directory.path().to_owned();
    let renamed = root.join("after/a1/data/mount");
    std::fs::rename(root.join("before"), root.join("after")).unwrap();
    fixture.plugin.mounter.move_mount(&first, &renamed);
    // Neither the path of another allocation nor a purpose of another kind takes the record.
    let other = root.join("after/a2/data/mount");
    std::fs::create_dir_all(&other).unwrap();
    let client = &mut fixture.client;
    client.unpublish(&id, &other).await.unwrap();
    client.unstage(&id, &renamed).await.unwrap();
    assert_eq!(fixture.plugin.mounter.mounts().len(), 2);
    client.unpublish(&id, &renamed).await.unwrap();
    assert_eq!(fixture.plugin.mounter.mounts().len(), 1, "the staging stays");
    client.unstage(&id, &staging).await.unwrap();
    assert!(fixture.plugin.mounter.mounts().is_empty());
    client.delete(&id).await.unwrap();
}

/// After a start of the machine nothing is mounted, and the records of renamed directories must not keep the volume.
#[tokio::test]
async fn paths_that_were_renamed_before_a_start_of_the_machine_are_released() {
    let mut fixture = PluginFixture::new().await;
    let id = fixture.client.create("a").await;
    let staging = fixture.create_dir("before/staging/s1");
    let target = fixture.create_dir("before/a1/data").join("mount");
    stage_and_publish(&mut fixture.client, &id, &staging, &target).await;
    fixture.plugin.mounter.reboot();
    let root = fixture.directory.path().to_owned();
    std::fs::rename(root.join("before"), root.join("after")).unwrap();
    let client = &mut fixture.client;
    let renamed = root.join("after/a1/data/mount");
    client.unpublish(&id, &renamed).await.unwrap();
    client.unstage(&id, &root.join("after/staging/s1")).await.unwrap();
    // No record of a path is left: each would be a mount that is gone.
    assert_eq!(client.node_health(&id).await.unwrap(), []);
    client.delete(&id).await.unwrap();
}

#[tokio::test]
async fn paths_of_other_programs_are_not_touched() {
    let mut fixture = PluginFixture::new().await;
    let id = fixture.client.create("a").await;
    let (staging, target) = (fixture.create_dir("staging"), fixture.path("target"));
    let client = &mut fixture.client;
    let publish = Publish {
        id: &id,
        staging: &staging,
        target: &target,
        capability: writer(),
        read_only: false,
    };
    let missing = target.join("below");
    assert_eq!(code(client.stage(&id, &missing, writer()).await), Code::FailedPrecondition);
    client.stage(&id, &staging, writer()).await.unwrap();
    // A staging path is not unpublished, and a mount of the volume by another program stays.
    client.unpublish(&id, &staging).await.unwrap();
    assert_eq!(fixture.plugin.mounter.mounts().len(), 1);
    let foreign = fixture.directory.path().join("foreign");
    std::fs::create_dir(&foreign).unwrap();
    let data = fixture.directory.path().join("state/volumes").join(&id);
    let by_hand = fixture.plugin.mounter.bind(&data, &foreign, MountFlags::default());
    by_hand.unwrap();
    client.unpublish(&id, &foreign).await.unwrap();
    client.unstage(&id, &foreign).await.unwrap();
    let at_foreign = Publish { target: &foreign, ..publish.clone() };
    assert_eq!(code(client.publish(at_foreign).await), Code::FailedPrecondition);
    assert_eq!(fixture.plugin.mounter.mounts().len(), 2);
    // A file, a link, and a directory with content.
    std::fs::write(&target, "").unwrap();
    assert_eq!(code(client.publish(publish.clone()).await), Code::FailedPrecondition);
    std::fs::remove_file(&target).unwrap();
    std::os::unix::fs::symlink(&staging, &target).unwrap();
    assert_eq!(code(client.publish(publish.clone()).await), Code::FailedPrecondition);
    std::fs::remove_file(&target).unwrap();
    std::fs::create_dir_all(target.join("full")).unwrap();
    assert_eq!(code(client.publish(publish.clone()).await), Code::FailedPrecondition);
    std::fs::remove_dir(target.join("full")).unwrap();
    // A mount of another program.
    fixture.plugin.mounter.mount_foreign(&target);
    assert_eq!(code(client.publish(publish.clone()).await), Code::FailedPrecondition);
    client.unpublish(&id, &target).await.unwrap();
    assert_eq!(fixture.plugin.mounter.mounts().len(), 3, "the foreign mount stays");
    fixture.plugin.mounter.reboot();
    // An empty directory is accepted, and the plugin does not remove it.
    client.stage(&id, &staging, writer()).await.unwrap();
    client.publish(publish).await.unwrap();
    client.unpublish(&id, &target).await.unwrap();
    assert!(target.is_dir());
    // A path inside the plugin's own directory is refused.
    let own = fixture.directory.path().join("state/volumes").join(&id);
    assert_eq!(code(client.stage(&id, &own, writer()).await), Code::FailedPrecondition);
}

#[tokio::test]
async fn a_busy_mount_stays_and_the_error_says_so() {
    let mut fixture = PluginFixture::new().await;
    let id = fixture.client.create("a").await;
    let staging = fixture.create_dir("staging");
    fixture.client.stage(&id, &staging, writer()).await.unwrap();
    fixture.plugin.mounter.set_busy(&staging, true);
    let refused = fixture.client.unstage(&id, &staging).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(refused.message().contains("a process uses it"), "{refused}");
    fixture.plugin.mounter.set_busy(&staging, false);
    fixture.client.unstage(&id, &staging).await.unwrap();
    assert_eq!(fixture.targets(), Vec::<PathBuf>::new());
}

#[tokio::test]
async fn without_privileges_the_plugin_is_healthy_and_staging_reports_what_it_needs() {
    let mut fixture = PluginFixture::with_mounter(FakeMounter::unprivileged()).await;
    let id = fixture.client.create("a").await;
    let staging = fixture.create_dir("staging");
    let refused = fixture.client.stage(&id, &staging, writer()).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(refused.message().contains("CAP_SYS_ADMIN"), "{refused}");
    fixture.client.unstage(&id, &staging).await.unwrap();
    fixture.client.delete(&id).await.unwrap();
}

#[tokio::test]
async fn records_survive_a_restart_and_missing_mounts_reveal_a_reboot() {
    let mut fixture = PluginFixture::new().await;
    let id = fixture.client.create("a").await;
    let (staging, target) = (fixture.create_dir("staging"), fixture.path("target"));
    fixture.client.stage(&id, &staging, writer()).await.unwrap();
    let mut fixture = fixture.restart().await;
    assert_eq!(fixture.client.create("a").await, id);
    let publish = Publish {
        id: &id,
        staging: &staging,
        target: &target,
        capability: writer(),
        read_only: false,
    };
    fixture.client.publish(publish.clone()).await.unwrap();
    let mut fixture = fixture.restart().await;
    assert_eq!(code(fixture.client.delete(&id).await), Code::FailedPrecondition);
    // After a reboot the records exist without mounts, so nothing is staged.
    fixture.plugin.mounter.reboot();
    let refused = fixture.client.publish(publish.clone()).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    fixture.client.stage(&id, &staging, writer()).await.unwrap();
    fixture.client.publish(publish).await.unwrap();
    fixture.client.unpublish(&id, &target).await.unwrap();
    fixture.client.unstage(&id, &staging).await.unwrap();
    fixture.client.delete(&id).await.unwrap();
    let mut fixture = fixture.restart().await;
    assert_eq!(fixture.client.list(0, "").await.unwrap().0, Vec::<String>::new());
}

/// 64 lifecycles of different volumes at the same time.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sixty_four_callers_with_different_volumes_do_not_interfere() {
    let fixture = PluginFixture::new().await;
    let callers = (0..64).map(|number| {
        let mut client = fixture.client.clone();
        let staging = fixture.create_dir(&format!("staging-{number}"));
        let target = fixture.path(&format!("target-{number}"));
        tokio::spawn(async move {
            let id = client.create(&format!("volume-{number}")).await;
            let publish = Publish {
                id: &id,
                staging: &staging,
                target: &target,
                capability: writer(),
                read_only: false,
            };
            client.stage(&id, &staging, writer()).await.unwrap();
            client.publish(publish).await.unwrap();
            client.unpublish(&id, &target).await.unwrap();
            client.unstage(&id, &staging).await.unwrap();
            client.delete(&id).await.unwrap();
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        caller.await.unwrap();
    }
    assert_eq!(fixture.targets(), Vec::<PathBuf>::new());
    let mut client = fixture.client.clone();
    assert_eq!(client.list(0, "").await.unwrap().0, Vec::<String>::new());
}
