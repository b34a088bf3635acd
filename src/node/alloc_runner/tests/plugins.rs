//! Plugin tasks with a fake plugin, a fake server, scripted processes and a paused clock.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use tokio::time::Instant;

use super::fixture::{ID, Node, alloc, events, exiting, lasting, policy, task};
use crate::alloc_directory::AllocDirectory;
use crate::fakes::{ProbeResponse, set_probe_response};
use crate::task_run::{RunRequest, TaskMount};
use nomad_csi_model::{CsiPluginConfig, CsiPluginType, JobType, PropagationMode};
use nomad_csi_ports::{AssignedAlloc, HostError, Mounter as _};

const PLUGIN: &str = "ebs";

/// An allocation of a system job whose task runs a plugin, and may be restarted once.
fn plugin_alloc() -> AssignedAlloc {
    let mut plugin = task("plugin", "main");
    plugin.restart = policy(1);
    plugin.csi_plugin = Some(CsiPluginConfig::new(PLUGIN.into(), CsiPluginType::Monolith));
    alloc(JobType::System, vec![plugin], &[])
}

fn plugin_events(report: &nomad_csi_model::AllocReport) -> Vec<String> {
    let events = events(report, "plugin").into_iter();
    events.filter(|event| event.starts_with("Plugin") || event.starts_with("Restart")).collect()
}

fn mounts_at(request: &RunRequest, destination: &str) -> Vec<TaskMount> {
    let mounts = request.mounts.iter();
    let at = mounts.filter(|mount| mount.destination.to_str() == Some(destination));
    at.cloned().collect()
}

/// Waits until the plugin of an allocation is registered, or is no longer.
async fn until_registered(node: &Node, alloc: &str, is_registered: bool) {
    let until = async {
        while node.registry.running(&PLUGIN.into(), &alloc.into()).is_ok() != is_registered {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(3600), until).await.unwrap();
}

/// B60, B61: the task gets its socket and its volumes, and the host's directories are private.
#[tokio::test(start_paused = true)]
async fn a_plugin_task_has_its_directories_and_the_endpoint() {
    let node = Node::new();
    node.control.assign(plugin_alloc());
    node.observer.until("healthy").await;
    let request = node.driver.starts().pop().unwrap();
    assert_eq!(request.environment["CSI_ENDPOINT"], "unix:///csi/csi.sock");
    let volumes = mounts_at(&request, "/local/csi").pop().unwrap();
    assert_eq!(volumes.propagation, PropagationMode::Bidirectional);
    assert_eq!(volumes.source, node.data.path().join("mounts").join(PLUGIN));
    let socket = mounts_at(&request, "/csi").pop().unwrap();
    assert_eq!(socket.source.parent(), Some(&*node.data.path().join("run")));
    for directory in [&volumes.source, &socket.source] {
        let mode = directory.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "{}", directory.display());
    }
    let shared = node.mounter.entry(&volumes.source).await.unwrap();
    assert!(shared.is_some(), "mounts of the plugin reach the host");
    // W48, W49: the volumes are where the plugin sees them.
    let instance = node.registry.running(&PLUGIN.into(), &ID.into()).unwrap();
    assert_eq!(instance.volumes_in_plugin, Some("/local/csi".into()));
}

/// B60: however often its start is repeated, the task gets the mounts of its socket and of its volumes and no other. The
/// third of Nomad's mounts, the host's devices, is a part of the root that `exec` makes for a plugin.
#[tokio::test(start_paused = true)]
async fn each_start_of_a_plugin_task_has_the_same_mounts() {
    let node = Node::new();
    set_probe_response(&node.plugin, ProbeResponse::NotReady);
    node.control.assign(plugin_alloc());
    node.event("plugin", "Restarting").await;
    set_probe_response(&node.plugin, ProbeResponse::Ready);
    node.observer.until("healthy").await;
    let starts = node.driver.starts();
    assert_eq!(starts.len(), 2, "the task was restarted once");
    let of = |request: &RunRequest| {
        let mounts = request.mounts.iter().map(|mount| {
            let destination = mount.destination.to_str().unwrap().to_owned();
            (destination, mount.source.clone(), mount.propagation)
        });
        mounts
            .filter(|(at, ..)| !["/alloc", "/local", "/secrets"].contains(&at.as_str()))
            .collect::<Vec<_>>()
    };
    let (first, second) = (of(&starts[0]), of(&starts[1]));
    assert_eq!(first, second);
    let mut destinations: Vec<_> = first.iter().map(|(at, ..)| at.as_str()).collect();
    destinations.sort_unstable();
    assert_eq!(destinations, ["/csi", "/local/csi"]);
}

/// B62: a monolith is registered with both of its services, a controller and a node plugin with the one that each has, and
/// nothing before the first healthy answer.
#[tokio::test(start_paused = true)]
async fn each_type_of_plugin_is_registered_with_its_services() {
    for (kind, services) in [
        (CsiPluginType::Monolith, [true, true]),
        (CsiPluginType::Controller, [true, false]),
        (CsiPluginType::Node, [false, true]),
    ] {
        let node = Node::new();
        set_probe_response(&node.plugin, ProbeResponse::NotReady);
        let mut plugin = task("plugin", "main");
        plugin.restart = policy(1);
        plugin.csi_plugin = Some(CsiPluginConfig::new(PLUGIN.into(), kind));
        node.control.assign(alloc(JobType::System, vec![plugin], &[]));
        node.event("plugin", "Started").await;
        tokio::time::advance(Duration::from_secs(7)).await;
        assert!(node.registry.running(&PLUGIN.into(), &ID.into()).is_err(), "{kind}");
        set_probe_response(&node.plugin, ProbeResponse::Ready);
        node.observer.until("healthy").await;
        let instance = node.registry.running(&PLUGIN.into(), &ID.into()).unwrap();
        let served = [instance.controller.is_some(), instance.node.is_some()];
        assert_eq!(served, services, "{kind}");
        assert_eq!(node.observer.reports(), ["healthy"], "{kind}: registered once");
    }
}

/// B62: a plugin is known after its first healthy answer, and not before. B70: not after its task.
#[tokio::test(start_paused = true)]
async fn a_plugin_is_registered_from_its_first_healthy_answer_to_its_end() {
    let node = Node::new();
    set_probe_response(&node.plugin, ProbeResponse::Unavailable);
    node.control.assign(plugin_alloc());
    node.event("plugin", "Started").await;
    tokio::time::advance(Duration::from_secs(7)).await;
    assert_eq!(node.observer.reports(), [""; 0]);
    let refused = node.registry.running(&PLUGIN.into(), &ID.into()).err();
    assert!(matches!(refused, Some(HostError::NoPlugin { .. })));
    set_probe_response(&node.plugin, ProbeResponse::Ready);
    let report = node.event("plugin", "Plugin").await;
    assert_eq!(plugin_events(&report), ["Plugin became healthy: plugin: ebs"]);
    assert!(node.registry.running(&PLUGIN.into(), &ID.into()).is_ok());
    node.stop_alloc();
    node.status("complete").await;
    assert_eq!(node.observer.reports(), ["healthy", "gone"]);
    assert!(node.registry.running(&PLUGIN.into(), &ID.into()).is_err());
}

/// Nothing supervises it after a restart of the agent, and what it was asked for would bind volumes for ever.
#[tokio::test(start_paused = true)]
async fn a_plugin_whose_job_cannot_be_opened_is_gone_when_it_was_stopped() {
    let mut node = Node::new();
    node.control.assign(plugin_alloc());
    node.observer.until("healthy").await;
    node.control.lose_job(&ID.into());
    node.kill_agent();
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(node.observer.reports(), ["healthy"], "it runs");
    node.stop_alloc();
    node.status("failed").await;
    assert_eq!(node.driver.running().await, 0);
    assert_eq!(node.observer.reports(), ["healthy", "gone"]);
}

/// An agent without the driver of the task cannot control it, and reports the end of the allocation.
#[tokio::test(start_paused = true)]
async fn a_plugin_that_an_ended_allocation_has_left_is_stopped_and_then_gone() {
    let mut node = Node::new();
    node.control.assign(plugin_alloc());
    node.observer.until("healthy").await;
    node.stop_agent().await;
    node.control.leave(&ID.into());
    let use_driver = |node: &Node, name: &str| {
        let task = AllocDirectory::new(node.data.path(), &ID.into()).task("plugin");
        let mut record = task.read_record().unwrap().unwrap();
        name.clone_into(&mut record.driver);
        task.write_record(&record).unwrap();
    };
    use_driver(&node, "lost");
    node.start_agent();
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(node.driver.running().await, 1);
    assert_eq!(node.observer.reports(), ["healthy"], "it cannot be controlled");
    use_driver(&node, "exec");
    node.observer.until("gone").await;
    assert_eq!(node.driver.running().await, 0);
    assert_eq!(node.observer.reports(), ["healthy", "gone"]);
}

/// Its directory was moved away. Its process may still carry out calls.
#[tokio::test(start_paused = true)]
async fn a_left_plugin_whose_files_are_missing_is_gone_when_its_process_is() {
    for finds_it_at_the_start in [true, false] {
        let mut node = Node::new();
        node.control.assign(plugin_alloc());
        node.observer.until("healthy").await;
        let run = AllocDirectory::new(node.data.path(), &ID.into()).task("plugin").run(1);
        node.stop_agent().await;
        node.control.leave(&ID.into());
        std::fs::rename(node.directory(ID), node.data.path().join("elsewhere")).unwrap();
        let at_start = if finds_it_at_the_start { vec![run.clone()] } else { vec![] };
        node.driver.run_without_files(&at_start);
        node.driver.find_later(&[run]);
        node.start_agent();
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert_eq!(node.observer.reports(), ["healthy"], "{finds_it_at_the_start}");
        node.driver.run_without_files(&[]);
        node.observer.until("gone").await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_left_plugin_is_tried_again_after_a_panic() {
    let mut node = Node::new();
    node.control.assign(plugin_alloc());
    node.observer.until("healthy").await;
    node.stop_agent().await;
    node.control.leave(&ID.into());
    node.driver.panic_in_stops(2);
    node.start_agent();
    node.observer.until("gone").await;
    assert_eq!(node.driver.running().await, 0);
}

/// B63: a plugin that is not healthy in time is restarted, and supervised once more.
#[tokio::test(start_paused = true)]
async fn a_plugin_that_is_not_healthy_in_time_is_restarted_by_its_policy() {
    let node = Node::new();
    set_probe_response(&node.plugin, ProbeResponse::NotReady);
    let begun = Instant::now();
    node.control.assign(plugin_alloc());
    let report = node.event("plugin", "Restarting").await;
    let took = begun.elapsed();
    assert!(took >= Duration::from_secs(30) && took < Duration::from_secs(40), "{took:?}");
    assert_eq!(
        plugin_events(&report)[..2],
        [
            "Plugin became unhealthy: Error: CSI plugin failed probe: the plugin reports that it is not ready",
            "Restart Signaled: CSI plugin did not become healthy before configured 30s health timeout",
        ]
    );
    set_probe_response(&node.plugin, ProbeResponse::Ready);
    node.observer.until("healthy").await;
    assert_eq!(node.driver.started(), ["plugin", "plugin"]);
    assert_eq!(node.observer.reports(), ["healthy"]);
}

/// W44: what a plugin reports is asked again while it runs, and when the agent finds it again.
#[tokio::test(start_paused = true)]
async fn the_facts_of_a_plugin_are_refreshed() {
    let limit = |node: &Node| {
        let newest = node.observer.newest.lock();
        newest.as_ref().unwrap().node.as_ref().unwrap().max_volumes
    };
    let mut node = Node::new();
    node.control.assign(plugin_alloc());
    node.observer.until("healthy").await;
    assert_eq!(limit(&node), None);
    let begun = Instant::now();
    node.plugin.update_settings(|settings| settings.description.max_volumes = Some(7));
    node.observer.until_reports(2).await;
    assert_eq!((limit(&node), begun.elapsed()), (Some(7), Duration::from_secs(30)));
    node.stop_agent().await;
    node.plugin.update_settings(|settings| settings.description.max_volumes = Some(8));
    node.start_agent();
    let begun = Instant::now();
    node.observer.until_reports(3).await;
    assert_eq!((limit(&node), begun.elapsed()), (Some(8), Duration::ZERO));
    assert_eq!(node.driver.started(), ["plugin"]);
}

/// W39: a plugin that does not answer delays no other. B69: a registration and its end count at once.
#[tokio::test(start_paused = true)]
async fn a_wait_for_one_plugin_delays_no_other() {
    let node = Node::new();
    node.control.assign(plugin_alloc());
    node.observer.until("healthy").await;
    set_probe_response(&node.plugin, ProbeResponse::Hang);
    let mut silent = plugin_alloc();
    silent.id = "alloc-2".into();
    silent.job = {
        let mut job = (*silent.job).clone();
        let config = CsiPluginConfig::new("silent".into(), CsiPluginType::Monolith);
        job.groups[0].tasks[0].csi_plugin = Some(config);
        job.into()
    };
    node.control.assign(silent);
    node.driver.until_started(2).await;
    let begun = Instant::now();
    until_registered(&node, ID, true).await;
    node.stop_alloc();
    until_registered(&node, ID, false).await;
    node.observer.until("gone").await;
    assert_eq!(begun.elapsed(), Duration::ZERO);
    set_probe_response(&node.plugin, ProbeResponse::Ready);
    node.observer.until("healthy").await;
    let silent = node.registry.running(&"silent".into(), &"alloc-2".into());
    assert!(silent.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_never_becomes_healthy_fails_when_its_policy_is_used_up() {
    let node = Node::new();
    set_probe_response(&node.plugin, ProbeResponse::Hang);
    node.control.assign(plugin_alloc());
    let report = node.status("failed").await;
    assert!(report.tasks["plugin"].has_failed);
    assert_eq!(node.driver.started(), ["plugin", "plugin"]);
    assert_eq!(node.observer.reports(), ["gone"]);
}

/// B64: only changes of health are events. A plugin that was healthy stays registered.
#[tokio::test(start_paused = true)]
async fn events_are_sent_when_the_health_changes() {
    let node = Node::new();
    node.control.assign(plugin_alloc());
    node.observer.until("healthy").await;
    set_probe_response(&node.plugin, ProbeResponse::Unavailable);
    node.event("plugin", "Plugin became unhealthy").await;
    tokio::time::advance(Duration::from_secs(600)).await;
    until_registered(&node, ID, true).await;
    set_probe_response(&node.plugin, ProbeResponse::Ready);
    node.observer.until("healthy").await;
    node.stop_alloc();
    let report = node.status("complete").await;
    assert_eq!(
        plugin_events(&report),
        [
            "Plugin became healthy: plugin: ebs",
            "Plugin became unhealthy: Error: Probe failed with Unavailable: scripted Unavailable",
            "Plugin became healthy: plugin: ebs",
        ]
    );
    let failed = "Probe failed with Unavailable: scripted Unavailable";
    assert_eq!(node.observer.reports(), ["healthy", failed, "healthy", "gone"]);
    assert_eq!(node.driver.started(), ["plugin"]);
}

/// The end of a process is reported, and its next run is another process for the call locks.
#[tokio::test(start_paused = true)]
async fn a_plugin_whose_process_ends_is_unhealthy_until_the_next_one_answers() {
    let node = Node::new();
    node.driver.script("plugin", &[exiting(1, 60), lasting(3600)]);
    node.control.assign(plugin_alloc());
    node.observer.until("healthy").await;
    let first = node.registry.running(&PLUGIN.into(), &ID.into()).unwrap();
    node.observer.until("the task of the plugin exited with status 1").await;
    assert!(first.run.is_gone());
    let refused = node.registry.running(&PLUGIN.into(), &ID.into()).err();
    assert!(matches!(refused, Some(HostError::NoPlugin { .. })));
    node.observer.until("healthy").await;
    let second = node.registry.running(&PLUGIN.into(), &ID.into()).unwrap();
    assert!(!second.run.is_gone());
}

/// How the first agent ends, and what it leaves in the plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AgentEnd {
    Killed,
    StoppedWithCall,
    StoppedIdle,
}

/// Rule 3 of the claims machine: an agent that finds a plugin stops it, because a call of the agent before may still
/// run in it. The next process starts when it is gone, and this restart costs nothing of the policy. A plugin without
/// a call is used as it is, but not by the agent after one that was killed.
#[tokio::test(start_paused = true)]
async fn a_plugin_that_survived_its_agent_is_used_only_if_no_call_can_run_in_it() {
    use AgentEnd::{Killed, StoppedIdle, StoppedWithCall};
    for (ends, processes) in [
        (vec![Killed], 2),
        (vec![StoppedWithCall], 2),
        (vec![StoppedIdle], 1),
        (vec![StoppedIdle, StoppedIdle], 1),
        (vec![StoppedIdle, Killed], 2),
        (vec![Killed, StoppedIdle], 2),
    ] {
        let mut node = Node::new();
        let mut alloc = plugin_alloc();
        alloc.job = {
            let mut job = (*alloc.job).clone();
            job.groups[0].tasks[0].restart = policy(0);
            job.into()
        };
        node.control.assign(alloc);
        node.observer.until("healthy").await;
        for end in &ends {
            let instance = node.registry.running(&PLUGIN.into(), &ID.into()).unwrap();
            let _call = (*end == StoppedWithCall).then(|| instance.run.enter());
            match end {
                Killed => node.kill_agent(),
                StoppedWithCall | StoppedIdle => node.restart_agent().await,
            }
            until_registered(&node, ID, true).await;
        }
        assert_eq!(node.driver.started().len(), processes, "{ends:?}");
        node.stop_alloc();
        let report = node.status("complete").await;
        assert_eq!(report.tasks["plugin"].restarts, 0);
        assert_eq!(node.observer.reports().last().unwrap(), "gone");
    }
}

/// The call locks learn that the process of a runner that panicked is gone.
#[tokio::test(start_paused = true)]
async fn a_plugin_whose_runner_panics_is_another_process_for_the_call_locks() {
    let node = Node::new();
    node.control.assign(plugin_alloc());
    node.observer.until("healthy").await;
    let first = node.registry.running(&PLUGIN.into(), &ID.into()).unwrap();
    node.driver.panic_in_stops(1);
    node.stop_alloc();
    node.status("complete").await;
    assert!(first.run.is_gone());
}

/// W40: the end of a plugin is not lost when the server cannot record it.
#[tokio::test(start_paused = true)]
async fn the_end_of_a_plugin_is_reported_until_it_is_recorded() {
    let node = Node::new();
    node.control.assign(plugin_alloc());
    node.observer.until("healthy").await;
    node.observer.refuse(true);
    node.stop_alloc();
    node.event("plugin", "Killing").await;
    until_registered(&node, ID, false).await;
    tokio::time::advance(Duration::from_secs(60)).await;
    node.observer.refuse(false);
    node.status("complete").await;
    assert_eq!(node.observer.reports(), ["healthy", "gone"]);
}

/// B71: a stop waits for the calls that run, and refuses new ones.
#[tokio::test(start_paused = true)]
async fn a_stop_waits_for_the_calls_of_the_plugin() {
    let node = Node::new();
    node.control.assign(plugin_alloc());
    node.observer.until("healthy").await;
    let instance = node.registry.running(&PLUGIN.into(), &ID.into()).unwrap();
    let call = instance.run.enter().unwrap();
    node.stop_alloc();
    until_registered(&node, ID, false).await;
    tokio::time::advance(Duration::from_secs(1)).await;
    assert!(!instance.run.is_gone());
    drop(call);
    node.status("complete").await;
    assert!(instance.run.is_gone());
}

/// B71: an upgrade starts the next allocation before the earlier one ends, and each has its own process.
#[tokio::test(start_paused = true)]
async fn the_next_allocation_of_a_plugin_serves_while_the_earlier_one_ends() {
    let node = Node::new();
    node.control.assign(plugin_alloc());
    node.observer.until("healthy").await;
    let next = AssignedAlloc { id: "alloc-2".into(), ..plugin_alloc() };
    node.control.assign(next);
    until_registered(&node, "alloc-2", true).await;
    node.stop_alloc();
    node.status("complete").await;
    let next = node.registry.running(&PLUGIN.into(), &"alloc-2".into());
    assert!(next.is_ok());
    let earlier = node.registry.running(&PLUGIN.into(), &ID.into()).err();
    assert!(matches!(earlier, Some(HostError::NoPlugin { .. })));
    assert_eq!(node.observer.reports(), ["healthy", "healthy", "gone"]);
    let starts = node.driver.starts();
    let sockets = starts.iter().map(|start| mounts_at(start, "/csi"));
    let sockets: Vec<_> = sockets.collect();
    assert_ne!(sockets[0], sockets[1]);
}

fn successor() -> AssignedAlloc {
    AssignedAlloc { id: "alloc-2".into(), ..plugin_alloc() }
}

/// B71: an update stops one allocation and starts the next at the same time, and at every moment one of them serves.
#[tokio::test(start_paused = true)]
async fn an_upgrade_of_a_plugin_has_no_gap() {
    let node = Node::new();
    node.control.assign(plugin_alloc());
    node.observer.until("healthy").await;
    set_probe_response(&node.plugin, ProbeResponse::NotReady);
    let begun = Instant::now();
    node.control.replace(&ID.into(), successor());
    node.driver.until_started(2).await;
    tokio::time::advance(Duration::from_secs(10)).await;
    let serves = |alloc: &str| node.registry.running(&PLUGIN.into(), &alloc.into()).is_ok();
    assert!(serves(ID) && !serves("alloc-2"));
    set_probe_response(&node.plugin, ProbeResponse::Ready);
    // The clock is paused, and a sleep moves it.
    let ended = async {
        while serves(ID) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert!(serves("alloc-2"));
    };
    tokio::time::timeout(Duration::from_secs(60), ended).await.unwrap();
    assert!(begun.elapsed() < Duration::from_secs(13));
    node.status("complete").await;
    assert_eq!(node.observer.reports(), ["healthy", "healthy", "gone"]);
}

/// Two processes of a plugin may exclude each other: then the earlier one makes room.
#[tokio::test(start_paused = true)]
async fn a_plugin_does_not_wait_for_a_successor_whose_process_ends() {
    let node = Node::new();
    node.driver.script("plugin", &[lasting(3600), exiting(1, 1), lasting(3600)]);
    node.control.assign(plugin_alloc());
    node.observer.until("healthy").await;
    set_probe_response(&node.plugin, ProbeResponse::NotReady);
    let begun = Instant::now();
    node.control.replace(&ID.into(), successor());
    node.status("complete").await;
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    set_probe_response(&node.plugin, ProbeResponse::Ready);
    node.observer.until("healthy").await;
}

/// A plugin that never becomes healthy does not keep the one that it replaces for ever.
#[tokio::test(start_paused = true)]
async fn a_plugin_waits_for_its_successor_as_long_as_that_may_take() {
    let node = Node::new();
    node.control.assign(plugin_alloc());
    node.observer.until("healthy").await;
    set_probe_response(&node.plugin, ProbeResponse::Hang);
    let begun = Instant::now();
    node.control.replace(&ID.into(), successor());
    node.status("complete").await;
    let took = begun.elapsed();
    assert!(took >= Duration::from_secs(30) && took < Duration::from_secs(31), "{took:?}");
}
