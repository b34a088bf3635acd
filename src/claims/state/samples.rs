//! States and histories for tests: small ones by hand, long ones from a seed.

mod claims;
pub mod jobs;

use super::acl_record::{AclEntry, AclEvent, AclKey, AclPolicyEntry, AclTokenEntry};
use super::apply::{apply, check};
use super::event::{Event, EventKind};
use super::namespace_record::NamespaceEvent;
use super::record::{IntentRequest, ProviderFacts, VolumeDefinition};
use super::recorded_options::{RecordedFlags, RecordedMountOptions};
use super::tables::State;
use super::variable::{LockTerms, VariableEvent};
use nomad_csi_model::{
    AccessMode, AllocId, AttachmentMode, Bytes, Capability, CapacityRange, ControllerCapabilities,
    ControllerInfo, ExternalId, ExternalNodeId, Health, Namespace, NamespacedId, Node,
    NodeCapabilities, NodeId, NodeInfo, PluginId, PluginInstance, SealedSecrets, Topology,
    TopologyRequest, VariableKey, VariablePath, VolumeId,
};

/// Returns the key of a volume.
pub fn key(namespace: &str, id: &str) -> NamespacedId {
    NamespacedId::new(Namespace::new(namespace), VolumeId::new(id))
}

/// Returns a volume of plugin `hostpath` with a value in every field.
pub fn definition(key: &NamespacedId) -> VolumeDefinition {
    let zone = Topology { segments: [("zone".to_owned(), "a".to_owned())].into() };
    VolumeDefinition {
        key: key.clone(),
        name: format!("{} of {}", key.id, key.namespace),
        plugin_id: PluginId::new("hostpath"),
        capabilities: vec![Capability {
            access_mode: AccessMode::SingleNodeWriter,
            attachment_mode: AttachmentMode::FileSystem,
        }]
        .into(),
        capacity: CapacityRange { min: Bytes::from_wire(1 << 30), max: Bytes::from_wire(2 << 30) },
        topology_request: Some(TopologyRequest { required: vec![zone], preferred: vec![] }.into()),
        clone_id: None,
        snapshot_id: Some("snap-1".to_owned()),
        mount_options: Some(RecordedMountOptions {
            fs_type: "ext4".to_owned(),
            mount_flags: RecordedFlags::default(),
        }),
        parameters: [("type".to_owned(), "fast".to_owned())].into(),
    }
}

/// Returns the provider's part of a volume with this external ID.
pub fn provided(external_id: &str) -> ProviderFacts {
    ProviderFacts {
        provider: "hostpath.example.com".into(),
        provider_version: "1.0.0".into(),
        external_id: Some(ExternalId::new(external_id)),
        capacity: Bytes::from_wire(1 << 30),
        context: [("path".to_owned(), "/data".to_owned())].into(),
        topologies: vec![].into(),
    }
}

/// Returns an instance with both services.
pub fn instance(healthy: bool) -> PluginInstance {
    PluginInstance {
        alloc_id: AllocId::new("task-1"),
        health: Health {
            healthy,
            description: if healthy { "healthy" } else { "unhealthy" }.to_owned(),
        },
        updated_at: 1,
        provider: "hostpath.example.com".to_owned(),
        provider_version: "1.1.0".to_owned(),
        process: Some("run 1".to_owned()),
        requires_controller: true,
        requires_topologies: false,
        controller: Some(ControllerInfo { capabilities: ControllerCapabilities::default() }),
        node: Some(NodeInfo {
            storage: vec![],
            capabilities: NodeCapabilities::default(),
            external_node_id: ExternalNodeId::new("node-1"),
            max_volumes: None,
            accessible_topology: None,
        }),
    }
}

/// Returns the first event of every history.
pub fn started() -> EventKind {
    EventKind::AgentStarted { origin: "2f6d1c7e-0000-4000-8000-000000000001".to_owned() }
}

/// Returns the registration of a volume with this external ID.
pub fn registered(key: &NamespacedId, external_id: &str) -> EventKind {
    EventKind::VolumeRegistered {
        definition: Box::new(definition(key)),
        provided: Box::new(provided(external_id)),
        secrets: SealedSecrets::default(),
    }
}

/// Returns the intent to create a volume.
pub fn create_intended(key: &NamespacedId) -> EventKind {
    EventKind::VolumeCreateIntended {
        definition: Box::new(definition(key)),
        secrets: SealedSecrets::default(),
        earlier: vec![],
        instance: None,
        request: None,
    }
}

/// Returns a successful creation with this external ID.
pub fn created(key: &NamespacedId, external_id: &str) -> EventKind {
    EventKind::VolumeCreated { key: key.clone(), provided: Box::new(provided(external_id)) }
}

/// Returns the state after these events, one second apart. Invalid events have no effect.
pub fn state_of(kinds: impl IntoIterator<Item = EventKind>) -> State {
    let mut state = State::default();
    for (second, kind) in (1..).zip(kinds) {
        apply(&mut state, &Event::new(second * 1_000_000_000, kind));
    }
    state
}

/// A long random history without invalid events, the same for equal seeds.
#[derive(Clone, Debug)]
pub struct History {
    chance: u64,
    state: State,
}

impl History {
    /// Creates the history of a seed. Its first event is a start of the agent.
    pub fn new(seed: u64) -> Self {
        Self { chance: seed, state: State::default() }
    }

    /// Returns the state after all events so far.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Returns a random number in `0..bound` (splitmix64).
    fn choose(&mut self, bound: u64) -> u64 {
        self.chance = self.chance.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.chance;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    fn any_kind(&mut self) -> EventKind {
        let namespaces = ["default", "prod"];
        let namespace = namespaces[usize::from(self.choose(4) == 0)];
        let key = key(namespace, &format!("volume-{}", self.choose(12)));
        let external_id = format!("ext-{}", self.choose(40));
        if self.choose(20) == 0 {
            return self.any_namespace_event();
        }
        if self.choose(24) == 0 {
            return self.any_acl_event();
        }
        if self.choose(6) == 0 {
            return self.any_job_event();
        }
        if self.choose(5) == 0 {
            return self.any_variable_event();
        }
        if self.choose(8) == 0 {
            return self.any_expansion(key);
        }
        if self.choose(8) == 0 {
            return self.any_modification(key);
        }
        if self.choose(2) == 0
            && let Some(event) = self.any_claim_event()
        {
            return event;
        }
        match self.choose(16) {
            0 => started(),
            1 => node_registered(self.choose(3)),
            2 | 3 => self.any_plugin_event(),
            4 | 5 => EventKind::VolumeCreateIntended {
                definition: Box::new(definition(&key)),
                secrets: SealedSecrets::default(),
                earlier: vec![],
                instance: self.any_instance(),
                request: self.any_request(),
            },
            6..=8 => created(&key, &external_id),
            9 => EventKind::VolumeCreateAbandoned { key, may_remain: None },
            10 | 11 => registered(&key, &external_id),
            12 => EventKind::VolumeUpdated {
                definition: Box::new(definition(&key)),
                provided: Box::new(provided(&external_id)),
                secrets: SealedSecrets::new(external_id.into_bytes()),
            },
            13 => EventKind::VolumeDeleteIntended {
                key,
                instance: self.any_instance(),
                request: self.any_request(),
            },
            14 => EventKind::VolumeDeleteAbandoned { key },
            _ if self.choose(2) == 0 => EventKind::VolumeDeleted { key },
            _ => EventKind::VolumeDeregistered { key },
        }
    }
}

impl History {
    /// Returns an allocation of the plugin, as [`Self::any_plugin_event`] names them, for the random number before.
    fn any_instance(&self) -> Option<AllocId> {
        let (number, generation) = (self.chance % 3, self.chance / 3 % 2);
        let is_unnamed = (self.chance / 6).is_multiple_of(4);
        (!is_unnamed).then(|| AllocId::new(format!("task-{number}-{generation}")))
    }

    fn any_request(&self) -> Option<IntentRequest> {
        let (number, has_new_instance) =
            (self.chance / 24 % 3, (self.chance / 72).is_multiple_of(4));
        let fingerprint = format!("request-{number}");
        (number > 0).then_some(IntentRequest { fingerprint, has_new_instance })
    }

    fn any_expansion(&mut self, key: NamespacedId) -> EventKind {
        let size = Bytes::from_wire(1 << (30 + self.choose(4)));
        match self.choose(4) {
            0 | 1 => EventKind::VolumeExpandIntended {
                key,
                to: CapacityRange { min: size, max: Bytes::ZERO },
                instance: self.any_instance(),
                request: self.any_request(),
            },
            2 => EventKind::VolumeExpanded {
                key,
                capacity: size,
                node_expansion_required: self.choose(2) == 0,
            },
            _ => EventKind::VolumeExpandAbandoned { key, may_have_changed: self.choose(2) == 0 },
        }
    }

    fn any_modification(&mut self, key: NamespacedId) -> EventKind {
        let value = self.choose(3).to_string();
        match self.choose(4) {
            0 | 1 => EventKind::VolumeModifyIntended {
                key,
                parameters: [(format!("p{value}"), value)].into(),
                instance: self.any_instance(),
                request: self.any_request(),
            },
            2 => EventKind::VolumeModified { key },
            _ => EventKind::VolumeModifyAbandoned { key, may_have_changed: self.choose(2) == 0 },
        }
    }

    fn any_namespace_event(&mut self) -> EventKind {
        let names = ["default", "prod", "ops"];
        let name = names[usize::try_from(self.choose(3)).unwrap_or_default()];
        let written = NamespaceEvent::Written {
            description: format!("description {}", self.choose(4)),
            meta: [("team".to_owned(), "storage".to_owned())].into(),
        };
        let event = match self.choose(3) {
            0 => NamespaceEvent::Deleted,
            _ => written,
        };
        EventKind::Namespace { name: Namespace::new(name), event }
    }

    fn any_acl_event(&mut self) -> EventKind {
        let number = self.choose(3);
        let (key, entry) = match self.choose(4) {
            0 => (AclKey::Bootstrap, AclEntry::Bootstrapped),
            1 => {
                let rules = format!("node {{ policy = \"read\" }} # {}", self.choose(4));
                let entry = AclPolicyEntry { description: String::new(), rules };
                (AclKey::Policy(format!("policy-{number}")), AclEntry::Policy(entry))
            }
            _ => {
                let entry = AclTokenEntry {
                    name: format!("token {number}"),
                    policies: (self.choose(3) > 0).then(|| [format!("policy-{number}")].into()),
                    is_global: false,
                    secret_hash: format!("hash-{}", self.choose(4)),
                    expires_at: (self.choose(2) > 0).then_some(1),
                };
                (AclKey::Token(format!("token-{number}")), AclEntry::Token(entry))
            }
        };
        let known = self.state.acl(&key).map(|record| record.modify_index);
        let expected = match self.choose(3) {
            0 => known,
            1 => Some(self.choose(50)),
            _ => None,
        };
        let event = match self.choose(4) {
            0 => AclEvent::Deleted,
            _ => AclEvent::Written { entry, expected },
        };
        EventKind::Acl { key, event }
    }

    fn any_plugin_event(&mut self) -> EventKind {
        let plugin = PluginId::new("hostpath");
        let number = self.choose(3);
        let node = NodeId::new(format!("node-{number}"));
        let alloc = AllocId::new(format!("task-{number}-{}", self.choose(2)));
        let mut instance =
            Box::new(PluginInstance { alloc_id: alloc.clone(), ..instance(self.choose(2) == 0) });
        if let Some(controller) = &mut instance.controller {
            controller.capabilities.publish_unpublish_volume = self.choose(4) > 0;
        }
        if let Some(node) = &mut instance.node {
            node.capabilities.stage_unstage_volume = self.choose(4) > 0;
        }
        match self.choose(6) {
            0 => EventKind::PluginInstanceObserved { plugin, node, instance },
            1 => EventKind::PluginInstanceGone { plugin, node },
            2 | 3 => EventKind::PluginAllocObserved { plugin, node, instance },
            _ => EventKind::PluginAllocGone { plugin, alloc },
        }
    }

    fn any_variable_event(&mut self) -> EventKind {
        let namespaces = ["default", "prod"];
        let namespace = namespaces[usize::from(self.choose(4) == 0)];
        let path = format!("app/{}", self.choose(6));
        let id = format!("lock-{}", self.choose(2));
        let items = SealedSecrets::new(vec![1, 2, 3]);
        let event = match self.choose(9) {
            0..=2 => VariableEvent::Written { items },
            3 | 4 => VariableEvent::LockAcquired {
                items,
                terms: LockTerms { id, ttl: 15_000_000_000, delay: 15_000_000_000 },
            },
            5 => VariableEvent::LockRenewed { id },
            6 => VariableEvent::LockReleased { id },
            7 => VariableEvent::LockExpired { id },
            _ => VariableEvent::Deleted,
        };
        EventKind::Variable {
            key: VariableKey::new(Namespace::new(namespace), VariablePath::new(path)),
            event,
        }
    }
}

/// Returns the registration of node `node-<number>`.
pub fn node_registered(number: u64) -> EventKind {
    EventKind::NodeRegistered {
        node: Node::new(NodeId::new(format!("node-{number}")), format!("machine {number}"), "dc1"),
    }
}

impl Iterator for History {
    type Item = Event;

    /// Returns the next valid event; the history never ends.
    fn next(&mut self) -> Option<Event> {
        let at = i64::try_from(self.state.index()).unwrap_or(i64::MAX);
        loop {
            let kind = match self.state.origin().is_empty() {
                true => started(),
                false => self.any_kind(),
            };
            let event = Event::new(at, kind);
            if check(&self.state, &event).is_ok() {
                apply(&mut self.state, &event);
                return Some(event);
            }
        }
    }
}
