use super::*;
use crate::plugin_snapshots::read_snapshot;
use crate::samples::plugin;

const DOCUMENT: &str = r#"{"version":1,"kind":"plugin-snapshot","id":"hostpath","provider":"csi.example",
    "provider_version":"1","controller_required":true,
    "controller_capabilities":["CREATE_DELETE_VOLUME","CREATE_DELETE_SNAPSHOT","CLONE_VOLUME","EXPAND_VOLUME"],
    "node_capabilities":[],"topologies":[]}"#;

fn notes(text: &str, state: PluginState) -> Option<Vec<String>> {
    let snapshot = read_snapshot("p/hostpath.plugin.json", "hostpath", text).unwrap();
    let plugins = [(PluginId::new("hostpath"), state)].into();
    let mut found = outdated_snapshots(&[snapshot].into_iter().collect(), &plugins);
    assert!(found.len() < 2);
    found.pop().map(|warning| warning.notes)
}

#[test]
fn a_file_that_says_what_the_server_says_is_not_reported() {
    assert_eq!(notes(DOCUMENT, plugin(|_| ())), None);
    for state in [PluginState::Missing, PluginState::Unknown] {
        assert_eq!(notes(&DOCUMENT.replace("CLONE_VOLUME", "GET_VOLUME"), state), None);
    }
}

#[test]
fn every_point_in_which_a_file_is_out_of_date_is_named() {
    let old = DOCUMENT
        .replace("CLONE_VOLUME", "GET_VOLUME")
        .replace("\"provider_version\":\"1\"", "\"provider_version\":\"0.9\"")
        .replace(
            "\"topologies\":[]",
            r#""topologies":[{"segments":{"zone":"a"},"nodes":1}],"max_volumes":5"#,
        );
    assert_eq!(
        notes(&old, plugin(|_| ())).unwrap(),
        [
            "the version is `1` now, not `0.9`",
            "the plugin no longer has controller capability GET_VOLUME",
            "the plugin has controller capability CLONE_VOLUME now",
            "the limit of volumes of a node is `none` now, not `5`",
            "the plugin no longer has a node with the topology (zone=a)",
        ]
    );
}

#[test]
fn a_probe_is_compared_by_its_version_only() {
    let probe = r#"{"version":1,"name":"csi.example","vendor_version":"VERSION","services":["CONTROLLER_SERVICE"],
        "controller_capabilities":["MODIFY_VOLUME"],"node_capabilities":["GET_VOLUME_STATS"]}"#;
    assert_eq!(notes(&probe.replace("VERSION\"", "1\""), plugin(|_| ())), None);
    let found = notes(&probe.replace("VERSION\"", "2\""), plugin(|_| ())).unwrap();
    assert_eq!(found, ["the version is `1` now, not `2`"]);
}
