//! The expectations of registered jobs about a plugin (W55).
//!
//! The counts follow from the groups of the jobs and from the nodes, not from what was placed: two groups of one job add up,
//! a system job counts as soon as it is registered, and a job that is stopped or purged counts no more. An instance
//! that no job runs is expected while it is known.

use super::plugin_record::PluginRecord;
use super::tables::State;
use nomad_csi_model::{
    CsiPluginType, Job, JobType, NodeStatus, PluginId, PluginInstance, TaskGroup,
};

/// How many instances of a plugin are expected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ExpectedInstances {
    /// Nodes with the controller service.
    pub(super) controllers: u64,
    /// Nodes with the node service.
    pub(super) nodes: u64,
}

/// Returns whether a registered job serves the plugin.
pub(super) fn has_job(state: &State, plugin: &PluginId) -> bool {
    state.jobs_of_plugin(plugin).any(|record| record.should_run())
}

/// Returns how many instances of a plugin are expected.
pub(super) fn expected_instances(
    state: &State,
    plugin: &PluginId,
    record: Option<&PluginRecord>,
) -> ExpectedInstances {
    let mut expected = ExpectedInstances::default();
    let jobs = state.jobs_of_plugin(plugin);
    for job in jobs.filter(|record| record.should_run()) {
        let job = &job.current.job;
        for group in &job.groups {
            let tasks = group.tasks.iter().filter_map(|task| task.csi_plugin.as_ref());
            for served in tasks.filter(|served| served.id == *plugin) {
                let count = group_count(state, job, group);
                if serves_controller(served.plugin_type) {
                    expected.controllers += count;
                }
                if serves_node(served.plugin_type) {
                    expected.nodes += count;
                }
            }
        }
    }
    let is_placed = |instance: &PluginInstance| {
        let alloc = state.allocs.get(&instance.alloc_id);
        alloc.is_some_and(|alloc| alloc.placement.is_some())
    };
    let Some(record) = record else {
        return expected;
    };
    let others = |has_service: fn(&PluginInstance) -> bool| {
        let by_node = record.by_node(has_service).into_values();
        let others = by_node.filter(|instance| !is_placed(instance));
        u64::try_from(others.count()).unwrap_or(u64::MAX)
    };
    expected.controllers += others(|instance| instance.controller.is_some());
    expected.nodes += others(|instance| instance.node.is_some());
    expected
}

/// The count of a group, or for a system job the nodes that are eligible for it.
fn group_count(state: &State, job: &Job, group: &TaskGroup) -> u64 {
    match job.job_type {
        JobType::System | JobType::Sysbatch => {
            let nodes = state.nodes.values().filter(|node| {
                let is_lost = state.losses.contains_key(&node.id);
                let is_up = node.status == NodeStatus::Ready && !is_lost;
                is_up && node.is_eligible && job.accepts_datacenter(&node.datacenter)
            });
            match group.count {
                0 => 0,
                _ => u64::try_from(nodes.count()).unwrap_or(u64::MAX),
            }
        }
        JobType::Service | JobType::Batch => u64::try_from(group.count).unwrap_or_default(),
    }
}

const fn serves_controller(kind: CsiPluginType) -> bool {
    match kind {
        CsiPluginType::Controller | CsiPluginType::Monolith => true,
        CsiPluginType::Node => false,
    }
}

const fn serves_node(kind: CsiPluginType) -> bool {
    match kind {
        CsiPluginType::Node | CsiPluginType::Monolith => true,
        CsiPluginType::Controller => false,
    }
}
