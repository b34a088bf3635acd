//! Filters, order, pages, tokens, and hidden volumes.

use super::*;
use crate::state::event::EventKind;
use crate::state::query::{volume, volumes_sharing};
use crate::state::samples::{
    create_intended, definition, key, provided, registered, started, state_of,
};
use nomad_csi_model::ExternalId;

fn filter(namespace: &str, prefix: &str, plugin: Option<&str>) -> VolumeFilter {
    VolumeFilter {
        among: None,
        namespace: Namespace::new(namespace),
        prefix: prefix.to_owned(),
        plugin: plugin.map(PluginId::new),
        node: None,
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

/// Volumes of two plugins in three namespaces; one namespace name is a prefix of another.
fn sample_state() -> State {
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

/// Nomad ignores some conditions in some requests (W47, B97).
#[test]
fn all_conditions_of_a_filter_apply() {
    let state = sample_state();
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
        assert_eq!(names(&page).join(" "), expected, "{namespace} {prefix} {plugin:?}");
        assert_eq!(page.next, None);
    }
}

#[test]
fn pages_contain_every_volume_exactly_once() {
    let state = sample_state();
    for (filter, limit) in [
        (filter("*", "", None), 1),
        (filter("*", "", None), 2),
        (filter("*", "db", None), 3),
        (filter("b", "d", None), 2),
        (filter("*", "", Some("nfs")), 2),
    ] {
        let whole = names(&volumes(&state, &filter, None, 0));
        let mut paged = vec![];
        let mut token = None;
        loop {
            let page = volumes(&state, &filter, token.as_ref(), limit);
            assert!(page.volumes.len() <= limit);
            paged.extend(names(&page));
            let Some(next) = page.next else { break };
            token = Some(VolumeToken::parse(&next.to_string()).unwrap());
        }
        assert_eq!(paged, whole, "{filter:?} by {limit}");
    }
}

/// The token names the next volume, which may be deleted before the next request.
#[test]
fn a_page_starts_at_or_after_its_token_and_stays_within_the_filter() {
    let state = sample_state();
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
fn a_token_round_trips_for_every_namespace_name() {
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

/// A volume that is being created is hidden, so the next run continues its creation (W14).
#[test]
fn volumes_being_created_are_hidden_and_volumes_being_deleted_are_not() {
    let (creating, deleting) = (key("default", "new"), key("default", "old"));
    let state = state_of([
        started(),
        create_intended(&creating),
        registered(&deleting, "ext-1"),
        EventKind::VolumeDeleteIntended { key: deleting.clone(), instance: None, request: None },
    ]);
    assert_eq!(volume(&state, &creating), None);
    assert!(volume(&state, &deleting).is_some());
    let page = volumes(&state, &filter("*", "", None), None, 0);
    assert_eq!(names(&page), ["default/old"]);
    let (plugin, id) = (PluginId::new("hostpath"), ExternalId::new("new"));
    assert!(volumes_sharing(&state, &plugin, &id).is_empty());
}
