//! `reconcile` as a process: it restores a missing volume, counts that in its metrics and stops on
//! SIGTERM.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread::JoinHandle;

use rustix::process::Signal;
use serde_json::Value;

use crate::agent_process::{AgentProcess, program, signal_process};
use crate::http::Address;
use crate::wait::until;

pub(crate) const VOLUME: &str = r#"
set = "web"

volume "db" {
  type      = "csi"
  name      = "db"
  plugin_id = "hostpath"

  capability {
    access_mode     = "single-node-writer"
    attachment_mode = "file-system"
  }

  secrets {
    token = "canary-secret"
  }
}
"#;

pub(crate) fn address(agent: &AgentProcess) -> String {
    format!("http://{}", agent.address.tcp())
}

/// The process, the address of its metrics, and its log after the line with that address.
struct ReconcileProcess {
    child: Child,
    metrics: Address,
    log: JoinHandle<String>,
}

fn start(agent: &AgentProcess, folder: &Path) -> ReconcileProcess {
    let mut command = program(["reconcile", "--apply", "--interval", "1s", "-f", "db.hcl"]);
    let mut child = command
        .args(["--metrics", "127.0.0.1:0", "--log-format", "json"])
        .args(["--address", &address(agent)])
        .current_dir(folder)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut events = lines
        .by_ref()
        .map_while(Result::ok)
        .filter_map(|line| serde_json::from_str::<Value>(&line).ok());
    let metrics = events
        .find_map(|event| event["address"].as_str().map(str::to_owned))
        .expect("a log line with the address of the metrics");
    // Drains the pipe: the process would block on a full one.
    let log = std::thread::spawn(move || lines.map_while(Result::ok).collect());
    let metrics = Address::without_token(metrics.parse().unwrap());
    ReconcileProcess { child, metrics, log }
}

fn wait_for_metric(metrics: &Address, line: &str) {
    until(line, || {
        let reply = metrics.ask("GET", "/metrics", None).map_err(|error| error.to_string())?;
        let text = reply.text();
        if text.lines().any(|one| one == line) { Ok(()) } else { Err(text) }
    });
}

#[test]
fn a_missing_volume_is_restored_until_the_process_is_stopped() {
    let (data, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(folder.path().join("db.hcl"), VOLUME).unwrap();
    let agent = AgentProcess::start(data.path());
    let ReconcileProcess { mut child, metrics, log } = start(&agent, folder.path());
    wait_for_metric(&metrics, r#"nomad_csi_drift_volumes{set="web",state="unchanged"} 1"#);
    wait_for_metric(&metrics, r#"nomad_csi_reconcile_changes_total{result="done"} 1"#);
    let removed = agent.address.ask("DELETE", "/v1/volume/csi/db", None).unwrap();
    assert_eq!(removed.status, 200, "{}", removed.text());
    wait_for_metric(&metrics, r#"nomad_csi_reconcile_changes_total{result="done"} 2"#);
    wait_for_metric(&metrics, r#"nomad_csi_drift_volumes{set="web",state="unchanged"} 1"#);
    let counted = metrics.ask("GET", "/metrics", None).unwrap().text();
    signal_process(child.id(), Signal::TERM);
    let ended = until("the loop to end", || {
        let ended = child.try_wait().unwrap();
        ended.ok_or_else(|| "still running".to_owned())
    });
    assert!(ended.success(), "{ended}");
    let log = log.join().unwrap();
    assert!(log.contains("is gone"), "{log}");
    for shown in [log, counted] {
        assert!(!shown.contains("canary-"), "{shown}");
    }
    assert!(agent.stop().success());
}
