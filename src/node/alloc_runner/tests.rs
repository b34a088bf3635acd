//! Whole allocations with a fake server, scripted tasks and a paused clock.

mod collection;
mod cut_offs;
mod fixture;
mod histories;
mod lost_volumes;
mod missing_files;
mod plugins;
mod restarts;

use std::time::Duration;

use tokio::time::Instant;

use self::fixture::{ID, Node, alloc, events, exiting, lasting, policy, task};
use crate::driver::MockDriver as MockRuns;
use crate::task_run::{MockScript, RunDriver as _, RunStatus};
use nomad_csi_model::{ClientStatus, Job, JobType, JobVolumeKind, Task, TaskConfig, TaskPhase};
use nomad_csi_ports::{AssignedAlloc, MountDelay};

fn service(tasks: &[(&str, &str)], volumes: &[&str]) -> AssignedAlloc {
    let tasks = tasks.iter().map(|(name, hook)| task(name, hook)).collect();
    alloc(JobType::Service, tasks, volumes)
}

/// A service that uses host volume `certs`.
fn user_of_host_volume(task: Task, reads: bool) -> AssignedAlloc {
    let mut assigned = alloc(JobType::Service, vec![task], &["certs"]);
    let mut job = Job::clone(&assigned.job);
    for volume in job.groups[0].volumes.values_mut() {
        volume.read_only = reads;
        volume.kind = JobVolumeKind::Host {
            access_mode: None,
            attachment_mode: None,
            has_mount_options: false,
        };
    }
    assigned.job = job.into();
    assigned
}

fn batch(tasks: &[(&str, &str)]) -> AssignedAlloc {
    let tasks = tasks.iter().map(|(name, hook)| task(name, hook)).collect();
    alloc(JobType::Batch, tasks, &[])
}

#[tokio::test(start_paused = true)]
async fn a_batch_task_runs_once_and_its_allocation_completes() {
    let node = Node::new();
    node.driver.script("web", &[lasting(5)]);
    node.control.assign(batch(&[("web", "main")]));
    let report = node.status("complete").await;
    assert_eq!(report.description, "All tasks have completed");
    let task = &report.tasks["web"];
    assert_eq!((task.phase, task.has_failed), (TaskPhase::Dead, false));
    let ran = task.finished_at.zip(task.started_at);
    assert_eq!(ran.map(|(end, start)| end - start), Some(5_000_000_000));
    let expected = [
        "Received: Task received by client",
        "Task Setup: Building Task Directory",
        "Started: Task started by client",
        "Terminated: Exit Code: 0",
    ];
    assert_eq!(events(&report, "web"), expected);
    let statuses: Vec<_> =
        node.control.reports(&ID.into()).into_iter().map(|report| report.status).collect();
    assert_eq!(statuses.first(), Some(&ClientStatus::Pending));
    assert!(statuses.contains(&ClientStatus::Running), "{statuses:?}");
}

#[tokio::test(start_paused = true)]
async fn a_failed_task_is_restarted_within_its_policy_and_then_fails() {
    let node = Node::new();
    let mut web = task("web", "main");
    web.restart = policy(1);
    node.driver.script("web", &[exiting(1, 1)]);
    let begun = Instant::now();
    node.control.assign(alloc(JobType::Service, vec![web], &[]));
    let report = node.status("failed").await;
    let took = begun.elapsed();
    assert!(took >= Duration::from_secs(12) && took < Duration::from_secs(16), "{took:?}");
    assert_eq!(report.description, "Failed tasks");
    assert_eq!(report.tasks["web"].restarts, 1);
    let events = events(&report, "web");
    assert_eq!(events[3], "Terminated: Exit Code: 1");
    assert!(events[4].starts_with("Restarting: Task restarting in 1"), "{events:?}");
    let last =
        "Not Restarting: Exceeded allowed attempts 1 in interval 1h0m0s and mode is \"fail\"";
    assert_eq!(events.last().unwrap(), last);
    assert_eq!(node.driver.started(), ["web", "web"]);
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_the_pause_before_a_restart() {
    let node = Node::new();
    let mut web = task("web", "main");
    web.restart = policy(5);
    node.driver.script("web", &[exiting(1, 1)]);
    node.control.assign(alloc(JobType::Service, vec![web], &[]));
    node.event("web", "Restarting").await;
    let begun = Instant::now();
    node.stop_alloc();
    let report = node.status("complete").await;
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    assert!(!report.tasks["web"].has_failed);
    assert_eq!(node.driver.started(), ["web"]);
}

/// B78: nothing is claimed for an allocation whose driver cannot mount, or does not exist.
#[tokio::test(start_paused = true)]
async fn drivers_and_settings_are_checked_before_any_claim() {
    for (driver, config, reason) in [
        (
            "docker",
            r#"{"image": "x"}"#,
            "task `web` uses driver `docker`, which this agent does not have; it has `exec`, `mock_driver`",
        ),
        (
            "mock_driver",
            "{}",
            "task driver \"mock_driver\" for \"web\" does not support CSI; use driver `exec`",
        ),
        (
            "exec",
            r#"{"command": "a", "image": "x"}"#,
            "task `web`: `image` is not a setting of driver `exec` that this agent knows; it has `args`, `command`, \
             `work_dir`",
        ),
    ] {
        let node = Node::new();
        node.provide("data");
        let mut web = task("web", "main");
        web.driver = driver.to_owned();
        web.config = TaskConfig::new(serde_json::from_str(config).unwrap());
        node.control.assign(alloc(JobType::Service, vec![web], &["data"]));
        let report = node.status("failed").await;
        assert_eq!(report.description, reason);
        let last = events(&report, "web").pop().unwrap();
        assert_eq!(last, format!("Setup Failure: failed to setup alloc: {reason}"));
        assert_eq!(node.control.mounts(), []);
        assert_eq!(node.driver.started(), [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn all_volumes_are_mounted_before_any_task_starts() {
    let node = Node::new();
    node.provide("data");
    node.control.refuse("logs", "volume `logs` does not exist", false);
    let tasks = [("init", "prestart"), ("web", "main")];
    node.driver.script("init", &[lasting(1)]);
    node.control.assign(service(&tasks, &["data", "logs"]));
    let waiting = node.description("Waiting").await;
    assert_eq!(waiting.status, ClientStatus::Pending);
    assert_eq!(waiting.description, "Waiting: volume `logs` does not exist");
    let last = events(&waiting, "web").pop().unwrap();
    assert_eq!(last, "Task Setup: Waiting: volume `logs` does not exist");
    assert_eq!(node.driver.started(), [""; 0]);
    let begun = Instant::now();
    node.provide("logs");
    node.status("running").await;
    assert!(begun.elapsed() < Duration::from_secs(1), "the change ended the pause");
    node.event("web", "Started").await;
    let starts = node.driver.starts();
    let mounts: Vec<_> = starts[1].mounts.iter().map(|mount| mount.destination.as_path()).collect();
    let expected = ["/data", "/logs", "/alloc", "/local", "/secrets"];
    assert_eq!(mounts, expected.map(std::path::Path::new));
}

#[tokio::test(start_paused = true)]
async fn a_refused_mount_is_tried_again_after_pauses_that_grow() {
    let node = Node::new();
    node.control.refuse("data", "volume max claims reached", false);
    node.control.assign(service(&[("web", "main")], &["data"]));
    node.description("Waiting").await;
    tokio::time::advance(Duration::from_secs(1)).await;
    for (seconds, expected) in [(0, 1), (2, 2), (4, 3), (8, 4), (16, 5), (32, 6), (60, 7), (60, 8)]
    {
        let until = Instant::now() + Duration::from_secs(seconds);
        tokio::time::timeout_at(until, std::future::pending::<()>()).await.unwrap_err();
        assert_eq!(node.control.mounts().len(), expected, "after {seconds} s more");
    }
}

/// A step of the claim fails, and the agent repeats it. The mount is neither refused nor done.
#[tokio::test(start_paused = true)]
async fn a_mount_that_takes_long_shows_what_holds_it_up() {
    let node = Node::new();
    let delay = |message: &str| MountDelay { message: message.to_owned() };
    node.control.delay("data", delay("volume `db`: NodeStageVolume fails: the disk is busy"));
    node.control.assign(service(&[("web", "main")], &["data"]));
    let begun = Instant::now();
    let waiting = node.description("Waiting").await;
    assert_eq!(begun.elapsed(), Duration::from_secs(3));
    assert_eq!(waiting.status, ClientStatus::Pending);
    let text = "Waiting: volume `db`: NodeStageVolume fails: the disk is busy";
    assert_eq!(waiting.description, text);
    assert_eq!(events(&waiting, "web").pop().unwrap(), format!("Task Setup: {text}"));
    node.control.delay("data", delay("volume `db`: NodePublishVolume fails: no directory"));
    node.description("Waiting: volume `db`: NodePublishVolume fails: no directory").await;
    node.provide("data");
    node.status("running").await;
    assert_eq!(node.control.mounts().len(), 1);
}

/// W38: the wait for a claim ends with the allocation.
#[tokio::test(start_paused = true)]
async fn a_stop_ends_the_wait_for_a_volume_at_once() {
    let node = Node::new();
    node.control.refuse("data", "volume max claims reached", false);
    node.control.assign(service(&[("web", "main"), ("clean", "poststop")], &["data"]));
    node.description("Waiting: volume max claims reached").await;
    let begun = Instant::now();
    node.stop_alloc();
    let report = node.status("complete").await;
    assert_eq!(begun.elapsed(), Duration::ZERO);
    assert_eq!(report.tasks["web"].phase, TaskPhase::Dead);
    assert_eq!(node.driver.started(), [""; 0]);
}

/// A host volume is mounted from its own directory, without a claim. One that can only be read takes no writer.
#[tokio::test(start_paused = true)]
async fn a_host_volume_is_mounted_without_a_claim() {
    for reads in [true, false] {
        let node = Node::new();
        let web = task("web", "main");
        node.control.assign(user_of_host_volume(web, reads));
        if reads {
            node.status("running").await;
            let mount = node.driver.starts()[0].mounts[0].clone();
            assert_eq!(mount.source, std::path::Path::new("/srv/certs"));
            assert!(mount.read_only);
        } else {
            let report = node.status("failed").await;
            assert!(report.description.contains("can only be read"));
        }
        assert_eq!(node.control.mounts(), []);
    }
}

/// A start needs the volume. A task that runs has it mounted.
#[tokio::test(start_paused = true)]
async fn a_host_volume_that_is_taken_away_ends_no_task_that_runs() {
    let mut node = Node::new();
    let mut web = task("web", "main");
    web.restart = policy(1);
    node.driver.script("web", &[exiting(1, 60)]);
    let begun = Instant::now();
    node.control.assign(user_of_host_volume(web, true));
    node.event("web", "Started").await;
    node.host_volumes.clear();
    node.restart_agent().await;
    let report = node.status("failed").await;
    assert!(begun.elapsed() > Duration::from_secs(60), "{report:#?}");
    let events = events(&report, "web").join("\n");
    assert!(events.contains("this node has no host volume `certs`"), "{events}");
    assert_eq!(node.driver.started(), ["web"]);
}

/// The server may refuse a claim to which it would not agree any more. A task that runs was given its volume.
#[tokio::test(start_paused = true)]
async fn a_final_refusal_ends_no_task_that_runs() {
    let mut node = Node::new();
    node.provide("data");
    node.driver.script("web", &[lasting(600)]);
    node.control.assign(alloc(JobType::Batch, vec![task("web", "main")], &["data"]));
    node.event("web", "Started").await;
    node.control.refuse("data", "the allocation claims it in another way", true);
    node.restart_agent().await;
    let begun = Instant::now();
    let report = node.report(|report| report.tasks["web"].phase == TaskPhase::Dead).await;
    assert!(begun.elapsed() >= Duration::from_secs(500), "{report:#?}");
    assert!(!report.tasks["web"].has_failed, "{report:#?}");
    assert_eq!(node.driver.started(), ["web"]);
}

#[tokio::test(start_paused = true)]
async fn a_final_refusal_fails_the_allocation_with_its_reason() {
    let node = Node::new();
    let reason = "volume `db` has no access mode `x`; change the job";
    node.provide("logs");
    node.control.refuse("data", reason, true);
    node.control.assign(service(&[("web", "main"), ("side", "prestart+")], &["data", "logs"]));
    let report = node.status("failed").await;
    assert_eq!(report.description, reason);
    for task in ["web", "side"] {
        let last = events(&report, task).pop().unwrap();
        assert_eq!(last, format!("Setup Failure: failed to setup alloc: {reason}"));
        assert!(report.tasks[task].has_failed);
    }
    assert_eq!(node.driver.started(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn tasks_start_in_the_order_of_their_hooks_and_sidecars_end_last() {
    let node = Node::new();
    for (name, seconds) in [("init", 3), ("web", 5), ("after", 1), ("clean", 2)] {
        node.driver.script(name, &[lasting(seconds)]);
    }
    node.control.assign(batch(&[
        ("clean", "poststop"),
        ("after", "poststart"),
        ("web", "main"),
        ("side", "prestart+"),
        ("init", "prestart"),
    ]));
    let report = node.status("complete").await;
    let mut started = node.driver.started();
    started[..2].sort();
    assert_eq!(started, ["init", "side", "web", "after", "clean"]);
    let side = events(&report, "side");
    let expected = [
        "Main Tasks Dead: Main tasks in the group died",
        "Killing: Sent interrupt. Waiting 5s before force killing",
        "Terminated: Exit Code: 130, Signal: 2",
        "Killed: Task successfully killed",
    ];
    assert_eq!(side[side.len() - 4..], expected);
    let times =
        |name: &str| report.tasks[name].started_at.zip(report.tasks[name].finished_at).unwrap();
    assert!(times("web").0 >= times("init").1);
    assert!(times("side").1 >= times("web").1);
    assert!(times("clean").0 >= times("side").1);
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_main_tasks_then_sidecars_and_runs_poststop_tasks() {
    let node = Node::new();
    let slow = |seconds| MockScript { kill_after: Duration::from_secs(seconds), ..lasting(3600) };
    node.driver.script("web", &[slow(4)]);
    node.driver.script("side", &[slow(2)]);
    node.driver.script("clean", &[lasting(3)]);
    node.control
        .assign(service(&[("web", "main"), ("side", "prestart+"), ("clean", "poststop")], &[]));
    node.event("web", "Started").await;
    let begun = Instant::now();
    node.stop_alloc();
    let stopping = node.description("Tasks are stopping").await;
    assert_eq!(stopping.status, ClientStatus::Running);
    let report = node.status("complete").await;
    assert_eq!(begun.elapsed(), Duration::from_secs(9), "4 s, then 2 s, then 3 s");
    assert_eq!(node.driver.started(), ["side", "web", "clean"]);
    assert!(report.tasks.values().all(|task| task.phase == TaskPhase::Dead));
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_leader_ends_the_others() {
    let node = Node::new();
    let mut leader = task("leader", "main");
    leader.is_leader = true;
    node.driver.script("leader", &[lasting(2)]);
    node.control.assign(alloc(JobType::Batch, vec![leader, task("web", "main")], &[]));
    let report = node.status("complete").await;
    let web = events(&report, "web");
    assert_eq!(web[3], "Leader Task Dead: Leader Task in Group dead");
    assert!(!report.tasks["web"].has_failed);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_fails_for_good_ends_its_siblings_and_then_the_allocation() {
    let node = Node::new();
    node.driver.script("bad", &[exiting(3, 2)]);
    let slow = MockScript { kill_after: Duration::from_secs(7), ..lasting(3600) };
    node.driver.script("good", &[slow]);
    node.control.assign(service(&[("bad", "main"), ("good", "main")], &[]));
    let stopping = node.description("Tasks are stopping").await;
    assert!(stopping.tasks["bad"].has_failed);
    assert_eq!(stopping.status, ClientStatus::Running, "`good` still runs");
    let report = node.status("failed").await;
    let good = events(&report, "good");
    assert_eq!(good[3], "Sibling Task Failed: Task's sibling \"bad\" failed");
    assert!(!report.tasks["good"].has_failed);
    let last = events(&report, "bad").pop().unwrap();
    assert_eq!(last, "Not Restarting: Policy allows no restarts");
}

#[tokio::test(start_paused = true)]
async fn a_terminal_report_is_repeated_until_the_server_has_it() {
    let node = Node::new();
    node.driver.script("web", &[lasting(1)]);
    node.control.assign(batch(&[("web", "main")]));
    node.event("web", "Started").await;
    node.control.refuse_reports(20);
    let report = node.status("complete").await;
    assert_eq!(report.tasks["web"].phase, TaskPhase::Dead);
    assert_eq!(node.driver.started(), ["web"]);
}

#[tokio::test(start_paused = true)]
async fn a_start_that_the_system_refuses_is_tried_again() {
    let node = Node::new();
    node.driver.script("web", &[lasting(1)]);
    node.driver.refuse_starts(2);
    node.control.assign(batch(&[("web", "main")]));
    node.status("complete").await;
    assert_eq!(node.driver.started(), ["web"]);

    let node = Node::new();
    node.driver.refuse_starts(3);
    node.control.assign(batch(&[("web", "main")]));
    let report = node.status("failed").await;
    let events = events(&report, "web");
    assert_eq!(events.last().unwrap(), "Not Restarting: Policy allows no restarts");
    assert_eq!(node.driver.started(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_starts_again_takes_its_tasks_over() {
    let mut node = Node::new();
    node.driver.script("web", &[lasting(3600)]);
    node.driver.script("clean", &[lasting(1)]);
    node.control.assign(service(&[("web", "main"), ("clean", "poststop")], &[]));
    node.event("web", "Started").await;
    node.restart_agent().await;
    node.kill_agent();
    node.stop_alloc();
    let report = node.status("complete").await;
    assert_eq!(node.driver.started(), ["web", "clean"]);
    let started = events(&report, "web").into_iter().filter(|event| event.starts_with("Started"));
    assert_eq!(started.count(), 1);
    assert!(!report.tasks["web"].has_failed);
}

#[tokio::test(start_paused = true)]
async fn restarts_are_counted_across_agents() {
    let mut node = Node::new();
    let mut web = task("web", "main");
    web.restart = policy(2);
    node.driver.script("web", &[exiting(1, 1)]);
    node.control.assign(alloc(JobType::Service, vec![web], &[]));
    for restarts in 1..=2 {
        node.report(|report| report.tasks["web"].restarts == restarts).await;
        node.kill_agent();
    }
    let report = node.status("failed").await;
    assert_eq!(report.tasks["web"].restarts, 2);
    assert_eq!(node.driver.started(), ["web"; 3]);
}

#[tokio::test(start_paused = true)]
async fn an_allocation_that_the_server_forgot_is_stopped() {
    let node = Node::new();
    node.control.assign(service(&[("web", "main"), ("clean", "poststop")], &[]));
    node.driver.script("clean", &[lasting(1)]);
    node.event("web", "Started").await;
    node.control.forget(&ID.into());
    let mut waited = 0;
    while node.driver.started().len() < 2 {
        waited += 1;
        assert!(waited < 1000, "`clean` runs when `web` has ended");
        tokio::time::timeout(Duration::from_secs(1), std::future::pending::<()>())
            .await
            .unwrap_err();
    }
    assert_eq!(node.driver.started(), ["web", "clean"]);
}

#[tokio::test(start_paused = true)]
async fn a_task_of_an_allocation_that_ended_on_the_server_in_the_meantime_is_stopped() {
    let mut node = Node::new();
    node.control.assign(service(&[("web", "main")], &[]));
    node.event("web", "Started").await;
    node.stop_agent().await;
    node.control.forget(&ID.into());
    node.start_agent();
    node.driver.until_all_ended().await;
    assert_eq!(node.driver.started(), ["web"]);
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_starts_again_does_not_report_a_running_task_as_pending() {
    let mut node = Node::new();
    node.control.assign(service(&[("web", "main")], &[]));
    node.event("web", "Started").await;
    node.kill_agent();
    node.stop_alloc();
    node.status("complete").await;
    let reports = node.control.reports(&ID.into());
    let phases: Vec<_> = reports.iter().map(|report| report.tasks["web"].phase).collect();
    assert!(phases.is_sorted_by_key(|phase| *phase as u8), "{phases:?}");
    let mut statuses: Vec<_> = reports.iter().map(|report| report.status.as_str()).collect();
    statuses.dedup();
    assert_eq!(statuses, ["pending", "running", "complete"]);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_was_about_to_start_goes_on_or_is_stopped() {
    let node = Node::new();
    node.begin_run("web");
    node.driver.script("web", &[lasting(1)]);
    node.control.assign(batch(&[("web", "main")]));
    node.status("complete").await;
    assert_eq!(node.driver.started(), ["web"]);

    let node = Node::new();
    let run = node.begin_run("web");
    node.control.refuse("data", "volume `db` was deleted", true);
    node.control.assign(service(&[("web", "main")], &["data"]));
    node.status("failed").await;
    let status = node.driver.status(&run).await.unwrap();
    assert!(matches!(status, Some(RunStatus::Ended(_))), "it cannot start later");
    assert_eq!(node.driver.started(), [""; 0]);
}
