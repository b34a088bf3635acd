//! Calls a plugin of the node as a request says.
//!
//! A request is read completely before anything is called, so one that is malformed has no effect.

use super::answer::Answer as _;
use super::field::{Malformed, Transfer as _, from_secrets};
use super::messages;
use super::messages::controller_request::{self, Call as Change};
use super::messages::read_plugin_request::{self, Call as Read};
use super::messages::reply::End;
use nomad_csi_model::{ExternalId, Secrets, SnapshotId};
use nomad_csi_ports::{
    ControllerPublishVolume, ControllerUnpublishVolume, CreateSnapshot, CreateVolume, ExpandVolume,
    GetCapacity, ListSnapshots, ListVolumeHealth, ModifyVolume, NodeVolumeHealth, NodeVolumeStats,
    PageRequest, PluginConnection, PluginError, ValidateVolume,
};

/// A call of a controller that changes something.
pub(super) enum ControllerChange {
    Create(CreateVolume),
    Delete(ExternalId, Secrets),
    CreateSnapshot(CreateSnapshot),
    DeleteSnapshot(SnapshotId, Secrets),
    Expand(ExpandVolume),
    Modify(ModifyVolume),
    Publish(ControllerPublishVolume),
    Unpublish(ControllerUnpublishVolume),
}

impl ControllerChange {
    /// Reads a request.
    ///
    /// # Errors
    /// If a field is missing or not known.
    pub(super) fn read(call: Option<Change>) -> Result<Self, Malformed> {
        Ok(match call.ok_or(Malformed("call"))? {
            Change::CreateVolume(call) => Self::Create(CreateVolume::read(call)?),
            Change::DeleteVolume(call) => {
                let controller_request::DeleteVolume { external_id, secrets } = call;
                Self::Delete(ExternalId::new(external_id), from_secrets(secrets))
            }
            Change::CreateSnapshot(call) => Self::CreateSnapshot(CreateSnapshot::read(call)?),
            Change::DeleteSnapshot(call) => {
                let controller_request::DeleteSnapshot { snapshot_id, secrets } = call;
                Self::DeleteSnapshot(SnapshotId::new(snapshot_id), from_secrets(secrets))
            }
            Change::ExpandVolume(call) => Self::Expand(ExpandVolume::read(call)?),
            Change::ModifyVolume(call) => Self::Modify(ModifyVolume::read(call)?),
            Change::PublishVolume(call) => Self::Publish(ControllerPublishVolume::read(call)?),
            Change::UnpublishVolume(call) => {
                Self::Unpublish(ControllerUnpublishVolume::read(call)?)
            }
        })
    }

    /// Calls the plugin.
    ///
    /// # Errors
    /// Those of the call.
    pub(super) async fn send(self, plugin: &PluginConnection) -> Result<End, PluginError> {
        let controller = &plugin.controller;
        Ok(match self {
            Self::Create(call) => controller.create_volume(call).await?.end(),
            Self::Delete(id, secrets) => controller.delete_volume(id, secrets).await?.end(),
            Self::CreateSnapshot(call) => controller.create_snapshot(call).await?.end(),
            Self::DeleteSnapshot(id, secrets) => {
                controller.delete_snapshot(id, secrets).await?.end()
            }
            Self::Expand(call) => controller.expand_volume(call).await?.end(),
            Self::Modify(call) => controller.modify_volume(call).await?.end(),
            Self::Publish(call) => controller.controller_publish_volume(call).await?.end(),
            Self::Unpublish(call) => controller.controller_unpublish_volume(call).await?.end(),
        })
    }
}

/// A call of a plugin that changes nothing.
pub(super) enum PluginRead {
    PluginInfo,
    PluginCapabilities,
    Probe,
    ControllerCapabilities,
    Validate(ValidateVolume),
    ListVolumes(PageRequest),
    Capacity(GetCapacity),
    ListSnapshots(ListSnapshots),
    VolumeHealth(ExternalId, Secrets),
    ListVolumeHealth(ListVolumeHealth),
    NodeCapabilities,
    NodeInfo,
    NodeVolumeStats(NodeVolumeStats),
    NodeVolumeHealth(NodeVolumeHealth),
    StorageHealth(Secrets),
}

impl PluginRead {
    /// Reads a request; `None` if it only asks whether the instance runs.
    ///
    /// # Errors
    /// If a field is missing or not known.
    pub(super) fn read(call: Option<Read>) -> Result<Option<Self>, Malformed> {
        Ok(Some(match call.ok_or(Malformed("call"))? {
            Read::Find(messages::Nothing {}) => return Ok(None),
            Read::PluginInfo(messages::Nothing {}) => Self::PluginInfo,
            Read::PluginCapabilities(messages::Nothing {}) => Self::PluginCapabilities,
            Read::Probe(messages::Nothing {}) => Self::Probe,
            Read::ControllerCapabilities(messages::Nothing {}) => Self::ControllerCapabilities,
            Read::ValidateVolume(call) => Self::Validate(ValidateVolume::read(call)?),
            Read::ListVolumes(page) => Self::ListVolumes(PageRequest::read(page)?),
            Read::GetCapacity(call) => Self::Capacity(GetCapacity::read(call)?),
            Read::ListSnapshots(call) => Self::ListSnapshots(ListSnapshots::read(call)?),
            Read::VolumeHealth(call) => {
                let read_plugin_request::VolumeHealth { external_id, secrets } = call;
                Self::VolumeHealth(ExternalId::new(external_id), from_secrets(secrets))
            }
            Read::ListVolumeHealth(call) => Self::ListVolumeHealth(ListVolumeHealth::read(call)?),
            Read::NodeCapabilities(messages::Nothing {}) => Self::NodeCapabilities,
            Read::NodeInfo(messages::Nothing {}) => Self::NodeInfo,
            Read::NodeVolumeStats(call) => Self::NodeVolumeStats(NodeVolumeStats::read(call)?),
            Read::NodeVolumeHealth(call) => Self::NodeVolumeHealth(NodeVolumeHealth::read(call)?),
            Read::StorageHealth(call) => Self::StorageHealth(from_secrets(call.secrets)),
        }))
    }

    /// Calls the plugin.
    ///
    /// # Errors
    /// Those of the call.
    pub(super) async fn send(self, plugin: &PluginConnection) -> Result<End, PluginError> {
        let PluginConnection { identity, controller, node } = plugin;
        Ok(match self {
            Self::PluginInfo => identity.plugin_info().await?.end(),
            Self::PluginCapabilities => identity.plugin_capabilities().await?.end(),
            Self::Probe => identity.probe().await?.end(),
            Self::ControllerCapabilities => controller.controller_capabilities().await?.end(),
            Self::Validate(call) => controller.validate_volume(call).await?.end(),
            Self::ListVolumes(page) => controller.list_volumes(page).await?.end(),
            Self::Capacity(call) => controller.get_capacity(call).await?.end(),
            Self::ListSnapshots(call) => controller.list_snapshots(call).await?.end(),
            Self::VolumeHealth(id, secrets) => controller.volume_health(id, secrets).await?.end(),
            Self::ListVolumeHealth(call) => controller.list_volume_health(call).await?.end(),
            Self::NodeCapabilities => node.node_capabilities().await?.end(),
            Self::NodeInfo => node.node_info().await?.end(),
            Self::NodeVolumeStats(call) => node.node_volume_stats(call).await?.end(),
            Self::NodeVolumeHealth(call) => node.node_volume_health(call).await?.end(),
            Self::StorageHealth(secrets) => node.storage_health(secrets).await?.end(),
        })
    }
}
