//! Which volumes the driver looks at after a change.

mod idle;

use super::*;
use nomad_csi_claims::claim::{ClaimEvent, ClaimRequest, samples};
use nomad_csi_claims::state::samples::{instance, key, registered, started, state_of};
use nomad_csi_claims::state::{Event, EventKind, apply, check};
use nomad_csi_model::{AccessMode, AllocId, NamespacedId, Node};

const CLAIMS: usize = 50;

fn alloc(at: usize) -> AllocId {
    AllocId::new(format!("a{at}"))
}

fn volume(at: usize) -> NamespacedId {
    key("default", &format!("v{at}"))
}

fn claim_event(state: &State, at: usize, event: ClaimEvent) -> EventKind {
    let volume = state.remote_volume(&volume(at)).unwrap();
    let event = Box::new(event);
    EventKind::Claim { volume, event }
}

fn change(state: &mut State, kind: EventKind) {
    let before = state.index();
    let event = Event::new(1, kind);
    assert!(check(state, &event).is_ok(), "{event:?}");
    apply(state, &event);
    assert_eq!(state.index(), before + 1);
}

/// A state with volumes that one allocation each claims on node `n1`.
fn claimed() -> State {
    let volumes = (0..CLAIMS).map(|at| registered(&volume(at), &format!("ext-{at}")));
    let mut state = state_of([started()].into_iter().chain(volumes));
    for at in 0..CLAIMS {
        let node = NodeId::new("n1");
        let alloc = alloc(at);
        change(&mut state, EventKind::AllocStarted { alloc, node });
        let request = samples::request(&format!("a{at}"), "n1", AccessMode::SingleNodeWriter);
        let volume = volume(at);
        let (key, claim) = ClaimRequest { volume, ..request }.granted(1);
        let claim = Box::new(claim);
        let granted = claim_event(&state, at, ClaimEvent::Granted { key, claim });
        change(&mut state, granted);
    }
    state
}

/// Returns the volumes that the next look is at.
fn looks(work: &mut Work, state: &State) -> Vec<RemoteVolume> {
    work.see_changes(state);
    std::mem::take(&mut work.changed).into_iter().collect()
}

#[tokio::test]
async fn the_first_look_is_at_all_volumes_and_the_next_at_none() {
    let (state, mut work) = (claimed(), Work::default());
    assert_eq!(looks(&mut work, &state).len(), CLAIMS);
    assert_eq!(looks(&mut work, &state), []);
}

#[tokio::test]
async fn an_allocation_that_ends_is_a_look_at_its_volumes() {
    let (mut state, mut work) = (claimed(), Work::default());
    looks(&mut work, &state);
    change(&mut state, EventKind::AllocEnded { alloc: alloc(7) });
    let expected = state.remote_volume(&volume(7)).unwrap();
    assert_eq!(looks(&mut work, &state), [expected]);
}

/// Otherwise the release of all claims of a lost node costs the square of their number.
#[tokio::test]
async fn the_release_of_each_claim_is_a_look_at_its_own_volume() {
    let (mut state, mut work) = (claimed(), Work::default());
    looks(&mut work, &state);
    for at in 0..CLAIMS {
        let key = samples::key(alloc(at).as_str());
        let reason = "its node is lost".to_owned();
        let requested = ClaimEvent::ReleaseRequested { key: key.clone(), reason };
        let requested = claim_event(&state, at, requested);
        change(&mut state, requested);
        let expected = state.remote_volume(&volume(at)).unwrap();
        assert_eq!(looks(&mut work, &state), [expected]);
        let released = claim_event(&state, at, ClaimEvent::Released { key });
        change(&mut state, released);
        change(&mut state, EventKind::AllocForgotten { alloc: alloc(at) });
        assert_eq!(looks(&mut work, &state), []);
    }
}

/// Rule 7: a step that was sent before the node was lost ends before the sweep begins.
#[tokio::test]
async fn a_node_is_swept_when_no_step_runs_there() {
    let (mut state, mut work) = (claimed(), Work::default());
    let (node, other) = (NodeId::new("n1"), NodeId::new("n2"));
    for node in [&node, &other] {
        let registered =
            EventKind::NodeRegistered { node: Node::new(node.clone(), node.as_str(), "dc1") };
        change(&mut state, registered);
    }
    let lost = EventKind::NodeLost { node: node.clone(), reason: String::new() };
    change(&mut state, lost);
    change(&mut state, EventKind::NodeReturned { node: node.clone() });
    let remote = state.remote_volume(&volume(7)).unwrap();
    let step = |node: &NodeId| {
        let call_lock = Some(CallLock::Node(node.clone()));
        Running::Step(remote.clone(), call_lock, Step::NodeStage(node.clone()))
    };
    let id = |work: &mut Work| work.tasks.spawn(async { Finished::Reaped(StepEnd::Pause) }).id();
    let is_due = |work: &Work| !work.due_sweeps(&state, Instant::now()).is_empty();
    assert!(is_due(&work));
    let (there, elsewhere) = (id(&mut work), id(&mut work));
    work.running.insert(elsewhere, step(&other));
    assert!(is_due(&work));
    work.running.insert(there, step(&node));
    assert!(!is_due(&work));
    work.running.remove(&there);
    assert!(is_due(&work));
}

#[tokio::test]
async fn a_change_of_a_plugin_is_a_look_at_all_volumes() {
    let (mut state, mut work) = (claimed(), Work::default());
    looks(&mut work, &state);
    let observed = EventKind::PluginAllocObserved {
        plugin: "hostpath".into(),
        node: NodeId::new("n1"),
        instance: Box::new(instance(true)),
    };
    change(&mut state, observed);
    assert_eq!(looks(&mut work, &state).len(), CLAIMS);
}
