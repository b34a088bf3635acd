//! The health that the fake plugin reports.

use std::collections::BTreeMap;

use nomad_csi_model::{ExternalId, ExternalNodeId, StorageStatus, VolumeStatus};

/// The adverse conditions that a test defines.
#[derive(Debug, Default)]
pub(super) struct ReportedHealth {
    /// What the controller reports.
    pub(super) volumes: BTreeMap<ExternalId, Vec<VolumeStatus>>,
    /// What a node reports.
    pub(super) on_nodes: BTreeMap<(ExternalNodeId, ExternalId), Vec<VolumeStatus>>,
    /// What every node reports.
    pub(super) storage: Vec<StorageStatus>,
}
