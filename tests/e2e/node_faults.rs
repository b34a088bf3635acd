//! What can happen to the node under a job: a reboot, a full disk while staging, a busy target, another user.
//!
//! At the end of each test nothing is left: no mount, no device, no process and no claim; the data is there.

use std::fs::File;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use nomad_csi_node::mounts::LinuxBlockStorage;
use nomad_csi_ports::BlockStorage as _;
use serde_json::{Value, json};

use crate::agent_process::{processes_with, program};
use crate::hostpath_fixture::{run_in_namespace, run_in_namespace_with_devices};
use crate::job_machine::{Machine, WRITER, volume};
use crate::wait::{until, until_true};
use nomad_csi_testing::namespace::{has_all_users, mounts};

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

fn run(arguments: &[&str]) {
    let status = Command::new(arguments[0]).args(&arguments[1..]).status();
    assert!(status.unwrap().success(), "{arguments:?}");
}

/// The mounts below the agent's directory, newest first.
fn mounts_of(machine: &Machine) -> Vec<String> {
    let data = machine.data();
    let all = mounts().into_iter().rev();
    all.filter(|mounted| Path::new(mounted).starts_with(&data)).collect()
}

fn sorted(mut mounts: Vec<String>) -> Vec<String> {
    mounts.sort();
    mounts
}

fn loop_devices(machine: &Machine) -> usize {
    let storage = LinuxBlockStorage::default();
    storage.attached(machine.directory.path()).unwrap().len()
}

/// Ends every process of the machine, its mounts, its devices and its sockets, and changes the boot ID.
fn reboot(machine: &mut Machine) {
    machine.kill();
    machine.kill_processes();
    let directory = machine.directory.path().to_str().unwrap().to_owned();
    until_true("every process to be gone", || {
        processes_with(&[&directory]).is_empty() && machine.tasks().is_empty()
    });
    for mounted in mounts_of(machine) {
        run(&["umount", &mounted]);
    }
    let storage = LinuxBlockStorage::default();
    for device in storage.attached(machine.directory.path()).unwrap() {
        storage.detach(&device).ok();
    }
    until_true("every device to be detached", || loop_devices(machine) == 0);
    std::fs::remove_dir_all(machine.data().join("run")).unwrap();
    let boot_id = machine.directory.path().join("boot_id");
    std::fs::write(&boot_id, "8b0d9d2c-0000-4000-8000-000000000002\n").unwrap();
    run(&["mount", "--bind", boot_id.to_str().unwrap(), BOOT_ID]);
}

/// Gives the kernel's boot ID back.
struct BootId;

impl Drop for BootId {
    fn drop(&mut self) {
        Command::new("umount").arg(BOOT_ID).status().ok();
    }
}

/// The volume is staged again with what its attachment recorded (W60), and the task runs again.
#[test]
fn a_job_goes_on_after_a_reboot() {
    let test = "node_faults::a_job_goes_on_after_a_reboot";
    run_in_namespace_with_devices(test, async {
        let mut machine = Machine::new();
        let document = json!({
            "ID": "data", "Name": "data", "PluginID": "hostpath", "RequestedCapacityMin": 16 << 20,
            "RequestedCapabilities": [{"AccessMode": WRITER, "AttachmentMode": "file-system"}],
        });
        let body = json!({ "Volumes": [document] });
        machine.put("/v1/volume/csi/data/create", &body);
        let script = "echo line >> /data/lines; echo ready; sleep 600";
        let mut job = machine.job("writer", "service", &volume("data", WRITER), script);
        job["TaskGroups"][0]["RestartPolicy"] = json!({
            "Attempts": 3, "Mode": "fail", "Delay": 1_000_000, "Interval": 3_600_000_000_000_i64,
        });
        machine.run(&job);
        let alloc = machine.wait_for("writer", "running", 1).remove(0);
        until_true("the task to write", || machine.output(&alloc) == "ready\n");
        let mounted = sorted(mounts_of(&machine));
        assert!(!mounted.is_empty() && loop_devices(&machine) == 1);

        let boot_id = BootId;
        reboot(&mut machine);
        machine.start();
        until_true("the task to run again", || machine.output(&alloc) == "ready\nready\n");
        let again = machine.wait_for("writer", "running", 1).remove(0);
        assert_eq!(again["ID"], alloc["ID"]);
        assert_eq!(again["TaskStates"]["t"]["Restarts"], 1);
        assert_eq!(sorted(mounts_of(&machine)), mounted);
        assert_eq!(loop_devices(&machine), 1);
        machine.stop("writer");
        machine.wait_for("writer", "complete", 1);
        machine.assert_clean();
        let reader = machine.job("reader", "batch", &volume("data", WRITER), "wc -l < /data/lines");
        machine.run(&reader);
        let reader = machine.wait_for("reader", "complete", 1).remove(0);
        assert_eq!(machine.output(&reader), "2\n");
        machine.assert_clean();
        assert_eq!(loop_devices(&machine), 0);
        machine.end();
        drop(boot_id);
    });
}

/// The claim with its error, once the step has failed.
fn wait_for_failure(machine: &Machine, rpc: &str, reason: &str) {
    until(&format!("{rpc} to fail"), || {
        let log = machine.agent().log();
        let sign = "a step of a claim failed and is repeated";
        let is_meant =
            |line: &&String| line.contains(sign) && line.contains(rpc) && line.contains(reason);
        match log.iter().any(|line| is_meant(&line)) {
            true => Ok(()),
            false => Err(format!("{log:#?}")),
        }
    });
}

#[test]
fn a_job_starts_when_a_full_disk_has_room_for_its_staging() {
    let test = "node_faults::a_job_starts_when_a_full_disk_has_room_for_its_staging";
    run_in_namespace(test, async {
        let machine = Machine::new();
        machine.create_volume("data", WRITER, "file-system");
        let directory = machine.data().join("mounts");
        std::fs::create_dir_all(&directory).unwrap();
        let directory = directory.to_str().unwrap();
        // One inode for the directory itself, and none for a mount point.
        let full = "mode=0700,nr_inodes=1";
        run(&["mount", "-t", "tmpfs", "-o", full, "full", directory]);
        let script = "echo written > /data/file; echo ready; sleep 600";
        machine.run(&machine.job("writer", "service", &volume("data", WRITER), script));
        wait_for_failure(&machine, "NodeStageVolume", "No space left on device");
        let alloc = machine.allocs("writer").remove(0);
        assert_eq!(alloc["ClientStatus"], "pending", "{alloc:#}");
        run(&["mount", "-o", "remount,nr_inodes=1000", directory]);
        let alloc = machine.wait_for("writer", "running", 1).remove(0);
        until_true("the task to write", || machine.output(&alloc) == "ready\n");
        machine.stop("writer");
        machine.wait_for("writer", "complete", 1);
        until_true("all claims to be gone", || machine.claims().is_empty());
        assert_eq!(mounts_of(&machine), [directory]);
        run(&["umount", directory]);
        machine.run(&machine.job("reader", "batch", &volume("data", WRITER), "cat /data/file"));
        let reader = machine.wait_for("reader", "complete", 1).remove(0);
        assert_eq!(machine.output(&reader), "written\n");
        machine.end();
    });
}

/// The job ends at once, and its volume is free when nothing on the host uses the target any more.
#[test]
fn a_busy_target_is_unmounted_when_it_is_free() {
    let test = "node_faults::a_busy_target_is_unmounted_when_it_is_free";
    run_in_namespace(test, async {
        let machine = Machine::new();
        machine.create_volume("data", WRITER, "file-system");
        let script = "echo written > /data/file; echo ready; sleep 600";
        machine.run(&machine.job("writer", "service", &volume("data", WRITER), script));
        let alloc = machine.wait_for("writer", "running", 1).remove(0);
        until_true("the task to write", || machine.output(&alloc) == "ready\n");
        let targets = mounts_of(&machine).into_iter();
        let mut targets = targets.filter(|mounted| mounted.contains("/targets/"));
        let user = File::open(targets.next().unwrap()).unwrap();
        machine.stop("writer");
        machine.wait_for("writer", "complete", 1);
        wait_for_failure(&machine, "NodeUnpublishVolume", "a process uses it");
        let claims = machine.claims();
        assert_eq!(claims.len(), 1, "{claims:#?}");
        let waiting = machine.job("reader", "batch", &volume("data", WRITER), "cat /data/file");
        machine.run(&waiting);
        let queued = |value: &Value| value["Status"] == "blocked";
        until_true("the next job to wait", || {
            let all = machine.get("/v1/job/reader/evaluations");
            all.as_array().unwrap().iter().any(queued)
        });
        drop(user);
        let reader = machine.wait_for("reader", "complete", 1).remove(0);
        assert_eq!(machine.output(&reader), "written\n");
        machine.end();
    });
}

/// A task of `raw_exec` as another user writes to its own directories, and other users reach none of them.
#[test]
fn another_user_reaches_the_directories_of_its_task() {
    let test = "node_faults::another_user_reaches_the_directories_of_its_task";
    if !has_all_users() {
        eprintln!("SKIPPED {test}: it needs another user, so root");
        return;
    }
    run_in_namespace(test, async {
        let machine = Machine::new();
        let open = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(machine.directory.path(), open).unwrap();
        machine.create_volume("data", WRITER, "file-system");
        let script = "cd $NOMAD_TASK_DIR && echo local > file && echo secret > $NOMAD_SECRETS_DIR/file && \
                      echo shared > $NOMAD_ALLOC_DIR/data/file && id -u && cat file; ls $NOMAD_ALLOC_DIR/../.. \
                      2>/dev/null || echo hidden";
        let mut job = machine.job("other", "batch", &volume("data", WRITER), script);
        let group = &mut job["TaskGroups"][0];
        group.as_object_mut().unwrap().remove("Volumes");
        let task = &mut group["Tasks"][0];
        task.as_object_mut().unwrap().remove("VolumeMounts");
        task["Driver"] = json!("raw_exec");
        task["User"] = json!("65534");
        machine.run(&job);
        let done = machine.wait_for("other", "complete", 1).remove(0);
        assert_eq!(machine.output(&done), "65534\nlocal\nhidden\n");
        let alloc = machine.data().join("allocs").join(done["ID"].as_str().unwrap());
        let shared = alloc.join("alloc/data/file");
        assert_eq!(std::fs::read_to_string(&shared).unwrap(), "shared\n");
        let stranger = Command::new("cat").arg(&shared).uid(65_533).output().unwrap();
        assert!(!stranger.status.success(), "{stranger:?}");
        machine.end();
    });
}

/// The agent of one command has no drivers: it neither stops nor reports what it cannot run, and unmounts nothing.
#[test]
fn an_embedded_command_leaves_the_tasks_of_an_agent_as_they_are() {
    let test = "node_faults::an_embedded_command_leaves_the_tasks_of_an_agent_as_they_are";
    run_in_namespace(test, async {
        let mut machine = Machine::new();
        machine.create_volume("data", WRITER, "file-system");
        let script = "echo ready; sleep 600";
        machine.run(&machine.job("user", "service", &volume("data", WRITER), script));
        let alloc = machine.wait_for("user", "running", 1).remove(0);
        until_true("the task to write", || machine.output(&alloc) == "ready\n");
        // A child of the shell shows its command line for an instant.
        let task = |machine: &Machine| {
            until("one process", || match machine.tasks().as_slice() {
                [one] => Ok(*one),
                several => Err(format!("{several:?}")),
            })
        };
        let before = task(&machine);
        let mounted = mounts();
        assert!(machine.agent.take().unwrap().stop().success());
        for _ in 0..2 {
            let mut command = program(["volume", "status"]);
            command.arg(format!("--embedded={}", machine.data().display()));
            let ended = command.output().unwrap();
            assert!(ended.status.success(), "{ended:?}");
        }
        assert_eq!(task(&machine), before);
        assert_eq!(mounts(), mounted);
        machine.start();
        let again = machine.wait_for("user", "running", 1).remove(0);
        assert_eq!(again["ID"], alloc["ID"]);
        assert_eq!(task(&machine), before);
        machine.stop("user");
        machine.wait_for("user", "complete", 1);
        machine.end();
    });
}

/// Returns whether a directory has an access control list.
fn has_access_list(directory: &Path) -> bool {
    let mut list = [0; 1024];
    rustix::fs::getxattr(directory, "system.posix_acl_access", &mut list[..]).is_ok()
}

/// Another allocation of the same user keeps the right, and the agent is killed between the end and the removal.
#[test]
fn the_user_of_a_removed_allocation_passes_through_no_directory() {
    let test = "node_faults::the_user_of_a_removed_allocation_passes_through_no_directory";
    if !has_all_users() {
        eprintln!("SKIPPED {test}: it needs another user, so root");
        return;
    }
    run_in_namespace(test, async {
        let mut machine = Machine::new();
        let job = |id: &str| {
            let mut job = machine.job(id, "batch", &Value::Null, "id -u");
            let group = &mut job["TaskGroups"][0];
            group.as_object_mut().unwrap().remove("Volumes");
            let task = &mut group["Tasks"][0];
            task.as_object_mut().unwrap().remove("VolumeMounts");
            task["Driver"] = json!("raw_exec");
            task["User"] = json!("65534");
            job
        };
        let jobs = ["first", "second"].map(|id| (id, job(id)));
        let shared = [machine.data(), machine.data().join("allocs")];
        let are_open = || shared.each_ref().map(|path| has_access_list(path));
        let mut directories = vec![];
        for (id, job) in jobs {
            machine.run(&job);
            let done = machine.wait_for(id, "complete", 1).remove(0);
            directories.push(shared[1].join(done["ID"].as_str().unwrap()));
        }
        assert_eq!(are_open(), [true; 2]);
        let purge = |machine: &Machine, id: &str| {
            let path = format!("/v1/job/{id}?purge=true");
            machine.address().ask("DELETE", &path, None).unwrap().json();
        };
        purge(&machine, "first");
        until_true("the first to be gone", || !directories[0].exists());
        assert_eq!(are_open(), [true; 2], "the second still needs it");
        purge(&machine, "second");
        machine.kill();
        machine.start();
        until_true("the second to be gone", || !directories[1].exists());
        assert_eq!(are_open(), [false; 2]);
        let mode = |path: &PathBuf| std::fs::metadata(path).unwrap().permissions().mode();
        assert!(shared.iter().all(|path| mode(path) & 0o077 == 0));
        machine.end();
    });
}

/// The output of an allocation that has ended can be read until its job is purged; then nothing of it is left.
#[test]
fn a_purged_job_leaves_no_files() {
    let test = "node_faults::a_purged_job_leaves_no_files";
    run_in_namespace(test, async {
        let mut machine = Machine::new();
        machine.create_volume("data", WRITER, "file-system");
        let script = "echo out; ln -s / $NOMAD_TASK_DIR/root; echo kept > /data/file";
        machine.run(&machine.job("short", "batch", &volume("data", WRITER), script));
        let done = machine.wait_for("short", "complete", 1).remove(0);
        machine.assert_clean();
        machine.kill();
        machine.start();
        assert_eq!(machine.output(&done), "out\n");
        let allocs = machine.data().join("allocs");
        let directory = allocs.join(done["ID"].as_str().unwrap());
        assert!(directory.is_dir());
        let purge = "/v1/job/short?purge=true";
        machine.address().ask("DELETE", purge, None).unwrap().json();
        until_true("the files to be gone", || !directory.exists());
        let left = std::fs::read_dir(allocs).unwrap().count();
        assert_eq!(left, 1, "only that of the plugin");
        machine.end();
    });
}
