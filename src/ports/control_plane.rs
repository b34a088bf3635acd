//! What the node's half of the agent needs of the server's half: which allocations to run, their volumes, and a
//! place to report what became of them.
//!
//! The server decides and records; the node runs. Every call is safe to repeat, so a node that starts again asks
//! for its allocations and goes on. Volumes are mounted and unmounted by the server's steps only.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;

use nomad_csi_model::{AllocId, AllocReport, Job, PluginId, RemoteVolume, TaskGroup, VolumeAlias};

/// An allocation that the node has to run, or to stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssignedAlloc {
    /// The allocation.
    pub id: AllocId,
    /// The job as it was when the allocation was placed, with its environments and driver configurations.
    pub job: Arc<Job>,
    /// The name of the group.
    pub group: String,
    /// The index in the group, from 0.
    pub index: u32,
    /// True if its tasks must stop.
    pub wants_stop: bool,
    /// The volumes that its tasks must not use any more: what runs with one of them is killed.
    pub cut_off: BTreeSet<VolumeAlias>,
    /// The last report.
    pub report: Option<AllocReport>,
}

impl AssignedAlloc {
    /// Returns Nomad's name: `job.group[index]`.
    pub fn name(&self) -> String {
        format!("{}.{}[{}]", self.job.id, self.group, self.index)
    }

    /// Returns the group, which a recorded job has.
    pub fn task_group(&self) -> Option<&TaskGroup> {
        self.job.groups.iter().find(|group| group.name == self.group)
    }

    /// Returns the plugins that its tasks run.
    pub fn plugins(&self) -> impl Iterator<Item = &PluginId> {
        let group = self.task_group().into_iter();
        let tasks = group.flat_map(|group| &group.tasks);
        tasks.filter_map(|task| Some(&task.csi_plugin.as_ref()?.id))
    }
}

/// An allocation whose job the server cannot open. What runs of it runs on, and nothing new starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadableAlloc {
    /// The allocation.
    pub id: AllocId,
    /// True if it must stop.
    pub wants_stop: bool,
    /// The volumes that its tasks must not use any more: what runs of it is killed.
    pub cut_off: BTreeSet<VolumeAlias>,
    /// The plugins that its tasks run.
    pub plugins: BTreeSet<PluginId>,
    /// Why its job cannot be opened.
    pub reason: String,
}

/// The allocations of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AssignedAllocs {
    /// The revision to wait beyond. It grows with every change.
    pub revision: u64,
    /// Every allocation whose end was not reported, sorted by ID, except the unreadable ones.
    pub allocs: Vec<AssignedAlloc>,
    /// Those of them whose job cannot be opened.
    pub unreadable: Vec<UnreadableAlloc>,
    /// The other allocations of the node that the server remembers. The one that ended last is the first.
    pub ended: Vec<AllocId>,
    /// Those of them that are still on record as instances of plugins, with the plugins: the end of an allocation whose
    /// driver is lost says nothing of its processes.
    pub left_plugins: Vec<(AllocId, PluginId)>,
}

/// A volume cannot be mounted now.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct MountRefused {
    /// A text for the operator: what happened to which volume, why, and what to do.
    pub message: String,
    /// True if no later attempt can succeed.
    pub is_final: bool,
}

/// What holds up a mount that is not refused: a step that fails and is repeated, or one that has not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountDelay {
    /// A text for the operator: which step of which volume, the error, and what to do. It stays the same for another attempt.
    pub message: String,
}

/// A mount of a volume that vanished from its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LostMount {
    /// That of a target.
    Target {
        /// The allocation.
        alloc: AllocId,
        /// Its name of the volume.
        alias: VolumeAlias,
    },
    /// That of the staging of a volume.
    Staging(RemoteVolume),
}

/// The server cannot be asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ControlPlaneError {
    /// The server stops. Ask the next one.
    #[error("the server is stopping")]
    Stopping,
    /// The request failed; the same one may succeed later.
    #[error("{0}")]
    Failed(String),
}

/// The server, as one node sees it.
#[async_trait]
pub trait ControlPlane: Send + Sync {
    /// Waits until the node's allocations have another revision than `after`, and returns all of them.
    async fn assigned(&self, after: Option<u64>) -> Result<AssignedAllocs, ControlPlaneError>;

    /// Claims a volume of the group for the allocation, and waits until it is published. Returns the target path
    /// on the node. Repeating it is safe. Dropping the future keeps the claim; the end of the allocation releases it.
    async fn mount(&self, alloc: &AllocId, alias: &VolumeAlias) -> Result<PathBuf, MountRefused>;

    /// Waits until something other than `known` holds up a mount that is under way, and returns it.
    async fn wait_for_mount_delay(
        &self,
        alloc: &AllocId,
        alias: &VolumeAlias,
        known: Option<&MountDelay>,
    ) -> Result<MountDelay, ControlPlaneError>;

    /// Waits until something has changed since the last refusal that may let the mount succeed: a claim, the volume,
    /// its plugin, or the node.
    async fn wait_for_claim_change(
        &self,
        alloc: &AllocId,
        alias: &VolumeAlias,
    ) -> Result<(), ControlPlaneError>;

    /// Records that a mount of a volume vanished from the node, so that the volume is mounted again before a mount
    /// succeeds. No task may run on it. Has no effect unless the server relies on the mount.
    async fn note_lost(&self, lost: &LostMount, reason: &str) -> Result<(), ControlPlaneError>;

    /// Gives a volume back from which an operator cut the allocation off. No run of its tasks may use it.
    async fn note_cut_off(
        &self,
        alloc: &AllocId,
        alias: &VolumeAlias,
    ) -> Result<(), ControlPlaneError>;

    /// Records what became of the allocation. With a terminal status, its volumes are given back.
    async fn report(&self, alloc: &AllocId, report: AllocReport) -> Result<(), ControlPlaneError>;
}
