//! Who is woken by which change, and that nothing is left of a reader.

use futures_util::FutureExt as _;

use super::*;
use nomad_csi_claims::state::samples::key;
use nomad_csi_model::{Namespace, NodeId, PluginId, VariableKey, VariablePath};

fn volume(namespace: &str, id: &str) -> Subject {
    Subject::Volume(key(namespace, id))
}

fn volumes(namespace: &str, prefix: &str) -> Topic {
    Topic::list(Table::Volumes, &Namespace::new(namespace), prefix)
}

fn is_woken(watch: &mut Watch) -> bool {
    watch.changed().now_or_never().is_some()
}

#[test]
fn a_change_wakes_the_readers_of_its_object_and_of_lists_with_it() {
    let variable = |path: &str| {
        let namespace = Namespace::new("prod");
        Subject::Variable(VariableKey::new(namespace, VariablePath::new(path)))
    };
    let plugin = |id: &str| Subject::Plugin(PluginId::new(id));
    let node = |id: &str| Subject::Node(NodeId::new(id));
    for (topic, changed, expected) in [
        (Topic::Object(volume("prod", "db")), volume("prod", "db"), true),
        (Topic::Object(volume("prod", "db")), volume("default", "db"), false),
        (Topic::Object(volume("prod", "db")), volume("prod", "db-1"), false),
        (Topic::Object(plugin("db")), volume("default", "db"), false),
        (volumes("prod", ""), volume("prod", "db"), true),
        (volumes("prod", ""), volume("default", "db"), false),
        (volumes("*", ""), volume("prod", "db"), true),
        (volumes("*", "d"), volume("prod", "db"), true),
        (volumes("*", "db"), volume("prod", "db"), true),
        (volumes("*", "db-"), volume("prod", "db"), false),
        (volumes("*", "b"), volume("prod", "db"), false),
        (volumes("*", "ü"), volume("prod", "über"), true),
        (Topic::all(Table::Volumes), volume("prod", "db"), true),
        (Topic::all(Table::Volumes), plugin("db"), false),
        (Topic::all(Table::Plugins), plugin("db"), true),
        (Topic::all(Table::Plugins), node("db"), false),
        (Topic::all(Table::Nodes), node("db"), true),
        (Topic::all(Table::Variables), variable("app/x"), true),
        (Topic::all(Table::Variables), volume("prod", "app/x"), false),
    ] {
        let watches = Watches::default();
        let mut watch = watches.watch(vec![topic.clone()]);
        watches.wake([&changed]);
        assert_eq!(is_woken(&mut watch), expected, "{topic:?}, {changed:?}");
        assert!(!is_woken(&mut watch), "a change wakes once");
    }
}

#[test]
fn a_reader_of_several_topics_is_woken_by_each() {
    let watches = Watches::default();
    let (db, web) = (volume("default", "db"), volume("default", "web"));
    let mut watch = watches.watch(vec![Topic::Object(db.clone()), Topic::Object(web.clone())]);
    for changed in [&db, &web] {
        watches.wake([changed]);
        assert!(is_woken(&mut watch));
    }
    watches.wake([&db, &web]);
    assert!(is_woken(&mut watch));
    assert!(!is_woken(&mut watch), "changes before a call are one");
}

#[test]
fn nothing_is_left_of_a_dropped_reader() {
    let watches = Watches::default();
    let object = Topic::Object(volume("default", "db"));
    let topics = vec![object, volumes("default", "d"), Topic::all(Table::Plugins)];
    let mut first = watches.watch(topics.clone());
    drop(watches.watch(topics));
    watches.wake([&volume("default", "db")]);
    assert!(is_woken(&mut first), "the other reader stays");
    drop(first);
    let readers = watches.lock();
    assert!(readers.of_objects.is_empty() && readers.of_lists.is_empty());
}

#[test]
fn a_stop_wakes_every_reader_and_those_that_come_later() {
    let watches = Watches::default();
    let topics = [Topic::Object(volume("default", "db")), volumes("default", "x")];
    let mut waiting = topics.map(|topic| watches.watch(vec![topic]));
    watches.close();
    for watch in &mut waiting {
        assert_eq!(watch.changed().now_or_never(), Some(Err(CellStopped)));
    }
    let mut late = watches.watch(vec![Topic::all(Table::Volumes)]);
    assert_eq!(late.changed().now_or_never(), Some(Err(CellStopped)));
}
