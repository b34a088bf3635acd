//! The world of the model check: a strict plugin, calls under way, and what must never happen.

use std::collections::{BTreeMap, BTreeSet};

use nomad_csi::claim::{
    ClaimEvent, ClaimKey, ClaimRequest, ClaimUsage, Claims, Effect, EventPlace, Facts, Known, Lane,
    PluginSteps, StartedCall, Step, StepAnswer, apply,
};
use nomad_csi::model::{AllocId, NodeId};

use super::rules::{Mutation, Rules};

/// The requests of a layout: which allocation claims the volume where.
pub(super) type Requests = BTreeMap<ClaimKey, ClaimRequest>;

/// Where a call is. Awaited and abandoned calls run in the plugin; of unknown ones not even the host
/// knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Phase {
    Awaited,
    Abandoned,
    Unknown,
    HeldUp,
}

/// One request to a host.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Call {
    pub(super) step: Step,
    pub(super) node: NodeId,
    /// The file system type stands for the usage.
    pub(super) usage: String,
    /// The index of the event that recorded the start of the step.
    pub(super) started: u64,
    /// The order in which requests of the lane were sent.
    pub(super) order: u64,
    pub(super) phase: Phase,
    pub(super) is_effective: bool,
}

impl Call {
    pub(super) fn lane(&self) -> Option<Lane> {
        self.step.lane(|_| Some(self.node.clone()))
    }
}

/// A reachable state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct World {
    pub(super) record: Claims,
    pub(super) facts: Facts,
    /// What stands in the plugin, each with its node and usage.
    pub(super) plugin: BTreeMap<Effect, (NodeId, String)>,
    pub(super) calls: Vec<Call>,
    /// Whether the volume is for one node.
    pub(super) is_single: bool,
    /// The highest order that the host of each lane has seen.
    pub(super) seen: BTreeMap<Lane, u64>,
}

impl World {
    pub(super) fn steps(&self) -> PluginSteps {
        self.facts.plugin.unwrap_or_default()
    }

    fn usage(&self, effect: &Effect) -> Option<&str> {
        self.plugin.get(effect).map(|(_, usage)| usage.as_str())
    }

    fn is_mounted(&self, node: &NodeId) -> bool {
        let mut effects = self.plugin.iter();
        effects.any(|(effect, place)| matches!(effect, Effect::Published(_)) && place.0 == *node)
    }

    /// What a sweep undoes next: targets before the staging.
    pub(super) fn left_behind(&self, node: &NodeId) -> Option<Effect> {
        let mut effects = self.plugin.iter().rev();
        let found = effects
            .find(|(effect, place)| place.0 == *node && !matches!(effect, Effect::Attached(_)));
        found.map(|(effect, _)| effect.clone())
    }

    /// Where a step is done and for which usage: that of the claim it is for.
    pub(super) fn call(&self, step: Step) -> Call {
        let of = |usage: &ClaimUsage| usage.fs_type.clone();
        let (node, usage) = match &step {
            Step::Sweep(node) => (node.clone(), String::new()),
            Step::NodePublish(key) | Step::NodeUnpublish(key) | Step::Release(key) => {
                let claim = &self.record.claims[key];
                (claim.node.clone(), of(&claim.usage))
            }
            Step::ControllerPublish(node)
            | Step::NodeStage(node)
            | Step::NodeExpand(node)
            | Step::NodeUnstage(node)
            | Step::ControllerUnpublish(node)
            | Step::AssumeNodeGone(node) => {
                let claims = self.record.on(node).map(|(_, claim)| claim);
                let claim = claims.max_by_key(|claim| claim.is_held());
                let usage = claim.map(|claim| of(&claim.usage)).unwrap_or_default();
                (node.clone(), usage)
            }
        };
        Call {
            step,
            node,
            usage,
            started: 0,
            order: 0,
            phase: Phase::Awaited,
            is_effective: false,
        }
    }

    /// Records that the step starts, unless it is on record, and gives its request the next place.
    pub(super) fn begin(&mut self, call: &mut Call, rules: &Rules) {
        let step = &call.step;
        let sent = self.calls.iter().map(|call| call.order);
        call.order = sent.chain(self.seen.values().copied()).max().unwrap_or(0) + 1;
        let is_open = step
            .effect()
            .is_some_and(|effect| self.record.known(&effect) == Known::Maybe);
        let recorded = self.record.call(step);
        let recorded = recorded.filter(|recorded| recorded.is_setup == step.is_setup());
        if is_open && let Some(recorded) = recorded {
            call.started = recorded.index;
            return;
        }
        call.started = NEW_START;
        if rules.broken != Mutation::StartUnrecorded {
            let event = ClaimEvent::StepStarted {
                step: step.clone(),
                instance: AllocId::new("p"),
            };
            self.commit(&event, NEW_START);
        }
    }

    /// Whether a request was sent on the lane after this call was, and is held up.
    pub(super) fn has_later_request(&self, call: &Call) -> bool {
        let lane = call.lane();
        let seen = lane.as_ref().and_then(|lane| self.seen.get(lane)).copied();
        let is_later = |other: &Call| {
            other.phase == Phase::HeldUp && other.lane() == lane && Some(other.order) > seen
        };
        self.calls.iter().any(is_later)
    }

    pub(super) fn commit(&mut self, event: &ClaimEvent, index: u64) {
        apply(&mut self.record, event, EventPlace { index, time: 0 });
    }

    /// Keeps states finite. Of starts only matters which calls belong to the last one of their effect,
    /// and of orders how the requests of a lane that are held up compare with what the host has seen.
    pub(super) fn forget_numbers(&mut self) {
        for call in &mut self.calls {
            let is_last = call.step.effect().is_some_and(|effect| {
                let recorded = self.record.call(&call.step);
                self.record.known(&effect) == Known::Maybe
                    && recorded.is_some_and(|recorded| recorded.index == call.started)
            });
            call.started = if is_last { LAST_START } else { 0 };
        }
        each_call(&mut self.record, |state, call| {
            let is_open = state == Known::Maybe;
            call.index = if is_open { LAST_START } else { 0 };
            call.is_setup |= !is_open;
        });
        for claim in self.record.claims.values_mut() {
            if claim.published == Known::No {
                claim.call = None;
            }
        }
        self.rank_orders();
    }

    fn rank_orders(&mut self) {
        let mut orders: BTreeMap<Lane, BTreeSet<u64>> = BTreeMap::new();
        for call in &mut self.calls {
            match (call.phase, call.lane()) {
                (Phase::HeldUp, Some(lane)) => {
                    orders.entry(lane).or_default().insert(call.order);
                }
                _ => call.order = 0,
            }
        }
        self.seen.retain(|lane, _| orders.contains_key(lane));
        for (lane, seen) in &self.seen {
            orders.entry(lane.clone()).or_default().insert(*seen);
        }
        let rank = |lane: &Lane, order: &mut u64| {
            let lower = orders[lane].range(..*order).count();
            *order = u64::try_from(lower).unwrap_or(u64::MAX) + 1;
        };
        for call in &mut self.calls {
            if let (Phase::HeldUp, Some(lane)) = (call.phase, call.lane()) {
                rank(&lane, &mut call.order);
            }
        }
        self.seen
            .iter_mut()
            .for_each(|(lane, seen)| rank(lane, seen));
    }
}

/// The index of a new start, which no call under way has.
const NEW_START: u64 = 2;
/// The index of the last start of an effect, after the numbers were forgotten.
const LAST_START: u64 = 1;

/// Visits the last call of every effect with what is known of it.
fn each_call(record: &mut Claims, mut visit: impl FnMut(Known, &mut StartedCall)) {
    for claim in record.claims.values_mut() {
        if let Some(call) = &mut claim.call {
            visit(claim.published, call);
        }
    }
    for staging in record.stagings.values_mut() {
        visit(staging.state, &mut staging.call);
    }
    for attachment in record.attachments.values_mut() {
        visit(attachment.state, &mut attachment.call);
    }
}

/// What CSI, or the user of a claim, has against this call when it starts or when it takes effect.
pub(super) fn forbidden(world: &World, call: &Call, starts: bool) -> &'static str {
    let Call {
        step, node, usage, ..
    } = call;
    let attached = world.usage(&Effect::Attached(node.clone()));
    let staged = world.usage(&Effect::Staged(node.clone()));
    let PluginSteps { attach, stage } = world.steps();
    let is_single = world.is_single;
    let is_elsewhere = world
        .plugin
        .iter()
        .any(|(e, place)| matches!(e, Effect::Attached(_)) && place.0 != *node);
    let is_lost = world.facts.lost.contains(node);
    let has_returned = world.facts.returned.contains(node);
    let differs = |found: Option<&str>| found.is_some_and(|found| found != usage);
    match step {
        Step::NodeStage(_)
        | Step::NodePublish(_)
        | Step::NodeUnpublish(_)
        | Step::NodeUnstage(_)
            if is_lost =>
        {
            if starts {
                "calls a lost node"
            } else {
                ""
            }
        }
        Step::Sweep(_) if starts && is_lost && !has_returned => "calls a lost node",
        Step::ControllerPublish(_) | Step::ControllerUnpublish(_) if !attach => {
            "is not a call of this plugin"
        }
        Step::NodeStage(_) | Step::NodeUnstage(_) if !stage => "is not a call of this plugin",
        Step::ControllerPublish(_) if differs(attached) => "while attached for another usage",
        Step::ControllerPublish(_) if is_single && is_elsewhere => "while attached elsewhere",
        Step::NodeStage(_) if differs(staged) => "while staged for another usage",
        Step::NodeStage(_) | Step::NodePublish(_) if attach && attached != Some(usage) => {
            "not attached for its usage"
        }
        Step::NodePublish(_) if stage && staged != Some(usage) => "not staged for its usage",
        Step::NodeUnstage(_) if world.is_mounted(node) => "under a mounted target",
        Step::ControllerUnpublish(_)
            if !is_lost && (world.is_mounted(node) || staged.is_some()) =>
        {
            "while the node has the volume"
        }
        Step::AssumeNodeGone(_) if !is_lost => "of a live node",
        Step::NodeUnpublish(key) | Step::Release(key) if !is_lost && is_held(world, key) => {
            "of a held claim"
        }
        Step::ControllerPublish(_)
        | Step::NodeStage(_)
        | Step::NodePublish(_)
        | Step::NodeExpand(_)
        | Step::NodeUnpublish(_)
        | Step::NodeUnstage(_)
        | Step::ControllerUnpublish(_)
        | Step::AssumeNodeGone(_)
        | Step::Sweep(_)
        | Step::Release(_) => "",
    }
}

pub(super) fn is_held(world: &World, key: &ClaimKey) -> bool {
    let claim = world.record.claims.get(key);
    claim.is_some_and(nomad_csi::claim::Claim::is_held)
}

pub(super) fn take_effect(world: &mut World, call: &Call) -> Result<(), String> {
    let problem = forbidden(world, call, false);
    if !problem.is_empty() {
        return Err(format!("{:?} takes effect {problem}", call.step));
    }
    if let Step::Sweep(node) = &call.step {
        if let Some(effect) = world.left_behind(node) {
            world.plugin.remove(&effect);
        }
    } else if let Some(effect) = call.step.effect() {
        if call.step.is_setup() {
            let place = (call.node.clone(), call.usage.clone());
            world.plugin.insert(effect, place);
        } else {
            world.plugin.remove(&effect);
        }
    }
    Ok(())
}

/// The server hears that a call has succeeded. A sweep has if nothing is left behind; it ends the loss
/// of the node. Answers from a node that was assumed gone are not recorded: their step is not open.
pub(super) fn hear(world: &mut World, call: &Call, rules: &Rules) {
    match &call.step {
        Step::Sweep(node) => {
            let is_clean = world.left_behind(node).is_none();
            if is_clean || rules.broken == Mutation::ReturnHalfSwept {
                world.facts.lost.remove(node);
                world.facts.returned.remove(node);
            }
        }
        Step::AssumeNodeGone(node) => {
            world.commit(&ClaimEvent::NodeAssumedGone { node: node.clone() }, 0);
            rules.abandon(world, node);
        }
        Step::Release(key) => world.commit(&ClaimEvent::Released { key: key.clone() }, 0),
        step @ (Step::ControllerPublish(_)
        | Step::NodeStage(_)
        | Step::NodePublish(_)
        | Step::NodeExpand(_)
        | Step::NodeUnpublish(_)
        | Step::NodeUnstage(_)
        | Step::ControllerUnpublish(_)) => rules.record_done(world, step, call.started),
    }
}

/// The event of a call that succeeded.
pub(super) fn done(step: &Step, started: u64) -> ClaimEvent {
    ClaimEvent::StepDone {
        step: step.clone(),
        started,
        answer: StepAnswer::default(),
    }
}

/// What must hold in every state: `Yes` and `No` are true, what exists has a claim to undo it, one
/// writer is one.
pub(super) fn check(world: &World, requests: &Requests, rules: &Rules) -> Result<(), String> {
    let problems = nomad_csi::claim::violations(&world.record);
    if let Some(problem) = problems.first() {
        return Err(format!("the record {problem}"));
    }
    for (key, request) in requests {
        let node = &request.node;
        for effect in [
            Effect::Attached(node.clone()),
            Effect::Staged(node.clone()),
            Effect::Published(key.clone()),
        ] {
            check_effect(world, node, &effect)?;
        }
    }
    check_writers(world, rules)
}

fn check_effect(world: &World, node: &NodeId, effect: &Effect) -> Result<(), String> {
    let known = world.record.known(effect);
    let is_attachment = matches!(effect, Effect::Attached(_));
    let is_out_of_sight = world.facts.lost.contains(node) && !is_attachment;
    if known == Known::Maybe || is_out_of_sight {
        return Ok(());
    }
    if (known == Known::Yes) != world.plugin.contains_key(effect) {
        return Err(format!("{effect:?} is recorded as {known:?}, wrongly"));
    }
    let contradicts = |call: &&Call| {
        call.step.effect().as_ref() == Some(effect)
            && call.step.is_setup() != (known == Known::Yes)
            && call.phase != Phase::HeldUp
    };
    match world.calls.iter().find(contradicts) {
        Some(call) => Err(format!(
            "{effect:?} is recorded as {known:?}, but {:?} is under way",
            call.step
        )),
        None => Ok(()),
    }
}

fn check_writers(world: &World, rules: &Rules) -> Result<(), String> {
    if !world.is_single {
        return Ok(());
    }
    let is_fenced = |node: &NodeId| {
        if world.steps().attach {
            !world.plugin.contains_key(&Effect::Attached(node.clone()))
        } else {
            let is_unfenced_early =
                rules.broken == Mutation::UnfenceFirst && world.facts.returned.contains(node);
            world.facts.lost.contains(node) && !is_unfenced_early
        }
    };
    let targets = world
        .plugin
        .iter()
        .filter(|(effect, _)| matches!(effect, Effect::Published(_)));
    let writing: BTreeSet<_> = targets
        .map(|(_, place)| &place.0)
        .filter(|node| !is_fenced(node))
        .collect();
    if writing.len() > 1 {
        return Err("two nodes can write".to_owned());
    }
    Ok(())
}
