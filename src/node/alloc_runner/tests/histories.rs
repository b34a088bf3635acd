//! Random histories of allocations: tasks that end and fail, stops, lost reports, late volumes, killed agents.

use std::time::Duration;

use super::fixture::{ID, Node, alloc, policy, task};
use crate::task_run::MockScript;
use nomad_csi_model::{ClientStatus, JobType};

/// A generator of small numbers, the same for the same seed.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

const HOOKS: [&str; 9] = [
    "main",
    "main",
    "main",
    "prestart",
    "prestart+",
    "poststart",
    "poststart+",
    "poststop",
    "poststop",
];

fn assign(node: &Node, numbers: &mut Numbers) {
    let mut tasks = vec![];
    for number in 0..=numbers.below(4) {
        let name = format!("t{number}");
        let mut task = task(&name, HOOKS[usize::try_from(numbers.below(9)).unwrap()]);
        task.restart = policy(u32::try_from(numbers.below(3)).unwrap());
        task.is_leader = numbers.below(6) == 0 && task.lifecycle.is_none();
        let script = |numbers: &mut Numbers| MockScript {
            run_for: Duration::from_secs(numbers.below(30)),
            kill_after: Duration::from_secs(numbers.below(4)),
            exit_code: i32::from(numbers.below(3) == 0),
            start_error: (numbers.below(8) == 0).then(|| "no".to_owned()),
            ..MockScript::default()
        };
        node.driver.script(&name, &[script(numbers), script(numbers)]);
        tasks.push(task);
    }
    let job_type = [JobType::Service, JobType::Batch][usize::try_from(numbers.below(2)).unwrap()];
    let volumes: &[&str] = if numbers.below(2) == 0 { &["data"] } else { &[] };
    node.control.refuse("data", "not yet", false);
    node.control.assign(alloc(job_type, tasks, volumes));
}

async fn run_history(seed: u64) {
    let mut numbers = Numbers(seed);
    let mut node = Node::new();
    assign(&node, &mut numbers);
    for _ in 0..8 {
        let pause = Duration::from_millis(numbers.below(8000));
        let passed = tokio::time::timeout(pause, std::future::pending::<()>());
        assert!(passed.await.is_err());
        match numbers.below(8) {
            0 | 1 => node.kill_agent(),
            2 => node.restart_agent().await,
            3 => node.control.refuse_reports(3),
            4 | 5 => node.provide("data"),
            6 => node.driver.refuse_starts(2),
            _ => node.stop_alloc(),
        }
    }
    node.provide("data");
    node.stop_alloc();
    let report = node.report(|report| report.status.is_terminal()).await;
    for (task, state) in &report.tasks {
        assert!(state.finished_at.is_some(), "seed {seed}: {task} {state:?}");
    }
    let started = node.driver.started().len();
    assert_eq!(node.driver.running().await, 0, "seed {seed}: the end was reported too early");
    node.kill_agent();
    let passed = tokio::time::timeout(Duration::from_secs(600), std::future::pending::<()>());
    assert!(passed.await.is_err());
    assert_eq!(node.driver.started().len(), started, "seed {seed}: started after the end");
    let reports = node.control.reports(&ID.into());
    let ends = reports.iter().filter(|report| report.status.is_terminal());
    assert_eq!(ends.count(), 1, "seed {seed}");
    let first = reports.iter().position(|report| report.status == ClientStatus::Running);
    let later = reports.iter().skip(first.unwrap_or(reports.len()));
    let mut statuses: Vec<_> = later.map(|report| report.status.as_str()).collect();
    statuses.dedup();
    assert!(statuses.len() <= 2, "seed {seed}: {statuses:?}");
}

#[tokio::test(start_paused = true)]
async fn whatever_happens_an_allocation_ends_once_and_nothing_of_it_is_left() {
    for seed in 0..60 {
        run_history(seed).await;
    }
}
