use super::document::SnapshotDocument;
use super::read::{SnapshotProblem, read_snapshot};
use super::snapshot::{PluginSnapshot, SnapshotOrigin};
use crate::inputs::PluginState;
use crate::samples::{place, plugin};
use nomad_csi_model::{
    AccessMode, AttachmentMode, Capability, ExternalNodeId, NodeCapabilities, NodeId, NodeInfo,
    Plugin,
};

const FILE: &str = "plugins/hostpath.plugin.json";

/// A plugin with two controllers of different capabilities and three nodes in two zones.
fn running() -> Plugin {
    let state = plugin(|plugin| {
        let mut other = plugin.controllers.first_key_value().unwrap().1.clone();
        let capabilities = &mut other.controller.as_mut().unwrap().capabilities;
        capabilities.clone_volume = false;
        capabilities.get_volume = true;
        plugin.controllers.insert(NodeId::new("n2"), other);
        let (_, sample) = plugin.nodes.pop_first().unwrap();
        for (id, zone, max) in [("n1", "a", Some(25)), ("n2", "b", Some(20)), ("n3", "a", None)] {
            let info = NodeInfo {
                capabilities: NodeCapabilities::of_names(["STAGE_UNSTAGE_VOLUME"]),
                external_node_id: ExternalNodeId::new("node-name-of-the-provider"),
                max_volumes: max,
                accessible_topology: Some(place(zone)),
                storage: vec![],
            };
            let node = nomad_csi_model::PluginInstance { node: Some(info), ..sample.clone() };
            plugin.nodes.insert(NodeId::new(id), node);
        }
    });
    let PluginState::Known(plugin) = state else {
        panic!("the sample is known");
    };
    *plugin
}

fn document(plugin: &Plugin) -> SnapshotDocument {
    let taken_at = Some("2026-11-20T08:00:00Z".to_owned());
    SnapshotDocument::of(plugin, taken_at, Some("1.10.2".to_owned())).unwrap()
}

fn read(text: &str) -> Result<PluginSnapshot, SnapshotProblem> {
    read_snapshot(FILE, "hostpath", text)
}

#[test]
fn a_document_has_what_all_instances_have_and_no_name_of_a_node() {
    let document = document(&running());
    let capabilities: Vec<&str> =
        document.controller_capabilities.iter().map(String::as_str).collect();
    assert_eq!(capabilities, ["CREATE_DELETE_SNAPSHOT", "CREATE_DELETE_VOLUME", "EXPAND_VOLUME"]);
    let nodes: Vec<(&str, u64)> =
        document.topologies.iter().map(|one| (one.segments["zone"].as_str(), one.nodes)).collect();
    assert_eq!(nodes, [("a", 2), ("b", 1)]);
    assert_eq!(document.max_volumes, Some(20));
    let text = serde_json::to_string(&document).unwrap();
    for name in ["node-name-of-the-provider", "n1", "a1"] {
        assert!(!text.contains(&format!("\"{name}\"")), "{text}");
    }
}

#[test]
fn a_plugin_whose_controllers_have_not_reported_has_no_document() {
    let mut plugin = running();
    plugin.controllers.clear();
    assert_eq!(SnapshotDocument::of(&plugin, None, None), None);
    plugin.summary.controller_required = false;
    assert!(SnapshotDocument::of(&plugin, None, None).is_some());
}

#[test]
fn a_document_that_is_read_says_the_same_again() {
    let written = document(&running());
    let snapshot = read(&serde_json::to_string(&written).unwrap()).unwrap();
    assert_eq!(snapshot.plugin.summary.id.as_str(), "hostpath");
    assert_eq!(snapshot.node_count(), Some(3));
    assert_eq!(snapshot.said(), format!("as `{FILE}` of 2026-11-20 says"));
    let mut again = SnapshotDocument::of(&snapshot.plugin, None, None).unwrap();
    assert_eq!(again.topologies.iter().map(|one| one.nodes).collect::<Vec<_>>(), [1, 1]);
    again.topologies.clone_from(&written.topologies);
    again.taken_at.clone_from(&written.taken_at);
    again.server_version.clone_from(&written.server_version);
    assert_eq!(again, written);
}

const PROBE: &str = r#"{"version":1,"name":"ebs.csi.example","vendor_version":"1.9","ready":true,
 "services":["CONTROLLER_SERVICE"],"controller_capabilities":["CREATE_DELETE_VOLUME"],
 "node_capabilities":null,"node":{"node_id":"i-1","accessible_topology":{"zone":"a"}},
 "volume_modes":[
  {"access_mode":"SINGLE_NODE_WRITER","attachment_mode":"file-system","is_confirmed":true,"reason":null},
  {"access_mode":"MULTI_NODE_MULTI_WRITER","attachment_mode":"file-system","is_confirmed":false,"reason":"one node only"},
  {"access_mode":"SINGLE_NODE_MULTI_WRITER","attachment_mode":"file-system","is_confirmed":false,"reason":"unknown"}]}"#;

#[test]
fn a_probe_knows_the_modes_and_not_the_topologies_of_other_nodes() {
    let snapshot = read(PROBE).unwrap();
    assert_eq!(snapshot.plugin.summary.id.as_str(), "hostpath", "the name of the file");
    assert_eq!(snapshot.origin, SnapshotOrigin::Plugin);
    assert_eq!(snapshot.nodes, None);
    let node = snapshot.plugin.nodes.values().next().unwrap().node.as_ref().unwrap();
    assert_eq!(node.accessible_topology, None);
    let refused = Capability {
        access_mode: AccessMode::MultiNodeMultiWriter,
        attachment_mode: AttachmentMode::FileSystem,
    };
    assert_eq!(snapshot.refused_modes, [(refused, "one node only".to_owned())].into());
    assert_eq!(snapshot.said(), format!("as `{FILE}` says"));
}

#[test]
fn what_a_failed_call_of_a_probe_would_say_is_unknown() {
    let failed = PROBE.replace(r#"["CREATE_DELETE_VOLUME"]"#, r#"{"error":"UNAVAILABLE"}"#);
    let snapshot = read(&failed).unwrap();
    assert!(snapshot.plugin.summary.controller_required);
    assert!(snapshot.plugin.controllers.is_empty());
}

#[test]
fn a_broken_file_is_refused_at_its_place() {
    let good = serde_json::to_string(&document(&running())).unwrap();
    assert!(read(&good).is_ok());
    for (text, why, marked) in [
        ("{\"version\":1,\n \"ü\": }", "expected value", "}"),
        ("", "EOF while parsing a value", ""),
        ("[]", "invalid length 0, expected struct Head with 2 elements", "]"),
        (
            &*good.replace("\"version\":1", "\"version\":2"),
            "its version is 2, not 1",
            "\"version\"",
        ),
        (
            &*good.replace("plugin-snapshot", "plugin\\nlist"),
            "its kind is `plugin␊list`, not `plugin-snapshot`",
            "\"kind\"",
        ),
        (&*good.replace("\"id\":\"hostpath\"", "\"id\":\"\""), "its `id` is empty", "\"id\""),
        (&*good.replace("\"provider\":", "\"providr\":"), "unknown field `providr`", "\""),
        (&*PROBE.replace("\"name\"", "\"nam\""), "missing field `name`", "}"),
    ] {
        let problem = read(text).unwrap_err();
        assert!(problem.why.starts_with(why), "{problem:?} is not {why}");
        assert!(text[problem.at..].starts_with(marked), "{why}: {:?}", &text[problem.at..]);
    }
}
