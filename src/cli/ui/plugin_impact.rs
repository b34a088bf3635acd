//! The impact of the end of a plugin, as text and as JSON.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::allocs::short_id;
use super::printer::one_line;
use super::table::{heading, table};
use nomad_csi_model::{HealthCount, NodeId};
use nomad_csi_plan::doctor::{Loss, LostInstance, PluginImpact, VolumeImpact, VolumeUser};

/// The version of the JSON format.
const FORMAT_VERSION: u32 = 1;

/// The word for a volume that no new allocation can use.
const SCHEDULING: &str = "scheduling";

/// Returns the impact as text: a summary, the instances, the volumes, and what each loss means.
pub(crate) fn plugin_impact_text(impact: &PluginImpact) -> String {
    let place = match &impact.node {
        Some(node) => format!(" on node {}", short_id(node.as_str())),
        None => String::new(),
    };
    let name = one_line(impact.plugin.as_str());
    let summary = summary(impact);
    let mut sections = vec![format!("Without plugin {name}{place}: {summary}\n")];
    sections.push(heading("Instances That End") + &instances_text(impact));
    if !impact.volumes.is_empty() {
        sections.push(heading("Losses") + &losses_table(impact));
        sections.push(meanings(impact));
    }
    sections.join("\n")
}

fn summary(impact: &PluginImpact) -> String {
    if impact.volumes.is_empty() {
        return "nothing is lost".to_owned();
    }
    let count = |number: usize, noun: &str| match number {
        1 => format!("1 {noun}"),
        number => format!("{number} {noun}s"),
    };
    let counts = [
        count(impact.volumes.len(), "volume"),
        count(impact.allocs().len(), "allocation"),
        count(impact.jobs().len(), "job"),
        count(impact.user_nodes().len(), "node"),
    ];
    format!("{} are affected", counts.join(", "))
}

fn instances_text(impact: &PluginImpact) -> String {
    let rows = impact.instances.iter().map(|instance| {
        [
            short_id(instance.node.as_str()),
            short_id(instance.alloc.as_str()),
            parts(instance).join(", "),
            health(instance).to_owned(),
        ]
    });
    let left = |count: HealthCount| format!("{} of {}", count.healthy, count.expected);
    let (controllers, nodes) = (left(impact.controllers), left(impact.nodes));
    let ends = match impact.instances.is_empty() {
        true => "none\n".to_owned(),
        false => table(["Node ID", "Allocation", "Parts", "Health"], rows),
    };
    format!("{ends}Healthy instances that are left: controllers {controllers}, nodes {nodes}\n")
}

fn parts(instance: &LostInstance) -> Vec<&'static str> {
    let parts = [(instance.is_controller, "controller"), (instance.is_node, "node")];
    let served = parts.into_iter().filter(|(is_served, _)| *is_served);
    served.map(|(_, part)| part).collect()
}

fn health(instance: &LostInstance) -> &'static str {
    match instance.is_healthy {
        true => "healthy",
        false => "unhealthy",
    }
}

fn losses_table(impact: &PluginImpact) -> String {
    let rows = impact.volumes.iter().flat_map(|volume| {
        let own = volume.becomes_unschedulable.then(|| {
            let mut row = <[String; 7]>::default();
            row[0] = one_line(&volume.volume.to_string());
            row[6] = SCHEDULING.to_owned();
            row
        });
        let users = volume.users.iter().map(|user| user_row(volume, user));
        own.into_iter().chain(users)
    });
    let headings = ["Volume", "Allocation", "Job", "Task Group", "Node ID", "Access", "Loses"];
    table(headings, rows)
}

fn user_row(volume: &VolumeImpact, user: &VolumeUser) -> [String; 7] {
    let access = match (user.is_in_release, user.read_only) {
        (true, _) => "in release",
        (false, true) => "read",
        (false, false) => "write",
    };
    let losses: Vec<_> = user.losses.iter().map(|loss| loss.as_str()).collect();
    let node = user.node.as_ref();
    [
        one_line(&volume.volume.to_string()),
        short_id(user.alloc.as_str()),
        one_line(&user.job),
        one_line(&user.task_group),
        node.map(|node| short_id(node.as_str())).unwrap_or_default(),
        access.to_owned(),
        losses.join(", "),
    ]
}

/// Explains each loss that occurs.
fn meanings(impact: &PluginImpact) -> String {
    let users = impact.volumes.iter().flat_map(|volume| &volume.users);
    let losses: BTreeSet<Loss> = users.flat_map(|user| user.losses.clone()).collect();
    let becomes_unschedulable = impact.volumes.iter().any(|one| one.becomes_unschedulable);
    let unschedulable = becomes_unschedulable
        .then_some((SCHEDULING, "no new allocation that needs the volume can be placed"));
    let meaning = |loss: Loss| match loss {
        Loss::Unmount => (
            loss.as_str(),
            "the volume stays mounted until the plugin runs on the node again; a plugin that serves the data itself (FUSE) ends the access at once",
        ),
        Loss::Detach => (
            loss.as_str(),
            "the volume stays attached to the node until a controller is healthy again",
        ),
    };
    let all = unschedulable.into_iter().chain(losses.into_iter().map(meaning));
    all.map(|(word, text)| format!("{word}: {text}\n")).collect()
}

/// Returns the impact as JSON.
pub(crate) fn plugin_impact_json(impact: &PluginImpact) -> Value {
    let instances = impact.instances.iter().map(|instance| {
        json!({
            "alloc_id": instance.alloc.as_str(),
            "healthy": instance.is_healthy,
            "node_id": instance.node.as_str(),
            "parts": parts(instance),
        })
    });
    let count = |count: HealthCount| json!({"expected": count.expected, "healthy": count.healthy});
    json!({
        "format_version": FORMAT_VERSION,
        "instances": instances.collect::<Vec<_>>(),
        "left": {
            "controllers": count(impact.controllers),
            "nodes": count(impact.nodes),
        },
        "node_id": impact.node.as_ref().map(NodeId::as_str),
        "plugin_id": impact.plugin.as_str(),
        "volumes": impact.volumes.iter().map(volume_json).collect::<Vec<_>>(),
    })
}

fn volume_json(volume: &VolumeImpact) -> Value {
    let allocations = volume.users.iter().map(|user| {
        json!({
            "alloc_id": user.alloc.as_str(),
            "in_release": user.is_in_release,
            "job_id": user.job,
            "loses": user.losses.iter().map(|loss| loss.as_str()).collect::<Vec<_>>(),
            "node_id": user.node.as_ref().map(NodeId::as_str),
            "read_only": user.read_only,
            "task_group": user.task_group,
        })
    });
    json!({
        "allocations": allocations.collect::<Vec<_>>(),
        "becomes_unschedulable": volume.becomes_unschedulable,
        "id": volume.volume.id.as_str(),
        "namespace": volume.volume.namespace.as_str(),
    })
}
