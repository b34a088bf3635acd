//! The sessions in the README, in docs/apply.md, docs/cluster.md and docs/environments.md run as written and print the documented output.
//!
//! A session is a `console` block: commands after `$ `, each followed by its output on both streams.
//! Generated IDs and the home directory are replaced on both sides. `NOMAD_CSI_BLESS=1` updates the
//! sessions. Commands that start with `cargo test` or `export` do not run, and neither do the blocks
//! after them in the same section. A section that starts an agent has a test of its own, with an agent.

use std::path::Path;
use std::process::Command;

use crate::agent_process::{
    AgentProcess, PROGRAM, processes_with, program, runtime_directory, signal_process,
};
use crate::hostpath_fixture::run_in_namespace;
use crate::wait::until_true;

/// The prefix of commands that build the program first.
const BUILD_AND_RUN: &str = "cargo run -- ";
const HOME: &str = "/home/operator";
/// The name of this machine in documents.
const MACHINE: &str = "laptop";
/// The command that starts an agent in the background.
const START_AGENT: &str = "nomad-csi agent";
/// The command that kills it.
const KILL_AGENT: &str = "pkill -KILL";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Runs one command in the root directory of the repository.
fn run(command: &str, home: &Path) -> String {
    run_against(command, home, "")
}

/// Runs one command against a server.
fn run_against(command: &str, home: &Path, address: &str) -> String {
    let program = Path::new(PROGRAM).parent().expect("a parent directory");
    let command = command.replace(BUILD_AND_RUN, "nomad-csi ");
    let output = Command::new("sh")
        .args(["-c", &format!("exec 2>&1; {command}")])
        .current_dir(root())
        .env_clear()
        .env("PATH", format!("{}:/usr/bin:/bin", program.display()))
        .env("HOME", home)
        .env("XDG_RUNTIME_DIR", runtime_directory())
        .envs((!address.is_empty()).then_some(("NOMAD_ADDR", address)))
        .stdin(std::process::Stdio::null())
        .output()
        .expect("a shell");
    let text = String::from_utf8(output.stdout).expect("UTF-8 output");
    text.replace(&home.display().to_string(), HOME)
}

/// Replaces every UUID with the nil UUID.
fn without_ids(text: &str) -> String {
    const PLAIN: &str = "00000000-0000-0000-0000-000000000000";
    let is_uuid = |word: &str| {
        word.len() == 36
            && word.bytes().enumerate().all(|(at, byte)| match at {
                8 | 13 | 18 | 23 => byte == b'-',
                _ => byte.is_ascii_hexdigit(),
            })
    };
    let mut plain = String::new();
    let mut rest = text;
    while !rest.is_empty() {
        if rest.get(..36).is_some_and(is_uuid) {
            plain.push_str(PLAIN);
            rest = &rest[36..];
        } else {
            let next = rest.chars().next().map_or(1, char::len_utf8);
            plain.push_str(&rest[..next]);
            rest = &rest[next..];
        }
    }
    plain
}

/// Removes sizes, which the plugin reports only as root, and ages.
fn without_sizes(text: &str) -> String {
    let lines = text.lines().map(|line| {
        let varies = ["Capacity  ", "    lost: ", "error[plan/applied]: "];
        let start = varies.into_iter().find(|start| line.starts_with(start));
        start.unwrap_or(line)
    });
    let text: String = lines.map(|line| format!("{line}\n")).collect();
    text.replace(", 1.0 GiB)", ")")
}

/// Returns the document with the actual output of every session.
fn replayed(document: &str, home: &Path) -> String {
    let mut lines = document.lines().peekable();
    let mut written = String::new();
    let mut runs = true;
    while let Some(line) = lines.next() {
        written.push_str(line);
        written.push('\n');
        if line.starts_with("## ") {
            runs = true;
        }
        if line != "```console" {
            continue;
        }
        while let Some(line) = lines.next_if(|line| *line != "```") {
            let command = line.strip_prefix("$ ");
            let Some(command) = command else {
                if !runs {
                    written.push_str(line);
                    written.push('\n');
                }
                continue;
            };
            written.push_str(line);
            written.push('\n');
            let is_elsewhere = ["cargo test", "export", START_AGENT];
            runs &= !is_elsewhere.iter().any(|start| command.starts_with(start));
            if runs {
                written.push_str(&run(command, home));
            }
        }
    }
    written
}

#[test]
fn the_sessions_of_the_readme_match_the_program() {
    assert_sessions_match("README.md");
}

#[test]
fn the_sessions_of_the_apply_page_match_the_program() {
    assert_sessions_match("docs/apply.md");
}

#[test]
fn the_sessions_of_the_cluster_page_match_the_program() {
    assert_sessions_match("docs/cluster.md");
}

#[test]
fn the_sessions_of_the_environments_page_match_the_program() {
    assert_sessions_match("docs/environments.md");
}

/// The agent of a section.
struct Session {
    home: tempfile::TempDir,
    agent: Option<AgentProcess>,
}

impl Session {
    fn run(&mut self, command: &str) -> String {
        if command.starts_with(START_AGENT) {
            let mut start = program(["agent", "--dev", "--http", "127.0.0.1:0", "--data-dir"]);
            start.arg(self.home.path().join("agent-data"));
            start.env("PATH", std::env::var_os("PATH").unwrap_or_default());
            self.agent = Some(AgentProcess::run(start));
            return String::new();
        }
        let agent = self.agent.take().expect("an agent");
        if command.starts_with(KILL_AGENT) {
            agent.kill();
            return String::new();
        }
        let address = format!("http://{}", agent.address.tcp());
        let run = || run_against(command, self.home.path(), &address);
        let mut text = run();
        if command.contains("alloc logs") {
            // The task is running, and may not have written yet.
            until_true("the task to write", || {
                text = run();
                !text.is_empty()
            });
        }
        self.agent = Some(agent);
        text
    }
}

/// Replaces short IDs, ages, concurrency and the name of this machine.
fn without_machine(text: &str) -> String {
    let machine = rustix::system::uname();
    let machine = machine.nodename().to_string_lossy();
    let is_short_id =
        |word: &str| word.len() == 8 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_age = |word: &str| {
        let number = word.trim_end_matches(['s', 'm']);
        number.len() < word.len() && number.bytes().all(|byte| byte.is_ascii_digit())
    };
    let plain = |word: &str| {
        let inner = word.trim_matches(['(', ')']);
        if is_short_id(inner) {
            "ID".to_owned()
        } else if is_age(inner) {
            "AGE".to_owned()
        } else if inner == machine || inner == MACHINE {
            "machine".to_owned()
        } else {
            word.to_owned()
        }
    };
    let lines = without_ids(text);
    let mut shown: Vec<String> = vec![];
    for line in lines.lines() {
        let words: Vec<_> = line.split_whitespace().map(plain).collect();
        let line = words.join(" ");
        // How many states of an allocation are seen on its way depends on the time.
        let is_same = |last: &String| {
            last.starts_with("allocation ID (") && line.starts_with("allocation ID (")
        };
        if shown.last().is_some_and(is_same) {
            shown.pop();
        }
        shown.push(line);
    }
    shown.join("\n")
}

#[test]
fn the_session_of_jobs_in_the_readme_matches_the_program() {
    let test = "readme::the_session_of_jobs_in_the_readme_matches_the_program";
    run_in_namespace(test, async {
        let path = root().join("README.md");
        let document = std::fs::read_to_string(&path).expect("a readable document");
        let start = document.find("## A job that uses a volume").expect("the section");
        let end = start + document[start..].find("\n## The embedded agent").expect("its end");
        let section = &document[start..end];
        let mut session =
            Session { home: tempfile::tempdir().expect("a new home directory"), agent: None };
        let mut found = String::new();
        let mut is_session = false;
        for line in section.split_inclusive('\n') {
            match (line.trim_end(), line.strip_prefix("$ ")) {
                ("```console", _) => is_session = true,
                ("```", _) => is_session = false,
                (_, Some(command)) if is_session => {
                    found.push_str(line);
                    found.push_str(&session.run(command.trim_end()));
                    continue;
                }
                _ if is_session => continue,
                _ => {}
            }
            found.push_str(line);
        }
        let marker = session.home.path().to_string_lossy().into_owned();
        assert!(session.agent.take().expect("an agent").stop().success());
        let left = processes_with(&[&marker]);
        for process in &left {
            signal_process(*process, rustix::process::Signal::KILL);
        }
        assert!(left.is_empty(), "the session left processes {left:?}");
        if std::env::var_os("NOMAD_CSI_BLESS").is_some() {
            let machine = rustix::system::uname();
            let machine = machine.nodename().to_string_lossy();
            let found = found.replace(&format!("on node {machine}"), &format!("on node {MACHINE}"));
            let blessed = [&document[..start], &found, &document[end..]].concat();
            std::fs::write(&path, blessed).expect("a writable document");
            return;
        }
        assert_eq!(without_machine(section), without_machine(&found));
    });
}

fn assert_sessions_match(document: &str) {
    let path = root().join(document);
    let document = std::fs::read_to_string(&path).expect("a readable document");
    let home = tempfile::tempdir().expect("a new home directory");
    let replayed = replayed(&document, home.path());
    if std::env::var_os("NOMAD_CSI_BLESS").is_some() {
        std::fs::write(&path, &replayed).expect("a writable document");
        return;
    }
    let plain = |text: &str| without_sizes(&without_ids(text));
    let (expected, found) = (plain(&document), plain(&replayed));
    let differing = expected.lines().zip(found.lines()).find(|(left, right)| left != right);
    assert_eq!(expected, found, "first difference: {differing:#?}");
}
