//! Recorded responses of Nomad: the client decodes them, and `wire` encodes them back.

use nomad_csi_client::ports::{ApiError, VolumeApi as _, VolumeReader as _};
use nomad_csi_model::diagnostic::Code;
use nomad_csi_model::{Namespace, NamespacedId, PluginId, Secrets, VolumeId};
use nomad_csi_wire as wire;
use serde_json::{Value, json};

use crate::client_requests::{query, request};
use crate::support::http_server::{Server, response};

const ANSWERS: &str = include_str!("../data/nomad/2.0.5/answers.jsonl");

/// One recorded exchange.
struct Exchange {
    name: String,
    method: String,
    target: String,
    status: u16,
    headers: Vec<(String, String)>,
    answer: String,
}

fn exchanges() -> Vec<Exchange> {
    let read = |line: &str| {
        let value: Value = serde_json::from_str(line).expect("lines are JSON");
        let text = |key: &str| value[key].as_str().expect(key).to_owned();
        let headers = value["headers"].as_object().expect("headers are an object");
        Exchange {
            name: text("name"),
            method: text("method"),
            target: text("target"),
            status: value["status"]
                .as_u64()
                .and_then(|status| status.try_into().ok())
                .expect("a status"),
            headers: headers
                .iter()
                .map(|(key, value)| (key.clone(), value.as_str().expect("text").to_owned()))
                .collect(),
            answer: text("answer"),
        }
    };
    ANSWERS.lines().map(read).collect()
}

impl Exchange {
    fn json(&self) -> Value {
        serde_json::from_str(&self.answer).expect("the body is JSON")
    }

    async fn server(&self) -> Server {
        let of = |name: &str| {
            let mut headers = self.headers.iter();
            headers.find(|(key, _)| key == name).map_or("", |(_, value)| value)
        };
        let headers = [("X-Nomad-Index", of("X-Nomad-Index"))];
        let body = self.answer.as_bytes();
        Server::always(response(self.status, of("Content-Type"), &headers, body)).await
    }

    /// Replays the response to the request that it belongs to.
    async fn replay(&self) -> Result<&'static str, ApiError> {
        let server = self.server().await;
        let client = server.client();
        let path = self.target.split('?').next().unwrap_or_default();
        let mut parts = path.trim_start_matches("/v1/").split('/').skip(2);
        let id = parts.next().unwrap_or("any").replace("%20", " ").replace("%2F", "/");
        let key = NamespacedId::new(Namespace::default(), VolumeId::new(&id));
        let done = |()| "done";
        match (self.method.as_str(), parts.next()) {
            ("GET", None) if path.starts_with("/v1/plugin/") => {
                let plugin = client.read_plugin(&PluginId::new(&id), &Namespace::default()).await;
                plugin.map(|found| found.map_or("none", |_| "found"))
            }
            ("GET", None) if path == "/v1/plugins" => {
                client.list_plugins(None).await.map(|_| "list")
            }
            ("GET", None) if path == "/v1/volumes" => {
                client.list_volumes(&query("*")).await.map(|_| "list")
            }
            ("GET", _) => {
                let volume = client.read_volume(&key).await;
                volume.map(|found| found.map_or("none", |_| "found"))
            }
            ("DELETE", None) => client.deregister_volume(&key, false).await.map(done),
            ("DELETE", Some(_)) => client.delete_volume(&key, &Secrets::default()).await.map(done),
            (_, None) => client.register_volume(&request(&id)).await.map(|_| "written"),
            (_, Some(_)) => client.create_volume(&request(&id)).await.map(|_| "written"),
        }
    }
}

/// The codes of the recorded errors.
const REFUSALS: &[(&str, Code)] = {
    use Code as C;
    &[
        ("acl-create-unknown-token", C::ApiForbidden),
        ("acl-volumes-anonymous", C::ApiForbidden),
        ("create-bad-json", C::ApiBadRequest),
        ("create-capability-access-mode-empty", C::VolumeInvalid),
        ("create-capability-access-mode-unknown", C::VolumeInvalid),
        ("create-capability-attachment-mode-empty", C::VolumeInvalid),
        ("create-capability-attachment-mode-unknown", C::VolumeInvalid),
        ("create-capability-block-and-mount", C::PluginRefused),
        ("create-capability-none", C::VolumeInvalid),
        ("create-capacity-min-over-max", C::VolumeCapacity),
        ("create-capacity-negative", C::PluginRefused),
        ("create-capacity-out-of-range", C::PluginCapacity),
        ("create-clone-unknown", C::PluginSourceNotFound),
        ("create-empty-body", C::ApiBadRequest),
        ("create-id-missing", C::VolumeInvalid),
        ("create-name-missing", C::VolumeInvalid),
        ("create-namespace-unknown", C::VolumeUnknownNamespace),
        ("create-no-volumes", C::VolumeInvalid),
        ("create-plugin-empty", C::VolumeInvalid),
        ("create-plugin-unknown", C::PluginUnknown),
        ("create-post", C::ApiNotNomad),
        ("create-query-namespace-unknown", C::VolumeUnknownNamespace),
        ("create-snapshot-and-clone", C::VolumeInvalid),
        ("create-snapshot-unknown", C::PluginSourceNotFound),
        ("create-topology-empty-segments", C::VolumeInvalid),
        ("create-wrong-json-type", C::ApiBadRequest),
        ("delete-in-use", C::VolumeInUse),
        ("delete-missing", C::VolumeNotFound),
        ("delete-other-namespace", C::VolumeNotFound),
        ("deregister-bad-force", C::ApiBadRequest),
        ("deregister-in-use", C::VolumeInUse),
        ("deregister-missing", C::VolumeNotFound),
        ("deregister-missing-force", C::VolumeNotFound),
        ("register-bad-json", C::ApiBadRequest),
        ("register-id-missing", C::VolumeInvalid),
        ("register-new-external-missing", C::PluginVolumeNotFound),
        ("register-new-namespace-unknown", C::VolumeUnknownNamespace),
        ("register-new-no-external-id", C::PluginVolumeNotFound),
        ("register-new-plugin-unknown", C::PluginUnknown),
        ("register-no-volumes", C::VolumeInvalid),
        ("register-post", C::ApiNotNomad),
        ("register-update-capability-in-use", C::VolumeInUse),
        ("register-update-capability-none", C::VolumeInvalid),
        ("register-update-capability-unknown", C::VolumeInvalid),
        ("register-update-clone-id", C::VolumeImmutableField),
        ("register-update-expand-down", C::VolumeCapacity),
        ("register-update-expand-min-over-max", C::VolumeCapacity),
        ("register-update-external-id", C::VolumeImmutableField),
        ("register-update-mount-options-in-use", C::VolumeInUse),
        ("register-update-name", C::VolumeImmutableField),
        ("register-update-name-and-parameters", C::VolumeImmutableField),
        ("register-update-ok-in-use", C::VolumeInUse),
        ("register-update-parameters", C::VolumeImmutableField),
        ("register-update-plugin-id", C::PluginUnknown),
        ("register-update-snapshot-id", C::VolumeImmutableField),
        ("register-update-topology", C::VolumeImmutableField),
        ("volume-bad-method", C::ApiNotNomad),
        ("volume-get-create-path", C::ApiNotNomad),
        ("volume-put-unknown-verb", C::ApiNotNomad),
        ("volume-unknown-region", C::ApiUnknownRegion),
        ("volumes-filter-bad", C::ApiBadRequest),
        ("volumes-per-page-bad", C::ApiBadRequest),
        ("volumes-unknown-type", C::ApiNotNomad),
    ]
};

#[tokio::test]
async fn every_recorded_error_has_its_code() {
    let mut problems = vec![];
    for exchange in exchanges().iter().filter(|exchange| exchange.status != 200) {
        let expected = REFUSALS.iter().find(|(name, _)| *name == exchange.name);
        let outcome = exchange.replay().await;
        match (&outcome, expected) {
            (Err(error), Some((_, code))) if error.code == *code => {
                assert_eq!(error.status, Some(exchange.status), "{}", exchange.name);
            }
            (Ok("none"), None) => {}
            // Requests that the client refuses to send.
            (Err(error), None) if error.code == Code::VolumeUnaddressable => {}
            _ => problems.push(format!("{}: {outcome:?}", exchange.name)),
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[tokio::test]
async fn every_recorded_success_is_decoded() {
    let mut count = 0;
    // The client always requests plugins of the type `csi`.
    let not_sent = ["plugins-unknown-type"];
    for exchange in exchanges() {
        if exchange.status == 200 && !not_sent.contains(&exchange.name.as_str()) {
            let outcome = exchange.replay().await;
            assert!(outcome.is_ok(), "{}: {outcome:?}", exchange.name);
            count += 1;
        }
    }
    assert!(count > 50, "{count}");
}

/// Decoding and encoding a document gives the document that Nomad sent.
#[test]
fn documents_survive_decoding_and_encoding() {
    let (mut volumes, mut plugins, mut stubs) = (0, 0, 0);
    for exchange in exchanges().iter().filter(|exchange| exchange.status == 200) {
        let path = exchange.target.split('?').next().unwrap_or_default();
        if exchange.method == "GET" && path.starts_with("/v1/volume/csi/") {
            let sent = exchange.json();
            let document = wire::decode_value(&sent).expect("the document is decoded");
            let encoded = wire::volume_to_wire(&wire::volume_from_wire(&document));
            assert_same(&exchange.name, &encoded, &comparable(sent));
            volumes += 1;
        } else if exchange.method == "GET" && path.starts_with("/v1/plugin/csi/") {
            let sent = exchange.json();
            let document: wire::PluginDocument =
                wire::decode_value(&sent).expect("the document is decoded");
            let mut encoded = wire::plugin_to_wire(&wire::plugin_from_wire(&document));
            (encoded.create_index, encoded.modify_index) =
                (document.create_index, document.modify_index);
            (encoded.create_time, encoded.modify_time) =
                (document.create_time, document.modify_time);
            assert_same(&exchange.name, &encoded, &comparable(sent));
            plugins += 1;
        } else if path == "/v1/volumes" && exchange.method == "GET" {
            let mut sent = exchange.json();
            let documents: Vec<wire::VolumeStub> =
                wire::decode_value(&sent).expect("the document is decoded");
            for stub in sent.as_array_mut().expect("the document is a list") {
                *stub = comparable(stub.take());
            }
            let encoded: Vec<_> = documents.into_iter().map(without_null_topologies).collect();
            assert_same(&exchange.name, &encoded, &sent);
            stubs += encoded.len();
        }
    }
    assert!(volumes > 3 && plugins > 0 && stubs > 20, "{volumes} {plugins} {stubs}");
}

fn without_null_topologies(mut stub: wire::VolumeStub) -> wire::VolumeStub {
    stub.topologies.retain(Option::is_some);
    stub
}

fn assert_same(name: &str, encoded: &impl serde::Serialize, recorded: &Value) {
    let encoded = serde_json::to_value(encoded).expect("documents have only text keys");
    let text = |value: &Value| serde_json::to_string_pretty(value).expect("JSON is text");
    assert_eq!(text(&encoded), text(recorded), "{name}");
}

/// Removes what `wire` leaves out on purpose: `null` topologies, which are a bug of Nomad, `[]` in
/// a topology request, a plugin's jobs, and the fields of allocations that no command shows.
fn comparable(mut document: Value) -> Value {
    if let Some(topologies) = document.get_mut("Topologies").and_then(Value::as_array_mut) {
        topologies.retain(|topology| !topology.is_null());
    }
    for list in ["Preferred", "Required"] {
        let list = document.pointer_mut(&format!("/RequestedTopologies/{list}"));
        if let Some(list) = list.filter(|list| list.as_array().is_some_and(Vec::is_empty)) {
            *list = Value::Null;
        }
    }
    let entries = document.as_object_mut().expect("the document is an object");
    entries.shift_remove("ControllerJobs");
    entries.shift_remove("NodeJobs");
    let allocations = document.get_mut("Allocations").and_then(Value::as_array_mut);
    for allocation in allocations.into_iter().flatten() {
        let stub: wire::AllocationStub =
            wire::decode_value(allocation).expect("the document is decoded");
        *allocation = json!(wire::AllocationStub {
            client_description: String::new(),
            create_index: 0,
            desired_description: String::new(),
            desired_transition: wire::DesiredTransitionDocument::default(),
            job_type: String::new(),
            modify_index: 0,
            name: String::new(),
            namespace: String::new(),
            task_states: None,
            ..stub
        });
    }
    document
}
