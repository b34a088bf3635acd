//! The root of `exec` tasks: what they see, what they may write, and that nothing of it stays.

use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use nomad_csi_node::mounts::open_source;
use nomad_csi_node::{DriverConfig, RunEnd, RunRequest, TaskMount, TaskUser};
use nomad_csi_ports::LogStream;

use crate::task_fixture::{TestRun, exec, exited, is_root, mount, raw_exec, request, shell};
use crate::wait::until;
use nomad_csi_testing::namespace::run_in_mount_namespace;

/// Runs a test that awaits, in a mount namespace that loses all its mounts.
pub(crate) fn run_isolated<T: Future>(test: &str, body: impl FnOnce() -> T) {
    if is_root() {
        run_in_mount_namespace(test, || {
            let runtime = tokio::runtime::Runtime::new().unwrap();
            runtime.block_on(body());
        });
    }
}

pub(crate) fn run_command(words: &[&str]) -> String {
    let output = Command::new(words[0]).args(&words[1..]).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {errors}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// An ext4 file system on a loop device, mounted.
pub(crate) struct DeviceVolume {
    pub(crate) device: String,
    pub(crate) target: PathBuf,
}

impl DeviceVolume {
    pub(crate) fn create(base: &Path) -> Self {
        let (image, target) = (base.join("image"), base.join("published"));
        let file = std::fs::File::create(&image).unwrap();
        file.set_len(16 << 20).unwrap();
        std::fs::create_dir(&target).unwrap();
        run_command(&["mkfs.ext4", "-q", image.to_str().unwrap()]);
        let device = run_command(&["losetup", "--find", "--show", image.to_str().unwrap()]);
        run_command(&["mount", &device, target.to_str().unwrap()]);
        Self { device, target }
    }

    pub(crate) fn path(&self) -> &str {
        self.target.to_str().unwrap()
    }

    /// Unmounts the volume and waits until no namespace holds the device. The kernel may take an instant.
    pub(crate) fn release(self) {
        run_command(&["umount", self.path()]);
        let exclusive = (rustix::fs::OFlags::EXCL | rustix::fs::OFlags::CLOEXEC).bits();
        until("the device to be free", || {
            let mut options = std::fs::File::options();
            let opened =
                options.read(true).custom_flags(exclusive.cast_signed()).open(&self.device);
            opened.map(drop).map_err(|error| error.to_string())
        });
        run_command(&["losetup", "--detach", &self.device]);
    }
}

pub(crate) fn exec_request(script: &str, mounts: Vec<TaskMount>) -> RunRequest {
    RunRequest { mounts, ..request(DriverConfig::Exec(shell(script))) }
}

fn read_only(mount: TaskMount) -> TaskMount {
    TaskMount { read_only: true, ..mount }
}

/// Runs a script and returns what it wrote.
async fn output_of(run: &TestRun, request: RunRequest) -> Vec<String> {
    let end = run.end_of(request).await;
    let errors = run.lines(LogStream::Stderr).await;
    assert_eq!(end, exited(0), "{errors:?}");
    run.lines(LogStream::Stdout).await
}

#[test]
fn a_volume_is_written_where_it_may_be_and_is_free_after_the_end() {
    run_isolated(
        "task_root::a_volume_is_written_where_it_may_be_and_is_free_after_the_end",
        || async {
            let base = tempfile::tempdir().unwrap();
            let volume = DeviceVolume::create(base.path());
            let mounts = vec![
                mount(&volume.target, "/data/rw"),
                read_only(mount(&volume.target, "/data/ro")),
            ];
            let run = TestRun::new(exec(), base.path());
            let script = "echo written > /data/rw/file; cat /data/ro/file; \
                          (echo x > /data/ro/file) 2>&1 | sed 's/.*: //'";
            let lines = output_of(&run, exec_request(script, mounts)).await;
            assert_eq!(lines, ["written", "Read-only file system"]);
            let file = volume.target.join("file");
            assert_eq!(std::fs::read_to_string(file).unwrap(), "written\n");
            volume.release();
        },
    );
}

#[test]
fn a_task_sees_programs_of_the_host_and_nothing_else() {
    run_isolated("task_root::a_task_sees_programs_of_the_host_and_nothing_else", || async {
        let base = tempfile::tempdir().unwrap();
        // The agent's data lies below a directory that tasks see.
        run_command(&["mount", "-t", "tmpfs", "tmpfs", "/usr/local"]);
        // Another task's mount, which the supervisor sees.
        let other = base.path().join("other");
        std::fs::create_dir(&other).unwrap();
        run_command(&["mount", "-t", "tmpfs", "tmpfs", other.to_str().unwrap()]);
        let data = Path::new("/usr/local/agent");
        std::fs::create_dir(data).unwrap();
        std::fs::write(data.join("secrets.key"), "secret").unwrap();
        let script = format!(
            "ls / | tr '\\n' ' '; echo; ls /usr/local/agent | wc -l; ls -d {} 2>&1 | grep -c 'No such file'; \
                 ls /proc/1/root/ 2>&1 | sed 's/.*: //'; (echo x > /etc/new) 2>&1 | sed 's/.*: //'; \
                 (echo x > /new) 2>&1 | sed 's/.*: //'; mount -o remount,rw /usr 2>&1 | grep -c -i denied; \
                 cat /proc/[0-9]*/mountinfo | grep -c {}; echo temporary > /tmp/x && cat /tmp/x; tty < /dev/null; \
                 mknod /tmp/disk b 7 0 2>&1 | sed 's/.*: //'",
            base.path().display(),
            base.path().display(),
        );
        let mut request = exec_request(&format!("{{ {script}; }} 2>&1; true"), vec![]);
        request.hidden.push(data.to_owned());
        let run = TestRun::new(exec(), base.path());
        let lines = output_of(&run, request).await;
        let first: Vec<_> = lines[0].split(' ').filter(|name| !name.is_empty()).collect();
        for name in &first {
            let is_expected = [
                "bin", "dev", "etc", "lib", "lib32", "lib64", "proc", "root", "run", "sbin", "sys",
                "tmp", "usr", "var",
            ]
            .contains(name);
            assert!(is_expected, "{name}");
        }
        let expected = [
            "0",
            "1",
            "Operation not permitted",
            "Read-only file system",
            "Read-only file system",
            "1",
            "0",
            "temporary",
            "not a tty",
            "Operation not permitted",
        ];
        assert_eq!(lines[1..], expected);
        run_command(&["umount", "/usr/local"]);
        run_command(&["umount", other.to_str().unwrap()]);
    });
}

#[test]
fn a_file_and_a_block_device_are_mounted_at_a_path() {
    run_isolated("task_root::a_file_and_a_block_device_are_mounted_at_a_path", || async {
        let base = tempfile::tempdir().unwrap();
        let volume = DeviceVolume::create(base.path());
        run_command(&["umount", volume.path()]);
        let file = base.path().join("file");
        std::fs::write(&file, "content\n").unwrap();
        let device = Path::new(&volume.device);
        let mounts = vec![read_only(mount(&file, "/secrets/file")), mount(device, "/dev/volume")];
        let script = "cat /secrets/file; echo to the device | dd of=/dev/volume conv=notrunc,fsync status=none; \
                          head -c 13 /dev/volume";
        let run = TestRun::new(exec(), base.path());
        let lines = output_of(&run, exec_request(script, mounts)).await;
        assert_eq!(lines, ["content", "to the device"]);

        let run = TestRun::new(exec(), base.path());
        let mounts = vec![read_only(mount(device, "/dev/volume"))];
        let end = run.end_of(exec_request("true", mounts)).await;
        let reason = format!(
            "cannot mount `{}` at `/dev/volume`: a block device stays writable on a read-only mount; remove \
                 `read_only`",
            device.display()
        );
        assert_eq!(end, RunEnd::Failed { reason });
        run_command(&["losetup", "--detach", &volume.device]);
    });
}

#[test]
fn a_destination_that_cannot_be_made_is_refused_in_words() {
    run_isolated("task_root::a_destination_that_cannot_be_made_is_refused_in_words", || async {
        let base = tempfile::tempdir().unwrap();
        let source = base.path().join("volume");
        std::fs::create_dir(&source).unwrap();
        for destination in ["/etc/nowhere/data", "/bin/data"] {
            let run = TestRun::new(exec(), base.path());
            let mounts = vec![mount(&source, destination)];
            let end = run.end_of(exec_request("true", mounts)).await;
            let reason = format!(
                "cannot mount `{}` at `{destination}`: the host's directory there is read-only for tasks; \
                     choose a destination outside of it, or create `{destination}` on the host",
                source.display()
            );
            assert_eq!(end, RunEnd::Failed { reason });
        }
        let run = TestRun::new(exec(), base.path());
        let missing = base.path().join("missing");
        let end = run.end_of(exec_request("true", vec![mount(&missing, "/data")])).await;
        let reason =
            format!("cannot mount `{}`: No such file or directory (os error 2)", missing.display());
        assert_eq!(end, RunEnd::Failed { reason });
    });
}

/// An earlier run of the task may have put a link there, to have the volume mounted over something else.
#[test]
fn a_link_in_a_destination_is_refused_and_nothing_is_made_behind_it() {
    run_isolated(
        "task_root::a_link_in_a_destination_is_refused_and_nothing_is_made_behind_it",
        || async {
            let base = tempfile::tempdir().unwrap();
            let [local, volume, other] = ["local", "volume", "other"].map(|name| {
                let path = base.path().join(name);
                std::fs::create_dir(&path).unwrap();
                path
            });
            std::os::unix::fs::symlink("/aaa", local.join("data")).unwrap();
            std::os::unix::fs::symlink("/usr", local.join("last")).unwrap();
            std::os::unix::fs::symlink("../aaa", local.join("relative")).unwrap();
            std::fs::write(local.join("file"), "").unwrap();
            let file = base.path().join("file");
            std::fs::write(&file, "").unwrap();
            for (source, destination, place) in [
                (&volume, "/local/data/inner", "/local/data"),
                (&volume, "/local/last", "/local/last"),
                (&volume, "/local/relative/x/y", "/local/relative"),
                (&volume, "/local/file/inner", "/local/file"),
                (&file, "/local/last", "/local/last"),
                (&file, "/local/data/inner", "/local/data"),
            ] {
                let mounts = vec![
                    mount(&local, "/local"),
                    mount(&other, "/aaa"),
                    mount(source, destination),
                ];
                let run = TestRun::new(exec(), base.path());
                let end = run.end_of(exec_request("true", mounts)).await;
                let reason = format!(
                    "cannot mount `{}` at `{destination}`: `{place}` is a link or no directory, and a mount follows no \
                     link; remove it, or choose another destination",
                    source.display()
                );
                assert_eq!(end, RunEnd::Failed { reason });
            }
            assert_eq!(std::fs::read_dir(&other).unwrap().count(), 0);
            assert_eq!(std::fs::read_dir(&volume).unwrap().count(), 0);
            assert!(!Path::new("/aaa").exists(), "nothing on the host");
            // A destination below another mount, and one that has to be made, are no links.
            let mounts = vec![mount(&local, "/local"), mount(&volume, "/local/new/inner")];
            let run = TestRun::new(exec(), base.path());
            let lines =
                output_of(&run, exec_request("touch /local/new/inner/x; ls /local/new", mounts));
            assert_eq!(lines.await, ["inner"]);
            assert!(volume.join("x").exists());
        },
    );
}

#[test]
fn raw_exec_and_foreign_drivers_are_refused_before_anything_starts() {
    let base = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let run = TestRun::new(raw_exec(), base.path());
        assert_eq!(
            run.refusal(exec_request("true", vec![])).await,
            "cannot start task `test` with driver `exec`: this is driver `raw_exec`"
        );
        let mut with_mount = request(DriverConfig::RawExec(shell("true")));
        with_mount.mounts.push(mount(base.path(), "/data"));
        assert_eq!(
            run.refusal(with_mount).await,
            "cannot start task `test` with driver `raw_exec`: `raw_exec` cannot mount a volume at `/data`, because \
             its tasks see the file system of the host; use driver `exec`"
        );
        assert!(!run.directory.exists());
    });
}

const USER: u32 = 61_235;
const UNPRIVILEGED: &str = "NOMAD_CSI_TEST_UNPRIVILEGED";

/// Runs in a process of another user, started by the test below.
#[test]
#[ignore = "the next test starts it as another user"]
fn tasks_of_an_agent_without_root() {
    let Some(base) = std::env::var_os(UNPRIVILEGED).map(PathBuf::from) else {
        return;
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let volume = base.join("volume");
        std::fs::create_dir(&volume).unwrap();
        let run = TestRun::new(exec(), &base);
        let script = "id -u; echo written > /data/file; (echo x > /etc/new) 2>&1 | sed 's/.*: //'; \
                      ls /proc/1/root/ 2>&1 | sed 's/.*: //'";
        let lines = output_of(&run, exec_request(script, vec![mount(&volume, "/data")])).await;
        assert_eq!(lines, ["0", "Read-only file system", "Operation not permitted"]);
        let written = volume.join("file");
        assert_eq!(std::fs::read_to_string(&written).unwrap(), "written\n");

        let run = TestRun::new(raw_exec(), &base);
        let script = format!("cat {}", written.display());
        let lines = output_of(&run, request(DriverConfig::RawExec(shell(&script)))).await;
        assert_eq!(lines, ["written"]);

        let mut other_user = exec_request("true", vec![]);
        other_user.user = Some(TaskUser { uid: 33, gid: 33 });
        let run = TestRun::new(exec(), &base);
        assert_eq!(
            run.refusal(other_user).await,
            format!(
                "cannot start task `test` with driver `exec`: the agent runs as user {USER} and cannot run a task as \
                 user 33; run the agent as root, or remove the task's `user`"
            )
        );
    });
}

#[test]
fn an_agent_without_root_runs_tasks_in_a_user_namespace() {
    if !is_root() {
        return;
    }
    let base = tempfile::tempdir().unwrap();
    chown(base.path(), Some(USER), Some(USER)).unwrap();
    std::fs::set_permissions(base.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "task_root::tasks_of_an_agent_without_root"])
        .args(["--include-ignored", "--nocapture"])
        .env(UNPRIVILEGED, base.path())
        .uid(USER)
        .gid(USER)
        .current_dir("/")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{errors}");
    assert!(text.contains("1 passed"), "{text}{errors}");
}

/// The agent says what must be at a source. The stage looks at the moment of the mount, so nothing comes between.
#[test]
fn a_task_does_not_start_on_another_source_than_the_recorded_one() {
    run_isolated(
        "task_root::a_task_does_not_start_on_another_source_than_the_recorded_one",
        || async {
            let base = tempfile::tempdir().unwrap();
            let volume = DeviceVolume::create(base.path());
            let expected = open_source(&volume.target).unwrap().identity;
            let script = "echo written > /data/file";
            let request = || {
                let mount = TaskMount {
                    identity: Some(expected.clone()),
                    ..mount(&volume.target, "/data")
                };
                exec_request(script, vec![mount])
            };
            let run = TestRun::new(exec(), base.path());
            assert_eq!(run.end_of(request()).await, exited(0));
            run_command(&["mount", "-t", "tmpfs", "foreign", volume.path()]);
            let covered = TestRun::new(exec(), base.path());
            let lost = |end: RunEnd| match end {
                RunEnd::SourceLost { source, reason } => {
                    assert_eq!(source, volume.target);
                    reason
                }
                other => panic!("{other:?}"),
            };
            let reason = lost(covered.end_of(request()).await);
            assert!(reason.contains("another mount is there"), "{reason}");
            assert!(!volume.target.join("file").exists());
            run_command(&["umount", volume.path()]);
            let again = TestRun::new(exec(), base.path());
            assert_eq!(again.end_of(request()).await, exited(0));
            run_command(&["umount", volume.path()]);
            let bare = TestRun::new(exec(), base.path());
            let reason = lost(bare.end_of(request()).await);
            assert!(reason.contains("nothing is mounted there"), "{reason}");
            assert!(!volume.target.join("file").exists(), "the host has nothing");
            // Another mount of the same file system is another one for the stage; the agent decides what it is.
            run_command(&["mount", &volume.device, volume.path()]);
            let other = TestRun::new(exec(), base.path());
            let reason = lost(other.end_of(request()).await);
            assert!(reason.contains("another mount is there"), "{reason}");
            volume.release();
        },
    );
}
