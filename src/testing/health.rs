//! Health in the fake plugin.

use super::provider_state::{FakeVolume, ProviderState};
use super::refusal::{Refusal, unknown};
use super::storage::page_of;
use nomad_csi_model::{ExternalId, ExternalNodeId, Secrets, StorageStatus, VolumeStatus};
use nomad_csi_ports::{
    ListVolumeHealth, ListedHealth, NodeVolumeHealth, Page, PageRequest, Rpc, StatusCode,
};

impl ProviderState {
    /// Defines what the controller reports about a volume.
    pub(super) fn set_volume_health(&mut self, id: ExternalId, statuses: Vec<VolumeStatus>) {
        self.health.volumes.insert(id, statuses);
    }

    /// Defines what a node reports about a volume.
    pub(super) fn set_node_volume_health(
        &mut self,
        node: ExternalNodeId,
        id: ExternalId,
        statuses: Vec<VolumeStatus>,
    ) {
        self.health.on_nodes.insert((node, id), statuses);
    }

    /// Defines what every node reports about the storage.
    pub(super) fn set_storage_health(&mut self, statuses: Vec<StorageStatus>) {
        self.health.storage = statuses;
    }

    /// Handles ControllerGetVolumeHealth.
    ///
    /// # Errors
    /// A refusal, or a violation of CSI.
    pub fn volume_health(
        &mut self,
        id: &ExternalId,
        secrets: &Secrets,
    ) -> Result<Vec<VolumeStatus>, Refusal> {
        let rpc = Rpc::ControllerGetVolumeHealth;
        self.require_capability(rpc, self.controller().get_volume_health)?;
        self.require_secrets(rpc, secrets)?;
        self.require_id(rpc, id)?;
        if !self.volumes.contains_key(id) {
            return unknown(id);
        }
        Ok(self.health.volumes.get(id).cloned().unwrap_or_default())
    }

    /// Handles ControllerListVolumeHealth: only volumes with a condition are listed.
    ///
    /// # Errors
    /// A refusal, or a violation of CSI.
    pub fn list_volume_health(
        &mut self,
        request: &ListVolumeHealth,
    ) -> Result<Page<ListedHealth>, Refusal> {
        let rpc = Rpc::ControllerListVolumeHealth;
        self.require_capability(rpc, self.controller().list_volume_health)?;
        self.require_secrets(rpc, &request.secrets)?;
        let listed = |volume: &FakeVolume| {
            let statuses = self.health.volumes.get(&volume.external_id)?.clone();
            (!statuses.is_empty())
                .then(|| ListedHealth { external_id: volume.external_id.clone(), statuses })
        };
        let all: Vec<_> = self.volumes.values().filter_map(listed).collect();
        let max_entries = self.settings.health_page;
        let page = PageRequest {
            entries: match request.page.entries {
                0 => max_entries,
                entries => entries.min(max_entries),
            },
            starting_token: request.page.starting_token.clone(),
        };
        page_of(&all, &page)
    }

    /// Handles NodeGetVolumeHealth. The volume does not have to be in use.
    ///
    /// # Errors
    /// A refusal, or a violation of CSI.
    pub fn node_volume_health(
        &mut self,
        node: &ExternalNodeId,
        request: &NodeVolumeHealth,
    ) -> Result<Vec<VolumeStatus>, Refusal> {
        let rpc = Rpc::NodeGetVolumeHealth;
        let id = &request.external_id;
        let capabilities = self.settings.node.unwrap_or_default();
        self.require_capability(rpc, capabilities.get_volume_health)?;
        self.require_id(rpc, id)?;
        let paths = [&request.publish_path, &request.staging_path];
        if paths.into_iter().flatten().any(|path| !path.is_absolute()) {
            return self.violation(rpc, StatusCode::InvalidArgument, "a path is not absolute");
        }
        if request.staging_path.is_some() && !capabilities.stage_unstage_volume {
            let what = "a staging path without STAGE_UNSTAGE_VOLUME";
            return self.violation(rpc, StatusCode::InvalidArgument, what);
        }
        if !self.volumes.contains_key(id) {
            return unknown(id);
        }
        let reported = self.health.on_nodes.get(&(node.clone(), id.clone()));
        Ok(reported.cloned().unwrap_or_default())
    }

    /// Handles NodeGetStorageHealth.
    ///
    /// # Errors
    /// A refusal, or a violation of CSI.
    pub fn storage_health(&mut self, secrets: &Secrets) -> Result<Vec<StorageStatus>, Refusal> {
        let rpc = Rpc::NodeGetStorageHealth;
        let capabilities = self.settings.node.unwrap_or_default();
        self.require_capability(rpc, capabilities.get_storage_health)?;
        self.require_secrets(rpc, secrets)?;
        Ok(self.health.storage.clone())
    }
}
