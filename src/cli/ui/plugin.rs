//! Plugins in the layout of Nomad's CLI, with correct capabilities.
//!
//! Nomad's CLI reads one arbitrary instance and prints every capability that follows the first one it
//! has. This file checks each capability of every instance and reports differences, and shows the health of
//! every instance with its reason.

use std::collections::BTreeMap;

use super::allocs::{TimeReference, allocations, short_id};
use super::table::{heading, key_values, table};
use super::time::ago;
use nomad_csi_model::{
    AttachmentMode, Bytes, CapacityReport, ControllerCapabilities, HealthCount, NodeCapabilities,
    NodeId, Plugin, PluginInstance, PluginSummary, one_line,
};

/// Returns a table of plugins.
pub(crate) fn plugin_list(plugins: &[PluginSummary], wide: bool) -> String {
    let count = |count: HealthCount| format!("{}/{}", count.healthy, count.expected);
    let headings = ["ID", "Provider", "Controllers Healthy/Expected", "Nodes Healthy/Expected"];
    let rows = plugins.iter().map(|plugin| {
        [
            plugin.id.to_string(),
            plugin.provider.clone(),
            count(plugin.controllers),
            count(plugin.nodes),
        ]
    });
    if !wide {
        return table(headings, rows);
    }
    let [id, provider, controllers, nodes] = headings;
    let rows = rows.zip(plugins).map(|([id, provider, controllers, nodes], plugin)| {
        [id, provider, controllers, nodes, plugin.controller_required.to_string()]
    });
    table([id, provider, controllers, nodes, "Controller Required"], rows)
}

/// Returns the details of one plugin.
pub(crate) fn plugin_detail(plugin: &Plugin, now: &TimeReference, wide: bool) -> String {
    let summary = &plugin.summary;
    let mut sections = vec![key_values([
        ("ID", summary.id.to_string()),
        ("Provider", summary.provider.clone()),
        ("Version", plugin.version.clone()),
        ("Controllers Healthy", summary.controllers.healthy.to_string()),
        ("Controllers Expected", summary.controllers.expected.to_string()),
        ("Nodes Healthy", summary.nodes.healthy.to_string()),
        ("Nodes Expected", summary.nodes.expected.to_string()),
    ])];
    sections.extend(instances(plugin, now, wide));
    sections.extend(storage_health(plugin));
    if wide {
        sections.extend(capabilities("Controller Capabilities", &plugin.controllers, |instance| {
            instance.controller.as_ref().map(|info| controller_words(&info.capabilities))
        }));
        sections.extend(capabilities("Node Capabilities", &plugin.nodes, |instance| {
            let constrained = instance.requires_topologies;
            instance.node.as_ref().map(|info| node_words(&info.capabilities, constrained))
        }));
        sections.extend(topologies(plugin));
    }
    sections.push(allocations(&plugin.allocs, now, wide));
    sections.join("\n")
}

/// Returns every instance with its health, the unhealthy ones first. A task with both services is one row
/// if its services have the same health.
fn instances(plugin: &Plugin, now: &TimeReference, wide: bool) -> Option<String> {
    let controllers = plugin.controllers.iter().map(|one| ("controller", one));
    let nodes = plugin.nodes.iter().map(|one| ("node", one));
    let mut rows: BTreeMap<_, (Vec<&str>, &PluginInstance)> = BTreeMap::new();
    for (part, (node, instance)) in controllers.chain(nodes) {
        let health = &instance.health;
        let key = (health.healthy, node, &instance.alloc_id, &health.description);
        rows.entry(key).or_insert((vec![], instance)).0.push(part);
    }
    if rows.is_empty() {
        return None;
    }
    let id = |id: &str| match wide {
        true => id.to_owned(),
        false => short_id(id),
    };
    let rows = rows.into_iter().map(|((healthy, node, alloc, description), (parts, instance))| {
        let health = if healthy { "healthy" } else { "unhealthy" };
        let version = match instance.provider_version.as_str() {
            "" => &plugin.version,
            version => version,
        };
        let is_said = description == health;
        [
            id(node.as_str()),
            id(alloc.as_str()),
            parts.join(", "),
            health.to_owned(),
            ago(instance.updated_at, now.now),
            version.to_owned(),
            if is_said { String::new() } else { description.clone() },
        ]
    });
    let headings = ["Node ID", "Allocation", "Parts", "Health", "Since", "Version", "Description"];
    Some(heading("Instances") + &table(headings, rows))
}

/// Returns the conditions of the storage that the nodes report.
fn storage_health(plugin: &Plugin) -> Option<String> {
    let rows: Vec<_> = plugin
        .nodes
        .iter()
        .flat_map(|(node, instance)| {
            let statuses = instance.node.iter().flat_map(|info| &info.storage);
            statuses.map(|status| {
                let mode = status.attachment_mode.map(AttachmentMode::as_str);
                [
                    short_id(node.as_str()),
                    status.kind.to_string(),
                    status.reason.clone(),
                    mode.unwrap_or("all").to_owned(),
                    status.message.clone(),
                ]
            })
        })
        .collect();
    let headings = ["Node ID", "Status", "Reason", "Volumes", "Message"];
    (!rows.is_empty()).then(|| heading("Storage Health") + &table(headings, rows))
}

/// Returns the capabilities of the instances, one per line, with a count where instances differ.
fn capabilities(
    title: &str,
    instances: &BTreeMap<NodeId, PluginInstance>,
    words: impl Fn(&PluginInstance) -> Option<Vec<&'static str>>,
) -> Option<String> {
    let able: Vec<_> = instances.values().filter_map(words).collect();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for word in able.iter().flatten() {
        *counts.entry(word).or_default() += 1;
    }
    if able.is_empty() {
        return None;
    }
    let line = |(word, count): (&str, usize)| {
        if count == able.len() {
            format!("  {word}\n")
        } else {
            format!("  {word} (on {count} of {})\n", able.len())
        }
    };
    let lines: String = counts.into_iter().map(line).collect();
    let none = if lines.is_empty() { "  <none>\n" } else { "" };
    Some(heading(title) + &lines + none)
}

/// Returns Nomad's names of the capabilities.
fn controller_words(capabilities: &ControllerCapabilities) -> Vec<&'static str> {
    only(&[
        (capabilities.create_delete_volume, "CREATE_DELETE_VOLUME"),
        (capabilities.publish_unpublish_volume, "CONTROLLER_ATTACH_DETACH"),
        (capabilities.list_volumes, "LIST_VOLUMES"),
        (capabilities.get_capacity, "GET_CAPACITY"),
        (capabilities.create_delete_snapshot, "CREATE_DELETE_SNAPSHOT"),
        (capabilities.list_snapshots, "LIST_SNAPSHOTS"),
        (capabilities.clone_volume, "CLONE_VOLUME"),
        (capabilities.publish_readonly, "ATTACH_READONLY"),
        (capabilities.expand_volume, "EXPAND_VOLUME"),
        (capabilities.list_volumes_published_nodes, "LIST_VOLUMES_PUBLISHED_NODES"),
        (capabilities.volume_condition, "VOLUME_CONDITION"),
        (capabilities.get_volume, "GET_VOLUME"),
        (capabilities.get_volume_health, "GET_VOLUME_HEALTH"),
        (capabilities.list_volume_health, "LIST_VOLUME_HEALTH"),
        (capabilities.modify_volume, "MODIFY_VOLUME"),
    ])
}

/// Returns Nomad's names of the capabilities.
fn node_words(capabilities: &NodeCapabilities, constrained: bool) -> Vec<&'static str> {
    only(&[
        (constrained, "VOLUME_ACCESSIBILITY_CONSTRAINTS"),
        (capabilities.stage_unstage_volume, "STAGE_UNSTAGE_VOLUME"),
        (capabilities.get_volume_stats, "GET_VOLUME_STATS"),
        (capabilities.expand_volume, "EXPAND_VOLUME"),
        (capabilities.volume_condition, "VOLUME_CONDITION"),
        (capabilities.get_volume_health, "GET_VOLUME_HEALTH"),
        (capabilities.get_storage_health, "GET_STORAGE_HEALTH"),
    ])
}

fn only(words: &[(bool, &'static str)]) -> Vec<&'static str> {
    words.iter().filter(|(has, _)| *has).map(|(_, word)| *word).collect()
}

fn topologies(plugin: &Plugin) -> Option<String> {
    let rows: Vec<_> = plugin
        .nodes
        .iter()
        .filter_map(|(node, instance)| {
            let topology = instance.node.as_ref()?.accessible_topology.as_ref()?;
            Some([short_id(node.as_str()), topology.to_string()])
        })
        .collect();
    let headings = ["Node ID", "Accessible Topology"];
    (!rows.is_empty()).then(|| heading("Accessible Topologies") + &table(headings, rows))
}

/// Returns what a provider can still provide in each place, and what could not be read.
pub(crate) fn capacity_report(report: &CapacityReport) -> String {
    let mut text = format!("\n{}", heading("Capacity"));
    let size = |size: Option<Bytes>| size.map_or_else(|| "unknown".to_owned(), Bytes::binary);
    if !report.places.is_empty() {
        let rows = report.places.iter().map(|(topology, capacity)| {
            let place = topology.as_ref().map(ToString::to_string);
            [
                place.unwrap_or_else(|| "everywhere".to_owned()),
                capacity.available.binary(),
                size(capacity.maximum_volume_size),
                size(capacity.minimum_volume_size),
            ]
        });
        let headings = ["Topology", "Available", "Largest Volume", "Smallest Volume"];
        text += &table(headings, rows);
    }
    let notes = report.unknown.iter().map(|reason| {
        let reason = one_line(reason);
        format!("note: the capacity is not complete: {reason}\n")
    });
    text.extend(notes);
    text
}
