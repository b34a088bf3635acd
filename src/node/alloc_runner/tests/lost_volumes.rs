//! Volumes whose mounts vanish: nothing starts without them, and what runs on them is stopped first.

use super::fixture::{ID, Node, alloc, events, lasting, policy, task};
use crate::task_run::RunEnd;
use nomad_csi_model::{JobType, Task, record_beside};
use nomad_csi_ports::LostMount;

fn restartable(name: &str) -> Task {
    let mut task = task(name, "main");
    task.restart = policy(3);
    task
}

fn target(alias: &str) -> LostMount {
    LostMount::Target { alloc: ID.into(), alias: alias.into() }
}

/// A service with two tasks and two volumes; `web` has both, and `log` has only `logs`.
fn assign(node: &Node) {
    let mut assigned =
        alloc(JobType::Service, vec![restartable("web"), restartable("log")], &["data", "logs"]);
    let mut job = nomad_csi_model::Job::clone(&assigned.job);
    job.groups[0].tasks[1].volume_mounts.retain(|mount| mount.volume.as_str() == "logs");
    assigned.job = job.into();
    for alias in ["data", "logs"] {
        node.provide(alias);
    }
    node.control.assign(assigned);
}

/// The volume is given back only after the task that runs on it was stopped, and no other task is stopped.
#[tokio::test(start_paused = true)]
async fn a_task_that_runs_on_a_lost_mount_is_stopped_before_the_loss_is_noted() {
    let node = Node::new();
    assign(&node);
    node.driver.until_started(2).await;
    node.status("running").await;
    node.unmount("data");
    let lost = node.control.wait_for_losses(1).await;
    assert_eq!(lost, [target("data")]);
    assert_eq!(node.driver.running().await, 1, "only `log` runs");
    node.mount("data");
    node.driver.until_started_later(3).await;
    assert_eq!(node.driver.started()[2], "web");
    let report = node.event("web", "Restarting").await;
    let found = events(&report, "web");
    let lost = found.iter().find(|event| event.starts_with("Volume Lost"));
    let lost = lost.unwrap_or_else(|| panic!("{found:#?}"));
    assert!(lost.contains("nothing is mounted there; it is mounted again"), "{lost}");
    let log = events(&report, "log");
    assert!(!log.iter().any(|event| event.starts_with("Killing")), "{log:#?}");
}

/// A mount that vanished while no agent ran, under a task that goes on.
#[tokio::test(start_paused = true)]
async fn the_next_agent_stops_a_task_that_runs_on_a_lost_mount() {
    let mut node = Node::new();
    assign(&node);
    node.driver.until_started(2).await;
    node.status("running").await;
    node.stop_agent().await;
    node.unmount("logs");
    node.start_agent();
    let lost = node.control.wait_for_losses(1).await;
    assert_eq!(lost, [target("logs")]);
    assert_eq!(node.driver.running().await, 0);
    node.mount("logs");
    node.driver.until_started_later(4).await;
}

/// A mount that vanished between two runs of a task.
#[tokio::test(start_paused = true)]
async fn a_task_does_not_start_again_on_a_lost_mount() {
    let node = Node::new();
    node.provide("data");
    node.driver.script("web", &[lasting(5), lasting(3600)]);
    node.control.assign(alloc(JobType::Service, vec![restartable("web")], &["data"]));
    node.event("web", "Restarting").await;
    node.unmount("data");
    assert_eq!(node.control.wait_for_losses(1).await, [target("data")]);
    assert_eq!(node.driver.started().len(), 1);
    node.mount("data");
    node.driver.until_started_later(2).await;
    let second = &node.driver.starts()[1].mounts[0];
    let mount = second.identity.as_ref().and_then(|found| found.mount.clone());
    assert_eq!(mount.unwrap().source, "data", "the driver gets what must be there");
}

/// Another file system over the target is not the volume.
#[tokio::test(start_paused = true)]
async fn a_task_does_not_run_on_a_file_system_that_covers_its_volume() {
    let node = Node::new();
    assign(&node);
    node.driver.until_started(2).await;
    node.status("running").await;
    node.mounter.mount_foreign(node.target("data").on_host());
    assert_eq!(node.control.wait_for_losses(1).await, [target("data")]);
    assert_eq!(node.driver.running().await, 1);
    let report = node.event("web", "Volume Lost").await;
    let found = events(&report, "web");
    let is_meant = |event: &String| event.contains("another mount is there");
    assert!(found.iter().any(is_meant), "{found:#?}");
}

/// What the driver finds when it starts is not a failure of the task, also without any restart.
#[tokio::test(start_paused = true)]
async fn a_start_that_finds_the_mount_gone_counts_for_nothing() {
    let node = Node::new();
    node.provide("data");
    node.driver.lose_sources(2);
    node.control.assign(alloc(JobType::Service, vec![task("web", "main")], &["data"]));
    let lost = node.control.wait_for_losses(2).await;
    assert_eq!(lost, [target("data"), target("data")]);
    let report = node.status("running").await;
    let web = &report.tasks["web"];
    assert_eq!((web.restarts, web.has_failed), (0, false));
    let end = RunEnd::SourceLost {
        source: node.target("data").on_host().to_owned(),
        reason: "gone".to_owned(),
    };
    assert_eq!(end.to_string(), "could not be started: gone");
}

/// A target of an allocation without tasks here, such as one of `volume mount`, is noted by itself.
#[tokio::test(start_paused = true)]
async fn a_lost_mount_without_tasks_is_noted_at_once() {
    let node = Node::new();
    node.mount("data");
    let assigned = alloc(JobType::Service, vec![task("web", "main")], &[]);
    let other = nomad_csi_ports::AssignedAlloc { id: "other".into(), ..assigned };
    node.control.assign(other);
    node.driver.until_started(1).await;
    node.unmount("data");
    assert_eq!(node.control.wait_for_losses(1).await, [target("data")]);
}

/// The damaged record of one volume hides the loss of no other one.
#[tokio::test(start_paused = true)]
async fn a_lost_mount_is_noticed_beside_a_damaged_record() {
    let node = Node::new();
    for alias in ["data", "logs"] {
        node.mount(alias);
    }
    let record = record_beside(node.target("data").on_host());
    std::fs::write(record, [0; 4]).unwrap();
    node.unmount("logs");
    let assigned = alloc(JobType::Service, vec![task("web", "main")], &[]);
    let other = nomad_csi_ports::AssignedAlloc { id: "other".into(), ..assigned };
    node.control.assign(other);
    assert_eq!(node.control.wait_for_losses(1).await, [target("logs")]);
}
