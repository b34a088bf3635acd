//! The stored data of one volume.
//!
//! A volume's record has three parts: the user's request ([`VolumeDefinition`]), the provider's
//! response ([`ProviderFacts`]), and the sealed secrets. Mount flags are sealed too. Health, counts
//! and capabilities are not stored; `query` computes them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::recorded_options::RecordedMountOptions;
use super::shared::{Shared, TextMap};
use nomad_csi_model::{
    AllocId, Bytes, Capability, CapacityRange, ExternalId, NamespacedId, PluginId, RemoteVolume,
    SealedSecrets, Text, Topology, TopologyRequest, UnresolvedRequest, Volume, VolumeRequest,
};

/// The user's part of a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VolumeDefinition {
    /// The namespace and ID.
    pub key: NamespacedId,
    /// The name; may be empty.
    pub name: String,
    /// The plugin.
    pub plugin_id: PluginId,
    /// The supported access and attachment modes.
    pub capabilities: Shared<Vec<Capability>>,
    /// The requested size.
    pub capacity: CapacityRange,
    /// The requested topologies; `None` if there was no request.
    pub topology_request: Option<Shared<TopologyRequest>>,
    /// The provider's ID of the cloned volume.
    pub clone_id: Option<String>,
    /// The provider's ID of the restored snapshot.
    pub snapshot_id: Option<String>,
    /// The mount options with sealed flags; `None` if there was no request.
    pub mount_options: Option<RecordedMountOptions>,
    /// The provider's parameters for creation and validation, opaque.
    pub parameters: TextMap,
}

impl VolumeDefinition {
    /// Creates the definition of a new volume. Missing fields are empty.
    pub fn new<S>(request: &VolumeRequest<S>, mount_options: Option<RecordedMountOptions>) -> Self {
        let VolumeRequest {
            namespace: _,
            id: _,
            name,
            plugin_id,
            capabilities,
            capacity,
            topology_request,
            clone_id,
            snapshot_id,
            parameters,
            // Sealed by the caller, or part of the provider's facts.
            mount_options: _,
            secrets: _,
            external_id: _,
            context: _,
            share: _,
        } = request;
        Self {
            key: request.key(),
            name: name.clone().unwrap_or_default(),
            plugin_id: plugin_id.clone(),
            capabilities: capabilities.clone().into(),
            capacity: *capacity,
            topology_request: topology_request.clone().map(Shared::from),
            clone_id: clone_id.clone(),
            snapshot_id: snapshot_id.clone(),
            mount_options,
            parameters: parameters.clone().unwrap_or_default().into(),
        }
    }

    /// Returns the user's part of a merged volume.
    pub fn of(volume: &Volume, mount_options: Option<RecordedMountOptions>) -> Self {
        Self::new(&UnresolvedRequest::of_volume(volume), mount_options)
    }

    /// Returns a volume with these fields, with hidden mount flags, and without anything that only a server sets.
    pub(super) fn volume(&self) -> Volume {
        let Self {
            key,
            name,
            plugin_id,
            capabilities,
            capacity,
            topology_request,
            clone_id,
            snapshot_id,
            mount_options,
            parameters,
        } = self;
        Volume::of_request(UnresolvedRequest {
            name: Some(name.clone()),
            capacity: *capacity,
            topology_request: topology_request.as_deref().cloned(),
            clone_id: clone_id.clone(),
            snapshot_id: snapshot_id.clone(),
            mount_options: mount_options.as_ref().map(RecordedMountOptions::redacted),
            parameters: Some(parameters.to_map()),
            ..UnresolvedRequest::new(key.clone(), plugin_id.clone(), capabilities.to_vec())
        })
    }
}

/// A request to create a volume that was sent, and may have created it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreateRequest {
    /// The user's part of the volume.
    pub definition: VolumeDefinition,
    /// The sealed secrets that it was sent with.
    pub secrets: SealedSecrets,
}

/// The provider's part of a volume: its response, or for a registered volume the user's values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProviderFacts {
    /// The plugin's name at the last write, for a plugin that no longer runs.
    pub provider: Text,
    /// The plugin's version at the last write.
    pub provider_version: Text,
    /// CSI's `volume_id`; `None` if the volume was registered without it (B35).
    pub external_id: Option<ExternalId>,
    /// The size that the provider reported; zero if unknown.
    pub capacity: Bytes,
    /// The volume context, opaque; later calls send it back. A value that contains a secret is sealed
    /// ([`SealedSecrets::to_text`]).
    pub context: TextMap,
    /// Where the volume is accessible; empty if everywhere.
    pub topologies: Shared<Vec<Topology>>,
}

impl From<&Volume> for ProviderFacts {
    /// Returns the provider's part of a merged volume.
    fn from(volume: &Volume) -> Self {
        Self {
            provider: volume.provider.as_str().into(),
            provider_version: volume.provider_version.as_str().into(),
            external_id: volume.external_id.clone(),
            capacity: volume.capacity,
            context: volume.context.clone().into(),
            topologies: volume.topologies.clone().into(),
        }
    }
}

/// The phase of a volume. A volume without a record does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The intent to create is recorded; CreateVolume may have been sent, and its result is not
    /// recorded (W14). Nomad's readers do not see the volume.
    Creating,
    /// The volume exists.
    Registered,
    /// The intent to delete is recorded; DeleteVolume may have been sent (W09).
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

/// The controllers that may have got the call of an intent before the one that gets it now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EarlierControllers {
    /// None.
    #[default]
    None,
    /// Others, which are gone or got nothing: these calls have ended, and may have taken effect.
    Ended,
    /// Any: an earlier version recorded the intent without its controller.
    Unknown,
}

impl EarlierControllers {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it")]
    fn is_none(&self) -> bool {
        *self == Self::None
    }
}

/// The controller that gets the call of an intent (rule 4 of the claims machine).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IntentController {
    /// The plugin's allocation.
    pub instance: AllocId,
    /// Those before it.
    #[serde(default, skip_serializing_if = "EarlierControllers::is_none")]
    pub earlier: EarlierControllers,
    /// The keyed fingerprint of the request that it got for the intent, if every call sent the same; `None` if they differed, and
    /// if an earlier version recorded it. Since version 9.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// The index of the first event that named it for the intent, after the last one that named another one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub first_index: u64,
    /// The index of the last event that named it. An instance of this ID that was first found later is another one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub last_index: u64,
}

impl IntentController {
    /// Returns the controller of an intent that no other controller got.
    pub(super) fn first(call: NamedCall<'_>) -> Option<Self> {
        let NamedCall { instance, request, index } = call;
        Some(Self {
            instance: instance?.clone(),
            earlier: EarlierControllers::None,
            request: request.map(|request| request.fingerprint.clone()),
            first_index: index,
            last_index: index,
        })
    }
}

/// The request of the call of an intent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IntentRequest {
    /// The keyed fingerprint of all that the call sends and the record does not have.
    pub fingerprint: String,
    /// True if the instance that the record names is gone, and the one that gets the call has its ID: it did not get the calls
    /// before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_new_instance: bool,
}

/// The call of an intent, as an event names it.
#[derive(Clone, Copy, Debug)]
pub(super) struct NamedCall<'a> {
    /// The plugin's allocation that gets it; `None` in an event of an earlier version.
    pub(super) instance: Option<&'a AllocId>,
    /// What it sends; `None` in an event of an earlier version.
    pub(super) request: Option<&'a IntentRequest>,
    /// The index of the event.
    pub(super) index: u64,
}

/// The intents that a record can have. Creation and deletion exclude each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum VolumeIntent {
    /// To create the volume.
    Create,
    /// To delete it.
    Delete,
    /// To expand it.
    Expand,
    /// To change its mutable parameters.
    Modify,
}

impl VolumeIntent {
    /// All intents.
    pub const ALL: [Self; 4] = [Self::Create, Self::Delete, Self::Expand, Self::Modify];
}

/// The stored data of one volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VolumeRecord {
    /// The user's part.
    pub definition: VolumeDefinition,
    /// The provider's part; empty during creation.
    pub provided: ProviderFacts,
    /// The sealed secrets for the provider.
    pub secrets: SealedSecrets,
    /// The phase of the volume.
    pub phase: Phase,
    /// During creation, the requests before the current one that were sent and may have created the volume, the
    /// newest first (W14). Since version 9.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier_creates: Vec<CreateRequest>,
    /// The controller of the creation or the deletion whose result is not recorded; `None` without one, and if an earlier
    /// version recorded the intent. Since version 9.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settling_by: Option<IntentController>,
    /// The requested size of a recorded expansion. ControllerExpandVolume may have been sent, and its
    /// result is not recorded (W17). Since version 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expanding: Option<CapacityRange>,
    /// The controller of that expansion. Since version 9.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expanding_by: Option<IntentController>,
    /// True if the provider expanded the volume, and nodes that use it still have to expand it.
    /// Since version 3.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub node_expansion_pending: bool,
    /// The mutable parameters that were set and are in force (CSI, ControllerModifyVolume). One that was set stays until it
    /// is set again. Since version 9.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub mutable_parameters: BTreeMap<String, String>,
    /// The mutable parameters of a recorded change. ControllerModifyVolume may have been sent, and its result is not
    /// recorded. Since version 9.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modifying: Option<BTreeMap<String, String>>,
    /// The controller of that change. Since version 9.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modifying_by: Option<IntentController>,
    /// The index of the last change of the volume's claims; 0 if there was none. Clients see it as a
    /// change of the volume, and updates do not compare it (W08). Since version 4.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub used_index: u64,
    /// The time of the last change of its claims, in nanoseconds since the epoch. Since version 4.
    #[serde(default, skip_serializing_if = "is_zero_time")]
    pub used_time: i64,
    /// The index of the create intent or the registration. It never changes while the record exists,
    /// so it is also the *generation* in [`provider_name`](super::provider_name::provider_name)
    /// (W13).
    pub create_index: u64,
    /// The index of the last change.
    pub modify_index: u64,
    /// The time of the create intent or the registration, in nanoseconds since the epoch.
    pub create_time: i64,
    /// The time of the last change, in nanoseconds since the epoch.
    pub modify_time: i64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it")]
fn is_zero(index: &u64) -> bool {
    *index == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it")]
fn is_zero_time(time: &i64) -> bool {
    *time == 0
}

fn sealed_of<'a>(
    definition: &'a VolumeDefinition,
    secrets: &'a SealedSecrets,
) -> Option<&'a SealedSecrets> {
    let options = definition.mount_options.as_ref();
    let flags = options.and_then(RecordedMountOptions::sealed);
    Some(secrets).filter(|secrets| !secrets.is_empty()).or(flags)
}

impl VolumeRecord {
    /// Returns the index of the last change that clients see: of the volume, or of its claims.
    pub fn visible_index(&self) -> u64 {
        self.modify_index.max(self.used_index)
    }

    /// Returns the time of the last change that clients see (W35).
    pub fn visible_time(&self) -> i64 {
        self.modify_time.max(self.used_time)
    }

    /// Returns whether an intent is on record.
    pub fn is_open(&self, intent: VolumeIntent) -> bool {
        match intent {
            VolumeIntent::Create => self.phase == Phase::Creating,
            VolumeIntent::Delete => self.phase == Phase::Deleting,
            VolumeIntent::Expand => self.expanding.is_some(),
            VolumeIntent::Modify => self.modifying.is_some(),
        }
    }

    /// Returns the controller of an intent; `None` if the intent is not on record, or without its controller.
    pub fn controller_of(&self, intent: VolumeIntent) -> Option<&IntentController> {
        let controller = match intent {
            VolumeIntent::Create | VolumeIntent::Delete => &self.settling_by,
            VolumeIntent::Expand => &self.expanding_by,
            VolumeIntent::Modify => &self.modifying_by,
        };
        controller.as_ref().filter(|_| self.is_open(intent))
    }

    /// Returns the controller of an intent that is recorded for this call, again or for the first time.
    pub(super) fn controller_for(
        &self,
        intent: VolumeIntent,
        call: NamedCall<'_>,
    ) -> Option<IntentController> {
        let first = IntentController::first(call)?;
        let Some(before) = self.controller_of(intent) else {
            let earlier = match self.is_open(intent) {
                true => EarlierControllers::Unknown,
                false => EarlierControllers::None,
            };
            return Some(IntentController { earlier, ..first });
        };
        let is_new = call.request.is_some_and(|request| request.has_new_instance);
        if !is_new && before.instance == first.instance {
            let request = before.request.clone().filter(|_| before.request == first.request);
            let (earlier, first_index) = (before.earlier, before.first_index);
            return Some(IntentController { earlier, request, first_index, ..first });
        }
        let earlier = match before.earlier {
            EarlierControllers::Unknown => EarlierControllers::Unknown,
            EarlierControllers::None | EarlierControllers::Ended => EarlierControllers::Ended,
        };
        Some(IntentController { earlier, ..first })
    }

    /// Returns the external volume; `None` during creation.
    pub fn remote_volume(&self) -> Option<RemoteVolume> {
        Some(RemoteVolume {
            plugin_id: self.definition.plugin_id.clone(),
            external_id: self.remote_id()?,
        })
    }

    /// Returns namespace and ID.
    pub fn key(&self) -> &NamespacedId {
        &self.definition.key
    }

    /// Returns any sealed data of the volume, to test the key.
    pub fn sealed(&self) -> Option<&SealedSecrets> {
        let earlier = self.earlier_creates.iter();
        let mut earlier = earlier.filter_map(|one| sealed_of(&one.definition, &one.secrets));
        sealed_of(&self.definition, &self.secrets).or_else(|| earlier.next())
    }

    /// Returns every request that may have created the volume, the newest first.
    pub fn create_requests(&self) -> Vec<CreateRequest> {
        let newest =
            CreateRequest { definition: self.definition.clone(), secrets: self.secrets.clone() };
        let earlier = self.earlier_creates.iter().cloned();
        std::iter::once(newest).chain(earlier).collect()
    }

    /// Returns whether Nomad's readers and planners see the volume. One whose creation did not finish is not among the
    /// volumes (W14); the agent shows it by itself, and continues it under the same name.
    pub fn is_visible(&self) -> bool {
        match self.phase {
            Phase::Creating => false,
            Phase::Registered | Phase::Deleting => true,
        }
    }

    /// Returns the provider's ID: the external ID, or the ID if there is none (B35). `None` during
    /// creation.
    pub fn remote_id(&self) -> Option<ExternalId> {
        self.is_visible().then(|| self.provider_id())
    }

    /// Returns the provider's ID that the volume has if it exists.
    pub fn provider_id(&self) -> ExternalId {
        let id = || ExternalId::new(self.definition.key.id.as_str());
        self.provided.external_id.clone().unwrap_or_else(id)
    }
}
