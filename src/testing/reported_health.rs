//! The health that the fake plugin reports.

use std::collections::BTreeMap;

use nomad_csi_model::{ExternalId, ExternalNodeId, StorageStatus, VolumeStatus};

/// The adverse conditions that a test defines.
#[derive(Debug, Default)]
pub(super) struct ReportedHealth {
    /// The reports of the controller.
    pub(super) volumes: BTreeMap<ExternalId, Vec<VolumeStatus>>,
    /// The reports of nodes.
    pub(super) on_nodes: BTreeMap<(ExternalNodeId, ExternalId), Vec<VolumeStatus>>,
    /// The report of every node.
    pub(super) storage: Vec<StorageStatus>,
}
