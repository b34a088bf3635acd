//! Computed health, and queries for single objects.

use super::*;
use crate::state::event::{Event, EventKind};
use crate::state::job_record::JobEvent;
use crate::state::samples::jobs::{alloc_placed, alloc_reported, job_key, job_registered};
use crate::state::samples::{instance, key, node_registered, registered, started, state_of};
use nomad_csi_model::{
    AllocId, ClientStatus, CsiPluginConfig, CsiPluginType, Job, JobId, JobKey, JobType, Namespace,
    NodeId, PluginInstance, RestartPolicy, Task, TaskGroup,
};

fn observed(node: &str, edit: impl FnOnce(&mut PluginInstance)) -> EventKind {
    let mut instance = instance(true);
    instance.alloc_id = AllocId::new(format!("{node}-alloc"));
    edit(&mut instance);
    EventKind::PluginAllocObserved {
        plugin: PluginId::new("hostpath"),
        node: NodeId::new(node),
        instance: Box::new(instance),
    }
}

/// The node's instance reports the requirement before any controller runs (W18).
#[test]
fn one_instance_that_requires_a_controller_is_enough() {
    let db = key("default", "db");
    let state = state_of([
        started(),
        registered(&db, "ext-1"),
        observed("n1", |instance| instance.controller = None),
    ]);
    let view = volume(&state, &db).unwrap().volume();
    assert!(view.controller_required && !view.schedulable);
    assert_eq!((view.nodes.healthy, view.controllers.expected), (1, 0));
}

/// B87: a volume is schedulable only while its plugin is healthy.
#[test]
fn a_volume_is_schedulable_if_its_plugin_is_healthy() {
    let db = key("default", "db");
    let unhealthy = |instance: &mut PluginInstance| instance.health.healthy = false;
    let node_only = |instance: &mut PluginInstance| {
        instance.controller = None;
        instance.requires_controller = false;
    };
    for (case, instances, expected) in [
        ("no plugin", vec![], false),
        ("all healthy", vec![observed("n1", |_| {})], true),
        ("all unhealthy", vec![observed("n1", unhealthy)], false),
        ("needs no controller", vec![observed("n1", node_only)], true),
        ("one of two", vec![observed("n1", unhealthy), observed("n2", |_| {})], true),
    ] {
        let events = [started(), registered(&db, "ext-1")];
        let state = state_of(events.into_iter().chain(instances));
        assert_eq!(volume(&state, &db).unwrap().volume().schedulable, expected, "{case}");
    }
}

/// A volume stays readable without its plugin, with the last known provider (B58).
#[test]
fn the_provider_comes_from_the_plugin_or_from_the_last_write() {
    let db = key("default", "db");
    let mut state = state_of([started(), registered(&db, "ext-1"), observed("n1", |_| {})]);
    let version = |state: &State| volume(state, &db).unwrap().volume().provider_version;
    assert_eq!(version(&state), "1.1.0");
    let gone = EventKind::PluginAllocGone {
        plugin: PluginId::new("hostpath"),
        alloc: AllocId::new("n1-alloc"),
    };
    crate::state::apply::apply(&mut state, &Event::new(9, gone));
    assert_eq!(version(&state), "1.0.0");
}

#[test]
fn an_instance_is_listed_under_each_of_its_services() {
    let state = state_of([
        started(),
        observed("n1", |_| {}),
        observed("n2", |instance| instance.controller = None),
    ]);
    let view = plugin(&state, &PluginId::new("hostpath")).unwrap();
    assert_eq!((view.plugin.controllers.len(), view.plugin.nodes.len()), (1, 2));
    assert_eq!((view.create_index, view.modify_index), (3, 4));
    assert_eq!(plugins(&state, "host").len(), 1);
    assert_eq!(plugins(&state, "hostpath-2").len(), 0);
}

/// The instance of an allocation that no job placed, such as the agent's own plugin, is not among them.
#[test]
fn a_plugin_names_the_allocations_of_jobs_that_run_it() {
    let job = job_key("storage");
    let state = state_of([
        started(),
        node_registered(1),
        job_registered(&job),
        alloc_placed(&job, "n1-alloc", "node-1"),
        alloc_reported("n1-alloc", ClientStatus::Running),
        observed("node-1", |instance| instance.alloc_id = "n1-alloc".into()),
        observed("node-2", |_| {}),
    ]);
    let view = plugin(&state, &PluginId::new("hostpath")).unwrap();
    let allocs = view.plugin.allocs.iter();
    let allocs: Vec<_> =
        allocs.map(|alloc| (alloc.id.as_str(), alloc.job_id.as_str(), &alloc.client)).collect();
    assert_eq!(allocs, [("n1-alloc", "storage", &ClientStatus::Running)]);
}

/// B95: health counts follow from the reports, so no order of them makes the counts drift or go below zero, and an
/// instance with both services counts on both sides.
#[test]
fn health_counts_follow_from_the_last_report_of_each_instance() {
    let unhealthy = |instance: &mut PluginInstance| instance.health.healthy = false;
    let gone = |node: &str| EventKind::PluginAllocGone {
        plugin: PluginId::new("hostpath"),
        alloc: AllocId::new(format!("{node}-alloc")),
    };
    let mut state = state_of([started()]);
    for (number, (event, expected)) in [
        (observed("n1", unhealthy), Some([0, 1, 0, 1])),
        (observed("n1", |_| {}), Some([1, 1, 1, 1])),
        (observed("n1", |_| {}), Some([1, 1, 1, 1])),
        (observed("n2", |i| i.controller = None), Some([1, 1, 2, 2])),
        (observed("n1", unhealthy), Some([0, 1, 1, 2])),
        (observed("n1", unhealthy), Some([0, 1, 1, 2])),
        (gone("n1"), Some([0, 0, 1, 1])),
        (gone("n1"), Some([0, 0, 1, 1])),
        (observed("n1", |_| {}), Some([1, 1, 2, 2])),
        (gone("n2"), Some([1, 1, 1, 1])),
        (gone("n1"), None),
    ]
    .into_iter()
    .enumerate()
    {
        crate::state::apply::apply(&mut state, &Event::new(9, event));
        let status = plugin_status(&state, &PluginId::new("hostpath"));
        let counts = status.map(|status| {
            let (controllers, nodes) = (status.controllers, status.nodes);
            [controllers.healthy, controllers.expected, nodes.healthy, nodes.expected]
        });
        assert_eq!(counts, expected, "after report {number}");
    }
}

/// B85: a new registration has no claims, modes or counts.
#[test]
fn a_new_volume_starts_empty() {
    let db = key("default", "db");
    let state = state_of([started(), registered(&db, "ext-1")]);
    let view = volume(&state, &db).unwrap();
    let shown = view.volume();
    assert!(shown.read_allocs.is_empty() && shown.write_allocs.is_empty());
    assert_eq!((shown.access_mode, shown.attachment_mode), (None, None));
    assert_eq!((view.summary().readers, view.summary().writers), (0, 0));
    assert_eq!(state.all_claims().len(), 0);
}

/// A job whose groups have these counts, each with a task that serves the plugin.
fn plugin_job(
    id: &str,
    job_type: JobType,
    kind: CsiPluginType,
    counts: &[i64],
) -> (JobKey, EventKind) {
    let key = JobKey::new(Namespace::default(), JobId::new(id));
    let groups = counts.iter().enumerate().map(|(at, count)| {
        let policy = RestartPolicy::of_type(job_type);
        let mut task = Task::new("plugin", "exec", policy);
        task.csi_plugin = Some(CsiPluginConfig::new(PluginId::new("hostpath"), kind));
        let mut group = TaskGroup::new(format!("g{at}"), job_type);
        group.count = *count;
        group.tasks = vec![task];
        group
    });
    let job = Job {
        job_type,
        groups: groups.collect(),
        ..Job::new(key.namespace.clone(), key.id.clone())
    };
    let event =
        JobEvent::Registered { job: Box::new(job), settings: Default::default(), earlier: 0 };
    let event = EventKind::Job { job: key.clone(), event: Box::new(event) };
    (key, event)
}

fn job_stopped(key: &JobKey, purges: bool) -> EventKind {
    EventKind::Job { job: key.clone(), event: Box::new(JobEvent::Stopped { purges }) }
}

/// B96, W55: a plugin is listed while it has an instance or a job, and its expected counts follow from the groups of the
/// jobs and the nodes, from the registration to the purge.
#[test]
fn a_plugin_exists_while_it_has_an_instance_or_a_job() {
    let plugin = PluginId::new("hostpath");
    let unhealthy = |instance: &mut PluginInstance| instance.health.healthy = false;
    let only_node = |instance: &mut PluginInstance| instance.controller = None;
    let (controllers, registered) =
        plugin_job("controllers", JobType::Service, CsiPluginType::Controller, &[2]);
    let (_, two_groups) =
        plugin_job("controllers", JobType::Service, CsiPluginType::Controller, &[2, 1]);
    let (nodes, system) = plugin_job("nodes", JobType::System, CsiPluginType::Node, &[1]);
    let (other, monolith) = plugin_job("other", JobType::Service, CsiPluginType::Monolith, &[1]);
    let gone = |node: &str| EventKind::PluginAllocGone {
        plugin: PluginId::new("hostpath"),
        alloc: AllocId::new(format!("{node}-alloc")),
    };
    let mut state = state_of([started()]);
    // Healthy and expected controllers, healthy and expected nodes.
    for (step, event, expected) in [
        ("a job is registered", registered, Some([0, 2, 0, 0])),
        ("a second group adds up", two_groups, Some([0, 3, 0, 0])),
        ("a system job without nodes", system, Some([0, 3, 0, 0])),
        ("a node", node_registered(1), Some([0, 3, 0, 1])),
        ("another node", node_registered(2), Some([0, 3, 0, 2])),
        ("a monolith counts on both sides", monolith, Some([0, 4, 0, 3])),
        ("it is stopped", job_stopped(&other, false), Some([0, 3, 0, 2])),
        ("an instance that no job runs", observed("n9", only_node), Some([0, 3, 1, 3])),
        ("it is unhealthy", observed("n9", unhealthy), Some([0, 4, 0, 3])),
        ("it is gone", gone("n9"), Some([0, 3, 0, 2])),
        ("one job is stopped", job_stopped(&controllers, false), Some([0, 0, 0, 2])),
        ("the other is purged", job_stopped(&nodes, true), None),
        ("an instance without a job", observed("n9", only_node), Some([0, 0, 1, 1])),
        ("and it is gone", gone("n9"), None),
    ] {
        crate::state::apply::apply(&mut state, &Event::new(9, event));
        assert_eq!(crate::state::violations(&state), Vec::<String>::new(), "{step}");
        let status = plugin_status(&state, &plugin);
        let counts = status.as_ref().map(|status| {
            let (controllers, nodes) = (status.controllers, status.nodes);
            [controllers.healthy, controllers.expected, nodes.healthy, nodes.expected]
        });
        assert_eq!(counts, expected, "{step}");
        let is_listed = crate::state::plugins(&state, "host").len() == 1;
        assert_eq!(is_listed, expected.is_some(), "{step}");
        assert_eq!(crate::state::plugin(&state, &plugin).is_some(), expected.is_some(), "{step}");
        if let Some(view) = crate::state::plugin(&state, &plugin) {
            assert!(view.create_index > 0 && view.modify_index > 0, "{step}");
        }
    }
}
