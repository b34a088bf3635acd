//! `reconcile --apply` against a server that tells what it was told: what its rounds ask, and what they
//! say, which all stands in the log and nowhere else.

use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nomad_csi::cli::{Exit, Interrupts};
use serde_json::Value;

use crate::support::canned::{CannedServer, Told};
use crate::support::hermetic::{Redirect, run_in};
use crate::support::http_server::{Answer, answer, json, text};

const SPEC: &str = r#"
set = "web"

volume "db" {
  type      = "csi"
  name      = "db"
  plugin_id = "ebs0"

  capability {
    access_mode     = "single-node-writer"
    attachment_mode = "file-system"
  }
}
"#;
const VOLUME: &str = r#"{"ID":"db","Name":"db","Namespace":"default","ExternalID":"vol-db","PluginID":"ebs0","Provider":"ebs.csi.example","ProviderVersion":"v1","Schedulable":true,"ControllerRequired":true,"ControllersHealthy":1,"ControllersExpected":1,"NodesHealthy":1,"NodesExpected":1,"RequestedCapabilities":[{"AccessMode":"single-node-writer","AttachmentMode":"file-system"}],"MountOptions":{"FSType":"","MountFlags":null},"ModifyIndex":12}"#;
/// What `db` was applied as: of other values than it has.
const APPLIED: &str = r#"{"format":1,"sets":{"web":{
  "head":{"revision":1,"content":{"format":1,"sequence":3,"save":"1","key":"0707070707070707070707070707070707070707070707070707070707070707"}},
  "v":{"revision":1,"content":{"format":1,"sequence":3,"volumes":[
    {"namespace":"default","id":"db","owned":{"applied":{"plugin_id":"000102030405060708090a0b0c0d0e0f"}}}
  ]}}
}}}"#;

const PATIENCE: Duration = Duration::from_secs(60);
const READ: &str = "GET /v1/volume/csi/db?namespace=default";
const CREATE: &str = "PUT /v1/volume/csi/db/create?namespace=default";
const CHANGES: &str = "GET /v1/volumes?index=7&namespace=*&type=csi&wait=1000ms";
const PLUGIN: &str = "GET /v1/plugin/csi/ebs0?namespace=default";
const TOKEN: &str = "GET /v1/acl/token/self";

fn absent() -> Answer {
    text(404, "volume not found")
}

fn plugin(healthy: u8) -> Answer {
    json(&format!(
        r#"{{"ID":"ebs0","Provider":"ebs.csi.example","Version":"v1","ControllerRequired":true,"ControllersExpected":1,"ControllersHealthy":{healthy},"NodesExpected":1,"NodesHealthy":1,"Controllers":{{}},"Nodes":{{}}}}"#
    ))
}

/// A session: a server, and a directory for files.
struct Session {
    interrupts: Interrupts,
    server: CannedServer,
    directory: tempfile::TempDir,
}

/// What a loop said and asked until somebody ended it.
struct Ended {
    log: Vec<Value>,
    asked: Vec<String>,
}

impl Session {
    /// With one volume in its files, and a plugin that is well.
    fn new(spec: &str) -> Self {
        let interrupts = Interrupts::default();
        let session = Self {
            server: CannedServer::start(&interrupts),
            directory: tempfile::tempdir().expect("a directory can be made"),
            interrupts,
        };
        session.write("db.hcl", spec);
        session.tells("GET /v1/regions", [json(r#"["global"]"#)]);
        session.tells("GET /v1/volumes?namespace=*&type=csi", [json("[]")]);
        session.tells(PLUGIN, [plugin(1)]);
        session
    }

    fn write(&self, name: &str, text: &str) {
        let path: &Path = self.directory.path();
        std::fs::write(path.join(name), text).expect("it is writable");
    }

    /// One answer after the other, the last for ever.
    fn tells<const N: usize>(&self, request: &str, answers: [Answer; N]) {
        for answer in answers {
            let told = Told {
                answer,
                interrupts: 0,
            };
            self.server.then_tell(request, told);
        }
    }

    /// Nothing changes for so many rounds; after the last somebody ends the loop.
    fn rounds(&self, count: usize) {
        for round in 1..=count {
            let told = Told {
                answer: json("[]"),
                interrupts: usize::from(round == count),
            };
            self.server.then_tell(CHANGES, told);
        }
    }

    /// Everything that is said stands in the log: nothing is written beside it.
    fn run(&self) -> Ended {
        let written = Written::default();
        let writer = written.clone();
        let subscriber = tracing_subscriber::fmt()
            .json()
            .flatten_event(true)
            .with_max_level(tracing::Level::INFO)
            .with_writer(move || writer.clone())
            .finish();
        let line = "reconcile --apply --interval 1s -f db.hcl --ledger file:ledger.json";
        let (done, is_done) = std::sync::mpsc::channel::<()>();
        let interrupts = self.interrupts.clone();
        // A loop that nobody ends is a test that fails.
        std::thread::spawn(move || {
            if is_done.recv_timeout(PATIENCE).is_err() {
                interrupts.press();
                interrupts.press();
            }
        });
        let ended = tracing::subscriber::with_default(subscriber, || {
            run_in(self.directory.path(), line, |world| {
                world.interrupts = self.interrupts.clone();
                world.servers = Arc::new(Redirect::to(&self.server.url()));
            })
        });
        assert!(done.send(()).is_ok(), "nobody ended it in time");
        let text = String::from_utf8(written.0.lock().expect("unpoisoned").clone());
        let text = text.expect("the log is text");
        assert_eq!(ended.text, "", "beside the log:\n{text}");
        assert_eq!(ended.exit, Exit::Done, "{text}");
        assert_eq!(self.server.unexpected(), [""; 0], "{text}");
        let lines = text.lines();
        let parsed = lines.map(|line| serde_json::from_str(line).expect("each line is an object"));
        Ended {
            log: parsed.collect(),
            asked: self.server.take_asked(),
        }
    }
}

impl Ended {
    /// Lines whose message holds these words, by their position.
    fn said(&self, words: &str) -> Vec<usize> {
        let says = |line: &Value| {
            line["message"]
                .as_str()
                .is_some_and(|said| said.contains(words))
        };
        let lines = self.log.iter().enumerate();
        let lines = lines.filter(|(_, line)| says(line));
        lines.map(|(at, _)| at).collect()
    }

    fn count(&self, request: &str) -> usize {
        let asked = self.asked.iter();
        asked.filter(|asked| asked.starts_with(request)).count()
    }

    fn writes(&self) -> Vec<&String> {
        let asked = self.asked.iter();
        asked.filter(|asked| !asked.starts_with("GET ")).collect()
    }
}

#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let mut written = self.0.lock().expect("unpoisoned");
        written.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// It is there at a round's first look and gone at what would be its second: what a round puts back is
/// what it has told.
#[test]
fn nothing_is_put_back_that_was_not_told_to_be_gone() {
    let session = Session::new(SPEC);
    session.write("ledger.json", APPLIED);
    session.tells(READ, [json(VOLUME), absent(), absent(), json(VOLUME)]);
    session.rounds(3);
    session.tells(CREATE, [json(&format!(r#"{{"Volumes":[{VOLUME}]}}"#))]);
    let ended = session.run();
    assert_eq!(ended.count(CREATE), 1, "{:#?}", ended.asked);
    let (told, done) = (ended.said("volume db is gone"), ended.said("has ended"));
    assert!(
        matches!((&told[..], &done[..]), ([told], [done]) if told < done),
        "{:#?}",
        ended.log
    );
}

/// A round reads each volume once, also those that no file names; what is put back is read again right
/// before and after.
#[test]
fn a_round_looks_once_and_also_at_what_no_file_names() {
    let session = Session::new(&SPEC.replace("\"db\"", "\"other\""));
    session.write("ledger.json", APPLIED);
    let other = "GET /v1/volume/csi/other?namespace=default";
    session.tells(other, [json(&VOLUME.replace("\"db\"", "\"other\""))]);
    session.tells(READ, [absent()]);
    session.rounds(1);
    let ended = session.run();
    assert_eq!(
        (ended.count(READ), ended.count(other)),
        (1, 1),
        "{:#?}",
        ended.asked
    );
    assert_eq!(ended.said("volume db is gone").len(), 1, "{:#?}", ended.log);
}

#[test]
fn what_the_ledger_learns_stands_in_the_log() {
    let session = Session::new(SPEC);
    session.tells(READ, [json(VOLUME)]);
    session.rounds(2);
    let ended = session.run();
    let line = "volume db: owned by set web from now on";
    assert_eq!(ended.said(line).len(), 1, "{:#?}", ended.log);
    assert_eq!(ended.count(TOKEN), 0, "nothing was to be changed");
}

/// The log names the secret and its place, and nothing was changed.
#[test]
fn secrets_that_are_missing_stand_in_the_log() {
    let secrets = "  secrets {\n    token = env(\"NOT_SET_ANYWHERE\")\n  }\n\n  capability {";
    let session = Session::new(&SPEC.replace("  capability {", secrets));
    session.server.then_tell(
        READ,
        Told {
            answer: absent(),
            interrupts: 0,
        },
    );
    // A round that failed is not followed by a wait for changes: the second is ended as it looks.
    session.server.then_tell(
        READ,
        Told {
            answer: absent(),
            interrupts: 1,
        },
    );
    let ended = session.run();
    let said = ended.said("the secret `token` of volume db has no value");
    assert_eq!(said.len(), 1, "{:#?}", ended.log);
    let line = &ended.log[said[0]];
    assert_eq!(line["code"], "secret/unset");
    assert_eq!(line["at"], "db.hcl:10:13");
    assert_eq!(line["notes"], "nothing was changed");
    assert_eq!(ended.writes(), [""; 0]);
}

/// A plugin that is not well is not waited for in a round, and is told once for all the rounds that it
/// is not.
#[test]
fn a_plugin_that_is_not_well_is_told_when_that_changes() {
    let session = Session::new(SPEC);
    session.tells(READ, [absent(), absent(), absent(), absent(), json(VOLUME)]);
    session.server.tell(
        PLUGIN,
        Told {
            answer: plugin(0),
            interrupts: 0,
        },
    );
    session.tells(PLUGIN, [plugin(0), plugin(1)]);
    session.rounds(3);
    session.tells(CREATE, [json(&format!(r#"{{"Volumes":[{VOLUME}]}}"#))]);
    let ended = session.run();
    for (words, expected) in [
        ("no healthy controller", 1),
        ("nothing is changed until that is settled", 1),
        ("what kept changes back is settled", 1),
    ] {
        assert_eq!(
            ended.said(words).len(),
            expected,
            "{words}: {:#?}",
            ended.log
        );
    }
    assert_eq!(ended.count(CREATE), 1, "{:#?}", ended.asked);
}

/// The token is asked before anything is changed; what it lacks is told once.
#[test]
fn what_the_token_may_not_do_is_not_begun() {
    let session = Session::new(SPEC);
    session.tells(READ, [absent()]);
    let rules = r#"namespace \"default\" { policy = \"read\" }"#;
    for (request, body) in [
        (
            TOKEN,
            r#"{"AccessorID":"a1","Name":"loop","Type":"client","Policies":["read"]}"#.to_owned(),
        ),
        (
            "GET /v1/acl/policies",
            r#"[{"Name":"read","CreateIndex":1,"ModifyIndex":1}]"#.to_owned(),
        ),
        (
            "GET /v1/acl/policy/read",
            format!(r#"{{"Name":"read","Rules":"{rules}"}}"#),
        ),
    ] {
        let told = Told {
            answer: answer(200, "application/json", &[], body.as_bytes()),
            interrupts: 0,
        };
        session.server.tell(request, told);
    }
    session.rounds(2);
    let ended = session.run();
    let said = ended.said("the token lacks");
    assert_eq!(said.len(), 1, "{:#?}", ended.log);
    let line = &ended.log[said[0]];
    assert_eq!(line["code"], "acl/missing-permission");
    let told = line["notes"].as_str().unwrap_or_default();
    assert!(told.contains("csi-write-volume"), "{told}");
    assert_eq!(ended.count(TOKEN), 2, "every round asks");
    assert_eq!(ended.writes(), [""; 0]);
}
