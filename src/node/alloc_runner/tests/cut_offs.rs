//! An operator cuts an allocation off from a volume: what runs with it is killed before the volume is given back.

use std::time::Duration;

use super::fixture::{ID, Node, alloc, events, lasting, task};
use crate::task_run::MockScript;
use nomad_csi_model::JobType;

/// A service with two tasks and two volumes; `web` has both, and `log` has only `logs`. Both go on for an hour after they
/// were asked to stop.
fn assign(node: &Node) {
    let tasks = vec![task("web", "main"), task("log", "main")];
    let mut assigned = alloc(JobType::Service, tasks, &["data", "logs"]);
    let mut job = nomad_csi_model::Job::clone(&assigned.job);
    job.groups[0].tasks[1].volume_mounts.retain(|mount| mount.volume.as_str() == "logs");
    assigned.job = job.into();
    let stubborn = MockScript { kill_after: Duration::from_secs(3600), ..lasting(36_000) };
    for name in ["data", "logs"] {
        node.provide(name);
    }
    for name in ["web", "log"] {
        node.driver.script(name, std::slice::from_ref(&stubborn));
    }
    node.control.assign(assigned);
}

/// The task may run, have been asked to stop before, or have been started by an earlier agent.
#[tokio::test(start_paused = true)]
async fn a_volume_is_given_back_after_its_tasks_were_killed() {
    for (stops, restarts) in [(false, false), (true, false), (false, true)] {
        let mut node = Node::new();
        assign(&node);
        node.driver.until_started(2).await;
        node.status("running").await;
        if stops {
            node.control.stop(&ID.into());
            node.event("web", "Killing").await;
        }
        if restarts {
            node.stop_agent().await;
        }
        node.control.cut_off(&ID.into(), "data");
        if restarts {
            node.start_agent();
        }
        let given_back = node.control.wait_for_given_back(1).await;
        assert_eq!(given_back, [(ID.into(), "data".into())]);
        assert_eq!(node.driver.kills(), 1, "only `web` uses the volume");
        assert_eq!(node.driver.running().await, 1, "only `log` runs");
        let report = node.status("failed").await;
        let reason = "an operator cut the allocation off from its volume `data`";
        assert_eq!(report.description, reason);
        let found = events(&report, "web");
        assert!(found.iter().any(|event| event.contains(reason)), "{found:#?}");
        assert_eq!(node.driver.starts().len(), 2, "nothing starts again");
    }
}
