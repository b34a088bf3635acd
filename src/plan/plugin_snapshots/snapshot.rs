//! A plugin of a file, as the rules see it.

use std::collections::BTreeMap;
use std::sync::Arc;

use nomad_csi_model::{Capability, Plugin, PluginId, Topology, one_line};

/// What a file says of a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginSnapshot {
    /// The name of the file, as it was found.
    pub file: String,
    /// Where the file comes from.
    pub origin: SnapshotOrigin,
    /// The plugin, with one healthy controller if it has one, and one healthy node for each topology.
    pub plugin: Plugin,
    /// How many nodes have each topology; `None` if the file says nothing of nodes.
    pub nodes: Option<Vec<(Topology, u64)>>,
    /// The least number of volumes that a node can have; `None` without a limit.
    pub max_volumes: Option<u64>,
    /// True if the plugin expands volumes only while they are not in use.
    pub expands_offline_only: bool,
    /// The modes that the plugin refused for a volume, with its reason.
    pub refused_modes: BTreeMap<Capability, String>,
}

/// Where a file comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SnapshotOrigin {
    /// A server, at this time in RFC 3339.
    Server(Option<String>),
    /// The plugin itself, on its socket.
    Plugin,
}

impl PluginSnapshot {
    /// Returns the note that says on what a problem is based: "as plugins/ceph.plugin.json of 2026-11-20 says".
    pub fn said(&self) -> String {
        let date = match &self.origin {
            SnapshotOrigin::Server(taken_at) => taken_at.as_deref().and_then(|text| text.get(..10)),
            SnapshotOrigin::Plugin => None,
        };
        let file = one_line(&self.file);
        match date {
            Some(date) => format!("as `{file}` of {} says", one_line(date)),
            None => format!("as `{file}` says"),
        }
    }

    /// Returns the number of nodes; `None` if the file says nothing of nodes.
    pub fn node_count(&self) -> Option<u64> {
        Some(
            self.nodes
                .as_ref()?
                .iter()
                .map(|(_, count)| count)
                .fold(0, |all, one| all.saturating_add(*one)),
        )
    }
}

/// The plugins of a directory, by their IDs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PluginSnapshots(Arc<BTreeMap<PluginId, PluginSnapshot>>);

impl FromIterator<PluginSnapshot> for PluginSnapshots {
    fn from_iter<I: IntoIterator<Item = PluginSnapshot>>(snapshots: I) -> Self {
        let snapshots = snapshots.into_iter();
        Self(Arc::new(snapshots.map(|one| (one.plugin.summary.id.clone(), one)).collect()))
    }
}

impl PluginSnapshots {
    /// Returns what is known of a plugin.
    pub fn get(&self, plugin: &PluginId) -> Option<&PluginSnapshot> {
        self.0.get(plugin)
    }

    /// Returns the IDs of all plugins.
    pub fn ids(&self) -> impl Iterator<Item = &PluginId> + Clone {
        self.0.keys()
    }

    /// Returns all plugins, by ID.
    pub fn iter(&self) -> impl Iterator<Item = &PluginSnapshot> {
        self.0.values()
    }
}
