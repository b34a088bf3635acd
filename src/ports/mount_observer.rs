//! The receiver of what happens to the mounts of a node, for its events.

use nomad_csi_model::{AllocId, NamespacedId};

/// An operation on a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MountAction {
    /// A volume was staged or published.
    Mount,
    /// A volume was unpublished or unstaged.
    Unmount,
    /// Files that were written beside a volume were kept.
    Keep,
}

/// A volume was mounted or unmounted, or could not be. Nomad calls it a node event of the subsystem
/// `Storage`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountEvent {
    /// The volume.
    pub volume: NamespacedId,
    /// The allocation; `None` for a staging.
    pub alloc: Option<AllocId>,
    /// The operation.
    pub action: MountAction,
    /// The text of the error, if it failed; where the files are that were kept.
    pub error: Option<String>,
}

/// Receives the events of a node, in the order in which they happen to one volume. Returns
/// immediately.
pub trait MountObserver: Send + Sync {
    /// A volume was mounted or unmounted, or could not be.
    fn observed(&self, event: MountEvent);
}
