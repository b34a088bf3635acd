//! What people read of the state.
//!
//! Views are derived on every read, so that health and counts cannot drift from what they are
//! derived from. A volume that is being created is not there for any function here; one that is
//! being deleted is. Lists give pointers: reading many volumes costs little while others wait, and
//! turning them into documents happens afterwards.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::record::{PluginRecord, VolumeRecord};
use super::tables::State;
use crate::model::{
    ExternalId, HealthCount, Namespace, NamespacedId, Plugin, PluginId, PluginInstance,
    PluginSummary, SealedSecrets, Volume, VolumeId, VolumeSummary,
};

/// A plugin's health and identity, derived from its instances.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PluginStatus {
    /// GetPluginInfo's name; empty if the plugin is not known.
    pub provider: String,
    /// GetPluginInfo's version; empty if the plugin is not known.
    pub provider_version: String,
    /// Whether any instance says that it cannot be used without a controller (W18).
    pub controller_required: bool,
    /// Instances that serve the controller service.
    pub controllers: HealthCount,
    /// Instances that serve the node service.
    pub nodes: HealthCount,
}

impl PluginStatus {
    /// Whether an allocation that wants one of its volumes could be placed (`nomad-http-api` 4.1).
    pub fn is_schedulable(&self) -> bool {
        self.nodes.healthy > 0 && (!self.controller_required || self.controllers.healthy > 0)
    }
}

impl From<&PluginRecord> for PluginStatus {
    fn from(record: &PluginRecord) -> Self {
        let instances = || record.instances.values();
        let said_last = |instance: &&PluginInstance| (instance.health.healthy, instance.updated_at);
        let spokesman = instances().max_by_key(said_last);
        Self {
            provider: spokesman.map(|i| i.provider.clone()).unwrap_or_default(),
            provider_version: spokesman
                .map(|i| i.provider_version.clone())
                .unwrap_or_default(),
            controller_required: instances().any(|instance| instance.requires_controller),
            controllers: count(instances().filter(|instance| instance.controller.is_some())),
            nodes: count(instances().filter(|instance| instance.node.is_some())),
        }
    }
}

fn count<'a>(instances: impl Iterator<Item = &'a PluginInstance>) -> HealthCount {
    instances.fold(HealthCount::default(), |count, instance| HealthCount {
        healthy: count.healthy + u64::from(instance.health.healthy),
        expected: count.expected + 1,
    })
}

/// A volume as readers see it: its record and its plugin's status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeView {
    /// What is kept of it.
    pub record: Arc<VolumeRecord>,
    /// How its plugin is.
    pub plugin: Arc<PluginStatus>,
}

impl VolumeView {
    /// All that a reader of this volume sees.
    pub fn volume(&self) -> Volume {
        let VolumeRecord {
            definition,
            provided,
            ..
        } = &*self.record;
        let (provider, provider_version) = self.provider();
        Volume {
            namespace: definition.key.namespace.clone(),
            id: definition.key.id.clone(),
            name: definition.name.clone(),
            external_id: provided.external_id.clone(),
            plugin_id: definition.plugin_id.clone(),
            provider: provider.to_owned(),
            provider_version: provider_version.to_owned(),
            capabilities: definition.capabilities.clone(),
            requested_capacity: definition.capacity,
            capacity: provided.capacity,
            topology_request: definition.topology_request.clone(),
            topologies: provided.topologies.clone(),
            clone_id: definition.clone_id.clone(),
            snapshot_id: definition.snapshot_id.clone(),
            mount_options: definition.mount_options.clone(),
            parameters: definition.parameters.clone(),
            context: provided.context.clone(),
            access_mode: None,
            attachment_mode: None,
            read_allocs: Default::default(),
            write_allocs: Default::default(),
            allocs: vec![],
            schedulable: self.plugin.is_schedulable(),
            controller_required: self.plugin.controller_required,
            controllers: self.plugin.controllers,
            nodes: self.plugin.nodes,
            create_index: self.record.create_index,
            modify_index: self.record.modify_index,
            create_time: self.record.create_time,
            modify_time: self.record.modify_time,
        }
    }

    /// What a list shows of it.
    pub fn summary(&self) -> VolumeSummary {
        let VolumeRecord {
            definition,
            provided,
            ..
        } = &*self.record;
        VolumeSummary {
            namespace: definition.key.namespace.clone(),
            id: definition.key.id.clone(),
            name: definition.name.clone(),
            external_id: provided.external_id.clone(),
            plugin_id: definition.plugin_id.clone(),
            provider: self.provider().0.to_owned(),
            schedulable: self.plugin.is_schedulable(),
            access_mode: None,
            attachment_mode: None,
            readers: 0,
            writers: 0,
            create_index: self.record.create_index,
            modify_index: self.record.modify_index,
        }
    }

    /// The provider as the plugin says now, or as it said when the volume was last written (B58).
    fn provider(&self) -> (&str, &str) {
        if self.plugin.provider.is_empty() {
            let provided = &self.record.provided;
            (&provided.provider, &provided.provider_version)
        } else {
            (&self.plugin.provider, &self.plugin.provider_version)
        }
    }
}

/// Which volumes a list is to show. All conditions hold together (W47, B97).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeFilter {
    /// One namespace, or `*`.
    pub namespace: Namespace,
    /// Only IDs that start so; empty for all.
    pub prefix: String,
    /// Only volumes of this plugin.
    pub plugin: Option<PluginId>,
}

/// Where a page begins: the volume of that name, or the next one if it is gone.
///
/// Its text is Nomad's, `<namespace>.<id>` (`nomad-http-api` 2.9); a `.` or `%` in a namespace, which
/// Nomad does not allow there, is percent-encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeToken(NamespacedId);

/// A text is not a [`VolumeToken`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a page token is `<namespace>.<id>`, as an earlier page of the same list gave it")]
pub struct InvalidToken;

impl VolumeToken {
    /// Reads what [`VolumeToken`]'s `Display` wrote.
    ///
    /// # Errors
    /// If there is no `.` in it.
    pub fn parse(text: &str) -> Result<Self, InvalidToken> {
        let (namespace, id) = text.split_once('.').ok_or(InvalidToken)?;
        let namespace = namespace.replace("%2E", ".").replace("%25", "%");
        let key = NamespacedId::new(Namespace::new(namespace), VolumeId::new(id));
        Ok(Self(key))
    }
}

impl std::fmt::Display for VolumeToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let namespace = self.0.namespace.as_str();
        let namespace = namespace.replace('%', "%25").replace('.', "%2E");
        write!(f, "{namespace}.{}", self.0.id)
    }
}

/// One page of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumePage {
    /// By namespace and ID, in byte order.
    pub volumes: Vec<VolumeView>,
    /// Where the next page begins; `None` if this is the last one.
    pub next: Option<VolumeToken>,
}

/// A plugin as readers see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginView {
    /// What it is; its allocations are not known here.
    pub plugin: Plugin,
    /// Index of its creation.
    pub create_index: u64,
    /// Index of its last change.
    pub modify_index: u64,
    /// When it was first seen, nanoseconds since the epoch.
    pub create_time: i64,
    /// When it last changed, nanoseconds since the epoch.
    pub modify_time: i64,
}

/// One volume; `None` if there is none that readers may see.
pub fn volume(state: &State, key: &NamespacedId) -> Option<VolumeView> {
    let record = state
        .volumes
        .get(key)
        .filter(|record| record.is_visible())?;
    let plugin = plugin_status(state, &record.definition.plugin_id).unwrap_or_default();
    Some(VolumeView {
        record: Arc::clone(record),
        plugin: Arc::new(plugin),
    })
}

/// The volumes that match, from `start` on (of the first, if there is none), at most `limit` of
/// them (all, if it is 0).
pub fn volumes(
    state: &State,
    filter: &VolumeFilter,
    start: Option<&VolumeToken>,
    limit: usize,
) -> VolumePage {
    let mut statuses = Statuses::default();
    let mut page = VolumePage::default();
    for record in matching(state, filter, start) {
        if limit > 0 && page.volumes.len() == limit {
            page.next = Some(VolumeToken(record.key().clone()));
            break;
        }
        page.volumes.push(VolumeView {
            record: Arc::clone(record),
            plugin: statuses.of(state, &record.definition.plugin_id),
        });
    }
    page
}

/// Walks only the part of the table in which matches can lie.
fn matching<'a>(
    state: &'a State,
    filter: &'a VolumeFilter,
    start: Option<&VolumeToken>,
) -> impl Iterator<Item = &'a Arc<VolumeRecord>> {
    let everywhere = filter.namespace.as_str() == Namespace::ALL;
    let first = (!everywhere)
        .then(|| NamespacedId::new(filter.namespace.clone(), VolumeId::new(&*filter.prefix)));
    let from = first.as_ref().max(start.map(|token| &token.0));
    state
        .volumes
        .range((
            from.map_or(Bound::Unbounded, Bound::Included),
            Bound::Unbounded,
        ))
        .map(|(_, record)| record)
        .take_while(move |record| everywhere || is_in_range(record.key(), filter))
        .filter(move |record| {
            record.is_visible()
                && record.key().id.as_str().starts_with(&filter.prefix)
                && filter
                    .plugin
                    .as_ref()
                    .is_none_or(|plugin| *plugin == record.definition.plugin_id)
        })
}

/// Within one namespace, IDs of one prefix stand together.
fn is_in_range(key: &NamespacedId, filter: &VolumeFilter) -> bool {
    key.namespace == filter.namespace && key.id.as_str().starts_with(&filter.prefix)
}

/// Each plugin's status, derived once per list.
#[derive(Default)]
struct Statuses<'a>(BTreeMap<&'a PluginId, Arc<PluginStatus>>);

impl<'a> Statuses<'a> {
    fn of(&mut self, state: &State, id: &'a PluginId) -> Arc<PluginStatus> {
        let derive = || Arc::new(plugin_status(state, id).unwrap_or_default());
        Arc::clone(self.0.entry(id).or_insert_with(derive))
    }
}

/// Volumes that readers may see and that are one volume for the provider: more than one of them is
/// worth a warning, and none of them may be deleted (W13).
pub fn sharing(state: &State, plugin: &PluginId, external_id: &ExternalId) -> Vec<NamespacedId> {
    let remote = (plugin.clone(), external_id.clone());
    let keys = state.remote_ids.get(&remote).into_iter().flatten();
    keys.cloned().collect()
}

/// Any volume that has sealed secrets, with them: they tell whether a key is the right one.
pub fn sealed_secrets(state: &State) -> Option<(&NamespacedId, &SealedSecrets)> {
    let mut sealed = state.volumes.values().filter(|r| !r.secrets.is_empty());
    sealed.next().map(|record| (record.key(), &record.secrets))
}

/// A plugin's status; `None` if no instance of it is known.
pub fn plugin_status(state: &State, id: &PluginId) -> Option<PluginStatus> {
    state.plugins.get(id).map(PluginStatus::from)
}

/// One plugin; `None` if no instance of it is known.
pub fn plugin(state: &State, id: &PluginId) -> Option<PluginView> {
    let (id, record) = state.plugins.get_key_value(id)?;
    Some(plugin_view(id, record))
}

/// All plugins whose ID starts so, by ID.
pub fn plugins(state: &State, prefix: &str) -> Vec<PluginView> {
    let from = PluginId::new(prefix);
    state
        .plugins
        .range(from..)
        .take_while(|(id, _)| id.as_str().starts_with(prefix))
        .map(|(id, record)| plugin_view(id, record))
        .collect()
}

fn plugin_view(id: &PluginId, record: &PluginRecord) -> PluginView {
    let status = PluginStatus::from(record);
    let serving = |has: fn(&PluginInstance) -> bool| {
        let instances = record.instances.iter().filter(|(_, i)| has(i));
        instances.map(|(n, i)| (n.clone(), i.clone())).collect()
    };
    PluginView {
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

/// How much of the ID the provider's name shows.
const READABLE: usize = 24;

/// The name that CreateVolume is sent with (W13).
///
/// For the provider it is the volume's identity: of one name there is one volume. So it is the same
/// for every attempt of one creation, and differs between namespaces, IDs, a volume and the one that
/// is created in its place later, and between agents that share a provider. It has the shape that
/// the strictest providers take: at most 63 bytes of `a-z`, `0-9` and `-`, a letter first; the ID
/// is in it as far as it can be, for people.
pub fn provider_name(state: &State, record: &VolumeRecord) -> String {
    let key = record.key();
    let generation = record.create_index.to_string();
    let mut hash = Sha256::new();
    for part in [
        &state.origin,
        key.namespace.as_str(),
        key.id.as_str(),
        &generation,
    ] {
        hash.update(part.len().to_be_bytes());
        hash.update(part);
    }
    let digest = hash.finalize();
    let unique: String = digest[..16].iter().map(|b| format!("{b:02x}")).collect();
    let readable = readable(key.id.as_str());
    if readable.is_empty() {
        format!("csi-{unique}")
    } else {
        format!("csi-{readable}-{unique}")
    }
}

fn readable(id: &str) -> String {
    let plain = |c: char| {
        let c = c.to_ascii_lowercase();
        if c.is_ascii_alphanumeric() { c } else { '-' }
    };
    let text: String = id.chars().map(plain).collect();
    let words: Vec<_> = text.split('-').filter(|word| !word.is_empty()).collect();
    let joined = words.join("-");
    let cut = &joined[..joined.len().min(READABLE)];
    cut.trim_end_matches('-').to_owned()
}

#[cfg(test)]
mod tests;
