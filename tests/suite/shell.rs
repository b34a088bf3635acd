//! What shows only while somebody sits at a terminal: lines that move, and words that are completed.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex};

use nomad_csi::cli::{Environment, Exit, Sink};
use tokio::runtime::Runtime;

use crate::support::hermetic::{Ended, Redirect, run_in};
use crate::support::http_server::{Answer, Seen, Server, json, text};
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

/// A terminal that moves: everything that was written to it so far, its codes included.
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

    /// What stood before `words` whenever they were drawn.
    fn drawn_before(&self, words: &str) -> BTreeSet<char> {
        let written = self.written();
        let places = written.match_indices(words);
        places
            .filter_map(|(at, _)| written[..at].trim_end().chars().next_back())
            .collect()
    }

    /// What a person sees now.
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
                    other => panic!("a code that this terminal does not know: {other:?}"),
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

/// The number and the letter of a code that steers the cursor.
fn code(rest: &mut impl Iterator<Item = char>) -> (usize, char) {
    assert_eq!(rest.next(), Some('['), "the beginning of a code");
    let mut number = String::new();
    for c in rest {
        if c.is_ascii_alphabetic() {
            return (number.parse().unwrap_or(1), c);
        }
        number.push(c);
    }
    panic!("a code has an end")
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("threads can be had")
}

/// A server that creates `db0`, but not before `may_answer` returns.
fn creating(may_answer: impl Fn() + Send + Sync) -> impl Fn(&Seen, usize) -> Answer + Send + Sync {
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
fn a_line_on_a_terminal_moves_while_a_volume_is_created_and_then_says_how_long_it_took() {
    let directory = tempfile::tempdir().expect("a directory can be made");
    std::fs::write(directory.path().join("db0.hcl"), SPECIFICATION).expect("it is writable");
    let terminal = Terminal::default();
    let (runtime, watched) = (runtime(), terminal.clone());
    let moving = move || {
        until("the line to move", || {
            let seen = watched.drawn_before("volume db0: creating");
            (seen.len() > 2)
                .then_some(())
                .ok_or_else(|| watched.written())
        });
        let screen = watched.screen();
        let lines = screen
            .iter()
            .filter(|line| line.contains("volume db0: creating"));
        assert_eq!(lines.count(), 1, "it is drawn over itself: {screen:#?}");
    };
    let server = runtime.block_on(Server::start(creating(moving)));
    let line = "volume create -f db0.hcl -o name";
    let ended = run_in(directory.path(), line, |world| {
        world.servers = Arc::new(Redirect::to(&server.url()));
        world.stderr = Sink {
            writer: Box::new(terminal.clone()),
            is_terminal: true,
        };
    });
    let screen = terminal.screen();
    assert_eq!(ended.exit, Exit::Done, "{screen:#?}");
    assert_eq!(ended.text, "db0\n");
    let [line] = screen.as_slice() else {
        panic!("one line stays: {screen:#?}")
    };
    let told = line.strip_prefix("volume db0: created, external ID vol-1 (");
    let seconds = told.and_then(|rest| rest.strip_suffix(" s)"));
    let seconds: f64 = seconds.and_then(|s| s.parse().ok()).expect(line);
    assert!(seconds > 0.0, "{line}");
}

/// What a shell is offered behind these words.
fn completed(directory: &Path, server: &Server, words: &str) -> Ended {
    run_in(directory, &format!("-- nomad-csi {words}"), |world| {
        world.servers = Arc::new(Redirect::to(&server.url()));
        world.environment = Environment::from_iter([
            ("HOME", directory.join("home")),
            ("COMPLETE", "fish".into()),
        ]);
    })
}

/// Half a second is all that a shell waits, so a busy machine may be asked more than once.
#[test]
fn ids_of_the_server_are_completed() {
    let directory = tempfile::tempdir().expect("a directory can be made");
    let runtime = runtime();
    let server = runtime.block_on(Server::start(|seen, _| {
        if seen.line().starts_with("GET /v1/volumes") {
            return json(
                r#"[{"ID":"mysql","Namespace":"default","PluginID":"ebs0"},
                {"ID":"mail","Namespace":"default","PluginID":"nfs"},
                {"ID":"metrics","Namespace":"prod","PluginID":"ebs0"}]"#,
            );
        }
        json(r#"[{"ID":"ebs0"},{"ID":"nfs"}]"#)
    }));
    for (words, expected) in [
        ("volume status m", "mail\nmysql\n"),
        ("volume delete my", "mysql\n"),
        ("volume deregister --namespace prod m", "metrics\n"),
        ("volume status --namespace p", "prod\n"),
        ("volume status --plugin e", "ebs0\n"),
        ("plugin status n", "nfs\n"),
    ] {
        until(words, || {
            let ended = completed(directory.path(), &server, words);
            assert_eq!(ended.exit, Exit::Done);
            (ended.text == expected)
                .then_some(())
                .ok_or_else(|| ended.text.clone())
        });
    }
    let nothing = completed(directory.path(), &server, "volume status x");
    assert_eq!((nothing.exit, nothing.text.as_str()), (Exit::Done, ""));
}

#[test]
fn a_server_that_says_nothing_completes_nothing_and_holds_nobody_up() {
    let directory = tempfile::tempdir().expect("a directory can be made");
    let runtime = runtime();
    let server = runtime.block_on(Server::always(Answer::Silence));
    let ended = completed(directory.path(), &server, "volume status m");
    assert_eq!((ended.exit, ended.text.as_str()), (Exit::Done, ""));
}
