//! The context in which a plan is carried out.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::outcome::Outcome;
use super::reconnect::Reconnect;
use super::record::Record;
use super::resolve::Resolved;
use crate::ports::{SnapshotApi, VolumeApi};
use nomad_csi_model::VolumeSummary;
use nomad_csi_plan::{DataIdentity, MergeRules};

/// Observes the progress of a plan.
pub trait ProgressObserver: Sync {
    /// Work on the volume at this position of the plan has started.
    fn started(&self, position: usize);
    /// Work on the volume has ended.
    fn finished(&self, position: usize, outcome: &Outcome);
    /// The server has not found a plugin again, and the steps that need it wait.
    fn plugin_unreachable(&self, timeout: Duration);
}

/// The context in which a plan is carried out.
pub(super) struct Execution<'a> {
    /// The server.
    pub api: &'a dyn VolumeApi,
    /// The same server, for snapshots.
    pub snapshots: &'a dyn SnapshotApi,
    /// The registrations of all data, as far as the plan had to list them.
    pub registered: &'a [VolumeSummary],
    /// The data that providers had before, and that no creation may be answered with.
    pub existing: &'a [DataIdentity],
    /// How the server merges updates.
    pub rules: MergeRules,
    /// The requests of all volumes to change, with their secrets.
    pub resolved: &'a Resolved,
    /// The largest number of concurrent changes.
    pub parallelism: usize,
    /// Records every step.
    pub record: Box<dyn Record + 'a>,
    /// How its steps wait.
    pub wait: StepWait<'a>,
}

/// How steps wait for their server and their plugins, and what ends that.
pub(super) struct StepWait<'a> {
    /// The wait for a plugin that the server has not found again.
    pub reconnect: &'a Reconnect,
    /// Observes the progress, and that wait.
    pub progress: &'a dyn ProgressObserver,
    /// Nothing new starts, and no step is repeated, once this is cancelled.
    pub stop: &'a CancellationToken,
}
