//! `apply` and `volume delete` while their server is killed with `kill -9`: one message and a wait, or one
//! summary at the end.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use crate::agent_process::{AgentProcess, program};
use crate::volumes::assert_volumes;
use crate::wait::until_true;

const VOLUMES: usize = 60;
/// The server is killed when this number of volumes is created.
const CREATED: usize = 15;

/// An agent that is started again at its address, and the specifications of a set.
struct Fixture {
    data: tempfile::TempDir,
    folder: tempfile::TempDir,
    ids: BTreeSet<String>,
    agent: Option<AgentProcess>,
    address: String,
}

impl Fixture {
    fn start() -> Self {
        let (data, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let ids: BTreeSet<String> = (0..VOLUMES).map(|number| format!("v{number:02}")).collect();
        let volumes = ids.iter().map(|id| {
            format!(
                "volume \"{id}\" {{\n  type = \"csi\"\n  name = \"{id}\"\n  plugin_id = \"hostpath\"\n  \
                 capability {{\n    access_mode = \"single-node-writer\"\n    \
                 attachment_mode = \"file-system\"\n  }}\n}}\n"
            )
        });
        let text: String = volumes.collect();
        std::fs::write(folder.path().join("volumes.hcl"), text).unwrap();
        let agent = AgentProcess::start(data.path());
        let address = agent.address.tcp().to_string();
        Self { data, folder, ids, agent: Some(agent), address }
    }

    /// Starts the agent again at its address.
    fn restart(&mut self) {
        let mut command = program(["agent", "--dev", "--http", &self.address, "--data-dir"]);
        command.arg(self.data.path());
        self.agent = Some(AgentProcess::run(command));
    }

    fn apply(&self, arguments: &[&str]) -> RunningCommand {
        let apply = ["apply", "-f", "volumes.hcl", "--set", "fleet", "--yes", "-o", "name"];
        self.start_command(&[&apply[..], arguments].concat())
    }

    fn start_command(&self, arguments: &[&str]) -> RunningCommand {
        let child = program(arguments)
            .args(["--address", &format!("http://{}", self.address)])
            .current_dir(self.folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        RunningCommand::follow(child)
    }

    /// Starts an apply and kills the agent in the middle of it.
    fn apply_until_killed(&mut self, arguments: &[&str]) -> RunningCommand {
        let apply = self.apply(arguments);
        apply.wait_for("created", CREATED);
        self.agent.take().unwrap().kill();
        apply
    }

    /// A run after the outage: every volume exists once, and nothing is left to do.
    fn assert_complete(&self) {
        let (code, lines) = self.apply(&[]).end();
        assert_eq!(code, Some(0), "{lines:#?}");
        let agent = self.agent.as_ref().unwrap();
        assert_volumes(&agent.address, &self.ids);
        let plan = self.run(&["plan", "-f", "volumes.hcl", "--set", "fleet"]);
        let text = String::from_utf8_lossy(&plan.stdout) + String::from_utf8_lossy(&plan.stderr);
        assert!(text.contains(&format!("{VOLUMES} unchanged.")), "{text}");
    }

    fn run(&self, arguments: &[&str]) -> Output {
        program(arguments)
            .args(["--address", &format!("http://{}", self.address)])
            .current_dir(self.folder.path())
            .output()
            .unwrap()
    }
}

/// A running command and its status lines.
struct RunningCommand {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
    reader: JoinHandle<()>,
}

impl RunningCommand {
    fn follow(mut child: Child) -> Self {
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let lines = Arc::new(Mutex::new(vec![]));
        let sink = Arc::clone(&lines);
        let reader = std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                sink.lock().unwrap().push(line);
            }
        });
        Self { child, lines, reader }
    }

    fn count(&self, word: &str) -> usize {
        count(&self.lines.lock().unwrap(), word)
    }

    fn wait_for(&self, word: &str, number: usize) {
        until_true(word, || self.count(word) >= number);
    }

    fn end(mut self) -> (Option<i32>, Vec<String>) {
        let code = self.child.wait().unwrap().code();
        self.reader.join().unwrap();
        let lines = self.lines.lock().unwrap().clone();
        (code, lines)
    }
}

fn count(lines: &[String], word: &str) -> usize {
    lines.iter().filter(|line| line.contains(word)).count()
}

fn is_error(line: &&String) -> bool {
    line.starts_with("error[")
}

/// The apply waits, goes on, and says so once. Only requests that were sent when the agent was killed may
/// have an unknown outcome.
#[test]
fn an_apply_goes_on_when_its_server_is_back() {
    let mut fixture = Fixture::start();
    let apply = fixture.apply_until_killed(&[]);
    apply.wait_for("does not respond", 1);
    fixture.restart();
    let (code, lines) = apply.end();
    assert_eq!(count(&lines, "does not respond"), 1, "{lines:#?}");
    assert_eq!(count(&lines, "responds again"), 1, "{lines:#?}");
    assert_eq!(count(&lines, "not started"), 0, "{lines:#?}");
    let unknown = lines.iter().filter(is_error).count();
    assert_eq!(code, Some(i32::from(unknown > 0)), "{lines:#?}");
    assert!(count(&lines, ": created") >= VOLUMES - 16, "{lines:#?}");
    fixture.assert_complete();
}

/// One error says what was done, what is unknown and what was not begun. The lock of the ended process
/// makes no run wait.
#[test]
fn an_apply_stops_once_when_its_server_stays_away() {
    let mut fixture = Fixture::start();
    let apply = fixture.apply_until_killed(&["--server-wait", "1s"]);
    let (code, lines) = apply.end();
    assert_eq!(code, Some(1), "{lines:#?}");
    let errors: Vec<_> = lines.iter().filter(is_error).collect();
    assert_eq!(errors.len(), 1, "{lines:#?}");
    assert!(errors[0].starts_with("error[apply/server-away]"), "{lines:#?}");
    assert_eq!(count(&lines, "does not respond"), 2, "it begins and ends: {lines:#?}");
    assert!(count(&lines, "not begun") > 0, "{lines:#?}");
    fixture.restart();
    fixture.assert_complete();
}

/// `kill -9` of the apply leaves its lock, which the next run takes over.
#[test]
fn the_lock_of_a_killed_apply_is_taken_over() {
    let mut fixture = Fixture::start();
    let mut apply = fixture.apply(&["--parallelism", "1"]);
    apply.wait_for("created", 1);
    apply.child.kill().unwrap();
    drop(apply.end());
    let (code, lines) = fixture.apply(&[]).end();
    assert_eq!(code, Some(0), "{lines:#?}");
    assert_eq!(count(&lines, "taking over the lock"), 1, "{lines:#?}");
    assert_eq!(count(&lines, "waiting up to"), 0, "{lines:#?}");
    drop(fixture.agent.take());
    fixture.restart();
    fixture.assert_complete();
}

/// A removal waits like an apply. A volume whose request was lost on its way is looked for, and not removed
/// twice.
#[test]
fn a_delete_goes_on_when_its_server_is_back() {
    let mut fixture = Fixture::start();
    let (code, lines) = fixture.apply(&[]).end();
    assert_eq!(code, Some(0), "{lines:#?}");
    let all = fixture.ids.clone();
    let ids: Vec<&str> = all.iter().map(String::as_str).collect();
    let delete = fixture.start_command(&[&["volume", "delete", "--yes"], &ids[..]].concat());
    delete.wait_for("deleted", CREATED);
    fixture.agent.take().unwrap().kill();
    delete.wait_for("does not respond", 1);
    fixture.restart();
    let (code, lines) = delete.end();
    assert_eq!(count(&lines, "does not respond"), 1, "{lines:#?}");
    assert_eq!(count(&lines, "responds again"), 1, "{lines:#?}");
    assert_eq!(count(&lines, "not started"), 0, "{lines:#?}");
    let unknown = lines.iter().filter(is_error).count();
    assert!(unknown <= 16, "{lines:#?}");
    assert_eq!(count(&lines, "only the operator"), 0, "{lines:#?}");
    assert_eq!(code, Some(i32::from(unknown > 0)), "{lines:#?}");
    let again = ["volume", "delete", "--yes", "--if-exists"];
    let (code, lines) = fixture.start_command(&[&again[..], &ids[..]].concat()).end();
    assert_eq!(code, Some(0), "{lines:#?}");
    let agent = fixture.agent.as_ref().unwrap();
    assert_volumes(&agent.address, &BTreeSet::new());
}
