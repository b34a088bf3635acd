//! The needs of a job after everything that can happen to its allocations.

use std::time::Duration;

use super::super::drain::is_drained;
use super::super::samples::{SECOND, World, capability, node, web, with_volume};
use super::*;
use crate::claim::{ClaimEvent, ClaimKey, ClaimRequest, ClaimUsage, SealedFlags};
use crate::state::samples::jobs::{alloc_placed, job_key};
use crate::state::samples::key;
use crate::state::{EventKind, JobEvent};
use nomad_csi_model::{
    AccessMode, CsiPluginConfig, CsiPluginType, Job, JobType, ReschedulePolicy, VolumeAlias,
};

fn decide(world: &World) -> Decision {
    decide_at(world, world.now())
}

fn decide_at(world: &World, now: i64) -> Decision {
    let record = world.state.job(&job_key("web")).unwrap();
    evaluate(&world.state, record, now)
}

fn with_job(job: Job) -> World {
    let mut world = World::new(&["n1", "n2"]);
    world.submit(job);
    world
}

fn placed(decision: &Decision) -> Vec<(u32, &str)> {
    let placed = decision.place.iter();
    placed.map(|one| (one.index, one.node.as_str())).collect()
}

fn stopped(decision: &Decision) -> Vec<(&str, &str)> {
    let stopped = decision.stop.iter();
    stopped.map(|(id, reason)| (id.as_str(), *reason)).collect()
}

#[test]
fn allocations_are_spread_over_the_nodes() {
    let world = with_job(web(JobType::Service, 3));
    let decision = decide(&world);
    assert_eq!(placed(&decision), [(0, "n1"), (1, "n2"), (2, "n1")]);
    assert!(decision.failures.is_empty() && decision.stop.is_empty());
}

/// An explanation of a placement is the placement: every slot, with each node that cannot take it.
#[test]
fn every_slot_has_its_outcome_and_the_reasons_of_each_node() {
    let mut world = with_job(with_volume(web(JobType::Service, 2), "data", false));
    world.place("a", "n1");
    world.report("a", ClientStatus::Running);
    let slots = decide(&world).slots;
    let outcomes: Vec<_> = slots.iter().map(|slot| (slot.index, &slot.outcome)).collect();
    let runs = SlotOutcome::Runs { alloc: AllocId::new("a"), node: NodeId::new("n1") };
    let placed = SlotOutcome::Placed(NodeId::new("n2"));
    assert_eq!(outcomes, [(0, &runs), (1, &placed)]);
    let mut lonely = with_job(with_volume(web(JobType::Service, 1), "missing", false));
    let node = Node { is_eligible: false, ..node("n2") };
    lonely.apply(EventKind::NodeRegistered { node });
    let waiting = decide(&lonely).slots.remove(0);
    assert_eq!(waiting.outcome, SlotOutcome::Waits);
    let reasons = |node: &str| waiting.refusals[&NodeId::new(node)].clone();
    assert_eq!(reasons("n1"), ["missing CSI volume(s) missing"]);
    assert_eq!(reasons("n2"), ["node `n2` is not eligible", "missing CSI volume(s) missing"]);
}

#[test]
fn a_system_job_runs_once_on_every_eligible_node() {
    let mut world = with_job(web(JobType::System, 1));
    assert_eq!(placed(&decide(&world)), [(0, "n1"), (0, "n2")]);
    let node = Node { is_eligible: false, ..node("n2") };
    world.apply(EventKind::NodeRegistered { node });
    assert_eq!(placed(&decide(&world)), [(0, "n1")]);
}

/// A node that gets no new allocations keeps those that it has, and its plugins above all.
#[test]
fn an_ineligible_node_keeps_its_system_jobs() {
    let mut world = with_job(web(JobType::System, 1));
    world.place("a", "n1");
    let node = Node { is_eligible: false, ..node("n1") };
    world.apply(EventKind::NodeRegistered { node });
    let decision = decide(&world);
    assert_eq!(stopped(&decision), []);
    assert_eq!(decision.unchanged, [("g".to_owned(), 1)].into());
    world.report("a", ClientStatus::Failed);
    let decision = decide(&world);
    assert_eq!((stopped(&decision), decision.failures.len()), (vec![], 0));
}

/// A system job, such as a plugin, leaves after the others and their volumes, and not if it is to be kept.
#[test]
fn system_jobs_leave_a_draining_node_last() {
    let drains = |keeps_system_jobs| Node {
        is_eligible: false,
        is_draining: true,
        keeps_system_jobs,
        ..node("n1")
    };
    let mut world = with_job(web(JobType::System, 1));
    world.place("a", "n1");
    let mut user = with_volume(web(JobType::Service, 1), "data", false);
    user.id = "user".into();
    world.submit(user);
    world.apply(alloc_placed(&job_key("user"), "b", "n1"));
    claim(&mut world, "b");
    world.apply(EventKind::NodeRegistered { node: drains(false) });
    assert_eq!(stopped(&decide(&world)), [], "the other job runs");
    world.report("b", ClientStatus::Complete);
    assert_eq!(stopped(&decide(&world)), [], "its volume is claimed");
    assert!(!is_drained(&world.state, &drains(true)));
    give_back(&mut world, "b");
    assert_eq!(stopped(&decide(&world)), [("a", NODE_DRAINED)]);
    assert!(is_drained(&world.state, &drains(true)));
    assert!(!is_drained(&world.state, &drains(false)));
    world.apply(EventKind::NodeRegistered { node: drains(true) });
    assert_eq!(stopped(&decide(&world)), []);
    world.report("a", ClientStatus::Complete);
    assert!(is_drained(&world.state, &drains(false)));
}

#[test]
fn a_running_allocation_stays() {
    let mut world = with_job(web(JobType::Service, 1));
    world.place("a", "n1");
    world.report("a", ClientStatus::Running);
    let decision = decide(&world);
    assert_eq!(decision.unchanged, [("g".to_owned(), 1)].into());
    assert!(decision.place.is_empty() && decision.stop.is_empty());
}

/// One writer at a time: the second allocation of one volume waits, with the reason on every node.
#[test]
fn one_evaluation_does_not_promise_a_volume_twice() {
    let world = with_job(with_volume(web(JobType::Service, 2), "data", false));
    let decision = decide(&world);
    assert_eq!(placed(&decision), [(0, "n1")]);
    let failure = &decision.failures["g"];
    assert_eq!(failure.queued, 1);
    let reason = "CSI volume data has exhausted its available writer claims: allocation web.g[0] gets it on node \
                  `machine n1`"
        .to_owned();
    for node in ["n1", "n2"] {
        assert_eq!(failure.nodes[&NodeId::new(node)], [reason.as_str()]);
    }
    let own = with_job(with_volume(web(JobType::Service, 3), "data", true));
    assert_eq!(decide(&own).place.len(), 3);
}

#[test]
fn an_update_replaces_only_what_it_changes() {
    let mut world = with_job(web(JobType::Service, 1));
    world.place("a", "n1");
    world.submit(web(JobType::Service, 2));
    let grown = decide(&world);
    assert_eq!(placed(&grown), [(1, "n2")]);
    assert_eq!(stopped(&grown), []);
    // No task runs differently with these.
    let mut patient = web(JobType::Service, 2);
    patient.groups[0].canaries = 1;
    patient.groups[0].reschedule = Some(ReschedulePolicy::of_type(JobType::Batch));
    world.submit(patient);
    assert_eq!(decide(&world), grown);
    world.submit(with_volume(web(JobType::Service, 1), "data", false));
    let changed = decide(&world);
    assert_eq!(stopped(&changed), [("a", JOB_UPDATED)]);
    assert_eq!(placed(&changed).len(), 1);
}

#[test]
fn needless_allocations_stop() {
    let mut world = with_job(web(JobType::Service, 1));
    world.place("a", "n1");
    world.place("b", "n1");
    assert_eq!(stopped(&decide(&world)), [("a", NOT_NEEDED)]);
    world.apply(EventKind::Job {
        job: job_key("web"),
        event: Box::new(JobEvent::Stopped { purges: false }),
    });
    let all = decide(&world);
    assert_eq!(stopped(&all), [("a", JOB_STOPPED), ("b", JOB_STOPPED)]);
    assert!(all.place.is_empty());
}

#[test]
fn an_allocation_that_an_operator_stops_is_replaced() {
    let mut world = with_job(web(JobType::Service, 1));
    world.place("a", "n1");
    world.request_stop("a");
    assert_eq!(placed(&decide(&world)).len(), 1);
}

#[test]
fn allocations_leave_lost_and_draining_nodes() {
    let mut world = with_job(web(JobType::Service, 1));
    world.place("a", "n1");
    let draining = Node { is_eligible: false, is_draining: true, ..node("n1") };
    world.apply(EventKind::NodeRegistered { node: draining });
    let decision = decide(&world);
    assert_eq!(stopped(&decision), [("a", NODE_DRAINED)]);
    assert_eq!(placed(&decision), [(0, "n2")]);
    world.apply(EventKind::NodeLost { node: NodeId::new("n1"), reason: "fenced".to_owned() });
    assert_eq!(stopped(&decide(&world)), [("a", NODE_LOST)]);
}

/// What runs on a node that is only not connected stays. Of one that is down, services and batch jobs are placed elsewhere, and
/// what runs on every node stays: the node needs its plugins when it returns.
#[test]
fn allocations_leave_a_node_that_is_down_and_stay_on_one_that_is_disconnected() {
    let node = || NodeId::new("n1");
    for job_type in [JobType::Service, JobType::Batch, JobType::System, JobType::Sysbatch] {
        let mut world = with_job(web(job_type, 1));
        world.place("a", "n1");
        world.place("b", "n2");
        let on_n1 = |decision: &Decision| {
            let stops = stopped(decision).into_iter().filter(|(alloc, _)| *alloc == "a");
            stops.map(|(_, reason)| reason.to_owned()).collect::<Vec<_>>()
        };
        if !job_type.is_per_node() {
            world = with_job(web(job_type, 1));
            world.place("a", "n1");
        }
        world.apply(EventKind::NodeDisconnected { node: node() });
        let decision = decide(&world);
        assert_eq!(on_n1(&decision), [""; 0], "{job_type:?}");
        assert!(placed(&decision).is_empty(), "{job_type:?}");
        world.apply(EventKind::NodeDown { node: node() });
        let decision = decide(&world);
        let (stops, places): (&[&str], &[(u32, &str)]) = match job_type.is_per_node() {
            true => (&[], &[]),
            false => (&[NODE_DOWN], &[(0, "n2")]),
        };
        assert_eq!(on_n1(&decision), stops, "{job_type:?}");
        assert_eq!(placed(&decision), places, "{job_type:?}");
    }
}

/// A node that is not connected takes nothing, whatever the job, until it is connected again.
#[test]
fn nothing_is_placed_on_a_node_that_is_not_connected() {
    for job_type in [JobType::Service, JobType::System] {
        let mut world = World::new(&["n1"]);
        world.submit(web(job_type, 1));
        let id = NodeId::new("n1");
        world.apply(EventKind::NodeDisconnected { node: id.clone() });
        for expected in ["node `n1` is not connected", "node `n1` is down"] {
            let decision = decide(&world);
            assert!(decision.place.is_empty(), "{job_type:?}");
            let slot = decision.slots.first();
            let reasons = slot.and_then(|slot| slot.refusals.get(&id));
            match job_type {
                JobType::Service => assert_eq!(reasons.unwrap(), &[expected.to_owned()]),
                _ => assert!(decision.slots.is_empty(), "a system job has no slot there"),
            }
            if expected.ends_with("connected") {
                world.apply(EventKind::NodeDown { node: id.clone() });
            }
        }
        let (session, secret_hash) = ("s1".into(), None);
        world.apply(EventKind::NodeConnected { node: id, session, secret_hash });
        assert_eq!(placed(&decide(&world)), [(0, "n1")], "{job_type:?}");
    }
}

/// A sweep calls the node's plugin: its group has its place as soon as the node has returned, also if the node drains. A group
/// that uses a volume waits, even if it runs a plugin.
#[test]
fn only_plugins_run_on_a_node_that_is_swept() {
    let mut plugin = web(JobType::System, 1);
    plugin.groups[0].tasks[0].csi_plugin =
        Some(CsiPluginConfig::new("hostpath".into(), CsiPluginType::Monolith));
    let user = with_volume(plugin.clone(), "data", false);
    for (job, serves) in [(plugin, true), (user, false), (web(JobType::System, 1), false)] {
        for (is_eligible, is_draining) in [(true, false), (false, false), (false, true)] {
            let mut world = World::new(&["n1"]);
            world.submit(job.clone());
            world.place("a", "n1");
            let changed = Node { is_eligible, is_draining, ..node("n1") };
            world.apply(EventKind::NodeRegistered { node: changed });
            let id = NodeId::new("n1");
            world.apply(EventKind::NodeLost { node: id.clone(), reason: "fenced".to_owned() });
            assert_eq!(stopped(&decide(&world)), [("a", NODE_LOST)]);
            world.request_stop("a");
            assert!(decide(&world).place.is_empty());
            world.apply(EventKind::NodeReturned { node: id });
            let expected: &[_] = if serves { &[(0, "n1")] } else { &[] };
            let case = format!("{serves} {is_eligible} {is_draining}");
            let decision = decide(&world);
            assert_eq!(placed(&decision), expected, "{case}");
            if !serves && is_eligible {
                let reasons = &decision.slots[0].refusals[&NodeId::new("n1")];
                assert!(reasons[0].contains("has returned, and is swept"), "{reasons:?}");
            }
            world.place("b", "n1");
            let expected: &[_] = if serves { &[] } else { &[("b", NODE_LOST)] };
            assert_eq!(stopped(&decide(&world)), expected, "{case}");
        }
    }
}

#[test]
fn a_finished_batch_allocation_is_not_repeated_and_a_failed_one_once() {
    let mut world = with_job(web(JobType::Batch, 1));
    world.place("a", "n1");
    world.report("a", ClientStatus::Complete);
    assert_eq!(decide(&world).unchanged["g"], 1);
    let mut world = with_job(web(JobType::Batch, 1));
    world.place("a", "n1");
    world.report("a", ClientStatus::Failed);
    let failed_at = world.now();
    let waits = decide(&world);
    assert_eq!(waits.wake_at, Some(failed_at + 5 * SECOND));
    assert!(waits.place.is_empty());
    let later = failed_at + 5 * SECOND;
    assert_eq!(placed(&decide_at(&world, later)).len(), 1);
    world.place("b", "n1");
    world.report("b", ClientStatus::Failed);
    assert_eq!(decide_at(&world, later * 9).unchanged["g"], 1);
}

/// A migration that must not run twice, and one that may run three times within an hour.
#[test]
fn a_failed_allocation_is_replaced_as_its_group_says() {
    let job = |attempts: u32| {
        let mut job = web(JobType::Batch, 1);
        job.groups[0].reschedule = Some(ReschedulePolicy {
            attempts,
            interval: Duration::from_secs(3600),
            delay: Duration::from_secs(10),
            ..ReschedulePolicy::of_type(JobType::Batch)
        });
        job
    };
    let mut world = with_job(job(0));
    world.place("a", "n1");
    world.report("a", ClientStatus::Failed);
    let never = decide_at(&world, world.now() + 100_000 * SECOND);
    assert_eq!((never.unchanged["g"], never.wake_at), (1, None));
    let mut world = with_job(job(2));
    for id in ["a", "b"] {
        world.place(id, "n1");
        world.report(id, ClientStatus::Failed);
        let wake_at = world.now() + 10 * SECOND;
        assert_eq!(decide(&world).wake_at, Some(wake_at), "{id}");
    }
    world.place("c", "n1");
    world.report("c", ClientStatus::Failed);
    let ended = decide_at(&world, world.now() + 100_000 * SECOND);
    assert_eq!((ended.unchanged["g"], ended.wake_at), (1, None));
}

#[test]
fn the_pauses_of_a_failing_service_double_up_to_an_hour() {
    let mut world = with_job(web(JobType::Service, 1));
    let mut pauses = vec![];
    for number in 0..9 {
        let id = format!("a{number}");
        world.place(&id, "n1");
        world.report(&id, ClientStatus::Failed);
        let wake_at = decide(&world).wake_at.unwrap();
        pauses.push((wake_at - world.now()) / SECOND);
    }
    assert_eq!(pauses, [30, 60, 120, 240, 480, 960, 1920, 3600, 3600]);
}

/// The replacement is placed at once; it waits for the volume until the old one has given it back.
#[test]
fn a_replacement_does_not_count_the_claim_that_it_replaces() {
    let job = with_volume(web(JobType::Service, 1), "data", false);
    let mut world = with_job(job);
    world.place("a", "n1");
    claim(&mut world, "a");
    world.request_stop("a");
    assert_eq!(placed(&decide(&world)), [(0, "n2")]);
    let mut other = World::new(&["n1"]);
    other.submit(with_volume(web(JobType::Service, 1), "data", false));
    other.place("a", "n1");
    claim(&mut other, "a");
    other.submit(with_volume(web(JobType::Service, 2), "data", false));
    let decision = decide(&other);
    assert_eq!(decision.failures["g"].queued, 1, "{decision:?}");
}

fn claim_key(alloc: &str) -> ClaimKey {
    ClaimKey { alloc: AllocId::new(alloc), alias: VolumeAlias::new("data") }
}

fn claim(world: &mut World, alloc: &str) {
    let request = ClaimRequest {
        key: claim_key(alloc),
        volume: key("default", "data"),
        node: NodeId::new("n1"),
        external_node: None,
        usage: ClaimUsage::new(
            capability(AccessMode::SingleNodeWriter),
            "",
            SealedFlags::default(),
        ),
        read_only: false,
    };
    let (key, claim) = request.granted(0);
    let claim = Box::new(claim);
    apply_claim(world, ClaimEvent::Granted { key, claim });
}

fn give_back(world: &mut World, alloc: &str) {
    let (key, reason) = (claim_key(alloc), "it has ended".to_owned());
    let requested = ClaimEvent::ReleaseRequested { key: key.clone(), reason };
    apply_claim(world, requested);
    apply_claim(world, ClaimEvent::Released { key });
}

fn apply_claim(world: &mut World, event: ClaimEvent) {
    let volume = world.state.remote_volume(&key("default", "data")).unwrap();
    let event = Box::new(event);
    world.apply(EventKind::Claim { volume, event });
}
