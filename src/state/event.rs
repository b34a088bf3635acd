//! Everything that can happen to the state, in the past participle.
//!
//! An event is the unit of durability: the journal holds events in order, each has the index that
//! its place gives it, and an index is never given twice. What an event means never changes:
//! a new meaning is a new kind, and a new kind or field raises `store::codec`'s event version.

use serde::{Deserialize, Serialize};

use super::record::{Provided, VolumeDefinition};
use super::variable::VariableEvent;
use crate::model::{
    Bytes, CapacityRange, NamespacedId, Node, NodeId, PluginId, PluginInstance, SealedSecrets,
    VariableKey,
};

/// Something happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// When, nanoseconds since the epoch.
    pub at: i64,
    /// What.
    pub kind: EventKind,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum EventKind {
    /// The agent started. What it knew of plugins may be over: every instance is unhealthy until it
    /// is fingerprinted again.
    AgentStarted {
        /// A new unique ID; that of the first start stays, as the state's origin.
        origin: String,
    },
    /// A node is there, or says something new of itself.
    NodeRegistered {
        /// All of it.
        node: Node,
    },
    /// A fingerprint found something new of a plugin's instance.
    PluginInstanceObserved {
        /// Whose instance.
        plugin: PluginId,
        /// On which node.
        node: NodeId,
        /// All that was found.
        instance: Box<PluginInstance>,
    },
    /// A node no longer runs the plugin; with its last instance the plugin is gone (B70).
    PluginInstanceGone {
        /// Whose instance.
        plugin: PluginId,
        /// On which node.
        node: NodeId,
    },
    /// A volume is about to be created: recorded before CreateVolume is sent (W14). Of one that is
    /// being created already: another attempt, of the same generation, with this definition.
    VolumeCreateIntended {
        /// What the user asked for.
        definition: Box<VolumeDefinition>,
        /// Sealed.
        secrets: SealedSecrets,
    },
    /// CreateVolume answered.
    VolumeCreated {
        /// Which.
        key: NamespacedId,
        /// The answer.
        provided: Box<Provided>,
    },
    /// The volume is known not to exist in the provider: nothing is left to do for it.
    VolumeCreateAbandoned {
        /// Which.
        key: NamespacedId,
    },
    /// A volume that the provider has already was registered.
    VolumeRegistered {
        /// What the user asked for.
        definition: Box<VolumeDefinition>,
        /// What the user said for the provider.
        provided: Box<Provided>,
        /// Sealed.
        secrets: SealedSecrets,
    },
    /// An update was merged into a registered volume.
    VolumeUpdated {
        /// All of it, merged.
        definition: Box<VolumeDefinition>,
        /// All of it, merged.
        provided: Box<Provided>,
        /// All of them, merged and sealed.
        secrets: SealedSecrets,
    },
    /// A volume is about to be deleted: recorded before DeleteVolume is sent (W09). May be repeated.
    VolumeDeleteIntended {
        /// Which.
        key: NamespacedId,
    },
    /// The provider has not deleted the volume, and is known not to.
    VolumeDeleteAbandoned {
        /// Which.
        key: NamespacedId,
    },
    /// DeleteVolume answered: the volume is gone, and so is its record.
    VolumeDeleted {
        /// Which.
        key: NamespacedId,
    },
    /// The record is gone; the provider still has the volume.
    VolumeDeregistered {
        /// Which.
        key: NamespacedId,
    },
    /// A volume is about to be expanded: recorded before ControllerExpandVolume is sent (W17). May be
    /// repeated, also with another size. Since version 3.
    VolumeExpandIntended {
        /// Which.
        key: NamespacedId,
        /// How large it shall be.
        to: CapacityRange,
    },
    /// ControllerExpandVolume answered. Since version 3.
    VolumeExpanded {
        /// Which.
        key: NamespacedId,
        /// How large it is now.
        capacity: Bytes,
        /// Whether nodes that use it have to follow.
        node_expansion_required: bool,
    },
    /// The provider has not expanded the volume, and is known not to. Since version 3.
    VolumeExpandAbandoned {
        /// Which.
        key: NamespacedId,
    },
    /// Something happened to a variable. Since version 2.
    Variable {
        /// Which.
        key: VariableKey,
        /// What.
        event: VariableEvent,
    },
}

/// The one thing that an event is about: it reads and changes nothing else.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Subject {
    /// A volume.
    Volume(NamespacedId),
    /// A variable.
    Variable(VariableKey),
}

impl Event {
    /// That, at this time.
    pub fn new(at: i64, kind: EventKind) -> Self {
        Self { at, kind }
    }
}

impl EventKind {
    /// What it is about, if it is about one thing.
    pub fn subject(&self) -> Option<Subject> {
        if let Self::Variable { key, .. } = self {
            return Some(Subject::Variable(key.clone()));
        }
        self.volume().cloned().map(Subject::Volume)
    }

    /// The volume that it is about, if it is about one: it reads and changes nothing else.
    pub fn volume(&self) -> Option<&NamespacedId> {
        match self {
            Self::AgentStarted { .. }
            | Self::NodeRegistered { .. }
            | Self::PluginInstanceObserved { .. }
            | Self::PluginInstanceGone { .. }
            | Self::Variable { .. } => None,
            Self::VolumeCreateIntended { definition, .. }
            | Self::VolumeRegistered { definition, .. }
            | Self::VolumeUpdated { definition, .. } => Some(&definition.key),
            Self::VolumeCreated { key, .. }
            | Self::VolumeCreateAbandoned { key }
            | Self::VolumeDeleteIntended { key }
            | Self::VolumeDeleteAbandoned { key }
            | Self::VolumeDeleted { key }
            | Self::VolumeDeregistered { key }
            | Self::VolumeExpandIntended { key, .. }
            | Self::VolumeExpanded { key, .. }
            | Self::VolumeExpandAbandoned { key } => Some(key),
        }
    }

    /// Its name, for logs and errors.
    pub fn name(&self) -> &'static str {
        match self {
            Self::AgentStarted { .. } => "agent started",
            Self::NodeRegistered { .. } => "node registered",
            Self::PluginInstanceObserved { .. } => "plugin instance observed",
            Self::PluginInstanceGone { .. } => "plugin instance gone",
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
            Self::Variable { event, .. } => event.name(),
        }
    }
}
