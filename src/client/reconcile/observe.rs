//! Reads the desired volumes and their plugins, in parallel. Writes nothing.
//!
//! A volume that cannot be read is an error: a plan cannot rely on an unknown state. A plugin that the
//! token may not read is unknown, and only the server knows its capabilities.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use tokio::time::timeout;

use super::volume_list::list_all_volumes;
use crate::ports::{ApiError, Document, ProviderReader, VolumeApi, VolumeReader};
use nomad_csi_model::diagnostic::Code;
use nomad_csi_model::{Namespace, NamespacedId, PluginId, Secrets, Snapshot, Volume};
use nomad_csi_plan::{CachedVolumes, LastSnapshot, ObservedState, PluginState};
use nomad_csi_spec::VolumeSpec;

/// The state that was read from the server.
#[derive(Debug, Default)]
pub struct Observation {
    /// The state for the planner.
    pub observed: ObservedState,
    /// The server's own JSON of every volume that exists.
    pub documents: BTreeMap<NamespacedId, Document>,
}

/// The volumes to read, and how.
#[derive(Clone, Debug, Default)]
pub(super) struct ObserveRequest<'a> {
    /// The desired volumes.
    pub desired: &'a [VolumeSpec],
    /// Other volumes: those to remove, and those that the command line names.
    pub other_volumes: BTreeSet<NamespacedId>,
    /// Volumes that are not read, because the server has them as noted.
    pub unread: CachedVolumes,
    /// True if all volumes are listed, to find other registrations of the same data.
    pub lists_all_volumes: bool,
    /// Volumes whose registration would be another one of data that a server may know. If one of them does not exist,
    /// all volumes are listed, as far as the token may.
    pub known_data: BTreeSet<NamespacedId>,
    /// True if the server's own JSON is kept.
    pub keeps_documents: bool,
    /// The largest number of concurrent requests.
    pub parallelism: usize,
}

/// Reads volumes and their plugins.
///
/// # Errors
/// If a volume cannot be read.
pub(super) async fn observe(
    api: &dyn VolumeApi,
    request: ObserveRequest<'_>,
) -> Result<Observation, ApiError> {
    let mut observation = Observation::default();
    let desired = request.desired.iter().map(VolumeSpec::key);
    let keys = desired.chain(request.other_volumes.iter().cloned());
    let keys: BTreeSet<NamespacedId> =
        keys.filter(|key| !request.unread.contains_key(key)).collect();
    observation.observed.unread = request.unread;
    let reads = keys.iter().map(async |key| Ok::<_, ApiError>((key, api.read_volume(key).await?)));
    let mut reads = stream::iter(reads).buffer_unordered(request.parallelism.max(1));
    while let Some((key, found)) = reads.try_next().await? {
        if let Some(reading) = found {
            observation.observed.volumes.insert(key.clone(), reading.value);
            if request.keeps_documents {
                observation.documents.insert(key.clone(), reading.document);
            }
        }
    }
    let observed = &mut observation.observed;
    let stored = observed.volumes.values().map(|volume| &volume.plugin_id);
    let unread = observed.unread.values();
    let stored = stored.chain(unread.map(|volume| &volume.data.plugin_id));
    let desired = request.desired.iter().map(|spec| &spec.request.plugin_id);
    let ids: BTreeSet<PluginId> = stored.chain(desired).cloned().collect();
    let reads =
        ids.iter().map(async |id| Ok::<_, ApiError>((id.clone(), plugin_state(api, id).await?)));
    let plugins = stream::iter(reads).buffered(request.parallelism.max(1));
    observed.plugins = plugins.try_collect().await?;
    observed.plugin_ids = plugin_ids(api, &observed.plugins).await;
    observed.namespaces = namespaces(api, request.desired, observed).await;
    let mut known = request.known_data.iter();
    if request.lists_all_volumes {
        observation.observed.registered = list_all_volumes(api).await?;
    } else if known.any(|key| !observation.observed.has(key)) {
        match list_all_volumes(api).await {
            Ok(listed) => observation.observed.registered = listed,
            Err(error) if error.code == Code::ApiForbidden => {}
            Err(error) => return Err(error),
        }
    }
    Ok(observation)
}

/// Lists the namespaces if a new volume is in another one than `default`, which always exists.
async fn namespaces(
    api: &dyn VolumeApi,
    desired: &[VolumeSpec],
    observed: &ObservedState,
) -> Option<BTreeSet<Namespace>> {
    let is_new = |spec: &&VolumeSpec| !observed.has(&spec.key());
    let mut new = desired.iter().filter(is_new);
    if new.all(|spec| spec.request.namespace == Namespace::default()) {
        return None;
    }
    api.namespace_names().await.ok()
}

/// How long a provider's list of snapshots is waited for. It only informs.
const SNAPSHOT_LIST_TIMEOUT: Duration = Duration::from_secs(20);

/// Returns the last snapshot of volumes whose data is at risk: one call per plugin and namespace. If a
/// provider cannot list snapshots in time, they are unknown, which is not an error.
pub(super) async fn last_snapshots(
    provider: &dyn ProviderReader,
    observed: &ObservedState,
    keys: impl IntoIterator<Item = &NamespacedId>,
) -> BTreeMap<NamespacedId, LastSnapshot> {
    let mut asked: BTreeMap<(&PluginId, &Namespace), Vec<&Volume>> = BTreeMap::new();
    for volume in keys.into_iter().filter_map(|key| observed.volumes.get(key)) {
        if lists_snapshots(observed.plugins.get(&volume.plugin_id)) {
            let of = (&volume.plugin_id, &volume.namespace);
            asked.entry(of).or_default().push(volume);
        }
    }
    let mut last = BTreeMap::new();
    for ((plugin, namespace), volumes) in asked {
        let none = Secrets::default();
        let listing = provider.list_snapshots(plugin, namespace, &none);
        let Ok(Ok(listed)) = timeout(SNAPSHOT_LIST_TIMEOUT, listing).await else {
            continue;
        };
        for volume in volumes {
            last.insert(volume.key(), last_of(volume, &listed));
        }
    }
    last
}

fn lists_snapshots(plugin: Option<&PluginState>) -> bool {
    match plugin {
        Some(PluginState::Known(plugin)) => plugin
            .controllers
            .values()
            .filter_map(|instance| instance.controller.as_ref())
            .any(|controller| controller.capabilities.list_snapshots),
        Some(PluginState::Missing | PluginState::Unknown) | None => false,
    }
}

fn last_of(volume: &Volume, listed: &[Snapshot]) -> LastSnapshot {
    let remote = volume.remote_id();
    let own = listed.iter().filter(|one| one.source == remote);
    let last = own.filter(|one| one.is_ready).max_by_key(|one| one.create_time);
    last.map_or(LastSnapshot::None, |one| LastSnapshot::Taken {
        id: one.id.to_string(),
        at: one.create_time,
    })
}

/// Returns a plugin; it is unknown if the token may not read it.
pub(super) async fn plugin_state(
    api: &(impl VolumeReader + ?Sized),
    id: &PluginId,
) -> Result<PluginState, ApiError> {
    match api.read_plugin(id, &Namespace::default()).await {
        Ok(Some(reading)) => Ok(PluginState::Known(Box::new(reading.value))),
        Ok(None) => Ok(PluginState::Missing),
        Err(error) if error.code == Code::ApiForbidden => Ok(PluginState::Unknown),
        Err(error) => Err(error),
    }
}

/// Returns the IDs of all plugins if one is missing, for a suggestion. A failure is not an error.
async fn plugin_ids(
    api: &dyn VolumeApi,
    plugins: &BTreeMap<PluginId, PluginState>,
) -> Vec<PluginId> {
    let is_missing = |state: &PluginState| matches!(state, PluginState::Missing);
    if !plugins.values().any(is_missing) {
        return vec![];
    }
    let listed = api.list_plugins(None).await.unwrap_or_default();
    listed.into_iter().map(|reading| reading.value.id).collect()
}
