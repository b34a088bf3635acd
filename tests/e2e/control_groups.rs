//! Tasks in control groups, for real. The kernel has to have version 2 alone, and this test a group in a delegated one:
//! `.ci/control-groups` starts a machine that does.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nomad_csi_model::Resources;
use nomad_csi_node::driver::TaskLimits;
use nomad_csi_node::{LimitsReached, RunEnd, RunRequest, TaskUser};
use nomad_csi_ports::LogStream;
use rustix::process::Signal;
use serde_json::json;

use crate::agent_process::signal_process;
use crate::job_machine::{Machine, WRITER, volume};
use crate::task_fixture::{TestRun, exec, exited, was_killed};
use crate::task_root::exec_request;
use crate::wait::{until, until_true, until_within};

const NOBODY: TaskUser = TaskUser { uid: 65534, gid: 65534 };
/// Asks for this number of MiB.
const EAT: &str = "perl -e '$x = \"a\" x (shift() << 20); print length($x) >> 20, \"\\n\"'";

fn limits() -> Arc<TaskLimits> {
    let limits = TaskLimits::prepare();
    assert_eq!(limits.not_enforced(), [], "this machine delegates nothing");
    Arc::new(limits)
}

fn limited_run(base: &Path) -> TestRun {
    TestRun::new(exec().with_limits(limits()), base)
}

fn request(script: &str, memory_mb: i64) -> RunRequest {
    RunRequest {
        user: Some(NOBODY),
        resources: Resources { memory_mb, ..Resources::default() },
        ..exec_request(script, vec![])
    }
}

fn directory() -> PathBuf {
    limits().directory().unwrap().to_owned()
}

/// The names of the groups of tasks.
fn groups() -> Vec<String> {
    let mut names = vec![];
    for entry in std::fs::read_dir(directory()).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            names.push(entry.file_name().into_string().unwrap());
        }
    }
    names
}

fn reached(end: &RunEnd) -> LimitsReached {
    match end {
        RunEnd::Exited { limits, .. } => *limits,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
#[ignore = "needs a delegated control group: `.ci/control-groups` starts a machine with one"]
async fn a_task_gets_no_more_memory_than_its_resources_allow() {
    let base = tempfile::tempdir().unwrap();
    let run = limited_run(base.path());
    let end = run.end_of(request(&format!("exec {EAT} 100"), 32)).await;
    let limit = reached(&end).memory.unwrap();
    assert_eq!(limit.limit, 32 << 20);
    assert!(limit.count >= 1);
    assert!(was_killed(&end), "{end:?}");
    assert_eq!(groups(), [] as [String; 0]);
    // What one process takes ends that process, and the end of the task says it.
    let run = limited_run(base.path());
    let script = format!("{EAT} 100; echo survived; exit 3");
    let end = run.end_of(request(&script, 32)).await;
    assert!(matches!(end, RunEnd::Exited { code: Some(3), .. }), "{end:?}");
    assert!(reached(&end).memory.is_some());
    assert_eq!(run.lines(LogStream::Stdout).await, ["survived"]);
    // `memory_max` is the limit, and `memory` what is reserved.
    let run = limited_run(base.path());
    let mut request = request(&format!("{EAT} 64"), 16);
    request.resources.memory_max_mb = 256;
    assert_eq!(run.end_of(request).await, exited(0));
    assert_eq!(run.lines(LogStream::Stdout).await, ["64"]);
}

#[test]
#[ignore = "needs a delegated control group: `.ci/control-groups` starts a machine with one"]
fn a_task_gets_no_more_processes_than_the_limit_and_is_stopped_all_the_same() {
    let base = tempfile::tempdir().unwrap();
    let run = limited_run(base.path());
    let script = "exec perl -e '$| = 1; $SIG{TERM} = \"IGNORE\"; $n = 0; while ($n < 6000) { $p = fork; \
                  last unless defined $p; if (!$p) { sleep 1000; exit } $n++ } print \"$n\\n\"; \
                  for (;;) { fork; select undef, undef, undef, 0.01 }'";
    let mut request = request(script, 2500);
    request.kill_timeout = Duration::from_millis(100);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(run.start(request));
    // Without hardware support, a machine takes a minute for the processes.
    let forked = until_within(Duration::from_secs(300), "the limit to be reached", || {
        let lines = runtime.block_on(run.lines(LogStream::Stdout));
        let number = lines.first().and_then(|line| line.parse::<u32>().ok());
        number.ok_or_else(|| format!("{lines:?}"))
    });
    assert!((4000..4096).contains(&forked), "{forked}");
    runtime.block_on(run.stop());
    let end = runtime.block_on(run.wait());
    let limit = reached(&end).processes.unwrap();
    assert_eq!(limit.limit, 4096);
    assert_eq!(groups(), [] as [String; 0]);
}

/// Its own limits, no other group, and nothing that it could change.
#[tokio::test]
#[ignore = "needs a delegated control group: `.ci/control-groups` starts a machine with one"]
async fn a_task_sees_its_own_group_and_cannot_leave_or_change_it() {
    let script = "cd /sys/fs/cgroup; cat /proc/self/cgroup memory.max memory.swap.max pids.max cpu.weight cpu.max; \
                  (cat /proc/self/cgroup) | cat; find . -mindepth 1 -type d | wc -l; \
                  for file in memory.max pids.max cgroup.procs cgroup.kill; do \
                  (echo 1 > $file) 2>&1 | grep -c -e 'Read-only' -e 'Permission denied'; done; \
                  mkdir mine 2>&1 | grep -c 'Read-only'; mount -o remount,rw . 2>&1 | grep -c -i -e denied -e only -e must";
    let base = tempfile::tempdir().unwrap();
    let run = limited_run(base.path());
    let mut request = request(script, 64);
    request.resources.cores = 2;
    let end = run.end_of(request).await;
    let errors = run.lines(LogStream::Stderr).await;
    let lines = run.lines(LogStream::Stdout).await;
    let mut expected = vec!["0::/", "67108864", "0", "4096", "79", "200000 100000", "0::/", "0"];
    expected.extend(["1"; 6]);
    assert_eq!(lines, expected, "{end:?} {errors:?}");
}

/// `.ci/control-groups` runs this as root, and as a user with a delegated group.
#[tokio::test]
#[ignore = "needs a delegated control group: `.ci/control-groups` starts a machine with one"]
async fn every_user_with_a_delegated_group_limits_its_tasks() {
    let base = tempfile::tempdir().unwrap();
    let run = limited_run(base.path());
    let script =
        format!("cat /proc/self/cgroup /sys/fs/cgroup/memory.max; {EAT} 100; echo survived");
    let mut request = request(&script, 32);
    request.user = rustix::process::geteuid().is_root().then_some(NOBODY);
    let end = run.end_of(request).await;
    let lines = run.lines(LogStream::Stdout).await;
    assert_eq!(lines, ["0::/", "33554432", "survived"], "{end:?}");
    assert!(reached(&end).memory.is_some());
    assert_eq!(groups(), [] as [String; 0]);
}

#[tokio::test]
#[ignore = "needs a delegated control group: `.ci/control-groups` starts a machine with one"]
async fn no_group_is_left_whoever_is_killed() {
    let base = tempfile::tempdir().unwrap();
    let start = async |script: &str| {
        let run = limited_run(base.path());
        run.start(request(script, 64)).await;
        run.wait_for_line("up").await;
        run
    };
    // The shim is killed, and an agent waits for the run.
    let run = start("echo up; sleep 1000").await;
    let running = groups();
    assert_eq!(running.len(), 1);
    // An agent that starts removes no group with a process.
    assert_eq!(groups(), running);
    signal_process(run.shim(), Signal::KILL);
    assert!(matches!(run.wait().await, RunEnd::Lost { .. }));
    assert!(!directory().join(&running[0]).exists());
    // The shim and the agent are killed. The next agent removes what is left, and nothing else.
    let run = start("echo up; (sleep 1000 & sleep 1000)").await;
    let directory = directory();
    let group = directory.join(&groups()[0]);
    let members = std::fs::read_to_string(group.join("cgroup.procs")).unwrap();
    assert!(members.lines().count() >= 3, "every descendant: {members}");
    signal_process(run.shim(), Signal::KILL);
    let events = || std::fs::read_to_string(group.join("cgroup.events")).unwrap_or_default();
    until_true("the group to be empty", || events().contains("populated 0"));
    let (half, other) = (directory.join("task-half"), directory.join("other"));
    for path in [&half, &other] {
        std::fs::create_dir(path).unwrap();
    }
    let running = start("echo up; sleep 1000").await;
    limits();
    assert!(!group.exists() && !half.exists());
    assert!(other.exists());
    std::fs::remove_dir(other).unwrap();
    assert_eq!(groups().len(), 1);
    running.stop().await;
    running.wait().await;
    assert_eq!(groups(), [] as [String; 0]);
}

/// An agent that is killed leaves its tasks limited, and the event of a task names its limit.
#[test]
#[ignore = "needs a delegated control group: `.ci/control-groups` starts a machine with one"]
fn an_agent_limits_tasks_and_says_which_limit_ended_one() {
    let mut machine = Machine::new();
    machine.create_volume("v1", WRITER, "file-system");
    // It lives longer than the start of the next agent.
    let script = format!("until [ -e /alloc/data/go ]; do sleep 0.1; done; exec {EAT} 100");
    let mut job = machine.job("eater", "batch", &volume("v1", WRITER), &script);
    job["TaskGroups"][0]["Tasks"][0]["Resources"] = json!({"CPU": 100, "MemoryMB": 32});
    machine.run(&job);
    until("the task to have a group", || match groups() {
        names if names.len() == 1 => Ok(()),
        names => Err(format!("{names:?}")),
    });
    machine.kill();
    machine.start();
    let says = |line: &str| line.contains("tasks of `exec` are limited to their `resources`");
    assert_eq!(machine.agent().log().iter().filter(|line| says(line)).count(), 1);
    let alloc = machine.wait_for("eater", "running", 1).remove(0);
    let id = alloc["ID"].as_str().unwrap();
    let shared = machine.data().join("allocs").join(id).join("alloc/data");
    std::fs::write(shared.join("go"), "").unwrap();
    machine.wait_for("eater", "failed", 1);
    let alloc = machine.get(&format!("/v1/allocation/{id}"));
    let events = alloc["TaskStates"]["t"]["Events"].as_array().unwrap();
    let ended = events.iter().find(|it| it["Type"] == "Terminated").unwrap();
    let expected = "Exit Code: 137, Signal: 9, Exit Message: \"OOM Killed: 1 process was killed at the memory limit of \
                    32 MiB; raise `memory` or `memory_max` of the task's `resources`\"";
    assert_eq!(ended["DisplayMessage"], expected, "{ended:#}");
    assert_eq!(ended["Details"]["oom_killed"], "true");
    machine.stop("eater");
    assert_eq!(groups(), [] as [String; 0]);
    machine.end();
}
