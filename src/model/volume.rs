//! A volume as a user requests it, and as a server returns it.
//!
//! [`VolumeField`] names every field that both have, and gives its value in a common form: files, plans, drift and hashes go
//! through it. Most functions that relate a request, a volume and what is made of them name every field without `..`, so the
//! compiler finds them when a field is added.

use std::collections::{BTreeMap, BTreeSet};

use super::alloc::Alloc;
use super::bytes::{Bytes, CapacityRange};
use super::capability::{AccessMode, AttachmentMode, Capability};
use super::field_ref::FieldRef;
use super::id::{AllocId, ExternalId, Namespace, NamespacedId, NodeId, PluginId, VolumeId};
use super::mount_options::MountOptions;
use super::plugin::HealthCount;
use super::secrets::{Secret, SecretRef, SecretRefs, Secrets};
use super::topology::{Topology, TopologyRequest};

macro_rules! volume_fields {
    ($($(#[$doc:meta])* $name:ident = $key:literal,)*) => {
        /// A field that a request specifies and a server shows, in the order of their documentation. Namespace and ID name
        /// the volume, and secrets are never shown; they are not among these.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum VolumeField {
            $($(#[$doc])* $name,)*
        }

        impl VolumeField {
            /// All fields.
            pub const ALL: [Self; [$($key),*].len()] = [$(Self::$name),*];

            /// Returns the key in a specification, with a dot where it is nested.
            pub const fn key(self) -> &'static str {
                match self {
                    $(Self::$name => $key,)*
                }
            }

            /// Returns the field with this key.
            pub fn of_key(key: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|field| field.key() == key)
            }
        }
    };
}

volume_fields! {
    /// The name at the provider.
    Name = "name",
    /// The plugin.
    PluginId = "plugin_id",
    /// The provider's ID.
    ExternalId = "external_id",
    /// The snapshot to restore.
    SnapshotId = "snapshot_id",
    /// The volume to clone.
    CloneId = "clone_id",
    /// The minimum size.
    CapacityMin = "capacity_min",
    /// The maximum size.
    CapacityMax = "capacity_max",
    /// The access and attachment modes.
    Capability = "capability",
    /// The file system type.
    FsType = "mount_options.fs_type",
    /// The flags for mount(8).
    MountFlags = "mount_options.mount_flags",
    /// The required topologies.
    Required = "topology_request.required",
    /// The preferred topologies.
    Preferred = "topology_request.preferred",
    /// The parameters for creation.
    Parameters = "parameters",
    /// The volume context.
    Context = "context",
}

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

    /// Creates a request with the fields of a volume that a server shows. Secrets are not among them.
    pub fn of_volume(volume: &Volume) -> Self {
        let map = |map: &BTreeMap<String, String>| (!map.is_empty()).then(|| map.clone());
        Self {
            namespace: volume.namespace.clone(),
            id: volume.id.clone(),
            name: (!volume.name.is_empty()).then(|| volume.name.clone()),
            external_id: volume.external_id.clone(),
            plugin_id: volume.plugin_id.clone(),
            capabilities: volume.capabilities.clone(),
            capacity: volume.requested_capacity,
            topology_request: volume.topology_request.clone(),
            clone_id: volume.clone_id.clone(),
            snapshot_id: volume.snapshot_id.clone(),
            mount_options: volume.mount_options.clone(),
            secrets: None,
            parameters: map(&volume.parameters),
            context: map(&volume.context),
            share: false,
        }
    }

    /// Returns the value of a field; `None` if the request does not specify it. Mount options and a topology request
    /// specify both of their fields.
    pub fn field(&self, field: VolumeField) -> Option<FieldRef<'_>> {
        let Self {
            namespace: _,
            id: _,
            name,
            external_id,
            plugin_id,
            capabilities,
            capacity: CapacityRange { min, max },
            topology_request,
            clone_id,
            snapshot_id,
            mount_options,
            secrets: _,
            parameters,
            context,
            share: _,
        } = self;
        match field {
            VolumeField::Name => name.as_deref().map(FieldRef::Text),
            VolumeField::PluginId => Some(FieldRef::Text(plugin_id.as_str())),
            VolumeField::ExternalId => external_id.as_ref().map(|id| FieldRef::Text(id.as_str())),
            VolumeField::SnapshotId => snapshot_id.as_deref().map(FieldRef::Text),
            VolumeField::CloneId => clone_id.as_deref().map(FieldRef::Text),
            VolumeField::CapacityMin => (!min.is_zero()).then_some(FieldRef::Size(*min)),
            VolumeField::CapacityMax => (!max.is_zero()).then_some(FieldRef::Size(*max)),
            VolumeField::Capability => Some(FieldRef::Capabilities(capabilities)),
            VolumeField::FsType => {
                mount_options.as_ref().map(|options| FieldRef::Text(&options.fs_type))
            }
            VolumeField::MountFlags => {
                mount_options.as_ref().map(|options| FieldRef::MountFlags(&options.mount_flags))
            }
            VolumeField::Required => {
                topology_request.as_ref().map(|request| FieldRef::Topologies(&request.required))
            }
            VolumeField::Preferred => {
                topology_request.as_ref().map(|request| FieldRef::Topologies(&request.preferred))
            }
            VolumeField::Parameters => parameters.as_ref().map(FieldRef::Map),
            VolumeField::Context => context.as_ref().map(FieldRef::Map),
        }
    }

    /// Sets a field. A value of another kind than the field's sets it to empty.
    pub fn set_field(&mut self, field: VolumeField, value: FieldRef<'_>) {
        match field {
            VolumeField::Name => self.name = Some(value.text()),
            VolumeField::PluginId => self.plugin_id = PluginId::new(value.text()),
            VolumeField::ExternalId => self.external_id = Some(ExternalId::new(value.text())),
            VolumeField::SnapshotId => self.snapshot_id = Some(value.text()),
            VolumeField::CloneId => self.clone_id = Some(value.text()),
            VolumeField::CapacityMin => self.capacity.min = value.size(),
            VolumeField::CapacityMax => self.capacity.max = value.size(),
            VolumeField::Capability => self.capabilities = value.capabilities(),
            VolumeField::FsType => self.mount_options().fs_type = value.text(),
            VolumeField::MountFlags => self.mount_options().mount_flags = value.mount_flags(),
            VolumeField::Required => self.topologies().required = value.topologies(),
            VolumeField::Preferred => self.topologies().preferred = value.topologies(),
            VolumeField::Parameters => self.parameters = Some(value.map()),
            VolumeField::Context => self.context = Some(value.map()),
        }
    }

    fn mount_options(&mut self) -> &mut MountOptions {
        self.mount_options.get_or_insert_default()
    }

    fn topologies(&mut self) -> &mut TopologyRequest {
        self.topology_request.get_or_insert_default()
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
    /// Creates a volume with the fields of a request, and without anything that only a server sets.
    pub fn of_request<S>(request: VolumeRequest<S>) -> Self {
        let VolumeRequest {
            namespace,
            id,
            name,
            external_id,
            plugin_id,
            capabilities,
            capacity,
            topology_request,
            clone_id,
            snapshot_id,
            mount_options,
            secrets: _,
            parameters,
            context,
            share: _,
        } = request;
        Self {
            namespace,
            id,
            name: name.unwrap_or_default(),
            external_id,
            plugin_id,
            provider: String::new(),
            provider_version: String::new(),
            capabilities,
            requested_capacity: capacity,
            capacity: Bytes::ZERO,
            topology_request,
            topologies: vec![],
            clone_id,
            snapshot_id,
            mount_options,
            parameters: parameters.unwrap_or_default(),
            context: context.unwrap_or_default(),
            access_mode: None,
            attachment_mode: None,
            read_allocs: BTreeSet::new(),
            write_allocs: BTreeSet::new(),
            allocs: vec![],
            schedulable: false,
            controller_required: false,
            controllers: HealthCount::default(),
            nodes: HealthCount::default(),
            create_index: 0,
            modify_index: 0,
            spec_index: 0,
            create_time: 0,
            modify_time: 0,
            kept_files: vec![],
        }
    }

    /// Returns the value of a field; one that is absent is empty.
    pub fn field(&self, field: VolumeField) -> FieldRef<'_> {
        let (options, topology) = (self.mount_options.as_ref(), self.topology_request.as_ref());
        match field {
            VolumeField::Name => FieldRef::Text(&self.name),
            VolumeField::PluginId => FieldRef::Text(self.plugin_id.as_str()),
            VolumeField::ExternalId => {
                FieldRef::Text(self.external_id.as_ref().map_or("", ExternalId::as_str))
            }
            VolumeField::SnapshotId => {
                FieldRef::Text(self.snapshot_id.as_deref().unwrap_or_default())
            }
            VolumeField::CloneId => FieldRef::Text(self.clone_id.as_deref().unwrap_or_default()),
            VolumeField::CapacityMin => FieldRef::Size(self.requested_capacity.min),
            VolumeField::CapacityMax => FieldRef::Size(self.requested_capacity.max),
            VolumeField::Capability => FieldRef::Capabilities(&self.capabilities),
            VolumeField::FsType => FieldRef::Text(options.map_or("", |options| &options.fs_type)),
            VolumeField::MountFlags => {
                FieldRef::MountFlags(options.map_or(&[], |options| &options.mount_flags))
            }
            VolumeField::Required => {
                FieldRef::Topologies(topology.map_or(&[], |request| &request.required))
            }
            VolumeField::Preferred => {
                FieldRef::Topologies(topology.map_or(&[], |request| &request.preferred))
            }
            VolumeField::Parameters => FieldRef::Map(&self.parameters),
            VolumeField::Context => FieldRef::Map(&self.context),
        }
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Volume {
        let zone = |zone: &str| Topology { segments: [("zone".into(), zone.into())].into() };
        let pair = |value: &str| Some([("key".into(), value.into())].into());
        let size = |size| Bytes::new(size).unwrap_or_default();
        let capability = Capability {
            access_mode: AccessMode::SingleNodeWriter,
            attachment_mode: AttachmentMode::FileSystem,
        };
        let key = NamespacedId::new(Namespace::default(), VolumeId::new("db"));
        Volume::of_request(UnresolvedRequest {
            name: Some("name".into()),
            external_id: Some(ExternalId::new("vol-1")),
            capacity: CapacityRange { min: size(1), max: size(2) },
            topology_request: Some(TopologyRequest {
                required: vec![zone("a")],
                preferred: vec![zone("b")],
            }),
            clone_id: Some("vol-0".into()),
            snapshot_id: Some("snap-0".into()),
            mount_options: Some(MountOptions {
                fs_type: "ext4".into(),
                mount_flags: vec!["ro".into()],
            }),
            parameters: pair("parameter"),
            context: pair("context"),
            ..UnresolvedRequest::new(key, PluginId::new("ebs"), vec![capability])
        })
    }

    #[test]
    fn a_request_with_every_field_of_a_volume_set_is_that_of_the_volume() {
        let volume = example();
        let mut request = UnresolvedRequest::new(volume.key(), PluginId::new(""), vec![]);
        for field in VolumeField::ALL {
            assert!(!volume.field(field).is_empty(), "{field:?} is not in the example");
            assert!(request.field(field).is_none_or(FieldRef::is_empty), "{field:?} is shared");
            request.set_field(field, volume.field(field));
        }
        assert_eq!(request, UnresolvedRequest::of_volume(&volume));
        assert_eq!(Volume::of_request(request), volume);
    }

    #[test]
    fn an_emptied_field_is_that_of_a_volume_without_it() {
        let volume = example();
        let bare = UnresolvedRequest::new(volume.key(), PluginId::new(""), vec![]);
        let mut request = UnresolvedRequest::of_volume(&volume);
        for field in VolumeField::ALL {
            request.set_field(field, volume.field(field).emptied());
            assert!(Volume::of_request(bare.clone()).field(field).is_empty(), "{field:?}");
            assert!(Volume::of_request(request.clone()).field(field).is_empty(), "{field:?}");
        }
    }
}
