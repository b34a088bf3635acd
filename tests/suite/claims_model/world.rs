//! The world of the model check: a strict plugin, calls under way, and what must never happen.

use std::collections::{BTreeMap, BTreeSet};

use nomad_csi_claims::claim::{
    CallLock, ClaimEvent, ClaimKey, ClaimRequest, ClaimUsage, Claims, Effect, EventPlace, Facts,
    Known, PluginSteps, SetupInputs, StartedCall, Step, StepAnswer, apply, is_valid,
};
use nomad_csi_model::{AccessMode, AllocId, ExternalNodeId, NamespacedId, NodeId};

use super::Instances;
use super::inputs::Input;
use super::leaders::{Host, Instance, Leaders};
use super::rules::{Mutation, Rules};
use super::volume::{Volume, VolumeStep, instance_name};

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

/// What a leader has to do.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Action {
    /// A step of a claim.
    Step(Step),
    /// A call for the volume itself.
    Volume(VolumeStep),
}

impl std::fmt::Debug for Action {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Step(step) => step.fmt(f),
            Self::Volume(step) => write!(f, "{step:?}Volume"),
        }
    }
}

/// A call lock of one host.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Lock {
    Node(NodeId),
    /// That of the external volume beside one controller.
    Controller(Instance),
    /// That of the name under which it is created, beside one controller.
    Create(Instance),
}

impl Lock {
    /// Returns whether it is the call lock of the same object beside another controller.
    pub(super) fn is_rival(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Controller(one), Self::Controller(other))
            | (Self::Create(one), Self::Create(other)) => one != other,
            (Self::Node(_) | Self::Controller(_) | Self::Create(_), _) => false,
        }
    }
}

/// One request to a host.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Call {
    pub(super) action: Action,
    pub(super) node: NodeId,
    /// The file system type stands for the usage.
    pub(super) usage: String,
    /// True if it asks for what cannot be written.
    pub(super) read_only: bool,
    /// The index of the event that recorded the start of the step.
    pub(super) started: u64,
    /// The order in which requests of the call lock were sent.
    pub(super) order: u64,
    /// What the step was decided for.
    pub(super) decided_for: PluginSteps,
    pub(super) phase: Phase,
    pub(super) is_effective: bool,
    /// The controller that is called, for what a controller does.
    pub(super) instance: Instance,
    /// The term of its leader.
    pub(super) term: u8,
}

impl Call {
    pub(super) fn step(&self) -> Option<&Step> {
        match &self.action {
            Action::Step(step) => Some(step),
            Action::Volume(_) => None,
        }
    }

    pub(super) fn lock(&self) -> Option<Lock> {
        match &self.action {
            Action::Step(step) => Some(match step.call_lock(|_| Some(self.node.clone()))? {
                CallLock::Node(node) => Lock::Node(node),
                CallLock::Controller => Lock::Controller(self.instance),
            }),
            Action::Volume(VolumeStep::Create) => Some(Lock::Create(self.instance)),
            Action::Volume(VolumeStep::Expand | VolumeStep::Delete) => {
                Some(Lock::Controller(self.instance))
            }
        }
    }

    /// Returns the allocation of the plugin that is called.
    pub(super) fn instance_name(&self) -> &'static str {
        match self.lock() {
            Some(Lock::Controller(instance) | Lock::Create(instance)) => instance_name(instance),
            Some(Lock::Node(_)) | None => "p",
        }
    }

    /// Returns the agent that makes the call.
    pub(super) fn host(&self) -> Host {
        let node = || Host::Node(self.node.clone());
        self.lock().map_or_else(node, |lock| lock.host())
    }

    /// Returns whether this controller makes the call.
    pub(super) fn is_of(&self, instance: Instance) -> bool {
        self.lock().is_some() && self.host() == Host::Controller(instance)
    }

    /// Returns whether the host has it.
    pub(super) fn runs(&self) -> bool {
        match self.phase {
            Phase::Awaited | Phase::Abandoned | Phase::Unknown => true,
            Phase::HeldUp => false,
        }
    }

    fn effect(&self) -> Option<Effect> {
        self.step().and_then(Step::effect)
    }
}

/// A node, a usage, and whether it is read-only.
pub(super) type Place = (NodeId, String, bool);

/// A reachable state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct World {
    pub(super) record: Claims,
    pub(super) facts: Facts,
    /// The claims whose tasks run, whatever the record says.
    pub(super) running: BTreeSet<ClaimKey>,
    /// The registrations that were removed.
    pub(super) gone: BTreeSet<NamespacedId>,
    /// What stands in the plugin, each with its place.
    pub(super) plugin: BTreeMap<Effect, Place>,
    pub(super) calls: Vec<Call>,
    /// The access mode of all claims.
    pub(super) mode: AccessMode,
    /// How the instances of the plugin differ.
    pub(super) instances: Instances,
    /// The highest order that the host of each call lock has seen in the highest term it knows.
    pub(super) seen: BTreeMap<Lock, u64>,
    pub(super) leaders: Leaders,
    pub(super) volume: Volume,
    /// The controller that comes first.
    pub(super) preferred: Instance,
    pub(super) has_two_controllers: bool,
    /// True if tasks outlast the loss of their node.
    pub(super) outlast: bool,
    /// The claims whose tasks an operator cuts off.
    pub(super) cut: BTreeSet<ClaimKey>,
    /// The tasks that run on a lost node, although their claims are gone.
    pub(super) tasks_left: BTreeSet<(NodeId, ClaimKey)>,
}

impl World {
    pub(super) fn new(mode: AccessMode, instances: Instances, rules: &Rules) -> Self {
        Self {
            record: Claims::default(),
            facts: Facts::default(),
            running: BTreeSet::new(),
            gone: BTreeSet::new(),
            plugin: BTreeMap::new(),
            calls: vec![],
            mode,
            instances,
            seen: BTreeMap::new(),
            leaders: Leaders::default(),
            volume: match rules.inputs.has(Input::VolumeCalls) {
                true => Volume::NEW,
                false => Volume::REGISTERED,
            },
            preferred: Instance::default(),
            outlast: rules.inputs.has(Input::Outlasting),
            has_two_controllers: rules.inputs.has_two_controllers(),
            cut: BTreeSet::new(),
            tasks_left: BTreeSet::new(),
        }
    }

    /// Returns how many controllers the plugin has.
    pub(super) fn controllers(&self) -> usize {
        if self.has_two_controllers { 2 } else { 1 }
    }

    /// Returns whether tasks of the volume run on the node, which has no other claims than these.
    pub(super) fn has_tasks_on(&self, node: &NodeId) -> bool {
        let is_on = |key: &ClaimKey| {
            let claim = self.record.claims.get(key);
            claim.is_some_and(|claim| claim.node == *node)
        };
        self.running.iter().any(is_on) || self.tasks_left.iter().any(|(place, _)| place == node)
    }

    /// Returns what the leader has to do now. A node is swept when its tasks have ended (rule 19).
    pub(super) fn due(&self, rules: &Rules) -> Vec<Action> {
        let steps = rules.next_steps(&self.record, &self.facts).into_iter();
        let waits = |step: &Step| match step {
            Step::Sweep(node) if rules.inputs.has(Input::Outlasting) => {
                rules.broken != Mutation::SweepRunning && self.has_tasks_on(node)
            }
            _ => false,
        };
        let steps = steps.filter(|step| !waits(step)).map(Action::Step);
        steps.chain(self.volume.due().map(Action::Volume)).collect()
    }

    /// Returns the order of the next request.
    pub(super) fn next_order(&self) -> u64 {
        let sent = self.calls.iter().map(|call| call.order);
        sent.chain(self.seen.values().copied()).max().unwrap_or(0) + 1
    }

    /// Returns whether the volume is for one node.
    fn is_single(&self) -> bool {
        match self.mode {
            AccessMode::SingleNodeReaderOnly | AccessMode::SingleNodeWriter => true,
            AccessMode::MultiNodeReaderOnly
            | AccessMode::MultiNodeSingleWriter
            | AccessMode::MultiNodeMultiWriter => false,
        }
    }

    pub(super) fn steps(&self) -> PluginSteps {
        self.facts.plugin.unwrap_or_default()
    }

    fn usage(&self, effect: &Effect) -> Option<&str> {
        self.plugin.get(effect).map(|(_, usage, _)| usage.as_str())
    }

    fn is_mounted(&self, node: &NodeId) -> bool {
        let mut effects = self.plugin.iter();
        effects.any(|(effect, place)| matches!(effect, Effect::Published(_)) && place.0 == *node)
    }

    /// Returns what a sweep undoes next: targets before the staging.
    pub(super) fn left_behind(&self, node: &NodeId) -> Option<Effect> {
        let mut effects = self.plugin.iter().rev();
        let found = effects
            .find(|(effect, place)| place.0 == *node && !matches!(effect, Effect::Attached(_)));
        found.map(|(effect, _)| effect.clone())
    }

    /// Where a step is done, and what it sends if it starts now: what is on record, or follows from the
    /// claim it is for.
    pub(super) fn call(&self, step: Step, rules: &Rules) -> Call {
        let of = |usage: &ClaimUsage| usage.fs_type.clone();
        let claim_for = |node: &NodeId| self.record.claim_for(node).map(|(_, claim)| claim);
        let (node, usage, read_only) = match &step {
            Step::Sweep(node) => (node.clone(), String::new(), false),
            Step::NodePublish(key) | Step::NodeUnpublish(key) | Step::Release(key) => {
                let claim = &self.record.claims[key];
                (claim.node.clone(), of(&claim.usage), claim.read_only)
            }
            Step::ControllerPublish(node)
            | Step::NodeStage(node)
            | Step::NodeExpand(node)
            | Step::NodeUnstage(node)
            | Step::ControllerUnpublish(node)
            | Step::AssumeNodeGone(node) => {
                let attachment = self.record.attachments.get(node);
                let made_for = attachment.and_then(|attachment| attachment.made_for.as_ref());
                let staging = self.record.stagings.get(node);
                let usage = match (&step, made_for, staging) {
                    (Step::ControllerPublish(_), Some(made_for), _) => Some(&made_for.usage),
                    (Step::NodeStage(_), _, Some(staging)) => Some(&staging.usage),
                    _ => claim_for(node).map(|claim| &claim.usage),
                };
                let read_only = made_for.is_some_and(|made_for| made_for.read_only);
                (node.clone(), usage.map(of).unwrap_or_default(), read_only)
            }
        };
        let decided_for = self.facts.steps_on(&node).unwrap_or_default();
        let instance = match &step {
            Step::ControllerPublish(node) | Step::ControllerUnpublish(node) => {
                self.controller(Some(node), rules)
            }
            _ => Instance::default(),
        };
        Call {
            action: Action::Step(step),
            node,
            usage,
            read_only,
            started: 0,
            order: 0,
            decided_for,
            phase: Phase::Awaited,
            is_effective: false,
            instance,
            term: self.leaders.term,
        }
    }

    /// Records that the step starts, unless it is on record, and gives its request the next place. Returns
    /// whether it can start.
    pub(super) fn begin(&mut self, call: &mut Call, rules: &Rules) -> bool {
        call.order = self.next_order();
        let Action::Step(step) = call.action.clone() else { return true };
        let instance = call.instance_name();
        let is_open = step.effect().is_none_or(|effect| self.record.known(&effect) == Known::Maybe);
        let recorded = self.record.call(&step);
        let recorded = recorded.filter(|recorded| {
            recorded.is_setup == step.is_setup() && recorded.instance.as_str() == instance
        });
        if is_open && let Some(recorded) = recorded {
            call.started = recorded.index;
        } else {
            call.started = NEW_START;
            let is_recorded = !matches!(step, Step::Sweep(_));
            if is_recorded && rules.broken != Mutation::StartUnrecorded {
                let event = ClaimEvent::StepStarted {
                    inputs: step.is_setup().then(|| Box::new(inputs(&step, rules))),
                    step: step.clone(),
                    instance: AllocId::new(instance),
                };
                if !is_valid(&self.record, &event) {
                    return false;
                }
                self.commit(&event, NEW_START);
            }
        }
        if let Step::ControllerPublish(node) = &step {
            let is_new = call.started == NEW_START;
            let only_reads = self.record.on(node).all(|(_, claim)| claim.read_only);
            if rules.broken == Mutation::AttachAsFirst
                && is_new
                && let Some(attachment) = self.record.attachments.get_mut(node)
                && let Some(made_for) = &mut attachment.made_for
            {
                made_for.read_only = only_reads;
            }
            call.read_only = self.call(step, rules).read_only;
            if rules.broken == Mutation::RepeatAsNow {
                call.read_only = only_reads;
            }
        }
        true
    }

    /// Returns whether a request was sent on the call lock after this call was, and is held up.
    pub(super) fn has_later_request(&self, call: &Call) -> bool {
        let lock = call.lock();
        let seen = lock.as_ref().and_then(|lock| self.seen.get(lock)).copied();
        let is_later = |other: &Call| {
            other.phase == Phase::HeldUp
                && other.term == call.term
                && other.lock() == lock
                && Some(other.order) > seen
        };
        self.calls.iter().any(is_later)
    }

    pub(super) fn commit(&mut self, event: &ClaimEvent, index: u64) {
        apply(&mut self.record, event, EventPlace { index, time: 0 });
    }

    /// Keeps states finite. Of starts only matters which calls belong to the last one of their effect,
    /// and of orders how the requests of a call lock that are held up compare with what the host has seen.
    pub(super) fn forget_numbers(&mut self) {
        let is_held_up = |call: &Call| call.phase == Phase::HeldUp;
        self.calls.sort_by(|one, other| {
            let key = |call: &Call| (is_held_up(call), call.lock());
            let order = key(one).cmp(&key(other));
            // Requests of one call lock that are held up stay in the order in which they were sent.
            order.then_with(|| {
                if is_held_up(one) { std::cmp::Ordering::Equal } else { one.cmp(other) }
            })
        });
        for call in &mut self.calls {
            let is_last = call.step().is_some_and(|step| {
                let recorded = self.record.call(step);
                let is_open = match step.effect() {
                    Some(effect) => self.record.known(&effect) == Known::Maybe,
                    None => true,
                };
                is_open && recorded.is_some_and(|recorded| recorded.index == call.started)
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
        if self.calls.iter().all(|call| call.phase != Phase::HeldUp) {
            self.calls.iter_mut().for_each(|call| call.order = 0);
            self.seen.clear();
            return;
        }
        let mut orders: BTreeMap<Lock, BTreeSet<u64>> = BTreeMap::new();
        for call in &mut self.calls {
            match (call.phase, call.lock()) {
                (Phase::HeldUp, Some(lock)) => {
                    orders.entry(lock).or_default().insert(call.order);
                }
                _ => call.order = 0,
            }
        }
        self.seen.retain(|lock, _| orders.contains_key(lock));
        for (lock, seen) in &self.seen {
            orders.entry(lock.clone()).or_default().insert(*seen);
        }
        let rank = |lock: &Lock, order: &mut u64| {
            let lower = orders[lock].range(..*order).count();
            *order = u64::try_from(lower).unwrap_or(u64::MAX) + 1;
        };
        for call in &mut self.calls {
            if let (Phase::HeldUp, Some(lock)) = (call.phase, call.lock()) {
                rank(&lock, &mut call.order);
            }
        }
        self.seen.iter_mut().for_each(|(lock, seen)| rank(lock, seen));
    }
}

/// Returns what the server resolves at a step: the plugin has PUBLISH_READONLY, and names the node.
fn inputs(step: &Step, rules: &Rules) -> SetupInputs {
    let node = match step {
        Step::ControllerPublish(node) if rules.broken != Mutation::NodeIdAtGrant => Some(node),
        _ => None,
    };
    SetupInputs {
        external_node: node.map(|node| ExternalNodeId::new(format!("i-{node}"))),
        attaches_read_only: true,
        ..SetupInputs::default()
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
    if let Some(expansion) = &mut record.expansion {
        for (node, call) in &mut expansion.calls {
            let is_done = expansion.done.contains(node);
            visit(if is_done { Known::Yes } else { Known::Maybe }, call);
        }
    }
}

/// Returns what CSI, or the user of a claim, has against this call when it starts or when it takes effect.
pub(super) fn forbidden(world: &World, call: &Call, starts: bool) -> &'static str {
    let problem = world.volume_forbids(call);
    let Call { node, usage, .. } = call;
    let Action::Step(step) = &call.action else { return problem };
    if !problem.is_empty() {
        return problem;
    }
    let attached = world.usage(&Effect::Attached(node.clone()));
    let staged = world.usage(&Effect::Staged(node.clone()));
    let PluginSteps { attach, stage } = world.facts.steps_on(node).unwrap_or_default();
    let is_single = world.is_single();
    let is_changed = world.instances == Instances::Change;
    let attached_read_only =
        world.plugin.get(&Effect::Attached(node.clone())).map(|(_, _, read_only)| *read_only);
    let is_elsewhere =
        world.plugin.iter().any(|(e, place)| matches!(e, Effect::Attached(_)) && place.0 != *node);
    let is_lost = world.facts.lost.contains(node);
    let has_returned = world.facts.returned.contains(node);
    let differs = |found: Option<&str>| found.is_some_and(|found| found != usage);
    match step {
        Step::NodeStage(_)
        | Step::NodePublish(_)
        | Step::NodeExpand(_)
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
        Step::Sweep(_) if world.outlast && world.has_tasks_on(node) => "under running tasks",
        Step::NodeExpand(_) if !world.is_mounted(node) => "of what is not mounted",
        Step::ControllerPublish(_) if !attach => "is not a call of this plugin",
        Step::NodeStage(_) if !stage => "is not a call of this plugin",
        // What a plugin has made it can undo, whatever it reports now.
        Step::ControllerUnpublish(_) if !attach && !is_changed => "is not a call of this plugin",
        Step::NodeUnstage(_) if !stage && !is_changed => "is not a call of this plugin",
        Step::ControllerPublish(_) if differs(attached) => "while attached for another usage",
        Step::ControllerPublish(_)
            if attached_read_only.is_some_and(|attached| attached != call.read_only) =>
        {
            "while attached with another `readonly`"
        }
        Step::ControllerPublish(_) if is_single && is_elsewhere => "while attached elsewhere",
        Step::NodeStage(_) if differs(staged) => "while staged for another usage",
        Step::NodeStage(_) | Step::NodePublish(_) if attach && attached != Some(usage) => {
            "not attached for its usage"
        }
        Step::NodePublish(_) if stage && staged != Some(usage) => "not staged for its usage",
        Step::NodePublish(key)
            if world
                .plugin
                .get(&Effect::Published(key.clone()))
                .is_some_and(|place| place.2 != call.read_only) =>
        {
            "while published with another `readonly`"
        }
        Step::NodePublish(_) if !call.read_only && attached_read_only == Some(true) => {
            "writes through a read-only attachment"
        }
        Step::NodeUnstage(_) if world.is_mounted(node) => "under a mounted target",
        Step::ControllerUnpublish(_)
            if !is_lost && (world.is_mounted(node) || staged.is_some()) =>
        {
            "while the node has the volume"
        }
        Step::AssumeNodeGone(_) if !is_lost => "of a live node",
        Step::NodeUnpublish(key) | Step::Release(key)
            if !is_lost && world.running.contains(key) =>
        {
            "under running tasks"
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

pub(super) fn take_effect(world: &mut World, call: &Call) -> Result<(), String> {
    let problem = forbidden(world, call, false);
    if !problem.is_empty() {
        return Err(format!("{:?} takes effect {problem}", call.action));
    }
    let step = match &call.action {
        Action::Step(step) => step,
        Action::Volume(step) => {
            world.volume_takes_effect(*step);
            return Ok(());
        }
    };
    if let Step::Sweep(node) = step {
        if let Some(effect) = world.left_behind(node) {
            world.plugin.remove(&effect);
        }
    } else if let Some(effect) = step.effect() {
        if step.is_setup() {
            let place = (call.node.clone(), call.usage.clone(), call.read_only);
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
    let step = match &call.action {
        Action::Step(step) => step,
        Action::Volume(step) => return world.volume_done(*step),
    };
    match step {
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
        Step::Release(key) => {
            let claim = world.record.claims.get(key);
            let lost = claim.filter(|claim| world.facts.is_lost(&claim.node));
            let lost = lost.map(|claim| claim.node.clone());
            if world.running.remove(key)
                && let Some(node) = lost
                && world.outlast
            {
                world.tasks_left.insert((node, key.clone()));
            }
            world.cut.remove(key);
            world.commit(&ClaimEvent::Released { key: key.clone() }, 0);
        }
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
    ClaimEvent::StepDone { step: step.clone(), started, answer: StepAnswer::default() }
}

/// Returns what must hold in every state: `Yes` and `No` are true, what exists has a claim to undo it, one
/// writer is one.
pub(super) fn check(world: &World, requests: &Requests, rules: &Rules) -> Result<(), String> {
    let problems = nomad_csi_claims::claim::violations(&world.record);
    if let Some(problem) = problems.first() {
        return Err(format!("the record {problem}"));
    }
    world.check_volume()?;
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
    let is_out_of_sight =
        (world.facts.lost.contains(node) || world.leaders.is_rebooted(node)) && !is_attachment;
    if known == Known::Maybe || is_out_of_sight {
        return Ok(());
    }
    if (known == Known::Yes) != world.plugin.contains_key(effect) {
        return Err(format!("{effect:?} is recorded as {known:?}, wrongly"));
    }
    if let (Effect::Published(key), Some(place)) = (effect, world.plugin.get(effect))
        && world.record.claims.get(key).is_some_and(|claim| claim.read_only != place.2)
    {
        return Err(format!("{effect:?} is recorded with another `readonly`"));
    }
    let contradicts = |call: &&Call| {
        call.effect().as_ref() == Some(effect)
            && call.step().is_some_and(|step| step.is_setup() != (known == Known::Yes))
            && call.runs()
    };
    match world.calls.iter().find(contradicts) {
        Some(call) => {
            Err(format!("{effect:?} is recorded as {known:?}, but {:?} is under way", call.action))
        }
        None => Ok(()),
    }
}

fn check_writers(world: &World, rules: &Rules) -> Result<(), String> {
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
        .filter(|(effect, place)| matches!(effect, Effect::Published(_)) && !is_fenced(&place.0));
    let writes = |(_, (_, _, read_only)): &(&Effect, &Place)| !read_only;
    if world.mode == AccessMode::MultiNodeSingleWriter && targets.clone().filter(writes).count() > 1
    {
        return Err("two allocations can write".to_owned());
    }
    let nodes: BTreeSet<_> = targets.map(|(_, place)| &place.0).collect();
    if world.is_single() && nodes.len() > 1 {
        return Err("two nodes can write".to_owned());
    }
    Ok(())
}
