//! Computed health, and queries for single objects.

use super::*;
use crate::model::{AllocId, ClientStatus, NodeId, PluginInstance};
use crate::state::event::{Event, EventKind};
use crate::state::samples::jobs::{alloc_placed, alloc_reported, job_key, job_registered};
use crate::state::samples::{instance, key, node_registered, registered, started, state_of};

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
        (
            "one of two",
            vec![observed("n1", unhealthy), observed("n2", |_| {})],
            true,
        ),
    ] {
        let events = [started(), registered(&db, "ext-1")];
        let state = state_of(events.into_iter().chain(instances));
        assert_eq!(
            volume(&state, &db).unwrap().volume().schedulable,
            expected,
            "{case}"
        );
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
    assert_eq!(
        (view.plugin.controllers.len(), view.plugin.nodes.len()),
        (1, 2)
    );
    assert_eq!((view.create_index, view.modify_index), (3, 4));
    assert_eq!(plugins(&state, "host").len(), 1);
    assert_eq!(plugins(&state, "hostpath-2").len(), 0);
}

/// B95: health counts follow from the reports, so no order of them makes the counts drift.
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
    let allocs: Vec<_> = allocs
        .map(|alloc| (alloc.id.as_str(), alloc.job_id.as_str(), &alloc.client))
        .collect();
    assert_eq!(allocs, [("n1-alloc", "storage", &ClientStatus::Running)]);
}

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
            [
                controllers.healthy,
                controllers.expected,
                nodes.healthy,
                nodes.expected,
            ]
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
