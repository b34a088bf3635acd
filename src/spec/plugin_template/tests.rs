use std::collections::BTreeMap;

use super::*;
use crate::tests::harness::read;
use crate::validate::validate;
use crate::volume_spec::{Purpose, VolumeSpec};
use nomad_csi_model::diagnostic::Diagnostics;
use nomad_csi_model::{
    AllocId, ControllerInfo, ExternalNodeId, Health, HealthCount, NodeCapabilities, NodeId,
    NodeInfo, PluginId, PluginSummary,
};

fn instance() -> PluginInstance {
    PluginInstance {
        alloc_id: AllocId::new("alloc"),
        health: Health { healthy: true, description: "healthy".into() },
        updated_at: 0,
        provider: String::new(),
        provider_version: String::new(),
        process: None,
        requires_controller: true,
        requires_topologies: true,
        controller: None,
        node: None,
    }
}

fn controller(capabilities: ControllerCapabilities) -> PluginInstance {
    let controller = Some(ControllerInfo { capabilities });
    PluginInstance { controller, ..instance() }
}

fn node(zone: &str) -> PluginInstance {
    let segments = [("topology.example/zone".to_owned(), zone.to_owned())];
    PluginInstance {
        node: Some(NodeInfo {
            capabilities: NodeCapabilities::default(),
            external_node_id: ExternalNodeId::new("node"),
            max_volumes: None,
            accessible_topology: Some(Topology { segments: segments.into() }),
            storage: vec![],
        }),
        ..instance()
    }
}

fn plugin(controller: Option<PluginInstance>, nodes: Vec<PluginInstance>) -> Plugin {
    let by_id = |instances: Vec<PluginInstance>| -> BTreeMap<NodeId, PluginInstance> {
        let ids = (0..).map(|number| NodeId::new(format!("node-{number}")));
        ids.zip(instances).collect()
    };
    Plugin {
        summary: PluginSummary {
            id: PluginId::new("ebs\"${x}\u{202e}"),
            provider: "ebs.csi.example\nid = \"injected\"".into(),
            controller_required: true,
            controllers: HealthCount::default(),
            nodes: HealthCount::default(),
        },
        version: "1.0".into(),
        controllers: by_id(controller.into_iter().collect()),
        nodes: by_id(nodes),
        allocs: vec![],
    }
}

/// Reads the specification of a plugin. It has no errors and no warnings.
fn specification(plugin: &Plugin, syntax: Syntax) -> VolumeSpec {
    let text = plugin_template(plugin, syntax, "FILE");
    let mut result = read(&text, syntax);
    let mut problems = Diagnostics::default();
    validate(&result.specs, Purpose::ByExternalId, &mut problems);
    let messages: Vec<_> = result.diagnostics.iter().chain(problems.iter()).collect();
    assert!(messages.is_empty(), "{messages:#?}\n{text}");
    assert_eq!(result.specs.len(), 1, "{text}");
    result.specs.remove(0)
}

/// Every combination of the capabilities that change the text, without and with one, several and many nodes.
fn plugins() -> impl Iterator<Item = Plugin> {
    let nodes = [0, 1, 2, MAX_TOPOLOGIES + 1];
    let combinations = (0..16u8).flat_map(move |bits| nodes.map(|nodes| (bits, nodes)));
    let known = combinations.map(|(bits, nodes)| {
        let has = |bit: u8| bits & (1 << bit) != 0;
        let capabilities = ControllerCapabilities {
            create_delete_volume: has(0),
            create_delete_snapshot: has(1),
            clone_volume: has(2),
            expand_volume: has(3),
            ..ControllerCapabilities::default()
        };
        let nodes = (0..nodes).map(|zone| node(&format!("\"{zone}")));
        plugin(Some(controller(capabilities)), nodes.collect())
    });
    known.chain([plugin(None, vec![])])
}

#[test]
fn every_plugin_gets_a_valid_specification_that_is_the_same_in_each_syntax() {
    for plugin in plugins() {
        let [hcl, yaml, json] = Syntax::ALL.map(|syntax| specification(&plugin, syntax).request);
        assert_eq!(hcl, yaml);
        assert_eq!(hcl, json);
        assert_eq!(hcl.plugin_id, plugin.summary.id);
        assert_eq!(hcl.id.as_str(), NAME);
    }
}

/// Uncommented, the examples are valid too.
#[test]
fn the_examples_are_valid_fields() {
    for plugin in plugins() {
        let text = plugin_template(&plugin, Syntax::Hcl, "FILE");
        let is_code = |line: &str| {
            line.contains(['=', '{', '}']) && !line.contains("10GiB") && !line.contains('`')
        };
        let uncomment = |line: &str| match line.strip_prefix("# ") {
            Some(code) if is_code(code) => code.to_owned(),
            _ => line.to_owned(),
        };
        let lines: Vec<_> = text.lines().map(uncomment).collect();
        let result = read(&lines.join("\n"), Syntax::Hcl);
        let messages: Vec<_> = result.diagnostics.iter().collect();
        assert!(messages.is_empty(), "{messages:#?}\n{}", lines.join("\n"));
        let parameters = &result.specs[0].request.parameters;
        assert!(result.specs[0].request.secrets.is_some(), "{text}");
        assert_eq!(parameters.is_some(), result.specs[0].request.external_id.is_none());
    }
}

#[test]
fn a_plugin_that_creates_no_volumes_gets_a_volume_to_register() {
    let unable = plugin(Some(controller(ControllerCapabilities::default())), vec![]);
    let request = specification(&unable, Syntax::Hcl).request;
    assert!(request.external_id.is_some());
    assert!(request.name.is_none() && request.capacity.min.is_zero());
}

#[test]
fn an_unknown_controller_is_no_reason_to_register() {
    let request = specification(&plugin(None, vec![]), Syntax::Hcl).request;
    assert!(request.external_id.is_none() && request.name.is_some());
    let text = plugin_template(&plugin(None, vec![]), Syntax::Hcl, "FILE");
    assert!(text.contains("its capabilities are unknown"), "{text}");
}

#[test]
fn the_topologies_of_the_nodes_are_requested_once_each() {
    let able = || Some(controller(ControllerCapabilities::default()));
    let requested = |zones: &[&str]| {
        let nodes = zones.iter().map(|zone| node(zone)).collect();
        let request = specification(&plugin(able(), nodes), Syntax::Hcl).request;
        request.topology_request.map(|request| request.required.len())
    };
    assert_eq!(requested(&[]), None);
    assert_eq!(requested(&["a", "b", "a"]), Some(2));
    let mut unconstrained = node("a");
    unconstrained.requires_topologies = false;
    let request = specification(&plugin(able(), vec![unconstrained]), Syntax::Hcl).request;
    assert_eq!(request.topology_request, None);
}

#[test]
fn modes_for_several_nodes_are_named_unless_each_node_has_its_own_topology() {
    let text = |zones: &[&str]| {
        let nodes = zones.iter().map(|zone| node(zone)).collect();
        plugin_template(&plugin(None, nodes), Syntax::Yaml, "FILE")
    };
    for (zones, are_named) in [(&["a"][..], true), (&["a", "a"], true), (&["a", "b"], false)] {
        assert_eq!(text(zones).contains("multi-node-multi-writer"), are_named, "{zones:?}");
    }
}
