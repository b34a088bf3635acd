use super::*;

fn names(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(ToString::to_string).collect()
}

fn plugin() -> ProbeDocument {
    let text = r#"{
        "version": 1, "name": "csi.example", "vendor_version": "1.0", "manifest": {}, "ready": true,
        "services": ["CONTROLLER_SERVICE"], "volume_expansion": ["ONLINE"],
        "controller_capabilities": ["CREATE_DELETE_VOLUME", "LIST_VOLUMES"],
        "group_controller_capabilities": null,
        "node_capabilities": ["STAGE_UNSTAGE_VOLUME"],
        "node": {"node_id": "n", "max_volumes_per_node": 0, "accessible_topology": {"zone": "a"}},
        "problems": []
    }"#;
    serde_json::from_str(text).unwrap()
}

fn lost(change: impl FnOnce(&mut ProbeDocument)) -> Vec<(LossKind, String)> {
    let mut new = plugin();
    change(&mut new);
    let diff = compare_profiles(&plugin(), &new);
    diff.lost.into_iter().map(|loss| (loss.kind, loss.what)).collect()
}

#[test]
fn a_new_version_and_new_capabilities_take_nothing_away() {
    let mut new = plugin();
    new.vendor_version = "2.0".to_owned();
    new.node_capabilities =
        Some(Answer::Value(names(&["STAGE_UNSTAGE_VOLUME", "GET_VOLUME_STATS"])));
    let diff = compare_profiles(&plugin(), &new);
    assert_eq!(diff.lost, []);
    assert_eq!(diff.gained, ["node capability GET_VOLUME_STATS"]);
    assert!(!diff.is_breaking());
}

#[test]
fn what_is_lost_is_breaking_or_a_feature() {
    use LossKind::{Breaking, Feature};
    let list = |what: &str| what.to_owned();
    assert_eq!(
        lost(|new| new.controller_capabilities =
            Some(Answer::Value(names(&["CREATE_DELETE_VOLUME"])))),
        [(Feature, list("controller capability LIST_VOLUMES"))]
    );
    assert_eq!(
        lost(|new| new.node_capabilities = None),
        [(Breaking, list("node capability STAGE_UNSTAGE_VOLUME"))]
    );
    assert_eq!(
        lost(|new| new.volume_expansion.clear()),
        [(Feature, list("volume expansion ONLINE"))]
    );
    assert_eq!(
        lost(|new| new.name = "other".to_owned()),
        [(Breaking, list("the name `csi.example`; it is `other`"))]
    );
    let failed = Answer::Failed { error: "down".to_owned() };
    assert_eq!(lost(|new| new.ready = failed), [(Breaking, list("readiness"))]);
}

#[test]
fn a_changed_node_is_a_loss() {
    use LossKind::{Breaking, Feature};
    let node = |change: fn(&mut NodeDocument)| {
        lost(|new| {
            let mut node = new.node.as_ref().and_then(Answer::value).cloned().unwrap();
            change(&mut node);
            new.node = Some(Answer::Value(node));
        })
    };
    assert_eq!(
        node(|node| node.max_volumes_per_node = 8),
        [(Feature, "volumes per node: no limit, and now 8".to_owned())]
    );
    assert_eq!(node(|node| node.node_id = "m".to_owned())[0].0, Breaking);
    assert_eq!(
        node(|node| node.accessible_topology = None),
        [(Breaking, "topology zone=a of the node".to_owned())]
    );
    assert_eq!(lost(|new| new.node = None)[0].0, Breaking);
}

/// The worst is first, so that a reader sees it.
#[test]
fn breaking_losses_are_first() {
    let kinds: Vec<_> =
        lost(|new| new.controller_capabilities = None).into_iter().map(|(kind, _)| kind).collect();
    assert_eq!(kinds, [LossKind::Breaking, LossKind::Feature]);
}
