//! Terminal behaviour: live progress lines and shell completion.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex};

use nomad_csi::cli::{Environment, Exit, OutputStream};
use tokio::runtime::Runtime;

use crate::support::hermetic::{Redirect, RunResult, run_in};
use crate::support::http_server::{ReceivedRequest, Reply, Server, json, response, text};
use crate::support::wait::until;

const SPECIFICATION: &str = r#"
id        = "db0"
name      = "db0"
type      = "csi"
plugin_id = "ebs0"
capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}
"#;

/// A terminal that records everything written to it, including control codes.
#[derive(Clone, Default)]
struct Terminal(Arc<Mutex<Vec<u8>>>);

impl Write for Terminal {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("unpoisoned").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Terminal {
    fn written(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().expect("unpoisoned")).into_owned()
    }

    /// Returns the character before each occurrence of `words`.
    fn drawn_before(&self, words: &str) -> BTreeSet<char> {
        let written = self.written();
        let places = written.match_indices(words);
        places.filter_map(|(at, _)| written[..at].trim_end().chars().next_back()).collect()
    }

    /// Returns the current lines on the screen.
    fn screen(&self) -> Vec<String> {
        let (mut lines, mut row, mut column) = (vec![String::new()], 0_usize, 0_usize);
        let written = self.written();
        let mut rest = written.chars();
        while let Some(c) = rest.next() {
            match c {
                '\r' => column = 0,
                '\n' => {
                    (row, column) = (row + 1, 0);
                    lines.resize(lines.len().max(row + 1), String::new());
                }
                '\u{1b}' => match code(&mut rest) {
                    (number, 'A') => row = row.saturating_sub(number),
                    (number, 'B') => row = (row + number).min(lines.len() - 1),
                    (number, 'C') => column += number,
                    (number, 'D') => column = column.saturating_sub(number),
                    (_, 'K') => lines[row].clear(),
                    (_, 'm') => {}
                    other => panic!("unsupported control code: {other:?}"),
                },
                c => {
                    let mut line: Vec<char> = lines[row].chars().collect();
                    line.resize(line.len().max(column + 1), ' ');
                    line[column] = c;
                    lines[row] = line.into_iter().collect();
                    column += 1;
                }
            }
        }
        let lines = lines.iter().map(|line| line.trim_end().to_owned());
        lines.filter(|line| !line.is_empty()).collect()
    }
}

/// Parses the number and the letter of a cursor control code.
fn code(rest: &mut impl Iterator<Item = char>) -> (usize, char) {
    assert_eq!(rest.next(), Some('['), "a control code starts with `[`");
    let mut number = String::new();
    for c in rest {
        if c.is_ascii_alphabetic() {
            return (number.parse().unwrap_or(1), c);
        }
        number.push(c);
    }
    panic!("unterminated control code")
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime")
}

/// Returns a server that creates `db0` after `may_answer` returns.
fn creating(
    may_answer: impl Fn() + Send + Sync,
) -> impl Fn(&ReceivedRequest, usize) -> Reply + Send + Sync {
    let created = Mutex::new(false);
    move |seen, _| {
        let mut created = created.lock().expect("unpoisoned");
        let line = seen.line();
        if line.starts_with("PUT") {
            may_answer();
            *created = true;
            return json(r#"{"Volumes":[{"ID":"db0","ExternalID":"vol-1"}]}"#);
        }
        if line.starts_with("GET /v1/regions") {
            return json(r#"["global"]"#);
        }
        if line.starts_with("GET /v1/agent/self") {
            return json(r#"{"config":{"Version":{"Version":"2.0.5"}}}"#);
        }
        if ["nodes", "volumes?", "allocations"]
            .iter()
            .any(|list| line.starts_with(&format!("GET /v1/{list}")))
        {
            return json("[]");
        }
        if line.starts_with("GET /v1/plugin/csi/ebs0") {
            return json(
                r#"{"ID":"ebs0","ControllerRequired":true,"ControllersExpected":1,"ControllersHealthy":1}"#,
            );
        }
        if *created {
            return json(
                r#"{"ID":"db0","Name":"db0","Namespace":"default","ExternalID":"vol-1","PluginID":"ebs0","MountOptions":{},
                "RequestedCapabilities":[{"AccessMode":"single-node-writer","AttachmentMode":"file-system"}]}"#,
            );
        }
        text(404, "volume not found")
    }
}

#[test]
fn a_terminal_shows_a_live_line_during_a_creation_and_then_its_duration() {
    let directory = tempfile::tempdir().expect("a new directory");
    std::fs::write(directory.path().join("db0.hcl"), SPECIFICATION).expect("a writable file");
    let terminal = Terminal::default();
    let (runtime, watched) = (runtime(), terminal.clone());
    let wait_for_live_line = move || {
        until("the live line to change", || {
            let seen = watched.drawn_before("volume db0: creating");
            (seen.len() > 2).then_some(()).ok_or_else(|| watched.written())
        });
        let screen = watched.screen();
        let lines = screen.iter().filter(|line| line.contains("volume db0: creating"));
        assert_eq!(lines.count(), 1, "the line is redrawn in place: {screen:#?}");
    };
    let server = runtime.block_on(Server::start(creating(wait_for_live_line)));
    let line = "volume create -f db0.hcl -o name";
    let result = run_in(directory.path(), line, |environment| {
        environment.servers = Arc::new(Redirect::to(&server.url()));
        environment.stderr = OutputStream { writer: Box::new(terminal.clone()), is_terminal: true };
    });
    let screen = terminal.screen();
    assert_eq!(result.exit, Exit::Done, "{screen:#?}");
    assert_eq!(result.text, "db0\n");
    let [line] = screen.as_slice() else { panic!("expected one line: {screen:#?}") };
    let duration = line.strip_prefix("volume db0: created (external ID vol-1) in ");
    let seconds = duration.and_then(|rest| rest.strip_suffix(" s"));
    let seconds: f64 = seconds.and_then(|s| s.parse().ok()).expect(line);
    assert!(seconds > 0.0, "{line}");
}

/// Completes the last of these words.
fn completed(directory: &Path, server: &Server, words: &str) -> RunResult {
    run_in(directory, &format!("-- nomad-csi {words}"), |environment| {
        environment.servers = Arc::new(Redirect::to(&server.url()));
        environment.environment =
            Environment::from_iter([("HOME", directory.join("home")), ("COMPLETE", "fish".into())]);
    })
}

/// A server with two of most objects.
fn list(seen: &ReceivedRequest) -> Reply {
    if seen.line().starts_with("GET /v1/volumes/external") {
        return json(r#"{"Volumes":[{"ExternalID":"vol-1"},{"ExternalID":"vol-2"}]}"#);
    }
    if seen.line().starts_with("GET /v1/volumes?") {
        return json(
            r#"[{"ID":"mysql","Namespace":"default","PluginID":"ebs0"},
            {"ID":"mail","Namespace":"default","PluginID":"nfs"},
            {"ID":"metrics","Namespace":"prod","PluginID":"ebs0"}]"#,
        );
    }
    if seen.line().starts_with("GET /v1/vars") {
        return json(r#"[{"Path":"nomad-csi/sets/web/head"},{"Path":"nomad-csi/sets/db/head"}]"#);
    }
    if seen.line().starts_with("GET /v1/nodes") {
        return json(r#"[{"ID":"0c9d8e7f-1111-2222-3333-444455556666","Name":"worker-1"}]"#);
    }
    let listed = |path: &str| seen.line().starts_with(&format!("GET /v1/{path}"));
    if listed("namespaces") {
        return json(r#"[{"Name":"default"},{"Name":"prod"}]"#);
    }
    if listed("jobs") {
        return json(r#"[{"ID":"web","Name":"web"},{"ID":"worker","Name":"worker"}]"#);
    }
    if listed("allocations") {
        return json(r#"[{"ID":"8a5f0d4c-1111-2222-3333-444455556666","JobID":"web"}]"#);
    }
    if listed("regions") {
        return json(r#"["global","east"]"#);
    }
    if listed("allocation/8a5f0d4c") {
        return json(
            r#"{"ID":"8a5f0d4c-1111-2222-3333-444455556666","TaskStates":{"web":{},"log":{}}}"#,
        );
    }
    if listed("volumes/snapshot") && seen.target.contains("plugin_id=ebs0") {
        return json(r#"{"Snapshots":[{"ID":"snap-1","ExternalSourceVolumeID":"vol-1"}]}"#);
    }
    json(r#"[{"ID":"ebs0"},{"ID":"nfs"}]"#)
}

/// Completion has a short timeout. The test retries on a busy machine.
#[test]
fn completion_offers_ids_of_the_server() {
    let directory = tempfile::tempdir().expect("a new directory");
    let runtime = runtime();
    let server = runtime.block_on(Server::start(|seen, _| list(seen)));
    for (words, expected) in [
        ("volume status m", "mail\nmysql\n"),
        ("volume delete my", "mysql\n"),
        ("volume deregister --namespace prod m", "metrics\n"),
        ("volume status --namespace p", "prod\n"),
        ("volume status --plugin e", "ebs0\n"),
        ("plugin status n", "nfs\n"),
        ("plugin wait n", "nfs\n"),
        ("plan x.hcl --set w", "web\n"),
        ("set show d", "db\n"),
        ("forget m", "mail\nmysql\n"),
        ("import my", "mysql\n"),
        ("apply x.hcl --replace my", "mysql\n"),
        ("apply x.hcl --approve destroys-data:my", "destroys-data:mysql\n"),
        ("plan x.hcl --accept-loss secrets:ma", "secrets:mail\n"),
        ("drift x.hcl --ignore mount_options.f", "mount_options.fs_type\n"),
        ("volume claims my", "mysql\n"),
        ("volume detach mysql w", "worker-1\n"),
        ("node drain w", "worker-1\n"),
        ("namespace delete p", "prod\n"),
        ("set list --ledger-namespace d", "default\n"),
        ("job stop w", "web\nworker\n"),
        ("job dispatch we", "web\n"),
        ("job periodic force we", "web\n"),
        ("explain placement we", "web\n"),
        ("alloc logs 8a", "8a5f0d4c-1111-2222-3333-444455556666\n"),
        ("volume release mysql --alloc 8", "8a5f0d4c-1111-2222-3333-444455556666\n"),
        ("alloc logs 8a5f0d4c w", "web\n"),
        ("volume status --region e", "east\n"),
        ("import --external e", "ebs0\n"),
        ("import --external ebs0 vol-", "vol-1\nvol-2\n"),
        ("plugin impact n", "nfs\n"),
        ("snapshot delete ebs0 s", "snap-1\n"),
        ("snapshot delete nfs s", ""),
        ("orphans --plugin ebs0 --adopt vol-", "vol-1\nvol-2\n"),
        ("orphans --plugin ebs0 --approve destroys-data:vol-2", "destroys-data:vol-2\n"),
    ] {
        until(words, || {
            let result = completed(directory.path(), &server, words);
            assert_eq!(result.exit, Exit::Done);
            (result.text == expected).then_some(()).ok_or_else(|| result.text.clone())
        });
    }
    let nothing = completed(directory.path(), &server, "volume status x");
    assert_eq!((nothing.exit, nothing.text.as_str()), (Exit::Done, ""));
}

/// Nomad has no list of claims, and the agent has.
#[test]
fn completion_offers_the_aliases_of_an_allocation_on_the_agent() {
    let directory = tempfile::tempdir().expect("a new directory");
    let runtime = runtime();
    let claims = r#"[{"Alias":"data","AllocID":"a1","Namespace":"default","VolumeID":"db"},
        {"Alias":"copy","AllocID":"a1","Namespace":"default","VolumeID":"db"},
        {"Alias":"other","AllocID":"a2","Namespace":"default","VolumeID":"db"}]"#;
    for (headers, expected) in [(&[("X-Nomad-CSI-Agent", "0.1.0")][..], "data\ncopy\n"), (&[], "")]
    {
        let answer = move |seen: &ReceivedRequest, _| match seen.line() {
            line if line.starts_with("GET /v1/regions") => {
                response(200, "application/json", headers, br#"["global"]"#)
            }
            line if line.starts_with("GET /v1/volume/csi/db/claims") => json(claims),
            _ => json(r#"{"config":{"Version":{"Version":"2.0.5"}}}"#),
        };
        let server = runtime.block_on(Server::start(answer));
        let words = "volume release db --alloc a1 --alias ";
        until(words, || {
            let result = completed(directory.path(), &server, words);
            (result.text == expected).then_some(()).ok_or_else(|| result.text.clone())
        });
    }
}

#[test]
fn completion_returns_nothing_for_a_silent_server() {
    let directory = tempfile::tempdir().expect("a new directory");
    let runtime = runtime();
    let server = runtime.block_on(Server::always(Reply::Hang));
    let result = completed(directory.path(), &server, "volume status m");
    assert_eq!((result.exit, result.text.as_str()), (Exit::Done, ""));
}
