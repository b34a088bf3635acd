//! Restarts and signals that an operator requests.

use std::sync::Arc;

use super::fixture::{ID, Node, events, exiting, lasting};
use super::service;
use crate::alloc_access::NodeAllocAccess;
use crate::task_run::RunDriver;
use nomad_csi_model::ClientStatus;
use nomad_csi_ports::{AllocAccess as _, AllocAccessError};

fn access(node: &Node) -> NodeAllocAccess {
    let driver: Arc<dyn RunDriver> = node.driver.clone();
    let drivers = [("exec".to_owned(), driver)];
    NodeAllocAccess::new(node.data.path().to_owned(), drivers.into(), node.restarts.clone())
}

/// The policy of the tasks allows no restart: one on request is no failure.
#[tokio::test(start_paused = true)]
async fn a_restarted_task_runs_again_with_its_volumes() {
    let node = Node::new();
    node.provide("data");
    node.driver.script("web", &[lasting(3600)]);
    node.driver.script("side", &[lasting(3600)]);
    node.control.assign(service(&[("web", "main"), ("side", "main")], &["data"]));
    node.driver.until_started(2).await;
    node.status("running").await;
    let mounts = node.control.mounts();
    access(&node).restart(&ID.into(), Some("web")).await.unwrap();
    node.driver.until_started_later(3).await;
    assert_eq!(node.driver.started()[2], "web");
    let report = node.report(|report| report.tasks["web"].restarts == 1).await;
    assert_eq!((report.status, report.tasks["side"].restarts), (ClientStatus::Running, 0));
    let report = node.event("web", "Restarting").await;
    let kinds = events(&report, "web");
    let requested = "Restart Signaled: an operator requested a restart".to_owned();
    assert!(kinds.contains(&requested), "{kinds:?}");
    let starts = node.driver.starts();
    let first = starts.iter().find(|request| request.task == "web").unwrap();
    assert_eq!(starts[2].mounts, first.mounts);
    assert_eq!(node.control.mounts(), mounts, "nothing is claimed again");
    node.report(|report| report.tasks["web"].phase == nomad_csi_model::TaskPhase::Running).await;
    access(&node).restart(&ID.into(), None).await.unwrap();
    node.driver.until_started_later(5).await;
    node.stop_alloc();
    node.status("complete").await;
    let ended = access(&node).restart(&ID.into(), None).await;
    assert!(matches!(ended, Err(AllocAccessError::NotRunning(_))), "{ended:?}");
}

#[tokio::test(start_paused = true)]
async fn a_signal_reaches_the_tasks_that_run() {
    let node = Node::new();
    node.driver.script("web", &[lasting(3600)]);
    node.driver.script("init", &[exiting(0, 1)]);
    node.control.assign(service(&[("init", "prestart"), ("web", "main")], &[]));
    node.driver.until_started_later(2).await;
    node.status("running").await;
    let access = access(&node);
    access.signal(&ID.into(), Some("web"), "SIGHUP").await.unwrap();
    access.signal(&ID.into(), None, "USR1").await.unwrap();
    assert_eq!(*node.driver.signals.lock(), [1, 10]);
    let ended = access.signal(&ID.into(), Some("init"), "SIGHUP").await;
    assert!(matches!(ended, Err(AllocAccessError::NotRunning(_))), "{ended:?}");
}
