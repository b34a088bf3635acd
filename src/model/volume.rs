//! A volume: what a person asks for, and what a server knows.

use std::collections::{BTreeMap, BTreeSet};

use super::alloc::Alloc;
use super::bytes::{Bytes, CapacityRange};
use super::capability::{AccessMode, AttachmentMode, Capability};
use super::id::{AllocId, ExternalId, Namespace, NamespacedId, PluginId, VolumeId};
use super::mount_options::MountOptions;
use super::plugin::HealthCount;
use super::secrets::{Secret, SecretRef, SecretRefs, Secrets};
use super::topology::{Topology, TopologyRequest};

/// What a person may ask of a volume, and nothing that only a server may set (W22).
///
/// `None` means "not said", which differs from said and empty: of an existing volume, what is not
/// said stays as it is (where the server's rules allow that).
///
/// With [`Secrets`] it can be sent; with [`SecretRefs`] it is what a specification says, a
/// [`WantedRequest`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeRequest<S = Secrets> {
    /// Where it lives.
    pub namespace: Namespace,
    /// What it is called in jobs.
    pub id: VolumeId,
    /// What people and providers call it; a new volume needs one.
    pub name: Option<String>,
    /// The provider's ID of a volume that exists already: its presence asks for registration, its
    /// absence for creation.
    pub external_id: Option<ExternalId>,
    /// Who provides it.
    pub plugin_id: PluginId,
    /// How it may be used.
    pub capabilities: Vec<Capability>,
    /// How large it shall be.
    pub capacity: CapacityRange,
    /// Where it shall be reachable from.
    pub topology_request: Option<TopologyRequest>,
    /// A volume to copy, by the provider's ID.
    pub clone_id: Option<String>,
    /// A snapshot to restore, by the provider's ID.
    pub snapshot_id: Option<String>,
    /// How its file system is made and mounted.
    pub mount_options: Option<MountOptions>,
    /// What the provider wants to see.
    pub secrets: Option<S>,
    /// Opaque, for creation and validation.
    pub parameters: Option<BTreeMap<String, String>>,
    /// Opaque, the provider's: only registration may give it.
    pub context: Option<BTreeMap<String, String>>,
}

/// What a specification asks of a volume: its secrets are values or references to them.
pub type WantedRequest = VolumeRequest<SecretRefs>;

impl<S> VolumeRequest<S> {
    /// One that says whose volume it is and how it may be used, and nothing else.
    pub fn new(key: NamespacedId, plugin_id: PluginId, capabilities: Vec<Capability>) -> Self {
        Self {
            namespace: key.namespace,
            id: key.id,
            name: None,
            external_id: None,
            plugin_id,
            capabilities,
            capacity: CapacityRange::default(),
            topology_request: None,
            clone_id: None,
            snapshot_id: None,
            mount_options: None,
            secrets: None,
            parameters: None,
            context: None,
        }
    }

    /// Namespace and ID.
    pub fn key(&self) -> NamespacedId {
        NamespacedId::new(self.namespace.clone(), self.id.clone())
    }

    fn with_secrets<T>(&self, secrets: Option<T>) -> VolumeRequest<T> {
        VolumeRequest {
            namespace: self.namespace.clone(),
            id: self.id.clone(),
            name: self.name.clone(),
            external_id: self.external_id.clone(),
            plugin_id: self.plugin_id.clone(),
            capabilities: self.capabilities.clone(),
            capacity: self.capacity,
            topology_request: self.topology_request.clone(),
            clone_id: self.clone_id.clone(),
            snapshot_id: self.snapshot_id.clone(),
            mount_options: self.mount_options.clone(),
            secrets,
            parameters: self.parameters.clone(),
            context: self.context.clone(),
        }
    }
}

impl WantedRequest {
    /// What can be sent: each secret as `value` gives it.
    ///
    /// # Errors
    /// All secrets that `value` has none for, each with its reason; never an empty list.
    pub fn resolve<E>(
        &self,
        value: impl FnMut(&str, &SecretRef) -> Result<Secret, E>,
    ) -> Result<VolumeRequest, Vec<E>> {
        let secrets = self.secrets.as_ref();
        let secrets = secrets.map(|secrets| secrets.resolve(value)).transpose()?;
        Ok(self.with_secrets(secrets))
    }
}

impl VolumeRequest {
    /// The same as a specification could say it, to be held against what there is.
    pub fn to_wanted(&self) -> WantedRequest {
        self.with_secrets(self.secrets.as_ref().map(SecretRefs::from))
    }
}

/// A volume as a server's list shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeSummary {
    /// Where it lives.
    pub namespace: Namespace,
    /// What it is called.
    pub id: VolumeId,
    /// What people call it.
    pub name: String,
    /// The provider's ID.
    pub external_id: Option<ExternalId>,
    /// Who provides it.
    pub plugin_id: PluginId,
    /// The provider's name.
    pub provider: String,
    /// Whether an allocation that wants it could be placed.
    pub schedulable: bool,
    /// The mode in force while it is claimed.
    pub access_mode: Option<AccessMode>,
    /// The mode in force while it is claimed.
    pub attachment_mode: Option<AttachmentMode>,
    /// How many claims read.
    pub readers: u64,
    /// How many claims write.
    pub writers: u64,
    /// Index of its creation.
    pub create_index: u64,
    /// Index of its last change.
    pub modify_index: u64,
}

/// A registered volume as a server knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volume {
    /// Where it lives.
    pub namespace: Namespace,
    /// What it is called in jobs.
    pub id: VolumeId,
    /// What people call it; may be empty.
    pub name: String,
    /// The provider's ID; a volume registered without one is known to the provider by its own ID.
    pub external_id: Option<ExternalId>,
    /// Who provides it.
    pub plugin_id: PluginId,
    /// GetPluginInfo's name.
    pub provider: String,
    /// GetPluginInfo's version.
    pub provider_version: String,
    /// How it may be used. A mode that Nomad has no word for is left out on reading.
    pub capabilities: Vec<Capability>,
    /// The size that was asked for.
    pub requested_capacity: CapacityRange,
    /// The size that the provider reported; zero if it is not known.
    pub capacity: Bytes,
    /// What was asked for; `None` if nothing ever was.
    pub topology_request: Option<TopologyRequest>,
    /// Where it can be reached from.
    pub topologies: Vec<Topology>,
    /// What it was copied from.
    pub clone_id: Option<String>,
    /// What it was restored from.
    pub snapshot_id: Option<String>,
    /// `None` if a server says `null`; flags may be redacted.
    pub mount_options: Option<MountOptions>,
    /// Opaque, as given at creation.
    pub parameters: BTreeMap<String, String>,
    /// Opaque, the provider's.
    pub context: BTreeMap<String, String>,
    /// The mode in force while it is claimed.
    pub access_mode: Option<AccessMode>,
    /// The mode in force while it is claimed.
    pub attachment_mode: Option<AttachmentMode>,
    /// Allocations that claim it for reading.
    pub read_allocs: BTreeSet<AllocId>,
    /// Allocations that claim it for writing.
    pub write_allocs: BTreeSet<AllocId>,
    /// Those of them that the server still knows.
    pub allocs: Vec<Alloc>,
    /// Whether an allocation that wants it could be placed.
    pub schedulable: bool,
    /// Whether its plugin cannot be used without a controller.
    pub controller_required: bool,
    /// Its plugin's controllers.
    pub controllers: HealthCount,
    /// Its plugin's nodes.
    pub nodes: HealthCount,
    /// Index of its creation.
    pub create_index: u64,
    /// Index of its last change.
    pub modify_index: u64,
    /// Nanoseconds since the epoch; zero on Nomad.
    pub create_time: i64,
    /// Nanoseconds since the epoch; zero on Nomad.
    pub modify_time: i64,
}

impl Volume {
    /// Namespace and ID.
    pub fn key(&self) -> NamespacedId {
        NamespacedId::new(self.namespace.clone(), self.id.clone())
    }

    /// What the provider calls it: the external ID, or the ID if it has none (B35).
    pub fn remote_id(&self) -> ExternalId {
        self.external_id
            .clone()
            .unwrap_or_else(|| ExternalId::new(self.id.as_str()))
    }

    /// Allocations that claim it, in either way.
    pub fn claimants(&self) -> impl Iterator<Item = &AllocId> {
        self.write_allocs.iter().chain(&self.read_allocs)
    }

    /// Whether any allocation claims it.
    pub fn is_claimed(&self) -> bool {
        self.claimants().next().is_some()
    }

    /// The capability that is in force, if either mode is (`nomad-http-api` 3.5).
    pub fn has_modes(&self) -> bool {
        self.access_mode.is_some() || self.attachment_mode.is_some()
    }
}
