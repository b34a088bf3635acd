//! The specification that `volume init --plugin` writes: a new volume of a plugin, from what the server
//! reports of that plugin.
//!
//! The specification is valid as it is, and the same report gives the same text. A field that the plugin
//! cannot use is left out. What servers do not report (parameters, secrets, sizes, access modes) is a
//! comment that says so.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::annotated::{Section, annotated};
use super::encode::{json_topologies, yaml_topologies};
use super::syntax::Syntax;
use nomad_csi_model::{
    AccessMode, ControllerCapabilities, Plugin, PluginInstance, Topology, shell_quoted,
};

/// The volume's ID and its name at the provider.
const NAME: &str = "example";

/// The largest number of topologies that are written as a request. A plugin with one topology per node
/// would fill the file.
const MAX_TOPOLOGIES: usize = 8;

/// Returns the specification in a syntax. Its usage comment contains the name of the file.
pub fn plugin_template(plugin: &Plugin, syntax: Syntax, file: &str) -> String {
    let report = PluginReport { plugin, syntax };
    let mut sections = vec![report.introduction(file), report.identity()];
    sections.extend(report.size());
    sections.extend([report.modes(), PluginReport::mount_options()]);
    sections.extend(report.topologies());
    sections.extend(report.content_sources());
    sections.push(PluginReport::secrets());
    sections.extend(report.parameters());
    annotated(&sections, syntax)
}

/// The report of a server about a plugin.
struct PluginReport<'p> {
    plugin: &'p Plugin,
    syntax: Syntax,
}

impl PluginReport<'_> {
    fn controllers(&self) -> impl Iterator<Item = &ControllerCapabilities> {
        let instances = self.plugin.controllers.values();
        instances.filter_map(|instance| Some(&instance.controller.as_ref()?.capabilities))
    }

    fn controller_can(&self, is_capable: impl Fn(&ControllerCapabilities) -> bool) -> bool {
        self.controllers().any(is_capable)
    }

    /// Returns whether the plugin has a controller of which nothing is known, because none runs.
    fn is_controller_unknown(&self) -> bool {
        self.plugin.summary.controller_required && self.controllers().next().is_none()
    }

    /// Returns whether the plugin creates volumes, as far as that is known.
    fn creates(&self) -> bool {
        self.is_controller_unknown() || self.controller_can(|can| can.create_delete_volume)
    }

    fn grows(&self) -> bool {
        let mut nodes = self.plugin.nodes.values();
        let on_node = |instance: &PluginInstance| {
            let node = instance.node.as_ref();
            node.is_some_and(|node| node.capabilities.expand_volume)
        };
        self.controller_can(|can| can.expand_volume) || nodes.any(on_node)
    }

    fn introduction(&self, file: &str) -> Section {
        let summary = &self.plugin.summary;
        let named = [summary.provider.as_str(), self.plugin.version.as_str()];
        let provider = named.join(" ").trim().to_owned();
        let verb = if self.creates() { "create" } else { "register" };
        let mut comments = vec![
            format!("A volume of plugin `{}` ({provider}).", summary.id),
            String::new(),
            format!("  nomad-csi volume {verb} -f {}", shell_quoted(file)),
            String::new(),
            "The fields follow what the server reports of the plugin. Servers do not report parameters,".to_owned(),
            "secrets, sizes and access modes: the plugin's documentation has them.".to_owned(),
        ];
        if self.is_controller_unknown() {
            comments.push(
                "No controller of the plugin runs, so its capabilities are unknown.".to_owned(),
            );
        }
        if self.plugin.nodes.is_empty() {
            comments
                .push("No node runs the plugin, so jobs cannot use its volumes yet.".to_owned());
        }
        comment(comments)
    }

    fn identity(&self) -> Section {
        let mut comments =
            vec!["`id` is the volume's ID in jobs, unique in its namespace.".to_owned()];
        let mut identity = Map::new();
        identity.insert("id".to_owned(), NAME.into());
        if self.creates() {
            comments.push("`name` is its name at the provider.".to_owned());
            identity.insert("name".to_owned(), NAME.into());
        } else {
            comments.push("The plugin creates no volumes: `external_id` is the provider's ID of an existing one.".to_owned());
            identity.insert("external_id".to_owned(), NAME.into());
        }
        identity.insert("type".to_owned(), "csi".into());
        let id = self.plugin.summary.id.as_str();
        identity.insert("plugin_id".to_owned(), id.into());
        fields(comments, identity.into())
    }

    fn size(&self) -> Option<Section> {
        let growth = match self.grows() {
            true => "The plugin can expand a volume: increase `capacity_min` later.",
            false if self.is_controller_unknown() => "Volumes never shrink.",
            false => "The plugin cannot expand a volume later.",
        };
        let size = json!({ "capacity_min": "1GiB", "capacity_max": "10GiB" });
        let comments = vec![
            "The minimum and maximum size. `10GiB` is 10 * 2^30 bytes, `10G` is 10 * 10^9 bytes."
                .to_owned(),
            growth.to_owned(),
        ];
        self.creates().then(|| fields(comments, size))
    }

    fn modes(&self) -> Section {
        let names = |modes: &[AccessMode]| {
            modes.iter().map(|mode| mode.as_str()).collect::<Vec<_>>().join(", ")
        };
        let (single, multi) = AccessMode::ALL.split_at(2);
        let capability = json!({ "capability": [{
            "access_mode": AccessMode::SingleNodeWriter.as_str(),
            "attachment_mode": "file-system",
        }] });
        let mut comments = vec![
            "How jobs use the volume. A volume can have several capabilities; a job uses one of them.".to_owned(),
            format!("access_mode on one node: {}", names(single)),
        ];
        comments.push(match self.is_local_to_nodes() {
            true => "Each node has its own topology, so the modes for several nodes do not fit."
                .to_owned(),
            false => format!("access_mode on several nodes: {}", names(multi)),
        });
        comments.push("attachment_mode: file-system or block-device".to_owned());
        fields(comments, capability)
    }

    fn mount_options() -> Section {
        let options = json!({ "mount_options": { "fs_type": "ext4", "mount_flags": ["noatime"] } });
        let comments =
            vec!["The file system and mount flags. Without them, the plugin decides.".to_owned()];
        example(comments, options)
    }

    /// The distinct topologies of the nodes.
    fn node_topologies(&self) -> BTreeSet<&Topology> {
        let nodes = self.plugin.nodes.values();
        let constrained = nodes.filter(|instance| instance.requires_topologies);
        let topologies =
            constrained.filter_map(|instance| instance.node.as_ref()?.accessible_topology.as_ref());
        topologies.filter(|topology| !topology.segments.is_empty()).collect()
    }

    /// Returns whether every one of several nodes has a topology of its own.
    fn is_local_to_nodes(&self) -> bool {
        let nodes = self.plugin.nodes.len();
        nodes > 1 && self.node_topologies().len() == nodes
    }

    fn topologies(&self) -> Option<Section> {
        let known: Vec<Topology> = self.node_topologies().into_iter().cloned().collect();
        let request = |topologies: &[Topology]| {
            let required = match self.syntax {
                Syntax::Yaml => yaml_topologies(topologies),
                Syntax::Hcl | Syntax::Json => json_topologies(topologies),
            };
            json!({ "topology_request": { "required": required } })
        };
        let first = known.first()?;
        if known.len() > MAX_TOPOLOGIES {
            let comments = vec![
                format!(
                    "The nodes of the plugin have {} topologies. Name those that the volume must be",
                    known.len()
                ),
                "accessible from. Without this block, the plugin decides.".to_owned(),
            ];
            return Some(example(comments, request(std::slice::from_ref(first))));
        }
        let comments = vec![
            "The volume must be accessible from one of these topologies, which the nodes report."
                .to_owned(),
        ];
        Some(fields(comments, request(&known)))
    }

    fn content_sources(&self) -> Vec<Section> {
        let snapshot = self.controller_can(|can| can.create_delete_snapshot).then(|| {
            example(
                vec!["To restore a snapshot, set the provider's ID of the snapshot:".to_owned()],
                json!({ "snapshot_id": "snapshot-id" }),
            )
        });
        let clone = self.controller_can(|can| can.clone_volume).then(|| {
            example(
                vec!["To clone a volume, set its external ID:".to_owned()],
                json!({ "clone_id": "external-id" }),
            )
        });
        let sources = snapshot.into_iter().chain(clone);
        sources.filter(|_| self.creates()).collect()
    }

    fn secrets() -> Section {
        let comments = vec![
            "The secrets of the plugin, if it needs any. `nomad-csi explain secrets` describes references.".to_owned(),
        ];
        example(comments, json!({ "secrets": { "KEY": "VALUE" } }))
    }

    fn parameters(&self) -> Option<Section> {
        let comments = vec![
            "The parameters of a new volume, if the plugin has any. They cannot be changed later."
                .to_owned(),
        ];
        let parameters = json!({ "parameters": { "KEY": "VALUE" } });
        self.creates().then(|| example(comments, parameters))
    }
}

fn comment(comments: Vec<String>) -> Section {
    fields(comments, Value::Null)
}

fn fields(comments: Vec<String>, fields: Value) -> Section {
    let fields = match fields {
        Value::Object(fields) => fields,
        _ => Map::new(),
    };
    Section { comments, fields, is_example: false }
}

fn example(comments: Vec<String>, example: Value) -> Section {
    Section { is_example: true, ..fields(comments, example) }
}

#[cfg(test)]
mod tests;
