//! Mounts that vanish under the agent: no task writes beside its volume, and the release goes on.
//!
//! The agent is away, runs, or starts a task while the mount of a target, of a staging, or of both is gone, or while
//! another file system covers it.

use std::os::fd::AsRawFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{Mode, OFlags};
use serde_json::{Value, json};

use crate::hostpath_fixture::{run_in_namespace, run_in_namespace_with_devices};
use crate::job_machine::{Machine, WRITER, volume};
use crate::wait::{until, until_true};
use nomad_csi_testing::namespace::mounts;

fn run(arguments: &[&str]) {
    let status = Command::new(arguments[0]).args(&arguments[1..]).status();
    assert!(status.unwrap().success(), "{arguments:?}");
}

/// A mount of the volumes of a machine, by a part of its path.
fn mounted(machine: &Machine, part: &str) -> Vec<String> {
    let data = machine.data();
    let all = mounts().into_iter();
    all.filter(|mounted| Path::new(mounted).starts_with(&data) && mounted.contains(part)).collect()
}

fn unmount(machine: &Machine, part: &str) -> PathBuf {
    let found = mounted(machine, part);
    assert_eq!(found.len(), 1, "{part}: {found:?}");
    run(&["umount", &found[0]]);
    PathBuf::from(&found[0])
}

/// Kills the shims of the tasks, and the tasks with them.
fn kill_tasks(machine: &Machine) {
    for pid in machine.tasks() {
        let pid = rustix::process::Pid::from_raw(pid.try_into().unwrap());
        rustix::process::kill_process(pid.unwrap(), rustix::process::Signal::KILL).ok();
    }
    until_true("the tasks to end", || machine.tasks().is_empty());
}

/// A service that appends a line to its volume at each start, and may be restarted.
fn appending(machine: &Machine, id: &str, source: &str) -> Value {
    let script = "echo line >> /data/lines; echo ready; sleep 600";
    let mut job = machine.job(id, "service", &volume(source, WRITER), script);
    job["TaskGroups"][0]["RestartPolicy"] = json!({
        "Attempts": 5, "Mode": "fail", "Delay": 1_000_000, "Interval": 3_600_000_000_000_i64,
    });
    job
}

/// Creates volume `data`, and returns the allocation of job `writer`, whose task has written to it.
fn start_writer(machine: &Machine) -> Value {
    machine.create_volume("data", WRITER, "file-system");
    machine.run(&appending(machine, "writer", "data"));
    let alloc = machine.wait_for("writer", "running", 1).remove(0);
    until_true("the task to write", || machine.output(&alloc) == "ready\n");
    alloc
}

/// Reads what a volume has, with a job of its own.
fn lines_in(machine: &Machine, source: &str) -> String {
    let script = "wc -l < /data/lines";
    machine.run(&machine.job("reader", "batch", &volume(source, WRITER), script));
    let reader = machine.wait_for("reader", "complete", 1).remove(0);
    machine.output(&reader)
}

/// The agent is away, and so is the task. The mounts vanish. The next agent publishes the volume again before the task
/// runs: nothing is written into the bare directory, and the release succeeds.
#[test]
fn a_restarted_task_does_not_write_beside_a_volume_that_was_unmounted() {
    let test = "lost_mounts::a_restarted_task_does_not_write_beside_a_volume_that_was_unmounted";
    run_in_namespace(test, async {
        for lost in [&["/targets/"][..], &["/targets/", "/staging/"]] {
            let mut machine = Machine::new();
            let alloc = start_writer(&machine);
            machine.kill();
            kill_tasks(&machine);
            let paths: Vec<_> = lost.iter().map(|part| unmount(&machine, part)).collect();
            machine.start();
            until_true("the task to run again", || machine.output(&alloc) == "ready\nready\n");
            for part in lost {
                assert_eq!(mounted(&machine, part).len(), 1, "{part}");
            }
            machine.stop("writer");
            machine.wait_for("writer", "complete", 1);
            until("all claims to be gone", || match machine.claims() {
                left if left.is_empty() => Ok(()),
                left => Err(format!("{left:#?}")),
            });
            for path in paths {
                assert!(!path.exists(), "{}", path.display());
            }
            assert_eq!(lines_in(&machine, "data"), "2\n", "{lost:?}");
            machine.end();
        }
    });
}

/// The target of the volume that the task writes to.
fn target_of(machine: &Machine) -> PathBuf {
    let found = mounted(machine, "/targets/");
    assert_eq!(found.len(), 1, "{found:?}");
    PathBuf::from(&found[0])
}

fn events(alloc: &Value) -> Vec<String> {
    let events = alloc["TaskStates"]["t"]["Events"].as_array().unwrap();
    let text = |event: &Value| format!("{}: {}", event["Type"], event["DisplayMessage"]);
    events.iter().map(text).collect()
}

/// The task runs, and its mounts vanish: it is stopped, and runs again on the volume. The other allocation of the volume
/// goes on.
#[test]
fn a_task_that_runs_on_a_lost_mount_is_restarted_on_its_volume() {
    let test = "lost_mounts::a_task_that_runs_on_a_lost_mount_is_restarted_on_its_volume";
    run_in_namespace(test, async {
        for lost in [&["/targets/"][..], &["/targets/", "/staging/"]] {
            let machine = Machine::new();
            let alloc = start_writer(&machine);
            for part in lost {
                unmount(&machine, part);
            }
            until_true("the task to run again", || machine.output(&alloc) == "ready\nready\n");
            let again = machine.wait_for("writer", "running", 1).remove(0);
            assert_eq!(again["ID"], alloc["ID"]);
            assert_eq!(again["TaskStates"]["t"]["Restarts"], 1);
            let events = events(&again);
            let is_meant = |event: &String| {
                event.contains("Volume Lost") && event.contains("nothing is mounted")
            };
            assert!(events.iter().any(is_meant), "{events:#?}");
            machine.stop("writer");
            machine.wait_for("writer", "complete", 1);
            machine.assert_clean();
            assert_eq!(lines_in(&machine, "data"), "2\n", "{lost:?}");
            machine.end();
        }
    });
}

/// Another file system over the target is neither used nor unmounted. The claim says what to do, and then the task runs.
#[test]
fn a_file_system_over_a_target_is_not_taken_for_the_volume() {
    let test = "lost_mounts::a_file_system_over_a_target_is_not_taken_for_the_volume";
    run_in_namespace(test, async {
        for cover in [mount_memory, mount_dead_fuse] {
            cover_target(cover);
        }
    });
}

fn cover_target(cover: impl Fn(&Path)) {
    let mut machine = Machine::new();
    let alloc = start_writer(&machine);
    let target = target_of(&machine);
    machine.kill();
    kill_tasks(&machine);
    let path = target.to_str().unwrap();
    cover(&target);
    machine.start();
    let claim = until("the claim to name what is there", || {
        let claim = machine.claims().remove(0);
        let error = claim["Problem"]["Error"].to_string();
        match error.contains("is already mounted for something else (`foreign`)") {
            true => Ok(claim),
            false => Err(format!("{claim:#}")),
        }
    });
    assert_eq!(claim["Problem"]["Help"], format!("unmount `{path}`"));
    assert_eq!(machine.output(&alloc), "ready\n");
    assert!(!target.join("lines").exists(), "nothing was written there");
    run(&["umount", path]);
    until_true("the task to run again", || machine.output(&alloc) == "ready\nready\n");
    machine.stop("writer");
    machine.wait_for("writer", "complete", 1);
    machine.assert_clean();
    assert_eq!(lines_in(&machine, "data"), "2\n");
    machine.end();
}

fn mount_memory(at: &Path) {
    let options = ["-t", "tmpfs", "-o", "mode=1777", "foreign"];
    run(&[&["mount"], &options[..], &[at.to_str().unwrap()]].concat());
}

/// Mounts a FUSE file system whose process has ended: every look into it fails with ENOTCONN.
fn mount_dead_fuse(at: &Path) {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let device = match rustix::fs::open("/dev/fuse", flags, Mode::empty()) {
        Ok(device) => device,
        Err(error) => {
            eprintln!("SKIPPED a dead FUSE mount, tmpfs is used: /dev/fuse: {error}");
            return mount_memory(at);
        }
    };
    let process = device.as_raw_fd();
    let options = format!("fd={process},rootmode=40000,user_id=0,group_id=0");
    let options = std::ffi::CString::new(options).unwrap();
    let flags = rustix::mount::MountFlags::empty();
    rustix::mount::mount("foreign", at, "fuse", flags, options.as_c_str()).unwrap();
    drop(device);
    let answer = std::fs::read_dir(at).unwrap_err();
    assert_eq!(answer.kind(), std::io::ErrorKind::NotConnected);
}

/// Only the allocation whose target vanished is restarted.
#[test]
fn another_allocation_of_the_volume_goes_on() {
    let test = "lost_mounts::another_allocation_of_the_volume_goes_on";
    run_in_namespace(test, async {
        const SHARED: &str = "multi-node-multi-writer";
        let machine = Machine::new();
        machine.create_volume("data", SHARED, "file-system");
        let mut allocs = vec![];
        for id in ["one", "two"] {
            let mut job = appending(&machine, id, "data");
            job["TaskGroups"][0]["Volumes"]["v"] = volume("data", SHARED);
            machine.run(&job);
            let alloc = machine.wait_for(id, "running", 1).remove(0);
            until_true("the task to write", || machine.output(&alloc) == "ready\n");
            allocs.push(alloc);
        }
        unmount(&machine, allocs[0]["ID"].as_str().unwrap());
        until_true("the task to run again", || machine.output(&allocs[0]) == "ready\nready\n");
        let other = machine.wait_for("two", "running", 1).remove(0);
        assert_eq!(other["TaskStates"]["t"]["Restarts"], 0, "{other:#}");
        for id in ["one", "two"] {
            machine.stop(id);
            machine.wait_for(id, "complete", 1);
        }
        machine.end();
    });
}

/// A block volume whose bind mount of the device node is gone leaves an empty file on the host.
#[test]
fn a_task_does_not_write_to_the_file_below_a_block_volume() {
    let test = "lost_mounts::a_task_does_not_write_to_the_file_below_a_block_volume";
    run_in_namespace_with_devices(test, async {
        let mut machine = Machine::new();
        machine.create_volume("disk", WRITER, "block-device");
        let script = "[ -b /data ] && dd if=/dev/urandom of=/data bs=512 count=1 2>/dev/null; echo ready; sleep 600";
        let mut job = appending(&machine, "writer", "disk");
        job["TaskGroups"][0]["Volumes"]["v"]["AttachmentMode"] = json!("block-device");
        job["TaskGroups"][0]["Tasks"][0]["Config"]["args"][1] = json!(script);
        machine.run(&job);
        let alloc = machine.wait_for("writer", "running", 1).remove(0);
        until_true("the task to write", || machine.output(&alloc) == "ready\n");
        machine.kill();
        kill_tasks(&machine);
        let target = unmount(&machine, "/targets/");
        let refused = std::fs::write(&target, "x").unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::PermissionDenied);
        machine.start();
        until_true("the task to run again", || machine.output(&alloc) == "ready\nready\n");
        assert_eq!(target_of(&machine), target);
        machine.stop("writer");
        machine.wait_for("writer", "complete", 1);
        machine.end();
    });
}

/// What an earlier agent let a task write beside its volume is kept, and the release goes on.
#[test]
fn files_beside_a_volume_are_kept_and_the_release_goes_on() {
    let test = "lost_mounts::files_beside_a_volume_are_kept_and_the_release_goes_on";
    run_in_namespace(test, async {
        let mut machine = Machine::new();
        start_writer(&machine);
        machine.kill();
        kill_tasks(&machine);
        for part in ["/targets/", "/staging/"] {
            let bare = unmount(&machine, part);
            // An earlier agent did not seal it.
            run(&["chattr", "-i", bare.to_str().unwrap()]);
            std::fs::create_dir(bare.join("below")).unwrap();
            std::fs::write(bare.join("below/file"), part).unwrap();
        }
        machine.start();
        machine.stop("writer");
        machine.wait_for("writer", "complete", 1);
        machine.assert_clean();
        let found = files_below(&machine.data().join("mounts"), "file");
        assert_eq!(found.len(), 2, "{found:#?}");
        let mut kept = vec![];
        for file in &found {
            kept.push(std::fs::read_to_string(file).unwrap());
            let directory = file.ancestors().nth(2).unwrap().display().to_string();
            let log = machine.agent().log();
            assert!(log.iter().any(|line| line.contains(&directory)), "{directory}: {log:#?}");
        }
        kept.sort();
        assert_eq!(kept, ["/staging/", "/targets/"]);
        assert_eq!(lines_in(&machine, "data"), "1\n");
        machine.end();
    });
}

fn files_below(directory: &Path, name: &str) -> Vec<PathBuf> {
    let mut found = vec![];
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_below(&path, name));
        } else if path.file_name() == Some(name.as_ref()) {
            found.push(path);
        }
    }
    found
}

/// A task without a root of its own, which appends to a file of the host until it cannot.
fn appending_to_host(machine: &Machine, id: &str, file: &Path) -> Value {
    let script =
        format!("while echo line >> {}; do sleep 0.02; done 2>&1; sleep 600", file.display());
    let mut job = machine.job(id, "service", &json!({}), &script);
    let task = &mut job["TaskGroups"][0]["Tasks"][0];
    task["Driver"] = json!("raw_exec");
    task["VolumeMounts"] = json!([]);
    job["TaskGroups"][0]["Volumes"] = json!({});
    job
}

/// Mounts a file system on the directory in which the agent will keep its data.
fn mount_for_data(machine: &Machine, file_system: &str) {
    let data = machine.data();
    std::fs::create_dir(&data).unwrap();
    let at = data.to_str().unwrap();
    if file_system != "ext4" {
        run(&["mount", "-t", file_system, "-o", "mode=0700", "data", at]);
        return;
    }
    let image = machine.directory.path().join("image");
    let file = std::fs::File::create(&image).unwrap();
    file.set_len(128 << 20).unwrap();
    let image = image.to_str().unwrap();
    run(&["mkfs.ext4", "-q", image]);
    run(&["mount", "-o", "loop", image, at]);
    std::fs::remove_dir(data.join("lost+found")).unwrap();
}

/// A task writes, and the mount below it vanishes while the agent is away: the write fails, and nothing lands beside the
/// volume. The seal outlives the agent, and the next one removes it before the release. On a file system without seals the
/// file lands there, and is kept.
#[test]
fn no_process_writes_beside_a_volume_whose_mount_vanishes() {
    let test = "lost_mounts::no_process_writes_beside_a_volume_whose_mount_vanishes";
    run_in_namespace_with_devices(test, async {
        for (file_system, is_sealed) in [("ext4", true), ("tmpfs", true), ("ramfs", false)] {
            let mut machine = Machine::without_agent();
            mount_for_data(&machine, file_system);
            machine.start();
            start_writer(&machine);
            let target = target_of(&machine);
            let file = target.join("beside");
            machine.run(&appending_to_host(&machine, "host", &file));
            let host = machine.wait_for("host", "running", 1).remove(0);
            until_true("the task of the host to write", || file.exists());
            machine.kill();
            run(&["umount", "--lazy", target.to_str().unwrap()]);
            if !is_sealed {
                until_true("the file to land beside the volume", || file.exists());
            }
            let refused = std::fs::write(target.join("other"), "x");
            assert_eq!(refused.is_err(), is_sealed, "{file_system}: {refused:?}");
            assert_eq!(file.exists(), !is_sealed, "{file_system}");
            machine.start();
            if is_sealed {
                until_true("the write to fail", || {
                    machine.output(&host).contains("Operation not permitted")
                });
            }
            for job in ["host", "writer"] {
                machine.stop(job);
                machine.wait_for(job, "complete", 1);
            }
            machine.assert_no_claims();
            machine.assert_nothing_mounted_below(&machine.data().join("mounts"));
            assert!(!target.exists(), "{}", target.display());
            let kept = files_below(&machine.data().join("mounts"), "other");
            assert_eq!(kept.len(), usize::from(!is_sealed), "{file_system}");
            let ended = machine.agent.take().unwrap().stop();
            assert!(ended.success());
            run(&["umount", machine.data().to_str().unwrap()]);
        }
    });
}

/// An agent of the future, of the past, or a person may have removed or set the flag: the steps go on.
#[test]
fn a_seal_that_others_set_or_removed_stops_nothing() {
    let test = "lost_mounts::a_seal_that_others_set_or_removed_stops_nothing";
    run_in_namespace(test, async {
        for flag in ["+i", "-i"] {
            let mut machine = Machine::new();
            let alloc = start_writer(&machine);
            machine.kill();
            let target = unmount(&machine, "/targets/");
            assert!(std::fs::remove_dir(&target).is_err(), "it is sealed");
            run(&["chattr", flag, target.to_str().unwrap()]);
            machine.start();
            until_true("the task to run again", || machine.output(&alloc) == "ready\nready\n");
            machine.stop("writer");
            machine.wait_for("writer", "complete", 1);
            machine.assert_clean();
            assert!(!target.exists(), "{}", target.display());
            machine.end();
        }
    });
}

/// The loss of the mount of a host volume.
#[derive(Clone, Copy, Debug, PartialEq)]
enum HostLoss {
    /// It is gone when the next agent starts.
    BeforeStart,
    /// It is gone while the agent runs.
    WhileRunning,
    /// Its process has ended.
    DeadFuse,
}

/// A disk of the operator vanishes, at the directory that jobs mount or above it: no task writes to the directory below
/// it, and the task runs again when the disk is back.
#[test]
fn no_task_writes_beside_a_host_volume_whose_mount_vanished() {
    let test = "lost_mounts::no_task_writes_beside_a_host_volume_whose_mount_vanished";
    run_in_namespace(test, async {
        for below in ["", "sub"] {
            for loss in [HostLoss::BeforeStart, HostLoss::WhileRunning, HostLoss::DeadFuse] {
                lose_host_volume(below, loss);
            }
        }
    });
}

fn lose_host_volume(below: &str, loss: HostLoss) {
    let base = tempfile::tempdir().unwrap();
    let disk = base.path().join("disk");
    std::fs::create_dir(&disk).unwrap();
    let path = match below {
        "" => disk.clone(),
        below => disk.join(below),
    };
    let make = || {
        std::fs::create_dir_all(&path).unwrap();
        let open = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(&path, open).unwrap();
    };
    make();
    mount_memory(&disk);
    make();
    let offered = ["--host-volume".to_owned(), format!("disk={}", path.display())];
    let mut machine = Machine::with_options(&offered);
    let mut job = appending(&machine, "writer", "disk");
    job["TaskGroups"][0]["Volumes"]["v"] = json!({"Name": "v", "Type": "host", "Source": "disk"});
    machine.run(&job);
    let alloc = machine.wait_for("writer", "running", 1).remove(0);
    until_true("the task to write", || machine.output(&alloc) == "ready\n");
    if loss == HostLoss::BeforeStart {
        machine.kill();
    }
    run(&["umount", "--lazy", disk.to_str().unwrap()]);
    if loss == HostLoss::DeadFuse {
        mount_dead_fuse(&disk);
    }
    kill_tasks(&machine);
    if loss == HostLoss::BeforeStart {
        machine.start_with(&offered);
    }
    until("the event with the reason", || {
        let alloc = machine.allocs("writer").remove(0);
        let events = events(&alloc);
        let disk = disk.to_str().unwrap();
        let is_meant = |event: &String| {
            let is_reason = event.contains("was on the mount at")
                || event.contains("cannot examine host volume");
            event.contains("Driver Failure") && is_reason && event.contains(disk)
        };
        let is_there = events.iter().any(is_meant);
        is_there.then_some(()).ok_or_else(|| format!("{events:#?}"))
    });
    assert_eq!(machine.output(&alloc), "ready\n", "{loss:?} {below}");
    if loss == HostLoss::DeadFuse {
        run(&["umount", disk.to_str().unwrap()]);
    }
    assert!(!path.join("lines").exists(), "{loss:?} {below}");
    mount_memory(&disk);
    make();
    until_true("the task to run again", || machine.output(&alloc) == "ready\nready\n");
    let again = machine.wait_for("writer", "running", 1).remove(0);
    let restarts = &again["TaskStates"]["t"]["Restarts"];
    assert_eq!(restarts, 1, "only the task that was killed was restarted");
    assert_eq!(std::fs::read_to_string(path.join("lines")).unwrap(), "line\n");
    machine.stop("writer");
    machine.wait_for("writer", "complete", 1);
    machine.end();
    run(&["umount", disk.to_str().unwrap()]);
}
