//! Whether what a plugin says of itself and of its volumes is well-formed: pure.
//!
//! Each problem is a level, what was expected, and what was there. Sources: `csi-spec` 3.3 (sizes and
//! characters), 4.3 (dependencies between capabilities), 5.1, 5.21 and 6.

use std::collections::{BTreeMap, BTreeSet};

use super::profile::{Profile, controller_names, group_names, node_names, plugin_names};
use super::report::Level;
use crate::csi::proto::controller_service_capability::rpc::Type as ControllerRpc;
use crate::csi::proto::node_service_capability::rpc::Type as NodeRpc;
use crate::csi::proto::plugin_capability::service::Type as Service;
use crate::csi::proto::plugin_capability::volume_expansion::Type as Expansion;
use crate::csi::proto::{
    CapacityRange, GetPluginInfoResponse, NodeGetInfoResponse, Topology, Volume,
};

/// Level, what was expected, what was there.
pub(super) type Problem = (Level, String, String);

fn must(expected: &str, got: impl Into<String>) -> Problem {
    (Level::Must, expected.to_owned(), got.into())
}

fn advice(expected: &str, got: impl Into<String>) -> Problem {
    (Level::Advice, expected.to_owned(), got.into())
}

/// Everything about a profile that breaks a rule, as `plugin probe` shows it: a sentence each.
pub fn profile_problems(profile: &Profile) -> Vec<String> {
    let mut problems = plugin_info(&profile.info);
    problems.extend(plugin_capabilities(profile));
    problems.extend(controller_capabilities(profile));
    problems.extend(node_capabilities(profile));
    if let Some(node) = profile.described_node() {
        problems.extend(node_info(
            node,
            profile.has(Service::VolumeAccessibilityConstraints),
        ));
    }
    problems
        .into_iter()
        .map(|(_, expected, got)| format!("{expected}; it is {got}"))
        .collect()
}

/// GetPluginInfo.
pub(super) fn plugin_info(info: &GetPluginInfoResponse) -> Vec<Problem> {
    let mut problems = vec![];
    if !is_plugin_name(&info.name) {
        let rule =
            "name has 1 to 63 letters, digits, `-` and `.`, with a letter or a digit at both ends";
        problems.push(must(rule, format!("{:?}", info.name)));
    } else if !info.name.contains('.') {
        let rule = "name is a domain name in reverse notation, so that no two vendors share it";
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

/// GetPluginCapabilities.
pub(super) fn plugin_capabilities(profile: &Profile) -> Vec<Problem> {
    let Ok(services) = &profile.services else {
        return vec![];
    };
    let mut problems = kinds("service", services, plugin_names, |kind| {
        Service::try_from(kind).is_ok()
    });
    let way = |kind: i32| {
        Expansion::try_from(kind).map_or_else(
            |_| format!("{kind}, unknown to CSI 1.12"),
            |kind| kind.as_str_name().to_owned(),
        )
    };
    problems.extend(kinds("volume expansion", &profile.expansion, way, |kind| {
        Expansion::try_from(kind).is_ok()
    }));
    let controller = profile.controller_has(ControllerRpc::ExpandVolume);
    let node = profile.node_has(NodeRpc::ExpandVolume);
    // The node half may run elsewhere: only what this instance shows can be held against it.
    if profile.expands(Expansion::Online)
        && !controller
        && !node
        && profile.controller.is_some()
        && profile.node.is_some()
    {
        let rule = "volume expansion ONLINE comes with EXPAND_VOLUME of the controller or the node";
        problems.push(must(rule, "without both"));
    }
    if profile.expands(Expansion::Offline) && !controller && profile.controller.is_some() {
        let rule = "volume expansion OFFLINE comes with EXPAND_VOLUME of the controller";
        problems.push(must(rule, "without it"));
    }
    problems
}

/// ControllerGetCapabilities and GroupControllerGetCapabilities.
pub(super) fn controller_capabilities(profile: &Profile) -> Vec<Problem> {
    let mut problems = vec![];
    if let Some(Ok(list)) = &profile.controller {
        problems.extend(kinds("capability", list, controller_names, |kind| {
            ControllerRpc::try_from(kind).is_ok()
        }));
    }
    if let Some(Ok(list)) = &profile.group {
        problems.extend(kinds("capability", list, group_names, |kind| {
            !group_names(kind).contains("unknown to")
        }));
    }
    if profile.controller_has(ControllerRpc::ListVolumesPublishedNodes)
        && !profile.controller_has(ControllerRpc::PublishUnpublishVolume)
    {
        let rule = "LIST_VOLUMES_PUBLISHED_NODES comes with PUBLISH_UNPUBLISH_VOLUME";
        problems.push(must(rule, "without it"));
    }
    problems
}

/// NodeGetCapabilities.
pub(super) fn node_capabilities(profile: &Profile) -> Vec<Problem> {
    match &profile.node {
        Some(Ok(list)) => kinds("capability", list, node_names, |kind| {
            NodeRpc::try_from(kind).is_ok()
        }),
        Some(Err(_)) | None => vec![],
    }
}

/// What is wrong with a list of capabilities in itself.
fn kinds(
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
                "UNKNOWN, or one without a type",
            ));
        } else if !is_known(*kind) {
            problems.push(advice(
                &format!("every {what} is one of CSI 1.12"),
                name(*kind),
            ));
        } else if !seen.insert(*kind) {
            problems.push(advice(
                &format!("every {what} is listed once"),
                format!("{} twice", name(*kind)),
            ));
        }
    }
    problems
}

/// NodeGetInfo.
pub(super) fn node_info(node: &NodeGetInfoResponse, has_topology: bool) -> Vec<Problem> {
    let mut problems = vec![];
    let length = node.node_id.len();
    if length == 0 {
        problems.push(must("node_id is set", "empty"));
    } else if length > 256 {
        problems.push(must(
            "node_id has at most 256 bytes",
            format!("{length} bytes"),
        ));
    } else if length > 128 {
        let rule = "node_id has at most 128 bytes, for orchestrators of CSI 1.3 and before";
        problems.push(advice(rule, format!("{length} bytes")));
    }
    if node.max_volumes_per_node < 0 {
        let rule = "max_volumes_per_node is not negative";
        problems.push(must(rule, node.max_volumes_per_node.to_string()));
    }
    match (&node.accessible_topology, has_topology) {
        (Some(topology), true) => problems.extend(topologies([topology])),
        (Some(_), false) => {
            let rule = "accessible_topology comes with VOLUME_ACCESSIBILITY_CONSTRAINTS";
            problems.push(must(rule, "set without it"));
        }
        (None, true) => {
            let rule = "a plugin with VOLUME_ACCESSIBILITY_CONSTRAINTS says where its node is; without, only unconstrained volumes can be used there";
            problems.push(advice(rule, "not said"));
        }
        (None, false) => {}
    }
    problems
}

/// Topologies of one plugin (section 6): one prefix over all keys, keys and values of the allowed
/// characters.
pub(super) fn topologies<'a>(all: impl IntoIterator<Item = &'a Topology>) -> Vec<Problem> {
    let mut problems = vec![];
    let mut prefixes = BTreeSet::new();
    for topology in all {
        if topology.segments.is_empty() {
            problems.push(must("a topology names at least one segment", "empty"));
        }
        for (key, value) in &topology.segments {
            let (prefix, name) = key.split_once('/').unwrap_or(("", key));
            prefixes.insert(prefix);
            if !is_word(name, "-_.") || !(prefix.is_empty() || is_word(prefix, "-.")) {
                let rule = "a topology's key is a name or `prefix/name`, each of at most 63 letters, digits, `-`, `_` (not in the prefix) and `.`";
                problems.push(must(rule, format!("{key:?}")));
            }
            if !is_word(value, "-_.") {
                let rule = "a topology's value has 1 to 63 letters, digits, `-`, `_` and `.`";
                problems.push(must(rule, format!("{value:?} of {key}")));
            }
        }
    }
    if prefixes.len() > 1 {
        let rule = "all keys of a plugin's topology have the same prefix";
        problems.push(must(rule, format!("{prefixes:?}")));
    }
    problems
}

fn is_word(text: &str, inside: &str) -> bool {
    let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    text.len() <= 63
        && ends(text.chars().next())
        && ends(text.chars().next_back())
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || inside.contains(c))
}

/// A volume as CreateVolume, ListVolumes and ControllerGetVolume give it.
pub(super) fn volume(volume: &Volume, has_topology: bool) -> Vec<Problem> {
    let mut problems = id("volume_id", &volume.volume_id);
    if volume.capacity_bytes < 0 {
        let rule = "capacity_bytes is not negative, and 0 if it is not known";
        problems.push(must(rule, volume.capacity_bytes.to_string()));
    }
    problems.extend(map_size("volume_context", &volume.volume_context));
    if has_topology {
        problems.extend(topologies(&volume.accessible_topology));
    } else if !volume.accessible_topology.is_empty() {
        let rule = "accessible_topology comes with VOLUME_ACCESSIBILITY_CONSTRAINTS";
        problems.push(must(rule, "set without it"));
    }
    problems
}

/// An ID that the plugin made.
pub(super) fn id(field: &str, id: &str) -> Vec<Problem> {
    match id.len() {
        0 => vec![must(&format!("{field} is set"), "empty")],
        1..=128 => vec![],
        length => vec![must(
            &format!("{field} has at most 128 bytes"),
            format!("{length} bytes"),
        )],
    }
}

/// A map has at most 4 KiB.
fn map_size(field: &str, map: &BTreeMap<String, String>) -> Vec<Problem> {
    let bytes: usize = map.iter().map(|(key, value)| key.len() + value.len()).sum();
    if bytes <= 4096 {
        return vec![];
    }
    let rule = format!("{field} has at most 4 KiB");
    vec![must(&rule, format!("{bytes} bytes"))]
}

/// Whether a size lies in what was asked for; a size of 0 is not known.
pub(super) fn capacity(got: i64, range: &CapacityRange) -> Vec<Problem> {
    if got == 0 {
        return vec![];
    }
    if got < range.required_bytes {
        let rule = format!(
            "capacity_bytes is at least the {} required",
            range.required_bytes
        );
        return vec![must(&rule, got.to_string())];
    }
    if range.limit_bytes > 0 && got > range.limit_bytes {
        let rule = format!(
            "capacity_bytes is at most the {} allowed",
            range.limit_bytes
        );
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
        problems
            .iter()
            .filter(|(level, ..)| *level == Level::Must)
            .count()
    }

    /// `csi-spec` 5.1; a digit at an end is allowed, whatever the usual suite says.
    #[test]
    fn a_plugins_name_follows_the_rules_of_domain_names() {
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
        let without_version = GetPluginInfoResponse {
            vendor_version: String::new(),
            ..info("a.b")
        };
        assert_eq!(musts(&plugin_info(&without_version)), 1);
    }

    #[test]
    fn a_node_has_an_id_of_limited_length_and_a_place_only_where_places_count() {
        let node = |id: &str, max, place: Option<(&str, &str)>| NodeGetInfoResponse {
            node_id: id.to_owned(),
            max_volumes_per_node: max,
            accessible_topology: place.map(|(key, value)| Topology {
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
    fn a_size_is_unknown_or_in_the_range() {
        for (got, required, limit, wrong) in [
            (0, 5, 6, 0),
            (5, 5, 0, 0),
            (4, 5, 0, 1),
            (7, 5, 6, 1),
            (9, 0, 6, 1),
        ] {
            let range = CapacityRange {
                required_bytes: required,
                limit_bytes: limit,
            };
            assert_eq!(capacity(got, &range).len(), wrong, "{got} in {range:?}");
        }
    }

    #[test]
    fn keys_of_a_topology_share_their_prefix() {
        let places = Topology {
            segments: ["a.b/zone", "c.d/rack"]
                .map(|key| (key.to_owned(), "x".to_owned()))
                .into(),
        };
        assert_eq!(musts(&topologies([&places])), 1);
    }

    #[test]
    fn capabilities_are_known_and_listed_once() {
        let known = |kind: i32| ControllerRpc::try_from(kind).is_ok();
        let problems = kinds("capability", &[1, 1, 0, 99], controller_names, known);
        assert_eq!((problems.len(), musts(&problems)), (3, 1));
    }
}
