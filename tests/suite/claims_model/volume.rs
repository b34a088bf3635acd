//! The volume itself: created under its provider's name, expanded and deleted by its external ID.
//!
//! The intent of each call is on record before the call, with the controller that gets it. Another controller gets
//! it when that one is known to be gone, or when the leader that recorded the intent knows of each of its attempts
//! that it was not sent. What a leader knows of its attempts is its memory.

use nomad_csi_claims::claim::{ClaimEvent, Known};
use nomad_csi_model::{Bytes, NodeId};

use super::inputs::Input;
use super::leaders::Instance;
use super::rules::{Mutation, Rules};
use super::world::{Action, Call, Phase, World};
use super::{Next, Requests, arrive};

/// A call for the volume itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum VolumeStep {
    Create,
    Expand,
    Delete,
}

/// What the record says of the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum VolumePhase {
    New,
    Creating,
    Registered,
    Deleting,
    Deleted,
}

/// What the leader knows of the requests that were sent for an intent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Attempts {
    /// None has left it, and no other leader had the intent.
    None,
    /// It has sent one, and no other leader had the intent.
    One,
    Unknown,
}

/// An intent on record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct OpenCall {
    /// The controller that gets the call; `None` if it is known to be gone.
    pub(super) instance: Option<Instance>,
    pub(super) attempts: Attempts,
}

/// The record of the volume, and what the provider has.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Volume {
    pub(super) phase: VolumePhase,
    /// The creation or the deletion.
    settling: Option<OpenCall>,
    expanding: Option<OpenCall>,
    is_expanded: bool,
    exists: bool,
    is_large: bool,
}

impl Volume {
    /// A volume that is not created yet.
    pub(super) const NEW: Self = Self {
        phase: VolumePhase::New,
        settling: None,
        expanding: None,
        is_expanded: false,
        exists: false,
        is_large: false,
    };

    /// A volume that stays as it is.
    pub(super) const REGISTERED: Self =
        Self { phase: VolumePhase::Registered, exists: true, ..Self::NEW };

    /// Returns the intent of a call, if it is on record.
    pub(super) fn open(&self, step: VolumeStep) -> Option<OpenCall> {
        match (step, self.phase) {
            (VolumeStep::Create, VolumePhase::Creating)
            | (VolumeStep::Delete, VolumePhase::Deleting) => self.settling,
            (VolumeStep::Expand, _) => self.expanding,
            (VolumeStep::Create | VolumeStep::Delete, _) => None,
        }
    }

    fn slot(&mut self, step: VolumeStep) -> &mut Option<OpenCall> {
        match step {
            VolumeStep::Create | VolumeStep::Delete => &mut self.settling,
            VolumeStep::Expand => &mut self.expanding,
        }
    }

    pub(super) fn open_mut(&mut self) -> impl Iterator<Item = &mut OpenCall> {
        self.settling.iter_mut().chain(&mut self.expanding)
    }

    /// Returns the calls whose intent is on record.
    pub(super) fn due(&self) -> impl Iterator<Item = VolumeStep> {
        let steps = [VolumeStep::Create, VolumeStep::Expand, VolumeStep::Delete];
        let is_deleting = self.phase == VolumePhase::Deleting;
        steps.into_iter().filter(move |step| {
            let waits = is_deleting && *step == VolumeStep::Expand;
            self.open(*step).is_some() && !waits
        })
    }

    /// Returns the controllers that may work on the volume by its external ID.
    pub(super) fn bound(&self) -> impl Iterator<Item = Instance> {
        let steps = [VolumeStep::Expand, VolumeStep::Delete].into_iter();
        steps.filter_map(|step| self.open(step)?.instance)
    }

    /// Ends an intent as the plugin answered, or as if it had never been.
    fn end(&mut self, step: VolumeStep, is_done: bool) {
        *self.slot(step) = None;
        match (step, is_done) {
            (VolumeStep::Create, true) | (VolumeStep::Delete, false) => {
                self.phase = VolumePhase::Registered;
            }
            (VolumeStep::Create, false) => self.phase = VolumePhase::New,
            (VolumeStep::Delete, true) => {
                self.phase = VolumePhase::Deleted;
                self.expanding = None;
            }
            (VolumeStep::Expand, is_done) => self.is_expanded = is_done,
        }
    }
}

impl World {
    /// A call for the volume itself to this controller.
    pub(super) fn volume_call(&self, step: VolumeStep, instance: Instance) -> Call {
        Call {
            action: Action::Volume(step),
            node: NodeId::new(""),
            usage: String::new(),
            read_only: false,
            started: 0,
            order: 0,
            decided_for: self.steps(),
            phase: Phase::Awaited,
            is_effective: false,
            instance,
            term: self.leaders.term,
        }
    }

    /// Returns the controllers that may work on the volume: a call of each is on record and has no recorded end.
    fn bound(&self) -> impl Iterator<Item = Instance> {
        let attachments = self.record.attachments.values();
        let open = attachments.filter(|attachment| attachment.state == Known::Maybe);
        let attaching =
            open.filter_map(|attachment| instance_named(attachment.call.instance.as_str()));
        attaching.chain(self.volume.bound())
    }

    /// Returns the controller of the next call for the external volume (rule 4).
    pub(super) fn controller(&self, of_attachment: Option<&NodeId>, rules: &Rules) -> Instance {
        let attachment = of_attachment.and_then(|node| self.record.attachments.get(node));
        let open = attachment.filter(|attachment| attachment.state == Known::Maybe);
        let own = open.and_then(|attachment| instance_named(attachment.call.instance.as_str()));
        let bound = match rules.broken {
            Mutation::IgnoreInstance => None,
            Mutation::BoundPerEffect => own,
            _ => own.or_else(|| self.bound().next()),
        };
        bound.unwrap_or(self.preferred)
    }

    /// The process of a controller is gone, and the record knows it.
    fn controller_ends(&mut self, instance: Instance) {
        self.calls.retain(|call| !call.is_of(instance));
        self.leaders.forget_instance(instance);
        for attachment in self.record.attachments.values_mut() {
            if instance_named(attachment.call.instance.as_str()) == Some(instance) {
                attachment.call.instance = GONE.into();
            }
        }
        for open in self.volume.open_mut() {
            if open.instance == Some(instance) {
                open.instance = None;
                // Its requests have ended, and may have had their effect.
                open.attempts = Attempts::Unknown;
            }
        }
    }

    pub(super) fn volume_takes_effect(&mut self, step: VolumeStep) {
        match step {
            VolumeStep::Create => self.volume.exists = true,
            VolumeStep::Expand => self.volume.is_large = true,
            VolumeStep::Delete => {
                self.volume.exists = false;
                self.volume.is_large = false;
            }
        }
    }

    /// The leader hears that the call has succeeded.
    pub(super) fn volume_done(&mut self, step: VolumeStep) {
        if self.volume.open(step).is_none() {
            return;
        }
        self.volume.end(step, true);
        if step == VolumeStep::Expand && !self.record.claims.is_empty() {
            self.commit(&ClaimEvent::ExpansionRequired { to: Bytes::default() }, 0);
        }
    }

    /// Returns what a plugin has against this call.
    pub(super) fn volume_forbids(&self, call: &Call) -> &'static str {
        let Some(lock) = call.lock() else { return "" };
        let is_rival = |other: &Call| {
            let rival = other.lock();
            other.runs() && rival.is_some_and(|rival| lock.is_rival(&rival))
        };
        if self.calls.iter().any(is_rival) {
            return "while another controller works on it";
        }
        match call.action {
            Action::Volume(VolumeStep::Create) => "",
            Action::Volume(VolumeStep::Expand) if !self.volume.exists => "of what does not exist",
            Action::Volume(VolumeStep::Delete) if !self.record.claims.is_empty() => "under claims",
            Action::Volume(VolumeStep::Expand | VolumeStep::Delete) | Action::Step(_) => "",
        }
    }

    /// Returns what the record says wrongly of the volume.
    pub(super) fn check_volume(&self) -> Result<(), String> {
        let Volume { phase, exists, .. } = self.volume;
        let runs = |step| {
            let mut calls = self.calls.iter();
            calls.any(|call| call.runs() && call.action == Action::Volume(step))
        };
        let wrong = match phase {
            VolumePhase::New | VolumePhase::Deleted if exists => "exists",
            VolumePhase::Registered if !exists => "does not exist",
            VolumePhase::New | VolumePhase::Registered | VolumePhase::Deleted
                if runs(VolumeStep::Create) || runs(VolumeStep::Delete) =>
            {
                "is being created or deleted"
            }
            VolumePhase::Creating | VolumePhase::Deleting if !self.record.claims.is_empty() => {
                "is claimed"
            }
            _ if self.volume.is_expanded && !self.volume.is_large && exists => "is not expanded",
            _ if self.volume.expanding.is_none() && runs(VolumeStep::Expand) => "is being expanded",
            _ => return Ok(()),
        };
        Err(format!("the volume is recorded as {phase:?} and {wrong}"))
    }
}

/// The allocation of a controller whose process is gone.
const GONE: &str = "gone";

/// Returns the allocation of a controller.
pub(super) fn instance_name(instance: Instance) -> &'static str {
    if instance.0 == 0 { "p1" } else { "p2" }
}

fn instance_named(alloc: &str) -> Option<Instance> {
    Instance::BOTH.into_iter().find(|instance| instance_name(*instance) == alloc)
}

/// Another controller is chosen from now on, or the process of one is gone.
pub(super) fn controllers_change(next: &mut Next<'_>) {
    next.on(
        || "another controller comes first".into(),
        |world| {
            world.preferred = world.preferred.other();
            Ok(())
        },
    );
    for instance in Instance::BOTH {
        next.on(
            || format!("controller {} ends, and another follows it", instance_name(instance)),
            |world| {
                world.controller_ends(instance);
                Ok(())
            },
        );
    }
}

/// What users ask for, and what the leader does about it.
pub(super) fn volume_goes_on(next: &mut Next<'_>, requests: &Requests, rules: &Rules) {
    let world = next.from;
    let volume = &world.volume;
    let mut registrations = requests.values().map(|request| &request.volume);
    let first = registrations.next();
    let is_shared = registrations.any(|other| Some(other) != first);
    let is_idle = world.record.claims.is_empty() && !is_shared;
    let may = |step| match step {
        VolumeStep::Create => volume.phase == VolumePhase::New,
        VolumeStep::Expand => {
            let is_pending = volume.expanding.is_some() || volume.is_expanded;
            volume.phase == VolumePhase::Registered && !is_pending
        }
        VolumeStep::Delete => {
            let is_unclaimed = is_idle || rules.broken == Mutation::DeleteClaimed;
            volume.phase == VolumePhase::Registered && is_unclaimed
        }
    };
    for step in [VolumeStep::Create, VolumeStep::Expand, VolumeStep::Delete] {
        if may(step) {
            next.on(
                || format!("{step:?} is recorded"),
                |world| {
                    let instance = Some(world.volume_instance(step, rules));
                    let open = OpenCall { instance, attempts: Attempts::None };
                    *world.volume.slot(step) = Some(open);
                    match step {
                        VolumeStep::Create => world.volume.phase = VolumePhase::Creating,
                        VolumeStep::Delete => world.volume.phase = VolumePhase::Deleting,
                        VolumeStep::Expand => {}
                    }
                    Ok(())
                },
            );
        }
    }
    for step in volume.due() {
        volume_call_starts(next, step, rules);
    }
}

impl World {
    /// Returns the controller that gets a call whose intent names none.
    pub(super) fn volume_instance(&self, step: VolumeStep, rules: &Rules) -> Instance {
        match step {
            VolumeStep::Create => self.preferred,
            VolumeStep::Expand | VolumeStep::Delete => self.controller(None, rules),
        }
    }
}

fn volume_call_starts(next: &mut Next<'_>, step: VolumeStep, rules: &Rules) {
    let world = next.from;
    let Some(open) = world.volume.open(step) else { return };
    if open.attempts == Attempts::None {
        next.on(
            || format!("{step:?} is not sent, and is given up"),
            |world| {
                world.volume.end(step, false);
                Ok(())
            },
        );
        let other = world.volume_instance(step, rules).other();
        let is_free = match step {
            VolumeStep::Create => true,
            // Its own intent binds it, and no other call may.
            VolumeStep::Expand | VolumeStep::Delete => world.bound().count() == 1,
        };
        if open.instance.is_some() && is_free {
            next.on(
                || format!("{step:?} is not sent, and moves to {}", instance_name(other)),
                |world| {
                    let instance = open.instance.map(Instance::other);
                    *world.volume.slot(step) = Some(OpenCall { instance, ..open });
                    Ok(())
                },
            );
        }
    }
    let is_awaited =
        |call: &Call| call.action == Action::Volume(step) && call.phase == Phase::Awaited;
    if world.calls.iter().any(is_awaited) || world.calls.len() == rules.at_once {
        return;
    }
    let instance = open.instance.unwrap_or_else(|| world.volume_instance(step, rules));
    let call = world.volume_call(step, instance);
    if !world.leaders.can_address(&call.host(), rules) {
        return;
    }
    let begin = |world: &mut World| {
        let order = world.next_order();
        if let Some(open) = world.volume.slot(step) {
            open.instance = Some(instance);
        }
        Call { order, ..call.clone() }
    };
    let sent = |world: &mut World| {
        if let Some(open) = world.volume.slot(step) {
            open.attempts = match open.attempts {
                Attempts::None => Attempts::One,
                Attempts::One | Attempts::Unknown => Attempts::Unknown,
            };
        }
    };
    next.on(
        || format!("{step:?} by {}", instance_name(instance)),
        |world| {
            let call = begin(world);
            if arrive(world, call, rules)? {
                sent(world);
            }
            Ok(())
        },
    );
    if rules.inputs.has(Input::HeldUp) && rules.at_once > 1 {
        next.on(
            || format!("{step:?} by {} is held up", instance_name(instance)),
            |world| {
                let call = begin(world);
                world.calls.push(Call { phase: Phase::HeldUp, ..call });
                sent(world);
                Ok(())
            },
        );
    }
}

/// The plugin refuses a call that runs and has no effect yet.
pub(super) fn volume_call_is_refused(next: &mut Next<'_>, position: usize, step: VolumeStep) {
    let world = next.from;
    let Some(open) = world.volume.open(step) else { return };
    // What is in use was not deleted by any earlier request either.
    let is_in_use = step == VolumeStep::Delete && world.volume.exists;
    if open.attempts == Attempts::One || is_in_use {
        next.on(
            || format!("{step:?} is refused"),
            |world| {
                world.calls.remove(position);
                world.volume.end(step, false);
                Ok(())
            },
        );
    }
}
