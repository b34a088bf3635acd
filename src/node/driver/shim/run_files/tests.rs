//! The format of the files, which a shim of another version reads.

use std::time::Duration;

use super::*;
use crate::driver::process_id::ProcessId;
use crate::driver::shim::attach::{request_stop, wait_for_end};
use crate::driver::shim::run_spec::AgentRights;
use crate::task_run::{
    DriverConfig, LimitReached, LimitsReached, LogLimits, RunEnd, RunRequest, TaskMount,
    TaskProgram, TaskUser,
};
use nomad_csi_model::{PropagationMode, Resources};

fn run() -> (tempfile::TempDir, RunFiles) {
    let directory = tempfile::tempdir().unwrap();
    let run = RunFiles::new(&directory.path().join("run-1"));
    (directory, run)
}

fn spec(command: &str) -> RunSpec {
    let mount = TaskMount {
        source: "/volumes/db".into(),
        destination: "/data".into(),
        read_only: true,
        propagation: PropagationMode::HostToTask,
        identity: None,
    };
    let program = TaskProgram {
        command: command.into(),
        arguments: vec!["--port".to_owned(), "80".to_owned()],
        working_directory: Some("/data".into()),
    };
    let request = RunRequest {
        alloc: "a".into(),
        resources: Resources::default(),
        task: "web".to_owned(),
        config: DriverConfig::Exec(program),
        environment: [("A".to_owned(), "b".to_owned())].into(),
        user: Some(TaskUser { uid: 1, gid: 2 }),
        mounts: vec![mount],
        hidden: vec!["/etc/agent".into()],
        kill_signal: 2,
        kill_timeout: Duration::from_millis(1500),
        logs: LogLimits { file_bytes: 1000, files: 3 },
        earlier_runs: vec![],
    };
    RunSpec::of(request, AgentRights::Root).unwrap_or_else(|reason| panic!("{reason}"))
}

fn process(pid: i32) -> ProcessId {
    ProcessId { pid, start_time: 7, boot_id: "b".to_owned() }
}

fn text(run: &RunFiles, name: &str) -> String {
    std::fs::read_to_string(run.directory().join(name)).unwrap()
}

/// A task keeps its shim while the agent is upgraded, so these texts never change without a new format version.
#[test]
fn the_files_keep_their_format() {
    let (_directory, run) = run();
    run.create(&spec("/bin/server")).unwrap();
    assert_eq!(
        text(&run, "spec.json"),
        r#"{"version":1,"root":"own","command":"/bin/server","arguments":["--port","80"],"working_directory":"/data","environment":{"A":"b"},"user":{"uid":1,"gid":2},"mounts":[{"source":"/volumes/db","destination":"/data","read_only":true,"propagation":"host-to-task"}],"hidden":["/etc/agent"],"kill_signal":2,"kill_timeout_ms":1500,"logs":{"file_bytes":1000,"files":3}}"#
    );
    let reason = "r".to_owned();
    for (state, expected) in [
        (
            RunState::Starting { shim: process(5) },
            r#"{"version":1,"state":"starting","shim":{"pid":5,"start_time":7,"boot_id":"b"}}"#,
        ),
        (
            RunState::Running { shim: process(5), task: process(6) },
            r#"{"version":1,"state":"running","shim":{"pid":5,"start_time":7,"boot_id":"b"},"task":{"pid":6,"start_time":7,"boot_id":"b"}}"#,
        ),
        (
            RunState::Exited { code: Some(3), signal: None, limits: LimitsReached::NONE },
            r#"{"version":1,"state":"exited","code":3,"signal":null}"#,
        ),
        (
            RunState::Failed { reason: reason.clone() },
            r#"{"version":1,"state":"failed","reason":"r"}"#,
        ),
        (RunState::Lost { reason }, r#"{"version":1,"state":"lost","reason":"r"}"#),
    ] {
        run.write_state(&state).unwrap();
        assert_eq!(text(&run, "state.json"), expected);
        assert_eq!(run.read_state().unwrap(), Some(state));
    }
    run.request_stop().unwrap();
    assert_eq!(text(&run, "stop.json"), r#"{"version":1}"#);
    assert!(run.is_stop_requested());
}

#[test]
fn the_first_request_counts() {
    let (_directory, run) = run();
    run.create(&spec("/bin/first")).unwrap();
    run.create(&spec("/bin/second")).unwrap();
    assert!(run.read_spec().unwrap() == spec("/bin/first"));
    assert_eq!(run.read_state().unwrap(), None);
    assert!(!run.is_stop_requested());
}

#[test]
fn a_file_of_a_newer_version_is_refused_in_words() {
    let (_directory, run) = run();
    run.create(&spec("/bin/server")).unwrap();
    let path = run.directory().join("state.json");
    for (content, reason) in [
        (
            r#"{"version":2,"state":"hibernating"}"#,
            "a newer version of nomad-csi wrote it (format 2, this version reads 1); install that version again, \
             or end the task first",
        ),
        (
            r#"{"version":1,"state":"exi"#,
            "it is damaged: EOF while parsing a string at line 1 column 25",
        ),
    ] {
        std::fs::write(&path, content).unwrap();
        let error = run.read_state().unwrap_err();
        let expected = format!("cannot read `{}`: {reason}", path.display());
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn the_lock_has_one_holder() {
    let (_directory, run) = run();
    run.create(&spec("/bin/server")).unwrap();
    let lock = run.try_lock().unwrap();
    assert!(lock.is_some());
    assert!(run.try_lock().unwrap().is_none());
    drop(lock);
    assert!(run.try_lock().unwrap().is_some());
}

/// What was written and not synced is empty after a power failure, or full of zeros.
#[tokio::test]
async fn a_run_whose_files_a_power_failure_emptied_is_lost_and_not_repeated_for_ever() {
    for blank in [b"".as_slice(), &[0; 64]] {
        let (_directory, run) = run();
        run.create(&spec("/bin/first")).unwrap();
        for name in ["spec.json", "state.json"] {
            std::fs::write(run.directory().join(name), blank).unwrap();
        }
        run.create(&spec("/bin/second")).unwrap();
        assert!(run.read_spec().unwrap() == spec("/bin/second"));
        let state = run.read_state().unwrap().unwrap();
        assert!(!state.is_final());
        request_stop(&run).unwrap();
        let end = wait_for_end(&run).await.unwrap();
        let reason = "the machine was restarted".to_owned();
        assert_eq!(end, Some(RunEnd::Lost { reason }));
        assert!(run.read_state().unwrap().unwrap().is_final());
    }
}

/// A shim that lives holds the lock, whatever its file says.
#[tokio::test]
async fn a_run_whose_supervisor_lives_is_not_settled() {
    let (_directory, run) = run();
    run.create(&spec("/bin/first")).unwrap();
    std::fs::write(run.directory().join("state.json"), "").unwrap();
    let lock = run.try_lock().unwrap().unwrap();
    let mut waiting = std::pin::pin!(wait_for_end(&run));
    let early = tokio::time::timeout(Duration::from_millis(300), &mut waiting).await;
    assert!(early.is_err(), "{early:?}");
    let state = RunState::Exited { code: Some(0), signal: None, limits: LimitsReached::NONE };
    run.write_state(&state).unwrap();
    drop(lock);
    let end = waiting.await.unwrap();
    assert!(matches!(end, Some(RunEnd::Exited { code: Some(0), .. })), "{end:?}");
}

/// The shim may end, or begin, between the look for it and the write.
#[test]
fn a_recovered_state_never_goes_back() {
    let (_directory, run) = run();
    let starting = || Some(RunState::Starting { shim: process(9) });
    run.recover(process(9)).unwrap();
    assert_eq!(run.read_state().unwrap(), starting());
    let running = |shim| RunState::Running { shim: process(shim), task: process(10) };
    run.write_state(&running(9)).unwrap();
    run.recover(process(9)).unwrap();
    assert_eq!(run.read_state().unwrap(), Some(running(9)));
    run.write_state(&running(8)).unwrap();
    run.recover(process(9)).unwrap();
    assert_eq!(run.read_state().unwrap(), starting(), "it names another shim");
    let end = RunState::Exited { code: Some(0), signal: None, limits: LimitsReached::NONE };
    run.write_state(&end).unwrap();
    run.recover(process(9)).unwrap();
    assert_eq!(run.read_state().unwrap(), Some(end));
    for damaged in ["", "{\"sta"] {
        std::fs::write(run.directory().join("state.json"), damaged).unwrap();
        run.recover(process(9)).unwrap();
        assert_eq!(run.read_state().unwrap(), starting(), "{damaged:?}");
    }
}

/// On a full disk, the final state takes the place of the space that was kept.
#[test]
fn a_final_state_has_space_of_its_own() {
    let (_directory, run) = run();
    run.create(&spec("/bin/server")).unwrap();
    let starting = RunState::Starting { shim: process(5) };
    run.write_state(&starting).unwrap();
    run.reserve_state().unwrap();
    let reserve = run.directory().join(RESERVE);
    let kept = std::fs::metadata(&reserve).unwrap();
    assert_eq!(kept.len(), 32 << 10);
    assert!(std::os::unix::fs::MetadataExt::blocks(&kept) * 512 >= 32 << 10);
    let failed = |reason: String| RunState::Failed { reason };
    let long = failed("x".repeat(RESERVED));
    assert!(run.write_reserved(&long).is_err(), "it has no place there");
    assert_eq!(run.read_state().unwrap(), Some(starting));
    for state in [failed("no space".to_owned()), RunState::CANCELLED] {
        run.reserve_state().unwrap();
        run.write_reserved(&state).unwrap();
        assert_eq!(run.read_state().unwrap(), Some(state));
        assert!(!reserve.exists());
    }
    // With space on the disk, the reserve is given back.
    run.reserve_state().unwrap();
    run.write_state(&RunState::CANCELLED).unwrap();
    assert!(!reserve.exists());
    assert!(text(&run, "state.json").len() < 200);
}

/// An earlier version wrote neither limits nor what was reached.
#[test]
fn limits_are_read_from_the_files_of_every_version() {
    let (_directory, run) = run();
    let limits =
        LimitsReached { memory: Some(LimitReached { count: 1, limit: 2 }), processes: None };
    let state = RunState::CANCELLED.with_limits(limits);
    run.create(&spec("/bin/server")).unwrap();
    run.write_state(&state).unwrap();
    assert_eq!(
        text(&run, "state.json"),
        r#"{"version":1,"state":"exited","code":null,"signal":null,"limits":{"memory":{"count":1,"limit":2}}}"#
    );
    assert_eq!(run.read_state().unwrap(), Some(state));
    let spec = run.read_spec().unwrap();
    assert_eq!(spec.control_group, None);
    assert!(!spec.limits_process_numbers);
}
