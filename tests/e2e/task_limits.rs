//! Tasks that take what they can: processes, disk and output. The agent goes on, and every one of them can be stopped.

use std::path::Path;
use std::time::Duration;

use nomad_csi_node::driver::TaskLimits;
use nomad_csi_node::{LogLimits, TaskUser};
use nomad_csi_ports::LogStream;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use serde_json::Value;

use crate::agent_process::processes_with;
use crate::job_machine::{Machine, WRITER, volume};
use crate::task_fixture::{TestRun, exec, exited, is_root, unique_seconds, was_killed};
use crate::task_root::{exec_request, run_isolated};
use crate::wait::{until, until_true};
use nomad_csi_testing::namespace::run_in_mount_namespace;

const NOBODY: TaskUser = TaskUser { uid: 65534, gid: 65534 };
const MIB: u64 = 1 << 20;
const PID_MAX: &str = "/proc/sys/kernel/pid_max";

/// The output of a task that has not ended.
fn output_so_far(machine: &Machine, alloc: &Value) -> String {
    let id = alloc["ID"].as_str().unwrap();
    let path = format!("/v1/client/fs/logs/{id}?task=t&type=stdout&plain=true");
    let answer = machine.address().ask("GET", &path, None).unwrap();
    match answer.status {
        200 => answer.text(),
        _ => String::new(),
    }
}

/// Covers the control groups of the machine, as on one that delegates none.
#[test]
fn an_agent_that_can_limit_nothing_says_so_once_and_runs_tasks() {
    let test = "task_limits::an_agent_that_can_limit_nothing_says_so_once_and_runs_tasks";
    run_in_mount_namespace(test, || {
        let groups = Path::new("/sys/fs/cgroup");
        mount("none", groups, "tmpfs", MountFlags::RDONLY, None).unwrap();
        let machine = Machine::new();
        machine.create_volume("v1", WRITER, "file-system");
        let mut job = machine.job("one", "batch", &volume("v1", WRITER), "echo ran");
        job["TaskGroups"][0]["Tasks"][0]["Resources"] = serde_json::json!({"MemoryMB": 10});
        machine.run(&job);
        let alloc = machine.wait_for("one", "complete", 1).remove(0);
        assert_eq!(machine.output(&alloc), "ran\n");
        let log = machine.agent().log();
        let lines: Vec<_> = log
            .iter()
            .filter(|line| {
                line.contains("not limited for tasks: `cpu` and `cores`, `memory` and `memory_max`")
            })
            .collect();
        assert_eq!(lines.len(), 1, "{log:#?}");
        let reason = "control groups of version 2 are not mounted at `/sys/fs/cgroup`";
        assert!(lines[0].contains(reason), "{}", lines[0]);
        let space = "not limited for tasks: the space of their directories";
        assert_eq!(log.iter().filter(|line| line.contains(space)).count(), 1);
        machine.stop("one");
        machine.end();
        unmount(groups, UnmountFlags::NOFOLLOW).unwrap();
    });
}

/// The bomb ends at a number of processes that a machine survives, also if nothing limits it. It ignores its kill signal.
#[test]
fn a_bomb_of_processes_is_bounded_and_ends_with_its_job() {
    if !is_root() {
        return;
    }
    const MOST: u32 = 6000;
    let machine = Machine::new();
    for id in ["v1", "v2"] {
        machine.create_volume(id, WRITER, "file-system");
    }
    let of_the_machine = std::fs::read_to_string(PID_MAX).unwrap();
    let bomb = format!(
        "exec perl -e '$| = 1; $SIG{{INT}} = \"IGNORE\"; $n = 0; while ($n < {MOST}) {{ $p = fork; last unless \
         defined $p; if (!$p) {{ sleep 1000; exit }} $n++ }} print \"forked $n\\n\"; for (;;) {{ if (defined($p = fork)) \
         {{ exit unless $p; waitpid $p, 0 }} select undef, undef, undef, 0.01 }}' {}",
        machine.marker()
    );
    machine.run(&machine.job("bomb", "service", &volume("v1", WRITER), &bomb));
    let alloc = machine.wait_for("bomb", "running", 1).remove(0);
    let forked = until("the bomb to be full", || {
        let output = output_so_far(&machine, &alloc);
        let number = output.strip_prefix("forked ").map(str::trim);
        number.and_then(|number| number.parse::<u32>().ok()).ok_or(output)
    });
    let limits = TaskLimits::prepare();
    let is_limited = |what: &str| !what.contains("processes");
    if limits.not_enforced().iter().all(|it| is_limited(&it.what)) {
        assert!((3000..4500).contains(&forked), "{forked}");
    }
    // The limit is that of the task's namespace, and the file has the same name everywhere.
    assert_eq!(std::fs::read_to_string(PID_MAX).unwrap(), of_the_machine);
    assert_eq!(machine.get("/v1/nodes")[0]["Status"], "ready");
    machine.run(&machine.job("other", "batch", &volume("v2", WRITER), "true"));
    machine.wait_for("other", "complete", 1);
    until("the claim of the other to be released", || match machine.claims() {
        left if left.len() == 1 => Ok(()),
        left => Err(format!("{left:#?}")),
    });
    machine.stop("bomb");
    machine.wait_for("bomb", "complete", 1);
    machine.end();
}

/// Processes that live for an instant each: what is asked to end is gone already, and another one is there.
#[tokio::test]
async fn a_task_that_forks_without_end_is_stopped() {
    if !is_root() {
        return;
    }
    let base = tempfile::tempdir().unwrap();
    let run = TestRun::new(exec(), base.path());
    let marker = unique_seconds();
    let script = format!(
        "exec perl -e '$| = 1; $SIG{{TERM}} = \"IGNORE\"; for (1..16) {{ next if fork; for (;;) {{ exit if fork }} }} \
         print \"up\\n\"; sleep 1000' {marker}"
    );
    let mut request = exec_request(&script, vec![]);
    request.user = Some(NOBODY);
    request.kill_timeout = Duration::from_millis(50);
    run.start(request).await;
    run.wait_for_line("up").await;
    run.stop().await;
    let end = run.wait().await;
    assert!(was_killed(&end), "{end:?}");
    assert_eq!(processes_with(&[&marker]), [] as [u32; 0]);
}

/// The task takes every byte that the agent gives free. What is given back is recorded all the same.
#[test]
fn a_disk_that_a_task_fills_stops_no_release() {
    let test = "task_limits::a_disk_that_a_task_fills_stops_no_release";
    run_in_mount_namespace(test, || {
        let mut machine = Machine::without_agent();
        let data = machine.data();
        std::fs::create_dir(&data).unwrap();
        let size = c"size=48m,mode=700";
        mount("none", &data, "tmpfs", MountFlags::empty(), size).unwrap();
        machine.start();
        for id in ["v1", "v2"] {
            machine.create_volume(id, WRITER, "file-system");
        }
        let wait = format!("sleep 1000 # {}", machine.marker());
        machine.run(&machine.job("other", "service", &volume("v2", WRITER), &wait));
        machine.wait_for("other", "running", 1);
        let fill = "while :; do head -c 64k /dev/zero >> /alloc/data/fill; echo x >> /alloc/data/fill; sleep 0.002; \
                    done 2>/dev/null";
        machine.run(&machine.job("fill", "service", &volume("v1", WRITER), fill));
        machine.wait_for("fill", "running", 1);
        let free = || {
            let disk = rustix::fs::statvfs(&data).unwrap();
            disk.f_bavail * disk.f_frsize
        };
        until_true("the disk to be full", || free() == 0);
        machine.stop("other");
        machine.wait_for("other", "complete", 1);
        until("the claim of the other to be released", || match machine.claims() {
            left if left.len() == 1 => Ok(()),
            left => Err(format!("{left:#?}")),
        });
        assert_eq!(machine.get("/v1/nodes")[0]["Status"], "ready");
        machine.stop("fill");
        machine.wait_for("fill", "complete", 1);
        machine.assert_no_claims();
        assert_eq!(machine.tasks(), [] as [u32; 0]);
        let collect = machine.address().ask("PUT", "/v1/system/gc", None).unwrap();
        assert_eq!(collect.status, 200);
        until_true("the space to be free", || free() > 8 * MIB);
        machine.run(&machine.job("next", "batch", &volume("v1", WRITER), "true"));
        machine.wait_for("next", "complete", 1);
        machine.assert_no_claims();
        assert!(machine.agent.take().unwrap().stop().success());
        unmount(&data, UnmountFlags::NOFOLLOW).unwrap();
    });
}

fn output_size(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let output = entries.filter(|it| it.file_name().to_string_lossy().starts_with("stdout."));
    output.filter_map(|it| Some(it.metadata().ok()?.len())).sum()
}

/// 64 MiB of output, of which 4 are kept.
#[tokio::test]
async fn output_without_end_stays_in_its_limit_and_blocks_nothing() {
    if !is_root() {
        return;
    }
    let base = tempfile::tempdir().unwrap();
    let run = TestRun::new(exec(), base.path());
    let mut request = exec_request("head -c 64M /dev/zero; echo; echo done >&2", vec![]);
    request.user = Some(NOBODY);
    request.logs = LogLimits { file_bytes: MIB, files: 4 };
    run.start(request).await;
    let mut ended = std::pin::pin!(run.wait());
    let end = loop {
        let size = output_size(&run.directory);
        assert!(size <= 4 * MIB, "{size}");
        if let Ok(end) = tokio::time::timeout(Duration::from_millis(2), &mut ended).await {
            break end;
        }
    };
    assert_eq!(end, exited(0));
    assert_eq!(run.lines(LogStream::Stderr).await, ["done"]);
    let size = output_size(&run.directory);
    assert!(size > 3 * MIB && size <= 4 * MIB, "{size}");
}

/// What has no place is dropped, and the end of the task has the space that was kept for it.
#[test]
fn a_task_whose_output_fills_the_disk_runs_on_and_ends() {
    let test = "task_limits::a_task_whose_output_fills_the_disk_runs_on_and_ends";
    run_isolated(test, || async {
        let base = tempfile::tempdir().unwrap();
        let disk = base.path().join("disk");
        std::fs::create_dir(&disk).unwrap();
        let size = c"size=1m,mode=0700";
        mount("none", &disk, "tmpfs", MountFlags::empty(), size).unwrap();
        let run = TestRun::new(exec(), &disk);
        let request = exec_request("head -c 16M /dev/zero; exit 7", vec![]);
        assert_eq!(run.end_of(request).await, exited(7));
        let state = std::fs::metadata(run.directory.join("state.json"));
        assert_eq!(state.unwrap().len(), 32 << 10, "it took what was kept");
        run.wait_until_gone();
        unmount(&disk, UnmountFlags::NOFOLLOW).unwrap();
    });
}
