//! A volume as a user requests it, and as a server returns it.

use std::collections::{BTreeMap, BTreeSet};

use super::alloc::Alloc;
use super::bytes::{Bytes, CapacityRange};
use super::capability::{AccessMode, AttachmentMode, Capability};
use super::id::{AllocId, ExternalId, Namespace, NamespacedId, NodeId, PluginId, VolumeId};
use super::mount_options::MountOptions;
use super::plugin::HealthCount;
use super::secrets::{Secret, SecretRef, SecretRefs, Secrets};
use super::topology::{Topology, TopologyRequest};

/// The fields of a volume that a user may set, without those that only a server sets (W22: Nomad
/// stores server fields from a request).
///
/// `None` means "not given" and differs from empty: an update keeps the stored value where the server
/// allows that.
///
/// A request with [`Secrets`] can be sent. A request with [`SecretRefs`] comes from a specification
/// and is an [`UnresolvedRequest`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeRequest<S = Secrets> {
    /// The namespace.
    pub namespace: Namespace,
    /// The ID, which jobs refer to.
    pub id: VolumeId,
    /// The name; required for a new volume, because providers identify it by name.
    pub name: Option<String>,
    /// The provider's ID of an existing volume. A request with it registers the volume, a request
    /// without it creates one.
    pub external_id: Option<ExternalId>,
    /// The plugin.
    pub plugin_id: PluginId,
    /// The supported access and attachment modes.
    pub capabilities: Vec<Capability>,
    /// The requested size.
    pub capacity: CapacityRange,
    /// The requested topologies.
    pub topology_request: Option<TopologyRequest>,
    /// The provider's ID of a volume to clone.
    pub clone_id: Option<String>,
    /// The provider's ID of a snapshot to restore.
    pub snapshot_id: Option<String>,
    /// The file system type and mount flags.
    pub mount_options: Option<MountOptions>,
    /// The secrets for the provider.
    pub secrets: Option<S>,
    /// The provider's parameters for creation and validation, opaque.
    pub parameters: Option<BTreeMap<String, String>>,
    /// The provider's volume context, opaque; valid for registration only.
    pub context: Option<BTreeMap<String, String>>,
    /// True if the user allows a second registration of the same data.
    pub share: bool,
}

/// The request of a specification, whose secrets are values or references.
pub type UnresolvedRequest = VolumeRequest<SecretRefs>;

impl<S> VolumeRequest<S> {
    /// Returns the name for the provider: the name, or the ID.
    pub fn provider_name(&self) -> &str {
        self.name.as_deref().unwrap_or(self.id.as_str())
    }

    /// Creates a request with the required fields only.
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
            share: false,
        }
    }

    /// Returns namespace and ID.
    pub fn key(&self) -> NamespacedId {
        NamespacedId::new(self.namespace.clone(), self.id.clone())
    }

    /// Removes what a create does not send: the context. The provider gives a new volume its context;
    /// Nomad would pass another one to the driver when the volume is registered again.
    #[must_use]
    pub fn for_create(self) -> Self {
        Self { context: None, ..self }
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
            share: self.share,
        }
    }
}

impl UnresolvedRequest {
    /// Resolves every secret with `value`, so that the request can be sent.
    ///
    /// # Errors
    /// Fails with the errors of all secrets that `value` cannot resolve.
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
    /// Returns the request as a specification would contain it, for comparisons.
    pub fn to_unresolved(&self) -> UnresolvedRequest {
        self.with_secrets(self.secrets.as_ref().map(SecretRefs::from))
    }
}

/// A volume in a server's list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeSummary {
    /// The namespace.
    pub namespace: Namespace,
    /// The ID.
    pub id: VolumeId,
    /// The name.
    pub name: String,
    /// The provider's ID.
    pub external_id: Option<ExternalId>,
    /// The plugin.
    pub plugin_id: PluginId,
    /// The plugin's name from GetPluginInfo.
    pub provider: String,
    /// True if an allocation that uses the volume can be placed.
    pub schedulable: bool,
    /// The access mode of current claims.
    pub access_mode: Option<AccessMode>,
    /// The attachment mode of current claims.
    pub attachment_mode: Option<AttachmentMode>,
    /// The number of read claims.
    pub readers: u64,
    /// The number of write claims.
    pub writers: u64,
    /// The index of the creation.
    pub create_index: u64,
    /// The index of the last change.
    pub modify_index: u64,
    /// The index of the last change of the specification, as in [`Volume`].
    pub spec_index: u64,
}

impl VolumeSummary {
    /// Returns namespace and ID.
    pub fn key(&self) -> NamespacedId {
        NamespacedId::new(self.namespace.clone(), self.id.clone())
    }

    /// Returns the provider's ID of the volume, as [`Volume::remote_id`] does.
    pub fn remote_id(&self) -> &str {
        let external = self.external_id.as_ref();
        external.map_or(self.id.as_str(), ExternalId::as_str)
    }
}

/// A registered volume on a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volume {
    /// The namespace.
    pub namespace: Namespace,
    /// The ID, which jobs refer to.
    pub id: VolumeId,
    /// The name; may be empty.
    pub name: String,
    /// The provider's ID. Without it the provider knows the volume by its ID.
    pub external_id: Option<ExternalId>,
    /// The plugin.
    pub plugin_id: PluginId,
    /// The plugin's name from GetPluginInfo.
    pub provider: String,
    /// The plugin's version from GetPluginInfo.
    pub provider_version: String,
    /// The supported modes. Modes without a Nomad name are omitted on reading.
    pub capabilities: Vec<Capability>,
    /// The requested size.
    pub requested_capacity: CapacityRange,
    /// The size that the provider reported; zero if unknown.
    pub capacity: Bytes,
    /// The requested topologies; `None` if there was no request.
    pub topology_request: Option<TopologyRequest>,
    /// Where the volume is accessible.
    pub topologies: Vec<Topology>,
    /// The provider's ID of the cloned volume.
    pub clone_id: Option<String>,
    /// The provider's ID of the restored snapshot.
    pub snapshot_id: Option<String>,
    /// The mount options; `None` if the server returns `null`. Flags may be redacted.
    pub mount_options: Option<MountOptions>,
    /// The provider's parameters from the creation, opaque.
    pub parameters: BTreeMap<String, String>,
    /// The provider's volume context, opaque.
    pub context: BTreeMap<String, String>,
    /// The access mode of current claims.
    pub access_mode: Option<AccessMode>,
    /// The attachment mode of current claims.
    pub attachment_mode: Option<AttachmentMode>,
    /// Allocations with a read claim.
    pub read_allocs: BTreeSet<AllocId>,
    /// Allocations with a write claim.
    pub write_allocs: BTreeSet<AllocId>,
    /// The claiming allocations that the server still knows.
    pub allocs: Vec<Alloc>,
    /// True if an allocation that uses the volume can be placed.
    pub schedulable: bool,
    /// True if the plugin needs a controller.
    pub controller_required: bool,
    /// The health of the plugin's controllers.
    pub controllers: HealthCount,
    /// The health of the plugin's nodes.
    pub nodes: HealthCount,
    /// The index of the creation.
    pub create_index: u64,
    /// The index of the last change.
    pub modify_index: u64,
    /// The index of the last change of the specification, which steps of claims do not move (W08). Nomad
    /// does not have it; there it is the index of the last change.
    pub spec_index: u64,
    /// Nanoseconds since the epoch; zero on Nomad.
    pub create_time: i64,
    /// Nanoseconds since the epoch; zero on Nomad.
    pub modify_time: i64,
    /// Where files are that were written beside the volume; none on Nomad.
    pub kept_files: Vec<KeptFiles>,
}

/// Files that were written to the mount point of a volume on a node while nothing was mounted there. They are not in the
/// volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptFiles {
    /// The node.
    pub node: NodeId,
    /// Their directory on the node.
    pub path: String,
}

impl Volume {
    /// Returns namespace and ID.
    pub fn key(&self) -> NamespacedId {
        NamespacedId::new(self.namespace.clone(), self.id.clone())
    }

    /// Returns the provider's ID of the volume: the external ID, or the ID if there is none (B35).
    pub fn remote_id(&self) -> ExternalId {
        self.external_id.clone().unwrap_or_else(|| ExternalId::new(self.id.as_str()))
    }

    /// Returns the allocations with a claim.
    pub fn claiming_allocs(&self) -> impl Iterator<Item = &AllocId> {
        self.write_allocs.iter().chain(&self.read_allocs)
    }

    /// Returns whether any allocation claims the volume.
    pub fn is_claimed(&self) -> bool {
        self.claiming_allocs().next().is_some()
    }

    /// Returns whether an access mode or an attachment mode is in effect.
    pub fn has_active_mode(&self) -> bool {
        self.access_mode.is_some() || self.attachment_mode.is_some()
    }
}
