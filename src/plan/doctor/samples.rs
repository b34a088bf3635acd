//! A healthy volume with its facts, for the tests of the rules.

use std::collections::BTreeMap;

use super::diagnose::diagnose;
use super::facts::VolumeFacts;
use super::finding::{Finding, Rule};
use crate::{DetachRule, PluginState, ProviderList};
use nomad_csi_model::{
    Alloc, AllocId, BlockedEvaluation, Bytes, CapacityRange, ClaimProblem, ClientNode,
    ClientStatus, DesiredStatus, ExternalId, ExternalNodeId, ExternalVolume, Health, HealthCount,
    Namespace, NamespacedId, NodeCapabilities, NodeId, NodeInfo, Plugin, PluginId, PluginInstance,
    PluginSummary, SeenNodes, UnstartedAlloc, Volume, VolumeAlias, VolumeClaim, VolumeHealth,
    VolumeId,
};
use nomad_csi_testing::alloc_samples::alloc;

const ONE: HealthCount = HealthCount { healthy: 1, expected: 1 };
pub(super) const NOW: i64 = 1_000_000_000_000;

/// Facts that a test changes.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    pub volume: Volume,
    pub claims: Option<Vec<VolumeClaim>>,
    pub plugin: PluginState,
    pub nodes: Option<Vec<ClientNode>>,
    pub detach: DetachRule,
    pub provider: ProviderList,
    pub health: Option<VolumeHealth>,
    pub evaluations: Vec<BlockedEvaluation>,
    pub unclaimed: Option<Vec<Alloc>>,
    pub unstarted: Vec<UnstartedAlloc>,
    pub sharing: Option<Vec<Volume>>,
}

impl Facts {
    /// A volume that nothing claims, with its plugin on node `n1` named `worker-1`, on Nomad.
    pub(super) fn healthy() -> Self {
        let listed = external_volume();
        Self {
            volume: volume(),
            claims: None,
            plugin: PluginState::Known(Box::new(plugin())),
            nodes: Some(vec![node("n1", "worker-1"), node("n2", "worker-2")]),
            detach: DetachRule::Releases,
            provider: ProviderList::Listed([(listed.external_id.clone(), listed)].into()),
            health: None,
            evaluations: vec![],
            unclaimed: Some(vec![]),
            unstarted: vec![],
            sharing: Some(vec![]),
        }
    }

    pub(super) fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    pub(super) fn plugin_mut(&mut self) -> &mut Plugin {
        match &mut self.plugin {
            PluginState::Known(plugin) => plugin,
            PluginState::Missing | PluginState::Unknown => panic!("the sample has a plugin"),
        }
    }

    pub(super) fn listed_mut(&mut self) -> &mut ExternalVolume {
        match &mut self.provider {
            ProviderList::Listed(volumes) => volumes.values_mut().next().unwrap(),
            ProviderList::Unknown(_) => panic!("the sample has a list"),
        }
    }

    /// Adds a write claim of an allocation on node `n1` that last changed ten minutes ago.
    pub(super) fn claimed(mut self, desired: DesiredStatus, client: ClientStatus) -> Self {
        self.volume.write_allocs.insert(AllocId::new("a1"));
        self.volume.allocs.push(Alloc {
            node_name: "worker-1".to_owned(),
            create_time: NOW - 3_600_000_000_000,
            modify_time: NOW - 600_000_000_000,
            ..alloc("a1", "n1", desired, client)
        });
        self
    }
}

/// Returns all findings.
pub(super) fn findings(facts: &Facts) -> Vec<Finding> {
    let nodes = facts.nodes.clone().map_or_else(SeenNodes::default, SeenNodes::Read);
    diagnose(&VolumeFacts {
        volume: &facts.volume,
        claims: facts.claims.as_deref(),
        plugin: &facts.plugin,
        nodes: &nodes,
        detach: facts.detach,
        provider: &facts.provider,
        health: facts.health.as_ref(),
        evaluations: &facts.evaluations,
        unclaimed: facts.unclaimed.as_deref(),
        unstarted: &facts.unstarted,
        sharing: facts.sharing.as_deref(),
        now: NOW,
    })
}

/// Returns the rules of all findings.
pub(super) fn rules(facts: &Facts) -> Vec<Rule> {
    findings(facts).iter().map(|finding| finding.rule).collect()
}

/// A published claim of allocation `a1` on node `n1`.
pub(super) fn claim() -> VolumeClaim {
    VolumeClaim {
        volume: NamespacedId::new(Namespace::default(), VolumeId::new("db")),
        alloc: AllocId::new("a1"),
        alias: VolumeAlias::new("db"),
        node: NodeId::new("n1"),
        plugin_id: PluginId::new("ebs"),
        external_id: ExternalId::new("vol-1"),
        access_mode: "single-node-writer".to_owned(),
        attachment_mode: "file-system".to_owned(),
        read_only: false,
        state: "published".to_owned(),
        is_published: true,
        target_path: "/t".to_owned(),
        granted_at: NOW - 60_000_000_000,
        failed_attempts: 0,
        next_attempt: None,
        problem: None,
    }
}

pub(super) fn problem(help: Option<&str>) -> ClaimProblem {
    ClaimProblem {
        step: "NodeUnpublishVolume".to_owned(),
        error: "the target is busy".to_owned(),
        help: help.map(str::to_owned),
        since: NOW - 30_000_000_000,
    }
}

fn node(id: &str, name: &str) -> ClientNode {
    ClientNode {
        id: NodeId::new(id),
        name: name.to_owned(),
        status: "ready".to_owned(),
        is_fenced: false,
        has_returned: false,
        description: String::new(),
        modify_index: 0,
    }
}

fn external_volume() -> ExternalVolume {
    ExternalVolume {
        health: None,
        external_id: ExternalId::new("vol-1"),
        capacity: Bytes::default(),
        context: BTreeMap::new(),
        clone_id: None,
        snapshot_id: None,
        published_nodes: vec![],
        condition: None,
    }
}

fn instance(alloc: &str, external_node: &str) -> PluginInstance {
    PluginInstance {
        alloc_id: AllocId::new(alloc),
        health: Health { healthy: true, description: "healthy".to_owned() },
        updated_at: 0,
        provider: "csi.example".to_owned(),
        provider_version: "1".to_owned(),
        process: None,
        requires_controller: true,
        requires_topologies: false,
        controller: None,
        node: Some(NodeInfo {
            storage: vec![],
            capabilities: NodeCapabilities::default(),
            external_node_id: ExternalNodeId::new(external_node),
            max_volumes: None,
            accessible_topology: None,
        }),
    }
}

pub(super) fn plugin() -> Plugin {
    Plugin {
        summary: PluginSummary {
            id: PluginId::new("ebs"),
            provider: "csi.example".to_owned(),
            controller_required: true,
            controllers: ONE,
            nodes: ONE,
        },
        version: "1".to_owned(),
        controllers: BTreeMap::new(),
        nodes: [
            (NodeId::new("n1"), instance("p1", "i-1")),
            (NodeId::new("n2"), instance("p2", "i-2")),
        ]
        .into(),
        allocs: vec![],
    }
}

fn volume() -> Volume {
    Volume {
        namespace: Namespace::default(),
        id: VolumeId::new("db"),
        name: "db".to_owned(),
        external_id: Some(ExternalId::new("vol-1")),
        plugin_id: PluginId::new("ebs"),
        provider: "csi.example".to_owned(),
        provider_version: "1".to_owned(),
        capabilities: vec![],
        requested_capacity: CapacityRange::default(),
        capacity: Bytes::default(),
        topology_request: None,
        topologies: vec![],
        clone_id: None,
        snapshot_id: None,
        mount_options: None,
        parameters: BTreeMap::new(),
        context: BTreeMap::new(),
        access_mode: None,
        attachment_mode: None,
        read_allocs: [].into(),
        write_allocs: [].into(),
        allocs: vec![],
        schedulable: true,
        controller_required: true,
        controllers: ONE,
        nodes: ONE,
        create_index: 1,
        modify_index: 1,
        spec_index: 1,
        create_time: 0,
        modify_time: 0,
        kept_files: vec![],
    }
}
