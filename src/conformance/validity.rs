//! Whether the descriptions that a plugin returns of itself and its volumes are valid: pure functions.
//!
//! The rules come from these sections of the CSI specification: "Size Limits", the capability RPCs,
//! "GetPluginInfo", "NodeGetInfo" and "Topology" in "CreateVolume".

use std::collections::{BTreeMap, BTreeSet};

use super::finding::Level;
use super::probed_plugin::{
    ProbedPlugin, controller_capability_name, group_capability_name, node_capability_name,
    plugin_service_name,
};
use nomad_csi_proto::controller_service_capability::rpc::Type as ControllerRpc;
use nomad_csi_proto::node_service_capability::rpc::Type as NodeRpc;
use nomad_csi_proto::plugin_capability::service::Type as Service;
use nomad_csi_proto::plugin_capability::volume_expansion::Type as Expansion;
use nomad_csi_proto::{
    CapacityRange, GetPluginInfoResponse, NodeGetInfoResponse, Topology, Volume,
};

/// Level, what was expected, and the actual value.
pub(super) type Problem = (Level, String, String);

fn must(expected: &str, got: impl Into<String>) -> Problem {
    (Level::Must, expected.to_owned(), got.into())
}

fn advice(expected: &str, got: impl Into<String>) -> Problem {
    (Level::Advice, expected.to_owned(), got.into())
}

/// Returns the rules that the plugin breaks, one sentence each, as `plugin probe` shows them.
pub fn broken_rules(plugin: &ProbedPlugin) -> Vec<String> {
    let mut problems = plugin_info(&plugin.info);
    problems.extend(plugin_capabilities(plugin));
    problems.extend(controller_capabilities(plugin));
    problems.extend(node_capabilities(plugin));
    if let Some(node) = plugin.described_node() {
        problems
            .extend(node_info(node, plugin.has_service(Service::VolumeAccessibilityConstraints)));
    }
    problems
        .into_iter()
        .map(|(_, expected, got)| format!("expected: {expected}; got: {got}"))
        .collect()
}

/// Checks a response to GetPluginInfo.
pub(super) fn plugin_info(info: &GetPluginInfoResponse) -> Vec<Problem> {
    let mut problems = vec![];
    if !is_plugin_name(&info.name) {
        let rule = "name has 1 to 63 letters, digits, `-` and `.`, and starts and ends with a letter or digit";
        problems.push(must(rule, format!("{:?}", info.name)));
    } else if !info.name.contains('.') {
        let rule = "name is a domain name in reverse notation, which is unique to the vendor";
        problems.push(advice(rule, format!("{:?}", info.name)));
    }
    if info.vendor_version.is_empty() {
        problems.push(must("vendor_version is set", "empty"));
    }
    problems.extend(map_size("manifest", &info.manifest));
    problems
}

fn is_plugin_name(name: &str) -> bool {
    let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    let inside = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
    name.len() <= 63
        && ends(name.chars().next())
        && ends(name.chars().next_back())
        && name.chars().all(inside)
}

/// Checks a response to GetPluginCapabilities.
pub(super) fn plugin_capabilities(plugin: &ProbedPlugin) -> Vec<Problem> {
    let Ok(services) = &plugin.services else {
        return vec![];
    };
    let mut problems = capability_list("service", services, plugin_service_name, |kind| {
        Service::try_from(kind).is_ok()
    });
    let way = |kind: i32| {
        Expansion::try_from(kind).map_or_else(
            |_| format!("{kind}, not defined in CSI 1.13"),
            |kind| kind.as_str_name().to_owned(),
        )
    };
    problems.extend(capability_list("volume expansion", &plugin.expansion, way, |kind| {
        Expansion::try_from(kind).is_ok()
    }));
    let controller = plugin.controller_has(ControllerRpc::ExpandVolume);
    let node = plugin.node_has(NodeRpc::ExpandVolume);
    // The other half of the plugin may run elsewhere: judge only the services of this instance.
    if plugin.expands(Expansion::Online)
        && !controller
        && !node
        && plugin.controller.is_some()
        && plugin.node.is_some()
    {
        let rule = "volume expansion ONLINE requires EXPAND_VOLUME of the controller or the node";
        problems.push(must(rule, "neither advertises EXPAND_VOLUME"));
    }
    if plugin.expands(Expansion::Offline) && !controller && plugin.controller.is_some() {
        let rule = "volume expansion OFFLINE requires EXPAND_VOLUME of the controller";
        problems.push(must(rule, "the controller does not advertise EXPAND_VOLUME"));
    }
    problems
}

/// Checks the responses to ControllerGetCapabilities and GroupControllerGetCapabilities.
pub(super) fn controller_capabilities(plugin: &ProbedPlugin) -> Vec<Problem> {
    let mut problems = vec![];
    if let Some(Ok(list)) = &plugin.controller {
        problems.extend(capability_list("capability", list, controller_capability_name, |kind| {
            ControllerRpc::try_from(kind).is_ok()
        }));
    }
    if let Some(Ok(list)) = &plugin.group {
        problems.extend(capability_list("capability", list, group_capability_name, |kind| {
            !group_capability_name(kind).contains("not defined in")
        }));
    }
    if plugin.controller_has(ControllerRpc::ListVolumesPublishedNodes)
        && !plugin.controller_has(ControllerRpc::PublishUnpublishVolume)
    {
        let rule = "LIST_VOLUMES_PUBLISHED_NODES requires PUBLISH_UNPUBLISH_VOLUME";
        problems.push(must(rule, "PUBLISH_UNPUBLISH_VOLUME is not advertised"));
    }
    if plugin.controller_has(ControllerRpc::ListVolumeHealth)
        && !plugin.controller_has(ControllerRpc::GetVolumeHealth)
    {
        let rule = "LIST_VOLUME_HEALTH requires GET_VOLUME_HEALTH";
        problems.push(must(rule, "GET_VOLUME_HEALTH is not advertised"));
    }
    problems
}

/// Checks a response to NodeGetCapabilities.
pub(super) fn node_capabilities(plugin: &ProbedPlugin) -> Vec<Problem> {
    match &plugin.node {
        Some(Ok(list)) => capability_list("capability", list, node_capability_name, |kind| {
            NodeRpc::try_from(kind).is_ok()
        }),
        Some(Err(_)) | None => vec![],
    }
}

/// Checks a list of capabilities for unknown and duplicate values.
fn capability_list(
    what: &str,
    list: &[i32],
    name: impl Fn(i32) -> String,
    is_known: impl Fn(i32) -> bool,
) -> Vec<Problem> {
    let mut problems = vec![];
    let mut seen = BTreeSet::new();
    for kind in list {
        if *kind == 0 {
            problems.push(must(
                &format!("no {what} is UNKNOWN"),
                "UNKNOWN, or a capability without a type",
            ));
        } else if !is_known(*kind) {
            problems.push(advice(&format!("every {what} is defined in CSI 1.13"), name(*kind)));
        } else if !seen.insert(*kind) {
            problems.push(advice(
                &format!("every {what} is listed once"),
                format!("{} is listed twice", name(*kind)),
            ));
        }
    }
    problems
}

/// Checks a response to NodeGetInfo.
pub(super) fn node_info(node: &NodeGetInfoResponse, has_topology: bool) -> Vec<Problem> {
    let mut problems = vec![];
    let length = node.node_id.len();
    if length == 0 {
        problems.push(must("node_id is set", "empty"));
    } else if length > 256 {
        problems.push(must("node_id has at most 256 bytes", format!("{length} bytes")));
    } else if length > 128 {
        let rule = "node_id has at most 128 bytes, the limit of CSI 1.3 and earlier";
        problems.push(advice(rule, format!("{length} bytes")));
    }
    if node.max_volumes_per_node < 0 {
        let rule = "max_volumes_per_node is not negative";
        problems.push(must(rule, node.max_volumes_per_node.to_string()));
    }
    match (&node.accessible_topology, has_topology) {
        (Some(topology), true) => problems.extend(topologies([topology])),
        (Some(_), false) => {
            let rule = "accessible_topology requires VOLUME_ACCESSIBILITY_CONSTRAINTS";
            problems
                .push(must(rule, "set, but VOLUME_ACCESSIBILITY_CONSTRAINTS is not advertised"));
        }
        (None, true) => {
            let rule = "accessible_topology is set if VOLUME_ACCESSIBILITY_CONSTRAINTS is advertised; otherwise the node can use only unconstrained volumes";
            problems.push(advice(rule, "not set"));
        }
        (None, false) => {}
    }
    problems
}

/// Checks the topologies of one plugin: all keys have one prefix, and keys and values have only
/// allowed characters (CSI, "CreateVolume", message Topology).
pub(super) fn topologies<'a>(all: impl IntoIterator<Item = &'a Topology>) -> Vec<Problem> {
    let mut problems = vec![];
    let mut prefixes = BTreeSet::new();
    for topology in all {
        if topology.segments.is_empty() {
            problems.push(must("a topology has at least one segment", "empty"));
        }
        for (key, value) in &topology.segments {
            let (prefix, name) = key.split_once('/').unwrap_or(("", key));
            prefixes.insert(prefix);
            if !is_topology_word(name, "-_.")
                || !(prefix.is_empty() || is_topology_word(prefix, "-."))
            {
                let rule = "a topology key is `name` or `prefix/name`, each with at most 63 letters, digits, `-`, `.` and, in the name, `_`";
                problems.push(must(rule, format!("{key:?}")));
            }
            if !is_topology_word(value, "-_.") {
                let rule = "a topology value has 1 to 63 letters, digits, `-`, `_` and `.`";
                problems.push(must(rule, format!("{value:?} for the key {key}")));
            }
        }
    }
    if prefixes.len() > 1 {
        let rule = "all topology keys of a plugin have the same prefix";
        problems.push(must(rule, format!("{prefixes:?}")));
    }
    problems
}

fn is_topology_word(text: &str, inside: &str) -> bool {
    let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    text.len() <= 63
        && ends(text.chars().next())
        && ends(text.chars().next_back())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || inside.contains(c))
}

/// Checks a volume as CreateVolume, ListVolumes and ControllerGetVolume return it.
pub(super) fn volume(volume: &Volume, has_topology: bool) -> Vec<Problem> {
    let mut problems = id("volume_id", &volume.volume_id);
    if volume.capacity_bytes < 0 {
        let rule = "capacity_bytes is not negative, and 0 if unknown";
        problems.push(must(rule, volume.capacity_bytes.to_string()));
    }
    problems.extend(map_size("volume_context", &volume.volume_context));
    if has_topology {
        problems.extend(topologies(&volume.accessible_topology));
    } else if !volume.accessible_topology.is_empty() {
        let rule = "accessible_topology requires VOLUME_ACCESSIBILITY_CONSTRAINTS";
        problems.push(must(rule, "set, but VOLUME_ACCESSIBILITY_CONSTRAINTS is not advertised"));
    }
    problems
}

/// Checks an ID that the plugin generated.
pub(super) fn id(field: &str, id: &str) -> Vec<Problem> {
    match id.len() {
        0 => vec![must(&format!("{field} is set"), "empty")],
        1..=128 => vec![],
        length => vec![must(&format!("{field} has at most 128 bytes"), format!("{length} bytes"))],
    }
}

/// Checks that a map has at most 4 KiB.
fn map_size(field: &str, map: &BTreeMap<String, String>) -> Vec<Problem> {
    let bytes: usize = map.iter().map(|(key, value)| key.len() + value.len()).sum();
    if bytes <= 4096 {
        return vec![];
    }
    let rule = format!("{field} has at most 4 KiB");
    vec![must(&rule, format!("{bytes} bytes"))]
}

/// Checks that a size is in the requested range. A size of 0 is unknown.
pub(super) fn capacity(got: i64, range: &CapacityRange) -> Vec<Problem> {
    if got == 0 {
        return vec![];
    }
    if got < range.required_bytes {
        let rule =
            format!("capacity_bytes is at least the required {} bytes", range.required_bytes);
        return vec![must(&rule, got.to_string())];
    }
    if range.limit_bytes > 0 && got > range.limit_bytes {
        let rule = format!("capacity_bytes is at most the allowed {} bytes", range.limit_bytes);
        return vec![must(&rule, got.to_string())];
    }
    vec![]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(name: &str) -> GetPluginInfoResponse {
        GetPluginInfoResponse {
            name: name.to_owned(),
            vendor_version: "1".to_owned(),
            manifest: BTreeMap::new(),
        }
    }

    fn musts(problems: &[Problem]) -> usize {
        problems.iter().filter(|(level, ..)| *level == Level::Must).count()
    }

    /// A digit at either end is allowed (CSI, "GetPluginInfo"), although csi-sanity refuses it.
    #[test]
    fn a_plugin_name_follows_the_rules_of_domain_names() {
        let longest = format!("a.{}", "b".repeat(61));
        let too_long = format!("{longest}c");
        for (name, wrong) in [
            ("org.example.csi", 0),
            ("a1.csi2", 0),
            (longest.as_str(), 0),
            (too_long.as_str(), 1),
            ("", 1),
            ("-a.b", 1),
            ("a.b.", 1),
            ("a_b.c", 1),
            ("ä.b", 1),
        ] {
            assert_eq!(musts(&plugin_info(&info(name))), wrong, "{name}");
        }
        let without_version =
            GetPluginInfoResponse { vendor_version: String::new(), ..info("a.b") };
        assert_eq!(musts(&plugin_info(&without_version)), 1);
    }

    #[test]
    fn a_node_has_an_id_of_limited_length_and_a_topology_only_if_advertised() {
        let node = |id: &str, max, segment: Option<(&str, &str)>| NodeGetInfoResponse {
            node_id: id.to_owned(),
            max_volumes_per_node: max,
            accessible_topology: segment.map(|(key, value)| Topology {
                segments: [(key.to_owned(), value.to_owned())].into(),
            }),
        };
        let zone = Some(("example.org/zone", "a-1"));
        for (node, has_topology, wrong) in [
            (node("n", 0, None), false, 0),
            (node("", 0, None), false, 1),
            (node(&"n".repeat(256), 0, None), false, 0),
            (node(&"n".repeat(257), 0, None), false, 1),
            (node("n", -1, None), false, 1),
            (node("n", 0, zone), true, 0),
            (node("n", 0, zone), false, 1),
            (node("n", 0, Some(("zone", ""))), true, 1),
            (node("n", 0, Some(("a b/zone", "x"))), true, 1),
        ] {
            assert_eq!(musts(&node_info(&node, has_topology)), wrong, "{node:?}");
        }
    }

    #[test]
    fn a_size_is_unknown_or_in_the_requested_range() {
        for (got, required, limit, wrong) in
            [(0, 5, 6, 0), (5, 5, 0, 0), (4, 5, 0, 1), (7, 5, 6, 1), (9, 0, 6, 1)]
        {
            let range = CapacityRange { required_bytes: required, limit_bytes: limit };
            assert_eq!(capacity(got, &range).len(), wrong, "{got} in {range:?}");
        }
    }

    #[test]
    fn topology_keys_have_one_prefix() {
        let topology = Topology {
            segments: ["a.b/zone", "c.d/rack"].map(|key| (key.to_owned(), "x".to_owned())).into(),
        };
        assert_eq!(musts(&topologies([&topology])), 1);
    }

    #[test]
    fn capabilities_are_known_and_listed_once() {
        let known = |kind: i32| ControllerRpc::try_from(kind).is_ok();
        let problems =
            capability_list("capability", &[1, 1, 0, 99], controller_capability_name, known);
        assert_eq!((problems.len(), musts(&problems)), (3, 1));
    }
}
