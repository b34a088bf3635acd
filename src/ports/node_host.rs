//! A node as the server sees it: the calls of one volume on one machine.
//!
//! The calls of one volume on a node share a call lock. The host runs one of them at a time and refuses every
//! other at once ([`HostError::Busy`]), also one that was decided before a request it has seen
//! ([`HostError::Overtaken`]) or that was made for an earlier run of the host
//! ([`HostError::OtherSession`]).
//!
//! Dropping a future of these methods cancels nothing. The host runs the call to its end, and a
//! caller that still waits gets the late answer. A call lock is free again when the plugin has answered or its process
//! is gone; no time limit frees it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use async_trait::async_trait;

use super::host_error::HostError;
use nomad_csi_model::{
    AllocId, Bytes, CapacityRange, HostSession, NamespacedId, PublishContext, RemoteVolume,
    Secrets, TargetPath, Term, Usage, VolumeAlias, VolumeStats,
};

/// The order of a request under its call lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallOrder {
    /// The leadership of the server that sends it. A host obeys no earlier one than the highest that it knows
    /// ([`HostError::OldTerm`]; rule 11 of the claims machine).
    pub term: Term,
    /// The server's number of the request in its term. A repeated request has a new one.
    pub number: u64,
    /// The run of the host that the request is meant for, as it is on record (rule 12 of the claims machine).
    pub session: HostSession,
    /// The allocation whose plugin is called; no other is.
    pub instance: AllocId,
}

/// Stage a volume. Succeeds if it is staged already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageRequest {
    /// The volume.
    pub volume: RemoteVolume,
    /// Its registration, for events.
    pub name: NamespacedId,
    /// How the volume is used.
    pub usage: Usage,
    /// True if it was decided for a plugin that attaches volumes.
    pub attaches: bool,
    /// The answer of ControllerPublishVolume; empty without one.
    pub publish_context: PublishContext,
    /// The volume context.
    pub volume_context: BTreeMap<String, String>,
    /// The provider's secrets.
    pub secrets: Secrets,
}

/// Publish a volume for one allocation. Succeeds if it is published already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishRequest {
    /// The volume.
    pub volume: RemoteVolume,
    /// Its registration, for events.
    pub name: NamespacedId,
    /// The allocation.
    pub alloc: AllocId,
    /// The allocation's name of the volume.
    pub alias: VolumeAlias,
    /// How the volume is used.
    pub usage: Usage,
    /// True if it was decided for a plugin that attaches volumes.
    pub attaches: bool,
    /// True if it was decided for an instance that stages volumes.
    pub stages: bool,
    /// True if the target refuses writes.
    pub read_only: bool,
    /// The answer of ControllerPublishVolume; empty without one.
    pub publish_context: PublishContext,
    /// The volume context.
    pub volume_context: BTreeMap<String, String>,
    /// The provider's secrets.
    pub secrets: Secrets,
}

/// Undo a publish. Succeeds if nothing is published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnpublishRequest {
    /// The volume.
    pub volume: RemoteVolume,
    /// Its registration, for events.
    pub name: NamespacedId,
    /// The allocation.
    pub alloc: AllocId,
    /// The allocation's name of the volume.
    pub alias: VolumeAlias,
}

/// Undo a staging. Succeeds if the volume is not staged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnstageRequest {
    /// The volume.
    pub volume: RemoteVolume,
    /// Its registration, for events.
    pub name: NamespacedId,
}

/// Grow the file system or the device that a node sees of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeExpandRequest {
    /// The volume.
    pub volume: RemoteVolume,
    /// Its registration, for events.
    pub name: NamespacedId,
    /// How the volume is used.
    pub usage: Usage,
    /// The new size.
    pub capacity: CapacityRange,
    /// A target at which it is published; required if the plugin does not stage volumes.
    pub target: Option<(AllocId, VolumeAlias)>,
    /// The provider's secrets.
    pub secrets: Secrets,
}

/// Read the statistics of a published volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatsRequest {
    /// The volume.
    pub volume: RemoteVolume,
    /// The path on the host at which it is published, as it was recorded.
    pub target: PathBuf,
    /// True if it is staged.
    pub is_staged: bool,
}

/// The result of a sweep of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SweepOutcome {
    /// The node has nothing of the volume.
    NothingLeft,
    /// Something was undone. Ask again, until nothing is left.
    UndidSomething,
}

/// One node.
#[async_trait]
pub trait NodeHost: Send + Sync {
    /// Stages a volume.
    async fn stage(&self, order: CallOrder, request: StageRequest) -> Result<(), HostError>;

    /// Publishes a volume, and returns the path on the host.
    async fn publish(
        &self,
        order: CallOrder,
        request: PublishRequest,
    ) -> Result<TargetPath, HostError>;

    /// Undoes a publish.
    async fn unpublish(&self, order: CallOrder, request: UnpublishRequest)
    -> Result<(), HostError>;

    /// Undoes a staging. Refused while a target of the volume is there.
    async fn unstage(&self, order: CallOrder, request: UnstageRequest) -> Result<(), HostError>;

    /// Grows what the node sees of a volume, and returns the size; zero if the plugin does not report
    /// it.
    async fn expand(
        &self,
        order: CallOrder,
        request: NodeExpandRequest,
    ) -> Result<Bytes, HostError>;

    /// Returns the volumes of which the node still has a mount or a directory, or runs a call: it may
    /// still take effect (rule 7 of the claims machine). The asking server is of this term, and none of an earlier one is
    /// obeyed any more.
    async fn left_behind(&self, term: Term) -> Result<Vec<RemoteVolume>, HostError>;

    /// Asks this instance of the plugin how much the volume has of bytes and inodes.
    ///
    /// It takes no call lock, so it delays nothing. It is refused while a call under the call lock runs, and it can be cancelled: it
    /// changes nothing.
    async fn stats(
        &self,
        instance: &AllocId,
        request: StatsRequest,
    ) -> Result<VolumeStats, HostError>;

    /// Returns the directories of files that were written beside the volume, and are kept.
    async fn kept_files(&self, volume: &RemoteVolume) -> Result<Vec<PathBuf>, HostError>;

    /// Undoes whatever the node has of a volume, targets before the staging. An error does not tell
    /// what was undone before it.
    async fn sweep(
        &self,
        order: CallOrder,
        volume: RemoteVolume,
    ) -> Result<SweepOutcome, HostError>;
}
