//! Tasks under real shims: start, end, stop, attach, and what happens when something is killed.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use nomad_csi_node::driver::{ShimDriver, inherited_descriptors};
use nomad_csi_node::{DriverConfig, LogLimits, RunDriver as _, RunEnd, RunStart, RunStatus};
use nomad_csi_ports::LogStream;
use rustix::process::Signal;

use crate::agent_process::{AgentProcess, processes_with, program, signal_process};
use crate::task_fixture::{
    TestRun, exec, exited, is_root, killed_by, raw_exec, request, shell, unique_seconds,
};
use crate::wait::{until_async, until_true};

fn raw(script: &str) -> nomad_csi_node::RunRequest {
    request(DriverConfig::RawExec(shell(script)))
}

#[tokio::test]
async fn a_task_leaves_its_status_and_its_output() {
    if !is_root() {
        return;
    }
    let base = tempfile::tempdir().unwrap();
    for (driver, config) in
        [(raw_exec(), DriverConfig::RawExec as fn(_) -> _), (exec(), DriverConfig::Exec)]
    {
        let run = TestRun::new(driver, base.path());
        let script =
            "echo out; echo err >&2; exec /usr/bin/env -u PWD -u SHLVL -u _ sh -c 'env; exit 3'";
        let mut request = request(config(shell(script)));
        request.environment.insert("ONLY".to_owned(), "this".to_owned());
        assert_eq!(run.start(request.clone()).await, RunStart::Started);
        assert_eq!(run.wait().await, exited(3));
        assert_eq!(run.wait().await, exited(3), "waiting again");
        assert_eq!(run.status().await, Some(RunStatus::Ended(exited(3))));
        assert_eq!(run.lines(LogStream::Stderr).await, ["err"]);
        let lines = run.lines(LogStream::Stdout).await;
        assert_eq!(lines[0], "out");
        let expected = ["ONLY=this", "PATH=/usr/bin:/bin", "PWD=/"];
        let mut environment = lines[1..].to_vec();
        environment.sort();
        assert_eq!(environment, expected);
        assert_eq!(run.start(request).await, RunStart::Attached);
        assert_eq!(run.lines(LogStream::Stderr).await, ["err"], "started once");
        run.wait_until_gone();
    }
}

#[tokio::test]
async fn a_command_that_does_not_exist_is_a_failed_run_with_a_reason() {
    if !is_root() {
        return;
    }
    let base = tempfile::tempdir().unwrap();
    for driver in [raw_exec(), exec()] {
        let run = TestRun::new(driver.clone(), base.path());
        let mut program = shell("");
        program.command = "/nowhere/at/all".into();
        let (config, why) = match driver.mount_config() {
            nomad_csi_model::MountConfig::All => (
                DriverConfig::Exec(program),
                "; of the host, a task of the driver `exec` sees only /bin, /etc, /lib, /lib32, /lib64, \
                 /run/resolvconf, /run/systemd/resolve, /sbin, /usr",
            ),
            nomad_csi_model::MountConfig::None => (DriverConfig::RawExec(program), ""),
        };
        assert_eq!(run.start(request(config)).await, RunStart::Failed);
        let reason = format!(
            "cannot execute `/nowhere/at/all`: No such file or directory (os error 2){why}"
        );
        assert_eq!(run.wait().await, RunEnd::Failed { reason });
    }
}

#[tokio::test]
async fn a_stop_ends_the_task_and_every_descendant() {
    if !is_root() {
        return;
    }
    let base = tempfile::tempdir().unwrap();
    let seconds = unique_seconds();
    let run = TestRun::new(raw_exec(), base.path());
    let script = format!(
        "trap 'exit 5' TERM; setsid sleep {seconds} & (sleep {seconds} &) ; echo ready; while :; do sleep 0.01; done"
    );
    run.start(raw(&script)).await;
    run.wait_for_line("ready").await;
    assert!(matches!(run.status().await, Some(RunStatus::Running { .. })));
    run.stop().await;
    assert_eq!(run.wait().await, exited(5), "its own answer to the signal");
    assert_eq!(processes_with(&["sleep", &seconds]), [] as [u32; 0]);
    run.stop().await;
    assert_eq!(run.wait().await, exited(5), "a later stop has no effect");
}

#[tokio::test]
async fn a_task_that_ignores_its_signal_is_killed_at_the_timeout() {
    if !is_root() {
        return;
    }
    let base = tempfile::tempdir().unwrap();
    let run = TestRun::new(raw_exec(), base.path());
    // It forks without end, which must not keep the shim from killing it.
    let mut request = raw(
        "trap '' TERM; for i in 1 2 3 4 5; do while :; do (true &); done & done; echo ready; wait",
    );
    request.kill_timeout = Duration::from_millis(50);
    run.start(request).await;
    run.wait_for_line("ready").await;
    let begun = Instant::now();
    run.stop().await;
    assert_eq!(run.wait().await, killed_by(9));
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(10), "the stop took {took:?}");
}

#[tokio::test]
async fn a_run_that_is_stopped_before_its_start_does_not_start() {
    if !is_root() {
        return;
    }
    let base = tempfile::tempdir().unwrap();
    let run = TestRun::new(raw_exec(), base.path());
    run.stop().await;
    assert_eq!(run.status().await, None);
    assert_eq!(run.start(raw("echo started")).await, RunStart::Cancelled);
    let end = run.wait().await;
    assert_eq!(end.to_string(), "was stopped before it started");
    assert_eq!(run.lines(LogStream::Stdout).await, [] as [&str; 0]);
}

#[tokio::test]
async fn simultaneous_starts_are_one_start() {
    if !is_root() {
        return;
    }
    let base = tempfile::tempdir().unwrap();
    for _ in 0..5 {
        let run = TestRun::new(raw_exec(), base.path());
        let marker = base.path().join("marker");
        let script = format!("echo started >> {}", marker.display());
        let starts = (0..4).map(|_| run.start(raw(&script)));
        let starts = futures_util::future::join_all(starts).await;
        let started = starts.iter().filter(|start| **start == RunStart::Started);
        assert!(started.count() <= 1, "{starts:?}");
        assert_eq!(run.wait().await, exited(0));
        assert_eq!(std::fs::read_to_string(&marker).unwrap(), "started\n");
        std::fs::remove_file(marker).unwrap();
    }
}

/// Two shims may start a run at once; the one without the lock waits for the state of the other.
#[tokio::test]
async fn a_shim_without_the_lock_starts_nothing() {
    if !is_root() {
        return;
    }
    let base = tempfile::tempdir().unwrap();
    let (run, other) =
        (TestRun::new(raw_exec(), base.path()), TestRun::new(raw_exec(), base.path()));
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::create_dir(&run.directory).unwrap();
    std::fs::set_permissions(&run.directory, mode).unwrap();
    let lock = std::fs::File::create(run.directory.join("lock")).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let start = run.start(raw("echo started"));
    let release = async {
        until_async("the shim", async || {
            let found = processes_with(&["task-process", "shim", run.name()]);
            found.first().map(drop).ok_or_else(|| "none".to_owned())
        })
        .await;
        // As long as another whole run takes.
        assert_eq!(other.end_of(raw("exit 0")).await, exited(0));
        // Its state is missing, but its shim lives.
        assert_eq!(run.status().await, Some(RunStatus::Starting));
        assert_eq!(run.lines(LogStream::Stdout).await, [] as [&str; 0]);
        drop(lock);
    };
    let (start, ()) = tokio::join!(start, release);
    assert_eq!(start, RunStart::Started);
    assert_eq!(run.wait().await, exited(0));
}

/// The shim looks at the state again after it got the lock: another shim may have finished the run in the meantime.
#[tokio::test]
async fn a_finished_run_is_not_started_again() {
    if !is_root() {
        return;
    }
    let base = tempfile::tempdir().unwrap();
    let run = TestRun::new(raw_exec(), base.path());
    assert_eq!(run.end_of(raw("echo started")).await, exited(0));
    let launch = program(["task-process", "launch"]).arg(&run.directory).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&launch.stdout), "attached\n");
    run.wait_until_gone();
    assert_eq!(run.lines(LogStream::Stdout).await, ["started"]);
    assert_eq!(run.status().await, Some(RunStatus::Ended(exited(0))));
}

#[tokio::test]
async fn the_end_of_the_shim_is_the_end_of_the_task() {
    if !is_root() {
        return;
    }
    let base = tempfile::tempdir().unwrap();
    let run = TestRun::new(exec(), base.path());
    let seconds = unique_seconds();
    let script = format!("setsid sleep {seconds} & echo ready; wait");
    run.start(request(DriverConfig::Exec(shell(&script)))).await;
    run.wait_for_line("ready").await;
    signal_process(run.shim(), Signal::KILL);
    let end = run.wait().await;
    assert_eq!(end.to_string(), "was lost: its supervisor was killed, and the task with it");
    assert_eq!(processes_with(&["sleep", &seconds]), [] as [u32; 0]);
    assert_eq!(run.wait().await, end, "the answer stays");
}

/// Writes the state of a run whose shim is this process.
fn write_state(run: &TestRun, pid: u32, start_time: u64, boot_id: &str) {
    std::fs::create_dir_all(&run.directory).unwrap();
    let state = serde_json::json!({
        "version": 1, "state": "starting",
        "shim": {"pid": pid, "start_time": start_time, "boot_id": boot_id},
    });
    std::fs::write(run.directory.join("state.json"), state.to_string()).unwrap();
}

#[tokio::test]
async fn a_state_of_another_boot_or_another_process_is_lost() {
    let base = tempfile::tempdir().unwrap();
    std::fs::set_permissions(base.path(), std::os::unix::fs::PermissionsExt::from_mode(0o700))
        .unwrap();
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    for (boot, reason) in [
        ("00000000-0000-4000-8000-000000000000", "the machine was restarted"),
        (boot.trim(), "its supervisor was killed, and the task with it"),
    ] {
        let run = TestRun::new(raw_exec(), base.path());
        write_state(&run, std::process::id(), 1, boot);
        let reason = reason.to_owned();
        assert_eq!(run.wait().await, RunEnd::Lost { reason });
    }
}

#[tokio::test]
async fn a_run_that_was_never_started_has_no_end() {
    let base = tempfile::tempdir().unwrap();
    let directory = base.path().join("never");
    let error = raw_exec().wait(&directory).await.unwrap_err();
    let expected = format!("the run in `{}` was never started", directory.display());
    assert_eq!(error.to_string(), expected);
}

/// `kill(-1)` of a process that is not PID 1 of its own namespace would kill the machine.
#[tokio::test]
async fn a_shim_outside_of_its_own_namespace_does_nothing() {
    if !is_root() {
        return;
    }
    let base = tempfile::tempdir().unwrap();
    let run = TestRun::new(raw_exec(), base.path());
    assert_eq!(run.end_of(raw("exit 0")).await, exited(0));
    std::fs::remove_file(run.directory.join("state.json")).unwrap();
    let refused = program(["task-process", "shim"]).arg(&run.directory).output().unwrap();
    let reason = "this command supervises a task and is started by the agent only";
    assert_eq!(refused.status.code(), Some(1));
    assert_eq!(String::from_utf8_lossy(&refused.stdout), format!("error: {reason}\n"));
    assert_eq!(run.status().await, None, "nothing was started");
}

#[tokio::test]
async fn no_log_file_passes_its_limit() {
    if !is_root() {
        return;
    }
    let base = tempfile::tempdir().unwrap();
    let run = TestRun::new(raw_exec(), base.path());
    let mut request = raw("yes 123456789 | head -c 500000");
    request.logs = LogLimits { file_bytes: 100_001, files: 2 };
    assert_eq!(run.end_of(request).await, exited(0));
    let size = |name: &str| {
        let found = std::fs::metadata(run.directory.join(name));
        found.map(|found| found.len()).ok()
    };
    let sizes = ["stdout.3", "stdout.4", "stdout.5"].map(size);
    assert_eq!(sizes, [Some(100_001), Some(99_996), None]);
    assert_eq!(size("stdout.2"), None);
}

#[tokio::test]
async fn the_user_of_a_task_has_no_groups_and_no_new_rights() {
    if !is_root() {
        return;
    }
    let base = tempfile::tempdir().unwrap();
    let run = TestRun::new(exec(), base.path());
    let script = "id -u; id -g; id -G; grep -E '^(CapPrm|CapBnd|NoNewPrivs)' /proc/self/status";
    let mut request = request(DriverConfig::Exec(shell(script)));
    request.user = Some(nomad_csi_node::TaskUser { uid: 1234, gid: 2345 });
    assert_eq!(run.end_of(request).await, exited(0));
    let lines = run.lines(LogStream::Stdout).await;
    assert_eq!(
        lines,
        [
            "1234",
            "2345",
            "2345",
            "CapPrm:\t0000000000000000",
            "CapBnd:\t00000000800405fb",
            "NoNewPrivs:\t1",
        ]
    );
}

#[tokio::test]
async fn a_start_that_is_killed_again_and_again_is_an_error() {
    if !is_root() {
        return;
    }
    let base = tempfile::tempdir().unwrap();
    let directory = base.path().join("run");
    let silent = ShimDriver::raw_exec().with_program("/bin/true".into());
    let error = silent.start(&directory, raw("true")).await.unwrap_err();
    let expected = format!(
        "cannot start the run in `{}`: its supervisor ended 3 times before it started the task",
        directory.display()
    );
    assert_eq!(error.to_string(), expected);
}

fn is_null(descriptor: &Path) -> bool {
    std::fs::read_link(descriptor).is_ok_and(|input| input == Path::new("/dev/null"))
}

#[tokio::test]
async fn a_task_has_no_descriptors_but_its_input_and_its_output() {
    if !is_root() {
        return;
    }
    let base = tempfile::tempdir().unwrap();
    let run = TestRun::new(exec(), base.path());
    run.start(request(DriverConfig::Exec(shell("echo ready; exec sleep 1000")))).await;
    run.wait_for_line("ready").await;
    let Some(RunStatus::Running { pid }) = run.status().await else {
        panic!("it does not run");
    };
    let descriptors = format!("/proc/{pid}/fd");
    let descriptors = Path::new(&descriptors);
    until_true("the program to be `sleep`", || {
        std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "sleep\n")
    });
    let numbers = std::fs::read_dir(descriptors).unwrap();
    let numbers = numbers.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let numbers: BTreeSet<u32> = numbers.map(|number| number.parse().unwrap()).collect();
    // What the test was started with reaches the task as well.
    let inherited = inherited_descriptors().unwrap().into_iter();
    let expected = inherited.map(|found| found.number).chain(0..=2).collect();
    assert_eq!(numbers, expected);
    assert!(is_null(&descriptors.join("0")));
    run.stop().await;
    assert_eq!(run.wait().await, killed_by(15));
}

#[test]
fn the_agent_names_open_files_that_its_tasks_would_inherit() {
    let base = tempfile::tempdir().unwrap();
    let open = tempfile::NamedTempFile::new_in(base.path()).unwrap();
    rustix::io::fcntl_setfd(&open, rustix::io::FdFlags::empty()).unwrap();
    let agent = AgentProcess::start(&base.path().join("data"));
    let path = open.path().to_str().unwrap();
    let is_named = |line: &String| line.contains("tasks inherit") && line.contains(path);
    assert!(agent.log().iter().any(is_named), "{:#?}", agent.log());
    assert!(agent.stop().success());
}
