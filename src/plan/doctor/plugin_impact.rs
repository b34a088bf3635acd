//! The impact of the end of a plugin, or of its instances on one node.
//!
//! The instance on a node mounts and unmounts there. Without it, no allocation that needs the plugin can
//! be placed on the node, and the volumes that are mounted there stay mounted. A controller attaches and
//! detaches on every node. Without a healthy one, volumes stay attached where they are. A volume is
//! schedulable while one healthy node is left, and one healthy controller if the plugin needs one.

use std::collections::{BTreeMap, BTreeSet};

use nomad_csi_model::{
    Alloc, AllocId, HealthCount, NamespacedId, NodeId, Plugin, PluginId, PluginInstance, Volume,
    VolumeClaim,
};

/// The facts about a plugin and the volumes that need it.
#[derive(Clone, Copy, Debug)]
pub struct PluginUse<'a> {
    /// The plugin.
    pub plugin: &'a Plugin,
    /// Its volumes.
    pub volumes: &'a [Volume],
    /// The claims of all volumes; `None` if the server does not show claims.
    pub claims: Option<&'a [VolumeClaim]>,
}

/// Something that an allocation can no longer do with a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Loss {
    /// The volume cannot be unmounted on the node of the allocation.
    Unmount,
    /// The volume cannot be detached from the node of the allocation.
    Detach,
}

impl Loss {
    /// Returns the word for people and for JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unmount => "unmount",
            Self::Detach => "detach",
        }
    }
}

/// An instance that ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostInstance {
    /// Its node.
    pub node: NodeId,
    /// The allocation that runs it.
    pub alloc: AllocId,
    /// True if it serves the controller service.
    pub is_controller: bool,
    /// True if it serves the node service.
    pub is_node: bool,
    /// True if it is healthy.
    pub is_healthy: bool,
}

/// An allocation that uses a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeUser {
    /// The allocation.
    pub alloc: AllocId,
    /// Its node; `None` if the server does not show it.
    pub node: Option<NodeId>,
    /// Its job; empty if it is not known.
    pub job: String,
    /// Its group; empty if it is not known.
    pub task_group: String,
    /// True if it only reads.
    pub read_only: bool,
    /// True if it gives the volume back already.
    pub is_in_release: bool,
    /// The parts that it loses.
    pub losses: BTreeSet<Loss>,
}

/// The impact on a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeImpact {
    /// The volume.
    pub volume: NamespacedId,
    /// True if allocations that need it can be placed now, and cannot afterwards.
    pub becomes_unschedulable: bool,
    /// The allocations that lose something.
    pub users: Vec<VolumeUser>,
}

/// A part that an allocation loses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginImpact {
    /// The plugin.
    pub plugin: PluginId,
    /// The node whose instances end; `None` for all nodes.
    pub node: Option<NodeId>,
    /// The instances that end.
    pub instances: Vec<LostInstance>,
    /// The controllers that are left.
    pub controllers: HealthCount,
    /// The node instances that are left.
    pub nodes: HealthCount,
    /// The volumes that are affected, sorted by namespace and ID.
    pub volumes: Vec<VolumeImpact>,
}

impl PluginImpact {
    /// Returns the allocations that lose something.
    pub fn allocs(&self) -> BTreeSet<&AllocId> {
        let users = self.volumes.iter().flat_map(|volume| &volume.users);
        users.map(|user| &user.alloc).collect()
    }

    /// Returns the namespaces and IDs of the jobs of these allocations.
    pub fn jobs(&self) -> BTreeSet<(&str, &str)> {
        let jobs = self.volumes.iter().flat_map(|volume| {
            let namespace = volume.volume.namespace.as_str();
            let users = volume.users.iter();
            users.map(move |user| (namespace, user.job.as_str()))
        });
        jobs.filter(|(_, job)| !job.is_empty()).collect()
    }

    /// Returns the nodes of these allocations.
    pub fn user_nodes(&self) -> BTreeSet<&NodeId> {
        let users = self.volumes.iter().flat_map(|volume| &volume.users);
        users.filter_map(|user| user.node.as_ref()).collect()
    }
}

/// Returns what is lost if the plugin ends, or only its instances on `node`.
pub fn plugin_impact(facts: PluginUse<'_>, node: Option<&NodeId>) -> PluginImpact {
    let plugin = facts.plugin;
    let ends = |on: &NodeId| node.is_none_or(|node| node == on);
    let controllers = healthy_left(&plugin.controllers, ends);
    let nodes = healthy_left(&plugin.nodes, ends);
    let attaches = plugin.controllers.values().any(attaches);
    let loses_controller =
        attaches && controllers.healthy == 0 && plugin.controllers.keys().any(ends);
    let needs_controller = plugin.summary.controller_required;
    let is_schedulable = nodes.healthy > 0 && (!needs_controller || controllers.healthy > 0);
    let losses_of = |user: &VolumeUser| {
        let unmounts =
            user.node.as_ref().is_some_and(|on| ends(on) && plugin.nodes.contains_key(on));
        let losses = [(unmounts, Loss::Unmount), (loses_controller, Loss::Detach)];
        losses
            .into_iter()
            .filter_map(|(is_lost, loss)| is_lost.then_some(loss))
            .collect::<BTreeSet<_>>()
    };
    let mut volumes: Vec<_> = facts
        .volumes
        .iter()
        .map(|volume| {
            let users = users_of(volume, facts.claims).into_iter();
            let users = users.map(|user| VolumeUser { losses: losses_of(&user), ..user });
            VolumeImpact {
                volume: volume.key(),
                becomes_unschedulable: volume.schedulable && !is_schedulable,
                users: users.filter(|user| !user.losses.is_empty()).collect(),
            }
        })
        .filter(|volume| volume.becomes_unschedulable || !volume.users.is_empty())
        .collect();
    volumes.sort_by(|a, b| a.volume.cmp(&b.volume));
    PluginImpact {
        plugin: plugin.summary.id.clone(),
        node: node.cloned(),
        instances: lost_instances(plugin, ends),
        controllers,
        nodes,
        volumes,
    }
}

fn attaches(instance: &PluginInstance) -> bool {
    let controller = instance.controller.as_ref();
    controller.is_some_and(|info| info.capabilities.publish_unpublish_volume)
}

fn healthy_left(
    instances: &BTreeMap<NodeId, PluginInstance>,
    ends: impl Fn(&NodeId) -> bool,
) -> HealthCount {
    let left = instances.iter().filter(|(node, _)| !ends(node));
    left.fold(HealthCount::default(), |count, (_, instance)| HealthCount {
        healthy: count.healthy + u64::from(instance.health.healthy),
        expected: count.expected + 1,
    })
}

/// The instances that end, sorted by node. A task with both services is one instance.
fn lost_instances(plugin: &Plugin, ends: impl Fn(&NodeId) -> bool) -> Vec<LostInstance> {
    let mut found: BTreeMap<(NodeId, AllocId), LostInstance> = BTreeMap::new();
    let controllers = plugin.controllers.iter().map(|one| (one, true));
    let nodes = plugin.nodes.iter().map(|one| (one, false));
    for ((node, instance), is_controller) in
        controllers.chain(nodes).filter(|((node, _), _)| ends(node))
    {
        let key = (node.clone(), instance.alloc_id.clone());
        let lost = found.entry(key).or_insert_with(|| LostInstance {
            node: node.clone(),
            alloc: instance.alloc_id.clone(),
            is_controller: false,
            is_node: false,
            is_healthy: true,
        });
        lost.is_controller |= is_controller;
        lost.is_node |= !is_controller;
        lost.is_healthy &= instance.health.healthy;
    }
    found.into_values().collect()
}

/// The allocations that use a volume: those of its claims, or those that the server shows with it.
fn users_of(volume: &Volume, claims: Option<&[VolumeClaim]>) -> Vec<VolumeUser> {
    let shown = |id: &AllocId| volume.allocs.iter().find(|alloc| alloc.id == *id);
    let user = |id: &AllocId, read_only| {
        let alloc: Option<&Alloc> = shown(id);
        VolumeUser {
            alloc: id.clone(),
            node: alloc.map(|alloc| alloc.node_id.clone()),
            job: alloc.map(|alloc| alloc.job_id.clone()).unwrap_or_default(),
            task_group: alloc.map(|alloc| alloc.task_group.clone()).unwrap_or_default(),
            read_only,
            is_in_release: alloc.is_some_and(|alloc| alloc.client.has_ended()),
            losses: BTreeSet::new(),
        }
    };
    let Some(claims) = claims else {
        let readers = volume.read_allocs.iter().map(|id| user(id, true));
        let writers = volume.write_allocs.iter().map(|id| user(id, false));
        return writers.chain(readers).collect();
    };
    let own = claims.iter().filter(|claim| claim.volume == volume.key());
    own.map(|claim| VolumeUser {
        node: Some(claim.node.clone()),
        is_in_release: claim.is_in_release(),
        ..user(&claim.alloc, claim.read_only)
    })
    .collect()
}

#[cfg(test)]
mod tests;
