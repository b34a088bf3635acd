//! Which instance an operator can end, and what an allocation then loses.

use super::*;
use crate::doctor::samples::{Facts, claim, plugin};
use nomad_csi_model::{ClientStatus, ControllerCapabilities, ControllerInfo, DesiredStatus};

/// A plugin on `n1` and `n2`, whose controllers on `nodes` attach volumes.
fn with_controllers(nodes: &[&str]) -> Plugin {
    let mut plugin = plugin();
    for node in nodes {
        let mut instance = plugin.nodes[&NodeId::new("n1")].clone();
        instance.alloc_id = AllocId::new(format!("controller-{node}"));
        instance.node = None;
        let capabilities = ControllerCapabilities {
            publish_unpublish_volume: true,
            ..ControllerCapabilities::default()
        };
        instance.controller = Some(ControllerInfo { capabilities });
        plugin.controllers.insert(NodeId::new(*node), instance);
    }
    plugin
}

/// Returns what volume `db` loses, which allocation `a1` on node `n1` writes.
fn losses(plugin: &Plugin, node: Option<&str>) -> (bool, Vec<Loss>) {
    let facts = Facts::healthy().claimed(DesiredStatus::Run, ClientStatus::Running);
    let volumes = [facts.volume];
    let node = node.map(NodeId::new);
    let mut found = vec![];
    // The agent's claims and Nomad's allocations give the same answer.
    for claims in [None, Some(&[claim()][..])] {
        let facts = PluginUse { plugin, volumes: &volumes, claims };
        let impact = plugin_impact(facts, node.as_ref());
        let volume = impact.volumes.first();
        let losses = volume.map_or_else(Vec::new, |volume| {
            let users = volume.users.iter();
            users.flat_map(|user| user.losses.clone()).collect()
        });
        found.push((volume.is_some_and(|one| one.becomes_unschedulable), losses));
    }
    assert_eq!(found[0], found[1]);
    found.remove(0)
}

#[test]
fn each_instance_has_its_own_losses() {
    use Loss::{Detach, Unmount};
    let both = || vec![Unmount, Detach];
    let one = with_controllers(&["n2"]);
    let two = with_controllers(&["n1", "n2"]);
    for (plugin, node, expected) in [
        (&one, None, (true, both())),
        (&one, Some("n1"), (false, vec![Unmount])),
        (&one, Some("n2"), (true, vec![Detach])),
        (&one, Some("n3"), (false, vec![])),
        (&two, Some("n1"), (false, vec![Unmount])),
        (&two, Some("n2"), (false, vec![])),
        (&two, None, (true, both())),
    ] {
        assert_eq!(losses(plugin, node), expected, "{node:?}");
    }
}

#[test]
fn an_unhealthy_controller_replaces_none() {
    let mut plugin = with_controllers(&["n1", "n2"]);
    let rest = plugin.controllers.get_mut(&NodeId::new("n1")).unwrap();
    rest.health.healthy = false;
    assert_eq!(losses(&plugin, Some("n2")), (true, vec![Loss::Detach]));
}

#[test]
fn a_controller_that_does_not_attach_is_not_needed_to_detach() {
    let mut plugin = with_controllers(&["n2"]);
    for instance in plugin.controllers.values_mut() {
        instance.controller.as_mut().unwrap().capabilities = ControllerCapabilities::default();
    }
    assert_eq!(losses(&plugin, Some("n2")), (true, vec![]));
    plugin.summary.controller_required = false;
    assert_eq!(losses(&plugin, Some("n2")), (false, vec![]));
}

#[test]
fn a_task_with_both_services_is_one_instance() {
    let mut plugin = with_controllers(&["n1"]);
    let alloc = plugin.nodes[&NodeId::new("n1")].alloc_id.clone();
    let controller = plugin.controllers.get_mut(&NodeId::new("n1")).unwrap();
    controller.alloc_id = alloc.clone();
    let facts = PluginUse { plugin: &plugin, volumes: &[], claims: None };
    let impact = plugin_impact(facts, Some(&NodeId::new("n1")));
    assert_eq!(impact.instances.len(), 1);
    assert!(impact.instances[0].is_controller && impact.instances[0].is_node);
    assert_eq!((impact.nodes.healthy, impact.controllers.healthy), (1, 0));
    assert_eq!(impact.volumes, []);
}
