//! Reads a `*.plugin.json`: a document of `plugin snapshot`, or the result of `plugin probe -o json`.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::document::{KIND, SnapshotDocument, SnapshotTopology, VERSION};
use super::snapshot::{PluginSnapshot, SnapshotOrigin};
use nomad_csi_model::{
    AccessMode, AllocId, AttachmentMode, Capability, ControllerCapabilities, ControllerInfo,
    ExternalNodeId, Health, HealthCount, NodeCapabilities, NodeId, NodeInfo, Plugin, PluginId,
    PluginInstance, PluginSummary, Topology, one_line,
};

/// Why a file cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotProblem {
    /// The reason.
    pub why: String,
    /// The offset of the problem in the text, in bytes.
    pub at: usize,
}

/// The first keys of both documents.
#[derive(Deserialize)]
struct Head {
    version: u32,
    kind: Option<String>,
}

/// Reads the text of a file. `file` is its name, and `id` the plugin's ID if the text has none: that of the file.
///
/// # Errors
/// If the text is no such document.
pub fn read_snapshot(file: &str, id: &str, text: &str) -> Result<PluginSnapshot, SnapshotProblem> {
    let Head { version, kind } = parse(text)?;
    let refused = |key: &str, why: String| {
        let at = text.find(&format!("\"{key}\"")).unwrap_or(0);
        Err(SnapshotProblem { why, at })
    };
    if version != VERSION {
        return refused("version", format!("its version is {version}, not {VERSION}"));
    }
    match kind.as_deref() {
        Some(KIND) => {
            let document: SnapshotDocument = parse(text)?;
            match document.id.is_empty() {
                true => refused("id", "its `id` is empty".to_owned()),
                false => Ok(of_server(file, document)),
            }
        }
        Some(other) => refused("kind", format!("its kind is `{}`, not `{KIND}`", one_line(other))),
        None => Ok(of_plugin(file, id, parse(text)?)),
    }
}

fn parse<T: DeserializeOwned>(text: &str) -> Result<T, SnapshotProblem> {
    serde_json::from_str(text).map_err(|error| {
        let lines = text.split_inclusive('\n');
        let before: usize = lines.take(error.line().saturating_sub(1)).map(str::len).sum();
        let mut at = (before + error.column().saturating_sub(1)).min(text.len());
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        let why = error.to_string();
        // The place is marked, so the message does not repeat it.
        let why = why.rsplit_once(" at line ").map_or(why.as_str(), |(why, _)| why);
        SnapshotProblem { why: one_line(why), at }
    })
}

fn of_server(file: &str, document: SnapshotDocument) -> PluginSnapshot {
    let names = |names: &BTreeSet<String>| -> Vec<String> { names.iter().cloned().collect() };
    let place = |one: &SnapshotTopology| (Topology { segments: one.segments.clone() }, one.nodes);
    let nodes: Vec<(Topology, u64)> = document.topologies.iter().map(place).collect();
    let known = Known {
        id: document.id.clone(),
        provider: document.provider.clone(),
        version: document.provider_version.clone(),
        requires_controller: document.controller_required,
        requires_topologies: document.requires_topologies,
        controller: document.controller_required.then(|| names(&document.controller_capabilities)),
        node: names(&document.node_capabilities),
        places: nodes.iter().map(|(place, _)| place.clone()).collect(),
        max_volumes: document.max_volumes,
    };
    PluginSnapshot {
        file: file.to_owned(),
        origin: SnapshotOrigin::Server(document.taken_at),
        plugin: known.plugin(),
        nodes: Some(nodes),
        max_volumes: document.max_volumes,
        expands_offline_only: false,
        refused_modes: BTreeMap::new(),
    }
}

/// What is used of the result of `plugin probe -o json`.
#[derive(Deserialize)]
struct ProbeResult {
    name: String,
    vendor_version: String,
    services: Value,
    controller_capabilities: Option<Value>,
    node_capabilities: Option<Value>,
    #[serde(default)]
    volume_expansion: Vec<String>,
    #[serde(default)]
    volume_modes: Vec<VolumeMode>,
}

/// Returns the names in an answer; `None` if the call failed.
fn names(answer: &Value) -> Option<Vec<String>> {
    let names = answer.as_array()?.iter().map(|name| name.as_str().map(ToOwned::to_owned));
    names.collect()
}

#[derive(Deserialize)]
struct VolumeMode {
    access_mode: String,
    attachment_mode: String,
    is_confirmed: bool,
    reason: Option<String>,
}

impl VolumeMode {
    /// Returns the capability, if Nomad has it.
    fn capability(&self) -> Option<Capability> {
        let access_mode = self.access_mode.to_ascii_lowercase().replace('_', "-");
        Some(Capability {
            access_mode: AccessMode::parse(&access_mode)?,
            attachment_mode: AttachmentMode::parse(&self.attachment_mode)?,
        })
    }
}

/// A plugin knows only the node that it runs on, so nothing is known of the topologies.
fn of_plugin(file: &str, id: &str, probe: ProbeResult) -> PluginSnapshot {
    let services = names(&probe.services);
    let has = |name: &str| services.iter().flatten().any(|service| service == name);
    let expands = |kind: &str| probe.volume_expansion.iter().any(|one| one == kind);
    let refused = probe.volume_modes.into_iter().filter(|mode| !mode.is_confirmed);
    let refused =
        refused.filter_map(|mode| Some((mode.capability()?, mode.reason.unwrap_or_default())));
    let known = Known {
        id: id.to_owned(),
        provider: probe.name,
        version: probe.vendor_version,
        requires_controller: services.is_none() || has("CONTROLLER_SERVICE"),
        requires_topologies: has("VOLUME_ACCESSIBILITY_CONSTRAINTS"),
        controller: probe.controller_capabilities.as_ref().and_then(names),
        node: probe.node_capabilities.as_ref().and_then(names).unwrap_or_default(),
        places: vec![Topology::default()],
        max_volumes: None,
    };
    PluginSnapshot {
        file: file.to_owned(),
        origin: SnapshotOrigin::Plugin,
        plugin: known.plugin(),
        nodes: None,
        max_volumes: None,
        expands_offline_only: expands("OFFLINE") && !expands("ONLINE"),
        refused_modes: refused.collect(),
    }
}

/// What a document says of a plugin.
struct Known {
    id: String,
    provider: String,
    version: String,
    requires_controller: bool,
    requires_topologies: bool,
    /// The capabilities of the controller; `None` if they are not known, or there is none.
    controller: Option<Vec<String>>,
    node: Vec<String>,
    /// The topologies of the nodes, without segments where a node reports none.
    places: Vec<Topology>,
    max_volumes: Option<u64>,
}

impl Known {
    fn plugin(self) -> Plugin {
        let capabilities =
            |names: &[String]| ControllerCapabilities::of_names(names.iter().map(String::as_str));
        let controller = self.controller.as_deref().map(|names| PluginInstance {
            controller: Some(ControllerInfo { capabilities: capabilities(names) }),
            ..self.instance()
        });
        let node = |place: &Topology| {
            let is_reported = !place.segments.is_empty();
            NodeInfo {
                capabilities: NodeCapabilities::of_names(self.node.iter().map(String::as_str)),
                external_node_id: ExternalNodeId::new(""),
                max_volumes: self.max_volumes,
                accessible_topology: is_reported.then(|| place.clone()),
                storage: vec![],
            }
        };
        let nodes: BTreeMap<NodeId, PluginInstance> = (self.places.iter().enumerate())
            .map(|(at, place)| {
                let instance = PluginInstance { node: Some(node(place)), ..self.instance() };
                (NodeId::new(at.to_string()), instance)
            })
            .collect();
        let count = |count: usize| {
            let count = u64::try_from(count).unwrap_or(u64::MAX);
            HealthCount { healthy: count, expected: count }
        };
        Plugin {
            summary: PluginSummary {
                id: PluginId::new(&self.id),
                provider: self.provider.clone(),
                controller_required: self.requires_controller,
                // One that needs a controller and does not say what it can do counts as healthy too.
                controllers: count(usize::from(self.requires_controller)),
                nodes: count(nodes.len()),
            },
            version: self.version.clone(),
            controllers: controller.map(|one| (NodeId::new(""), one)).into_iter().collect(),
            nodes,
            allocs: vec![],
        }
    }

    /// Returns a healthy instance without a service.
    fn instance(&self) -> PluginInstance {
        PluginInstance {
            alloc_id: AllocId::new(""),
            health: Health { healthy: true, description: "healthy".to_owned() },
            updated_at: 0,
            provider: self.provider.clone(),
            provider_version: self.version.clone(),
            process: None,
            requires_controller: self.requires_controller,
            requires_topologies: self.requires_topologies,
            controller: None,
            node: None,
        }
    }
}
