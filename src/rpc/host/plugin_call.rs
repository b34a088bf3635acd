//! The requests of the calls of a plugin.
//!
//! They are not the messages of CSI, which leave out what a plugin does not need to see: a node gets the request of the port as
//! its server made it, and decides itself what its plugin gets.

use super::field::{
    Malformed, Transfer, from_json, from_optional_json, from_path, from_secrets, json, path,
    required, secrets,
};
use super::messages;
use super::messages::controller_request as change;
use super::messages::read_plugin_request as read;
use nomad_csi_model::{AllocId, ExternalId, ExternalNodeId, PluginId, SnapshotId};
use nomad_csi_ports::{
    ControllerPublishVolume, ControllerUnpublishVolume, CreateSnapshot, CreateVolume, ExpandVolume,
    GetCapacity, ListSnapshots, ListVolumeHealth, ModifyVolume, NodeVolumeHealth, NodeVolumeStats,
    ValidateVolume, VolumeSource,
};

impl Transfer for (PluginId, AllocId) {
    type Message = messages::PluginInstance;

    fn write(self) -> messages::PluginInstance {
        messages::PluginInstance {
            plugin_id: self.0.as_str().to_owned(),
            alloc: self.1.as_str().to_owned(),
        }
    }

    fn read(message: messages::PluginInstance) -> Result<Self, Malformed> {
        Ok((PluginId::new(message.plugin_id), AllocId::new(message.alloc)))
    }
}

impl Transfer for CreateVolume {
    type Message = change::CreateVolume;

    fn write(self) -> change::CreateVolume {
        use change::create_volume::Source;
        change::CreateVolume {
            name: self.name,
            capacity_json: json(&self.capacity),
            capabilities_json: json(&self.capabilities),
            mount_options_json: json(&self.mount_options),
            parameters: self.parameters,
            secrets: secrets(&self.secrets),
            source: self.source.map(|source| match source {
                VolumeSource::Volume(id) => Source::Volume(id),
                VolumeSource::Snapshot(id) => Source::Snapshot(id),
            }),
            topology_json: self.topology.as_ref().map(json),
        }
    }

    fn read(message: change::CreateVolume) -> Result<Self, Malformed> {
        use change::create_volume::Source;
        Ok(Self {
            name: message.name,
            capacity: from_json(&message.capacity_json, "capacity_json")?,
            capabilities: from_json(&message.capabilities_json, "capabilities_json")?,
            mount_options: from_json(&message.mount_options_json, "mount_options_json")?,
            parameters: message.parameters,
            secrets: from_secrets(message.secrets),
            source: message.source.map(|source| match source {
                Source::Volume(id) => VolumeSource::Volume(id),
                Source::Snapshot(id) => VolumeSource::Snapshot(id),
            }),
            topology: from_optional_json(message.topology_json, "topology_json")?,
        })
    }
}

impl Transfer for CreateSnapshot {
    type Message = change::CreateSnapshot;

    fn write(self) -> change::CreateSnapshot {
        change::CreateSnapshot {
            source: self.source.as_str().to_owned(),
            name: self.name,
            parameters: self.parameters,
            secrets: secrets(&self.secrets),
        }
    }

    fn read(message: change::CreateSnapshot) -> Result<Self, Malformed> {
        Ok(Self {
            source: ExternalId::new(message.source),
            name: message.name,
            parameters: message.parameters,
            secrets: from_secrets(message.secrets),
        })
    }
}

impl Transfer for ExpandVolume {
    type Message = change::ExpandVolume;

    fn write(self) -> change::ExpandVolume {
        change::ExpandVolume {
            external_id: self.external_id.as_str().to_owned(),
            capacity_json: json(&self.capacity),
            capability_json: self.capability.as_ref().map(json),
            mount_options_json: json(&self.mount_options),
            secrets: secrets(&self.secrets),
        }
    }

    fn read(message: change::ExpandVolume) -> Result<Self, Malformed> {
        Ok(Self {
            external_id: ExternalId::new(message.external_id),
            capacity: from_json(&message.capacity_json, "capacity_json")?,
            capability: from_optional_json(message.capability_json, "capability_json")?,
            mount_options: from_json(&message.mount_options_json, "mount_options_json")?,
            secrets: from_secrets(message.secrets),
        })
    }
}

impl Transfer for ModifyVolume {
    type Message = change::ModifyVolume;

    fn write(self) -> change::ModifyVolume {
        change::ModifyVolume {
            external_id: self.external_id.as_str().to_owned(),
            parameters: self.parameters,
            secrets: secrets(&self.secrets),
        }
    }

    fn read(message: change::ModifyVolume) -> Result<Self, Malformed> {
        Ok(Self {
            external_id: ExternalId::new(message.external_id),
            parameters: message.parameters,
            secrets: from_secrets(message.secrets),
        })
    }
}

impl Transfer for ControllerPublishVolume {
    type Message = change::PublishVolume;

    fn write(self) -> change::PublishVolume {
        change::PublishVolume {
            external_id: self.external_id.as_str().to_owned(),
            node_id: self.node_id.as_str().to_owned(),
            capability_json: json(&self.capability),
            mount_options_json: json(&self.mount_options),
            read_only: self.read_only,
            secrets: secrets(&self.secrets),
            context: self.context,
        }
    }

    fn read(message: change::PublishVolume) -> Result<Self, Malformed> {
        Ok(Self {
            external_id: ExternalId::new(message.external_id),
            node_id: ExternalNodeId::new(message.node_id),
            capability: from_json(&message.capability_json, "capability_json")?,
            mount_options: from_json(&message.mount_options_json, "mount_options_json")?,
            read_only: message.read_only,
            secrets: from_secrets(message.secrets),
            context: message.context,
        })
    }
}

impl Transfer for ControllerUnpublishVolume {
    type Message = change::UnpublishVolume;

    fn write(self) -> change::UnpublishVolume {
        change::UnpublishVolume {
            external_id: self.external_id.as_str().to_owned(),
            node_id: self.node_id.as_str().to_owned(),
            secrets: secrets(&self.secrets),
        }
    }

    fn read(message: change::UnpublishVolume) -> Result<Self, Malformed> {
        Ok(Self {
            external_id: ExternalId::new(message.external_id),
            node_id: ExternalNodeId::new(message.node_id),
            secrets: from_secrets(message.secrets),
        })
    }
}

impl Transfer for ValidateVolume {
    type Message = read::ValidateVolume;

    fn write(self) -> read::ValidateVolume {
        read::ValidateVolume {
            external_id: self.external_id.as_str().to_owned(),
            capabilities_json: json(&self.capabilities),
            mount_options_json: json(&self.mount_options),
            parameters: self.parameters,
            context: self.context,
            secrets: secrets(&self.secrets),
        }
    }

    fn read(message: read::ValidateVolume) -> Result<Self, Malformed> {
        Ok(Self {
            external_id: ExternalId::new(message.external_id),
            capabilities: from_json(&message.capabilities_json, "capabilities_json")?,
            mount_options: from_json(&message.mount_options_json, "mount_options_json")?,
            parameters: message.parameters,
            context: message.context,
            secrets: from_secrets(message.secrets),
        })
    }
}

impl Transfer for GetCapacity {
    type Message = read::GetCapacity;

    fn write(self) -> read::GetCapacity {
        read::GetCapacity {
            capabilities_json: json(&self.capabilities),
            mount_options_json: json(&self.mount_options),
            parameters: self.parameters,
            topology_json: self.topology.as_ref().map(json),
        }
    }

    fn read(message: read::GetCapacity) -> Result<Self, Malformed> {
        Ok(Self {
            capabilities: from_json(&message.capabilities_json, "capabilities_json")?,
            mount_options: from_json(&message.mount_options_json, "mount_options_json")?,
            parameters: message.parameters,
            topology: from_optional_json(message.topology_json, "topology_json")?,
        })
    }
}

impl Transfer for ListSnapshots {
    type Message = read::ListSnapshots;

    fn write(self) -> read::ListSnapshots {
        read::ListSnapshots {
            page: Some(self.page.write()),
            source: self.source.map(|id| id.as_str().to_owned()),
            snapshot_id: self.id.map(|id| id.as_str().to_owned()),
            secrets: secrets(&self.secrets),
        }
    }

    fn read(message: read::ListSnapshots) -> Result<Self, Malformed> {
        Ok(Self {
            page: required(message.page, "page")?,
            source: message.source.map(ExternalId::new),
            id: message.snapshot_id.map(SnapshotId::new),
            secrets: from_secrets(message.secrets),
        })
    }
}

impl Transfer for ListVolumeHealth {
    type Message = read::ListVolumeHealth;

    fn write(self) -> read::ListVolumeHealth {
        read::ListVolumeHealth { page: Some(self.page.write()), secrets: secrets(&self.secrets) }
    }

    fn read(message: read::ListVolumeHealth) -> Result<Self, Malformed> {
        Ok(Self { page: required(message.page, "page")?, secrets: from_secrets(message.secrets) })
    }
}

impl Transfer for NodeVolumeStats {
    type Message = read::NodeVolumeStats;

    fn write(self) -> read::NodeVolumeStats {
        read::NodeVolumeStats {
            external_id: self.external_id.as_str().to_owned(),
            volume_path: path(&self.volume_path),
            staging_path: self.staging_path.as_deref().map(path),
        }
    }

    fn read(message: read::NodeVolumeStats) -> Result<Self, Malformed> {
        Ok(Self {
            external_id: ExternalId::new(message.external_id),
            volume_path: from_path(message.volume_path),
            staging_path: message.staging_path.map(from_path),
        })
    }
}

impl Transfer for NodeVolumeHealth {
    type Message = read::NodeVolumeHealth;

    fn write(self) -> read::NodeVolumeHealth {
        read::NodeVolumeHealth {
            external_id: self.external_id.as_str().to_owned(),
            publish_path: self.publish_path.as_deref().map(path),
            staging_path: self.staging_path.as_deref().map(path),
        }
    }

    fn read(message: read::NodeVolumeHealth) -> Result<Self, Malformed> {
        Ok(Self {
            external_id: ExternalId::new(message.external_id),
            publish_path: message.publish_path.map(from_path),
            staging_path: message.staging_path.map(from_path),
        })
    }
}
