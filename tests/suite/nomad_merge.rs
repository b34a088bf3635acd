//! Compares the predicted updates with those of real Nomad servers: every rule of the merge table,
//! refusals and silent changes alike.
//!
//! Each run checks the recorded responses. The same cases run live against a server with a CSI
//! controller plugin that creates and expands volumes:
//!
//!   `NOMAD_ADDR=http://127.0.0.1:4646 cargo test --test suite nomad_merge -- --ignored`
//!
//! `NOMAD_CSI_PLUGIN` is the plugin (default `hostpath`), `NOMAD_CSI_CLAIM_DRIVER` the task driver of
//! the claiming jobs (default `exec`), and `NOMAD_CSI_RECORD` a file for the responses. Volumes and jobs
//! are named `merge-…` and removed at the end. The server must use plain HTTP without ACLs.
//!
//! No case omits the mount options, because no client of this project does. Before Nomad 1.3 no case
//! omits the external ID, which would be another volume there. Fields that a server does not show are
//! not compared; each recording lists them.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use nomad_csi_model::{Namespace, ServerVersion, Volume};
use nomad_csi_plan::{Expansion, MergeRules, Merged, Refusal, UpdateRule, merge};
use nomad_csi_wire as wire;
use serde_json::{Value, json};

#[expect(dead_code, reason = "other test programs use the rest")]
#[path = "../support/http.rs"]
mod http;

use http::Address;

/// The responses of one server version.
struct Recording {
    version: &'static str,
    lines: &'static str,
    /// The fields that the server does not show.
    unreported: &'static [&'static str],
}

impl Recording {
    const fn new(version: &'static str, lines: &'static str) -> Self {
        let unreported = &[];
        Self { version, lines, unreported }
    }

    fn version(&self) -> ServerVersion {
        ServerVersion::parse(self.version).expect("a version")
    }

    fn recorded(&self) -> Vec<RecordedCase> {
        self.lines.lines().map(RecordedCase::of).collect()
    }
}

#[rustfmt::skip]
const RECORDED: &[Recording] = &[
    Recording {
        unreported: &["mount_options", "topology_request"],
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
    /// Changes to the created volume.
    created: Value,
    /// True if an allocation claims the volume during the update.
    claimed: bool,
    /// Changes to the created volume in the update; `null` removes a field.
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
    Case { name, created: json!({}), claimed: false, update }
}

fn claimed(name: &'static str, update: Value) -> Case {
    Case { claimed: true, ..case(name, update) }
}

fn created(name: &'static str, created: Value, update: Value) -> Case {
    Case { created, ..case(name, update) }
}

/// The timeout of each wait.
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
        created("topology-two-same", two_places.clone(), json!({})),
        created("topology-two-reordered", two_places, json!({"RequestedTopologies": {"Required": [place("node-1"), place("node-0")]}})),
        created("topology-none-then-empty", json!({"RequestedTopologies": null}), json!({"RequestedTopologies": {}})),
        created("topology-none-then-some", json!({"RequestedTopologies": null}), json!({"RequestedTopologies": {"Required": [place("node-0")]}})),
        created("registered-topology", json!({"ExternalID": "merge-provider", "RequestedTopologies": null, "RequestedCapacityMin": 0, "RequestedCapacityMax": 0}), json!({"RequestedTopologies": {"Required": [place("node-0")]}})),
        created("registered-size", json!({"ExternalID": "merge-provider", "RequestedTopologies": null, "RequestedCapacityMin": MIB, "RequestedCapacityMax": 10 * MIB}), size(MIB, 20 * MIB)),
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
    with_changes(&volume, &case.created)
}

fn with_changes(volume: &Value, patch: &Value) -> Value {
    let mut volume = volume.clone();
    for (key, value) in patch.as_object().expect("an object") {
        volume[key] = value.clone();
    }
    volume
}

/// The recorded response of one case.
#[derive(Clone, Debug, PartialEq)]
struct RecordedCase {
    name: String,
    before: Value,
    update: Value,
    status: u64,
    answer: String,
    after: Value,
}

impl RecordedCase {
    fn of(line: &str) -> Self {
        let value: Value = serde_json::from_str(line).expect("a line is JSON");
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
        // The server compares the flags and redacts them in responses. The stored flags are those that
        // the case created the volume with.
        if let (Some(options), Some(flags)) = (&mut before.mount_options, self.created_flags()) {
            options.mount_flags = flags;
        }
        merge(&before, &update.to_unresolved(), rules)
    }

    fn is_refused_by_the_plugin(&self) -> bool {
        let words = "controller validate volume: ";
        self.status == 500 && self.answer.starts_with(words)
    }

    fn created_flags(&self) -> Option<Vec<String>> {
        let case = cases().into_iter().find(|case| case.name == self.name)?;
        let flags = &base(&case, "any")["MountOptions"]["MountFlags"];
        serde_json::from_value(flags.clone()).ok()
    }

    /// Returns the errors of the prediction.
    fn errors(&self, rules: MergeRules) -> Vec<String> {
        let found = refusals(&self.answer);
        match self.prediction(rules) {
            // Nomad before 1.3 calls the plugin before its own checks.
            Err(_) if rules.update == UpdateRule::Overwrite && self.is_refused_by_the_plugin() => {
                vec![]
            }
            Err(refusals) => {
                let texts: Vec<_> = refusals.into_iter().map(|refusal| refusal.text).collect();
                if self.status == 200 || texts != found {
                    let (status, name) = (self.status, &self.name);
                    return vec![format!("{name}: predicted {texts:?}, got {status} {found:?}")];
                }
                vec![]
            }
            Ok(_) if self.status != 200 => {
                vec![format!("{}: predicted no refusal, got {found:?}", self.name)]
            }
            Ok(merged) => differing(&self.name, &merged, &volume(&self.after), rules),
        }
    }
}

fn volume(document: &Value) -> Volume {
    let document = wire::decode_value(document).expect("a volume");
    wire::volume_from_wire(&document)
}

/// Splits Go's bulleted list of errors; any other text is one error.
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
    vec![only.strip_prefix("unable to update volume: ").unwrap_or(only).to_owned()]
}

/// Returns the visible fields in which a volume differs from the prediction.
fn differing(name: &str, merged: &Merged, after: &Volume, rules: MergeRules) -> Vec<String> {
    let predicted = &merged.volume;
    let flags = |volume: &Volume| {
        let options = volume.mount_options.clone();
        options.map(|options| options.redacted())
    };
    let fields = [
        ("name", predicted.name == after.name),
        ("external_id", predicted.external_id == after.external_id),
        ("capability", predicted.capabilities == after.capabilities),
        ("requested capacity", predicted.requested_capacity == after.requested_capacity),
        ("topology_request", predicted.topology_request == after.topology_request),
        ("mount_options", flags(predicted) == flags(after)),
        ("parameters", predicted.parameters == after.parameters),
        ("context", predicted.context == after.context),
        (
            "capacity",
            match merged.expansion {
                Expansion::Needed { to } => after.capacity >= to.min,
                Expansion::None | Expansion::Record => after.capacity == predicted.capacity,
            },
        ),
    ];
    let unreported = rules.unreported.fields();
    let wrong = fields.into_iter().filter(|(field, same)| !same && !unreported.contains(field));
    wrong
        .map(|(field, _)| format!("{name}: {field} differs from the prediction: {after:?}"))
        .collect()
}

#[test]
fn recorded_responses_match_the_predictions() {
    for recording in RECORDED {
        let (version, recorded) = (recording.version(), recording.recorded());
        let rules = MergeRules::of_nomad(&version);
        assert_eq!(rules.unreported.fields(), recording.unreported, "Nomad {version}");
        let errors: Vec<_> = recorded.iter().flat_map(|recorded| recorded.errors(rules)).collect();
        assert_eq!(errors, [""; 0], "Nomad {version}");
        for case in cases() {
            let is_there = recorded.iter().any(|recorded| recorded.name == case.name);
            assert!(is_there, "Nomad {version}: {} was not recorded", case.name);
        }
    }
}

/// The recordings contain both outcomes, so the comparison is meaningful.
#[test]
fn recordings_contain_refusals_and_changes() {
    for recording in RECORDED {
        let (taken, refused): (Vec<_>, Vec<_>) =
            recording.recorded().into_iter().partition(|recorded| recorded.status == 200);
        let counts = (taken.len(), refused.len());
        assert!(counts.0 >= 15 && counts.1 >= 10, "Nomad {}: {counts:?}", recording.version);
    }
}

/// What a volume shows of its claims and its plugin. No plan compares it.
const NOT_OF_THE_VOLUME: [&str; 14] = [
    "AccessMode",
    "Allocations",
    "AttachmentMode",
    "ControllersExpected",
    "ControllersHealthy",
    "ModifyIndex",
    "ModifyTime",
    "NodesExpected",
    "NodesHealthy",
    "ProviderVersion",
    "ReadAllocs",
    "ResourceExhausted",
    "Schedulable",
    "WriteAllocs",
];

/// A plan does not read a volume whose index is the same, so no field may change without it.
#[test]
fn no_field_changes_without_the_index() {
    let content = |volume: &Value| {
        let mut volume = volume.clone();
        let fields = volume.as_object_mut().expect("a volume");
        fields.retain(|field, _| !NOT_OF_THE_VOLUME.contains(&field.as_str()));
        volume
    };
    for recording in RECORDED {
        let mut changed = 0;
        for case in recording.recorded() {
            let index = |volume: &Value| volume["ModifyIndex"].as_u64().expect("an index");
            if content(&case.before) != content(&case.after) {
                changed += 1;
                let is_seen = index(&case.before) < index(&case.after);
                assert!(is_seen, "Nomad {}: {}", recording.version, case.name);
            }
        }
        let version = recording.version;
        assert!(changed >= 8, "Nomad {version}: {changed} changes");
    }
}

/// A live server.
struct Server {
    address: Address,
    plugin: String,
    driver: String,
}

impl Server {
    fn from_environment() -> Self {
        let variable =
            |name: &str, default: &str| std::env::var(name).unwrap_or_else(|_| default.to_owned());
        let address = variable("NOMAD_ADDR", "http://127.0.0.1:4646");
        let address = address.trim_start_matches("http://").trim_end_matches('/');
        Self {
            address: Address::without_token(address.parse().expect("NOMAD_ADDR is http://IP:PORT")),
            plugin: variable("NOMAD_CSI_PLUGIN", "hostpath"),
            driver: variable("NOMAD_CSI_CLAIM_DRIVER", "exec"),
        }
    }

    async fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> (u64, String) {
        let (address, body) = (self.address.clone(), body.cloned());
        let (method, path) = (method.to_owned(), path.to_owned());
        let send = move || address.ask(&method, &path, body.as_ref());
        let response = tokio::task::spawn_blocking(send).await;
        let answer = response.expect("the request completes").expect("the server responds");
        (answer.status.into(), answer.text())
    }

    async fn version(&self) -> ServerVersion {
        let (status, text) = self.ask("GET", "/v1/agent/self", None).await;
        assert_eq!(status, 200, "{text}");
        let about: Value = serde_json::from_str(&text).expect("JSON");
        let version = about["config"]["Version"]["Version"].as_str().expect("a version");
        ServerVersion::parse(version).expect("a version")
    }

    async fn read(&self, id: &str) -> Value {
        self.read_after(id, 0).await
    }

    /// Returns the volume after it has changed since this index, or after a timeout.
    async fn read_after(&self, id: &str, index: u64) -> Value {
        let path = format!("/v1/volume/csi/{id}?namespace=default&wait=5s&index={index}");
        let (status, text) = self.ask("GET", &path, None).await;
        assert_eq!(status, 200, "{id}: {text}");
        let mut volume: Value = serde_json::from_str(&text).expect("JSON");
        // Allocations contain details of the machine.
        volume["Allocations"] = json!([]);
        volume
    }

    /// Waits until the volume is claimed, or unclaimed.
    async fn until_claimed(&self, id: &str, claimed: bool) {
        let begun = Instant::now();
        let mut index = 0;
        loop {
            let volume = self.read_after(id, index).await;
            let claims = volume["WriteAllocs"].as_object();
            if claims.is_some_and(|claims| !claims.is_empty()) == claimed {
                return;
            }
            assert!(begun.elapsed() < LIMIT, "{id}: claimed is not {claimed}: {volume}");
            index = volume["ModifyIndex"].as_u64().expect("an index");
        }
    }

    async fn write(&self, id: &str, verb: &str, volume: &Value) -> (u64, String) {
        let body = json!({"Volumes": [volume]});
        let path = format!("/v1/volume/csi/{id}{verb}?namespace=default");
        self.ask("PUT", &path, Some(&body)).await
    }

    async fn create(&self, volume: &Value) {
        let id = volume["ID"].as_str().expect("an ID");
        let verb = if volume.get("ExternalID").is_some() { "" } else { "/create" };
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

    /// Creates a volume for another registration and returns its external ID.
    async fn source(&self) -> Value {
        let mut volume = base(&case("source", json!({})), &self.plugin);
        volume["RequestedTopologies"] = Value::Null;
        self.create(&volume).await;
        self.read("merge-source").await["ExternalID"].clone()
    }

    async fn run(&self, case: &Case, rules: MergeRules) -> RecordedCase {
        let mut volume = base(case, &self.plugin);
        let is_registered = volume.get("ExternalID").is_some();
        if is_registered {
            volume["ExternalID"] = self.source().await;
        }
        let id = volume["ID"].as_str().expect("an ID").to_owned();
        self.create(&volume).await;
        if case.claimed {
            self.claim(&id).await;
        }
        let before = self.read(&id).await;
        if rules.update == UpdateRule::Overwrite {
            volume["ExternalID"] = before["ExternalID"].clone();
        }
        let update = with_changes(&volume, &case.update);
        let (status, text) = self.write(&id, "", &update).await;
        let after = self.read(&id).await;
        if case.claimed {
            self.release(&id).await;
        }
        let path = if is_registered { "" } else { "/delete" };
        let path = format!("/v1/volume/csi/{id}{path}?namespace=default");
        let (deletion_status, deletion_text) = self.ask("DELETE", &path, None).await;
        assert_eq!(deletion_status, 200, "{id}: {deletion_text}");
        if is_registered {
            let path = "/v1/volume/csi/merge-source/delete?namespace=default";
            assert_eq!(self.ask("DELETE", path, None).await.0, 200);
        }
        RecordedCase {
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
async fn a_live_server_matches_the_predictions() {
    let server = Server::from_environment();
    let version = server.version().await;
    let rules = MergeRules::of_nomad(&version);
    let (mut errors, mut recording) = (vec![], String::new());
    for case in cases() {
        let recorded = server.run(&case, rules).await;
        errors.extend(recorded.errors(rules));
        writeln!(recording, "{}", recorded.line()).expect("writing to a string succeeds");
    }
    if let Ok(path) = std::env::var("NOMAD_CSI_RECORD") {
        std::fs::write(path, recording).expect("the recording can be written");
    }
    assert_eq!(errors, [""; 0], "Nomad {version}");
}
