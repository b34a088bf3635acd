use super::*;
use crate::plugin_snapshots::read_snapshot;
use crate::samples::{desired, place, places, spec};
use nomad_csi_model::{ExternalId, TopologyRequest, UnresolvedRequest};

fn snapshots(capabilities: &str, topologies: &str) -> PluginSnapshots {
    let text = format!(
        r#"{{"version":1,"kind":"plugin-snapshot","id":"hostpath","provider":"csi.example",
            "taken_at":"2026-11-20T08:00:00Z","controller_required":true,
            "controller_capabilities":[{capabilities}],"node_capabilities":[],"topologies":[{topologies}]}}"#
    );
    [read_snapshot("plugins/h.plugin.json", "h", &text).unwrap()].into_iter().collect()
}

fn probe() -> PluginSnapshots {
    let text = r#"{"version":1,"name":"csi.example","vendor_version":"1",
        "services":["CONTROLLER_SERVICE"],"controller_capabilities":["CREATE_DELETE_VOLUME"],"node_capabilities":null,
        "volume_modes":[{"access_mode":"SINGLE_NODE_WRITER","attachment_mode":"file-system","is_confirmed":false,"reason":"read-only"}]}"#;
    [read_snapshot("plugins/hostpath.plugin.json", "hostpath", text).unwrap()].into_iter().collect()
}

fn all(
    change: impl FnOnce(&mut UnresolvedRequest),
    purpose: Purpose,
    snapshots: &PluginSnapshots,
    use_: SnapshotUse,
) -> Vec<Diagnostic> {
    let mut request = UnresolvedRequest { topology_request: None, ..desired() };
    change(&mut request);
    let mut diagnostics = Diagnostics::default();
    snapshot_problems(&[spec(request)], purpose, snapshots, use_, &mut diagnostics);
    diagnostics.into_iter().collect()
}

fn problems(
    change: impl FnOnce(&mut UnresolvedRequest),
    snapshots: &PluginSnapshots,
) -> Vec<Diagnostic> {
    all(change, Purpose::ByExternalId, snapshots, SnapshotUse::Alone)
}

fn codes(problems: &[Diagnostic]) -> Vec<(Code, bool)> {
    problems
        .iter()
        .map(|one| (one.code, one.severity == nomad_csi_model::diagnostic::Severity::Error))
        .collect()
}

const CREATES: &str = r#""CREATE_DELETE_VOLUME""#;
const ZONES: &str = r#"{"segments":{"zone":"a"},"nodes":2},{"segments":{"zone":"b"},"nodes":1}"#;

#[test]
fn the_rules_of_a_plan_are_checked_and_name_the_file() {
    let none = snapshots("", ZONES);
    let found = problems(|_| (), &none);
    assert_eq!(codes(&found), [(Code::PluginUnsupported, true)]);
    assert_eq!(found[0].notes, ["as `plugins/h.plugin.json` of 2026-11-20 says"]);
    let creates = snapshots(CREATES, ZONES);
    assert_eq!(problems(|_| (), &creates), []);
    let found = problems(|request| request.clone_id = Some("vol-0".into()), &creates);
    assert_eq!(codes(&found), [(Code::PluginUnsupported, true)]);
    assert_eq!(found[0].notes.last().unwrap(), "as `plugins/h.plugin.json` of 2026-11-20 says");
    let found = problems(|request| request.topology_request = places(&["c"]), &creates);
    assert_eq!(codes(&found), [(Code::PluginTopology, true)]);
}

#[test]
fn a_volume_that_is_registered_needs_no_controller() {
    let none = snapshots("", ZONES);
    let known = |request: &mut UnresolvedRequest| request.external_id = Some(ExternalId::new("v"));
    assert_eq!(problems(known, &none), []);
    let found = all(known, Purpose::Create, &none, SnapshotUse::Alone);
    assert_eq!(codes(&found), [(Code::PluginUnsupported, true)]);
}

#[test]
fn a_key_of_a_topology_that_no_node_has_is_reported_with_a_similar_one() {
    let creates = snapshots(CREATES, ZONES);
    let wrong = |key: &str| Topology { segments: [(key.to_owned(), "a".to_owned())].into() };
    let required = |required: Vec<Topology>, preferred: Vec<Topology>| {
        move |request: &mut UnresolvedRequest| {
            request.topology_request = Some(TopologyRequest { required, preferred });
        }
    };
    let found = problems(required(vec![wrong("zonee")], vec![]), &creates);
    assert_eq!(codes(&found), [(Code::PluginTopology, true)]);
    assert_eq!(found[0].help.last().unwrap(), "did you mean `zone`?");
    // Another required topology can be met.
    let found = problems(required(vec![wrong("zonee"), place("a")], vec![]), &creates);
    assert_eq!(codes(&found), [(Code::PluginTopology, false)]);
    assert_eq!(found[0].help, ["did you mean `zone`?"]);
    let found = problems(required(vec![], vec![wrong("rack")]), &creates);
    assert_eq!(codes(&found), [(Code::PluginTopology, false)]);
    assert_eq!(problems(required(vec![place("a")], vec![place("c")]), &creates), []);
    // A node without a topology may have any.
    let silent =
        snapshots(CREATES, r#"{"segments":{"zone":"b"},"nodes":1},{"segments":{},"nodes":1}"#);
    assert_eq!(problems(required(vec![], vec![wrong("rack")]), &silent), []);
}

#[test]
fn a_mode_that_the_plugin_refused_is_a_warning_also_beside_a_server() {
    for use_ in [SnapshotUse::Alone, SnapshotUse::BesideServer] {
        let found = all(|_| (), Purpose::ByExternalId, &probe(), use_);
        assert_eq!(codes(&found), [(Code::PluginModeRefused, false)]);
        assert_eq!(
            found[0].notes,
            ["the plugin's reason: read-only", "as `plugins/hostpath.plugin.json` says"]
        );
    }
    let other = |request: &mut UnresolvedRequest| {
        request.capabilities.retain(|one| one.access_mode.as_str() != "single-node-writer");
    };
    assert_eq!(problems(other, &probe()), []);
}

#[test]
fn a_plugin_without_a_file_is_reported_once_for_each_place() {
    let creates = snapshots(CREATES, ZONES);
    let mut request = desired();
    request.plugin_id = PluginId::new("hostpat");
    let mut other = desired();
    other.plugin_id = PluginId::new("ceph");
    let specs = [spec(request.clone()), spec(request), spec(other)];
    let mut found = Diagnostics::default();
    let purpose = Purpose::ByExternalId;
    snapshot_problems(&specs, purpose, &creates, SnapshotUse::BesideServer, &mut found);
    let found: Vec<Diagnostic> = found.into_iter().collect();
    let warning = (Code::PluginNoSnapshot, false);
    assert_eq!(codes(&found), [warning, warning]);
    assert_eq!(found[0].message, "volume `db`: no file of `--plugins` is of plugin `ceph`");
    assert_eq!(found[0].notes, ["the files are of: hostpath"]);
    assert_eq!(
        found[1].message,
        "volume `db` and 1 more: no file of `--plugins` is of plugin `hostpat`"
    );
    assert_eq!(found[1].help[0], "did you mean plugin `hostpath`?");
}

/// The server is asked, so a file that is out of date refuses nothing.
#[test]
fn beside_a_server_the_rules_of_a_plan_wait_for_the_server() {
    let none = snapshots("", ZONES);
    assert_eq!(all(|_| (), Purpose::ByExternalId, &none, SnapshotUse::BesideServer), []);
}
