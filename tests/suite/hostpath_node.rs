//! The embedded plugin's node service over its socket, without privileges.
//!
//! Mounts are a table in memory here; `tests/e2e/hostpath.rs` makes real ones.

use std::path::{Path, PathBuf};

use nomad_csi::csi::proto;
use nomad_csi::csi::proto::volume_capability::access_mode::Mode;
use nomad_csi::ports::fake::FakeMounter;
use nomad_csi::ports::{MountFlags, Mounter as _};
use tonic::Code;

use crate::support::hostpath::{World, code, writer};
use crate::support::plugin_client::{Publish, mount};

/// `csi-sanity` 5.5: what is missing in a request is said before it is looked whether its volume
/// exists; a volume that does not exist is NOT_FOUND on every call but a deletion.
#[tokio::test]
async fn arguments_are_checked_before_existence() {
    let mut world = World::new().await;
    let staging = world.made("staging");
    let target = world.path("target");
    let client = &mut world.client;
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
        assert_eq!(
            code(client.stage(id, &staging, writer()).await),
            Code::InvalidArgument
        );
        assert_eq!(
            code(client.unstage(id, &staging).await),
            Code::InvalidArgument
        );
        assert_eq!(
            code(client.unpublish(id, &target).await),
            Code::InvalidArgument
        );
        let published = client.publish(publish(id, &staging, &target)).await;
        assert_eq!(code(published), Code::InvalidArgument);
    }
    for path in [Path::new(""), relative, Path::new("/"), &dots] {
        assert_eq!(
            code(client.stage("no", path, writer()).await),
            Code::InvalidArgument
        );
        assert_eq!(
            code(client.unstage("no", path).await),
            Code::InvalidArgument
        );
        assert_eq!(
            code(client.unpublish("no", path).await),
            Code::InvalidArgument
        );
        let published = client.publish(publish("no", &staging, path)).await;
        assert_eq!(code(published), Code::InvalidArgument, "{}", path.display());
    }
    assert_eq!(
        code(client.stage("no", &staging, writer()).await),
        Code::NotFound
    );
    assert_eq!(code(client.unstage("no", &staging).await), Code::NotFound);
    assert_eq!(code(client.unpublish("no", &target).await), Code::NotFound);
    assert_eq!(
        code(client.publish(publish("no", &staging, &target)).await),
        Code::NotFound
    );
    let without_capability = proto::NodeStageVolumeRequest {
        volume_id: "no".to_owned(),
        staging_target_path: staging.to_str().unwrap().to_owned(),
        ..Default::default()
    };
    let staged = client
        .node
        .node_stage_volume(without_capability.clone())
        .await;
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
        assert_eq!(
            code(client.node.node_get_volume_stats(request).await),
            expected
        );
    }
}

/// The table of `csi-spec` 5.18, row by row.
#[tokio::test]
async fn a_second_publish_is_answered_by_the_table() {
    let one = [
        Mode::SingleNodeWriter,
        Mode::SingleNodeReaderOnly,
        Mode::SingleNodeSingleWriter,
    ];
    let many = [
        Mode::SingleNodeMultiWriter,
        Mode::MultiNodeReaderOnly,
        Mode::MultiNodeSingleWriter,
        Mode::MultiNodeMultiWriter,
    ];
    let mut world = World::new().await;
    for mode in one.into_iter().chain(many) {
        let name = mode.as_str_name();
        let id = world.client.create(name).await;
        let (staging, target, second) = (
            world.made(&format!("{name}-staging")),
            world.path(&format!("{name}-target")),
            world.path(&format!("{name}-second")),
        );
        let capability = mount(mode, &[]);
        let publish = Publish {
            id: &id,
            staging: &staging,
            target: &target,
            capability: capability.clone(),
            read_only: false,
        };
        let client = &mut world.client;
        client
            .stage(&id, &staging, capability.clone())
            .await
            .unwrap();
        client.publish(publish.clone()).await.unwrap();
        // T same, P same.
        client.publish(publish.clone()).await.unwrap();
        // T same, P differs.
        let read_only = Publish {
            read_only: true,
            ..publish.clone()
        };
        assert_eq!(
            code(client.publish(read_only).await),
            Code::AlreadyExists,
            "{name}"
        );
        // T differs.
        let elsewhere = client
            .publish(Publish {
                target: &second,
                ..publish
            })
            .await;
        if one.contains(&mode) {
            let refused = elsewhere.unwrap_err();
            assert_eq!(refused.code(), Code::FailedPrecondition, "{name}");
            assert!(
                refused.message().contains(target.to_str().unwrap()),
                "{refused}"
            );
            assert!(!second.exists());
        } else {
            elsewhere.unwrap();
            client.unpublish(&id, &second).await.unwrap();
        }
        client.unpublish(&id, &target).await.unwrap();
        client.unstage(&id, &staging).await.unwrap();
        client.delete(&id).await.unwrap();
    }
    assert_eq!(world.targets(), Vec::<PathBuf>::new());
}

#[tokio::test]
async fn a_volume_goes_up_and_down_and_every_step_may_be_repeated() {
    let mut world = World::new().await;
    let id = world.client.create("a").await;
    let (staging, target) = (world.made("staging"), world.path("target"));
    let publish = Publish {
        id: &id,
        staging: &staging,
        target: &target,
        capability: writer(),
        read_only: true,
    };
    let refused = world.client.publish(publish.clone()).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(refused.message().contains("stage it first"), "{refused}");
    for _ in 0..2 {
        world.client.stage(&id, &staging, writer()).await.unwrap();
        world.client.publish(publish.clone()).await.unwrap();
    }
    let mounts = world.running.mounter.mounts();
    assert_eq!(world.targets(), [staging.clone(), target.clone()]);
    assert_eq!(
        mounts.iter().map(|m| m.flags.read_only).collect::<Vec<_>>(),
        [false, true]
    );
    assert!(mounts.iter().all(|mount| mount.root == world.data(&id)));
    let other = mount(Mode::SingleNodeReaderOnly, &[]);
    let staged = world.client.stage(&id, &staging, other).await;
    assert_eq!(code(staged), Code::AlreadyExists);
    let refused = world.client.delete(&id).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(
        refused.message().contains(staging.to_str().unwrap()),
        "{refused}"
    );
    let stats = proto::NodeGetVolumeStatsRequest {
        volume_id: id.clone(),
        volume_path: target.to_str().unwrap().to_owned(),
        staging_target_path: String::new(),
    };
    let usage = world.client.node.node_get_volume_stats(stats.clone()).await;
    let usage = usage.unwrap().into_inner().usage;
    assert_eq!(usage.len(), 2);
    assert!(usage.iter().all(|usage| usage.total > 0));
    for _ in 0..2 {
        world.client.unpublish(&id, &target).await.unwrap();
        assert!(!target.exists());
    }
    let gone = world.client.node.node_get_volume_stats(stats).await;
    assert_eq!(code(gone), Code::NotFound);
    for _ in 0..2 {
        world.client.unstage(&id, &staging).await.unwrap();
        assert!(staging.is_dir(), "the orchestrator's");
    }
    world.client.delete(&id).await.unwrap();
}

#[tokio::test]
async fn reader_modes_are_mounted_read_only_whatever_is_asked() {
    let mut world = World::new().await;
    let id = world.client.create("a").await;
    let (staging, target) = (world.made("staging"), world.path("target"));
    let capability = mount(Mode::MultiNodeReaderOnly, &["nosuid"]);
    world
        .client
        .stage(&id, &staging, capability.clone())
        .await
        .unwrap();
    let publish = Publish {
        id: &id,
        staging: &staging,
        target: &target,
        capability,
        read_only: false,
    };
    world.client.publish(publish).await.unwrap();
    let mounted = world.running.mounter.mounts();
    assert!(
        mounted[1].flags.read_only && mounted[1].flags.no_suid,
        "{mounted:?}"
    );
}

#[tokio::test]
async fn paths_that_are_somebody_elses_are_left_alone() {
    let mut world = World::new().await;
    let id = world.client.create("a").await;
    let (staging, target) = (world.made("staging"), world.path("target"));
    let client = &mut world.client;
    let publish = Publish {
        id: &id,
        staging: &staging,
        target: &target,
        capability: writer(),
        read_only: false,
    };
    let missing = target.join("below");
    assert_eq!(
        code(client.stage(&id, &missing, writer()).await),
        Code::FailedPrecondition
    );
    client.stage(&id, &staging, writer()).await.unwrap();
    // A staging path is not unpublished, and what somebody else mounted of the volume is his.
    client.unpublish(&id, &staging).await.unwrap();
    assert_eq!(world.running.mounter.mounts().len(), 1);
    let foreign = world.directory.path().join("foreign");
    std::fs::create_dir(&foreign).unwrap();
    let data = world.directory.path().join("state/volumes").join(&id);
    let by_hand = world
        .running
        .mounter
        .bind(&data, &foreign, MountFlags::default());
    by_hand.await.unwrap();
    client.unpublish(&id, &foreign).await.unwrap();
    client.unstage(&id, &foreign).await.unwrap();
    let at_foreign = Publish {
        target: &foreign,
        ..publish.clone()
    };
    assert_eq!(
        code(client.publish(at_foreign).await),
        Code::FailedPrecondition
    );
    assert_eq!(world.running.mounter.mounts().len(), 2);
    // A file, a link, a directory with something in it.
    std::fs::write(&target, "").unwrap();
    assert_eq!(
        code(client.publish(publish.clone()).await),
        Code::FailedPrecondition
    );
    std::fs::remove_file(&target).unwrap();
    std::os::unix::fs::symlink(&staging, &target).unwrap();
    assert_eq!(
        code(client.publish(publish.clone()).await),
        Code::FailedPrecondition
    );
    std::fs::remove_file(&target).unwrap();
    std::fs::create_dir_all(target.join("full")).unwrap();
    assert_eq!(
        code(client.publish(publish.clone()).await),
        Code::FailedPrecondition
    );
    std::fs::remove_dir(target.join("full")).unwrap();
    // Another mount.
    world.running.mounter.mount_foreign(&target);
    assert_eq!(
        code(client.publish(publish.clone()).await),
        Code::FailedPrecondition
    );
    client.unpublish(&id, &target).await.unwrap();
    assert_eq!(
        world.running.mounter.mounts().len(),
        3,
        "the foreign mount stays"
    );
    world.running.mounter.reboot();
    // An empty directory will do, and is not the plugin's to remove.
    client.stage(&id, &staging, writer()).await.unwrap();
    client.publish(publish).await.unwrap();
    client.unpublish(&id, &target).await.unwrap();
    assert!(target.is_dir());
    // The plugin's own directory is no place to mount on.
    let own = world.directory.path().join("state/volumes").join(&id);
    assert_eq!(
        code(client.stage(&id, &own, writer()).await),
        Code::FailedPrecondition
    );
}

#[tokio::test]
async fn a_mount_that_is_in_use_stays_and_the_caller_is_told() {
    let mut world = World::new().await;
    let id = world.client.create("a").await;
    let staging = world.made("staging");
    world.client.stage(&id, &staging, writer()).await.unwrap();
    world.running.mounter.set_busy(&staging, true);
    let refused = world.client.unstage(&id, &staging).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(
        refused.message().contains("a process still uses it"),
        "{refused}"
    );
    world.running.mounter.set_busy(&staging, false);
    world.client.unstage(&id, &staging).await.unwrap();
    assert_eq!(world.targets(), Vec::<PathBuf>::new());
}

#[tokio::test]
async fn without_privileges_it_is_healthy_and_creates_and_says_what_staging_needs() {
    let mut world = World::over(FakeMounter::unprivileged()).await;
    let id = world.client.create("a").await;
    let staging = world.made("staging");
    let refused = world
        .client
        .stage(&id, &staging, writer())
        .await
        .unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(refused.message().contains("CAP_SYS_ADMIN"), "{refused}");
    world.client.unstage(&id, &staging).await.unwrap();
    world.client.delete(&id).await.unwrap();
}

#[tokio::test]
async fn everything_survives_a_restart_and_mounts_a_reboot_is_told_from_it() {
    let mut world = World::new().await;
    let id = world.client.create("a").await;
    let (staging, target) = (world.made("staging"), world.path("target"));
    world.client.stage(&id, &staging, writer()).await.unwrap();
    let mut world = world.restart().await;
    assert_eq!(world.client.create("a").await, id);
    let publish = Publish {
        id: &id,
        staging: &staging,
        target: &target,
        capability: writer(),
        read_only: false,
    };
    world.client.publish(publish.clone()).await.unwrap();
    let mut world = world.restart().await;
    assert_eq!(
        code(world.client.delete(&id).await),
        Code::FailedPrecondition
    );
    // After a reboot the records are there and the mounts are not: nothing is staged.
    world.running.mounter.reboot();
    let refused = world.client.publish(publish.clone()).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    world.client.stage(&id, &staging, writer()).await.unwrap();
    world.client.publish(publish).await.unwrap();
    world.client.unpublish(&id, &target).await.unwrap();
    world.client.unstage(&id, &staging).await.unwrap();
    world.client.delete(&id).await.unwrap();
    let mut world = world.restart().await;
    assert_eq!(
        world.client.list(0, "").await.unwrap().0,
        Vec::<String>::new()
    );
}

/// 64 volumes at once, each all the way up and down.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_64_callers_with_64_volumes_none_disturbs_another() {
    let world = World::new().await;
    let callers = (0..64).map(|number| {
        let mut client = world.client.clone();
        let staging = world.made(&format!("staging-{number}"));
        let target = world.path(&format!("target-{number}"));
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
    assert_eq!(world.targets(), Vec::<PathBuf>::new());
    let mut client = world.client.clone();
    assert_eq!(client.list(0, "").await.unwrap().0, Vec::<String>::new());
}
