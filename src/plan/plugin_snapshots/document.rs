//! The document that `plugin snapshot` writes. It has no names of nodes.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use nomad_csi_model::{Plugin, Topology};

/// The version of the format.
pub(super) const VERSION: u32 = 1;

/// The kind that tells the document from that of a probe.
pub(super) const KIND: &str = "plugin-snapshot";

/// What a server knows of a plugin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SnapshotDocument {
    /// The version of the format.
    pub version: u32,
    /// `plugin-snapshot`.
    pub kind: String,
    /// The plugin's ID.
    pub id: String,
    /// The plugin's name from GetPluginInfo.
    pub provider: String,
    /// The plugin's version from GetPluginInfo.
    #[serde(default)]
    pub provider_version: String,
    /// When the server was asked, in RFC 3339.
    #[serde(default)]
    pub taken_at: Option<String>,
    /// The version of the server; `None` if it is not known.
    #[serde(default)]
    pub server_version: Option<String>,
    /// True if the plugin needs a controller.
    pub controller_required: bool,
    /// The capabilities that every controller has, as CSI names them.
    pub controller_capabilities: BTreeSet<String>,
    /// The capabilities that every node plugin has, as CSI names them.
    pub node_capabilities: BTreeSet<String>,
    /// The topologies of the nodes.
    pub topologies: Vec<SnapshotTopology>,
    /// True if volumes may be inaccessible from some nodes.
    #[serde(default)]
    pub requires_topologies: bool,
    /// The least number of volumes that a node can have; `None` without a limit.
    #[serde(default)]
    pub max_volumes: Option<u64>,
}

/// A topology, and how many nodes have it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SnapshotTopology {
    /// The segments; empty for nodes that report none.
    pub segments: BTreeMap<String, String>,
    /// The number of nodes.
    pub nodes: u64,
}

impl SnapshotDocument {
    /// Returns the document of a plugin; `None` if it needs a controller and no controller has reported its capabilities.
    pub fn of(
        plugin: &Plugin,
        taken_at: Option<String>,
        server_version: Option<String>,
    ) -> Option<Self> {
        let summary = &plugin.summary;
        let reported = plugin.controllers.values().filter(|one| !one.provider.is_empty());
        let controllers = reported.filter_map(|one| one.controller.as_ref());
        let controllers: Vec<_> = controllers.map(|info| info.capabilities.names()).collect();
        if summary.controller_required && controllers.is_empty() {
            return None;
        }
        let infos: Vec<_> = plugin.nodes.values().filter_map(|one| one.node.as_ref()).collect();
        let mut nodes: BTreeMap<Topology, u64> = BTreeMap::new();
        for info in &infos {
            *nodes.entry(info.accessible_topology.clone().unwrap_or_default()).or_default() += 1;
        }
        let topology =
            |(place, nodes): (Topology, u64)| SnapshotTopology { segments: place.segments, nodes };
        let instances = plugin.controllers.values().chain(plugin.nodes.values());
        Some(Self {
            version: VERSION,
            kind: KIND.to_owned(),
            id: summary.id.to_string(),
            provider: summary.provider.clone(),
            provider_version: plugin.version.clone(),
            taken_at,
            server_version,
            controller_required: summary.controller_required,
            controller_capabilities: common(controllers),
            node_capabilities: common(infos.iter().map(|info| info.capabilities.names())),
            topologies: nodes.into_iter().map(topology).collect(),
            requires_topologies: instances.into_iter().any(|one| one.requires_topologies),
            max_volumes: infos.iter().filter_map(|info| info.max_volumes).min(),
        })
    }
}

/// Returns the names that are in every list.
fn common(lists: impl IntoIterator<Item = Vec<&'static str>>) -> BTreeSet<String> {
    let lists = lists.into_iter().map(|names| names.into_iter().collect::<BTreeSet<_>>());
    let common = lists.reduce(|one, other| one.intersection(&other).copied().collect());
    common.unwrap_or_default().into_iter().map(ToOwned::to_owned).collect()
}
