//! What an agent leaves behind: core dumps, and a data directory that something damaged.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Output};

use nomad_csi_model::diagnostic::Code;

use crate::agent_process::{AgentProcess, processes_with, program};
use crate::damage::damage;
use crate::random::Random;
use crate::volumes::{create, list};

const USER: u32 = 61_234;

fn agent(data: &Path) -> Command {
    let mut command = program(["agent", "--dev", "--http", "127.0.0.1:0"]);
    command.arg("--data-dir").arg(data);
    command
}

/// A data directory of an agent that created one volume.
fn used() -> tempfile::TempDir {
    let data = tempfile::tempdir().unwrap();
    let agent = AgentProcess::start(data.path());
    create(&agent.address, "first").unwrap().json();
    assert!(agent.stop().success());
    data
}

#[test]
fn a_journal_that_is_gone_is_not_replaced() {
    let data = used();
    let journal = data.path().join("journal.redb");
    let bytes = std::fs::read(&journal).unwrap();
    std::fs::remove_file(&journal).unwrap();
    let Output { status, stderr, .. } = agent(data.path()).output().unwrap();
    let message = String::from_utf8(stderr).unwrap();
    assert_eq!(status.code(), Some(1), "{message}");
    for expected in [
        &format!("error[{}]", Code::JournalMissing),
        "restore `journal.redb`",
        "start with an empty data directory",
    ] {
        assert!(message.contains(expected), "{expected}: {message}");
    }
    assert!(!journal.exists(), "nothing was created");
    std::fs::write(&journal, bytes).unwrap();
    let agent = AgentProcess::start(data.path());
    assert_eq!(list(&agent.address).len(), 1, "the restored journal has the volume");
}

/// Starts an agent of another user. Returns the owners of its process and of its plugin's process: a
/// process that makes no core dump belongs to root.
fn owners(arguments: &[&str]) -> [u32; 2] {
    let base = tempfile::tempdir().unwrap();
    std::fs::set_permissions(base.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let data = base.path().join("data");
    std::fs::create_dir(&data).unwrap();
    chown(&data, Some(USER), None).unwrap();
    std::fs::set_permissions(&data, std::fs::Permissions::from_mode(0o700)).unwrap();
    let mut command = agent(&data);
    command.args(arguments).uid(USER).current_dir(&data);
    let agent = AgentProcess::run(command);
    let plugin = processes_with(&["serve", data.to_str().unwrap()]);
    let owner = |pid: u32| std::fs::metadata(format!("/proc/{pid}/mem")).unwrap().uid();
    [owner(agent.pid()), owner(plugin[0])]
}

#[test]
fn the_agent_and_its_plugin_make_no_core_dumps_unless_allowed() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: another user is needed, so run as root");
        return;
    }
    assert_eq!(owners(&[]), [0, 0]);
    assert_eq!(owners(&["--allow-core-dumps"]), [USER, USER]);
}

/// Damages one file of the plugin or of the agent in many ways. Returns what the program printed, each
/// time it was refused.
fn refusals(file: &str, seeds: u64, run: impl Fn(&Path) -> Output) -> Vec<String> {
    let data = used();
    let file = data.path().join(file);
    let whole = std::fs::read(&file).unwrap();
    let mut refused = vec![];
    for seed in 1..=seeds {
        let mut damaged = whole.clone();
        damage(&mut damaged, &mut Random(seed));
        std::fs::write(&file, damaged).unwrap();
        let Output { status, stderr, .. } = run(data.path());
        let message = String::from_utf8_lossy(&stderr).into_owned();
        assert!(!message.contains("panicked"), "seed {seed}: {message}");
        if status.code() != Some(0) {
            assert!(message.contains("error["), "seed {seed}: {message}");
            refused.push(message);
        }
    }
    refused
}

#[test]
fn a_damaged_journal_is_refused_in_words() {
    let run = |data: &Path| {
        let mut command = program(["volume", "status"]);
        command.arg(format!("--embedded={}", data.display())).output().unwrap()
    };
    let refused = refusals("journal.redb", 60, run);
    let is_named = |message: &String| message.contains("error[journal/damaged]");
    assert!(refused.iter().any(is_named), "{refused:?}");
}

#[test]
fn a_damaged_catalogue_is_refused_in_words() {
    let run = |data: &Path| {
        let state = data.join("plugins/hostpath");
        let mut command = program(["plugin", "serve", "--exit-on-stdin-eof", "--state-dir"]);
        command.arg(state).arg("--endpoint");
        command.arg(format!("unix://{}/p.sock", data.display())).output().unwrap()
    };
    let refused = refusals("plugins/hostpath/catalog.redb", 40, run);
    assert!(!refused.is_empty());
}
