//! The rules under test, whole or broken on purpose.
//!
//! A broken rule is a wrapper here around the real code: it changes what the code is asked, or its
//! answer. Production code has no switches.

use std::collections::{BTreeMap, BTreeSet};

use nomad_csi_claims::claim::{
    Admission, AdmissionFacts, ClaimKey, ClaimRequest, Claims, Effect, Facts, Intent, Known,
    NodeVolumes, Step, admit, next_steps,
};
use nomad_csi_model::{Capability, NodeId, Term};
use nomad_csi_node::VolumeCallLock;
use nomad_csi_ports::HostOperation;

use super::inputs::{Inputs, ONE_MACHINE};
use super::volume::VolumePhase;
use super::world::{Call, Lock, Phase, World, done};

macro_rules! mutations {
    ($($name:ident = $what:literal)*) => {
        /// One breakage.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Mutation { Intact, $($name),* }
        /// Every breakage with what it breaks.
        pub(super) const MUTATIONS: &[(Mutation, &str)] = &[$((Mutation::$name, $what)),*];
    };
}

mutations! {
    TrustMaybeAttached   = "up: an attachment that is Maybe is good enough to go on"
    TrustMaybeStaged     = "up: a staging that is Maybe is good enough to go on"
    TrustMaybeTarget     = "up: a target that is Maybe is good enough to return"
    StageFirst           = "up: staging comes before attachment"
    StageAlways          = "up: a plugin without staging gets a stage call"
    DriveLostNode        = "up: a held claim on a lost node is still driven to its target"
    DropMaybeTarget      = "down: a target that is Maybe needs no undoing"
    DropMaybeStaged      = "down: a staging that is Maybe needs no undoing"
    DropMaybeAttached    = "down: an attachment that is Maybe needs no undoing"
    ForgetSharers        = "down: other claims that use the staging are ignored"
    ForgetMountedSharers = "down: a claim in release that is still mounted is not a user"
    ForgetWaitingSharers = "down: a held claim that is not mounted yet is not a user"
    DetachFirst          = "down: detachment comes before unstaging"
    ReleaseFirst         = "down: the claim goes before staging and attachment are undone"
    CallLostNode         = "down: a lost node is called instead of assumed gone"
    KeepLostAttachment   = "down: the attachment of a lost node is not undone"
    IgnoreClaims         = "admission: only the staging is asked for its usage, not the claims"
    IgnoreReleasing      = "admission: claims in release are not asked for their usage"
    UsagePerVolume       = "admission: one usage per volume instead of one per node"
    ReadOnlyIsUsage      = "admission: read-only is part of the usage"
    RestartHeld          = "admission: a held claim that arrives again starts afresh"
    RestartReleasing     = "admission: a claim in release that arrives again starts afresh"
    StartUnrecorded      = "record: the start of a step is not written"
    IgnoreElsewhere      = "admission: a volume for one node ignores claims on another"
    HearTheLost          = "record: an answer is written down although its node was assumed gone since"
    DriveUnswept         = "return: a held claim is driven on a node that is back but not swept"
    ReturnUnswept        = "return: a node that is back is used again without a sweep"
    ReturnHalfSwept      = "return: a sweep that left something behind counts as done"
    SweepUnassumed       = "return: the sweep does not wait until the record has given up all that is there"
    SweepUnderway        = "return: the sweep does not wait for calls that still run there"
    UnfenceFirst         = "return: the fence is lifted before the sweep"
    TrustRebooted        = "return: what was there before a reboot is still taken for Yes"
    TrustVanished        = "mounts: what vanished from the mount table is still taken for Yes"
    NobodyBusy           = "host: a call that still runs keeps no other call out"
    OtherInstance        = "host: while a controller call runs, another instance takes the next"
    ForgetfulHost        = "host: its plugin outlives its restart, with calls that it does not know"
    ObeyOvertaken        = "host: a request that a newer one has overtaken is still carried out"
    ObeyOldSession       = "host: a request to the host as it was before a reboot is still carried out"
    OrphanAll            = "registration: its removal releases the claims of all registrations"
    OrphanRunning        = "registration: it is removed by force while tasks use it"
    IgnoreOrphaned       = "admission: claims of a registration that is gone do not count"
    ReleaseRunning       = "release: an operator releases a claim whose tasks run"
    AttachAsFirst        = "attach: the first claim on a node decides whether it is read-only"
    RepeatAsNow          = "attach: a repeated call is read-only as the claims are now"
    NodeIdAtGrant        = "attach: only a claim that was granted with the ID of its node can be attached"
    DropWithoutAttach    = "down: what a plugin attached before it lost the capability is forgotten"
    NewestDecides        = "up: the newest instance of the plugin decides for every node whether it stages"
    ObeyOldAttach        = "host: an attach that was decided before the plugin lost attach is carried out"
    ObeyUnattached       = "host: what was decided before the plugin gained attach is carried out without an attachment"
    ObeyOldStage         = "host: what was decided before the plugin gained or lost stage is carried out"
    ObeyOldTerm          = "leaders: without rule 11, a host takes requests of every term"
    TermPerEffect        = "leaders: a host knows a term only for the effect that a request was about"
    ListWithoutTerm      = "leaders: a list of what a node has left carries no term"
    ReportWithoutTerm    = "leaders: a node reports to a leader and does not take its term"
    NumberAlone          = "leaders: requests are compared by their number, and each leader counts from 1"
    UncommittedSession   = "leaders: without rule 12, a session is addressed before it is committed"
    DeposedCommits       = "leaders: a deposed leader still records what it hears"
    UnnamedVolumeCall    = "volume: without the instance in the intent, the next leader takes another controller"
    CountOwnAttempts     = "volume: the next leader takes its own attempts for all"
    IgnoreInstance       = "volume: another controller gets the next call, whatever the first may still do"
    BoundPerEffect       = "volume: while one attachment is Maybe, another controller gets calls for other nodes"
    DeleteClaimed        = "volume: it is deleted while claims are left"
    ClaimDeleting        = "volume: it is claimed while it is created or deleted"
    SweepRunning         = "return: a node is swept while tasks run there"
    ChangePublished      = "admission: a claim moves between reading and writing while it is published"
    GrantExhausted       = "admission: a node without room gets another claim"
    ReleaseUnkilled      = "cut-off: the claim is released before its tasks are killed"
    SendRefused          = "journal: a call whose start was refused is sent all the same"
}

/// What keeps two calls of one call lock from running at once: nothing, the plugin with ABORTED, the
/// plugin as long as the same instance is called, or the host, which also keeps requests in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Busy {
    Unchecked,
    Plugin,
    OneInstance,
    Host,
}

/// What the world may do, and how late calls are dealt with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    pub(super) broken: Mutation,
    pub(super) busy: Busy,
    /// The server waits for the end of a call, and forgets it only when it restarts.
    pub(super) is_patient: bool,
    pub(super) restarts: bool,
    pub(super) at_once: usize,
    /// What else may happen.
    pub(super) inputs: Inputs,
}

/// The rules of the program.
pub(super) const THE_RULES: Rules = Rules {
    broken: Mutation::Intact,
    busy: Busy::Host,
    is_patient: false,
    restarts: true,
    at_once: 1,
    inputs: ONE_MACHINE,
};

impl Rules {
    /// The real decision, or one with a breakage.
    pub(super) fn next_steps(&self, record: &Claims, facts: &Facts) -> BTreeSet<Step> {
        match self.broken {
            Mutation::TrustMaybeAttached => {
                next_steps(&with_attachments(record, Some(Known::Yes)), facts)
            }
            Mutation::DropMaybeAttached => next_steps(&with_attachments(record, None), facts),
            Mutation::TrustMaybeStaged => {
                next_steps(&with_stagings(record, Some(Known::Yes)), facts)
            }
            Mutation::DropMaybeStaged => next_steps(&with_stagings(record, None), facts),
            Mutation::TrustMaybeTarget => {
                next_steps(&with_targets(record, Intent::Hold, Known::Yes), facts)
            }
            Mutation::DropMaybeTarget => {
                next_steps(&with_targets(record, Intent::Release, Known::No), facts)
            }
            Mutation::DropWithoutAttach if facts.plugin.is_some_and(|plugin| !plugin.attach) => {
                let mut record = record.clone();
                record.attachments.clear();
                next_steps(&record, facts)
            }
            Mutation::StageFirst | Mutation::DetachFirst => swapped(record, facts),
            Mutation::StageAlways => {
                let mut facts = facts.clone();
                if let Some(plugin) = &mut facts.plugin {
                    plugin.stage = true;
                }
                next_steps(record, &facts)
            }
            Mutation::DriveLostNode => driven(record, facts, &facts.lost),
            Mutation::DriveUnswept => driven(record, facts, &facts.returned),
            Mutation::CallLostNode => called(record, facts),
            Mutation::ForgetSharers => without_sharers(record, facts, |_, _| false),
            Mutation::ForgetMountedSharers => {
                without_sharers(record, facts, |_, claim| claim.is_held())
            }
            Mutation::ForgetWaitingSharers => {
                without_sharers(record, facts, |_, claim| claim.published != Known::No)
            }
            Mutation::ReleaseFirst => released_early(record, facts, |_| true),
            Mutation::KeepLostAttachment => {
                released_early(record, facts, |node| facts.lost.contains(node))
            }
            Mutation::SweepUnassumed => {
                let sweeps = facts.returned.iter().cloned().map(Step::Sweep);
                next_steps(record, facts).into_iter().chain(sweeps).collect()
            }
            Mutation::NewestDecides => {
                let facts = Facts { stages: BTreeMap::new(), ..facts.clone() };
                next_steps(record, &facts)
            }
            _ => next_steps(record, facts),
        }
    }

    /// The real admission, or one with a breakage. `None` is a denial.
    pub(super) fn admit(
        &self,
        world: &World,
        request: &ClaimRequest,
        capabilities: &[Capability],
    ) -> Option<Admission> {
        let mut record = world.record.clone();
        let usage = &request.usage;
        let is_restarted = match record.claims.get(&request.key) {
            Some(own) if own.is_held() => self.broken == Mutation::RestartHeld,
            Some(_) => self.broken == Mutation::RestartReleasing,
            None => false,
        };
        if is_restarted {
            record.claims.remove(&request.key);
        }
        let is_usable = world.volume.phase == VolumePhase::Registered;
        if !is_usable && self.broken != Mutation::ClaimDeleting {
            return None;
        }
        if self.broken == Mutation::GrantExhausted {
            record.claims.values_mut().for_each(|claim| claim.problem = None);
        }
        let mut others = record.claims.values();
        match self.broken {
            Mutation::UsagePerVolume if others.any(|c| c.usage.fs_type != usage.fs_type) => {
                return None;
            }
            Mutation::ReadOnlyIsUsage
                if others.any(|c| c.node == request.node && c.read_only != request.read_only) =>
            {
                return None;
            }
            _ => {}
        }
        for (key, claim) in &mut record.claims {
            let ignored = self.broken == Mutation::IgnoreClaims
                || self.broken == Mutation::IgnoreReleasing && !claim.is_held();
            if ignored && *key != request.key {
                claim.usage = usage.clone();
            }
        }
        if self.broken == Mutation::IgnoreElsewhere {
            record.claims.retain(|_, claim| claim.node == request.node);
        }
        if self.broken == Mutation::IgnoreOrphaned {
            let gone: BTreeSet<_> = record.tombstones.drain(..).map(|gone| gone.volume).collect();
            record.claims.retain(|_, claim| !gone.contains(&claim.volume));
        }
        if record.claims.is_empty() {
            record.modes = None;
        }
        let facts = AdmissionFacts {
            capabilities,
            is_schedulable: true,
            is_node_lost: world.facts.lost.contains(&request.node),
            node_volumes: NodeVolumes::default(),
        };
        admit(&record, request, facts).ok()
    }

    /// Records the answer of a call, if it is still the last one for its effect.
    pub(super) fn record_done(&self, world: &mut World, step: &Step, started: u64) {
        if matches!(self.broken, Mutation::StartUnrecorded | Mutation::HearTheLost) {
            force_done(&mut world.record, step);
        }
        world.commit(&done(step, started), 0);
    }

    /// The program's server waits for the end of every call, also on a node that it gave up. Servers of
    /// other policies stop listening to it.
    pub(super) fn abandon(&self, world: &mut World, node: &NodeId) {
        if self.busy == Busy::Host {
            return;
        }
        let lock = Some(Lock::Node(node.clone()));
        for call in &mut world.calls {
            if call.lock() == lock && call.phase == Phase::Awaited {
                call.phase = Phase::Abandoned;
            }
        }
    }

    /// Returns whether the host of the call lock runs this request beside the calls that run there.
    pub(super) fn host_accepts(&self, world: &World, call: &Call, lock: &Lock) -> bool {
        let mut calls = world.calls.iter();
        let is_running = calls.any(|other| {
            other.lock().as_ref() == Some(lock)
                && matches!(other.phase, Phase::Awaited | Phase::Abandoned)
        });
        let is_sweep = matches!(call.step(), Some(Step::Sweep(_)));
        let is_controller = matches!(lock, Lock::Controller(_));
        let runs = world.facts.steps_on(&call.node).unwrap_or_default();
        let checks = |broken| self.broken != broken;
        let decided = call.decided_for;
        let lacks_attachment = checks(Mutation::ObeyUnattached) && runs.attach && !decided.attach;
        let checks_stage = checks(Mutation::ObeyOldStage);
        let is_out_of_date = match call.step() {
            Some(Step::ControllerPublish(_)) => checks(Mutation::ObeyOldAttach) && !runs.attach,
            Some(Step::NodeStage(_)) => lacks_attachment || checks_stage && !runs.stage,
            Some(Step::NodePublish(_)) => {
                lacks_attachment || checks_stage && decided.stage != runs.stage
            }
            _ => false,
        };
        if is_out_of_date {
            return false;
        }
        match self.busy {
            Busy::Unchecked => true,
            Busy::Host => match self.broken {
                Mutation::NobodyBusy => true,
                Mutation::OtherInstance if is_controller => true,
                Mutation::SweepUnderway if is_sweep => true,
                _ => self.call_lock_accepts(world, call, lock, is_running),
            },
            Busy::OneInstance if is_controller => true,
            Busy::Plugin | Busy::OneInstance => {
                let is_idle_sweep = is_sweep && world.left_behind(&call.node).is_none();
                !is_running || is_idle_sweep
            }
        }
    }

    /// The host's real rule for one call lock, in the state that the world has of it.
    fn call_lock_accepts(&self, world: &World, call: &Call, key: &Lock, is_running: bool) -> bool {
        let any = HostOperation::Stage;
        let mut call_lock = VolumeCallLock::default();
        if let Some(seen) = world.seen.get(key)
            && self.broken != Mutation::ObeyOvertaken
        {
            call_lock.admit(Some((Term::default(), *seen)), any).unwrap();
            call_lock.end();
        }
        if is_running {
            call_lock.admit(None, any).unwrap();
        }
        call_lock.admit(Some((Term::default(), call.order)), any).is_ok()
    }
}

/// Writes the end of a step down without asking whether it is still open.
fn force_done(record: &mut Claims, step: &Step) {
    if let Some(Effect::Published(key)) = step.effect()
        && let Some(claim) = record.claims.get_mut(&key)
    {
        claim.published = if step.is_setup() { Known::Yes } else { Known::No };
    }
}

fn with_attachments(record: &Claims, maybe: Option<Known>) -> Claims {
    let mut record = record.clone();
    for attachment in record.attachments.values_mut() {
        if attachment.state == Known::Maybe {
            attachment.state = maybe.unwrap_or(Known::No);
        }
    }
    record
}

fn with_stagings(record: &Claims, maybe: Option<Known>) -> Claims {
    let mut record = record.clone();
    for staging in record.stagings.values_mut() {
        if staging.state == Known::Maybe {
            staging.state = maybe.unwrap_or(Known::No);
        }
    }
    record
}

fn with_targets(record: &Claims, intent: Intent, maybe: Known) -> Claims {
    let mut record = record.clone();
    for claim in record.claims.values_mut() {
        if claim.intent == intent && claim.published == Known::Maybe {
            claim.published = maybe;
        }
    }
    record
}

/// Staging before attachment, and detachment before unstaging.
fn swapped(record: &Claims, facts: &Facts) -> BTreeSet<Step> {
    let stages = facts.plugin.is_some_and(|plugin| plugin.stage);
    let steps = next_steps(record, facts).into_iter();
    steps
        .map(|step| match step {
            Step::ControllerPublish(node) if stages && record.staged(&node) != Known::Yes => {
                Step::NodeStage(node)
            }
            Step::NodeUnstage(node) if record.attached(&node) != Known::No => {
                Step::ControllerUnpublish(node)
            }
            other => other,
        })
        .collect()
}

/// Also drives held claims on these lost nodes.
fn driven(record: &Claims, facts: &Facts, nodes: &BTreeSet<NodeId>) -> BTreeSet<Step> {
    let mut unaware = facts.clone();
    unaware.lost.retain(|node| !nodes.contains(node));
    let setups = next_steps(record, &unaware).into_iter();
    let steps = next_steps(record, facts).into_iter();
    steps.chain(setups.filter(Step::is_setup)).collect()
}

/// Calls lost nodes instead of assuming them gone.
fn called(record: &Claims, facts: &Facts) -> BTreeSet<Step> {
    let mut unaware = facts.clone();
    unaware.lost.clear();
    let mut released = record.clone();
    for claim in released.claims.values_mut() {
        if facts.lost.contains(&claim.node) {
            claim.intent = Intent::Release;
        }
    }
    next_steps(&released, &unaware)
}

/// Decides for each claim as if only these other claims were there.
fn without_sharers(
    record: &Claims,
    facts: &Facts,
    is_seen: impl Fn(&ClaimKey, &nomad_csi_claims::claim::Claim) -> bool,
) -> BTreeSet<Step> {
    let alone = |key: &ClaimKey| {
        let mut record = record.clone();
        record.claims.retain(|other, claim| other == key || is_seen(other, claim));
        next_steps(&record, facts)
    };
    record.claims.keys().flat_map(alone).chain(next_steps(record, facts)).collect()
}

/// Releases claims on these nodes before staging and attachment are undone.
fn released_early(
    record: &Claims,
    facts: &Facts,
    is_early: impl Fn(&NodeId) -> bool,
) -> BTreeSet<Step> {
    let unpublished = |node: &NodeId| {
        let claims = record.on(node);
        let found = claims.filter(|(_, c)| {
            c.published == Known::No && (!c.is_held() || facts.lost.contains(node))
        });
        found.map(|(key, _)| key.clone()).next()
    };
    let steps = next_steps(record, facts).into_iter();
    steps
        .map(|step| match &step {
            Step::NodeUnstage(node) | Step::ControllerUnpublish(node) if is_early(node) => {
                unpublished(node).map_or(step, Step::Release)
            }
            _ => step,
        })
        .collect()
}
