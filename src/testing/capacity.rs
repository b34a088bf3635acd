//! Capacity in the fake plugin.

use super::provider_state::ProviderState;
use super::refusal::Refusal;
use nomad_csi_model::{ReportedCapacity, Topology};
use nomad_csi_ports::{GetCapacity, Rpc, StatusCode};

impl ProviderState {
    /// Defines what the controller reports for a topology, or for everywhere.
    pub(super) fn set_capacity(&mut self, topology: Option<Topology>, reported: ReportedCapacity) {
        self.capacities.insert(topology, reported);
    }

    /// Handles GetCapacity.
    ///
    /// # Errors
    /// A refusal, or a violation of CSI.
    pub fn capacity(&mut self, request: &GetCapacity) -> Result<ReportedCapacity, Refusal> {
        let rpc = Rpc::GetCapacity;
        self.require_capability(rpc, self.controller().get_capacity)?;
        let has_topology = self.settings.plugin.volume_accessibility_constraints;
        if request.topology.is_some() && !has_topology {
            let what =
                "the plugin does not advertise VOLUME_ACCESSIBILITY_CONSTRAINTS for a topology";
            return self.violation(rpc, StatusCode::InvalidArgument, what);
        }
        let reported = self.capacities.get(&request.topology);
        Ok(reported.copied().unwrap_or_default())
    }
}
