//! `--embedded`: commands with their own agent, one after another and concurrently.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use rustix::process::Signal;

use crate::agent_process::{AgentProcess, PROGRAM, processes_with, program, signal_process};
use crate::http::Address;
use crate::plugin_client::{Client, channel};
use crate::volumes::{assert_volumes, list};
use crate::wait::{until_async, until_true};

/// A data directory and a directory for specifications.
struct Bench {
    base: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        Self { base: tempfile::tempdir().unwrap() }
    }

    fn data(&self) -> PathBuf {
        self.base.path().join("data")
    }

    fn specification(&self, ids: &[String]) -> PathBuf {
        let path = self.base.path().join(format!("{}.hcl", ids[0]));
        let volumes = ids.iter().map(|id| format!(
            "volume \"{id}\" {{\n  type = \"csi\"\n  name = \"{id}\"\n  plugin_id = \"hostpath\"\n  capability {{\n    access_mode = \"single-node-writer\"\n    attachment_mode = \"file-system\"\n  }}\n}}\n"
        ));
        std::fs::write(&path, volumes.collect::<String>()).unwrap();
        path
    }

    /// `volume create` of volumes with these IDs.
    fn creation(&self, ids: &[String]) -> Command {
        let mut command = self.command(&["volume", "create"]);
        command.arg("-f").arg(self.specification(ids));
        command
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = program(words);
        command.arg(format!("--embedded={}", self.data().display()));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn plugins(&self) -> Vec<u32> {
        processes_with(&["plugin", "serve", &self.data().to_string_lossy()])
    }

    /// Waits until the plugin of a running command has this many volumes.
    fn wait_for_volumes(&self, count: usize) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(until_async("some volumes", async || {
            let process = *self.plugins().first().ok_or("no plugin runs")?;
            let arguments = std::fs::read_to_string(format!("/proc/{process}/cmdline"));
            let arguments = arguments.map_err(|error| error.to_string())?;
            let socket = arguments.split('\0').find_map(|word| word.strip_prefix("unix://"));
            let socket = Path::new(socket.ok_or("the plugin has no socket")?);
            let answer = Client::over(channel(socket)).list(0, "").await;
            let (volumes, _) = answer.map_err(|status| status.to_string())?;
            let message = || format!("{} of {count}", volumes.len());
            (volumes.len() >= count).then_some(()).ok_or_else(message)
        }));
    }
}

fn names(prefix: &str, number: usize) -> Vec<String> {
    (0..number).map(|at| format!("{prefix}{at}")).collect()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn succeeded(output: Output) -> Output {
    assert!(output.status.success(), "{}: {}", output.status, stderr(&output));
    output
}

/// Lists all volumes with an embedded agent.
fn listed(data: &Path) -> BTreeSet<String> {
    let agent = AgentProcess::start(data);
    let ids: BTreeSet<String> = list(&agent.address).into_iter().map(|(id, _)| id).collect();
    assert_volumes(&agent.address, &ids);
    assert!(agent.stop().success());
    ids
}

#[test]
fn a_command_needs_no_agent_and_leaves_nothing_running() {
    let bench = Bench::new();
    succeeded(bench.creation(&names("v", 3)).output().unwrap());
    assert!(bench.plugins().is_empty());
    let sockets = std::fs::read_dir(bench.data().join("run"));
    assert!(sockets.is_err(), "sockets still exist");
    let status = succeeded(bench.command(&["volume", "status", "-o", "name"]).output().unwrap());
    assert_eq!(String::from_utf8(status.stdout).unwrap().lines().count(), 3);
}

/// A volume of a set is deregistered by hand. The next apply registers the same data, with the file in
/// it, and creates nothing beside it.
#[test]
fn an_apply_restores_the_data_of_a_registration_that_was_removed() {
    let bench = Bench::new();
    let specification = bench.specification(&names("pg", 1));
    let specification = specification.to_string_lossy();
    let run = |words: &[&str]| {
        let output = succeeded(bench.command(words).output().unwrap());
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let apply = ["apply", "-f", &specification, "--set", "prod", "--yes"];
    let apply = [&apply[..], &["-o", "jsonpath=$.ExternalID"]].concat();
    let external = run(&apply);
    let data = bench.data().join("plugins/hostpath/volumes").join(&external);
    std::fs::create_dir(&data).unwrap();
    let written = data.join("written-before");
    std::fs::write(&written, "data").unwrap();
    let by_hand = ["volume", "deregister", "pg0", "--yes", "--ledger", "none"];
    run(&by_hand);
    assert_eq!(run(&apply), external);
    assert_eq!(std::fs::read(&written).unwrap(), b"data");
    assert_eq!(listed(&bench.data()), names("pg", 1).into_iter().collect());
}

#[test]
fn concurrent_commands_on_one_directory_wait_for_each_other() {
    let bench = Bench::new();
    let running: Vec<Child> =
        (0..4).map(|at| bench.creation(&names(&format!("c{at}-"), 5)).spawn().unwrap()).collect();
    for child in running {
        succeeded(child.wait_with_output().unwrap());
    }
    assert_eq!(listed(&bench.data()).len(), 20);
}

#[test]
fn a_running_agent_is_used_and_keeps_running() {
    let bench = Bench::new();
    let agent = AgentProcess::start(&bench.data());
    succeeded(bench.creation(&names("v", 2)).output().unwrap());
    assert_eq!(bench.plugins().len(), 1);
    assert_eq!(list(&Address::Unix(agent.socket.clone())).len(), 2);
    assert!(agent.stop().success());
}

/// Ctrl-C reaches the whole process group. Acknowledged volumes survive, nothing keeps running, and the
/// next run creates the rest.
#[test]
fn an_interrupted_command_leaves_nothing_running_and_can_be_repeated() {
    let bench = Bench::new();
    let ids = names("v", 400);
    let child = bench.creation(&ids).spawn().unwrap();
    bench.wait_for_volumes(20);
    signal_process(child.id(), Signal::INT);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    assert!(bench.plugins().is_empty());
    let created = listed(&bench.data()).len();
    assert!((20..ids.len()).contains(&created), "{created} were created");

    succeeded(bench.creation(&ids).output().unwrap());
    assert_eq!(listed(&bench.data()), ids.into_iter().collect());
}

#[test]
fn a_killed_command_is_completed_by_the_next() {
    let bench = Bench::new();
    let ids = names("v", 100);
    let mut child = bench.creation(&ids).spawn().unwrap();
    bench.wait_for_volumes(20);
    child.kill().unwrap();
    child.wait().unwrap();
    // It detects the end of its standard input.
    until_true("the plugin to end", || bench.plugins().is_empty());
    succeeded(bench.creation(&ids).output().unwrap());
    assert_eq!(listed(&bench.data()), ids.into_iter().collect());
}

/// The command fails with the last output of the plugin instead of hanging.
#[test]
fn a_plugin_that_cannot_start_is_reported_with_its_reason() {
    let bench = Bench::new();
    succeeded(bench.creation(&names("v", 1)).output().unwrap());
    let state = bench.data().join("plugins/hostpath");
    let socket = bench.base.path().join("other.sock");
    let mut other = Command::new(PROGRAM)
        .args(["plugin", "serve", "--state-dir"])
        .arg(&state)
        .arg("--endpoint")
        .arg(format!("unix://{}", socket.display()))
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    until_true("the other plugin to have the directory", || socket.exists());
    let output = bench.command(&["volume", "status"]).output().unwrap();
    other.kill().unwrap();
    other.wait().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let stderr = stderr(&output);
    assert!(stderr.contains("did not become healthy"), "{stderr}");
    assert!(stderr.contains("another plugin uses the state directory"), "{stderr}");
}
