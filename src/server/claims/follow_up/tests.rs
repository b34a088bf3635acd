//! The steps that follow each step at once.

use super::*;
use nomad_csi_claims::claim::{ClaimRequest, StepAnswer, samples};
use nomad_csi_claims::state::samples::{instance, key, registered, started, state_of};
use nomad_csi_claims::state::{Event, check};
use nomad_csi_model::{AccessMode, NodeId, PluginInstance};

const NODE: &str = "node-1";

fn change(state: &mut State, kind: EventKind) -> u64 {
    let event = Event::new(1, kind);
    assert!(check(state, &event).is_ok(), "{event:?}");
    nomad_csi_claims::state::apply(state, &event);
    state.index()
}

fn observed(alloc: &str) -> EventKind {
    let mut instance = PluginInstance { alloc_id: AllocId::new(alloc), ..instance(true) };
    if let Some(node) = &mut instance.node {
        node.capabilities.stage_unstage_volume = true;
    }
    EventKind::PluginAllocObserved {
        plugin: "hostpath".into(),
        node: NodeId::new(NODE),
        instance: Box::new(instance),
    }
}

/// A volume that plugin `task-1` can stage on the node.
struct Story {
    state: State,
    volume: RemoteVolume,
}

impl Story {
    fn new() -> Self {
        let volume = key("default", "db");
        let mut state = state_of([started(), registered(&volume, "ext-1")]);
        change(&mut state, observed("task-1"));
        let volume = state.remote_volume(&volume).unwrap();
        Self { state, volume }
    }

    fn record(&mut self, event: ClaimEvent) -> u64 {
        let event = claim_event(&self.volume, event);
        change(&mut self.state, event)
    }

    fn claim(&mut self, alloc: &str) {
        let node = NodeId::new(NODE);
        let started = EventKind::AllocStarted { alloc: AllocId::new(alloc), node };
        change(&mut self.state, started);
        let request = samples::request(alloc, NODE, AccessMode::MultiNodeMultiWriter);
        let volume = key("default", "db");
        let (key, claim) = ClaimRequest { volume, ..request }.granted(1);
        let claim = Box::new(claim);
        self.record(ClaimEvent::Granted { key, claim });
    }

    fn release(&mut self, alloc: &str) {
        let (key, reason) = (samples::key(alloc), String::new());
        self.record(ClaimEvent::ReleaseRequested { key, reason });
    }

    fn start(&mut self, step: &Step) -> u64 {
        let instance = AllocId::new("task-1");
        let step = step.clone();
        let inputs = None;
        self.record(ClaimEvent::StepStarted { step, instance, inputs })
    }

    fn done(step: &Step, started: u64) -> ClaimEvent {
        ClaimEvent::StepDone { step: step.clone(), started, answer: StepAnswer::default() }
    }

    /// Returns what follows the step if `task-1` did it.
    fn after(&mut self, step: &Step, has_permit: bool) -> Option<Step> {
        let started = self.start(step);
        let event = Self::done(step, started);
        let next = follow_up(
            &self.state,
            &DoneStep {
                volume: &self.volume,
                step,
                instance: &AllocId::new("task-1"),
                event: &event,
                has_permit,
            },
        );
        self.record(event);
        next
    }
}

fn stage() -> Step {
    Step::NodeStage(NodeId::new(NODE))
}

fn unstage() -> Step {
    Step::NodeUnstage(NodeId::new(NODE))
}

fn publish(alloc: &str) -> Step {
    Step::NodePublish(samples::key(alloc))
}

fn unpublish(alloc: &str) -> Step {
    Step::NodeUnpublish(samples::key(alloc))
}

#[test]
fn a_claim_goes_to_its_target_and_back_without_another_decision() {
    let mut story = Story::new();
    story.claim("a1");
    assert_eq!(story.after(&stage(), true), Some(publish("a1")));
    assert_eq!(story.after(&publish("a1"), true), None);
    story.release("a1");
    assert_eq!(story.after(&unpublish("a1"), true), Some(unstage()));
    let release = Step::Release(samples::key("a1"));
    assert_eq!(story.after(&unstage(), false), Some(release.clone()));
    let (_, events) = release_events(&story.state, &story.volume, &samples::key("a1"));
    assert_eq!(events.len(), 2, "the allocation has no other claim");
    for event in events {
        change(&mut story.state, event);
    }
    assert_eq!(story.state.all_claims().len(), 0);
    assert_eq!(story.state.allocs().len(), 0);
}

#[test]
fn a_claim_that_shares_the_staging_is_released_with_its_unpublish() {
    let mut story = Story::new();
    for alloc in ["a1", "a2"] {
        story.claim(alloc);
    }
    assert_eq!(story.after(&stage(), true), Some(publish("a1")));
    assert_eq!(story.after(&publish("a1"), true), Some(publish("a2")));
    story.after(&publish("a2"), true);
    story.release("a1");
    let release = Step::Release(samples::key("a1"));
    assert_eq!(story.after(&unpublish("a1"), true), Some(release));
}

/// Rule 2: a step that waits for a permit is not on record as started.
#[test]
fn nothing_is_started_that_cannot_be_sent_at_once() {
    let mut story = Story::new();
    story.claim("a1");
    assert_eq!(story.after(&stage(), false), None);
}

/// Rule 4: the driver chooses the instance when another one has taken over.
#[test]
fn nothing_follows_on_an_instance_that_is_not_the_newest() {
    let mut story = Story::new();
    story.claim("a1");
    change(&mut story.state, observed("task-2"));
    assert_eq!(story.after(&stage(), true), None);
}

/// Its pause has not ended.
#[test]
fn a_step_that_was_tried_before_does_not_follow() {
    let mut story = Story::new();
    for alloc in ["a1", "a2"] {
        story.claim(alloc);
    }
    story.after(&stage(), true);
    story.start(&publish("a1"));
    assert_eq!(story.after(&publish("a2"), true), None);
}

/// A claim that was given up while its volume was staged is undone, not published.
#[test]
fn what_follows_depends_on_the_claims_at_the_end_of_the_step() {
    let mut story = Story::new();
    story.claim("a1");
    let started = story.start(&stage());
    story.release("a1");
    let event = Story::done(&stage(), started);
    let done = DoneStep {
        volume: &story.volume,
        step: &stage(),
        instance: &AllocId::new("task-1"),
        event: &event,
        has_permit: true,
    };
    assert_eq!(follow_up(&story.state, &done), Some(unstage()));
}

#[test]
fn the_first_claim_of_a_volume_starts_its_call_to_the_node() {
    let mut story = Story::new();
    let request = samples::request("a1", NODE, AccessMode::MultiNodeMultiWriter);
    let volume = key("default", "db");
    let (key, claim) = ClaimRequest { volume, ..request }.granted(1);
    let claim = Box::new(claim);
    let granted = ClaimEvent::Granted { key, claim };
    let first = |story: &Story, node: &str| {
        first_step(&story.state, &story.volume, &granted, &NodeId::new(node))
    };
    let (step, started) = first(&story, NODE).unwrap();
    assert_eq!(step, stage());
    let ClaimEvent::StepStarted { instance, inputs, .. } = started else {
        panic!("it is the start of a step: {started:?}");
    };
    assert_eq!(instance, AllocId::new("task-1"));
    let path = inputs.unwrap().volume_context.remove("path");
    assert_eq!(path.as_deref(), Some("/data"), "it sends the context on record");
    assert_eq!(first(&story, "node-2"), None, "no plugin runs there");
    story.claim("a2");
    assert_eq!(first(&story, NODE), None, "the driver decides");
}
