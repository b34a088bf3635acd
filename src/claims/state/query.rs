//! Queries for single objects and for plugins; `list` contains the lists of volumes.
//!
//! No query returns a volume that is being created. Volumes that are being deleted are returned.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::claims_record::{AllocRecord, ClaimsRecord};
use super::event::EventKind;
use super::job_record::Placement;
use super::plugin_jobs::{expected_instances, has_job};
use super::plugin_record::{PluginAlloc, PluginRecord};
use super::record::VolumeRecord;
use super::tables::State;
use super::view::{PluginStatus, PluginView, VolumeView};
use nomad_csi_model::{
    Alloc, AllocId, ClientStatus, DesiredStatus, ExternalId, JobId, JobKey, Namespace,
    NamespacedId, NodeId, NodeStatus, PluginId,
};

/// The health of a plugin instance whose node cannot be called.
const NODE_AWAY: &str = "its node is not connected";

/// Returns what has to be recorded of a node whose machine has this boot ID; nothing if it is on record. With another one, the
/// machine was restarted: what was mounted is in doubt, and plugin instances without an allocation have ended.
pub fn boot_events(state: &State, node: &NodeId, boot_id: &str) -> Vec<EventKind> {
    let known = state.boot_id(node);
    if known == Some(boot_id) {
        return vec![];
    }
    let booted = EventKind::NodeBooted { node: node.clone(), boot_id: boot_id.to_owned() };
    // Instances of allocations on record are reported by their runners.
    let has_ended = |alloc: &PluginAlloc| !state.allocs.contains_key(&alloc.instance.alloc_id);
    let gone = known.map(|_| ends_of_instances(state, node, has_ended));
    gone.into_iter().flatten().chain([booted]).collect()
}

/// Returns the ends of the plugin instances on a node that are known to have ended.
pub fn ends_of_instances(
    state: &State,
    node: &NodeId,
    has_ended: impl Fn(&PluginAlloc) -> bool,
) -> Vec<EventKind> {
    let ended = state.plugins.iter().flat_map(|(plugin, record)| {
        let there = record.allocs.iter().filter(|(_, alloc)| alloc.node == *node);
        let ended = there.filter(|(_, alloc)| has_ended(alloc));
        ended
            .map(|(id, _)| EventKind::PluginAllocGone { plugin: plugin.clone(), alloc: id.clone() })
    });
    ended.collect()
}

/// Returns one volume; `None` if it does not exist for readers.
pub fn volume(state: &State, key: &NamespacedId) -> Option<VolumeView> {
    let record = state.volumes.get(key).filter(|record| record.is_visible())?;
    let plugin = plugin_status(state, &record.definition.plugin_id).unwrap_or_default();
    Some(VolumeView {
        claims: claims_of_record(state, record),
        placed: placed_allocs(state, record),
        record: Arc::clone(record),
        plugin: Arc::new(plugin),
    })
}

/// Returns the allocations of jobs that claim a volume.
fn placed_allocs(state: &State, record: &VolumeRecord) -> BTreeMap<AllocId, Alloc> {
    let claims = claims_of_record(state, record);
    let claims = claims.iter().flat_map(|claims| claims.claims.claims.keys());
    let placed = claims.filter_map(|key| {
        let alloc = state.allocs.get(&key.alloc)?;
        let placement = alloc.placement.as_deref()?;
        Some((key.alloc.clone(), placed_alloc(state, &key.alloc, alloc, placement)))
    });
    placed.collect()
}

fn placed_alloc(state: &State, id: &AllocId, alloc: &AllocRecord, placement: &Placement) -> Alloc {
    let node = state.nodes.get(&alloc.node);
    Alloc {
        id: id.clone(),
        node_id: alloc.node.clone(),
        node_name: node.map(|node| node.name.clone()).unwrap_or_default(),
        evaluation_id: placement.evaluation.to_string(),
        job_id: placement.job.job.id.to_string(),
        task_group: placement.group.clone(),
        job_version: placement.job.version,
        desired: match placement.stop_reason {
            None => DesiredStatus::Run,
            Some(_) => DesiredStatus::Stop,
        },
        client: client_status(state, &alloc.node, placement),
        create_time: alloc.create_time,
        modify_time: alloc.modify_time,
    }
}

/// Returns the status of an allocation on its node. While the node is not connected, it is unknown whether tasks that have not
/// ended still run.
pub fn client_status(state: &State, node: &NodeId, placement: &Placement) -> ClientStatus {
    let report = placement.report.as_ref();
    let reported = report.map_or(ClientStatus::Pending, |report| report.status.clone());
    match reported {
        ClientStatus::Pending | ClientStatus::Running if !is_connected(state, node) => {
            ClientStatus::Unknown
        }
        ClientStatus::Pending
        | ClientStatus::Running
        | ClientStatus::Complete
        | ClientStatus::Failed
        | ClientStatus::Lost
        | ClientStatus::Unknown
        | ClientStatus::Other(_) => reported,
    }
}

fn is_connected(state: &State, node: &NodeId) -> bool {
    let node = state.nodes.get(node);
    node.is_none_or(|node| node.status == NodeStatus::Ready)
}

/// Returns what is known of a plugin now: an instance on a node that is not connected cannot be called.
fn reachable<'a>(state: &State, record: &'a PluginRecord) -> Cow<'a, PluginRecord> {
    let is_away = |alloc: &PluginAlloc| !is_connected(state, &alloc.node);
    if !record.allocs.values().any(is_away) {
        return Cow::Borrowed(record);
    }
    let mut record = record.clone();
    for alloc in record.allocs.values_mut().filter(|alloc| is_away(alloc)) {
        let health = &mut alloc.instance.health;
        health.healthy = false;
        NODE_AWAY.clone_into(&mut health.description);
    }
    Cow::Owned(record)
}

/// Returns the claims of a volume's external volume.
pub(super) fn claims_of_record(state: &State, record: &VolumeRecord) -> Option<Arc<ClaimsRecord>> {
    if state.claims.is_empty() {
        return None;
    }
    state.claims.get(&record.remote_volume()?).cloned()
}

/// Returns the volumes that are the same volume at the provider. If there is more than one, none of
/// them may be deleted (W13).
pub fn volumes_sharing(
    state: &State,
    plugin: &PluginId,
    external_id: &ExternalId,
) -> Vec<NamespacedId> {
    state.remote_volumes(plugin, external_id).cloned().collect()
}

/// Returns the registrations that may have the data of a volume, with itself. Two plugins may be of one provider, as a
/// new version of a driver beside the old one; a provider that is not known may be any.
pub fn volumes_of_data(state: &State, of: &VolumeView) -> Vec<NamespacedId> {
    let (remote, provider) = (of.record.remote_id(), of.provider().0);
    let has_data = |record: &VolumeRecord| {
        let is_same = record.definition.plugin_id == of.record.definition.plugin_id;
        remote.is_some()
            && record.remote_id() == remote
            && (is_same || {
                let known = volume(state, record.key());
                let other = known.as_ref().map_or("", |known| known.provider().0);
                other == provider || other.is_empty() || provider.is_empty()
            })
    };
    let records = state.records().filter(|record| has_data(record));
    records.map(|record| record.key().clone()).collect()
}

/// Returns the status of a plugin; `None` if it has neither a known instance nor a job.
pub fn plugin_status(state: &State, id: &PluginId) -> Option<PluginStatus> {
    let record = state.plugins.get(id);
    if record.is_none() && !has_job(state, id) {
        return None;
    }
    let expected = expected_instances(state, id, record);
    let reachable = record.map(|record| reachable(state, record));
    Some(PluginStatus::new(reachable.as_deref(), expected))
}

/// Returns one plugin with the allocations of jobs that run it; `None` if it has neither a known instance nor a
/// job.
pub fn plugin(state: &State, id: &PluginId) -> Option<PluginView> {
    let mut view = plugin_view(state, id)?;
    let record = state.plugins.get(id);
    let allocs = record.into_iter().flat_map(|record| record.allocs.keys());
    let placed = allocs.filter_map(|id| {
        let alloc = state.allocs.get(id)?;
        let placement = alloc.placement.as_deref()?;
        Some(placed_alloc(state, id, alloc, placement))
    });
    view.plugin.allocs = placed.collect();
    Some(view)
}

/// A plugin without an instance has the indexes of its jobs.
fn plugin_view(state: &State, id: &PluginId) -> Option<PluginView> {
    let status = plugin_status(state, id)?;
    if let Some(record) = state.plugins.get(id) {
        return Some(PluginView::new(id, &reachable(state, record), status));
    }
    let jobs = || state.jobs_of_plugin(id);
    let created = jobs().map(|record| record.create_index).min();
    let modified = jobs().map(|record| record.job_modify_index).max();
    let times = || jobs().map(|record| record.submit_time);
    let record = PluginRecord {
        allocs: BTreeMap::new(),
        create_index: created.unwrap_or_default(),
        modify_index: modified.unwrap_or_default(),
        create_time: times().min().unwrap_or_default(),
        modify_time: times().max().unwrap_or_default(),
    };
    Some(PluginView::new(id, &record, status))
}

/// Returns all plugins whose ID has this prefix without their allocations, sorted by ID.
pub fn plugins(state: &State, prefix: &str) -> Vec<PluginView> {
    let from = PluginId::new(prefix);
    let known = state.plugins.range(from.clone()..).map(|(id, _)| id);
    let known = known.take_while(|id| id.as_str().starts_with(prefix));
    let first = JobKey::new(Namespace::new(""), JobId::new(""));
    let of_jobs = state.plugin_jobs.range((from, first)..).map(|(id, _)| id);
    let of_jobs = of_jobs.take_while(|id| id.as_str().starts_with(prefix));
    let ids: BTreeSet<&PluginId> = known.chain(of_jobs).collect();
    ids.into_iter().filter_map(|id| plugin_view(state, id)).collect()
}

#[cfg(test)]
mod tests;
