//! Statistics in the fake plugin.

use super::provider_state::{ProviderState, ReportedStats};
use super::refusal::{Refusal, refuse, unknown};
use nomad_csi_model::{ExternalId, ExternalNodeId};
use nomad_csi_ports::{NodeVolumeStats, Rpc, StatusCode};

impl ProviderState {
    /// Defines what a node reports about a volume.
    pub(super) fn set_stats(&mut self, node: ExternalNodeId, id: ExternalId, stats: ReportedStats) {
        self.stats.insert((node, id), stats);
    }

    /// Handles NodeGetVolumeStats at a path where the volume is staged or published.
    ///
    /// # Errors
    /// A refusal, or a violation of CSI.
    pub fn volume_stats(
        &mut self,
        node: &ExternalNodeId,
        request: &NodeVolumeStats,
    ) -> Result<ReportedStats, Refusal> {
        let rpc = Rpc::NodeGetVolumeStats;
        let id = &request.external_id;
        self.require_capability(rpc, self.node().reports_stats())?;
        self.require_id(rpc, id)?;
        self.require_absolute(rpc, &request.volume_path)?;
        if !self.volumes.contains_key(id) {
            return unknown(id);
        }
        let path = &request.volume_path;
        let staging = self.stagings.get(&(node.clone(), id.clone()));
        let is_staged_there = staging.is_some_and(|staging| staging.path == *path);
        let target = (node.clone(), id.clone(), path.clone());
        if !is_staged_there && !self.targets.contains_key(&target) {
            // It may have been unpublished since it was recorded.
            let message = format!("{id} is not at {}", path.display());
            return refuse(StatusCode::NotFound, message);
        }
        self.require_staged(rpc, (node, id), request.staging_path.as_deref())?;
        let reported = self.stats.get(&(node.clone(), id.clone()));
        Ok(reported.cloned().unwrap_or_default())
    }
}
