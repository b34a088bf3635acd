//! [`State`]: volumes, plugins, nodes, jobs, namespaces, variables and the ACL, with the index of the last change.
//!
//! Fields are private to `state`, because some of them must agree: volumes with the index by
//! external ID, variables with the index of lock ends, and claims and allocations with the indexes of
//! their changes. Only `apply` and `replay` write, through the methods here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::acl_record::{AclKey, AclRecord};
use super::claims_record::{AllocRecord, ClaimsRecord, NodeLoss};
use super::interner::Interner;
use super::job_record::{JobAlloc, JobRecord};
use super::leader_starts::LeaderStarts;
use super::namespace_record::NamespaceRecord;
use super::plugin_record::PluginRecord;
use super::record::{Phase, VolumeRecord};
use super::variable::VariableRecord;
use crate::claim::ClaimKey;
use nomad_csi_model::{
    AllocId, ExternalId, HostSession, JobId, JobKey, Namespace, NamespacedId, Node, NodeId,
    PluginId, RemoteVolume, VariableKey,
};

/// The agent's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    pub(super) index: u64,
    pub(super) origin: String,
    pub(super) leaders: LeaderStarts,
    pub(super) volumes: BTreeMap<NamespacedId, Arc<VolumeRecord>>,
    /// Every visible volume by plugin and provider's ID.
    pub(super) remote_ids: BTreeSet<RemoteEntry>,
    /// Every volume whose creation did not end.
    pub(super) creating: BTreeSet<NamespacedId>,
    pub(super) volumes_index: u64,
    pub(super) plugins: BTreeMap<PluginId, PluginRecord>,
    pub(super) plugins_index: u64,
    pub(super) nodes: BTreeMap<NodeId, Node>,
    pub(super) boots: BTreeMap<NodeId, String>,
    pub(super) sessions: BTreeMap<NodeId, HostSession>,
    /// The SHA-256 of the secrets of nodes.
    pub(super) node_secrets: BTreeMap<NodeId, String>,
    pub(super) losses: BTreeMap<NodeId, NodeLoss>,
    pub(super) nodes_index: u64,
    pub(super) claims: BTreeMap<RemoteVolume, Arc<ClaimsRecord>>,
    pub(super) claim_keys: BTreeMap<ClaimKey, RemoteVolume>,
    pub(super) claim_changes: BTreeSet<(u64, RemoteVolume)>,
    pub(super) claims_index: u64,
    pub(super) allocs: BTreeMap<AllocId, AllocRecord>,
    pub(super) alloc_changes: BTreeSet<(u64, AllocId)>,
    pub(super) allocs_index: u64,
    /// The allocations that were placed for jobs.
    pub(super) job_allocs: BTreeSet<JobAlloc>,
    pub(super) jobs: BTreeMap<JobKey, Arc<JobRecord>>,
    /// Every job by each plugin that its tasks serve.
    pub(super) plugin_jobs: BTreeSet<(PluginId, JobKey)>,
    pub(super) jobs_index: u64,
    pub(super) namespaces: BTreeMap<Namespace, Arc<NamespaceRecord>>,
    pub(super) namespaces_index: u64,
    pub(super) acl: BTreeMap<AclKey, Arc<AclRecord>>,
    /// Every token by the SHA-256 of its secret.
    pub(super) acl_secrets: BTreeMap<String, AclKey>,
    pub(super) acl_index: u64,
    pub(super) variables: BTreeMap<VariableKey, Arc<VariableRecord>>,
    pub(super) lock_ends: BTreeSet<(i64, VariableKey)>,
    pub(super) variables_index: u64,
    /// The parts that records share.
    pub(super) interner: Interner,
}

/// A plugin, the provider's ID of a volume, and the volume.
pub(super) type RemoteEntry = (PluginId, ExternalId, NamespacedId);

impl Default for State {
    /// Returns the state before the first event.
    fn default() -> Self {
        Self {
            index: Self::FIRST_INDEX,
            origin: String::new(),
            leaders: LeaderStarts::default(),
            volumes: BTreeMap::new(),
            remote_ids: BTreeSet::new(),
            creating: BTreeSet::new(),
            volumes_index: Self::FIRST_INDEX,
            plugins: BTreeMap::new(),
            plugins_index: Self::FIRST_INDEX,
            nodes: BTreeMap::new(),
            boots: BTreeMap::new(),
            sessions: BTreeMap::new(),
            node_secrets: BTreeMap::new(),
            losses: BTreeMap::new(),
            nodes_index: Self::FIRST_INDEX,
            claims: BTreeMap::new(),
            claim_keys: BTreeMap::new(),
            claim_changes: BTreeSet::new(),
            claims_index: Self::FIRST_INDEX,
            allocs: BTreeMap::new(),
            alloc_changes: BTreeSet::new(),
            allocs_index: Self::FIRST_INDEX,
            job_allocs: BTreeSet::new(),
            jobs: BTreeMap::new(),
            plugin_jobs: BTreeSet::new(),
            jobs_index: Self::FIRST_INDEX,
            namespaces: BTreeMap::new(),
            namespaces_index: Self::FIRST_INDEX,
            acl: BTreeMap::new(),
            acl_secrets: BTreeMap::new(),
            acl_index: Self::FIRST_INDEX,
            variables: BTreeMap::new(),
            lock_ends: BTreeSet::new(),
            variables_index: Self::FIRST_INDEX,
            interner: Interner::default(),
        }
    }
}

impl State {
    /// The index before the first event. It is not 0, because a blocking query with 0 does not block.
    pub const FIRST_INDEX: u64 = 1;

    /// Returns the index of the last event.
    pub fn index(&self) -> u64 {
        self.index
    }

    /// Returns the unique ID from the agent's first start; empty before it.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Returns the index of the last event that changed volumes, their claims, or the plugins that
    /// determine their health.
    pub fn volumes_index(&self) -> u64 {
        self.volumes_index.max(self.plugins_index).max(self.claims_index)
    }

    /// Returns the index of the last event that changed a plugin.
    pub fn plugins_index(&self) -> u64 {
        self.plugins_index
    }

    /// Returns the index of the last event that changed a variable, without lock renewals.
    pub fn variables_index(&self) -> u64 {
        self.variables_index
    }

    /// Returns a variable.
    pub fn variable(&self, key: &VariableKey) -> Option<&Arc<VariableRecord>> {
        self.variables.get(key)
    }

    /// Returns all variables, sorted by namespace and path.
    pub fn variables(&self) -> impl ExactSizeIterator<Item = &Arc<VariableRecord>> {
        self.variables.values()
    }

    /// Returns a volume's record in any phase; readers use `query::volume`.
    pub fn record(&self, key: &NamespacedId) -> Option<&Arc<VolumeRecord>> {
        self.volumes.get(key)
    }

    /// Returns all records in any phase, sorted by namespace and ID.
    pub fn records(&self) -> impl ExactSizeIterator<Item = &Arc<VolumeRecord>> {
        self.volumes.values()
    }

    /// Returns the records of the volumes whose creation did not end, sorted by namespace and ID.
    pub fn creating(&self) -> impl Iterator<Item = &Arc<VolumeRecord>> {
        self.creating.iter().filter_map(|key| self.volumes.get(key))
    }

    /// Returns the plugins that have the allocation as an instance on record.
    pub fn plugins_of_instance(&self, alloc: &AllocId) -> impl Iterator<Item = &PluginId> {
        let plugins = self.plugins.iter();
        plugins.filter(|(_, record)| record.allocs.contains_key(alloc)).map(|(id, _)| id)
    }

    /// Returns a plugin's record.
    pub fn plugin_record(&self, id: &PluginId) -> Option<&PluginRecord> {
        self.plugins.get(id)
    }

    /// Returns all nodes, sorted by ID.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = &Node> {
        self.nodes.values()
    }

    /// Returns the index of the last event that changed a node.
    pub fn nodes_index(&self) -> u64 {
        self.nodes_index
    }

    /// Returns a node.
    pub fn node(&self, id: &NodeId) -> Option<&Node> {
        self.nodes.get(id)
    }

    /// Inserts a new record, which shares its parts with others, and replaces one with the same key.
    pub(super) fn put_new(&mut self, mut record: VolumeRecord) {
        self.interner.share_parts(&mut record);
        self.put(Arc::new(record));
    }

    /// Inserts a record and replaces one with the same key.
    pub(super) fn put(&mut self, record: Arc<VolumeRecord>) {
        let remote = remote_entry(&record);
        let key = record.key().clone();
        if record.phase == Phase::Creating {
            self.creating.insert(key.clone());
        } else {
            self.creating.remove(&key);
        }
        let before = self.volumes.insert(key, record);
        let before = before.as_deref().and_then(remote_entry);
        if before != remote {
            before.map(|entry| self.remote_ids.remove(&entry));
            self.remote_ids.extend(remote);
        }
    }

    /// Removes a record, if it exists.
    pub(super) fn remove(&mut self, key: &NamespacedId) {
        self.creating.remove(key);
        let before = self.volumes.remove(key);
        if let Some(entry) = before.as_deref().and_then(remote_entry) {
            self.remote_ids.remove(&entry);
        }
    }

    /// Inserts the claims of a volume and replaces those that it had. An empty record is removed.
    pub(super) fn put_claims(&mut self, record: Arc<ClaimsRecord>) {
        let volume = record.volume.clone();
        self.remove_claims(&volume);
        if record.claims.is_empty() {
            return;
        }
        for key in record.claims.claims.keys() {
            self.claim_keys.insert(key.clone(), volume.clone());
        }
        self.claim_changes.insert((record.modify_index, volume.clone()));
        self.claims.insert(volume, record);
    }

    /// Removes the claims of a volume, if it has any.
    pub(super) fn remove_claims(&mut self, volume: &RemoteVolume) {
        if let Some(before) = self.claims.remove(volume) {
            let change = (before.modify_index, volume.clone());
            self.claim_changes.remove(&change);
            for key in before.claims.claims.keys() {
                self.claim_keys.remove(key);
            }
        }
    }

    /// Inserts a job and replaces one with the same key.
    pub(super) fn put_job(&mut self, record: Arc<JobRecord>) {
        let key = record.key();
        self.remove_job(&key);
        self.plugin_jobs.extend(plugin_jobs(&record));
        self.jobs.insert(key, record);
    }

    /// Removes a job, if it exists.
    pub(super) fn remove_job(&mut self, key: &JobKey) {
        if let Some(before) = self.jobs.remove(key) {
            for entry in plugin_jobs(&before) {
                self.plugin_jobs.remove(&entry);
            }
        }
    }

    /// Returns the jobs whose tasks serve a plugin, also those that are stopped.
    pub(super) fn jobs_of_plugin(
        &self,
        plugin: &PluginId,
    ) -> impl Iterator<Item = &Arc<JobRecord>> {
        let first = JobKey::new(Namespace::new(""), JobId::new(""));
        let from = (plugin.clone(), first);
        let entries = self.plugin_jobs.range(from..);
        let of_plugin = entries.take_while(|(id, _)| id == plugin).map(|(_, key)| key);
        of_plugin.filter_map(|key| self.jobs.get(key)).collect::<Vec<_>>().into_iter()
    }

    /// Inserts an allocation and replaces one with the same ID.
    pub(super) fn put_alloc(&mut self, id: AllocId, record: AllocRecord) {
        self.remove_alloc(&id);
        self.alloc_changes.insert((record.modify_index, id.clone()));
        self.job_allocs.extend(job_alloc(&id, &record));
        self.allocs.insert(id, record);
    }

    /// Removes an allocation, if it exists.
    pub(super) fn remove_alloc(&mut self, id: &AllocId) {
        if let Some(before) = self.allocs.remove(id) {
            let change = (before.modify_index, id.clone());
            self.alloc_changes.remove(&change);
            if let Some(entry) = job_alloc(id, &before) {
                self.job_allocs.remove(&entry);
            }
        }
    }

    /// Returns the number of visible volumes of a plugin.
    pub fn volume_count(&self, plugin: &PluginId) -> usize {
        let first = NamespacedId::new("".into(), "".into());
        let from = (plugin.clone(), ExternalId::new(""), first);
        let of_plugin = self.remote_ids.range(from..);
        of_plugin.take_while(|(id, _, _)| id == plugin).count()
    }

    /// Returns the visible volumes that are this volume at the provider.
    pub(super) fn remote_volumes(
        &self,
        plugin: &PluginId,
        external_id: &ExternalId,
    ) -> impl Iterator<Item = &NamespacedId> {
        let first = NamespacedId::new("".into(), "".into());
        let from = (plugin.clone(), external_id.clone(), first);
        let of_volume = self.remote_ids.range(from..);
        of_volume
            .take_while(move |(p, e, _)| p == plugin && e == external_id)
            .map(|(_, _, key)| key)
    }

    /// Inserts a variable and replaces one with the same key.
    pub(super) fn put_variable(&mut self, record: Arc<VariableRecord>) {
        self.remove_variable(&record.key);
        self.lock_ends.extend(lock_end(&record));
        self.variables.insert(record.key.clone(), record);
    }

    /// Removes a variable, if it exists.
    pub(super) fn remove_variable(&mut self, key: &VariableKey) {
        let before = self.variables.remove(key);
        if let Some(end) = before.as_deref().and_then(lock_end) {
            self.lock_ends.remove(&end);
        }
    }
}

/// Returns the entries of a job in the index by plugin.
pub(super) fn plugin_jobs(record: &JobRecord) -> BTreeSet<(PluginId, JobKey)> {
    let plugins = record.current.job.served_plugins();
    plugins.map(|plugin| (plugin.clone(), record.key())).collect()
}

/// Returns the entry of an allocation in the index by job; `None` if it was not placed for one.
pub(super) fn job_alloc(id: &AllocId, record: &AllocRecord) -> Option<JobAlloc> {
    let placement = record.placement.as_deref()?;
    Some((placement.job.key(), id.clone()))
}

/// Returns the entry of a volume in the index by provider's ID; `None` if it is not visible.
pub(super) fn remote_entry(record: &VolumeRecord) -> Option<RemoteEntry> {
    let id = record.remote_id()?;
    Some((record.definition.plugin_id.clone(), id, record.key().clone()))
}

/// Returns the end of the variable's lock, if it has one.
pub(super) fn lock_end(record: &VariableRecord) -> Option<(i64, VariableKey)> {
    let lock = record.lock.as_ref()?;
    Some((lock.ends_at(), record.key.clone()))
}
