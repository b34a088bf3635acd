//! What is kept of one volume and of one plugin.
//!
//! A volume's record has three parts that different parties own: what the user asked
//! ([`VolumeDefinition`]), what the provider answered ([`Provided`]), and the secrets, which are
//! here only sealed, as are mount flags. Nothing that can be counted or looked up elsewhere is stored
//! (health, counts, the plugin's capabilities): `query` derives it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::recorded_options::RecordedMountOptions;
use crate::model::{
    Bytes, Capability, CapacityRange, ExternalId, NamespacedId, NodeId, PluginId, PluginInstance,
    SealedSecrets, Topology, TopologyRequest, Volume, VolumeRequest,
};

/// What the user asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VolumeDefinition {
    /// Namespace and ID.
    pub key: NamespacedId,
    /// What people call it; may be empty.
    pub name: String,
    /// Who provides it.
    pub plugin_id: PluginId,
    /// How it may be used.
    pub capabilities: Vec<Capability>,
    /// How large it shall be.
    pub capacity: CapacityRange,
    /// Where it shall be reachable from; `None` if that was never said.
    pub topology_request: Option<TopologyRequest>,
    /// What it is copied from.
    pub clone_id: Option<String>,
    /// What it is restored from.
    pub snapshot_id: Option<String>,
    /// How its file system is made and mounted, its flags sealed; `None` if that was never said.
    pub mount_options: Option<RecordedMountOptions>,
    /// Opaque, for creation and validation.
    pub parameters: BTreeMap<String, String>,
}

impl VolumeDefinition {
    /// Of a volume that is new: what is not said is empty.
    pub fn new(request: &VolumeRequest, mount_options: Option<RecordedMountOptions>) -> Self {
        Self {
            key: request.key(),
            name: request.name.clone().unwrap_or_default(),
            plugin_id: request.plugin_id.clone(),
            capabilities: request.capabilities.clone(),
            capacity: request.capacity,
            topology_request: request.topology_request.clone(),
            clone_id: request.clone_id.clone(),
            snapshot_id: request.snapshot_id.clone(),
            mount_options,
            parameters: request.parameters.clone().unwrap_or_default(),
        }
    }

    /// The user's part of a volume that an update was merged into.
    pub fn of(volume: &Volume, mount_options: Option<RecordedMountOptions>) -> Self {
        Self {
            key: volume.key(),
            name: volume.name.clone(),
            plugin_id: volume.plugin_id.clone(),
            capabilities: volume.capabilities.clone(),
            capacity: volume.requested_capacity,
            topology_request: volume.topology_request.clone(),
            clone_id: volume.clone_id.clone(),
            snapshot_id: volume.snapshot_id.clone(),
            mount_options,
            parameters: volume.parameters.clone(),
        }
    }
}

/// What the provider answered; of a registered volume, what the user said for the provider.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provided {
    /// GetPluginInfo's name when this was written: shown if the plugin is gone.
    pub provider: String,
    /// GetPluginInfo's version when this was written.
    pub provider_version: String,
    /// CSI's `volume_id`; `None` if the volume was registered without one (B35).
    pub external_id: Option<ExternalId>,
    /// The size that the provider reported; zero if it is not known.
    pub capacity: Bytes,
    /// Opaque; handed back on every later call.
    pub context: BTreeMap<String, String>,
    /// Where it can be reached from; empty if from everywhere.
    pub topologies: Vec<Topology>,
}

impl From<&Volume> for Provided {
    /// The provider's part of a volume that an update was merged into.
    fn from(volume: &Volume) -> Self {
        Self {
            provider: volume.provider.clone(),
            provider_version: volume.provider_version.clone(),
            external_id: volume.external_id.clone(),
            capacity: volume.capacity,
            context: volume.context.clone(),
            topologies: volume.topologies.clone(),
        }
    }
}

/// Where a volume is in its life. Absence of a record is the fourth phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The intent to create it is recorded; CreateVolume may have been sent, and what came of it is
    /// not recorded (W14). Readers do not see it: for them it is not there yet.
    Creating,
    /// It is there.
    Registered,
    /// The intent to delete it is recorded; DeleteVolume may have been sent (W09).
    Deleting,
}

impl std::fmt::Display for Phase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Creating => "being created",
            Self::Registered => "registered",
            Self::Deleting => "being deleted",
        })
    }
}

/// Everything that is kept of one volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VolumeRecord {
    /// What the user asked for.
    pub definition: VolumeDefinition,
    /// What the provider answered; nothing yet while it is being created.
    pub provided: Provided,
    /// What the provider wants to see, sealed.
    pub secrets: SealedSecrets,
    /// Where it is in its life.
    pub phase: Phase,
    /// The intent to expand it to this size is recorded; ControllerExpandVolume may have been sent,
    /// and what came of it is not recorded (W17). Since version 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expanding: Option<CapacityRange>,
    /// Its provider has made it larger, and the plugin asks for the same on every node that uses it,
    /// which none has done yet. Since version 3.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub node_expansion_pending: bool,
    /// Index of the event that began it: of the create intent, or of the registration. It never
    /// changes while the record exists, so it is also the *generation* that
    /// [`provider_name`](super::provider_name::provider_name) is made of (W13).
    pub create_index: u64,
    /// Index of the last event that changed it.
    pub modify_index: u64,
    /// When it began, nanoseconds since the epoch.
    pub create_time: i64,
    /// When it last changed, nanoseconds since the epoch.
    pub modify_time: i64,
}

impl VolumeRecord {
    /// Namespace and ID.
    pub fn key(&self) -> &NamespacedId {
        &self.definition.key
    }

    /// Something of it that is sealed, if anything is.
    pub fn sealed(&self) -> Option<&SealedSecrets> {
        let options = self.definition.mount_options.as_ref();
        let flags = options.and_then(RecordedMountOptions::sealed);
        Some(&self.secrets)
            .filter(|secrets| !secrets.is_empty())
            .or(flags)
    }

    /// Whether readers and planners see it (W14: a create that did not end is continued by the next
    /// one, under the same name, so until then the volume is absent).
    pub fn is_visible(&self) -> bool {
        match self.phase {
            Phase::Creating => false,
            Phase::Registered | Phase::Deleting => true,
        }
    }

    /// What the provider calls it: the external ID, or the ID if it has none (B35, W10); `None` while
    /// the provider's answer is not known.
    pub fn remote_id(&self) -> Option<ExternalId> {
        self.is_visible().then(|| self.made_as())
    }

    /// What the provider calls it, if the provider has made it.
    pub fn made_as(&self) -> ExternalId {
        let id = || ExternalId::new(self.definition.key.id.as_str());
        self.provided.external_id.clone().unwrap_or_else(id)
    }
}

/// A plugin: its instances, one per node. It exists as long as it has any.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PluginRecord {
    /// As their last fingerprints found them.
    pub instances: BTreeMap<NodeId, PluginInstance>,
    /// Index of its first instance's first fingerprint.
    pub create_index: u64,
    /// Index of the last change of any instance.
    pub modify_index: u64,
    /// When its first instance was first seen, nanoseconds since the epoch.
    pub create_time: i64,
    /// When any instance last changed, nanoseconds since the epoch.
    pub modify_time: i64,
}
