//! The statistics of published volumes, as plugins report them now. Nothing of them is recorded.
//!
//! Each node is asked about one target of the volume. What does not answer in time, or answers nonsense, is unknown
//! and fails nothing else. No call takes a call lock or a permit of the steps, so none delays a mount or an unmount. Few are
//! sent at once: a plugin that hangs holds up neither the requests of clients nor the other plugins of a sample.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, StreamExt as _};
use tokio::sync::Semaphore;

use crate::cell::StateCell;
use crate::error::ServerError;
use crate::ports::ServerPorts;
use nomad_csi_claims::claim::Known;
use nomad_csi_claims::state::{ClaimsRecord, State};
use nomad_csi_model::{
    AllocId, NamespacedId, NodeId, PluginId, PublishedStats, RemoteVolume, VolumeStats,
};
use nomad_csi_ports::{HostDirectory, StatsRequest, VolumeStatsSample};

/// How many nodes are asked about one volume at once.
const MAX_NODES_AT_ONCE: usize = 16;
/// How many calls of all clients are sent at once.
const MAX_ASKED: usize = 32;
/// How long a client's call waits for its turn.
const MAX_WAIT: Duration = Duration::from_secs(10);
/// How many plugins are sampled at once, each on one node.
const SAMPLED_PLUGINS: usize = 4;
/// How many calls one of them gets at once.
const SAMPLED_CALLS: usize = 4;
/// How long one of them is sampled. What it has not answered by then is unknown.
const SAMPLE_TIME: Duration = Duration::from_secs(30);
/// How many volumes are sampled, each on one node. The others are unknown.
const MAX_SAMPLED: usize = 1000;

/// A volume on a node where it is published.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Published {
    volume: RemoteVolume,
    node: NodeId,
    /// The registrations through which it is claimed there.
    names: BTreeSet<NamespacedId>,
    target: PathBuf,
    is_staged: bool,
    /// The instance to ask; `None` if none that reports statistics is healthy there.
    instance: Option<AllocId>,
}

/// Returns whether the plugin reports statistics anywhere.
pub(super) fn reports_stats(state: &State, plugin: &PluginId) -> bool {
    let nodes = state.nodes();
    let mut instances = nodes.filter_map(|node| state.node_instance(plugin, &node.id));
    instances.any(|instance| {
        let node = instance.node.as_ref();
        node.is_some_and(|node| node.capabilities.reports_stats())
    })
}

/// Returns where an external volume is published: one target on each node.
fn published(state: &State, record: &ClaimsRecord) -> Vec<Published> {
    let plugin = &record.volume.plugin_id;
    let mut found: BTreeMap<&NodeId, Published> = BTreeMap::new();
    for claim in record.claims.claims.values() {
        let (Known::Yes, Some(target)) = (claim.published, &claim.target) else {
            continue;
        };
        let on_node = found.entry(&claim.node).or_insert_with(|| Published {
            volume: record.volume.clone(),
            node: claim.node.clone(),
            names: BTreeSet::new(),
            target: target.clone(),
            is_staged: record.claims.staged(&claim.node) == Known::Yes,
            instance: instance(state, plugin, &claim.node),
        });
        on_node.names.insert(claim.volume.clone());
    }
    found.into_values().collect()
}

fn instance(state: &State, plugin: &PluginId, node: &NodeId) -> Option<AllocId> {
    let instance = state.node_instance(plugin, node)?;
    let reports = instance.node.as_ref()?.capabilities.reports_stats();
    reports.then(|| instance.alloc_id.clone())
}

/// Reads statistics. Clones share their state.
#[derive(Clone)]
pub(super) struct StatsReader {
    cell: StateCell,
    hosts: Arc<dyn HostDirectory>,
    /// The permits of clients' calls.
    permits: Arc<Semaphore>,
}

impl StatsReader {
    pub(super) fn new(ports: &ServerPorts) -> Self {
        Self {
            cell: ports.cell.clone(),
            hosts: ports.hosts.clone(),
            permits: Arc::new(Semaphore::new(MAX_ASKED)),
        }
    }

    /// Reads the statistics of one volume on every node where it is published.
    pub(super) async fn read(&self, key: &NamespacedId) -> Result<PublishedStats, ServerError> {
        let on_nodes = self.cell.read(|state| {
            let volume = state.record(key).ok_or(ServerError::NoVolumeToRead)?;
            let plugin = &volume.definition.plugin_id;
            let record = volume.remote_volume().and_then(|volume| state.claims(&volume));
            let is_asked = record.filter(|_| reports_stats(state, plugin));
            Ok::<_, ServerError>(is_asked.map_or(vec![], |record| published(state, record)))
        })?;
        let questions: Vec<_> = on_nodes
            .iter()
            .map(|one| async move { (&one.node, self.ask_in_turn(one).await) })
            .collect();
        let answers = stream::iter(questions).buffer_unordered(MAX_NODES_AT_ONCE);
        let answers: BTreeMap<&NodeId, Result<VolumeStats, String>> = answers.collect().await;
        let mut report = PublishedStats::default();
        for (node, answer) in answers {
            match answer {
                Ok(stats) => report.nodes.push((node.clone(), stats)),
                Err(reason) => report.unknown.push(format!("node `{node}`: {reason}")),
            }
        }
        Ok(report)
    }

    /// Reads the statistics of all published volumes.
    pub(super) async fn sample(&self) -> VolumeStatsSample {
        let mut all = self.cell.read(all_published);
        let count = |all: &[Published]| all.iter().map(|one| one.names.len()).sum::<usize>();
        let total = count(&all);
        all.truncate(MAX_SAMPLED);
        let mut groups: BTreeMap<(PluginId, NodeId), Vec<Published>> = BTreeMap::new();
        for one in all {
            let key = (one.volume.plugin_id.clone(), one.node.clone());
            groups.entry(key).or_default().push(one);
        }
        let groups = groups.into_values().map(|group| self.sample_group(group));
        let sampled = stream::iter(groups).buffer_unordered(SAMPLED_PLUGINS);
        let sampled: Vec<Vec<(Published, VolumeStats)>> = sampled.collect().await;
        let mut sample = VolumeStatsSample::default();
        let known = |(_, stats): &(Published, VolumeStats)| *stats != VolumeStats::default();
        for (one, stats) in sampled.into_iter().flatten().filter(known) {
            let names = one.names.into_iter();
            sample.stats.extend(names.map(|name| ((name, one.node.clone()), stats.clone())));
        }
        sample.unknown = total - sample.stats.len();
        sample
    }

    async fn sample_group(&self, group: Vec<Published>) -> Vec<(Published, VolumeStats)> {
        let questions = group.into_iter().map(|one| async move {
            let answer = self.ask(&one).await;
            Some((one, answer.ok()?))
        });
        let answers = stream::iter(questions).buffer_unordered(SAMPLED_CALLS);
        let known = answers.filter_map(std::future::ready);
        let in_time = known.take_until(Box::pin(tokio::time::sleep(SAMPLE_TIME)));
        in_time.collect().await
    }

    async fn ask_in_turn(&self, published: &Published) -> Result<VolumeStats, String> {
        let permit = tokio::time::timeout(MAX_WAIT, self.permits.acquire()).await;
        let _permit =
            permit.map_err(|_| "too many other requests ask for statistics".to_owned())?;
        self.ask(published).await
    }

    async fn ask(&self, published: &Published) -> Result<VolumeStats, String> {
        let Some(instance) = &published.instance else {
            let plugin = &published.volume.plugin_id;
            return Err(format!("no healthy instance of plugin `{plugin}` reports statistics"));
        };
        let node = self.hosts.node(&published.node);
        let node = node.ok_or("the agent has no connection to the node")?;
        let request = StatsRequest {
            volume: published.volume.clone(),
            target: published.target.clone(),
            is_staged: published.is_staged,
        };
        let answer = node.host.stats(instance, request).await;
        answer.map_err(|error| error.to_string())
    }
}

/// Returns all volumes that are published on nodes where their plugin reports statistics.
fn all_published(state: &State) -> Vec<Published> {
    let records = state.all_claims();
    let reporting = records.filter(|record| reports_stats(state, &record.volume.plugin_id));
    reporting.flat_map(|record| published(state, record)).collect()
}

#[cfg(test)]
mod tests;
