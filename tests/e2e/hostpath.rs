//! The embedded plugin as a separate process, with directories and real mounts, killed at every
//! point.

use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use nomad_csi_proto as proto;
use nomad_csi_proto::volume_capability::access_mode::Mode;
use rustix::mount::{MountFlags, UnmountFlags};
use tonic::Code;

use crate::hostpath_fixture::{
    ProcessFixture, run_in_namespace, stage_and_publish, unpublish_and_unstage,
};
use crate::plugin_client::{Client, Publish, mount, named};
use crate::wait::until_async;
use nomad_csi_testing::namespace::{has_all_users, mounts};

/// The options for volumes that are directories.
const DIRECTORIES: [&str; 2] = ["--backing", "directory"];

/// Checks that only volumes have directories. One that was never staged has none.
async fn check(fixture: &ProcessFixture, client: &mut Client) {
    let (listed, _) = client.list(0, "").await.unwrap();
    for entry in std::fs::read_dir(fixture.path("state/volumes")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(listed.contains(&name), "{name} belongs to no volume");
    }
}

fn writer() -> proto::VolumeCapability {
    mount(Mode::MultiNodeMultiWriter, &[])
}

fn kind<T: std::fmt::Debug>(result: std::io::Result<T>) -> std::io::ErrorKind {
    result.unwrap_err().kind()
}

#[test]
fn data_written_through_one_target_is_read_through_another() {
    run_in_namespace("hostpath::data_written_through_one_target_is_read_through_another", async {
        let mut fixture = ProcessFixture::new(&DIRECTORIES);
        let mut client = fixture.start().await;
        let id = client.create("a").await;
        let (staging, writing, reading) =
            (fixture.create_dir("staging"), fixture.path("writing"), fixture.path("reading"));
        client.stage(&id, &staging, writer()).await.unwrap();
        let publish = Publish {
            id: &id,
            staging: &staging,
            target: &writing,
            capability: writer(),
            read_only: false,
        };
        let read_only = Publish { target: &reading, read_only: true, ..publish.clone() };
        for _ in 0..2 {
            client.publish(publish.clone()).await.unwrap();
            client.publish(read_only.clone()).await.unwrap();
        }
        std::fs::write(writing.join("file"), "data").unwrap();
        assert_eq!(std::fs::read(reading.join("file")).unwrap(), b"data");
        assert_eq!(std::fs::read(fixture.data(&id).join("file")).unwrap(), b"data");
        let refused = std::fs::write(reading.join("other"), "data");
        assert_eq!(kind(refused), std::io::ErrorKind::ReadOnlyFilesystem);
        let stats = proto::NodeGetVolumeStatsRequest {
            volume_id: id.clone(),
            volume_path: writing.to_str().unwrap().to_owned(),
            staging_target_path: String::new(),
        };
        client.node.node_get_volume_stats(stats).await.unwrap();
        // The mount stays while a process has a file open in it.
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
        assert_eq!(std::fs::read(fixture.data(&id).join("file")).unwrap(), b"data");
        client.delete(&id).await.unwrap();
        assert!(!fixture.data(&id).exists());
    });
}

#[test]
fn mount_flags_hold_at_the_target() {
    run_in_namespace("hostpath::mount_flags_hold_at_the_target", async {
        let mut fixture = ProcessFixture::new(&DIRECTORIES);
        let mut client = fixture.start().await;
        let capability = mount(Mode::SingleNodeWriter, &["noexec", "nosuid,nodev"]);
        let id = client.create("a").await;
        let (staging, target) = (fixture.create_dir("staging"), fixture.path("target"));
        client.stage(&id, &staging, capability.clone()).await.unwrap();
        let publish =
            Publish { id: &id, staging: &staging, target: &target, capability, read_only: false };
        client.publish(publish).await.unwrap();
        std::fs::copy("/bin/true", target.join("program")).unwrap();
        let refused = Command::new(target.join("program")).status();
        assert_eq!(kind(refused), std::io::ErrorKind::PermissionDenied);
        let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        let line = table.lines().find(|line| line.contains(target.to_str().unwrap())).unwrap();
        for flag in ["noexec", "nosuid", "nodev"] {
            assert!(line.contains(flag), "{line}");
        }
        client.unpublish(&id, &target).await.unwrap();
        client.unstage(&id, &staging).await.unwrap();
        client.delete(&id).await.unwrap();
    });
}

/// `kill -9` before and after every call of a volume's lifecycle. Then the call is repeated, as by
/// an orchestrator that never got the answer.
#[test]
fn a_kill_between_any_two_calls_changes_nothing() {
    run_in_namespace("hostpath::a_kill_between_any_two_calls_changes_nothing", async {
        let mut fixture = ProcessFixture::new(&DIRECTORIES);
        let mut client = fixture.start().await;
        let (staging, target) = (fixture.create_dir("staging"), fixture.path("target"));
        let id = client.create("a").await;
        for _ in 0..2 {
            client = fixture.restart().await;
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
            client = fixture.restart().await;
            client.stage(&id, &staging, writer()).await.unwrap();
        }
        for _ in 0..2 {
            client = fixture.restart().await;
            client.publish(publish.clone()).await.unwrap();
        }
        std::fs::write(target.join("file"), "data").unwrap();
        let mounted = mounts();
        let here = |path: &PathBuf| mounted.iter().filter(|at| Path::new(at) == path).count();
        assert_eq!((here(&staging), here(&target)), (1, 1), "once each");
        client = fixture.restart().await;
        assert_eq!(client.delete(&id).await.unwrap_err().code(), Code::FailedPrecondition);
        assert_eq!(std::fs::read(target.join("file")).unwrap(), b"data");
        for _ in 0..2 {
            client = fixture.restart().await;
            client.unpublish(&id, &target).await.unwrap();
        }
        for _ in 0..2 {
            client = fixture.restart().await;
            client.unstage(&id, &staging).await.unwrap();
        }
        for _ in 0..2 {
            client = fixture.restart().await;
            client.delete(&id).await.unwrap();
        }
        check(&fixture, &mut client).await;
    });
}

/// `kill -9` during calls at 30 different moments. Repeating the lifecycle completes it and leaves
/// nothing.
#[test]
fn repeating_a_lifecycle_completes_it_after_a_kill_during_a_call() {
    let test = "hostpath::repeating_a_lifecycle_completes_it_after_a_kill_during_a_call";
    run_in_namespace(test, async {
        let mut fixture = ProcessFixture::new(&DIRECTORIES);
        for round in 0..30_u64 {
            let name = format!("volume-{round}");
            let (staging, target) =
                (fixture.create_dir(&name), fixture.path(&format!("target-{round}")));
            let mut client = fixture.start().await;
            let mut life = client.clone();
            let task = {
                let (name, staging, target) = (name.clone(), staging.clone(), target.clone());
                tokio::spawn(
                    async move { run_lifecycle(&mut life, &name, &staging, &target).await },
                )
            };
            let after = Duration::from_micros(200 * round * round);
            let lived = tokio::time::timeout(after, task).await.is_ok();
            client = fixture.restart().await;
            fixture.check_after_deletions(&mut client).await;
            if !lived {
                let lived = run_lifecycle(&mut client, &name, &staging, &target).await;
                lived.unwrap_or_else(|status| panic!("round {round}: {status}"));
            }
            check(&fixture, &mut client).await;
            fixture.kill();
        }
    });
}

impl ProcessFixture {
    /// Waits for an interrupted removal, which continues in the background.
    async fn check_after_deletions(&self, client: &mut Client) {
        until_async("the end of the removals", async || {
            let (listed, _) = client.list(0, "").await.map_err(|status| status.to_string())?;
            let found = std::fs::read_dir(self.path("state/volumes")).unwrap().count();
            if found <= listed.len() {
                return Ok(());
            }
            Err(format!("{found} directories, {} volumes", listed.len()))
        })
        .await;
    }
}

/// The lifecycle of a volume. On the way down, an unknown volume counts as done, as for an
/// orchestrator.
async fn run_lifecycle(
    client: &mut Client,
    name: &str,
    staging: &Path,
    target: &Path,
) -> Result<(), tonic::Status> {
    let id = client.try_create(named(name)).await?;
    let capability = mount(Mode::SingleNodeWriter, &["noexec"]);
    let publish = Publish { id: &id, staging, target, capability, read_only: true };
    stage_and_publish(client, publish).await?;
    unpublish_and_unstage(client, &id, staging, target).await?;
    client.delete(&id).await
}

/// A mounted volume is never deleted, even if another program mounted it.
#[test]
fn a_volume_that_another_program_mounted_is_not_deleted() {
    run_in_namespace("hostpath::a_volume_that_another_program_mounted_is_not_deleted", async {
        let mut fixture = ProcessFixture::new(&DIRECTORIES);
        let mut client = fixture.start().await;
        let id = client.create("a").await;
        let data = fixture.data(&id);
        std::fs::create_dir_all(data.join("sub")).unwrap();
        std::fs::write(data.join("sub/file"), "data").unwrap();
        let elsewhere = fixture.create_dir("elsewhere");
        rustix::mount::mount_bind(data.join("sub"), &elsewhere).unwrap();
        let refused = client.delete(&id).await.unwrap_err();
        assert_eq!(refused.code(), Code::FailedPrecondition);
        assert!(refused.message().contains(elsewhere.to_str().unwrap()), "{refused}");
        rustix::mount::unmount(&elsewhere, UnmountFlags::NOFOLLOW).unwrap();
        // A foreign file system inside the volume.
        std::fs::write(elsewhere.join("precious"), "data").unwrap();
        rustix::mount::mount_bind(&elsewhere, data.join("sub")).unwrap();
        let refused = client.delete(&id).await.unwrap_err();
        assert_eq!(refused.code(), Code::FailedPrecondition);
        rustix::mount::unmount(data.join("sub"), UnmountFlags::NOFOLLOW).unwrap();
        assert_eq!(std::fs::read(data.join("sub/file")).unwrap(), b"data");
        client.delete(&id).await.unwrap();
        assert_eq!(std::fs::read(elsewhere.join("precious")).unwrap(), b"data");
    });
}

/// A full disk has its own error, loses no data, and is usable again when space is freed.
#[test]
fn a_full_disk_is_reported_and_survived() {
    run_in_namespace("hostpath::a_full_disk_is_reported_and_survived", async {
        let mut fixture = ProcessFixture::new(&DIRECTORIES);
        let state = fixture.create_dir("state");
        rustix::mount::mount("none", &state, "tmpfs", MountFlags::empty(), c"size=8m,mode=0700")
            .unwrap();
        let mut client = fixture.start().await;
        let before = client.create("before").await;
        let filler = state.join("filler");
        let full =
            std::io::copy(&mut std::io::repeat(0), &mut std::fs::File::create(&filler).unwrap());
        assert_eq!(kind(full), std::io::ErrorKind::StorageFull);
        let mut refused = None;
        for number in 0..2000 {
            if let Err(status) = client.try_create(named(&format!("volume-{number}"))).await {
                refused = Some(status);
                break;
            }
        }
        let refused = refused.expect("the catalogue does not fit forever");
        assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
        std::fs::remove_file(&filler).unwrap();
        assert_eq!(client.create("before").await, before);
        client.create("after").await;
        client = fixture.restart().await;
        assert_eq!(client.create("before").await, before);
        check(&fixture, &mut client).await;
        fixture.kill();
        rustix::mount::unmount(&state, UnmountFlags::NOFOLLOW).unwrap();
    });
}

/// After SIGTERM, or the end of standard input with its option, the socket is removed and mounts
/// stay.
#[test]
fn a_stopped_plugin_leaves_its_mounts() {
    run_in_namespace("hostpath::a_stopped_plugin_leaves_its_mounts", async {
        let mut fixture = ProcessFixture::new(&DIRECTORIES);
        let mut client = fixture.start().await;
        let id = client.create("a").await;
        let staging = fixture.create_dir("staging");
        client.stage(&id, &staging, writer()).await.unwrap();
        let process = &fixture.process.as_ref().unwrap().process.0;
        let pid = rustix::process::Pid::from_child(process);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        assert!(fixture.wait_for_exit().await.success());
        assert!(!fixture.path("s/csi.sock").exists());
        assert!(mounts().iter().any(|at| Path::new(at) == staging));
        let mut command = fixture.command();
        command.arg("--exit-on-stdin-eof").stdin(Stdio::piped());
        client = fixture.start_with(command).await;
        client.unstage(&id, &staging).await.unwrap();
        client.delete(&id).await.unwrap();
        drop(fixture.process.as_mut().unwrap().process.0.stdin.take());
        assert!(fixture.wait_for_exit().await.success());
        assert!(!fixture.path("s/csi.sock").exists());
    });
}

#[test]
fn a_second_plugin_on_one_state_directory_reports_the_conflict_and_exits() {
    run_in_namespace(
        "hostpath::a_second_plugin_on_one_state_directory_reports_the_conflict_and_exits",
        async {
            let mut fixture = ProcessFixture::new(&DIRECTORIES);
            fixture.start().await;
            let second = fixture.command().stderr(Stdio::piped()).output().unwrap();
            let reason = String::from_utf8(second.stderr).unwrap();
            assert_eq!(second.status.code(), Some(1), "{reason}");
            assert!(reason.contains("another plugin uses the state directory"), "{reason}");
        },
    );
}

/// The plugin of an unprivileged user is healthy and creates volumes. Staging reports what it
/// needs. Files that users of a volume made inaccessible can still be removed.
#[test]
fn an_unprivileged_plugin_creates_volumes_and_reports_what_staging_needs() {
    run_in_namespace(
        "hostpath::an_unprivileged_plugin_creates_volumes_and_reports_what_staging_needs",
        async {
            if !has_all_users() {
                eprintln!("SKIPPED the unprivileged user: this namespace has none");
                return;
            }
            const NOBODY: u32 = 65534;
            let mut fixture = ProcessFixture::new(&DIRECTORIES);
            let own = fixture.path("");
            std::os::unix::fs::chown(own, Some(NOBODY), Some(NOBODY)).unwrap();
            let staging = fixture.create_dir("staging");
            let mut command = fixture.command();
            command.uid(NOBODY).gid(NOBODY);
            let mut client = fixture.start_with(command).await;
            let id = client.create("a").await;
            let refused = client.stage(&id, &staging, writer()).await.unwrap_err();
            assert_eq!(fixture.data(&id).metadata().unwrap().uid(), NOBODY);
            assert_eq!(refused.code(), Code::FailedPrecondition);
            assert!(refused.message().contains("CAP_SYS_ADMIN"), "{refused}");
            let closed = fixture.data(&id).join("closed/deeper");
            std::fs::create_dir_all(&closed).unwrap();
            std::fs::write(closed.join("file"), "").unwrap();
            for path in [&closed, closed.parent().unwrap()] {
                std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
                let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o000);
                std::fs::set_permissions(path, permissions).unwrap();
            }
            client.delete(&id).await.unwrap();
            assert!(!fixture.data(&id).exists());
        },
    );
}
