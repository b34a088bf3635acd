//! The known refusals of a plugin that creates a volume: a source that it cannot copy, and a topology
//! that none of its nodes has.
//!
//! Pure checks of a plugin's record. What the record does not tell blocks nothing.

use nomad_csi_model::diagnostic::{Code, Diagnostic};
use nomad_csi_model::{ControllerCapabilities, ControllerInfo, Plugin, Topology};
use nomad_csi_spec::VolumeSpec;

/// Returns why the plugin cannot create the volume; `None` if nothing is known against it. `controllers` are
/// those whose capabilities are known.
pub(super) fn creation_limit(
    spec: &VolumeSpec,
    plugin: &Plugin,
    controllers: Option<&[&ControllerInfo]>,
) -> Option<Diagnostic> {
    controllers
        .and_then(|controllers| uncopied_source(spec, plugin, controllers))
        .or_else(|| unreachable_topology(spec, plugin))
}

/// The plugin must report CLONE_VOLUME to copy a volume, and CREATE_DELETE_SNAPSHOT to restore a snapshot
/// (CSI 1.12, CreateVolume).
fn uncopied_source(
    spec: &VolumeSpec,
    plugin: &Plugin,
    controllers: &[&ControllerInfo],
) -> Option<Diagnostic> {
    let able = |can: fn(&ControllerCapabilities) -> bool| {
        controllers.iter().any(|info| can(&info.capabilities))
    };
    let request = &spec.request;
    let (field, what, capability) = if request.clone_id.is_some() && !able(|can| can.clone_volume) {
        ("clone_id", "clone volumes", "CLONE_VOLUME")
    } else if request.snapshot_id.is_some() && !able(|can| can.create_delete_snapshot) {
        ("snapshot_id", "restore snapshots", "CREATE_DELETE_SNAPSHOT")
    } else {
        return None;
    };
    let message = format!(
        "cannot create volume {}: plugin `{}` does not {what}",
        spec.key().quoted(),
        plugin.summary.id
    );
    let problem = Diagnostic::error(Code::PluginUnsupported, message);
    Some(
        problem
            .label(spec.field_span(field), "")
            .note(format!("the plugin does not report {capability}"))
            .help(format!("remove `{field}` and copy the data yourself, or use a plugin that can")),
    )
}

/// A required topology must be that of a healthy node, or no task can use the volume. Nothing is known if a
/// healthy node reports no topology.
fn unreachable_topology(spec: &VolumeSpec, plugin: &Plugin) -> Option<Diagnostic> {
    let required = &spec.request.topology_request.as_ref()?.required;
    let healthy = plugin.nodes.values().filter(|node| node.health.healthy);
    let places: Option<Vec<&Topology>> =
        healthy.map(|node| node.node.as_ref()?.accessible_topology.as_ref()).collect();
    let places = places.filter(|places| !places.is_empty())?;
    let is_there = |desired: &Topology| places.iter().any(|place| place.is_within(desired));
    if required.is_empty() || required.iter().any(is_there) {
        return None;
    }
    let mut names: Vec<String> = places.iter().map(|place| format!("({place})")).collect();
    names.sort();
    names.dedup();
    let message = format!(
        "cannot create volume {}: no healthy node of plugin `{}` has a required topology",
        spec.key().quoted(),
        plugin.summary.id
    );
    let problem = Diagnostic::error(Code::PluginTopology, message);
    Some(
        problem
            .label(spec.field_span("topology_request"), "")
            .note(format!("the healthy nodes have: {}", names.join(", ")))
            .help("require one of these topologies, or start the plugin on a node that has it"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inputs::PluginState;
    use crate::samples::{desired, place, places, plugin, spec};
    use nomad_csi_model::{ExternalNodeId, NodeCapabilities, NodeId, NodeInfo, UnresolvedRequest};

    fn limit(
        change: impl FnOnce(&mut UnresolvedRequest),
        with: impl FnOnce(&mut Plugin),
    ) -> Option<Code> {
        let mut request = UnresolvedRequest { topology_request: None, ..desired() };
        change(&mut request);
        let PluginState::Known(plugin) = plugin(with) else {
            panic!("the sample is known");
        };
        let controllers: Vec<_> = plugin
            .controllers
            .values()
            .filter_map(|instance| instance.controller.as_ref())
            .collect();
        creation_limit(&spec(request), &plugin, Some(&controllers)).map(|problem| problem.code)
    }

    /// A plugin whose only controller cannot copy.
    fn cannot_copy(plugin: &mut Plugin) {
        for instance in plugin.controllers.values_mut() {
            instance.controller.as_mut().unwrap().capabilities = ControllerCapabilities::default();
        }
    }

    #[test]
    fn a_source_needs_the_capability_to_copy_it() {
        let clone = |request: &mut UnresolvedRequest| request.clone_id = Some("vol-0".into());
        let restore = |request: &mut UnresolvedRequest| request.snapshot_id = Some("snap".into());
        assert_eq!(limit(clone, |_| {}), None);
        assert_eq!(limit(restore, |_| {}), None);
        assert_eq!(limit(clone, cannot_copy), Some(Code::PluginUnsupported));
        assert_eq!(limit(restore, cannot_copy), Some(Code::PluginUnsupported));
        assert_eq!(limit(|_| {}, cannot_copy), None);
    }

    #[test]
    fn a_required_topology_is_that_of_a_healthy_node() {
        let nodes = |zones: &'static [Option<&'static str>]| {
            move |plugin: &mut Plugin| {
                let sample = plugin.nodes.pop_first().unwrap().1;
                for (at, zone) in zones.iter().enumerate() {
                    let mut node = sample.clone();
                    node.node = Some(NodeInfo {
                        storage: vec![],
                        capabilities: NodeCapabilities::default(),
                        external_node_id: ExternalNodeId::new("n"),
                        max_volumes: None,
                        accessible_topology: zone.map(place),
                    });
                    plugin.nodes.insert(NodeId::new(format!("n{at}")), node);
                }
            }
        };
        let requires = |zones: &'static [&'static str]| {
            move |request: &mut UnresolvedRequest| request.topology_request = places(zones)
        };
        let missing = Some(Code::PluginTopology);
        for (desired, nodes_have, expected) in [
            (&["a"][..], &[Some("a"), Some("b")][..], None),
            (&["c", "b"], &[Some("a"), Some("b")], None),
            (&["c"], &[Some("a"), Some("b")], missing),
            (&["c"], &[Some("a"), None], None),
            (&["c"], &[], None),
            (&[], &[Some("a")], None),
        ] {
            let found = limit(requires(desired), nodes(nodes_have));
            assert_eq!(found, expected, "{desired:?} {nodes_have:?}");
        }
        let down = |plugin: &mut Plugin| {
            nodes(&[Some("a"), Some("b")])(plugin);
            plugin.nodes.values_mut().next().unwrap().health.healthy = false;
        };
        assert_eq!(limit(requires(&["a"]), down), missing);
    }
}
