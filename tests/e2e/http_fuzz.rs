//! Requests of every kind to a real agent: every route, with typed and mutated bodies.
//!
//! No request stops the agent or makes a handler panic. A response with a status of 500 or above has a code
//! of the table [`SERVER_ERRORS`], which says why the client is not at fault, or that Nomad answers 500.
//! All data that the agent acknowledged is there afterwards, and no invariant is broken.
//!
//! `NOMAD_CSI_REQUESTS` is the number of requests (default 4,000; 200,000 before a release).

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use nomad_csi_wire::ErrorBody;
use serde_json::{Value, json};

use crate::agent_process::{AgentProcess, program};
use crate::http::{Address, Answer};
use crate::random::Random;
use crate::volumes::{create, list};

/// Nomad answers 500 here, and clients such as its own compare the text.
const LIKE_NOMAD: &str = "like Nomad";
/// The plugin refused, which Nomad answers with 500 whatever the plugin's code.
const PLUGIN: &str = "the plugin's refusal";

/// Errors whose status is 500 or above: code, a part of the text, and why.
const SERVER_ERRORS: &[(&str, &str, &str)] = &[
    ("api/bad-request", "UUID must be 36 characters", LIKE_NOMAD),
    ("api/bad-request", "context must be one of", LIKE_NOMAD),
    ("api/bad-request", "missing volume definition", LIKE_NOMAD),
    ("api/bad-request", "missing volume ID", LIKE_NOMAD),
    ("api/bad-request", "CSI.ControllerListSnapshots: invalid starting token", PLUGIN),
    ("api/bad-request", "CSI.ControllerListVolumes: invalid starting token", PLUGIN),
    ("api/unknown-region", "No path to region", LIKE_NOMAD),
    ("job/conflict", "Enforcing job modify index", LIKE_NOMAD),
    ("job/invalid", "", LIKE_NOMAD),
    // A request has drained the node, which stops the job of the plugin.
    ("plugin/unknown", "no CSI plugin named", LIKE_NOMAD),
    ("api/bad-request", "can not delete default namespace", LIKE_NOMAD),
    ("namespace/in-use", "", LIKE_NOMAD),
    ("namespace/unknown", "namespace not found", LIKE_NOMAD),
    ("volume/unknown-namespace", "nonexistent namespace", LIKE_NOMAD),
    ("plugin/refused", "CSI.ControllerCreateVolume", PLUGIN),
    ("plugin/unknown", "no such plugin", LIKE_NOMAD),
    ("plugin/volume-not-found", "CSI.ControllerValidateVolume", PLUGIN),
    // One sentence for each of Nomad's paths that the agent does not offer, with 501.
    ("server/unknown-path", "this agent ", "not offered"),
    ("snapshot/invalid", "missing SnapshotID", LIKE_NOMAD),
    ("volume/invalid", "validation: ", LIKE_NOMAD),
    ("volume/not-found", "no such volume", LIKE_NOMAD),
    ("volume/not-found", "volume not found: ", LIKE_NOMAD),
];

/// A refused request with a longer body than 256 KiB may lose its response.
const LONGEST_BODY: usize = 256 << 10;

/// Volumes that no request may change, because their IDs are in no request.
const KEPT: [&str; 3] = ["kept-1", "kept-2", "kept-3"];

const METHODS: &[&str] = &["GET", "PUT", "POST", "DELETE", "HEAD", "PATCH", "OPTIONS"];

/// Routes, where `*` is an ID.
const ROUTES: &[(&str, &str)] = &[
    ("GET", "/v1/volumes"),
    ("PUT", "/v1/volumes"),
    ("POST", "/v1/volumes"),
    ("GET", "/v1/volumes/claims"),
    ("GET", "/v1/volumes/external"),
    ("GET", "/v1/volumes/snapshot"),
    ("PUT", "/v1/volumes/snapshot"),
    ("DELETE", "/v1/volumes/snapshot"),
    ("GET", "/v1/volume/csi/*"),
    ("PUT", "/v1/volume/csi/*"),
    ("DELETE", "/v1/volume/csi/*"),
    ("GET", "/v1/volume/csi/*/claims"),
    ("GET", "/v1/volume/csi/*/health"),
    ("GET", "/v1/volume/csi/*/history"),
    ("GET", "/v1/volume/csi/*/stats"),
    ("PUT", "/v1/volume/csi/*/modify"),
    ("PUT", "/v1/volume/csi/*/claim"),
    ("DELETE", "/v1/volume/csi/*/claim"),
    ("PUT", "/v1/volume/csi/*/create"),
    ("DELETE", "/v1/volume/csi/*/delete"),
    ("DELETE", "/v1/volume/csi/*/detach"),
    ("GET", "/v1/plugins"),
    ("GET", "/v1/plugin/csi/*"),
    ("GET", "/v1/plugin/csi/*/capacity"),
    ("GET", "/v1/nodes"),
    ("GET", "/v1/node/*"),
    ("GET", "/v1/node/*/allocations"),
    ("PUT", "/v1/node/*/fence"),
    ("PUT", "/v1/node/*/unfence"),
    ("PUT", "/v1/node/*/eligibility"),
    ("PUT", "/v1/node/*/drain"),
    ("GET", "/v1/jobs"),
    ("PUT", "/v1/jobs"),
    ("GET", "/v1/job/*"),
    ("PUT", "/v1/job/*"),
    ("DELETE", "/v1/job/*"),
    ("PUT", "/v1/job/*/plan"),
    ("PUT", "/v1/job/*/evaluate"),
    ("GET", "/v1/job/*/summary"),
    ("GET", "/v1/job/*/allocations"),
    ("GET", "/v1/job/*/evaluations"),
    ("GET", "/v1/job/*/deployment"),
    ("GET", "/v1/job/*/deployments"),
    ("PUT", "/v1/validate/job"),
    ("GET", "/v1/evaluations"),
    ("GET", "/v1/evaluation/*"),
    ("GET", "/v1/evaluation/*/allocations"),
    ("GET", "/v1/allocations"),
    ("GET", "/v1/allocation/*"),
    ("PUT", "/v1/allocation/*/stop"),
    ("GET", "/v1/client/fs/logs/*"),
    ("GET", "/v1/client/fs/ls/*"),
    ("GET", "/v1/client/fs/stat/*"),
    ("GET", "/v1/client/fs/cat/*"),
    ("GET", "/v1/client/fs/readat/*"),
    ("PUT", "/v1/client/allocation/*/restart"),
    ("PUT", "/v1/client/allocation/*/signal"),
    ("GET", "/v1/job/*/versions"),
    ("PUT", "/v1/job/*/revert"),
    ("GET", "/v1/deployments"),
    ("PUT", "/v1/search"),
    ("GET", "/v1/agent/self"),
    ("GET", "/v1/agent/health"),
    ("GET", "/v1/agent/members"),
    ("PUT", "/v1/system/gc"),
    ("GET", "/v1/status/leader"),
    ("GET", "/v1/status/peers"),
    ("GET", "/v1/regions"),
    ("GET", "/v1/namespaces"),
    ("PUT", "/v1/namespaces"),
    ("GET", "/v1/namespace/*"),
    ("PUT", "/v1/namespace/*"),
    ("DELETE", "/v1/namespace/*"),
    // A stream never ends, so only its refusals.
    ("GET", "/v1/event/stream?index=x"),
    ("GET", "/v1/vars"),
    ("GET", "/v1/var/*"),
    ("PUT", "/v1/var/*"),
    ("DELETE", "/v1/var/*"),
    ("GET", "/v1/*"),
    ("PUT", "/v1/*"),
    ("GET", "/*"),
];

const IDS: &[&str] = &[
    "db",
    "data",
    "web",
    "batch",
    "hostpath",
    "default",
    "a/b",
    "a%2Fb",
    "nope",
    "",
    "%FF",
    "%00",
    "..",
    "nomad/jobs",
    "%E6%97%A5",
    "x%20y",
    "%E2%80%AE",
];

const PARAMETERS: &[&str] = &[
    "type=csi",
    "type=host",
    "type=",
    "namespace=*",
    "namespace=prod",
    "namespace=",
    "prefix=d",
    "prefix=%FF",
    "per_page=1",
    "per_page=0",
    "per_page=-1",
    "per_page=4294967296",
    "next_token=x",
    "next_token=default.db",
    "filter=ID+%3D%3D+%22db%22",
    "filter=%28%28%28",
    "filter=Name",
    "index=1&wait=1ms",
    "index=18446744073709551615&wait=2ms",
    "index=x",
    "wait=x",
    "stale",
    "stale=maybe",
    "plugin_id=hostpath",
    "plugin_id=nope",
    "plugin_type=csi",
    "force=true",
    "force=x",
    "node=nope",
    "node_id=nope",
    "cas=0",
    "cas=1",
    "cas=-1",
    "lock-operation=acquire",
    "lock-operation=release",
    "lock-operation=x",
    "region=global",
    "region=mars",
    "pretty",
    "purge=true",
    "global=true",
    "task=main&type=stdout&plain=true",
    "task=main&type=stderr",
    "offset=-5",
    "origin=end",
    "alloc=nope",
    "alias=data",
    "snapshot_id=x",
    "reverse=true",
    "secrets=a%3Db",
    "resources=true",
    "os=true",
    "no_shutdown_delay=x",
    "eval_priority=200",
    "job=web",
];

fn bodies() -> Vec<Value> {
    let volume = json!({
        "ID": "db", "Name": "db", "Namespace": "default", "PluginID": "hostpath", "ExternalID": "e",
        "RequestedCapabilities": [
            {"AccessMode": "single-node-writer", "AttachmentMode": "file-system"},
            {"AccessMode": "multi-node-multi-writer", "AttachmentMode": "file-system"}],
        "RequestedCapacityMin": 1024, "RequestedCapacityMax": 4096, "CloneID": "", "SnapshotID": "",
        "MountOptions": {"FSType": "ext4", "MountFlags": ["noatime"]},
        "Secrets": {"token": "secret"}, "Parameters": {"backing": "directory"}, "Context": {"a": "b"},
        "RequestedTopologies": {"Required": [{"Segments": {"rack": "1"}}], "Preferred": []},
    });
    let snapshot = json!({"SourceVolumeID": "db", "Name": "nightly", "PluginID": "hostpath",
        "Secrets": {"token": "secret"}, "Parameters": {}, "ID": "s"});
    let job = json!({
        "ID": "web", "Name": "web", "Type": "service", "Datacenters": ["*"], "Namespace": "default",
        "Priority": 50, "Constraints": [{"LTarget": "${attr.kernel.name}", "RTarget": "linux", "Operand": "="}],
        "TaskGroups": [{"Name": "main", "Count": 1,
            "Volumes": {"data": {"Name": "data", "Type": "csi", "Source": "data", "ReadOnly": false,
                "AccessMode": "single-node-writer", "AttachmentMode": "file-system", "PerAlloc": false}},
            "RestartPolicy": {"Attempts": 1, "Interval": 5_000_000_000_u64, "Delay": 1_000_000, "Mode": "fail"},
            "Tasks": [{"Name": "main", "Driver": "mock_driver", "Config": {"run_for": "10ms"},
                "Env": {"A": "b"}, "KillTimeout": 1_000_000,
                "VolumeMounts": []}]}],
    });
    vec![
        json!({"Volumes": [volume], "Namespace": "default", "SecretID": "", "Region": "global"}),
        json!({"Snapshots": [snapshot]}),
        json!({"Job": job, "EnforceIndex": true, "JobModifyIndex": 0}),
        json!({"Job": job, "Diff": true}),
        json!({"AllocID": "a1", "NodeID": "", "Alias": "data", "ReadOnly": false, "Wait": 1_000_000,
            "AccessMode": "single-node-writer", "AttachmentMode": "file-system"}),
        json!({"Namespace": "default", "Path": "a/b", "Items": {"key": "value"},
            "Lock": {"ID": "", "TTL": "15s", "LockDelay": "15s"}, "ModifyIndex": 0}),
        json!({"Eligibility": "ineligible", "NodeID": ""}),
        json!({"DrainSpec": {"Deadline": 1_000_000, "IgnoreSystemJobs": true}, "MarkEligible": true}),
        json!({"JobID": "web", "EvalOptions": {"ForceReschedule": true}}),
        json!({"Prefix": "d", "Context": "volumes"}),
        json!({"Name": "prod", "Description": "production", "Meta": {}}),
    ]
}

/// Replaces, removes or repeats values at a random place.
fn mutate(value: &mut Value, others: &[Value], random: &mut Random) {
    let goes_deeper = random.below(4) > 0;
    match value {
        Value::Object(fields) if goes_deeper && !fields.is_empty() => {
            let keys: Vec<_> = fields.keys().cloned().collect();
            let key = &keys[index(random, keys.len())];
            match random.below(12) {
                0 => drop(fields.remove(key)),
                1 => drop(fields.insert(key.to_ascii_lowercase(), json!(1))),
                _ => mutate(&mut fields[key], others, random),
            }
        }
        Value::Array(elements) if goes_deeper && !elements.is_empty() => {
            let at = index(random, elements.len());
            match random.below(12) {
                0 => drop(elements.remove(at)),
                1 => {
                    let repeated = elements[at].clone();
                    elements.extend(std::iter::repeat_n(repeated, 40));
                }
                _ => mutate(&mut elements[at], others, random),
            }
        }
        other => *other = replacement(others, random),
    }
}

fn replacement(others: &[Value], random: &mut Random) -> Value {
    let deep = || (0..200).fold(json!(1), |inner, _| json!([inner]));
    match random.below(16) {
        0 => Value::Null,
        1 => json!(true),
        2 => json!(-1),
        3 => json!(u64::MAX),
        4 => json!(i64::MIN),
        5 => json!(1e308),
        6 => json!(0.5),
        7 => json!(""),
        8 => json!("\u{202e}\u{0}\u{9b}"),
        9 => json!("x".repeat(5000)),
        10 => json!([]),
        11 => json!({}),
        12 => deep(),
        13 => others[index(random, others.len())].clone(),
        14 => json!("prod"),
        _ => json!(["a", 1, null]),
    }
}

fn index(random: &mut Random, length: usize) -> usize {
    usize::try_from(random.below(length as u64)).unwrap()
}

/// A request as bytes.
struct Request {
    line: String,
    typed: bool,
    body: Vec<u8>,
}

fn request(random: &mut Random, ids: &[String], bodies: &[Value]) -> Request {
    let (usual, path) = ROUTES[index(random, ROUTES.len())];
    let method = match random.below(8) {
        0 => METHODS[index(random, METHODS.len())],
        _ => usual,
    };
    let mut path = path.to_owned();
    if path.contains('*') {
        path = path.replace('*', &ids[index(random, ids.len())]);
    }
    for number in 0..random.below(4) {
        path.push(if number == 0 { '?' } else { '&' });
        path.push_str(PARAMETERS[index(random, PARAMETERS.len())]);
    }
    let mut body = vec![];
    if method != "GET" && random.below(8) > 0 {
        let mut document = bodies[index(random, bodies.len())].clone();
        for _ in 0..random.below(4) {
            mutate(&mut document, bodies, random);
        }
        body = document.to_string().into_bytes();
        body.truncate(LONGEST_BODY);
        if random.below(8) == 0 {
            let at = index(random, body.len());
            body[at] = u8::try_from(random.below(256)).unwrap();
        }
    }
    Request { line: format!("{method} {path}"), typed: random.below(4) > 0, body }
}

impl Request {
    fn send(&self, agent: &Address) -> io::Result<Answer> {
        let accept = match self.typed {
            true => format!("accept: {}\r\n", ErrorBody::MEDIA_TYPE),
            false => String::new(),
        };
        let head = format!(
            "{} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{accept}content-length: {}\r\n\r\n",
            self.line,
            self.body.len(),
        );
        agent.send(&[head.as_bytes(), &self.body])
    }
}

/// The agent's objects by ID, so that requests reach them.
fn known_ids(agent: &Address) -> Vec<String> {
    let mut ids: Vec<String> = IDS.iter().map(|id| (*id).to_owned()).collect();
    for list in ["nodes", "allocations", "evaluations"] {
        let path = format!("/v1/{list}?namespace=*");
        let found = agent.ask("GET", &path, None).unwrap().json();
        let found = found.as_array().unwrap().iter();
        // Without its plugin, the agent has little to answer.
        let found = found.filter(|object| object["JobID"] != "nomad-csi-hostpath");
        let found = found.filter_map(|object| object["ID"].as_str());
        ids.extend(found.take(4).map(str::to_owned));
    }
    ids
}

/// How many responses there were with a status, and an example for each code of a server error.
#[derive(Debug, Default)]
struct Seen {
    statuses: BTreeMap<u16, u64>,
    errors: BTreeMap<String, (u64, String)>,
    unclassified: BTreeMap<String, String>,
}

impl Seen {
    fn add(&mut self, request: &Request, answer: &Answer) {
        *self.statuses.entry(answer.status).or_default() += 1;
        if answer.status < 500 || !request.typed || answer.body.is_empty() {
            return;
        }
        let ErrorBody { code, text, .. } = serde_json::from_slice(&answer.body).unwrap();
        let example = || format!("{}: {}: {text}", answer.status, request.line);
        if !SERVER_ERRORS.iter().any(|(known, part, _)| *known == code && text.contains(part)) {
            let start: String = text.chars().take(40).collect();
            self.unclassified.insert(format!("{code}: {start}"), example());
        }
        // Nomad has no such path, so it is no reason for 500.
        let path = request.line.split('?').next().unwrap_or_default();
        if path.ends_with("/claim") && code != "api/unknown-region" {
            self.unclassified.insert(format!("{code} of a claim"), example());
        }
        self.errors.entry(code).or_insert_with(|| (0, example())).0 += 1;
    }

    fn merge(&mut self, other: Self) {
        for (status, number) in other.statuses {
            *self.statuses.entry(status).or_default() += number;
        }
        for (code, (number, example)) in other.errors {
            self.errors.entry(code).or_insert((0, example)).0 += number;
        }
        self.unclassified.extend(other.unclassified);
    }
}

fn number_of_requests() -> u64 {
    let text = std::env::var("NOMAD_CSI_REQUESTS").ok();
    text.and_then(|text| text.parse().ok()).unwrap_or(4_000)
}

#[test]
fn no_request_stops_the_agent_or_is_a_server_error_without_a_reason() {
    const CLIENTS: u64 = 4;
    let data = tempfile::tempdir().unwrap();
    let mut command = program(["agent", "--dev", "--http", "127.0.0.1:0", "--data-dir"]);
    command.arg(data.path()).env("NOMAD_CSI_LOG", "info");
    let agent = AgentProcess::run_with_its_log(command);
    let socket = Address::Unix(agent.socket.clone());
    for id in KEPT {
        create(&socket, id).unwrap().json();
    }
    let kept = list(&socket);
    let (sent, bodies) = (AtomicU64::new(0), bodies());
    let client = |number: u64| {
        let mut random = Random(number);
        let (mut seen, mut ids) = (Seen::default(), known_ids(&socket));
        while sent.fetch_add(1, Ordering::Relaxed) < number_of_requests() {
            if random.below(500) == 0 {
                ids = known_ids(&socket);
            }
            let request = request(&mut random, &ids, &bodies);
            let answer = request.send(&socket);
            let answer = answer.unwrap_or_else(|error| panic!("{}: {error}", request.line));
            seen.add(&request, &answer);
        }
        seen
    };
    let mut seen = Seen::default();
    std::thread::scope(|scope| {
        let client = &client;
        let clients: Vec<_> =
            (0..CLIENTS).map(|number| scope.spawn(move || client(number))).collect();
        for client in clients {
            seen.merge(client.join().unwrap());
        }
    });
    eprintln!("{seen:#?}");
    assert!(seen.unclassified.is_empty(), "{:#?}", seen.unclassified);
    let panics: Vec<_> = agent.log().into_iter().filter(|line| line.contains("panicked")).collect();
    assert!(panics.is_empty(), "{panics:#?}");
    let found = list(&socket);
    assert!(kept.iter().all(|volume| found.contains(volume)), "{found:?}");
    assert!(agent.stop().success());
    let checked = program(["agent", "check", "--data-dir"]).arg(data.path()).output().unwrap();
    let text = String::from_utf8_lossy(&checked.stderr);
    assert!(checked.status.success(), "{text}");
}
