//! What a real Nomad does with an update, and what the predictor says that it does: every rule of
//! the merge table, refusals and silent changes alike (`users` table 1b, `csi-orchestration` 2.4 to
//! 2.7, `nomad-http-api` 3.5).
//!
//! The recorded answers are checked in every run. The same cases run live against a server that has
//! a CSI plugin with a controller that creates and expands volumes:
//!
//!   `NOMAD_ADDR=http://127.0.0.1:4646 cargo test --test suite nomad_merge -- --ignored`
//!
//! `NOMAD_CSI_PLUGIN` names the plugin (default `hostpath`), `NOMAD_CSI_CLAIM_DRIVER` the task driver
//! of the jobs that claim volumes (default `exec`), `NOMAD_CSI_RECORD` a file that the answers are
//! written to. Volumes and jobs are named `merge-…` and removed at the end. The server may have no
//! ACLs and speak plain HTTP.
//!
//! An update that says nothing of mount options is not among the cases: no client of ours sends one.
//! Nor is, before 1.3, one without the external ID: that is another volume there. What a server does
//! not show is not compared, and stands beside its recording.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use nomad_csi::model::{Namespace, ServerVersion, Volume};
use nomad_csi::plan::{Expansion, MergeRules, Merged, Refusal, UpdateRule, merge};
use nomad_csi::wire;
use serde_json::{Value, json};

#[expect(dead_code, reason = "other test programs use the rest")]
#[path = "../support/http.rs"]
mod http;

use http::Address;

/// What a server of one version did.
struct Recording {
    version: &'static str,
    lines: &'static str,
    /// Fields that it does not show, so that they are not compared.
    unseen: &'static [&'static str],
}

impl Recording {
    const fn new(version: &'static str, lines: &'static str) -> Self {
        let unseen = &[];
        Self {
            version,
            lines,
            unseen,
        }
    }

    fn version(&self) -> ServerVersion {
        ServerVersion::parse(self.version).expect("a version")
    }

    fn seen(&self) -> Vec<Seen> {
        self.lines.lines().map(Seen::of).collect()
    }
}

#[rustfmt::skip]
const RECORDED: &[Recording] = &[
    Recording {
        unseen: &["mount_options", "topology_request"],
        ..Recording::new("1.1.18", include_str!("../data/nomad/1.1.18/merge.jsonl"))
    },
    Recording::new("1.3.16", include_str!("../data/nomad/1.3.16/merge.jsonl")),
    Recording::new("1.4.14", include_str!("../data/nomad/1.4.14/merge.jsonl")),
    Recording::new("1.6.10", include_str!("../data/nomad/1.6.10/merge.jsonl")),
    Recording::new("1.7.7", include_str!("../data/nomad/1.7.7/merge.jsonl")),
    Recording::new("1.9.5", include_str!("../data/nomad/1.9.5/merge.jsonl")),
    Recording::new("2.0.5", include_str!("../data/nomad/2.0.5/merge.jsonl")),
];

/// One update of one volume.
struct Case {
    name: &'static str,
    /// Laid over the volume that is made.
    made: Value,
    /// Whether an allocation claims it while it is updated.
    claimed: bool,
    /// Laid over what it was made with; `null` takes a field away.
    update: Value,
}

const WRITER: &str = "single-node-writer";
const READER: &str = "single-node-reader-only";

fn capability(access_mode: &str) -> Value {
    json!({"AccessMode": access_mode, "AttachmentMode": "file-system"})
}

fn place(node: &str) -> Value {
    json!({"Segments": {"topology.hostpath.csi/node": node}})
}

fn case(name: &'static str, update: Value) -> Case {
    Case {
        name,
        made: json!({}),
        claimed: false,
        update,
    }
}

fn claimed(name: &'static str, update: Value) -> Case {
    Case {
        claimed: true,
        ..case(name, update)
    }
}

fn made(name: &'static str, made: Value, update: Value) -> Case {
    Case {
        made,
        ..case(name, update)
    }
}

/// Nothing that is waited for takes longer on a machine that works.
const LIMIT: Duration = Duration::from_secs(120);
const MIB: u64 = 1 << 20;

#[rustfmt::skip]
fn cases() -> Vec<Case> {
    let two_places = json!({"RequestedTopologies": {"Required": [place("node-0"), place("node-1")]}});
    let size = |min: u64, max: u64| json!({"RequestedCapacityMin": min, "RequestedCapacityMax": max});
    let options = |fs_type: &str, flags: &[&str]| json!({"MountOptions": {"FSType": fs_type, "MountFlags": flags}});
    vec![
        case("same", json!({})),
        case("name-other", json!({"Name": "other"})),
        case("name-omitted", json!({"Name": null})),
        case("external-id-other", json!({"ExternalID": "other"})),
        case("clone-id-given", json!({"CloneID": "other"})),
        case("snapshot-id-given", json!({"SnapshotID": "other"})),
        case("parameters-other", json!({"Parameters": {"tier": "slow"}})),
        case("parameters-more", json!({"Parameters": {"tier": "fast", "more": "1"}})),
        case("parameters-omitted", json!({"Parameters": null})),
        case("parameters-empty", json!({"Parameters": {}})),
        case("context-other", json!({"Context": {"attach": "iscsi"}})),
        case("context-omitted", json!({"Context": null})),
        case("context-empty", json!({"Context": {}})),
        case("secrets-omitted", json!({"Secrets": null})),
        case("secrets-other", json!({"Secrets": {"key": "other"}})),
        case("capability-fewer", json!({"RequestedCapabilities": [capability(READER)]})),
        case("capability-other", json!({"RequestedCapabilities": [capability("multi-node-multi-writer")]})),
        case("mount-options-other", options("xfs", &["noatime"])),
        case("mount-options-empty", options("", &[])),
        case("topology-other", json!({"RequestedTopologies": {"Required": [place("node-1")]}})),
        case("topology-omitted", json!({"RequestedTopologies": null})),
        case("topology-empty", json!({"RequestedTopologies": {}})),
        case("topology-preferred-added", json!({"RequestedTopologies": {"Required": [place("node-0")], "Preferred": [place("node-0")]}})),
        made("topology-two-same", two_places.clone(), json!({})),
        made("topology-two-reordered", two_places, json!({"RequestedTopologies": {"Required": [place("node-1"), place("node-0")]}})),
        made("topology-none-then-empty", json!({"RequestedTopologies": null}), json!({"RequestedTopologies": {}})),
        made("topology-none-then-some", json!({"RequestedTopologies": null}), json!({"RequestedTopologies": {"Required": [place("node-0")]}})),
        made("registered-topology", json!({"ExternalID": "merge-provider", "RequestedTopologies": null, "RequestedCapacityMin": 0, "RequestedCapacityMax": 0}), json!({"RequestedTopologies": {"Required": [place("node-0")]}})),
        made("registered-size", json!({"ExternalID": "merge-provider", "RequestedTopologies": null, "RequestedCapacityMin": MIB, "RequestedCapacityMax": 10 * MIB}), size(MIB, 20 * MIB)),
        case("size-zero", size(0, 0)),
        case("size-same", size(MIB, 10 * MIB)),
        case("size-max-below-min", size(5 * MIB, 4 * MIB)),
        case("size-max-below-current", size(0, MIB / 2)),
        case("size-min-lower", size(MIB / 2, 10 * MIB)),
        case("size-max-higher", size(MIB, 20 * MIB)),
        case("size-max-unset", size(MIB / 2, 0)),
        case("size-expanded", size(2 * MIB, 10 * MIB)),
        case("several", json!({"Name": "other", "ExternalID": "other", "Parameters": {"tier": "slow"}, "RequestedCapacityMax": 1})),
        claimed("claimed-same", json!({})),
        claimed("claimed-capability-dropped", json!({"RequestedCapabilities": [capability(READER)]})),
        claimed("claimed-capability-kept", json!({"RequestedCapabilities": [capability(WRITER)]})),
        claimed("claimed-mount-options-other", options("xfs", &[])),
        claimed("claimed-flags-added", options("ext4", &["noatime", "ro"])),
        claimed("claimed-flags-reordered", options("ext4", &["nodiratime", "noatime"])),
        claimed("claimed-size-recorded", size(MIB, 30 * MIB)),
        claimed("claimed-several", json!({"Name": "other", "MountOptions": {"FSType": "xfs", "MountFlags": null}, "RequestedCapabilities": [capability(READER)]})),
    ]
}

fn base(case: &Case, plugin: &str) -> Value {
    let id = format!("merge-{}", case.name);
    let mut volume = json!({
        "ID": id, "Name": id, "Namespace": "default", "PluginID": plugin,
        "RequestedCapacityMin": MIB, "RequestedCapacityMax": 10 * MIB,
        "RequestedCapabilities": [capability(WRITER), capability(READER)],
        "RequestedTopologies": {"Required": [place("node-0")]},
        "MountOptions": {"FSType": "", "MountFlags": null},
        "Parameters": {"tier": "fast"}, "Secrets": {"key": "value"},
    });
    if case.claimed {
        volume["MountOptions"] = json!({"FSType": "ext4", "MountFlags": ["noatime", "nodiratime"]});
        volume["RequestedTopologies"] = Value::Null;
    }
    lay_over(&volume, &case.made)
}

fn lay_over(volume: &Value, patch: &Value) -> Value {
    let mut volume = volume.clone();
    for (key, value) in patch.as_object().expect("an object") {
        volume[key] = value.clone();
    }
    volume
}

/// What was seen of one case.
#[derive(Clone, Debug, PartialEq)]
struct Seen {
    name: String,
    before: Value,
    update: Value,
    status: u64,
    answer: String,
    after: Value,
}

impl Seen {
    fn of(line: &str) -> Self {
        let value: Value = serde_json::from_str(line).expect("lines are JSON");
        let text = |key: &str| value[key].as_str().expect(key).to_owned();
        Self {
            name: text("case"),
            before: value["before"].clone(),
            update: value["update"].clone(),
            status: value["status"].as_u64().expect("a status"),
            answer: text("answer"),
            after: value["after"].clone(),
        }
    }

    fn line(&self) -> String {
        json!({
            "case": self.name, "before": self.before, "update": self.update,
            "status": self.status, "answer": self.answer, "after": self.after,
        })
        .to_string()
    }

    fn prediction(&self, rules: MergeRules) -> Result<Merged, Vec<Refusal>> {
        let update = wire::decode_value(&self.update).expect("an update");
        let (update, problems) = wire::request_from_wire(&update, &Namespace::default());
        assert_eq!(problems, [], "{}", self.name);
        let mut before = volume(&self.before);
        // The server compares the flags themselves, and shows none: they are those of the update
        // before it, which the case made.
        if let (Some(options), Some(flags)) = (&mut before.mount_options, self.made_flags()) {
            options.mount_flags = flags;
        }
        merge(&before, &update.to_wanted(), rules)
    }

    fn is_refused_by_the_plugin(&self) -> bool {
        let words = "controller validate volume: ";
        self.status == 500 && self.answer.starts_with(words)
    }

    fn made_flags(&self) -> Option<Vec<String>> {
        let case = cases().into_iter().find(|case| case.name == self.name)?;
        let flags = &base(&case, "any")["MountOptions"]["MountFlags"];
        serde_json::from_value(flags.clone()).ok()
    }

    /// Where the prediction is wrong.
    fn surprises(&self, rules: MergeRules) -> Vec<String> {
        let said = refusals(&self.answer);
        match self.prediction(rules) {
            // Before 1.3 the plugin is asked before the server says anything of its own.
            Err(_) if rules.update == UpdateRule::Overwrite && self.is_refused_by_the_plugin() => {
                vec![]
            }
            Err(refusals) => {
                let texts: Vec<_> = refusals.into_iter().map(|refusal| refusal.text).collect();
                if self.status == 200 || texts != said {
                    let (status, name) = (self.status, &self.name);
                    return vec![format!("{name}: foretold {texts:?}, got {status} {said:?}")];
                }
                vec![]
            }
            Ok(_) if self.status != 200 => {
                vec![format!("{}: foretold nothing, got {said:?}", self.name)]
            }
            Ok(merged) => differing(&self.name, &merged, &volume(&self.after), rules),
        }
    }
}

fn volume(document: &Value) -> Volume {
    let document = wire::decode_value(document).expect("a volume");
    wire::volume_from_wire(&document)
}

/// A list of errors is one of Go's, with a bullet each; else it is one.
fn refusals(answer: &str) -> Vec<String> {
    let listed: Vec<_> = answer
        .lines()
        .filter_map(|line| line.trim().strip_prefix("* "))
        .map(str::to_owned)
        .collect();
    if !listed.is_empty() {
        return listed;
    }
    let only = answer.trim();
    vec![
        only.strip_prefix("unable to update volume: ")
            .unwrap_or(only)
            .to_owned(),
    ]
}

/// Fields in which a volume is not as it was foretold, as far as the server shows them.
fn differing(name: &str, merged: &Merged, after: &Volume, rules: MergeRules) -> Vec<String> {
    let foretold = &merged.volume;
    let flags = |volume: &Volume| {
        let options = volume.mount_options.clone();
        options.map(|options| options.redacted())
    };
    let fields = [
        ("name", foretold.name == after.name),
        ("external_id", foretold.external_id == after.external_id),
        ("capability", foretold.capabilities == after.capabilities),
        (
            "requested capacity",
            foretold.requested_capacity == after.requested_capacity,
        ),
        (
            "topology_request",
            foretold.topology_request == after.topology_request,
        ),
        ("mount_options", flags(foretold) == flags(after)),
        ("parameters", foretold.parameters == after.parameters),
        ("context", foretold.context == after.context),
        (
            "capacity",
            match merged.expansion {
                Expansion::Needed { to } => after.capacity >= to.min,
                Expansion::None | Expansion::Record => after.capacity == foretold.capacity,
            },
        ),
    ];
    let unseen = rules.unseen.fields();
    let wrong = fields
        .into_iter()
        .filter(|(field, same)| !same && !unseen.contains(field));
    wrong
        .map(|(field, _)| format!("{name}: {field} is not as foretold: {after:?}"))
        .collect()
}

/// Issue 3, proof: the predictor is held against what servers of several versions did.
#[test]
fn what_real_servers_did_is_what_is_foretold() {
    for recording in RECORDED {
        let (version, seen) = (recording.version(), recording.seen());
        let rules = MergeRules::of_nomad(&version);
        assert_eq!(rules.unseen.fields(), recording.unseen, "Nomad {version}");
        let surprises: Vec<_> = seen.iter().flat_map(|seen| seen.surprises(rules)).collect();
        assert_eq!(surprises, [""; 0], "Nomad {version}");
        for case in cases() {
            let is_there = seen.iter().any(|seen| seen.name == case.name);
            assert!(is_there, "Nomad {version}: {} was not recorded", case.name);
        }
    }
}

/// Both outcomes are among the recordings, so that agreeing about everything says something.
#[test]
fn recordings_hold_refusals_and_changes() {
    for recording in RECORDED {
        let (taken, refused): (Vec<_>, Vec<_>) = recording
            .seen()
            .into_iter()
            .partition(|seen| seen.status == 200);
        let counts = (taken.len(), refused.len());
        assert!(
            counts.0 >= 15 && counts.1 >= 10,
            "Nomad {}: {counts:?}",
            recording.version
        );
    }
}

/// A server, live.
struct Server {
    address: Address,
    plugin: String,
    driver: String,
}

impl Server {
    fn of_environment() -> Self {
        let variable =
            |name: &str, default: &str| std::env::var(name).unwrap_or_else(|_| default.to_owned());
        let address = variable("NOMAD_ADDR", "http://127.0.0.1:4646");
        let address = address.trim_start_matches("http://").trim_end_matches('/');
        Self {
            address: Address::Tcp(address.parse().expect("NOMAD_ADDR is http://IP:PORT")),
            plugin: variable("NOMAD_CSI_PLUGIN", "hostpath"),
            driver: variable("NOMAD_CSI_CLAIM_DRIVER", "exec"),
        }
    }

    async fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> (u64, String) {
        let (address, body) = (self.address.clone(), body.cloned());
        let (method, path) = (method.to_owned(), path.to_owned());
        let asking = move || address.ask(&method, &path, body.as_ref());
        let asked = tokio::task::spawn_blocking(asking).await;
        let answer = asked.expect("it ends").expect("the server answers");
        (answer.status.into(), answer.text())
    }

    async fn version(&self) -> ServerVersion {
        let (status, text) = self.ask("GET", "/v1/agent/self", None).await;
        assert_eq!(status, 200, "{text}");
        let about: Value = serde_json::from_str(&text).expect("JSON");
        let version = about["config"]["Version"]["Version"]
            .as_str()
            .expect("a version");
        ServerVersion::parse(version).expect("a version")
    }

    async fn read(&self, id: &str) -> Value {
        self.read_after(id, 0).await
    }

    /// The volume once it has changed since that index, or after a while.
    async fn read_after(&self, id: &str, index: u64) -> Value {
        let path = format!("/v1/volume/csi/{id}?namespace=default&wait=5s&index={index}");
        let (status, text) = self.ask("GET", &path, None).await;
        assert_eq!(status, 200, "{id}: {text}");
        let mut volume: Value = serde_json::from_str(&text).expect("JSON");
        // Allocations say much of the machine that they run on.
        volume["Allocations"] = json!([]);
        volume
    }

    /// Waits until an allocation claims the volume, or none does any more.
    async fn until_claimed(&self, id: &str, claimed: bool) {
        let begun = Instant::now();
        let mut index = 0;
        loop {
            let volume = self.read_after(id, index).await;
            let claims = volume["WriteAllocs"].as_object();
            if claims.is_some_and(|claims| !claims.is_empty()) == claimed {
                return;
            }
            assert!(
                begun.elapsed() < LIMIT,
                "{id}: claimed is not {claimed}: {volume}"
            );
            index = volume["ModifyIndex"].as_u64().expect("an index");
        }
    }

    async fn write(&self, id: &str, verb: &str, volume: &Value) -> (u64, String) {
        let body = json!({"Volumes": [volume]});
        let path = format!("/v1/volume/csi/{id}{verb}?namespace=default");
        self.ask("PUT", &path, Some(&body)).await
    }

    async fn make(&self, volume: &Value) {
        let id = volume["ID"].as_str().expect("an ID");
        let verb = if volume.get("ExternalID").is_some() {
            ""
        } else {
            "/create"
        };
        let (status, text) = self.write(id, verb, volume).await;
        assert_eq!(status, 200, "{id}: {text}");
    }

    async fn claim(&self, id: &str) {
        let job = json!({"Job": {"ID": id, "Name": id, "Type": "service", "Datacenters": ["*", "dc1"],
            "TaskGroups": [{"Name": "g", "Count": 1,
                "Volumes": {"v": {"Name": "v", "Type": "csi", "Source": id, "AccessMode": WRITER, "AttachmentMode": "file-system"}},
                "Tasks": [{"Name": "t", "Driver": self.driver, "Config": {"command": "/bin/sleep", "args": ["600"]},
                    "VolumeMounts": [{"Volume": "v", "Destination": "/data"}],
                    "Resources": {"CPU": 20, "MemoryMB": 16}}]}]}});
        let (status, text) = self.ask("PUT", "/v1/jobs", Some(&job)).await;
        assert_eq!(status, 200, "{id}: {text}");
        self.until_claimed(id, true).await;
    }

    async fn release(&self, id: &str) {
        let path = format!("/v1/job/{id}?purge=true");
        self.ask("DELETE", &path, None).await;
        self.until_claimed(id, false).await;
    }

    /// Makes a volume that another registration can name, and says what the provider calls it.
    async fn source(&self) -> Value {
        let mut volume = base(&case("source", json!({})), &self.plugin);
        volume["RequestedTopologies"] = Value::Null;
        self.make(&volume).await;
        self.read("merge-source").await["ExternalID"].clone()
    }

    async fn run(&self, case: &Case, rules: MergeRules) -> Seen {
        let mut volume = base(case, &self.plugin);
        let is_registered = volume.get("ExternalID").is_some();
        if is_registered {
            volume["ExternalID"] = self.source().await;
        }
        let id = volume["ID"].as_str().expect("an ID").to_owned();
        self.make(&volume).await;
        if case.claimed {
            self.claim(&id).await;
        }
        let before = self.read(&id).await;
        if rules.update == UpdateRule::Overwrite {
            volume["ExternalID"] = before["ExternalID"].clone();
        }
        let update = lay_over(&volume, &case.update);
        let (status, text) = self.write(&id, "", &update).await;
        let after = self.read(&id).await;
        if case.claimed {
            self.release(&id).await;
        }
        let path = if is_registered { "" } else { "/delete" };
        let path = format!("/v1/volume/csi/{id}{path}?namespace=default");
        let (gone, said) = self.ask("DELETE", &path, None).await;
        assert_eq!(gone, 200, "{id}: {said}");
        if is_registered {
            let path = "/v1/volume/csi/merge-source/delete?namespace=default";
            assert_eq!(self.ask("DELETE", path, None).await.0, 200);
        }
        Seen {
            name: case.name.to_owned(),
            before,
            update,
            status,
            answer: if status == 200 { String::new() } else { text },
            after,
        }
    }
}

#[tokio::test]
#[ignore = "needs a Nomad server with a CSI plugin: set NOMAD_ADDR"]
async fn a_live_server_does_what_is_foretold() {
    let server = Server::of_environment();
    let version = server.version().await;
    let rules = MergeRules::of_nomad(&version);
    let (mut surprises, mut recording) = (vec![], String::new());
    for case in cases() {
        let seen = server.run(&case, rules).await;
        surprises.extend(seen.surprises(rules));
        writeln!(recording, "{}", seen.line()).expect("a text takes everything");
    }
    if let Ok(path) = std::env::var("NOMAD_CSI_RECORD") {
        std::fs::write(path, recording).expect("the recording can be written");
    }
    assert_eq!(surprises, [""; 0], "Nomad {version}");
}
