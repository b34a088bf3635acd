//! The metrics of a real agent, as Prometheus and as Nomad's clients read them.

use serde_json::Value;

use crate::agent_process::AgentProcess;
use crate::volumes::create;

/// The value of a line of the text that has all of these parts.
fn value(text: &str, parts: &[&str]) -> Option<f64> {
    let is_meant = |line: &&str| parts.iter().all(|part| line.contains(part));
    let line = text.lines().find(is_meant)?;
    line.rsplit(' ').next()?.parse().ok()
}

#[test]
fn calls_requests_and_writes_are_measured() {
    let data = tempfile::tempdir().unwrap();
    let agent = AgentProcess::start(data.path());
    create(&agent.address, "db").unwrap().json();
    let read = |path| agent.address.ask("GET", path, None).unwrap();
    let prometheus = read("/v1/metrics?format=prometheus");
    let kind = "content-type: application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert!(
        prometheus.head.to_lowercase().contains(kind),
        "{prometheus:?}"
    );
    let text = prometheus.text();
    let created = [
        "csi_sidecar_operations_seconds_count",
        "driver_name=\"hostpath.nomad-csi.internal\"",
        "method_name=\"/csi.v1.Controller/CreateVolume\"",
        "grpc_status_code=\"OK\"",
    ];
    assert_eq!(value(&text, &created), Some(1.0), "{text}");
    let asked = [
        "nomad_csi_http_request_seconds_count",
        "operation=\"Create\"",
        "code=\"200\"",
    ];
    assert_eq!(value(&text, &asked), Some(1.0), "{text}");
    let written = value(&text, &["nomad_csi_journal_events_total"]).unwrap();
    assert!(written >= 2.0, "an intent and its result: {text}");
    let summary = read("/v1/metrics").json();
    let samples = summary["Samples"].as_array().unwrap();
    let is_create = |sample: &&Value| {
        sample["Labels"]["method_name"] == "/csi.v1.Controller/CreateVolume"
            && sample["Name"] == "csi_sidecar_operations_seconds"
    };
    let sample = samples.iter().find(is_create).unwrap();
    assert_eq!(sample["Count"], 1.0, "{sample}");
}
