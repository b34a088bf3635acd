//! The metrics of a real agent, as Prometheus and as Nomad's clients read them.

use serde_json::Value;

use crate::agent_process::{AgentProcess, program};
use crate::reconcile::address;
use crate::volumes::create;
use crate::wait::until;

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
    assert!(prometheus.head.to_lowercase().contains(kind), "{prometheus:?}");
    let text = prometheus.text();
    let created = [
        "csi_sidecar_operations_seconds_count",
        "driver_name=\"hostpath.nomad-csi.internal\"",
        "method_name=\"/csi.v1.Controller/CreateVolume\"",
        "grpc_status_code=\"OK\"",
    ];
    assert_eq!(value(&text, &created), Some(1.0), "{text}");
    let asked = ["nomad_csi_http_request_seconds_count", "operation=\"Create\"", "code=\"200\""];
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

/// The health of volumes is measured after a reading, and the next reading shows it, as does the document of
/// the volume.
#[test]
fn the_health_of_volumes_is_a_metric_and_a_field() {
    let data = tempfile::tempdir().unwrap();
    let agent = AgentProcess::start(data.path());
    create(&agent.address, "db").unwrap().json();
    let shown =
        |health: &str| format!("nomad_csi_volumes{{plugin=\"hostpath\",health=\"{health}\"}}");
    until("the volume is counted", || {
        let text = agent.address.ask("GET", "/v1/metrics?format=prometheus", None);
        let text = text.unwrap().text();
        match value(&text, &[&shown("ok")]) {
            Some(1.0) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
    let summary = agent.address.ask("GET", "/v1/metrics", None).unwrap().json();
    let gauges = summary["Gauges"].as_array().unwrap();
    let volumes = gauges.iter().find(|one| one["Name"] == "nomad_csi_volumes");
    let labels = serde_json::json!({"plugin": "hostpath", "health": "ok"});
    assert_eq!(volumes.unwrap()["Labels"], labels);

    let status = |agent: &AgentProcess| {
        let output = program(["volume", "status", "db", "-o", "json"])
            .args(["--address", &address(agent)])
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    let volume = status(&agent);
    assert_eq!(volume["Health"], serde_json::json!([]));
    assert_eq!(volume["HealthUnknown"], Value::Null);
    assert!(agent.stop().success());
    let mut command = program(["agent", "--dev", "--http", "127.0.0.1:0"]);
    command.arg("--data-dir").arg(data.path());
    command.args(["--plugin-fault", "health:data-missing"]);
    let agent = AgentProcess::run(command);
    let volume = status(&agent);
    assert_eq!(volume["Health"][0]["Status"], "DATA_LOSS", "{volume}");
}
