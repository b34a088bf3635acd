//! Nodes in the layout of Nomad's CLI, with the health of their plugins.

use super::allocs::{TimeReference, short_id};
use super::table::{heading, key_values, table};
use super::time::{ago, local_time};
use nomad_csi_model::one_line;
use nomad_csi_wire::{
    AllocationDocument, InstanceDocument, NodeDocument, NodeStub, nanoseconds_from_wire,
};

/// A node with its allocations.
pub(crate) struct NodeOverview {
    /// The node.
    pub node: NodeDocument,
    /// The allocations.
    pub allocations: Vec<AllocationDocument>,
}

/// Returns a table of nodes.
pub(crate) fn node_list(nodes: &[NodeStub], wide: bool) -> String {
    let headings = ["ID", "Node Pool", "DC", "Name", "Class", "Drain", "Eligibility", "Status"];
    let rows = nodes.iter().map(|node| {
        [
            if wide { node.id.clone() } else { short_id(&node.id) },
            node.node_pool.clone(),
            node.datacenter.clone(),
            node.name.clone(),
            node.node_class.clone(),
            node.drain.to_string(),
            node.scheduling_eligibility.clone(),
            status(&node.status, &node.status_description),
        ]
    });
    if !wide {
        return table(headings, rows);
    }
    let rows = rows.zip(nodes).map(|(row, node)| {
        let [id, pool, dc, name, class, drain, eligibility, status] = row;
        let (address, version) = (node.address.clone(), node.version.clone());
        [id, pool, dc, name, class, address, version, drain, eligibility, status]
    });
    let headings = [
        "ID",
        "Node Pool",
        "DC",
        "Name",
        "Class",
        "Address",
        "Version",
        "Drain",
        "Eligibility",
        "Status",
    ];
    table(headings, rows)
}

/// Returns the status of a node with its reason.
fn status(status: &str, description: &str) -> String {
    match description {
        "" => status.to_owned(),
        description => format!("{status} ({})", one_line(description)),
    }
}

/// Returns the details of one node.
pub(crate) fn node_detail(overview: &NodeOverview, now: &TimeReference, wide: bool) -> String {
    let node = &overview.node;
    let healthy = node.drivers.iter().filter(|(_, driver)| driver.healthy);
    let drivers: Vec<&str> = healthy.map(|(name, _)| name.as_str()).collect();
    let host_volumes: Vec<&str> = node.host_volumes.keys().map(String::as_str).collect();
    let mut sections = vec![key_values([
        ("ID", node.id.clone()),
        ("Name", node.name.clone()),
        ("Node Pool", node.node_pool.clone()),
        ("Class", node.node_class.clone()),
        ("DC", node.datacenter.clone()),
        ("Drain", node.drain.to_string()),
        ("Eligibility", node.scheduling_eligibility.clone()),
        ("Status", status(&node.status, &node.status_description)),
        (
            "Status Since",
            local_time(node.status_updated_at.saturating_mul(1_000_000_000), &now.zone),
        ),
        ("Drivers", drivers.join(",")),
        ("Host Volumes", host_volumes.join(",")),
    ])];
    sections.extend(plugins(node));
    sections.extend(events(node, now));
    sections.push(allocation_table(&overview.allocations, now, wide));
    sections.join("\n")
}

fn plugins(node: &NodeDocument) -> Option<String> {
    let row = |service: &str, id: &String, plugin: &InstanceDocument| {
        [
            id.clone(),
            service.to_owned(),
            plugin.provider.clone(),
            plugin.healthy.to_string(),
            plugin.health_description.clone(),
        ]
    };
    let controllers = node.controller_plugins.iter();
    let controllers = controllers.map(|(id, plugin)| row("controller", id, plugin));
    let nodes = node.node_plugins.iter();
    let nodes = nodes.map(|(id, plugin)| row("node", id, plugin));
    let rows: Vec<_> = controllers.chain(nodes).collect();
    let headings = ["ID", "Service", "Provider", "Healthy", "Description"];
    (!rows.is_empty()).then(|| heading("CSI Plugins") + &table(headings, rows))
}

fn events(node: &NodeDocument, now: &TimeReference) -> Option<String> {
    let rows = node.events.iter().rev().map(|event| {
        let time = nanoseconds_from_wire(event.timestamp.as_deref());
        let details = event.details.iter().flatten();
        let details: Vec<_> = details.map(|(key, value)| format!("{key}={value}")).collect();
        [
            local_time(time, &now.zone),
            event.subsystem.clone(),
            event.message.clone(),
            details.join(" "),
        ]
    });
    let headings = ["Time", "Subsystem", "Message", "Details"];
    (!node.events.is_empty()).then(|| heading("Node Events") + &table(headings, rows))
}

fn allocation_table(allocations: &[AllocationDocument], now: &TimeReference, wide: bool) -> String {
    let title = heading("Allocations");
    if allocations.is_empty() {
        return title + "No allocations placed\n";
    }
    let rows = allocations.iter().rev().map(|one| {
        [
            if wide { one.id.clone() } else { short_id(&one.id) },
            one.job_id.clone(),
            one.task_group.clone(),
            one.desired_status.clone(),
            one.client_status.clone(),
            ago(one.create_time, now.now),
            ago(one.modify_time, now.now),
        ]
    });
    let headings = ["ID", "Job ID", "Task Group", "Desired", "Status", "Created", "Modified"];
    title + &table(headings, rows)
}
