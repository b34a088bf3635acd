//! What a plan is carried out with.

use tokio_util::sync::CancellationToken;

use super::outcome::Outcome;
use super::record::Record;
use super::resolve::Resolved;
use crate::plan::MergeRules;
use crate::ports::{SnapshotApi, VolumeApi};

/// Is told what goes on, to show it.
pub trait ProgressObserver: Sync {
    /// The volume at this position of the plan is being worked on.
    fn began(&self, position: usize);
    /// It has ended.
    fn ended(&self, position: usize, outcome: &Outcome);
}

/// What a plan is carried out with.
pub struct Execution<'a> {
    /// The server.
    pub api: &'a dyn VolumeApi,
    /// The same server, asked for snapshots.
    pub snapshots: &'a dyn SnapshotApi,
    /// How that server merges.
    pub rules: MergeRules,
    /// The requests of all volumes that are to be changed, with their secrets.
    pub resolved: &'a Resolved,
    /// How many volumes at once.
    pub parallelism: usize,
    /// Nothing new begins once this is cancelled.
    pub stop: &'a CancellationToken,
    /// Is told what goes on.
    pub progress: &'a dyn ProgressObserver,
    /// Remembers every step.
    pub record: &'a dyn Record,
}
