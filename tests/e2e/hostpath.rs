//! The embedded plugin as a process of its own, with directories and real mounts, killed at every
//! point.

use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use nomad_csi::csi::proto;
use nomad_csi::csi::proto::volume_capability::access_mode::Mode;
use rustix::mount::{MountFlags, UnmountFlags};
use tonic::Code;

use crate::hostpath_world::{World, down, run, up};
use crate::namespace::{has_all_users, mounts};
use crate::plugin_client::{Client, Publish, mount, named};
use crate::wait::until_async;

/// Volumes that are directories.
const DIRECTORIES: [&str; 2] = ["--backing", "directory"];

/// Every directory is a volume's, and every volume has one.
async fn check(world: &World, client: &mut Client) {
    let (listed, _) = client.list(0, "").await.unwrap();
    let found = std::fs::read_dir(world.path("state/volumes")).unwrap();
    let name = |entry: std::fs::DirEntry| entry.file_name().into_string().unwrap();
    let mut found: Vec<_> = found.map(|entry| name(entry.unwrap())).collect();
    found.sort();
    assert_eq!(found, listed);
}

fn writer() -> proto::VolumeCapability {
    mount(Mode::MultiNodeMultiWriter, &[])
}

fn kind<T: std::fmt::Debug>(result: std::io::Result<T>) -> std::io::ErrorKind {
    result.unwrap_err().kind()
}

#[test]
fn what_is_written_through_one_target_is_read_through_another() {
    run(
        "hostpath::what_is_written_through_one_target_is_read_through_another",
        async {
            let mut world = World::new(&DIRECTORIES);
            let mut client = world.start().await;
            let id = client.create("a").await;
            let (staging, writing, reading) = (
                world.made("staging"),
                world.path("writing"),
                world.path("reading"),
            );
            client.stage(&id, &staging, writer()).await.unwrap();
            let publish = Publish {
                id: &id,
                staging: &staging,
                target: &writing,
                capability: writer(),
                read_only: false,
            };
            let read_only = Publish {
                target: &reading,
                read_only: true,
                ..publish.clone()
            };
            for _ in 0..2 {
                client.publish(publish.clone()).await.unwrap();
                client.publish(read_only.clone()).await.unwrap();
            }
            std::fs::write(writing.join("file"), "data").unwrap();
            assert_eq!(std::fs::read(reading.join("file")).unwrap(), b"data");
            assert_eq!(
                std::fs::read(world.data(&id).join("file")).unwrap(),
                b"data"
            );
            let refused = std::fs::write(reading.join("other"), "data");
            assert_eq!(kind(refused), std::io::ErrorKind::ReadOnlyFilesystem);
            let stats = proto::NodeGetVolumeStatsRequest {
                volume_id: id.clone(),
                volume_path: writing.to_str().unwrap().to_owned(),
                staging_target_path: String::new(),
            };
            client.node.node_get_volume_stats(stats).await.unwrap();
            // A process works in it: the mount stays until it is gone.
            let open = std::fs::File::open(writing.join("file")).unwrap();
            let busy = client.unpublish(&id, &writing).await.unwrap_err();
            assert_eq!(busy.code(), Code::FailedPrecondition, "{busy}");
            drop(open);
            for target in [&writing, &reading] {
                client.unpublish(&id, target).await.unwrap();
                assert!(!target.exists());
            }
            client.unstage(&id, &staging).await.unwrap();
            assert_eq!(std::fs::read_dir(&staging).unwrap().count(), 0);
            assert_eq!(
                std::fs::read(world.data(&id).join("file")).unwrap(),
                b"data"
            );
            client.delete(&id).await.unwrap();
            assert!(!world.data(&id).exists());
        },
    );
}

#[test]
fn mount_flags_hold_at_the_target() {
    run("hostpath::mount_flags_hold_at_the_target", async {
        let mut world = World::new(&DIRECTORIES);
        let mut client = world.start().await;
        let capability = mount(Mode::SingleNodeWriter, &["noexec", "nosuid,nodev"]);
        let id = client.create("a").await;
        let (staging, target) = (world.made("staging"), world.path("target"));
        client
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
        client.publish(publish).await.unwrap();
        std::fs::copy("/bin/true", target.join("program")).unwrap();
        let refused = Command::new(target.join("program")).status();
        assert_eq!(kind(refused), std::io::ErrorKind::PermissionDenied);
        let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        let line = table
            .lines()
            .find(|line| line.contains(target.to_str().unwrap()))
            .unwrap();
        for flag in ["noexec", "nosuid", "nodev"] {
            assert!(line.contains(flag), "{line}");
        }
        client.unpublish(&id, &target).await.unwrap();
        client.unstage(&id, &staging).await.unwrap();
        client.delete(&id).await.unwrap();
    });
}

/// `kill -9` before and after every call of a volume's life; every call is then sent again, as an
/// orchestrator does that never got the answer.
#[test]
fn a_kill_between_any_two_calls_changes_nothing() {
    run(
        "hostpath::a_kill_between_any_two_calls_changes_nothing",
        async {
            let mut world = World::new(&DIRECTORIES);
            let mut client = world.start().await;
            let (staging, target) = (world.made("staging"), world.path("target"));
            let id = client.create("a").await;
            for _ in 0..2 {
                client = world.restart().await;
                assert_eq!(client.create("a").await, id);
            }
            let publish = Publish {
                id: &id,
                staging: &staging,
                target: &target,
                capability: writer(),
                read_only: false,
            };
            for _ in 0..2 {
                client = world.restart().await;
                client.stage(&id, &staging, writer()).await.unwrap();
            }
            for _ in 0..2 {
                client = world.restart().await;
                client.publish(publish.clone()).await.unwrap();
            }
            std::fs::write(target.join("file"), "data").unwrap();
            let mounted = mounts();
            let here = |path: &PathBuf| mounted.iter().filter(|at| Path::new(at) == path).count();
            assert_eq!((here(&staging), here(&target)), (1, 1), "once each");
            client = world.restart().await;
            assert_eq!(
                client.delete(&id).await.unwrap_err().code(),
                Code::FailedPrecondition
            );
            assert_eq!(std::fs::read(target.join("file")).unwrap(), b"data");
            for _ in 0..2 {
                client = world.restart().await;
                client.unpublish(&id, &target).await.unwrap();
            }
            for _ in 0..2 {
                client = world.restart().await;
                client.unstage(&id, &staging).await.unwrap();
            }
            for _ in 0..2 {
                client = world.restart().await;
                client.delete(&id).await.unwrap();
            }
            check(&world, &mut client).await;
        },
    );
}

/// `kill -9` in the middle of calls, at 30 different moments; the same volume's life is then lived
/// to its end by repeating, and nothing is left over.
#[test]
fn a_kill_in_the_middle_of_a_call_leaves_nothing_that_repeating_does_not_finish() {
    let test =
        "hostpath::a_kill_in_the_middle_of_a_call_leaves_nothing_that_repeating_does_not_finish";
    run(test, async {
        let mut world = World::new(&DIRECTORIES);
        for round in 0..30_u64 {
            let name = format!("volume-{round}");
            let (staging, target) = (world.made(&name), world.path(&format!("target-{round}")));
            let mut client = world.start().await;
            let mut life = client.clone();
            let task = {
                let (name, staging, target) = (name.clone(), staging.clone(), target.clone());
                tokio::spawn(async move { live(&mut life, &name, &staging, &target).await })
            };
            let after = Duration::from_micros(200 * round * round);
            let lived = tokio::time::timeout(after, task).await.is_ok();
            client = world.restart().await;
            world.check_after_removals(&mut client).await;
            if !lived {
                let lived = live(&mut client, &name, &staging, &target).await;
                lived.unwrap_or_else(|status| panic!("round {round}: {status}"));
            }
            check(&world, &mut client).await;
            world.kill();
        }
    });
}

impl World {
    /// A removal that was cut off goes on in the background.
    async fn check_after_removals(&self, client: &mut Client) {
        until_async("removals to end", async || {
            let (listed, _) = client
                .list(0, "")
                .await
                .map_err(|status| status.to_string())?;
            let found = std::fs::read_dir(self.path("state/volumes"))
                .unwrap()
                .count();
            if found == listed.len() {
                return Ok(());
            }
            Err(format!("{found} directories, {} volumes", listed.len()))
        })
        .await;
    }
}

/// A volume's whole life. What is gone already counts as done on the way down, as it does for an
/// orchestrator.
async fn live(
    client: &mut Client,
    name: &str,
    staging: &Path,
    target: &Path,
) -> Result<(), tonic::Status> {
    let id = client.try_create(named(name)).await?;
    let capability = mount(Mode::SingleNodeWriter, &["noexec"]);
    let publish = Publish {
        id: &id,
        staging,
        target,
        capability,
        read_only: true,
    };
    up(client, publish).await?;
    down(client, &id, staging, target).await?;
    client.delete(&id).await
}

/// Nothing that is mounted is deleted, whoever mounted it.
#[test]
fn a_volume_that_somebody_mounted_is_not_deleted() {
    run(
        "hostpath::a_volume_that_somebody_mounted_is_not_deleted",
        async {
            let mut world = World::new(&DIRECTORIES);
            let mut client = world.start().await;
            let id = client.create("a").await;
            let data = world.data(&id);
            std::fs::create_dir(data.join("sub")).unwrap();
            std::fs::write(data.join("sub/file"), "data").unwrap();
            let elsewhere = world.made("elsewhere");
            rustix::mount::mount_bind(data.join("sub"), &elsewhere).unwrap();
            let refused = client.delete(&id).await.unwrap_err();
            assert_eq!(refused.code(), Code::FailedPrecondition);
            assert!(
                refused.message().contains(elsewhere.to_str().unwrap()),
                "{refused}"
            );
            rustix::mount::unmount(&elsewhere, UnmountFlags::NOFOLLOW).unwrap();
            // Something foreign inside the volume.
            std::fs::write(elsewhere.join("precious"), "data").unwrap();
            rustix::mount::mount_bind(&elsewhere, data.join("sub")).unwrap();
            let refused = client.delete(&id).await.unwrap_err();
            assert_eq!(refused.code(), Code::FailedPrecondition);
            rustix::mount::unmount(data.join("sub"), UnmountFlags::NOFOLLOW).unwrap();
            assert_eq!(std::fs::read(data.join("sub/file")).unwrap(), b"data");
            client.delete(&id).await.unwrap();
            assert_eq!(std::fs::read(elsewhere.join("precious")).unwrap(), b"data");
        },
    );
}

/// A full disk is an error of its own, loses nothing, and is over when there is room again.
#[test]
fn a_full_disk_is_said_and_survived() {
    run("hostpath::a_full_disk_is_said_and_survived", async {
        let mut world = World::new(&DIRECTORIES);
        let state = world.made("state");
        rustix::mount::mount("none", &state, "tmpfs", MountFlags::empty(), c"size=8m").unwrap();
        let mut client = world.start().await;
        let before = client.create("before").await;
        let filler = state.join("filler");
        let full = std::io::copy(
            &mut std::io::repeat(0),
            &mut std::fs::File::create(&filler).unwrap(),
        );
        assert_eq!(kind(full), std::io::ErrorKind::StorageFull);
        let mut refused = None;
        for number in 0..2000 {
            if let Err(status) = client.try_create(named(&format!("volume-{number}"))).await {
                refused = Some(status);
                break;
            }
        }
        let refused = refused.expect("the catalogue does not fit for ever");
        assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
        std::fs::remove_file(&filler).unwrap();
        assert_eq!(client.create("before").await, before);
        client.create("after").await;
        client = world.restart().await;
        assert_eq!(client.create("before").await, before);
        check(&world, &mut client).await;
        world.kill();
        rustix::mount::unmount(&state, UnmountFlags::NOFOLLOW).unwrap();
    });
}

/// SIGTERM, and the end of standard input if it was told so: the socket is gone, mounts stay.
#[test]
fn it_stops_when_told_and_leaves_mounts_alone() {
    run(
        "hostpath::it_stops_when_told_and_leaves_mounts_alone",
        async {
            let mut world = World::new(&DIRECTORIES);
            let mut client = world.start().await;
            let id = client.create("a").await;
            let staging = world.made("staging");
            client.stage(&id, &staging, writer()).await.unwrap();
            let process = world.process.as_ref().unwrap();
            let pid = rustix::process::Pid::from_child(process);
            rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
            assert!(world.ended().await.success());
            assert!(!world.path("s/csi.sock").exists());
            assert!(mounts().iter().any(|at| Path::new(at) == staging));
            let mut command = world.command();
            command.arg("--exit-on-stdin-eof").stdin(Stdio::piped());
            client = world.start_with(command).await;
            client.unstage(&id, &staging).await.unwrap();
            client.delete(&id).await.unwrap();
            drop(world.process.as_mut().unwrap().stdin.take());
            assert!(world.ended().await.success());
            assert!(!world.path("s/csi.sock").exists());
        },
    );
}

#[test]
fn a_second_plugin_on_one_state_directory_says_so_and_ends() {
    run(
        "hostpath::a_second_plugin_on_one_state_directory_says_so_and_ends",
        async {
            let mut world = World::new(&DIRECTORIES);
            world.start().await;
            let second = world.command().output().unwrap();
            let said = String::from_utf8(second.stderr).unwrap();
            assert_eq!(second.status.code(), Some(1), "{said}");
            assert!(
                said.contains("another plugin uses the state directory"),
                "{said}"
            );
        },
    );
}

/// An ordinary user's plugin is healthy and creates; staging says what it needs; what that user's
/// volumes' users closed can be removed all the same.
#[test]
fn an_ordinary_users_plugin_creates_and_says_what_staging_needs() {
    run(
        "hostpath::an_ordinary_users_plugin_creates_and_says_what_staging_needs",
        async {
            if !has_all_users() {
                eprintln!("SKIPPED the ordinary user: there is none in this namespace");
                return;
            }
            const NOBODY: u32 = 65534;
            let mut world = World::new(&DIRECTORIES);
            let own = world.path("");
            std::os::unix::fs::chown(own, Some(NOBODY), Some(NOBODY)).unwrap();
            let staging = world.made("staging");
            let mut command = world.command();
            command.uid(NOBODY).gid(NOBODY);
            let mut client = world.start_with(command).await;
            let id = client.create("a").await;
            assert_eq!(world.data(&id).metadata().unwrap().uid(), NOBODY);
            let refused = client.stage(&id, &staging, writer()).await.unwrap_err();
            assert_eq!(refused.code(), Code::FailedPrecondition);
            assert!(refused.message().contains("CAP_SYS_ADMIN"), "{refused}");
            let closed = world.data(&id).join("closed/deeper");
            std::fs::create_dir_all(&closed).unwrap();
            std::fs::write(closed.join("file"), "").unwrap();
            for path in [&closed, closed.parent().unwrap()] {
                std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
                let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o000);
                std::fs::set_permissions(path, permissions).unwrap();
            }
            client.delete(&id).await.unwrap();
            assert!(!world.data(&id).exists());
        },
    );
}
