//! What is left of allocations that ended, and of runners that panicked.

use std::time::Duration;

use tokio::time::Instant;

use super::fixture::{ID, Node, alloc, lasting, policy, task};
use crate::task_run::{DriverConfig, LogLimits, MockScript, RunDriver as _, RunRequest};
use nomad_csi_model::{JobType, Resources};
use nomad_csi_ports::AssignedAlloc;

fn batch() -> AssignedAlloc {
    alloc(JobType::Batch, vec![task("web", "main")], &[])
}

fn service() -> AssignedAlloc {
    let mut web = task("web", "main");
    web.restart = policy(0);
    alloc(JobType::Service, vec![web], &[])
}

#[tokio::test(start_paused = true)]
async fn the_directory_of_an_ended_allocation_stays_until_the_server_forgets_it() {
    let mut node = Node::new();
    node.driver.script("web", &[lasting(1)]);
    node.control.assign(batch());
    node.status("complete").await;
    let run = node.directory(ID).join("tasks/web/runs/1");
    node.restart_agent().await;
    let other = AssignedAlloc { id: "alloc-2".into(), ..batch() };
    node.control.assign(other);
    node.control.wait_for_report(&"alloc-2".into(), |report| report.status.is_terminal()).await;
    assert!(run.is_dir(), "the output of the tasks can be read");
    node.control.forget(&ID.into());
    node.until_removed(ID).await;
    assert!(node.directory("alloc-2").is_dir());
}

/// Also one whose tasks run: they are stopped first.
#[tokio::test(start_paused = true)]
async fn a_forgotten_allocation_leaves_no_directory() {
    let node = Node::new();
    node.control.assign(service());
    node.event("web", "Started").await;
    node.control.forget(&ID.into());
    node.until_removed(ID).await;
    assert_eq!(node.driver.running().await, 0);
}

fn request(task: &str) -> RunRequest {
    RunRequest {
        alloc: "a".into(),
        resources: Resources::default(),
        task: task.to_owned(),
        config: DriverConfig::Exec(crate::task_run::TaskProgram::default()),
        environment: [].into(),
        user: None,
        mounts: vec![],
        hidden: vec![],
        kill_signal: 15,
        kill_timeout: Duration::from_secs(1),
        logs: LogLimits::default(),
        earlier_runs: vec![],
    }
}

/// Also one without a record, whose driver is not known then.
#[tokio::test(start_paused = true)]
async fn directories_that_no_record_knows_are_removed_when_the_agent_starts() {
    let mut node = Node::new();
    node.stop_agent().await;
    let run = node.begin_run_of("unknown", "web");
    let request = request("web");
    node.driver.start(&run, request).await.unwrap();
    node.start_agent();
    node.until_removed("unknown").await;
    assert_eq!(node.driver.running().await, 0);
}

/// A restored data directory knows neither the allocation nor its claim, so nothing else keeps the next task from the volume.
#[tokio::test(start_paused = true)]
async fn nothing_starts_beside_a_task_that_the_server_does_not_know() {
    let mut node = Node::new();
    node.stop_agent().await;
    let (run, request) = (node.begin_run_of("unknown", "old"), request("old"));
    let stubborn = MockScript { kill_after: Duration::from_secs(50), ..lasting(100_000) };
    node.driver.script("old", &[stubborn]);
    node.driver.start(&run, request).await.unwrap();
    let begun = Instant::now();
    node.control.assign(service());
    node.start_agent();
    node.event("web", "Started").await;
    assert!(begun.elapsed() >= Duration::from_secs(50));
    assert_eq!(node.driver.running().await, 1);
    node.until_removed("unknown").await;
}

#[tokio::test(start_paused = true)]
async fn a_directory_below_which_something_is_mounted_stays() {
    let mut node = Node::new();
    node.stop_agent().await;
    for name in ["mounted", "plain"] {
        std::fs::create_dir_all(node.directory(name).join("alloc/data")).unwrap();
    }
    let target = node.directory("mounted").join("alloc/data");
    node.mounter.mount_foreign(&target);
    node.start_agent();
    node.until_removed("plain").await;
    assert!(target.is_dir());
}

/// The next runner takes the task over, after a pause that grows.
#[tokio::test(start_paused = true)]
async fn a_runner_that_panics_is_started_again() {
    let node = Node::new();
    node.driver.panic_in_waits(3);
    let begun = Instant::now();
    node.control.assign(service());
    node.driver.until_no_panic_is_left().await;
    let took = begun.elapsed();
    assert!(
        took >= Duration::from_secs(1 + 2) && took <= Duration::from_secs(1 + 2 + 4),
        "{took:?}"
    );
    assert_eq!(node.driver.running().await, 1);
    node.stop_alloc();
    let report = node.status("complete").await;
    assert!(!report.tasks["web"].has_failed);
    assert_eq!(node.driver.started(), ["web"]);
}

/// Without a runner, nothing else would stop its tasks.
#[tokio::test(start_paused = true)]
async fn an_allocation_that_is_forgotten_while_its_runner_pauses_is_stopped() {
    let node = Node::new();
    node.driver.panic_in_waits(1);
    node.control.assign(service());
    node.driver.until_no_panic_is_left().await;
    node.control.forget(&ID.into());
    node.until_removed(ID).await;
    assert_eq!(node.driver.running().await, 0);
}
