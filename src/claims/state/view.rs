//! Volumes and plugins as readers get them.
//!
//! Views are computed on every read, so health and counts always match their sources.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::claims_record::ClaimsRecord;
use super::plugin_jobs::ExpectedInstances;
use super::plugin_record::PluginRecord;
use super::record::VolumeRecord;
use crate::claim::{Claim, ClaimKey, Intent};
use nomad_csi_model::{
    Alloc, AllocId, Capability, ClientStatus, DesiredStatus, HealthCount, Plugin, PluginId,
    PluginInstance, PluginSummary, Volume, VolumeSummary,
};

/// The health and identity of a plugin, computed from its instances.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PluginStatus {
    /// The plugin's name from GetPluginInfo; empty if unknown.
    pub provider: String,
    /// The plugin's version from GetPluginInfo; empty if unknown.
    pub provider_version: String,
    /// True if any instance requires a controller (W18).
    pub controller_required: bool,
    /// The health of the nodes with the controller service.
    pub controllers: HealthCount,
    /// The health of the nodes with the node service.
    pub nodes: HealthCount,
}

impl PluginStatus {
    /// Returns whether an allocation that uses a volume of the plugin can be placed.
    pub fn is_schedulable(&self) -> bool {
        self.nodes.healthy > 0 && (!self.controller_required || self.controllers.healthy > 0)
    }
}

impl PluginStatus {
    /// The status of a plugin with these instances, of which so many are expected.
    pub(super) fn new(record: Option<&PluginRecord>, expected: ExpectedInstances) -> Self {
        let instances = || {
            let allocs = record.into_iter().flat_map(|record| record.allocs.values());
            allocs.map(|alloc| &alloc.instance)
        };
        let last_report =
            |instance: &&PluginInstance| (instance.health.healthy, instance.updated_at);
        let source = instances().max_by_key(last_report);
        let healthy = |has_service: fn(&PluginInstance) -> bool| {
            let by_node = record.map(|record| record.by_node(has_service));
            let serving = by_node.into_iter().flat_map(BTreeMap::into_values);
            let healthy = serving.filter(|instance| instance.health.healthy);
            u64::try_from(healthy.count()).unwrap_or(u64::MAX)
        };
        Self {
            provider: source.map(|i| i.provider.clone()).unwrap_or_default(),
            provider_version: source.map(|i| i.provider_version.clone()).unwrap_or_default(),
            controller_required: instances().any(|instance| instance.requires_controller),
            controllers: HealthCount {
                healthy: healthy(|instance| instance.controller.is_some()),
                expected: expected.controllers,
            },
            nodes: HealthCount {
                healthy: healthy(|instance| instance.node.is_some()),
                expected: expected.nodes,
            },
        }
    }
}

/// A volume's record with the status of its plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeView {
    /// The volume's record.
    pub record: Arc<VolumeRecord>,
    /// The claims of its external volume, through any registration.
    pub claims: Option<Arc<ClaimsRecord>>,
    /// The status of the plugin.
    pub plugin: Arc<PluginStatus>,
    /// The jobs and groups that the claiming allocations were placed for, by allocation. Only a volume that is read alone has them.
    pub placed: BTreeMap<AllocId, Alloc>,
}

impl VolumeView {
    /// Returns the complete volume with hidden mount flags and hidden secrets in its context.
    pub fn volume(&self) -> Volume {
        let VolumeRecord { definition, provided, .. } = &*self.record;
        let (provider, provider_version) = self.provider();
        Volume {
            external_id: provided.external_id.clone(),
            provider: provider.to_owned(),
            provider_version: provider_version.to_owned(),
            capacity: provided.capacity,
            topologies: provided.topologies.to_vec(),
            context: provided.context.to_shown_map(),
            access_mode: self.modes().map(|modes| modes.access_mode),
            attachment_mode: self.modes().map(|modes| modes.attachment_mode),
            read_allocs: self.allocs(|claim| claim.read_only),
            write_allocs: self.allocs(|claim| !claim.read_only),
            allocs: self.own_claims().map(|claim| self.alloc(claim)).collect(),
            schedulable: self.plugin.is_schedulable(),
            controller_required: self.plugin.controller_required,
            controllers: self.plugin.controllers,
            nodes: self.plugin.nodes,
            create_index: self.record.create_index,
            modify_index: self.record.visible_index(),
            spec_index: self.record.modify_index,
            create_time: self.record.create_time,
            modify_time: self.record.visible_time(),
            ..definition.volume()
        }
    }

    /// Returns since when a node has had no room for the volume, in nanoseconds since the epoch; 0 if all nodes have
    /// (B87).
    pub fn exhausted_since(&self) -> i64 {
        let claims = self.claims.iter().flat_map(|record| record.claims.claims.values());
        claims.filter_map(Claim::exhausted_since).max().unwrap_or_default()
    }

    /// Returns the entry in a list.
    pub fn summary(&self) -> VolumeSummary {
        let VolumeRecord { definition, provided, .. } = &*self.record;
        VolumeSummary {
            namespace: definition.key.namespace.clone(),
            id: definition.key.id.clone(),
            name: definition.name.clone(),
            external_id: provided.external_id.clone(),
            plugin_id: definition.plugin_id.clone(),
            provider: self.provider().0.to_owned(),
            schedulable: self.plugin.is_schedulable(),
            access_mode: self.modes().map(|modes| modes.access_mode),
            attachment_mode: self.modes().map(|modes| modes.attachment_mode),
            readers: self.count(|claim| claim.read_only),
            writers: self.count(|claim| !claim.read_only),
            create_index: self.record.create_index,
            modify_index: self.record.visible_index(),
            spec_index: self.record.modify_index,
        }
    }

    /// Returns the modes in force, which the first claim set (B14).
    fn modes(&self) -> Option<Capability> {
        self.claims.as_ref()?.claims.modes
    }

    /// Returns the claims through this registration.
    fn own_claims(&self) -> impl Iterator<Item = (&ClaimKey, &Claim)> {
        let claims = self.claims.iter();
        claims.flat_map(|record| record.claims.through(self.record.key()))
    }

    fn alloc(&self, claim: (&ClaimKey, &Claim)) -> Alloc {
        let placed = self.placed.get(&claim.0.alloc).cloned();
        placed.unwrap_or_else(|| alloc_of_claim(claim))
    }

    fn allocs(&self, is_selected: fn(&Claim) -> bool) -> BTreeSet<AllocId> {
        let claims = self.own_claims().filter(|(_, claim)| is_selected(claim));
        claims.map(|(key, _)| key.alloc.clone()).collect()
    }

    fn count(&self, is_selected: fn(&Claim) -> bool) -> u64 {
        u64::try_from(self.allocs(is_selected).len()).unwrap_or(u64::MAX)
    }

    /// Returns the provider from the plugin, or from the volume's last write (B58).
    pub(super) fn provider(&self) -> (&str, &str) {
        if self.plugin.provider.is_empty() {
            let provided = &self.record.provided;
            (&provided.provider, &provided.provider_version)
        } else {
            (&self.plugin.provider, &self.plugin.provider_version)
        }
    }
}

/// The allocation of a claim. What its job and group are, the claim does not tell.
fn alloc_of_claim((key, claim): (&ClaimKey, &Claim)) -> Alloc {
    let (desired, client) = match claim.intent {
        Intent::Hold => (DesiredStatus::Run, ClientStatus::Running),
        Intent::Release => (DesiredStatus::Stop, ClientStatus::Complete),
    };
    Alloc {
        id: key.alloc.clone(),
        node_id: claim.node.clone(),
        node_name: String::new(),
        evaluation_id: String::new(),
        job_id: String::new(),
        task_group: String::new(),
        job_version: 0,
        desired,
        client,
        create_time: claim.granted_at,
        modify_time: claim.granted_at,
    }
}

/// A plugin as readers get it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginView {
    /// The plugin. Its allocations are those of jobs.
    pub plugin: Plugin,
    /// The index of the creation.
    pub create_index: u64,
    /// The index of the last change.
    pub modify_index: u64,
    /// The time of the first fingerprint, in nanoseconds since the epoch.
    pub create_time: i64,
    /// The time of the last change, in nanoseconds since the epoch.
    pub modify_time: i64,
}

impl PluginView {
    /// Creates the view of a plugin.
    pub(super) fn new(id: &PluginId, record: &PluginRecord, status: PluginStatus) -> Self {
        let serving = |has: fn(&PluginInstance) -> bool| {
            let instances = record.by_node(has).into_iter();
            instances.map(|(n, i)| (n.clone(), i.clone())).collect()
        };
        Self {
            plugin: Plugin {
                summary: PluginSummary {
                    id: id.clone(),
                    provider: status.provider,
                    controller_required: status.controller_required,
                    controllers: status.controllers,
                    nodes: status.nodes,
                },
                version: status.provider_version,
                controllers: serving(|instance| instance.controller.is_some()),
                nodes: serving(|instance| instance.node.is_some()),
                allocs: vec![],
            },
            create_index: record.create_index,
            modify_index: record.modify_index,
            create_time: record.create_time,
            modify_time: record.modify_time,
        }
    }
}
