//! A pipeline: one job makes a plan, and another one applies it in another checkout, where the first is gone.

use std::path::Path;
use std::process::Output;

use crate::agent_process::{AgentProcess, program};
use crate::reconcile::{VOLUME, address};

fn run(agent: &AgentProcess, folder: &Path, arguments: &[&str]) -> Output {
    let mut command = program(arguments);
    command.args(["--address", &address(agent)]);
    command.current_dir(folder).output().unwrap()
}

fn checkout() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("volumes")).unwrap();
    std::fs::write(folder.path().join("volumes/db.hcl"), VOLUME).unwrap();
    folder
}

#[test]
fn a_saved_plan_is_applied_in_another_checkout() {
    let data = tempfile::tempdir().unwrap();
    let agent = AgentProcess::start(data.path());
    let first = checkout();
    let planned = run(&agent, first.path(), &["plan", "volumes", "--out", "web.plan"]);
    assert_eq!(planned.status.code(), Some(2), "{planned:?}");
    let second = checkout();
    let plan = "web.plan";
    std::fs::copy(first.path().join(plan), second.path().join(plan)).unwrap();
    drop(first);
    let apply = || run(&agent, second.path(), &["apply", plan, "--yes"]);
    let volumes = second.path().join("volumes/db.hcl");
    std::fs::write(&volumes, VOLUME.replace("\"db\"\n", "\"other\"\n")).unwrap();
    let changed = apply();
    assert!(!changed.status.success(), "another file: {changed:?}");
    std::fs::write(&volumes, VOLUME).unwrap();
    let applied = apply();
    assert!(applied.status.success(), "{applied:?}");
    let read = agent.address.ask("GET", "/v1/volume/csi/db", None).unwrap();
    assert_eq!(read.status, 200, "{}", read.text());
    let again = apply();
    let text = String::from_utf8_lossy(&again.stderr);
    assert!(text.contains("plan/applied"), "{text}");
    assert!(agent.stop().success());
}
