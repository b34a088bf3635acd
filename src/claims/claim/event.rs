//! [`ClaimEvent`]: the only way to change the record of a volume's claims.
//!
//! Events are facts in the past participle. An event that does not fit the record is refused before it
//! is committed, so the record never says more than what happened. The end of a step names the index of
//! its start: an answer that arrives after a later step on the same effect, or after its node was
//! assumed gone, is not recorded (rules 2 and 6 of the claims machine).

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::key::ClaimKey;
use super::record::{
    AttachedFor, Attachment, Claim, Claims, Intent, Known, NodeExpansion, Staging, StartedCall,
    StepProblem, Tombstone,
};
use super::step::Step;
use nomad_csi_model::{AllocId, Bytes, ExternalNodeId, NamespacedId, NodeId};

/// A change of the record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ClaimEvent {
    /// A claim was granted.
    Granted {
        /// The key.
        key: ClaimKey,
        /// The claim.
        claim: Box<Claim>,
    },
    /// The claim no longer needs the volume.
    ReleaseRequested {
        /// The key.
        key: ClaimKey,
        /// The reason, for people.
        reason: String,
    },
    /// A step will call a plugin; recorded before the call is sent.
    StepStarted {
        /// The step.
        step: Step,
        /// The plugin's allocation that gets the call (rule 4 of the claims machine).
        instance: AllocId,
        /// The inputs of the call that were not on record before; events before version 8 do not say it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        inputs: Option<Box<SetupInputs>>,
    },
    /// The call of a step succeeded.
    StepDone {
        /// The step.
        step: Step,
        /// The index of the event that started it.
        started: u64,
        /// The answer.
        #[serde(default)]
        answer: StepAnswer,
    },
    /// The call of a step failed; its effect stays possible. Recorded only if the error is new.
    StepFailed {
        /// The step.
        step: Step,
        /// The error for people.
        error: String,
        /// The remedy; `None` if the agent repeats the step by itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        help: Option<String>,
        /// True if the plugin answered RESOURCE_EXHAUSTED to a call that makes an effect: the node has no room.
        /// Since version 8.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        exhausted: bool,
    },
    /// The claim, which has nothing on its node yet, reads or writes from now on (B88). Since version 8.
    AccessChanged {
        /// The key.
        key: ClaimKey,
        /// True if the allocation only reads.
        read_only: bool,
    },
    /// The record of a volume's effects on a lost node is given up.
    NodeAssumedGone {
        /// The node.
        node: NodeId,
    },
    /// A node rebooted: what is staged and published there may be gone.
    NodeRebooted {
        /// The node.
        node: NodeId,
    },
    /// Mounts vanished from a node: what is staged or published there is in doubt.
    MountsLost {
        /// The node.
        node: NodeId,
        /// The claims whose targets are gone.
        #[serde(default)]
        targets: BTreeSet<ClaimKey>,
        /// True if the staging is gone.
        #[serde(default)]
        staging: bool,
        /// A description of what was found instead, for people.
        reason: String,
    },
    /// Nothing is left of a claim, and it is removed.
    Released {
        /// The key.
        key: ClaimKey,
    },
    /// The provider expanded the volume, and nodes that use it must expand it too.
    ExpansionRequired {
        /// The new size.
        to: Bytes,
    },
    /// A registration was removed by force, and its claims are released.
    Orphaned {
        /// The inputs of the undo.
        tombstone: Box<Tombstone>,
        /// The registration whose claims are released. An event before version 8 names none, and releases
        /// the claims of all registrations.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        registration: Option<NamespacedId>,
    },
}

/// The content of a call that makes an effect, besides its claim. It stays on record while the effect is
/// possible, so that a repeated call sends the same (rule 13 of the claims machine).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetupInputs {
    /// The volume context of the registration.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub volume_context: BTreeMap<String, String>,
    /// The provider's ID of the node, for an attachment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_node: Option<ExternalNodeId>,
    /// True if the plugin attaches volumes read-only (PUBLISH_READONLY), for an attachment.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub attaches_read_only: bool,
}

/// The answer to a step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepAnswer {
    /// The publish context of ControllerPublishVolume.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub context: BTreeMap<String, String>,
    /// The target path of NodePublishVolume on the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<PathBuf>,
}

/// Index and time of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventPlace {
    /// The index in the journal.
    pub index: u64,
    /// The time in nanoseconds since the epoch.
    pub time: i64,
}

impl ClaimEvent {
    /// Returns the event's name for logs and errors.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Granted { .. } => "claim granted",
            Self::ReleaseRequested { .. } => "claim release requested",
            Self::StepStarted { .. } => "claim step started",
            Self::StepDone { .. } => "claim step done",
            Self::StepFailed { .. } => "claim step failed",
            Self::AccessChanged { .. } => "claim access changed",
            Self::NodeAssumedGone { .. } => "lost node given up",
            Self::NodeRebooted { .. } => "node rebooted",
            Self::MountsLost { .. } => "mounts lost",
            Self::Released { .. } => "claim released",
            Self::ExpansionRequired { .. } => "expansion on nodes required",
            Self::Orphaned { .. } => "claims orphaned",
        }
    }
}

/// Returns whether the event fits the record. It says nothing about whether the step is due, which
/// [`next_steps`](super::next::next_steps) decides before an event is committed.
pub fn is_valid(record: &Claims, event: &ClaimEvent) -> bool {
    match event {
        ClaimEvent::Granted { key, claim } => {
            !record.claims.contains_key(key) && record.tombstone(&claim.volume).is_none()
        }
        ClaimEvent::ReleaseRequested { key, .. } => {
            record.claims.get(key).is_some_and(Claim::is_held)
        }
        ClaimEvent::AccessChanged { key, read_only } => {
            let claim = record.claims.get(key);
            claim.is_some_and(|claim| claim.can_change_access() && claim.read_only != *read_only)
        }
        ClaimEvent::StepStarted { step, inputs, .. } => can_start(record, step, inputs.as_deref()),
        ClaimEvent::StepDone { step, started, .. } => is_open(record, step, *started),
        ClaimEvent::StepFailed { step, .. } => {
            let mut claims = record.claims.iter();
            claims.any(|(key, claim)| affects(step, key, claim))
        }
        ClaimEvent::NodeAssumedGone { .. }
        | ClaimEvent::NodeRebooted { .. }
        | ClaimEvent::ExpansionRequired { .. } => true,
        ClaimEvent::MountsLost { node, targets, staging, .. } => {
            relies_on(record, node, targets, *staging)
        }
        ClaimEvent::Released { key } => is_releasable(record, key),
        ClaimEvent::Orphaned { tombstone, registration } => {
            let registration = registration.as_ref();
            registration.is_none_or(|registration| *registration == tombstone.volume)
        }
    }
}

/// Returns whether nothing is left of a claim: no target, and, if it is the last one on its node, neither staging
/// nor attachment, which no claim would undo.
fn is_releasable(record: &Claims, key: &ClaimKey) -> bool {
    let Some(claim) = record.claims.get(key) else {
        return false;
    };
    let is_last = record.on(&claim.node).count() == 1;
    let is_used =
        record.stagings.contains_key(&claim.node) || record.attachments.contains_key(&claim.node);
    claim.published == Known::No && !(is_last && is_used)
}

/// Returns whether the record has what the step works on.
fn can_start(record: &Claims, step: &Step, inputs: Option<&SetupInputs>) -> bool {
    match step {
        Step::ControllerPublish(node) => {
            let has_claim = record.claim_for(node).is_some();
            has_claim && external_node(record, node, inputs).is_some()
        }
        Step::NodeStage(node) => record.on(node).next().is_some(),
        Step::NodePublish(key) | Step::NodeUnpublish(key) => record.claims.contains_key(key),
        Step::NodeExpand(_) => record.expansion.is_some(),
        Step::NodeUnstage(node) => record.stagings.contains_key(node),
        Step::ControllerUnpublish(node) => record.attachments.contains_key(node),
        Step::AssumeNodeGone(_) | Step::Sweep(_) | Step::Release(_) => false,
    }
}

/// Returns whether the call that was started at this index is the last one for its effect, and has no recorded
/// end.
fn is_open(record: &Claims, step: &Step, started: u64) -> bool {
    let is_last = record
        .call(step)
        .is_some_and(|call| call.index == started && call.is_setup == step.is_setup());
    let has_no_end = step.effect().is_none_or(|effect| record.known(&effect) == Known::Maybe);
    is_last && has_no_end
}

/// Performs the event. An event that does not fit changes nothing.
pub fn apply(record: &mut Claims, event: &ClaimEvent, at: EventPlace) {
    if !is_valid(record, event) {
        return;
    }
    match event {
        ClaimEvent::Granted { key, claim } => {
            record.modes.get_or_insert(claim.usage.capability);
            record.claims.insert(key.clone(), Claim::clone(claim));
        }
        ClaimEvent::ReleaseRequested { key, .. } => {
            if let Some(claim) = record.claims.get_mut(key) {
                claim.intent = Intent::Release;
            }
        }
        ClaimEvent::StepStarted { step, instance, inputs } => {
            start(record, step, instance, inputs.as_deref(), at);
        }
        ClaimEvent::StepDone { step, answer, .. } => finish(record, step, answer),
        ClaimEvent::StepFailed { step, error, help, exhausted } => {
            let problem = StepProblem {
                step: step.name().to_owned(),
                error: error.clone(),
                help: help.clone(),
                since: at.time,
                exhausted: *exhausted,
            };
            fail(record, step, &problem);
        }
        ClaimEvent::AccessChanged { key, read_only } => {
            if let Some(claim) = record.claims.get_mut(key) {
                claim.read_only = *read_only;
            }
        }
        ClaimEvent::NodeAssumedGone { node } => {
            record.stagings.remove(node);
            for claim in claims_on(record, node) {
                claim.published = Known::No;
                claim.target = None;
                claim.volume_context = None;
                claim.problem = None;
            }
        }
        ClaimEvent::NodeRebooted { node } => mark_unknown(record, node),
        ClaimEvent::MountsLost { node, targets, staging, reason } => {
            lose(record, (node, targets, *staging), reason, at);
        }
        ClaimEvent::Released { key } => {
            record.claims.remove(key);
        }
        ClaimEvent::ExpansionRequired { to } => {
            record.expansion =
                Some(NodeExpansion { to: *to, done: BTreeSet::new(), calls: BTreeMap::new() });
        }
        ClaimEvent::Orphaned { tombstone, registration } => {
            orphan(record, registration.as_ref(), tombstone);
        }
    }
    forget_ended(record);
}

/// Releases the claims of a registration that is gone, and of no other: what they share with the others
/// stays until the last one goes (rule 14).
fn orphan(record: &mut Claims, registration: Option<&NamespacedId>, tombstone: &Tombstone) {
    for claim in record.claims.values_mut() {
        if registration.is_none_or(|registration| claim.volume == *registration) {
            claim.intent = Intent::Release;
        }
    }
    record.tombstones.retain(|earlier| earlier.volume != tombstone.volume);
    record.tombstones.push(Tombstone::clone(tombstone));
    if !record.claims.values().any(Claim::is_held) {
        record.expansion = None;
    }
}

/// Removes what only holds while there are claims, and an expansion that every node with the volume has
/// done: nodes that stage it later find the new size.
fn forget_ended(record: &mut Claims) {
    if let Some(NodeExpansion { done, .. }) = &record.expansion {
        let has_target = |claim: &&Claim| claim.published != Known::No;
        let mut using = record.claims.values().filter(has_target);
        if !done.is_empty() && using.all(|claim| done.contains(&claim.node)) {
            record.expansion = None;
        }
    }
    if record.claims.is_empty() {
        record.modes = None;
    }
    let claims = &record.claims;
    let has_claims = |gone: &Tombstone| claims.values().any(|claim| claim.volume == gone.volume);
    record.tombstones.retain(has_claims);
}

fn claims_on<'a>(record: &'a mut Claims, node: &'a NodeId) -> impl Iterator<Item = &'a mut Claim> {
    record.claims.values_mut().filter(move |claim| claim.node == *node)
}

/// Returns the provider's ID of the node under which the volume is or may be attached. Once it is on
/// record it stays, also if the node has another one now (B37).
fn external_node(
    record: &Claims,
    node: &NodeId,
    inputs: Option<&SetupInputs>,
) -> Option<ExternalNodeId> {
    if let Some(attachment) = record.attachments.get(node) {
        return Some(attachment.external_node.clone());
    }
    let resolved = inputs.and_then(|inputs| inputs.external_node.clone());
    resolved.or_else(|| record.claim_for(node)?.1.external_node.clone())
}

/// Records that a call will be sent: from now on its effect is possible. What it sends is recorded when
/// the effect becomes possible, and stays.
fn start(
    record: &mut Claims,
    step: &Step,
    instance: &AllocId,
    inputs: Option<&SetupInputs>,
    at: EventPlace,
) {
    let call =
        StartedCall { index: at.index, is_setup: step.is_setup(), instance: instance.clone() };
    let context = || inputs.map(|inputs| inputs.volume_context.clone());
    match step {
        Step::ControllerPublish(node) | Step::ControllerUnpublish(node) => {
            let made_for = attached_for(record, node, inputs);
            if let Some(attachment) = record.attachments.get_mut(node) {
                attachment.state = Known::Maybe;
                attachment.call = call;
                if step.is_setup() && attachment.made_for.is_none() {
                    attachment.made_for = made_for;
                }
                keep_first(&mut attachment.volume_context, context());
            } else if let Some(external_node) = external_node(record, node, inputs) {
                let attachment = Attachment {
                    external_node,
                    state: Known::Maybe,
                    context: BTreeMap::new(),
                    made_for,
                    volume_context: context(),
                    call,
                };
                record.attachments.insert(node.clone(), attachment);
            }
        }
        Step::NodeStage(node) | Step::NodeUnstage(node) => {
            if let Some(staging) = record.stagings.get_mut(node) {
                staging.state = Known::Maybe;
                staging.call = call;
                keep_first(&mut staging.volume_context, context());
            } else if let Some((_, claim)) = record.claim_for(node) {
                let staging = Staging {
                    volume: claim.volume.clone(),
                    usage: claim.usage.clone(),
                    state: Known::Maybe,
                    volume_context: context(),
                    call,
                };
                record.stagings.insert(node.clone(), staging);
            }
        }
        Step::NodePublish(key) | Step::NodeUnpublish(key) => {
            if let Some(claim) = record.claims.get_mut(key) {
                claim.published = Known::Maybe;
                claim.call = Some(call);
                keep_first(&mut claim.volume_context, context());
            }
        }
        Step::NodeExpand(node) => {
            if let Some(expansion) = &mut record.expansion {
                expansion.calls.insert(node.clone(), call);
            }
        }
        Step::AssumeNodeGone(_) | Step::Sweep(_) | Step::Release(_) => {}
    }
}

/// Returns what was sent first is sent again.
fn keep_first<T>(recorded: &mut Option<T>, sent: Option<T>) {
    if recorded.is_none() {
        *recorded = sent;
    }
}

/// Returns what an attachment that starts now is made for. It is read-only if the access mode in force, or its
/// own, has only readers; never because its first claim only reads.
fn attached_for(
    record: &Claims,
    node: &NodeId,
    inputs: Option<&SetupInputs>,
) -> Option<Box<AttachedFor>> {
    let attaches_read_only = inputs?.attaches_read_only;
    let (_, claim) = record.claim_for(node)?;
    let own = claim.usage.capability.access_mode;
    let mut modes = record.access_mode().into_iter().chain([own]);
    Some(Box::new(AttachedFor {
        volume: claim.volume.clone(),
        usage: claim.usage.clone(),
        read_only: attaches_read_only && modes.any(|mode| !mode.allows_writes()),
    }))
}

/// Records that a call has succeeded.
fn finish(record: &mut Claims, step: &Step, answer: &StepAnswer) {
    match step {
        Step::ControllerPublish(node) => {
            if let Some(attachment) = record.attachments.get_mut(node) {
                attachment.state = Known::Yes;
                attachment.context.clone_from(&answer.context);
            }
        }
        Step::ControllerUnpublish(node) => {
            record.attachments.remove(node);
        }
        Step::NodeStage(node) => {
            if let Some(staging) = record.stagings.get_mut(node) {
                staging.state = Known::Yes;
            }
        }
        Step::NodeUnstage(node) => {
            record.stagings.remove(node);
        }
        Step::NodePublish(key) => {
            if let Some(claim) = record.claims.get_mut(key) {
                claim.published = Known::Yes;
                claim.target.clone_from(&answer.target);
            }
        }
        Step::NodeUnpublish(key) => {
            if let Some(claim) = record.claims.get_mut(key) {
                claim.published = Known::No;
                claim.target = None;
                claim.volume_context = None;
            }
        }
        Step::NodeExpand(node) => {
            if let Some(expansion) = &mut record.expansion {
                expansion.done.insert(node.clone());
            }
        }
        Step::AssumeNodeGone(_) | Step::Sweep(_) | Step::Release(_) => {}
    }
    for claim in concerned(record, step) {
        claim.problem = None;
    }
}

/// Records the error of a step at the claims that wait for it. The same error keeps its time.
fn fail(record: &mut Claims, step: &Step, problem: &StepProblem) {
    for claim in concerned(record, step) {
        if !has_problem(claim, step, &problem.error) {
            claim.problem = Some(problem.clone());
        }
    }
}

fn has_problem(claim: &Claim, step: &Step, error: &str) -> bool {
    let problem = claim.problem.as_ref();
    problem.is_some_and(|problem| problem.error == error && problem.step == step.name())
}

/// Returns whether this error of a step says something that the record does not say.
pub fn is_new_problem(record: &Claims, step: &Step, error: &str) -> bool {
    let mut claims = record.claims.iter();
    claims.any(|(key, claim)| affects(step, key, claim) && !has_problem(claim, step, error))
}

/// Returns the claims that wait for the step.
fn concerned<'a>(record: &'a mut Claims, step: &'a Step) -> impl Iterator<Item = &'a mut Claim> {
    let claims = record.claims.iter_mut();
    let concerned = claims.filter(move |(key, claim)| affects(step, key, claim));
    concerned.map(|(_, claim)| claim)
}

/// Returns whether a claim waits for the step, if the step is due.
pub fn affects(step: &Step, key: &ClaimKey, claim: &Claim) -> bool {
    match step {
        Step::NodePublish(one) | Step::NodeUnpublish(one) | Step::Release(one) => key == one,
        Step::ControllerPublish(node)
        | Step::NodeStage(node)
        | Step::NodeExpand(node)
        | Step::NodeUnstage(node)
        | Step::ControllerUnpublish(node)
        | Step::AssumeNodeGone(node)
        | Step::Sweep(node) => claim.node == *node,
    }
}

/// Returns whether the record takes one of these mounts for there.
fn relies_on(record: &Claims, node: &NodeId, targets: &BTreeSet<ClaimKey>, staging: bool) -> bool {
    let is_published =
        |(key, claim): (&ClaimKey, &Claim)| claim.published == Known::Yes && targets.contains(key);
    let is_staged = staging && record.staged(node) == Known::Yes;
    is_staged || record.on(node).any(is_published)
}

/// Returns what vanished is in doubt, and not gone: a plugin may have more than its mount (rule 17). The same idempotent calls
/// make it again, and a release undoes it.
fn lose(
    record: &mut Claims,
    (node, targets, staging): (&NodeId, &BTreeSet<ClaimKey>, bool),
    reason: &str,
    at: EventPlace,
) {
    for (key, claim) in &mut record.claims {
        let is_lost = claim.node == *node && targets.contains(key);
        if is_lost && claim.published == Known::Yes {
            claim.published = Known::Maybe;
            claim.problem = Some(StepProblem {
                // It is due again, and ends the problem.
                step: Step::NodePublish(key.clone()).name().to_owned(),
                error: reason.to_owned(),
                help: None,
                since: at.time,
                exhausted: false,
            });
        }
    }
    if let Some(found) = record.stagings.get_mut(node)
        && staging
        && found.state == Known::Yes
    {
        found.state = Known::Maybe;
    }
}

/// After a reboot, what was there may be gone (rule 10). Attachments are the controller's and stay.
fn mark_unknown(record: &mut Claims, node: &NodeId) {
    for claim in claims_on(record, node) {
        if claim.published == Known::Yes {
            claim.published = Known::Maybe;
        }
    }
    if let Some(staging) = record.stagings.get_mut(node)
        && staging.state == Known::Yes
    {
        staging.state = Known::Maybe;
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples;
    use super::*;
    use nomad_csi_model::AccessMode;

    const AT: EventPlace = EventPlace { index: 1, time: 7 };

    /// Two claims on a node, both published from one staging.
    fn published() -> Claims {
        let mut record = Claims::default();
        for alloc in ["a1", "a2"] {
            let request = samples::request(alloc, "n1", AccessMode::MultiNodeMultiWriter);
            let (key, claim) = request.granted(0);
            let claim = Box::new(claim);
            apply(&mut record, &ClaimEvent::Granted { key, claim }, AT);
        }
        let publish = |alloc| Step::NodePublish(samples::key(alloc));
        let node = NodeId::new("n1");
        for step in [Step::NodeStage(node), publish("a1"), publish("a2")] {
            let instance = AllocId::new("p");
            let started = ClaimEvent::StepStarted { step: step.clone(), instance, inputs: None };
            apply(&mut record, &started, AT);
            let done =
                ClaimEvent::StepDone { step, started: AT.index, answer: StepAnswer::default() };
            apply(&mut record, &done, AT);
        }
        record
    }

    fn lost(node: &str, targets: &[&str], staging: bool) -> ClaimEvent {
        ClaimEvent::MountsLost {
            node: node.into(),
            targets: targets.iter().map(|alloc| samples::key(alloc)).collect(),
            staging,
            reason: "nothing is mounted there".to_owned(),
        }
    }

    fn known(record: &Claims) -> [Known; 3] {
        let claim = |alloc| record.claims[&samples::key(alloc)].published;
        [record.staged(&"n1".into()), claim("a1"), claim("a2")]
    }

    /// Only the vanished effect is in doubt; the claim says what was found until it is published again.
    #[test]
    fn lost_mounts_are_in_doubt_and_their_claims_say_why() {
        use Known::{Maybe, Yes};
        for (event, expected) in [
            (lost("n1", &["a1"], false), [Yes, Maybe, Yes]),
            (lost("n1", &["a1", "a2"], true), [Maybe, Maybe, Maybe]),
            (lost("n1", &[], true), [Maybe, Yes, Yes]),
        ] {
            let mut record = published();
            assert!(is_valid(&record, &event));
            apply(&mut record, &event, AT);
            assert_eq!(known(&record), expected, "{event:?}");
            for (claim, state) in record.claims.values().zip(&expected[1..]) {
                let problem = claim.problem.as_ref().map(|problem| &*problem.error);
                let shown = (*state == Maybe).then_some("nothing is mounted there");
                assert_eq!(problem, shown);
            }
            assert!(!is_valid(&record, &event), "it is known");
        }
    }

    #[test]
    fn a_mount_that_the_record_does_not_rely_on_is_no_loss() {
        let record = published();
        for event in
            [lost("n1", &[], false), lost("n1", &["other"], false), lost("n2", &["a1"], true)]
        {
            assert!(!is_valid(&record, &event), "{event:?}");
        }
        assert!(!is_valid(&Claims::default(), &lost("n1", &["a1"], true)));
    }
}
