//! The embedded plugin as a separate process, with images, loop devices and real mounts.
//!
//! Requires root and loop devices. A test prints what it skips.

use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::Duration;

use nomad_csi_node::mounts::LinuxBlockStorage;
use nomad_csi_ports::{BlockStorage as _, FileSystem};
use nomad_csi_proto as proto;
use nomad_csi_proto::volume_capability::access_mode::Mode;
use nomad_csi_proto::volume_capability::{AccessType, MountVolume};
use tonic::{Code, Status};

use crate::hostpath_fixture::{self, ProcessFixture, run_in_namespace_with_devices};
use crate::plugin_client::{Client, Publish, block, clone_of, mount, named, restore_of, sized};
use crate::task_root::run_command;
use crate::wait::until_async;

const MIB: i64 = 1 << 20;

fn writer() -> proto::VolumeCapability {
    mount(Mode::SingleNodeMultiWriter, &[])
}

fn formatted(kind: &str, flags: &[&str], group: &str) -> proto::VolumeCapability {
    proto::VolumeCapability {
        access_type: Some(AccessType::Mount(MountVolume {
            fs_type: kind.to_owned(),
            mount_flags: flags.iter().map(ToString::to_string).collect(),
            volume_mount_group: group.to_owned(),
        })),
        ..writer()
    }
}

async fn stage_and_publish(
    client: &mut Client,
    id: &str,
    staging: &Path,
    target: &Path,
    capability: proto::VolumeCapability,
    read_only: bool,
) -> Result<(), Status> {
    let request = Publish { id, staging, target, capability, read_only };
    hostpath_fixture::stage_and_publish(client, request).await
}

async fn unpublish_and_unstage(client: &mut Client, id: &str, staging: &Path, target: &Path) {
    let unpublish_and_unstage =
        hostpath_fixture::unpublish_and_unstage(client, id, staging, target).await;
    unpublish_and_unstage.unwrap();
}

async fn total(client: &mut Client, id: &str, path: &Path) -> i64 {
    let request = proto::NodeGetVolumeStatsRequest {
        volume_id: id.to_owned(),
        volume_path: path.to_str().unwrap().to_owned(),
        staging_target_path: String::new(),
    };
    let answer = client.node.node_get_volume_stats(request).await;
    let answer = answer.unwrap().into_inner();
    answer.usage[0].total
}

/// The kernel's own counter of an ext4 file system, and a volume without space.
#[test]
fn errors_and_a_full_file_system_are_reported() {
    use proto::VolumeHealthErrorType::Degraded;
    run_in_namespace_with_devices(
        "hostpath_images::errors_and_a_full_file_system_are_reported",
        async {
            let mut fixture = ProcessFixture::new(&[]);
            let mut client = fixture.start().await;
            let id = client.try_create(sized("a", 16 * MIB)).await.unwrap();
            let staging = fixture.create_dir("staging");
            client.stage(&id, &staging, writer()).await.unwrap();
            assert_eq!(client.node_health(&id).await.unwrap(), []);
            let mut file = std::fs::File::create(staging.join("large")).unwrap();
            let chunk = vec![1; 4096];
            // A sync gives back the space that ext4 reserves for what it has not written yet.
            while file.write_all(&chunk).is_ok() {
                while file.write_all(&chunk).is_ok() {}
                file.sync_all().unwrap();
            }
            drop(file);
            let reasons = async |client: &mut Client| -> Vec<String> {
                let health = client.node_health(&id).await.unwrap();
                assert!(health.iter().all(|(kind, _)| *kind == Degraded), "{health:?}");
                health.into_iter().map(|(_, reason)| reason).collect()
            };
            assert_eq!(reasons(&mut client).await, ["VolumeFull"]);
            std::fs::remove_file(staging.join("large")).unwrap();
            assert_eq!(client.node_health(&id).await.unwrap(), []);
            let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
            let mut lines = table.lines();
            let line = lines.find(|line| line.contains(staging.to_str().unwrap()));
            let mut words = line.unwrap().split(' ');
            let device = words.find_map(|word| word.strip_prefix("/dev/")).unwrap();
            let trigger = format!("/sys/fs/ext4/{device}/trigger_fs_error");
            if let Err(error) = std::fs::write(&trigger, "test of health") {
                eprintln!("SKIPPED errors of ext4: cannot write {trigger}: {error}");
            } else {
                // The kernel counts the error in the background.
                until_async("the error of the file system", async || {
                    let reasons = reasons(&mut client).await;
                    let is_reported = reasons.contains(&"FileSystemErrors".to_owned());
                    let message = || format!("{reasons:?}");
                    is_reported.then_some(()).ok_or_else(message)
                })
                .await;
            }
            client.unstage(&id, &staging).await.unwrap();
            // Nothing of this concerns the data, which the controller reports.
            assert_eq!(client.health(&id).await.unwrap(), []);
            client.delete(&id).await.unwrap();
        },
    );
}

/// For every file system on this machine: the size is enforced, mount options apply, and data
/// survives.
#[test]
fn a_volume_has_its_own_file_system() {
    run_in_namespace_with_devices("hostpath_images::a_volume_has_its_own_file_system", async {
        let mut fixture = ProcessFixture::new(&[]);
        let mut client = fixture.start().await;
        let offers = LinuxBlockStorage::default().features();
        for kind in FileSystem::ALL {
            if !offers.file_systems.contains(&kind) {
                eprintln!("SKIPPED {}: it cannot be created or mounted here", kind.name());
                continue;
            }
            let name = kind.name();
            let bytes = i64::try_from(kind.min_bytes()).unwrap().max(32 * MIB);
            let capability = formatted(name, &["noatime", "nodev", "sync"], "4242");
            let request = proto::CreateVolumeRequest {
                volume_capabilities: vec![capability.clone()],
                ..sized(name, bytes)
            };
            let id = client.try_create(request).await.unwrap();
            let (staging, target) =
                (fixture.create_dir(name), fixture.path(&format!("{name}-target")));
            stage_and_publish(&mut client, &id, &staging, &target, capability.clone(), false)
                .await
                .unwrap();
            let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
            let line = table.lines().find(|line| line.contains(target.to_str().unwrap()));
            let line = line.unwrap();
            for word in [name, "noatime", "nodev", "sync"] {
                assert!(line.contains(word), "{line}: {word}");
            }
            let size = total(&mut client, &id, &target).await;
            assert!(size <= bytes && size > bytes / 8, "{name}: {size} of {bytes}");
            let about = target.metadata().unwrap();
            assert_eq!(about.gid(), 4242);
            assert_eq!(about.permissions().mode() & 0o2777, 0o2777);
            std::fs::write(target.join("kept"), "data").unwrap();
            assert_eq!(target.join("kept").metadata().unwrap().gid(), 4242);
            // More data than the volume has space for.
            let mut file = std::fs::File::create(target.join("large")).unwrap();
            let chunk = vec![1; 1 << 20];
            let filled = (0..=bytes / MIB).try_for_each(|_| file.write_all(&chunk));
            assert_eq!(filled.unwrap_err().kind(), std::io::ErrorKind::StorageFull, "{name}");
            drop(file);
            std::fs::remove_file(target.join("large")).unwrap();
            unpublish_and_unstage(&mut client, &id, &staging, &target).await;
            assert!(!target.exists());
            fixture.wait_until_no_devices().await;
            stage_and_publish(&mut client, &id, &staging, &target, capability, true).await.unwrap();
            assert_eq!(std::fs::read(target.join("kept")).unwrap(), b"data");
            let refused = std::fs::write(target.join("other"), "");
            assert_eq!(refused.unwrap_err().kind(), std::io::ErrorKind::ReadOnlyFilesystem);
            let wrong = formatted(if name == "xfs" { "ext4" } else { "xfs" }, &[], "");
            let elsewhere = fixture.create_dir("elsewhere");
            let wrong = client.stage(&id, &elsewhere, wrong).await.unwrap_err();
            assert_eq!(wrong.code(), Code::FailedPrecondition, "{wrong}");
            assert_eq!(client.delete(&id).await.unwrap_err().code(), Code::FailedPrecondition);
            unpublish_and_unstage(&mut client, &id, &staging, &target).await;
            client.delete(&id).await.unwrap();
        }
        assert!(fixture.is_empty("state/images"));
    });
}

/// Snapshots and clones have the source's data, grow to the requested size, and leave the source
/// usable.
#[test]
fn a_copy_has_the_data_and_the_requested_size() {
    run_in_namespace_with_devices(
        "hostpath_images::a_copy_has_the_data_and_the_requested_size",
        async {
            let mut fixture = ProcessFixture::new(&[]);
            let mut client = fixture.start().await;
            let id = client.try_create(sized("a", 32 * MIB)).await.unwrap();
            let (staging, target) = (fixture.create_dir("staging"), fixture.path("target"));
            stage_and_publish(&mut client, &id, &staging, &target, writer(), false).await.unwrap();
            std::fs::write(target.join("file"), "before").unwrap();
            // The snapshot is created while the volume is in use.
            let snapshot = client.snapshot("s", &id).await.unwrap();
            std::fs::write(target.join("file"), "after").unwrap();
            for (name, source, expected) in [
                ("restored", restore_of(&snapshot.snapshot_id), "before"),
                ("cloned", clone_of(&id), "after"),
            ] {
                let request = proto::CreateVolumeRequest {
                    volume_content_source: source,
                    ..sized(name, 64 * MIB)
                };
                let copy = client.try_create(request).await.unwrap();
                let (copy_staging, copy_target) = (fixture.create_dir(name), fixture.path("copy"));
                stage_and_publish(&mut client, &copy, &copy_staging, &copy_target, writer(), false)
                    .await
                    .unwrap();
                assert_eq!(std::fs::read_to_string(copy_target.join("file")).unwrap(), expected);
                let size = total(&mut client, &copy, &copy_target).await;
                assert!(size > 40 * MIB, "the file system grew: {size}");
                unpublish_and_unstage(&mut client, &copy, &copy_staging, &copy_target).await;
                client.delete(&copy).await.unwrap();
            }
            // The volume grows while it is not in use, and the file system follows at the next
            // staging.
            unpublish_and_unstage(&mut client, &id, &staging, &target).await;
            fixture.wait_until_no_devices().await;
            assert_eq!(client.expand(&id, 96 * MIB).await.unwrap(), (96 * MIB, false));
            stage_and_publish(&mut client, &id, &staging, &target, writer(), false).await.unwrap();
            assert!(total(&mut client, &id, &target).await > 64 * MIB);
            assert_eq!(std::fs::read(target.join("file")).unwrap(), b"after");
            // The volume grows while it is in use, if the kernel allows it to this process;
            // otherwise the call fails.
            if LinuxBlockStorage::default().features().supports_online_expansion() {
                assert_eq!(client.expand(&id, 128 * MIB).await.unwrap(), (128 * MIB, true));
                let grown = client.node_expand(&id, &target).await;
                assert_eq!(grown.unwrap(), 128 * MIB);
                assert!(total(&mut client, &id, &target).await > 100 * MIB);
            } else {
                let refused = client.expand(&id, 128 * MIB).await.unwrap_err();
                assert_eq!(refused.code(), Code::FailedPrecondition);
                assert!(refused.message().contains("CAP_SYS_RESOURCE"), "{refused}");
                let kept = client.expand(&id, MIB).await.unwrap();
                assert_eq!(kept, (96 * MIB, true));
            }
            unpublish_and_unstage(&mut client, &id, &staging, &target).await;
            client.delete_snapshot(&snapshot.snapshot_id).await.unwrap();
            client.delete(&id).await.unwrap();
            fixture.wait_until_no_devices().await;
            assert!(fixture.is_empty("state/images") && fixture.is_empty("state/snapshots"));
        },
    );
}

#[test]
fn a_block_device_has_its_exact_size_and_can_be_read_only() {
    run_in_namespace_with_devices(
        "hostpath_images::a_block_device_has_its_exact_size_and_can_be_read_only",
        async {
            let mut fixture = ProcessFixture::new(&[]);
            let mut client = fixture.start().await;
            let capability = block(Mode::SingleNodeMultiWriter);
            let request = proto::CreateVolumeRequest {
                volume_capabilities: vec![capability.clone()],
                ..sized("a", MIB + 1)
            };
            let id = client.try_create(request).await.unwrap();
            let (staging, target, reading) =
                (fixture.create_dir("staging"), fixture.path("target"), fixture.path("reading"));
            stage_and_publish(&mut client, &id, &staging, &target, capability.clone(), false)
                .await
                .unwrap();
            stage_and_publish(&mut client, &id, &staging, &reading, capability.clone(), true)
                .await
                .unwrap();
            assert!(target.metadata().unwrap().file_type().is_block_device());
            let mut device = std::fs::File::options().read(true).write(true).open(&target).unwrap();
            assert_eq!(device.seek(SeekFrom::End(0)).unwrap(), (1 << 20) + 512);
            device.rewind().unwrap();
            device.write_all(b"data").unwrap();
            device.sync_all().unwrap();
            let refused = std::fs::File::options().write(true).open(&reading);
            assert!(refused.is_err() || refused.unwrap().write_all(b"x").is_err());
            let mut read = [0; 4];
            std::fs::File::open(&reading).unwrap().read_exact(&mut read).unwrap();
            assert_eq!(&read, b"data");
            assert_eq!(fixture.devices(), 2);
            // After a kill everything continues.
            client = fixture.restart().await;
            assert_eq!(client.expand(&id, 2 * MIB).await.unwrap(), (2 * MIB, true));
            client.node_expand(&id, &target).await.unwrap();
            assert_eq!(device.seek(SeekFrom::End(0)).unwrap(), 2 << 20);
            client.unpublish(&id, &reading).await.unwrap();
            assert_eq!(fixture.devices(), 1, "the unused read-only device is detached");
            // The device stays while a process has it open.
            let busy = client.unpublish(&id, &target).await.unwrap_err();
            assert_eq!(busy.code(), Code::FailedPrecondition, "{busy}");
            drop(device);
            client.unpublish(&id, &target).await.unwrap();
            client.unstage(&id, &staging).await.unwrap();
            assert_eq!(fixture.devices(), 0);
            assert!(!target.exists() && !reading.exists());
            let image = fixture.path("state/images").join(&id);
            assert_eq!(&std::fs::read(image).unwrap()[..4], b"data");
            client.delete(&id).await.unwrap();
        },
    );
}

/// A program that can open the node of a block volume can ask the kernel to detach its loop device. Nothing comes of it while the
/// plugin holds the device. When the plugin is killed then, the next file gets the number of the device. The node at the
/// target is still what the plugin bound there: it is replaced by the device of the volume, or given back, and the other
/// file keeps its device.
#[test]
fn a_target_whose_device_was_taken_away_is_published_again_and_given_back() {
    let test =
        "hostpath_images::a_target_whose_device_was_taken_away_is_published_again_and_given_back";
    run_in_namespace_with_devices(test, async {
        let mut fixture = ProcessFixture::new(&[]);
        let mut client = fixture.start().await;
        let capability = block(Mode::SingleNodeMultiWriter);
        let request = proto::CreateVolumeRequest {
            volume_capabilities: vec![capability.clone()],
            ..sized("a", MIB)
        };
        let id = client.try_create(request).await.unwrap();
        let (staging, target) = (fixture.create_dir("staging"), fixture.path("target"));
        let image = fixture.path("state/images").join(&id);
        let other = fixture.path("other");
        std::fs::File::create(&other).unwrap().set_len(512).unwrap();
        let backing = |device: &str| {
            run_command(&["losetup", "--noheadings", "--output", "BACK-FILE", device])
        };
        let take_away = || {
            let listed = run_command(&["losetup", "--associated", image.to_str().unwrap()]);
            let device = listed.split(':').next().unwrap().to_owned();
            run_command(&["losetup", "--detach", &device]);
            device
        };
        let (mut taken, mut devices) = (false, vec![]);
        for _ in 0..2 {
            let capability = capability.clone();
            stage_and_publish(&mut client, &id, &staging, &target, capability, false)
                .await
                .unwrap();
            let mut device = std::fs::File::options().read(true).write(true).open(&target).unwrap();
            assert_eq!(device.seek(SeekFrom::End(0)).unwrap(), 1 << 20);
            if taken {
                let mut read = [0; 4];
                device.rewind().unwrap();
                device.read_exact(&mut read).unwrap();
                assert_eq!(&read, b"data", "the volume again, and not what has its old number");
            }
            device.rewind().unwrap();
            device.write_all(b"data").unwrap();
            device.sync_all().unwrap();
            drop(device);
            let device = take_away();
            assert_eq!(Path::new(&backing(&device)), image, "the plugin holds it");
            let next = run_command(&["losetup", "--find", "--show", other.to_str().unwrap()]);
            assert_ne!(next, device, "its number is not free");
            run_command(&["losetup", "--detach", &next]);
            let mut read = [0; 4];
            let mut kept = std::fs::File::open(&target).unwrap();
            kept.read_exact(&mut read).unwrap();
            assert_eq!(&read, b"data");
            drop(kept);
            fixture.kill();
            run_command(&["losetup", &device, other.to_str().unwrap()]);
            devices.push(device);
            taken = true;
            client = fixture.start().await;
        }
        client.unpublish(&id, &target).await.unwrap();
        client.unstage(&id, &staging).await.unwrap();
        assert!(!target.exists());
        for device in &devices {
            assert_eq!(Path::new(&backing(device)), other, "{device}");
            run_command(&["losetup", "--detach", device]);
        }
        client.delete(&id).await.unwrap();
    });
}

/// `kill -9` before and after every call of the lifecycle of an image and of a block device. Then
/// the call is repeated. Nothing is lost, duplicated or left over.
#[test]
fn a_kill_between_any_two_calls_changes_nothing() {
    run_in_namespace_with_devices(
        "hostpath_images::a_kill_between_any_two_calls_changes_nothing",
        async {
            for capability in [writer(), block(Mode::SingleNodeMultiWriter)] {
                let mut fixture = ProcessFixture::new(&["--attach"]);
                let mut client = fixture.start().await;
                let (staging, target) = (fixture.create_dir("staging"), fixture.path("target"));
                let request = proto::CreateVolumeRequest {
                    volume_capabilities: vec![capability.clone()],
                    ..sized("a", 16 * MIB)
                };
                let id = client.try_create(request.clone()).await.unwrap();
                let attach = proto::ControllerPublishVolumeRequest {
                    volume_id: id.clone(),
                    node_id: "node-1".to_owned(),
                    volume_capability: Some(capability.clone()),
                    ..Default::default()
                };
                let publish = Publish {
                    id: &id,
                    staging: &staging,
                    target: &target,
                    capability: capability.clone(),
                    read_only: false,
                };
                let mut snapshot = String::new();
                for step in 0..2 * 5 {
                    client = fixture.restart().await;
                    match step / 2 {
                        0 => assert_eq!(client.try_create(request.clone()).await.unwrap(), id),
                        1 => drop(
                            client
                                .controller
                                .controller_publish_volume(attach.clone())
                                .await
                                .unwrap(),
                        ),
                        2 => snapshot = client.snapshot("s", &id).await.unwrap().snapshot_id,
                        3 => client.stage(&id, &staging, capability.clone()).await.unwrap(),
                        _ => client.publish(publish.clone()).await.unwrap(),
                    }
                }
                assert_eq!(fixture.devices(), 1);
                client = fixture.restart().await;
                assert_eq!(client.delete(&id).await.unwrap_err().code(), Code::FailedPrecondition);
                for step in 0..2 * 5 {
                    client = fixture.restart().await;
                    match step / 2 {
                        0 => client.unpublish(&id, &target).await.unwrap(),
                        1 => client.unstage(&id, &staging).await.unwrap(),
                        2 => {
                            let request = proto::ControllerUnpublishVolumeRequest {
                                volume_id: id.clone(),
                                ..Default::default()
                            };
                            client.controller.controller_unpublish_volume(request).await.unwrap();
                        }
                        3 => client.delete_snapshot(&snapshot).await.unwrap(),
                        _ => client.delete(&id).await.unwrap(),
                    }
                }
                fixture.wait_until_no_devices().await;
                assert!(fixture.is_empty("state/images") && fixture.is_empty("state/snapshots"));
            }
        },
    );
}

/// The lifecycle of a volume, with a snapshot while it is in use and a clone.
async fn run_lifecycle(
    client: &mut Client,
    name: &str,
    staging: &Path,
    target: &Path,
) -> Result<(), Status> {
    let id = client.try_create(sized(name, 8 * MIB)).await?;
    stage_and_publish(client, &id, staging, target, writer(), false).await?;
    std::fs::write(target.join("file"), "data")
        .map_err(|error| Status::unknown(error.to_string()))?;
    let snapshot = client.snapshot(name, &id).await?;
    let copy = proto::CreateVolumeRequest {
        volume_content_source: clone_of(&id),
        ..sized(&format!("{name}-copy"), 8 * MIB)
    };
    let copy = client.try_create(copy).await?;
    hostpath_fixture::unpublish_and_unstage(client, &id, staging, target).await?;
    client.delete_snapshot(&snapshot.snapshot_id).await?;
    client.delete(&copy).await?;
    client.delete(&id).await
}

/// `kill -9` during calls at many moments. Then the lifecycle is repeated.
#[test]
fn repeating_a_lifecycle_completes_it_after_a_kill_during_a_call() {
    run_in_namespace_with_devices(
        "hostpath_images::repeating_a_lifecycle_completes_it_after_a_kill_during_a_call",
        async {
            let mut fixture = ProcessFixture::new(&[]);
            for round in 0..30_u64 {
                let name = format!("volume-{round}");
                let (staging, target) =
                    (fixture.create_dir(&name), fixture.path(&format!("target-{round}")));
                let mut client = fixture.start().await;
                let task = {
                    let (name, staging, target) = (name.clone(), staging.clone(), target.clone());
                    tokio::spawn(async move {
                        run_lifecycle(&mut client, &name, &staging, &target).await
                    })
                };
                let after = Duration::from_millis(10 * round);
                let lived = tokio::time::timeout(after, task).await.is_ok();
                let mut client = fixture.restart().await;
                if !lived {
                    until_async("the end of the lifecycle", async || {
                        let lived =
                            run_lifecycle(&mut client.clone(), &name, &staging, &target).await;
                        lived.map_err(|status| format!("round {round}: {status}"))
                    })
                    .await;
                }
                client = fixture.restart().await;
                let (listed, _) = client.list(0, "").await.unwrap();
                assert_eq!(listed, Vec::<String>::new(), "round {round}");
                until_async("the end of the removals", async || {
                    let is_done =
                        fixture.is_empty("state/images") && fixture.is_empty("state/snapshots");
                    is_done
                        .then_some(())
                        .ok_or_else(|| "the state directory is not empty".to_owned())
                })
                .await;
                fixture.wait_until_no_devices().await;
                fixture.kill();
            }
        },
    );
}

/// Writes the same growing number to every target in turn until `stop` is set. Returns the last one.
fn write_numbers(
    stop: std::sync::Arc<std::sync::atomic::AtomicBool>,
    targets: Vec<(std::path::PathBuf, std::path::PathBuf)>,
) -> std::thread::JoinHandle<u64> {
    std::thread::spawn(move || {
        let mut number = 0_u64;
        while !stop.load(std::sync::atomic::Ordering::Relaxed) {
            number += 1;
            for (_, target) in &targets {
                std::fs::write(target.join("new"), number.to_string()).unwrap();
                std::fs::rename(target.join("new"), target.join("number")).unwrap();
            }
        }
        number
    })
}

/// Two volumes are written in turn, one number ahead of the other, while a group snapshot is
/// created. The copies are of the same moment: the first is as far as the second, or one number
/// ahead.
#[test]
fn the_snapshots_of_a_group_are_of_the_same_moment() {
    run_in_namespace_with_devices(
        "hostpath_images::the_snapshots_of_a_group_are_of_the_same_moment",
        async {
            let mut fixture = ProcessFixture::new(&[]);
            let mut client = fixture.start().await;
            let mut targets = vec![];
            let mut ids = vec![];
            for name in ["a", "b"] {
                let id = client.try_create(sized(name, 16 * MIB)).await.unwrap();
                let (staging, target) =
                    (fixture.create_dir(name), fixture.path(&format!("{name}-target")));
                stage_and_publish(&mut client, &id, &staging, &target, writer(), false)
                    .await
                    .unwrap();
                ids.push(id);
                targets.push((staging, target));
            }
            let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
            let writing = write_numbers(stop.clone(), targets.clone());
            until_async("the first numbers", async || {
                let is_there = targets.iter().all(|(_, target)| target.join("number").exists());
                is_there.then_some(()).ok_or_else(|| "none".to_owned())
            })
            .await;
            for round in 0..5 {
                let request = proto::CreateVolumeGroupSnapshotRequest {
                    name: format!("group {round}"),
                    source_volume_ids: ids.clone(),
                    ..Default::default()
                };
                let answer = client.group.create_volume_group_snapshot(request).await;
                let group = answer.unwrap().into_inner().group_snapshot.unwrap();
                let mut numbers = [0_u64; 2];
                for member in &group.snapshots {
                    let request = proto::CreateVolumeRequest {
                        volume_content_source: restore_of(&member.snapshot_id),
                        ..named(&format!("{round} of {}", member.source_volume_id))
                    };
                    let id = client.try_create(request).await.unwrap();
                    let (staging, target) =
                        (fixture.create_dir("restored"), fixture.path("restored-target"));
                    stage_and_publish(&mut client, &id, &staging, &target, writer(), false)
                        .await
                        .unwrap();
                    let at = usize::from(member.source_volume_id == ids[1]);
                    let text = std::fs::read_to_string(target.join("number")).unwrap();
                    numbers[at] = text.parse().unwrap();
                    unpublish_and_unstage(&mut client, &id, &staging, &target).await;
                    client.delete(&id).await.unwrap();
                }
                let ahead = numbers[0] - numbers[1];
                assert!(ahead <= 1, "round {round}: {numbers:?}");
                let request = proto::GetMetadataAllocatedRequest {
                    snapshot_id: group.snapshots[0].snapshot_id.clone(),
                    ..Default::default()
                };
                let stream = client.metadata.get_metadata_allocated(request).await;
                let first = stream.unwrap().into_inner().message().await.unwrap().unwrap();
                assert!(!first.block_metadata.is_empty());
                let request = proto::DeleteVolumeGroupSnapshotRequest {
                    group_snapshot_id: group.group_snapshot_id,
                    ..Default::default()
                };
                client.group.delete_volume_group_snapshot(request).await.unwrap();
            }
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
            assert!(writing.join().unwrap() > 1, "the writers continued");
            for (id, (staging, target)) in ids.iter().zip(&targets) {
                unpublish_and_unstage(&mut client, id, staging, target).await;
                client.delete(id).await.unwrap();
            }
            fixture.wait_until_no_devices().await;
        },
    );
}

/// Without STAGE_UNSTAGE_VOLUME a volume is mounted at its target.
#[test]
fn without_staging_a_volume_is_mounted_at_its_target() {
    run_in_namespace_with_devices(
        "hostpath_images::without_staging_a_volume_is_mounted_at_its_target",
        async {
            let mut fixture = ProcessFixture::new(&["--without", "STAGE_UNSTAGE_VOLUME"]);
            let mut client = fixture.start().await;
            let id = client.try_create(sized("a", 16 * MIB)).await.unwrap();
            let (one, other) = (fixture.path("one"), fixture.path("other"));
            for target in [&one, &other] {
                let publish = Publish {
                    id: &id,
                    staging: Path::new(""),
                    target,
                    capability: writer(),
                    read_only: target == &other,
                };
                client.publish(publish).await.unwrap();
            }
            std::fs::write(one.join("file"), "data").unwrap();
            assert_eq!(std::fs::read(other.join("file")).unwrap(), b"data");
            assert!(std::fs::write(other.join("x"), "").is_err());
            assert_eq!(fixture.devices(), 1, "one file system, one device");
            for target in [&one, &other] {
                client.unpublish(&id, target).await.unwrap();
            }
            fixture.wait_until_no_devices().await;
            client.delete(&id).await.unwrap();
        },
    );
}

/// A crash fault interrupts a call at a chosen moment.
#[test]
fn a_crash_fault_occurs_the_given_number_of_times() {
    run_in_namespace_with_devices(
        "hostpath_images::a_crash_fault_occurs_the_given_number_of_times",
        async {
            let mut fixture = ProcessFixture::new(&["--fault", "CreateVolume:crash-after:2"]);
            let mut client = fixture.start().await;
            for _ in 0..2 {
                assert!(client.try_create(named("a")).await.is_err());
                client = fixture.restart().await;
            }
            let id = client.try_create(named("a")).await.unwrap();
            let (listed, _) = client.list(0, "").await.unwrap();
            assert_eq!(listed, std::slice::from_ref(&id));
            client.delete(&id).await.unwrap();
        },
    );
}
