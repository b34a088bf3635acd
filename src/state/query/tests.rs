//! Lists, filters, pages, derived health, names for providers.

use super::*;
use crate::model::{NodeId, PluginId};
use crate::state::event::{Event, EventKind};
use crate::state::samples::{
    create_intended, created, definition, instance, key, provided, registered, started, state_of,
};

fn filter(namespace: &str, prefix: &str, plugin: Option<&str>) -> VolumeFilter {
    VolumeFilter {
        namespace: Namespace::new(namespace),
        prefix: prefix.to_owned(),
        plugin: plugin.map(PluginId::new),
    }
}

fn of_plugin(key: &NamespacedId, plugin: &str) -> EventKind {
    let mut definition = definition(key);
    definition.plugin_id = PluginId::new(plugin);
    EventKind::VolumeRegistered {
        definition: Box::new(definition),
        provided: Box::new(provided(key.id.as_str())),
        secrets: Default::default(),
    }
}

/// Volumes of two plugins in three namespaces, one of them a prefix of another.
fn several() -> State {
    let volumes = [
        ("a", "db0", "ebs"),
        ("a", "db1", "nfs"),
        ("a", "web", "ebs"),
        ("a-b", "db0", "nfs"),
        ("b", "d", "ebs"),
        ("b", "db", "ebs"),
        ("b", "dc", "nfs"),
    ];
    let registered = volumes.map(|(namespace, id, plugin)| of_plugin(&key(namespace, id), plugin));
    state_of([started()].into_iter().chain(registered))
}

fn names(page: &VolumePage) -> Vec<String> {
    let name = |view: &VolumeView| {
        let key = view.record.key();
        format!("{}/{}", key.namespace, key.id)
    };
    page.volumes.iter().map(name).collect()
}

/// W47, B97.
#[test]
fn all_conditions_of_a_list_hold_together() {
    let state = several();
    for (namespace, prefix, plugin, expected) in [
        ("*", "", None, "a/db0 a/db1 a/web a-b/db0 b/d b/db b/dc"),
        ("a", "", None, "a/db0 a/db1 a/web"),
        ("a-b", "", None, "a-b/db0"),
        ("c", "", None, ""),
        ("*", "db", None, "a/db0 a/db1 a-b/db0 b/db"),
        ("b", "d", None, "b/d b/db b/dc"),
        ("b", "db", None, "b/db"),
        ("*", "", Some("nfs"), "a/db1 a-b/db0 b/dc"),
        ("a", "", Some("nfs"), "a/db1"),
        ("*", "db", Some("ebs"), "a/db0 b/db"),
        ("a", "web", Some("nfs"), ""),
        ("a", "", Some("eb"), ""),
    ] {
        let page = volumes(&state, &filter(namespace, prefix, plugin), None, 0);
        assert_eq!(
            names(&page).join(" "),
            expected,
            "{namespace} {prefix} {plugin:?}"
        );
        assert_eq!(page.next, None);
    }
}

#[test]
fn pages_follow_one_another_without_gap_or_repetition() {
    let state = several();
    for (filter, limit) in [
        (filter("*", "", None), 1),
        (filter("*", "", None), 2),
        (filter("*", "db", None), 3),
        (filter("b", "d", None), 2),
        (filter("*", "", Some("nfs")), 2),
    ] {
        let whole = names(&volumes(&state, &filter, None, 0));
        let mut pieces = vec![];
        let mut token = None;
        loop {
            let page = volumes(&state, &filter, token.as_ref(), limit);
            assert!(page.volumes.len() <= limit);
            pieces.extend(names(&page));
            let Some(next) = page.next else { break };
            token = Some(VolumeToken::parse(&next.to_string()).unwrap());
        }
        assert_eq!(pieces, whole, "{filter:?} by {limit}");
    }
}

/// The token names the next volume (`nomad-http-api` 2.9); by then it may be gone.
#[test]
fn a_page_begins_at_its_token_or_behind_it_and_never_outside_the_filter() {
    let state = several();
    let from = |token: &str, filter: &VolumeFilter| {
        let token = VolumeToken::parse(token).unwrap();
        names(&volumes(&state, filter, Some(&token), 0)).join(" ")
    };
    assert_eq!(from("b.db", &filter("*", "", None)), "b/db b/dc");
    assert_eq!(from("b.da", &filter("*", "", None)), "b/db b/dc");
    assert_eq!(from("a.db0", &filter("b", "", None)), "b/d b/db b/dc");
    assert_eq!(from("b.db", &filter("a", "", None)), "");
    assert_eq!(from("b.zz", &filter("*", "", None)), "");
}

#[test]
fn a_token_survives_whatever_a_namespace_is_called() {
    for (namespace, id, text) in [
        ("default", "db.0", "default.db.0"),
        ("x.y", "db", "x%2Ey.db"),
        ("x%2Ey", "db", "x%252Ey.db"),
        ("", "", "."),
    ] {
        let token = VolumeToken(key(namespace, id));
        assert_eq!(token.to_string(), text);
        assert_eq!(VolumeToken::parse(text), Ok(token));
    }
    assert_eq!(VolumeToken::parse("nonsense"), Err(InvalidToken));
}

/// W14: for a planner it is absent, so that the next run continues the create.
#[test]
fn what_is_being_created_is_not_there_and_what_is_being_deleted_is() {
    let (creating, deleting) = (key("default", "new"), key("default", "old"));
    let state = state_of([
        started(),
        create_intended(&creating),
        registered(&deleting, "ext-1"),
        EventKind::VolumeDeleteIntended {
            key: deleting.clone(),
        },
    ]);
    assert_eq!(volume(&state, &creating), None);
    assert!(volume(&state, &deleting).is_some());
    let page = volumes(&state, &filter("*", "", None), None, 0);
    assert_eq!(names(&page), ["default/old"]);
    let (plugin, id) = (PluginId::new("hostpath"), ExternalId::new("new"));
    assert!(sharing(&state, &plugin, &id).is_empty());
}

fn observed(node: &str, edit: impl FnOnce(&mut PluginInstance)) -> EventKind {
    let mut instance = instance(true);
    edit(&mut instance);
    EventKind::PluginInstanceObserved {
        plugin: PluginId::new("hostpath"),
        node: NodeId::new(node),
        instance: Box::new(instance),
    }
}

/// W18: the node's instance says it, before any controller has.
#[test]
fn one_instance_that_needs_a_controller_is_enough_to_need_one() {
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

#[test]
fn a_volume_is_schedulable_as_its_plugins_health_says() {
    let db = key("default", "db");
    let unhealthy = |instance: &mut PluginInstance| instance.health.healthy = false;
    let node_only = |instance: &mut PluginInstance| {
        instance.controller = None;
        instance.requires_controller = false;
    };
    for (case, instances, expected) in [
        ("no plugin", vec![], false),
        ("all well", vec![observed("n1", |_| {})], true),
        ("all ill", vec![observed("n1", unhealthy)], false),
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

/// B58, and a volume stays readable without its plugin (`csi-orchestration` 1.9).
#[test]
fn the_provider_is_the_plugins_and_without_it_the_one_last_known() {
    let db = key("default", "db");
    let mut state = state_of([started(), registered(&db, "ext-1"), observed("n1", |_| {})]);
    let version = |state: &State| volume(state, &db).unwrap().volume().provider_version;
    assert_eq!(version(&state), "1.1.0");
    let gone = EventKind::PluginInstanceGone {
        plugin: PluginId::new("hostpath"),
        node: NodeId::new("n1"),
    };
    crate::state::apply::apply(&mut state, &Event::new(9, gone));
    assert_eq!(version(&state), "1.0.0");
}

#[test]
fn an_instance_is_listed_under_each_service_that_it_serves() {
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

/// W13.
#[test]
fn provider_names_differ_where_the_volume_does() {
    let name = |state: &State, key: &NamespacedId| provider_name(state, state.record(key).unwrap());
    let (a, b) = (key("default", "db"), key("prod", "db"));
    let abandoned = EventKind::VolumeCreateAbandoned { key: a.clone() };
    let first = state_of([started(), create_intended(&a), create_intended(&b)]);
    let again = state_of([
        started(),
        create_intended(&a),
        abandoned,
        create_intended(&a),
    ]);
    let origin = EventKind::AgentStarted {
        origin: "another agent".to_owned(),
    };
    let elsewhere = state_of([origin, create_intended(&a)]);
    let done = state_of([started(), create_intended(&a), created(&a, "ext-1")]);
    let all = [
        name(&first, &a),
        name(&first, &b),
        name(&again, &a),
        name(&elsewhere, &a),
    ];
    let different: std::collections::BTreeSet<_> = all.iter().collect();
    assert_eq!(different.len(), 4, "{all:?}");
    assert_eq!(name(&done, &a), all[0], "the name stays after creation");
}

#[test]
fn provider_names_have_the_shape_that_the_strictest_provider_takes() {
    let long = "x".repeat(128);
    for (id, readable) in [
        ("db", "csi-db-"),
        ("DB_0[1]", "csi-db-0-1-"),
        ("9lives", "csi-9lives-"),
        ("日本", "csi-"),
        ("a\u{0}b", "csi-a-b-"),
        (&*long, "csi-xxxxxxxxxxxxxxxxxxxxxxxx-"),
        (
            "twenty-three-characters-and-more",
            "csi-twenty-three-characters-",
        ),
    ] {
        let key = key("default", id);
        let state = state_of([started(), create_intended(&key)]);
        let name = provider_name(&state, state.record(&key).unwrap());
        assert!(
            name.starts_with(readable) && name.len() == readable.len() + 32,
            "{name}"
        );
        assert!(name.len() <= 63, "{name}");
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        assert!(name.chars().all(fits), "{name}");
    }
}
