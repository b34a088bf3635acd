//! The events that change the state, named in the past participle.
//!
//! Events are the unit of durability. The journal stores them in order, each with an index that is
//! never reused. The meaning of an event never changes: a new meaning gets a new kind, and a new kind
//! or field raises the event version in `store::codec`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::acl_record::{AclEvent, AclKey};
use super::job_record::{AllocEvent, JobEvent};
use super::namespace_record::NamespaceEvent;
use super::record::{CreateRequest, IntentRequest, ProviderFacts, VolumeDefinition};
use super::variable::VariableEvent;
use crate::claim::ClaimEvent;
use nomad_csi_model::{
    AllocId, Bytes, CapacityRange, HostSession, JobKey, Namespace, NamespacedId, Node, NodeId,
    PluginId, PluginInstance, RemoteVolume, SealedSecrets, VariableKey,
};

/// An event with its time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// The time in nanoseconds since the epoch.
    pub at: i64,
    /// The kind of event with its data.
    pub kind: EventKind,
}

/// The kind of an event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum EventKind {
    /// The agent started. Every plugin instance becomes unhealthy until its next fingerprint.
    AgentStarted {
        /// A new unique ID. The ID of the first start stays as the state's origin.
        origin: String,
    },
    /// A server leads: no event of an earlier leader follows. The nodes go on, and so do their plugins. Since version 9.
    LeaderStarted {
        /// A new unique ID. The ID of the first start stays as the state's origin.
        origin: String,
    },
    /// A rotation of the key began: the snapshot at this index has everything sealed with another key, if the
    /// rotation was not interrupted. Since version 7.
    KeyRotationStarted,
    /// A node registered, or changed.
    NodeRegistered {
        /// The complete node.
        node: Node,
    },
    /// A fingerprint found a new or changed plugin instance, which replaces the instances of the plugin
    /// on the node. Written up to version 3.
    PluginInstanceObserved {
        /// The plugin.
        plugin: PluginId,
        /// The node of the instance.
        node: NodeId,
        /// The complete instance.
        instance: Box<PluginInstance>,
    },
    /// A node no longer runs the plugin. Written up to version 3.
    PluginInstanceGone {
        /// The plugin.
        plugin: PluginId,
        /// The node of the instance.
        node: NodeId,
    },
    /// A fingerprint found a new or changed allocation of a plugin. Other allocations on the node stay.
    /// Since version 4.
    PluginAllocObserved {
        /// The plugin.
        plugin: PluginId,
        /// The node of the allocation.
        node: NodeId,
        /// The complete instance with the ID of the allocation.
        instance: Box<PluginInstance>,
    },
    /// An allocation of a plugin ended. The last one removes the plugin (B70, B96). Since version 4.
    PluginAllocGone {
        /// The plugin.
        plugin: PluginId,
        /// The allocation.
        alloc: AllocId,
    },
    /// A volume will be created; recorded before CreateVolume is sent (W14). If the volume is already
    /// being created, this is another attempt of the same generation with a new definition.
    VolumeCreateIntended {
        /// The user's part of the volume.
        definition: Box<VolumeDefinition>,
        /// The sealed secrets.
        secrets: SealedSecrets,
        /// Every other request of this generation that was sent and may have created the volume, the newest
        /// first. Since version 8.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        earlier: Vec<CreateRequest>,
        /// The plugin's allocation whose controller gets the call; `None` in earlier versions. Since version 8.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        instance: Option<AllocId>,
        /// The request of the call; `None` in earlier versions. Since version 9.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request: Option<IntentRequest>,
    },
    /// CreateVolume succeeded.
    VolumeCreated {
        /// The volume.
        key: NamespacedId,
        /// The response.
        provided: Box<ProviderFacts>,
    },
    /// The creation of the volume ended without an answer that it exists.
    VolumeCreateAbandoned {
        /// The volume.
        key: NamespacedId,
        /// The name of a volume that the provider may have, because the creation was given up; `None` if it
        /// certainly has none. Since version 8.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        may_remain: Option<String>,
    },
    /// An existing volume of the provider was registered.
    VolumeRegistered {
        /// The user's part of the volume.
        definition: Box<VolumeDefinition>,
        /// The provider's part, as the user gave it.
        provided: Box<ProviderFacts>,
        /// The sealed secrets.
        secrets: SealedSecrets,
    },
    /// An update was merged into a registered volume.
    VolumeUpdated {
        /// The complete merged definition.
        definition: Box<VolumeDefinition>,
        /// The complete merged provider's part.
        provided: Box<ProviderFacts>,
        /// The complete merged secrets, sealed.
        secrets: SealedSecrets,
    },
    /// A volume will be deleted; recorded before DeleteVolume is sent (W09). May be repeated.
    VolumeDeleteIntended {
        /// The volume.
        key: NamespacedId,
        /// The plugin's allocation whose controller gets the call; `None` in earlier versions. Since version 8.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        instance: Option<AllocId>,
        /// The request of the call; `None` in earlier versions. Since version 9.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request: Option<IntentRequest>,
    },
    /// The volume still exists at the provider, and its deletion ended.
    VolumeDeleteAbandoned {
        /// The volume.
        key: NamespacedId,
    },
    /// DeleteVolume succeeded. The record is removed.
    VolumeDeleted {
        /// The volume.
        key: NamespacedId,
    },
    /// The record is removed; the provider still has the volume.
    VolumeDeregistered {
        /// The volume.
        key: NamespacedId,
    },
    /// A volume will be expanded; recorded before ControllerExpandVolume is sent (W17). May be
    /// repeated with another size. Since version 3.
    VolumeExpandIntended {
        /// The volume.
        key: NamespacedId,
        /// The requested size.
        to: CapacityRange,
        /// The plugin's allocation whose controller gets the call; `None` in earlier versions. Since version 8.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        instance: Option<AllocId>,
        /// The request of the call; `None` in earlier versions. Since version 9.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request: Option<IntentRequest>,
    },
    /// ControllerExpandVolume succeeded. Since version 3.
    VolumeExpanded {
        /// The volume.
        key: NamespacedId,
        /// The new size.
        capacity: Bytes,
        /// True if nodes that use the volume must expand it too.
        node_expansion_required: bool,
    },
    /// The expansion ended without success: nothing carries it out any more. Since version 3.
    VolumeExpandAbandoned {
        /// The volume.
        key: NamespacedId,
        /// True if a controller that is gone may have expanded the volume, so that it may be larger than recorded. Since
        /// version 8.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        may_have_changed: bool,
    },
    /// Mutable parameters of a volume will be changed; recorded before ControllerModifyVolume is sent. May be repeated with
    /// others. Since version 8.
    VolumeModifyIntended {
        /// The volume.
        key: NamespacedId,
        /// The parameters that are sent. Others stay as they are.
        parameters: BTreeMap<String, String>,
        /// The plugin's allocation whose controller gets the call; `None` in earlier versions. Since version 8.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        instance: Option<AllocId>,
        /// The request of the call; `None` in earlier versions. Since version 9.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request: Option<IntentRequest>,
    },
    /// ControllerModifyVolume succeeded: the intended parameters are in force. Since version 8.
    VolumeModified {
        /// The volume.
        key: NamespacedId,
    },
    /// The change of mutable parameters ended without success: nothing carries it out any more. Since version 8.
    VolumeModifyAbandoned {
        /// The volume.
        key: NamespacedId,
        /// True if a controller that is gone may have changed them, so that it is not known which ones are in force.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        may_have_changed: bool,
    },
    /// The claims of a volume changed. Since version 4.
    Claim {
        /// The external volume.
        volume: RemoteVolume,
        /// The change.
        event: Box<ClaimEvent>,
    },
    /// An allocation that claims volumes started. Since version 4.
    AllocStarted {
        /// The allocation.
        alloc: AllocId,
        /// Its node.
        node: NodeId,
    },
    /// The tasks of an allocation ended for good. Since version 4.
    AllocEnded {
        /// The allocation.
        alloc: AllocId,
    },
    /// An allocation without claims is forgotten. Since version 4.
    AllocForgotten {
        /// The allocation.
        alloc: AllocId,
    },
    /// A node started, with a new boot ID if the machine rebooted. Since version 4.
    NodeBooted {
        /// The node.
        node: NodeId,
        /// The boot ID of the machine.
        boot_id: String,
    },
    /// A process of a node can be called. With another session than before, the instances of plugins on the node are
    /// unhealthy until their next fingerprint. Since version 9.
    NodeConnected {
        /// The node.
        node: NodeId,
        /// The run of the node's process, which requests to it must name.
        session: HostSession,
        /// The SHA-256 of the node's secret, in hexadecimal digits; `None` for a node in the server's own process.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        secret_hash: Option<String>,
    },
    /// The connection of a node is gone. Its claims stay. Since version 10.
    NodeDisconnected {
        /// The node.
        node: NodeId,
    },
    /// A node has not been connected for so long that its services are placed elsewhere. Its claims stay. Since version 10.
    NodeDown {
        /// The node.
        node: NodeId,
    },
    /// A node is lost: it is gone, or fenced. Since version 4.
    NodeLost {
        /// The node.
        node: NodeId,
        /// The reason, for people.
        reason: String,
    },
    /// A lost node can be called again, for a sweep. Since version 4.
    NodeReturned {
        /// The node.
        node: NodeId,
    },
    /// Nothing is left on a node that returned, and it is used again. Since version 4.
    NodeSwept {
        /// The node.
        node: NodeId,
    },
    /// A job or one of its evaluations changed. Since version 5.
    Job {
        /// The job.
        job: JobKey,
        /// The change.
        event: Box<JobEvent>,
    },
    /// An allocation that was placed for a job changed. Since version 5.
    PlacedAlloc {
        /// The allocation.
        alloc: AllocId,
        /// The change.
        event: Box<AllocEvent>,
    },
    /// A namespace changed. Since version 6.
    Namespace {
        /// The namespace.
        name: Namespace,
        /// The change.
        event: NamespaceEvent,
    },
    /// The ACL changed. Since version 12.
    Acl {
        /// The object.
        key: AclKey,
        /// The change.
        event: AclEvent,
    },
    /// A variable changed. Since version 2.
    Variable {
        /// The variable.
        key: VariableKey,
        /// The change.
        event: VariableEvent,
    },
}

/// An object that an event reads or changes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Subject {
    /// An object of the ACL.
    Acl(AclKey),
    /// A node.
    Node(NodeId),
    /// A plugin with its allocations.
    Plugin(PluginId),
    /// A volume.
    Volume(NamespacedId),
    /// The claims of an external volume.
    Claims(RemoteVolume),
    /// An allocation.
    Alloc(AllocId),
    /// A job with its evaluations.
    Job(JobKey),
    /// A namespace.
    Namespace(Namespace),
    /// A variable.
    Variable(VariableKey),
}

impl Event {
    /// Creates an event at this time.
    pub fn new(at: i64, kind: EventKind) -> Self {
        Self { at, kind }
    }
}

impl EventKind {
    /// Returns the volume of the event, if the event is about one volume.
    pub fn volume(&self) -> Option<&NamespacedId> {
        match self {
            Self::AgentStarted { .. }
            | Self::LeaderStarted { .. }
            | Self::KeyRotationStarted
            | Self::NodeRegistered { .. }
            | Self::PluginInstanceObserved { .. }
            | Self::PluginInstanceGone { .. }
            | Self::PluginAllocObserved { .. }
            | Self::PluginAllocGone { .. }
            | Self::Claim { .. }
            | Self::AllocStarted { .. }
            | Self::AllocEnded { .. }
            | Self::AllocForgotten { .. }
            | Self::NodeBooted { .. }
            | Self::NodeConnected { .. }
            | Self::NodeDisconnected { .. }
            | Self::NodeDown { .. }
            | Self::NodeLost { .. }
            | Self::NodeReturned { .. }
            | Self::NodeSwept { .. }
            | Self::Job { .. }
            | Self::PlacedAlloc { .. }
            | Self::Namespace { .. }
            | Self::Acl { .. }
            | Self::Variable { .. } => None,
            Self::VolumeCreateIntended { definition, .. }
            | Self::VolumeRegistered { definition, .. }
            | Self::VolumeUpdated { definition, .. } => Some(&definition.key),
            Self::VolumeCreated { key, .. }
            | Self::VolumeCreateAbandoned { key, .. }
            | Self::VolumeDeleteIntended { key, .. }
            | Self::VolumeDeleteAbandoned { key }
            | Self::VolumeDeleted { key }
            | Self::VolumeDeregistered { key }
            | Self::VolumeExpandIntended { key, .. }
            | Self::VolumeExpanded { key, .. }
            | Self::VolumeExpandAbandoned { key, .. }
            | Self::VolumeModifyIntended { key, .. }
            | Self::VolumeModified { key }
            | Self::VolumeModifyAbandoned { key, .. } => Some(key),
        }
    }

    /// Returns the event's name for logs and errors.
    pub fn name(&self) -> &'static str {
        match self {
            Self::AgentStarted { .. } => "agent started",
            Self::LeaderStarted { .. } => "leader started",
            Self::KeyRotationStarted => "key rotation started",
            Self::NodeRegistered { .. } => "node registered",
            Self::PluginInstanceObserved { .. } => "plugin instance observed",
            Self::PluginInstanceGone { .. } => "plugin instance gone",
            Self::PluginAllocObserved { .. } => "plugin allocation observed",
            Self::PluginAllocGone { .. } => "plugin allocation gone",
            Self::VolumeCreateIntended { .. } => "volume create intended",
            Self::VolumeCreated { .. } => "volume created",
            Self::VolumeCreateAbandoned { .. } => "volume create abandoned",
            Self::VolumeRegistered { .. } => "volume registered",
            Self::VolumeUpdated { .. } => "volume updated",
            Self::VolumeDeleteIntended { .. } => "volume delete intended",
            Self::VolumeDeleteAbandoned { .. } => "volume delete abandoned",
            Self::VolumeDeleted { .. } => "volume deleted",
            Self::VolumeDeregistered { .. } => "volume deregistered",
            Self::VolumeExpandIntended { .. } => "volume expand intended",
            Self::VolumeExpanded { .. } => "volume expanded",
            Self::VolumeExpandAbandoned { .. } => "volume expand abandoned",
            Self::VolumeModifyIntended { .. } => "volume modify intended",
            Self::VolumeModified { .. } => "volume modified",
            Self::VolumeModifyAbandoned { .. } => "volume modify abandoned",
            Self::Claim { event, .. } => event.name(),
            Self::AllocStarted { .. } => "allocation started",
            Self::AllocEnded { .. } => "allocation ended",
            Self::AllocForgotten { .. } => "allocation forgotten",
            Self::NodeBooted { .. } => "node booted",
            Self::NodeConnected { .. } => "node connected",
            Self::NodeDisconnected { .. } => "node disconnected",
            Self::NodeDown { .. } => "node down",
            Self::NodeLost { .. } => "node lost",
            Self::NodeReturned { .. } => "node returned",
            Self::NodeSwept { .. } => "node swept",
            Self::Job { event, .. } => event.name(),
            Self::PlacedAlloc { event, .. } => event.name(),
            Self::Namespace { event, .. } => event.name(),
            Self::Acl { event, .. } => event.name(),
            Self::Variable { event, .. } => event.name(),
        }
    }
}
