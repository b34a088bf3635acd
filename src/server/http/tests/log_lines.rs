//! The log lines of a claim carry the ID that its client got.

use std::io::Write;
use std::sync::Arc;

use axum::body::Body;
use http::Request;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tracing_subscriber::fmt::MakeWriter;

use super::{agent, create, send};
use crate::fake::FakeAgent;
use nomad_csi_ports::{Rpc, StatusCode};
use nomad_csi_testing::Fault;

/// Lines of a log in memory.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'writer> MakeWriter<'writer> for Lines {
    type Writer = Self;

    fn make_writer(&'writer self) -> Self {
        self.clone()
    }
}

impl Lines {
    /// Returns the lines, each with its spans from the outermost on.
    fn with_spans(&self) -> Vec<(Value, Vec<Value>)> {
        let text = String::from_utf8(self.0.lock().clone()).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let spans = |line: &Value| line["spans"].as_array().cloned().unwrap_or_default();
        lines.map(|line| (line.clone(), spans(&line))).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn every_line_of_a_claim_has_the_id_of_its_request() {
    let lines = Lines::default();
    let log = tracing_subscriber::fmt().json().with_max_level(tracing::Level::DEBUG);
    let _logging = tracing::subscriber::set_default(log.with_writer(lines.clone()).finish());
    // With one subscriber alone, a line that another test's thread writes first is off for all threads.
    let _second = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::default());
    let agent = agent().await;
    create(&agent, "db").await;
    agent.backend.inject_faults(Rpc::NodePublishVolume, [Fault::Fail(StatusCode::Unavailable)]);
    let body = json!({"AllocID": "a1", "NodeID": FakeAgent::NODE}).to_string();
    let request = Request::put("/v1/volume/csi/db/claim").header("X-Request-Id", "ci-7");
    let claimed = send(&agent.services, request.body(Body::from(body)).unwrap()).await;
    assert!(claimed.status < 300, "{}", claimed.text());
    assert_eq!(claimed.header("x-request-id"), "ci-7");

    let lines = lines.with_spans();
    let named =
        |spans: &[Value], name: &str| spans.iter().find(|span| span["name"] == name).cloned();
    let steps: Vec<_> =
        lines.iter().filter_map(|(_, spans)| Some((spans, named(spans, "step")?))).collect();
    assert!(!steps.is_empty(), "{lines:#?}");
    for (spans, step) in steps {
        assert_eq!(spans[0]["request.id"], "ci-7", "{spans:?}");
        assert_eq!(step["volume.external_id"], "fake-1", "{spans:?}");
    }
    let failed = lines.iter().find(|(line, _)| line["level"] == "WARN").expect("a failed step");
    assert_eq!(named(&failed.1, "step").unwrap()["csi.rpc"], "NodePublishVolume", "{failed:?}");
    let answered = lines.iter().find(|(line, _)| line["fields"]["message"] == "answered");
    assert!(answered.is_some_and(|(_, spans)| spans[0]["name"] == "request"), "{lines:#?}");
    let volume = lines.iter().find(|(_, spans)| spans.len() > 1 && spans[1]["name"] == "volume");
    assert!(volume.is_some_and(|(_, spans)| spans[1]["volume.id"] == "db"), "{lines:#?}");
}
