//! The record of one external volume: its claims, and what each node has of it.
//!
//! Registrations of the same external volume share one record, so two of them are never granted apart
//! (W13). Facts are stored and counts computed: who shares a staging, or how many readers there are,
//! follows from the claims.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::key::ClaimKey;
use super::step::{Effect, Step};
use super::usage::ClaimUsage;
use nomad_csi_model::{
    AccessMode, AllocId, Bytes, Capability, ExternalNodeId, NamespacedId, NodeId, SealedSecrets,
};

/// The intent of the user of a claim: to hold the volume or to release it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Intent {
    /// The allocation uses the volume, or will.
    Hold,
    /// The allocation has ended, or gave the volume back.
    Release,
}

/// The recorded state of one effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Known {
    /// It certainly does not exist.
    #[default]
    No,
    /// A call was started, and its end was not recorded.
    Maybe,
    /// It exists.
    Yes,
}

/// The last call that was started for an effect. A call that is repeated keeps its index, so that its
/// host can tell an old request from a new one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StartedCall {
    /// The index of the event that recorded the start.
    pub index: u64,
    /// True if the call makes the effect; otherwise it undoes it.
    pub is_setup: bool,
    /// The plugin's allocation that got it.
    pub instance: AllocId,
}

/// The failure of the last step for a claim or a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepProblem {
    /// The step's name.
    pub step: String,
    /// The error for people, without secrets.
    pub error: String,
    /// The remedy; `None` if the agent repeats the step by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
    /// When it was first seen, in nanoseconds since the epoch.
    pub since: i64,
    /// True if the plugin answered that the node has no room for another volume (B87). Since version 9.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exhausted: bool,
}

/// A claim: the right of an allocation to use the volume on one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The registration through which the volume was claimed.
    pub volume: NamespacedId,
    /// The node.
    pub node: NodeId,
    /// The provider's ID of the node, resolved before the claim was granted (W15, B37). `None` if the
    /// plugin attached no volumes then; it is resolved again where it attaches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_node: Option<ExternalNodeId>,
    /// The usage that staging and attachment are made for.
    pub usage: ClaimUsage,
    /// True if the target refuses writes.
    pub read_only: bool,
    /// The intent of the allocation.
    pub intent: Intent,
    /// The state of the publication for this claim.
    #[serde(default)]
    pub published: Known,
    /// The last call that publishes or unpublishes; `None` before the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<StartedCall>,
    /// The volume context that its NodePublishVolume sends, while the target is possible; `None` if an
    /// earlier version started the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_context: Option<BTreeMap<String, String>>,
    /// The target path on the node, once it is published.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<PathBuf>,
    /// When the claim was granted, in nanoseconds since the epoch.
    pub granted_at: i64,
    /// The failure of its last step, until a step succeeds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<StepProblem>,
}

/// The staging of the volume on one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Staging {
    /// The registration whose name the staging path contains.
    pub volume: NamespacedId,
    /// The usage that it was made for.
    pub usage: ClaimUsage,
    /// Its state; never [`Known::No`].
    pub state: Known,
    /// The volume context that NodeStageVolume sends; `None` if an earlier version started the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_context: Option<BTreeMap<String, String>>,
    /// The last call that makes or undoes it.
    pub call: StartedCall,
}

/// The claim and the usage that ControllerPublishVolume is called for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AttachedFor {
    /// The registration of the claim that the call was made for.
    pub volume: NamespacedId,
    /// Its modes and mount options.
    pub usage: ClaimUsage,
    /// True if the call asks for a read-only attachment.
    pub read_only: bool,
}

/// The attachment of the volume to one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attachment {
    /// The provider's ID of the node.
    pub external_node: ExternalNodeId,
    /// Its state; never [`Known::No`].
    pub state: Known,
    /// The publish context from the controller, opaque; sent to the node again after a reboot (W60). Each value
    /// is sealed, except of an earlier version.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub context: BTreeMap<String, String>,
    /// The claim and the usage that ControllerPublishVolume is called for; `None` if an earlier version started the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made_for: Option<Box<AttachedFor>>,
    /// The volume context that ControllerPublishVolume sends; `None` if an earlier version started the
    /// call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_context: Option<BTreeMap<String, String>>,
    /// The last call that makes or undoes it.
    pub call: StartedCall,
}

/// The second half of an expansion: nodes that use the volume expand it too (W17).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeExpansion {
    /// The new size.
    pub to: Bytes,
    /// The nodes that are done.
    #[serde(default)]
    pub done: BTreeSet<NodeId>,
    /// The last call on each node.
    #[serde(default)]
    pub calls: BTreeMap<NodeId, StartedCall>,
}

/// The inputs of the undo of a volume that was deregistered by force (W59).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tombstone {
    /// The registration that is gone.
    pub volume: NamespacedId,
    /// Its sealed secrets.
    pub secrets: SealedSecrets,
    /// When it was deregistered, in nanoseconds since the epoch.
    pub since: i64,
}

/// The record of one external volume. A missing staging or attachment is [`Known::No`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claims {
    /// The claims, as a list of pairs in JSON.
    #[serde(with = "pairs")]
    pub claims: BTreeMap<ClaimKey, Claim>,
    /// The staging on each node.
    #[serde(default)]
    pub stagings: BTreeMap<NodeId, Staging>,
    /// The attachment to each node.
    #[serde(default)]
    pub attachments: BTreeMap<NodeId, Attachment>,
    /// The modes of the first claim, until the last one is gone (B14).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modes: Option<Capability>,
    /// The expansion that nodes still have to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expansion: Option<NodeExpansion>,
    /// The registrations that were removed by force, while claims through them are left. Earlier versions
    /// kept one.
    #[serde(
        default,
        alias = "tombstone",
        deserialize_with = "one_or_many::deserialize",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub tombstones: Vec<Tombstone>,
}

/// The state of a claim for people, as `volume claims` shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClaimProgress {
    /// Granted, not published yet.
    Publishing,
    /// Published: the target path can be used.
    Published,
    /// Released, and the target still exists or may exist.
    Unpublishing,
    /// Released and unpublished; staging or attachment may still exist.
    Detaching,
}

impl ClaimProgress {
    /// Returns the name, as in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Publishing => "publishing",
            Self::Published => "published",
            Self::Unpublishing => "unpublishing",
            Self::Detaching => "detaching",
        }
    }
}

impl Claim {
    /// Returns the state for people.
    pub fn progress(&self) -> ClaimProgress {
        match (self.intent, self.published) {
            (Intent::Hold, Known::Yes) => ClaimProgress::Published,
            (Intent::Hold, Known::No | Known::Maybe) => ClaimProgress::Publishing,
            (Intent::Release, Known::Yes | Known::Maybe) => ClaimProgress::Unpublishing,
            (Intent::Release, Known::No) => ClaimProgress::Detaching,
        }
    }

    /// Returns whether the claim may read or write from now on instead: it is held, and nothing was published for it, so no
    /// task uses it and no call for it is under way.
    pub fn can_change_access(&self) -> bool {
        self.is_held() && self.published == Known::No
    }

    /// Returns since when the node has had no room for the volume, in nanoseconds since the epoch (B87).
    pub fn exhausted_since(&self) -> Option<i64> {
        let problem = self.problem.as_ref();
        let exhausted = problem.filter(|problem| problem.exhausted);
        exhausted.map(|problem| problem.since)
    }

    /// Returns whether the claim wants the volume.
    pub fn is_held(&self) -> bool {
        self.intent == Intent::Hold
    }
}

impl Claims {
    /// Returns whether nothing is recorded.
    pub fn is_empty(&self) -> bool {
        self.claims.is_empty()
            && self.stagings.is_empty()
            && self.attachments.is_empty()
            && self.expansion.is_none()
    }

    /// Returns the claims on a node.
    pub fn on(&self, node: &NodeId) -> impl Iterator<Item = (&ClaimKey, &Claim)> {
        self.claims.iter().filter(move |(_, claim)| claim.node == *node)
    }

    /// Returns the claims through one registration.
    pub fn through(&self, volume: &NamespacedId) -> impl Iterator<Item = (&ClaimKey, &Claim)> {
        self.claims.iter().filter(move |(_, claim)| claim.volume == *volume)
    }

    /// Returns what is left of a registration that was removed by force.
    pub fn tombstone(&self, volume: &NamespacedId) -> Option<&Tombstone> {
        self.tombstones.iter().find(|gone| gone.volume == *volume)
    }

    /// Returns the claim on a node that a call for the whole node is for: one that is held, if there is any.
    pub fn claim_for(&self, node: &NodeId) -> Option<(&ClaimKey, &Claim)> {
        self.on(node).max_by_key(|(_, claim)| claim.is_held())
    }

    /// Returns the registration through which a step calls the plugin: that of the effect if it exists or
    /// may, else that of the claim that the step is for.
    pub fn registration(&self, step: &Step) -> Option<&NamespacedId> {
        let of_claim = |node: &NodeId| self.claim_for(node).map(|(_, claim)| &claim.volume);
        match step {
            Step::ControllerPublish(node) | Step::ControllerUnpublish(node) => {
                let attachment = self.attachments.get(node);
                let made_for = attachment.and_then(|attachment| attachment.made_for.as_ref());
                made_for.map(|made_for| &made_for.volume).or_else(|| of_claim(node))
            }
            Step::NodeStage(node) | Step::NodeUnstage(node) => {
                let staging = self.stagings.get(node);
                staging.map(|staging| &staging.volume).or_else(|| of_claim(node))
            }
            Step::NodePublish(key) | Step::NodeUnpublish(key) | Step::Release(key) => {
                self.claims.get(key).map(|claim| &claim.volume)
            }
            Step::NodeExpand(node) | Step::AssumeNodeGone(node) | Step::Sweep(node) => {
                of_claim(node)
            }
        }
    }

    /// Returns what is known about an effect.
    pub fn known(&self, effect: &Effect) -> Known {
        match effect {
            Effect::Attached(node) => self.attached(node),
            Effect::Staged(node) => self.staged(node),
            Effect::Published(key) => self.claims.get(key).map_or(Known::No, |c| c.published),
        }
    }

    /// Returns the last call that was started for the step's effect.
    pub fn call(&self, step: &Step) -> Option<&StartedCall> {
        match step {
            Step::ControllerPublish(node) | Step::ControllerUnpublish(node) => {
                self.attachments.get(node).map(|attachment| &attachment.call)
            }
            Step::NodeStage(node) | Step::NodeUnstage(node) => {
                self.stagings.get(node).map(|staging| &staging.call)
            }
            Step::NodePublish(key) | Step::NodeUnpublish(key) => {
                self.claims.get(key).and_then(|claim| claim.call.as_ref())
            }
            Step::NodeExpand(node) => self.expansion.as_ref()?.calls.get(node),
            Step::AssumeNodeGone(_) | Step::Sweep(_) | Step::Release(_) => None,
        }
    }

    /// Returns a call on the node whose effect is possible, if there is one.
    pub fn open_call(&self, node: &NodeId) -> Option<&StartedCall> {
        let staging = self.stagings.get(node);
        let staged = staging.filter(|staging| staging.state == Known::Maybe);
        let targets = self.on(node).map(|(_, claim)| claim);
        let open = targets.filter(|claim| claim.published == Known::Maybe);
        open.filter_map(|claim| claim.call.as_ref())
            .chain(staged.map(|staging| &staging.call))
            .next()
    }

    /// Returns whether the volume is attached to the node.
    pub fn attached(&self, node: &NodeId) -> Known {
        self.attachments.get(node).map_or(Known::No, |attachment| attachment.state)
    }

    /// Returns whether the volume is staged on the node.
    pub fn staged(&self, node: &NodeId) -> Known {
        self.stagings.get(node).map_or(Known::No, |staging| staging.state)
    }

    /// Returns all nodes that have claims, or anything of the volume.
    pub fn nodes(&self) -> BTreeSet<&NodeId> {
        let claims = self.claims.values().map(|claim| &claim.node);
        claims.chain(self.stagings.keys()).chain(self.attachments.keys()).collect()
    }

    /// Returns the access mode in force: that of the first claim.
    pub fn access_mode(&self) -> Option<AccessMode> {
        self.modes.map(|modes| modes.access_mode)
    }
}

/// A list, which earlier versions wrote as one value.
mod one_or_many {
    use serde::{Deserialize, Deserializer};

    use super::Tombstone;

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum OneOrMany {
        Many(Vec<Tombstone>),
        One(Box<Tombstone>),
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<Tombstone>, D::Error> {
        Ok(match OneOrMany::deserialize(deserializer)? {
            OneOrMany::Many(tombstones) => tombstones,
            OneOrMany::One(tombstone) => vec![*tombstone],
        })
    }
}

/// A map as a list of pairs, because JSON keys are strings.
mod pairs {
    use std::collections::BTreeMap;

    use serde::{Deserialize as _, Deserializer, Serializer};

    use super::{Claim, ClaimKey};

    pub(super) fn serialize<S: Serializer>(
        claims: &BTreeMap<ClaimKey, Claim>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(claims)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<BTreeMap<ClaimKey, Claim>, D::Error> {
        let pairs = Vec::<(ClaimKey, Claim)>::deserialize(deserializer)?;
        Ok(pairs.into_iter().collect())
    }
}
