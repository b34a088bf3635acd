//! The invariants of every state.
//!
//! A violation is a bug in this program. Several registrations of one provider volume are valid but
//! risky, so they are reported as a [`SharedVolume`] instead.

use std::collections::{BTreeMap, BTreeSet};

use super::acl::acl_problems;
use super::job_record::JobRecord;
use super::namespaces::namespace_problems;
use super::plugin_record::PluginAlloc;
use super::record::{Phase, VolumeRecord};
use super::tables::{State, job_alloc, lock_end, plugin_jobs, remote_entry};
use super::variable::VariableRecord;
use crate::claim;
use nomad_csi_model::{AllocId, ExternalId, NamespacedId, PluginId, VariableKey};

/// Registered volumes that are the same volume at the provider (W13).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedVolume {
    /// The plugin of the provider.
    pub plugin_id: PluginId,
    /// The provider's ID of the volume.
    pub external_id: ExternalId,
    /// The registered volumes; two or more.
    pub volumes: BTreeSet<NamespacedId>,
}

/// Returns every provider volume that is registered more than once.
pub fn shared_volumes(state: &State) -> Vec<SharedVolume> {
    let mut volumes: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for (plugin, external_id, key) in &state.remote_ids {
        let keys = volumes.entry((plugin, external_id)).or_default();
        keys.insert(key.clone());
    }
    let shared = volumes.into_iter().filter(|(_, keys)| keys.len() > 1);
    shared
        .map(|((plugin_id, external_id), volumes)| SharedVolume {
            plugin_id: plugin_id.clone(),
            external_id: external_id.clone(),
            volumes,
        })
        .collect()
}

/// Returns all violations, one sentence each.
pub fn violations(state: &State) -> Vec<String> {
    let mut found = vec![];
    for (key, record) in &state.volumes {
        let wrong = record_problem(state, record);
        let misplaced = (record.key() != key).then_some("is stored under another volume's key");
        let problems = wrong.into_iter().chain(misplaced);
        found.extend(problems.map(|problem| format!("volume {key} {problem}")));
    }
    let remote_ids = state.volumes.values().filter_map(|record| remote_entry(record));
    if state.remote_ids != remote_ids.collect() {
        found.push("the index by external ID differs from the volumes".to_owned());
    }
    let plugin_jobs = state.jobs.values().flat_map(|record| plugin_jobs(record));
    if state.plugin_jobs != plugin_jobs.collect() {
        found.push("the index of jobs by plugin differs from the jobs".to_owned());
    }
    let creating = state.volumes.values().filter(|record| record.phase == Phase::Creating);
    if state.creating != creating.map(|record| record.key().clone()).collect() {
        found.push("the index of pending creations differs from the volumes".to_owned());
    }
    for (id, plugin) in &state.plugins {
        if plugin.allocs.is_empty() {
            found.push(format!("plugin {id} has no allocation"));
        }
        let is_misplaced = |(id, alloc): (&AllocId, &PluginAlloc)| alloc.instance.alloc_id != *id;
        if plugin.allocs.iter().any(is_misplaced) {
            found.push(format!("plugin {id} has an allocation under another ID"));
        }
        let order = [plugin.create_index, plugin.modify_index, state.plugins_index];
        if !order.is_sorted() {
            found.push(format!("plugin {id} has indexes out of order"));
        }
    }
    for (id, node) in &state.nodes {
        if node.id != *id {
            found.push(format!("node {id} is stored under another node's ID"));
        }
    }
    let connected = state.sessions.keys().chain(state.node_secrets.keys());
    for id in state.boots.keys().chain(state.losses.keys()).chain(connected) {
        if !state.nodes.contains_key(id) {
            found.push(format!(
                "node {id} is not registered, but has a boot ID, a session, a secret or a loss"
            ));
        }
    }
    for (key, record) in &state.variables {
        let problem = variable_problem(state, key, record);
        found.extend(problem.map(|problem| format!("variable {key} {problem}")));
    }
    found.extend(claim_problems(state));
    found.extend(job_problems(state));
    found.extend(namespace_problems(state));
    found.extend(acl_problems(state));
    let locks = state.variables.values().filter_map(|record| lock_end(record));
    if state.lock_ends != locks.collect() {
        found.push("the index of lock ends differs from the variables".to_owned());
    }
    let tables = [
        state.volumes_index,
        state.plugins_index,
        state.variables_index,
        state.claims_index,
        state.allocs_index,
        state.nodes_index,
        state.jobs_index,
        state.namespaces_index,
        state.acl_index,
    ];
    if tables.into_iter().any(|index| index > state.index) {
        found.push("the index of a table is ahead of the index of the state".to_owned());
    }
    found
}

fn claim_problems(state: &State) -> Vec<String> {
    let mut found = vec![];
    for (volume, record) in &state.claims {
        let problems = claim::violations(&record.claims).into_iter();
        found.extend(problems.map(|problem| format!("volume {volume} {problem}")));
        if record.volume != *volume || record.modify_index > state.claims_index {
            found.push(format!("the claims of volume {volume} are misplaced"));
        }
        for (key, claim) in &record.claims.claims {
            if state.claim_keys.get(key) != Some(volume) {
                found.push(format!("the index by allocation lacks a claim of volume {volume}"));
            }
            let is_orphaned = record.claims.tombstone(&claim.volume).is_some();
            if !is_orphaned && !state.volumes.contains_key(&claim.volume) {
                found.push(format!("volume {volume} is claimed without a registration"));
            }
        }
    }
    let claims: usize = state.claims.values().map(|r| r.claims.claims.len()).sum();
    if claims != state.claim_keys.len() || state.claims.len() != state.claim_changes.len() {
        found.push("the indexes of claims differ from the claims".to_owned());
    }
    let allocs = state.allocs.iter();
    let changes = allocs.map(|(id, alloc)| (alloc.modify_index, id.clone()));
    if state.alloc_changes != changes.collect() {
        found.push("the index of changed allocations differs from the allocations".to_owned());
    }
    found
}

fn job_problems(state: &State) -> Vec<String> {
    let mut found = vec![];
    for (key, record) in &state.jobs {
        if record.key() != *key {
            found.push(format!("job {} is stored under another key", key.quoted()));
        }
        if record.is_purged && !record.is_stopped {
            found.push(format!("job {} is purged and not stopped", key.quoted()));
        }
        let order =
            [record.create_index, record.job_modify_index, record.modify_index, state.jobs_index];
        let versions = record.earlier.iter().map(|earlier| earlier.version.version);
        let versions = versions.chain([record.current.version]);
        if !versions.is_sorted_by(|a, b| a < b) || record.earlier.len() > JobRecord::MAX_EARLIER {
            found.push(format!("job {} has its versions out of order, or too many", key.quoted()));
        }
        if !order.is_sorted() {
            found.push(format!("job {} has indexes out of order", key.quoted()));
        }
    }
    let allocs = state.allocs.iter();
    let entries = allocs.filter_map(|(id, record)| job_alloc(id, record));
    if state.job_allocs != entries.collect() {
        found.push("the index by job differs from the allocations".to_owned());
    }
    for (job, alloc) in &state.job_allocs {
        if !state.jobs.contains_key(job) {
            let job = job.quoted();
            found.push(format!("allocation {alloc} is of job {job}, which is not recorded"));
        }
    }
    found
}

fn record_problem(state: &State, record: &VolumeRecord) -> Option<&'static str> {
    let order = [record.create_index, record.modify_index, state.volumes_index];
    if record.create_index <= State::FIRST_INDEX || !order.is_sorted() {
        return Some("has indexes out of order");
    }
    let is_settling = record.phase != Phase::Registered;
    let controllers = [
        (&record.settling_by, is_settling),
        (&record.expanding_by, record.expanding.is_some()),
        (&record.modifying_by, record.modifying.is_some()),
    ];
    if controllers.iter().any(|(controller, is_open)| controller.is_some() && !is_open) {
        return Some("has the controller of a call that has ended");
    }
    match record.phase {
        Phase::Creating if record.provided != Default::default() => {
            Some("is being created but already has a response")
        }
        Phase::Creating if record.expanding.is_some() || record.node_expansion_pending => {
            Some("is being created but is already being expanded")
        }
        Phase::Creating if record.modifying.is_some() || !record.mutable_parameters.is_empty() => {
            Some("is being created but already has mutable parameters")
        }
        Phase::Creating | Phase::Registered | Phase::Deleting => None,
    }
}

fn variable_problem(
    state: &State,
    key: &VariableKey,
    record: &VariableRecord,
) -> Option<&'static str> {
    let order =
        [State::FIRST_INDEX + 1, record.create_index, record.modify_index, state.variables_index];
    let lock = record.lock.as_ref();
    if record.key != *key {
        Some("is stored under another variable's key")
    } else if !order.is_sorted() {
        Some("has indexes out of order")
    } else if lock.is_some_and(|lock| lock.terms.id.is_empty()) {
        Some("has a lock without an ID")
    } else if lock.is_some_and(|lock| lock.terms.ttl <= 0 || lock.terms.delay < 0) {
        Some("has a lock without a duration")
    } else {
        None
    }
}
