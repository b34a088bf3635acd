//! `reconcile --apply` against a server with configured responses: the requests of its rounds and its
//! log, which is its only output.

use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nomad_csi::cli::{Exit, Interrupts};
use serde_json::Value;

use crate::support::canned::{CannedResponse, CannedServer};
use crate::support::hermetic::{Redirect, run_in};
use crate::support::http_server::{Reply, json, response, text};

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
/// A ledger that records other values for `db` than the server has.
const APPLIED: &str = r#"{"format":1,"sets":{"web":{
  "head":{"revision":1,"content":{"format":1,"sequence":3,"save":"1","key":"0707070707070707070707070707070707070707070707070707070707070707"}},
  "v":{"revision":1,"content":{"format":1,"sequence":3,"volumes":[
    {"namespace":"default","id":"db","owned":{"applied":{"plugin_id":"000102030405060708090a0b0c0d0e0f"}}}
  ]}}
}}}"#;

const PATIENCE: Duration = Duration::from_secs(60);
const READ: &str = "GET /v1/volume/csi/db?namespace=default";
const CREATE: &str = "PUT /v1/volume/csi/db/create?namespace=default";
const REGISTER: &str = "PUT /v1/volume/csi/db?namespace=default";
const PROVIDED: &str = "GET /v1/volumes/external?namespace=default&plugin_id=ebs0";
const CHANGES: &str = "GET /v1/volumes?index=7&namespace=*&type=csi&wait=1000ms";
const PLUGIN: &str = "GET /v1/plugin/csi/ebs0?namespace=default";
const DATA: &str = "GET /v1/volumes?filter=ExternalID+%3D%3D+%22vol-db%22+or+ID+%3D%3D+%22vol-db%22&namespace=*&per_page=2000&type=csi";
const TOKEN: &str = "GET /v1/acl/token/self";

fn absent() -> Reply {
    text(404, "volume not found")
}

/// A healthy plugin that lists its volumes.
fn listing_plugin() -> Reply {
    json(
        r#"{"ID":"ebs0","Provider":"ebs.csi.example","Version":"v1","ControllerRequired":true,"ControllersExpected":1,"ControllersHealthy":1,"NodesExpected":1,"NodesHealthy":1,"Controllers":{"n1":{"Provider":"ebs.csi.example","ProviderVersion":"v1","Healthy":true,"RequiresControllerPlugin":true,"ControllerInfo":{"SupportsCreateDelete":true,"SupportsListVolumes":true}}},"Nodes":{}}"#,
    )
}

fn plugin(healthy: u8) -> Reply {
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

/// The log and the requests of a loop until its interrupt.
struct LoopRun {
    log: Vec<Value>,
    requests: Vec<String>,
}

impl Session {
    /// Returns a session with one volume in its files and a healthy plugin.
    fn new(spec: &str) -> Self {
        let interrupts = Interrupts::default();
        let session = Self {
            server: CannedServer::start(&interrupts),
            directory: tempfile::tempdir().expect("a directory can be made"),
            interrupts,
        };
        session.write("db.hcl", spec);
        session.respond("GET /v1/regions", [json(r#"["global"]"#)]);
        session.respond("GET /v1/volumes?namespace=*&type=csi", [json("[]")]);
        session.respond(PLUGIN, [plugin(1)]);
        session
    }

    fn write(&self, name: &str, text: &str) {
        let path: &Path = self.directory.path();
        std::fs::write(path.join(name), text).expect("it is writable");
    }

    /// Configures the responses to a request; the last one repeats.
    fn respond<const N: usize>(&self, request: &str, replies: [Reply; N]) {
        for reply in replies {
            let response = CannedResponse { reply, interrupts: 0 };
            self.server.queue_response(request, response);
        }
    }

    /// Makes the plugin list these volumes.
    fn list_volumes(&self, volumes: &str) {
        let response = CannedResponse { reply: listing_plugin(), interrupts: 0 };
        self.server.set_response(PLUGIN, response);
        self.respond(PROVIDED, [json(&format!(r#"{{"Volumes":[{volumes}]}}"#))]);
    }

    /// Runs this number of rounds without a change, then interrupts the loop.
    fn rounds(&self, count: usize) {
        for round in 1..=count {
            let response =
                CannedResponse { reply: json("[]"), interrupts: usize::from(round == count) };
            self.server.queue_response(CHANGES, response);
        }
    }

    /// Runs the loop. Asserts that the log is its only output.
    fn run(&self) -> LoopRun {
        self.run_with("")
    }

    /// Runs the loop with more arguments.
    fn run_with(&self, more: &str) -> LoopRun {
        let written = LogBuffer::default();
        let writer = written.clone();
        let subscriber = tracing_subscriber::fmt()
            .json()
            .flatten_event(true)
            .with_max_level(tracing::Level::INFO)
            .with_writer(move || writer.clone())
            .finish();
        let line =
            format!("reconcile --apply --interval 1s -f db.hcl --ledger file:ledger.json {more}");
        let (done, is_done) = std::sync::mpsc::channel::<()>();
        let interrupts = self.interrupts.clone();
        // Interrupts a loop that does not end, which fails the test.
        std::thread::spawn(move || {
            if is_done.recv_timeout(PATIENCE).is_err() {
                interrupts.interrupt();
                interrupts.interrupt();
            }
        });
        let run = tracing::subscriber::with_default(subscriber, || {
            run_in(self.directory.path(), line.trim(), |environment| {
                environment.interrupts = self.interrupts.clone();
                environment.servers = Arc::new(Redirect::to(&self.server.url()));
            })
        });
        let text = String::from_utf8(written.0.lock().expect("unpoisoned").clone());
        let text = text.expect("a UTF-8 log");
        assert!(done.send(()).is_ok(), "the loop timed out:\n{text}");
        assert_eq!(run.text, "", "output besides the log:\n{text}");
        assert_eq!(run.exit, Exit::Done, "{text}");
        assert_eq!(self.server.unexpected(), [""; 0], "{text}");
        let lines = text.lines();
        let parsed = lines.map(|line| serde_json::from_str(line).expect("a JSON object per line"));
        LoopRun { log: parsed.collect(), requests: self.server.take_requests() }
    }
}

impl LoopRun {
    /// Returns the positions of the log lines whose message contains these words.
    fn log_lines(&self, words: &str) -> Vec<usize> {
        let matches =
            |line: &Value| line["message"].as_str().is_some_and(|message| message.contains(words));
        let lines = self.log.iter().enumerate();
        let lines = lines.filter(|(_, line)| matches(line));
        lines.map(|(at, _)| at).collect()
    }

    fn count(&self, request: &str) -> usize {
        let requests = self.requests.iter();
        requests.filter(|sent| sent.starts_with(request)).count()
    }

    fn writes(&self) -> Vec<&String> {
        let requests = self.requests.iter();
        requests.filter(|asked| !asked.starts_with("GET ")).collect()
    }
}

#[derive(Clone, Default)]
struct LogBuffer(Arc<Mutex<Vec<u8>>>);

impl Write for LogBuffer {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let mut written = self.0.lock().expect("unpoisoned");
        written.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The volume exists in the first reading of a round and is missing in the next. A round restores only
/// volumes that it reported as missing.
#[test]
fn a_round_restores_only_volumes_that_it_reported_as_missing() {
    let session = Session::new(SPEC);
    session.write("ledger.json", APPLIED);
    session.respond(READ, [json(VOLUME), absent(), absent(), json(VOLUME)]);
    session.rounds(3);
    session.list_volumes(r#"{"ExternalID":"vol-db"}"#);
    session.respond(REGISTER, [json("{}")]);
    let run = session.run();
    assert_eq!(run.writes().len(), 1, "{:#?}", run.requests);
    assert_eq!(run.count(REGISTER), 1, "{:#?}", run.requests);
    let (reported, done) =
        (run.log_lines("volume db is gone"), run.log_lines("change of a volume ended"));
    assert!(
        matches!((&reported[..], &done[..]), ([reported], [done]) if reported < done),
        "{:#?}",
        run.log
    );
}

/// The first round records the data of the volume. Later its registration is gone, and the provider does
/// not list the data: no round makes an empty volume in its place, whatever the flags approve.
#[test]
fn no_round_makes_an_empty_volume_in_the_place_of_recorded_data() {
    let session = Session::new(SPEC);
    session.write("ledger.json", APPLIED);
    session.respond(READ, [json(VOLUME), absent()]);
    session.rounds(3);
    session.list_volumes(r#"{"ExternalID":"vol-other"}"#);
    let run = session.run_with("--max-risk destroys-data --approve destroys-data:db");
    assert_eq!(run.writes(), [""; 0]);
    let lines = run.log_lines("`reconcile` never changes which data a volume has");
    assert_eq!(lines.len(), 1, "{:#?}", run.log);
    let line = &run.log[lines[0]];
    assert_eq!(line["code"], "plan/data-unconfirmed");
    let notes = line["notes"].as_str().unwrap_or_default();
    assert!(notes.contains("external ID vol-db at plugin ebs0"), "{notes}");
}

/// Other data under the name of a volume is neither accepted nor removed by a round.
#[test]
fn no_round_exchanges_the_data_of_a_volume() {
    let session = Session::new(SPEC);
    session.write("ledger.json", APPLIED);
    let other = VOLUME.replace("vol-db", "vol-other");
    session.respond(READ, [json(VOLUME), json(&other)]);
    session.rounds(3);
    session.list_volumes(r#"{"ExternalID":"vol-db"},{"ExternalID":"vol-other"}"#);
    let run = session.run_with("--max-risk destroys-data --approve needs-downtime:db");
    assert_eq!(run.writes(), [""; 0]);
    let lines = run.log_lines("volume db has drifted: external_id");
    assert_eq!(lines.len(), 1, "{:#?}", run.log);
    let lines = run.log_lines("`reconcile` never changes which data a volume has");
    assert_eq!(lines.len(), 1, "{:#?}", run.log);
}

/// A round reads each volume once, including volumes that no file declares. A restored volume is read
/// again before and after.
#[test]
fn a_round_reads_each_volume_once_including_undeclared_ones() {
    let session = Session::new(&SPEC.replace("\"db\"", "\"other\""));
    session.write("ledger.json", APPLIED);
    let other = "GET /v1/volume/csi/other?namespace=default";
    session.respond(other, [json(&VOLUME.replace("\"db\"", "\"other\""))]);
    session.respond(READ, [absent()]);
    session.rounds(1);
    let run = session.run();
    assert_eq!((run.count(READ), run.count(other)), (1, 1), "{:#?}", run.requests);
    assert_eq!(run.log_lines("volume db is gone").len(), 1, "{:#?}", run.log);
}

#[test]
fn new_ownership_is_logged() {
    let session = Session::new(SPEC);
    session.respond(READ, [json(VOLUME)]);
    session.rounds(2);
    let run = session.run();
    let line = "volume db: now owned by set web";
    assert_eq!(run.log_lines(line).len(), 1, "{:#?}", run.log);
    assert_eq!(run.count(TOKEN), 0, "the token is read only before a change");
}

/// The log names the secret and its position. Nothing changes, of whatever volume, and the log says what was not corrected.
#[test]
fn missing_secrets_are_logged() {
    for more in ["", "--keep-going"] {
        missing_secrets_are_logged_with(more);
    }
}

fn missing_secrets_are_logged_with(more: &str) {
    let secrets = "  secrets {\n    token = env(\"NOT_SET_ANYWHERE\")\n  }\n\n  capability {";
    let other = SPEC.replace("set = \"web\"\n", "").replace("\"db\"", "\"other\"");
    let session = Session::new(&(SPEC.replace("  capability {", secrets) + &other));
    session.respond(&READ.replace("/db", "/other"), [absent()]);
    session.server.queue_response(READ, CannedResponse { reply: absent(), interrupts: 0 });
    // A failed round does not wait for changes. The interrupt arrives during the second round.
    session.server.queue_response(READ, CannedResponse { reply: absent(), interrupts: 1 });
    let run = session.run_with(more);
    let lines_found = run.log_lines("secret `token` of volume `db` has no value");
    assert_eq!(lines_found.len(), 1, "{:#?}", run.log);
    let line = &run.log[lines_found[0]];
    assert_eq!(line["code"], "secret/unset");
    assert_eq!(line["at"], "db.hcl:10:13");
    let unchanged = run.log_lines("nothing was changed: secrets are missing");
    assert_eq!(unchanged.len(), 1, "{:#?}", run.log);
    for line in
        ["volume db is not corrected: not started", "volume other is not corrected: not started"]
    {
        assert_eq!(run.log_lines(line).len(), 1, "{line}: {:#?}", run.log);
    }
    assert_eq!(run.log_lines("all volumes are corrected"), [0_usize; 0]);
    assert_eq!(run.writes(), [""; 0]);
}

/// Volumes that are corrected after all are a line of the log, and only then.
#[test]
fn the_log_says_when_all_volumes_are_corrected() {
    let session = Session::new(SPEC);
    session.respond(READ, [absent(), absent(), absent(), json(VOLUME)]);
    session.server.set_response(PLUGIN, CannedResponse { reply: plugin(0), interrupts: 0 });
    session.respond(PLUGIN, [plugin(1)]);
    session.rounds(2);
    session.respond(CREATE, [json(&format!(r#"{{"Volumes":[{VOLUME}]}}"#))]);
    session.respond(DATA, [json(&format!("[{VOLUME}]"))]);
    let run = session.run();
    let left = run.log_lines("volume db is not corrected");
    let corrected = run.log_lines("all volumes are corrected");
    let created = run.log_lines("change of a volume ended");
    assert_eq!((left.len(), corrected.len(), created.len()), (1, 1, 1), "{:#?}", run.log);
    assert!(left < created && created < corrected, "{:#?}", run.log);
}

/// A field that is ignored is no drift and blocks nothing, in every round.
#[test]
fn no_round_reports_or_changes_an_ignored_field() {
    for (more, count) in [("--ignore name", 0), ("", 1)] {
        let session = Session::new(SPEC);
        session.respond(READ, [json(&VOLUME.replace(r#""Name":"db""#, r#""Name":"other""#))]);
        session.rounds(2);
        let run = session.run_with(more);
        for line in [
            "volume db has drifted: name",
            "the name of an existing volume cannot change",
            "volume db is not corrected: blocked",
        ] {
            assert_eq!(run.log_lines(line).len(), count, "{more} {line}: {:#?}", run.log);
        }
        assert_eq!(run.writes(), [""; 0], "{more}");
        assert_eq!(run.log_lines("round failed"), [0_usize; 0], "{more}: {:#?}", run.log);
    }
}

/// A round does not wait for an unhealthy plugin. The log reports it once until its health changes.
#[test]
fn an_unhealthy_plugin_is_logged_once_until_its_health_changes() {
    let session = Session::new(SPEC);
    session.respond(READ, [absent(), absent(), absent(), absent(), json(VOLUME)]);
    session.server.set_response(PLUGIN, CannedResponse { reply: plugin(0), interrupts: 0 });
    session.respond(PLUGIN, [plugin(0), plugin(1)]);
    session.rounds(3);
    session.respond(CREATE, [json(&format!(r#"{{"Volumes":[{VOLUME}]}}"#))]);
    session.respond(DATA, [json(&format!("[{VOLUME}]"))]);
    let run = session.run();
    for (words, expected) in [
        ("no healthy controller", 1),
        ("nothing is changed until this is resolved", 1),
        ("changes are no longer blocked", 1),
    ] {
        assert_eq!(run.log_lines(words).len(), expected, "{words}: {:#?}", run.log);
    }
    assert_eq!(run.count(CREATE), 1, "{:#?}", run.requests);
}

/// A session in whose files the maximum of `db` is below its size, and `other` does not exist yet.
fn one_blocked_and_one_to_create() -> (Session, String) {
    let blocked = SPEC.replace("  capability {", "  capacity_max = \"1GiB\"\n\n  capability {");
    let other = SPEC.replace("set = \"web\"\n", "").replace("\"db\"", "\"other\"");
    let session = Session::new(&(blocked + &other));
    session.respond(
        READ,
        [json(&VOLUME.replace(r#""ModifyIndex""#, r#""Capacity":5368709120,"ModifyIndex""#))],
    );
    let other = VOLUME.replace("\"db\"", "\"other\"").replace("vol-db", "vol-other");
    let read = READ.replace("/db", "/other");
    session.respond(&read, [absent(), absent(), json(&other)]);
    session.rounds(1);
    let create = CREATE.replace("/db", "/other");
    session.respond(&create, [json(&format!(r#"{{"Volumes":[{other}]}}"#))]);
    session.respond(&DATA.replace("vol-db", "vol-other"), [json(&format!("[{other}]"))]);
    (session, create)
}

#[test]
fn one_blocked_change_stops_the_others_and_the_log_names_all_that_is_not_corrected() {
    let (session, _) = one_blocked_and_one_to_create();
    let run = session.run();
    assert_eq!(run.writes(), [""; 0]);
    for line in [
        "volume db is not corrected: blocked",
        "volume other is not corrected: waits for the blocked volumes",
        "nothing is changed until this is resolved",
    ] {
        assert_eq!(run.log_lines(line).len(), 1, "{line}: {:#?}", run.log);
    }
}

#[test]
fn with_keep_going_the_other_changes_are_made() {
    let (session, create) = one_blocked_and_one_to_create();
    let run = session.run_with("--keep-going");
    assert_eq!((run.count(&create), run.writes().len()), (1, 1), "{:#?}", run.log);
    for (line, count) in [
        ("cannot update volume `db`", 1),
        ("volume db is not corrected: blocked", 1),
        ("volume other is not corrected", 0),
        ("these volumes are not changed until this is resolved", 1),
        ("nothing is changed until this is resolved", 0),
    ] {
        assert_eq!(run.log_lines(line).len(), count, "{line}: {:#?}", run.log);
    }
}

#[test]
fn what_depends_on_a_blocked_change_waits_with_it() {
    let (session, create) = one_blocked_and_one_to_create();
    let copy = SPEC
        .replace("set = \"web\"\n", "")
        .replace("\"db\"", "\"copy\"")
        .replace("  capability {", "  clone_id = \"db\"\n\n  capability {");
    session.write("copy.hcl", &copy);
    session.respond(&READ.replace("/db", "/copy"), [absent()]);
    let run = session.run_with("-f copy.hcl --keep-going");
    assert_eq!((run.count(&create), run.writes().len()), (1, 1), "{:#?}", run.log);
    for (line, count) in [
        ("volume `copy` is not changed: a volume that it depends on is blocked", 1),
        ("volume copy is not corrected: blocked", 1),
        ("round failed", 0),
    ] {
        assert_eq!(run.log_lines(line).len(), count, "{line}: {:#?}", run.log);
    }
}

/// A policy stops the round as a rule of the command does, and the log names its file and key.
#[test]
fn a_change_that_a_policy_forbids_is_not_made() {
    let larger = SPEC.replace("  capability {", "  capacity_min = \"10GiB\"\n\n  capability {");
    let session = Session::new(&larger);
    session.write("ci.policy.toml", "deny = [\"expand\"]\n");
    session.respond(
        READ,
        [json(&VOLUME.replace(r#""ModifyIndex""#, r#""Capacity":5368709120,"ModifyIndex""#))],
    );
    session.rounds(2);
    let run = session.run_with("--policy ci.policy.toml");
    assert_eq!(run.writes(), [""; 0], "{:#?}", run.log);
    for line in [
        "forbidden by policy `ci.policy.toml`, key `deny`",
        "volume db is not corrected: blocked",
        "nothing is changed until this is resolved",
    ] {
        assert_eq!(run.log_lines(line).len(), 1, "{line}: {:#?}", run.log);
    }
}

/// The permissions of the token are checked before any change. A missing one is logged once.
#[test]
fn a_change_without_permission_is_not_started() {
    let session = Session::new(SPEC);
    session.respond(READ, [absent()]);
    let rules = r#"namespace \"default\" { policy = \"read\" }"#;
    for (request, body) in [
        (
            TOKEN,
            r#"{"AccessorID":"a1","Name":"loop","Type":"client","Policies":["read"]}"#.to_owned(),
        ),
        ("GET /v1/acl/policies", r#"[{"Name":"read","CreateIndex":1,"ModifyIndex":1}]"#.to_owned()),
        ("GET /v1/acl/policy/read", format!(r#"{{"Name":"read","Rules":"{rules}"}}"#)),
    ] {
        let response = CannedResponse {
            reply: response(200, "application/json", &[], body.as_bytes()),
            interrupts: 0,
        };
        session.server.set_response(request, response);
    }
    session.rounds(2);
    let run = session.run();
    let lines_found = run.log_lines("the token lacks");
    assert_eq!(lines_found.len(), 1, "{:#?}", run.log);
    let line = &run.log[lines_found[0]];
    assert_eq!(line["code"], "acl/missing-permission");
    let notes = line["notes"].as_str().unwrap_or_default();
    assert!(notes.contains("csi-write-volume"), "{notes}");
    assert_eq!(run.count(TOKEN), 2, "every round checks the token");
    assert_eq!(run.writes(), [""; 0]);
}
