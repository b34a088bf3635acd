use super::*;
use crate::action::{Action, Replace, ReplaceSteps};
use crate::samples::{desired, existing, spec};
use crate::volume_version::VolumeVersion;
use nomad_csi_model::VolumeId;

fn request(id: &str, clone_id: Option<&str>) -> UnresolvedRequest {
    UnresolvedRequest {
        id: VolumeId::new(id),
        name: Some(format!("name of {id}")),
        clone_id: clone_id.map(str::to_owned),
        ..desired()
    }
}

fn entry(request: UnresolvedRequest, action: Action) -> PlannedVolume {
    let spec = spec(request);
    PlannedVolume {
        key: spec.key(),
        spec: Some(spec),
        action,
        expected_version: VolumeVersion::Absent,
        impact: None,
        protection: None,
        depends_on: vec![],
        warnings: vec![],
    }
}

fn created(id: &str, clone_id: Option<&str>) -> PlannedVolume {
    let request = request(id, clone_id);
    entry(request.clone(), Action::Create(Box::new(request)))
}

fn replaced(id: &str) -> PlannedVolume {
    let request = request(id, None);
    let replace = Replace {
        snapshot_first: false,
        steps: ReplaceSteps::DeleteThenCreate,
        request: request.clone(),
    };
    entry(request, Action::Replace(Box::new(replace)))
}

fn ordered(mut volumes: Vec<PlannedVolume>, observed: &ObservedState) -> Vec<Vec<usize>> {
    set_dependencies(&mut volumes, observed);
    volumes.into_iter().map(|one| one.depends_on).collect()
}

#[test]
fn a_source_matches_each_of_its_names_at_its_own_plugin_only() {
    for (clone_id, expected) in
        [("source", vec![0]), ("name of source", vec![0]), ("vol-9", vec![0]), ("vol-8", vec![])]
    {
        let source = UnresolvedRequest {
            external_id: Some(ExternalId::new("vol-9")),
            ..request("source", None)
        };
        let volumes =
            vec![entry(source.clone(), Action::Unchanged), created("copy", Some(clone_id))];
        let found = ordered(volumes, &ObservedState::default());
        assert_eq!(found, [vec![], expected], "{clone_id}");
        let elsewhere = UnresolvedRequest { plugin_id: PluginId::new("other"), ..source };
        let volumes = vec![entry(elsewhere, Action::Unchanged), created("copy", Some(clone_id))];
        let found = ordered(volumes, &ObservedState::default());
        assert_eq!(found, [vec![], vec![0; 0]], "{clone_id}");
    }
}

/// A replaced volume has its external ID before and its volume ID after.
#[test]
fn a_replaced_source_is_copied_before_or_after() {
    let observed = ObservedState {
        volumes: [(existing().key(), existing())].into(),
        ..ObservedState::default()
    };
    for (clone_id, expected) in [("vol-1", [vec![1], vec![]]), ("db", [vec![], vec![0]])] {
        let volumes = vec![replaced("db"), created("copy", Some(clone_id))];
        assert_eq!(ordered(volumes, &observed), expected, "{clone_id}");
    }
}

/// Comparing each of twenty thousand copies with every entry would take four hundred million steps.
#[test]
fn many_copies_and_a_chain_of_copies_are_ordered_quickly() {
    const COPIES: usize = 20_000;
    let mut volumes = vec![created("source", None)];
    volumes.extend((0..COPIES).map(|at| created(&format!("copy{at}"), Some("source"))));
    let found = ordered(volumes, &ObservedState::default());
    assert!(found[0].is_empty());
    assert!(found[1..].iter().all(|earlier| *earlier == [0]));
    let row = (0..100_usize).map(|at| {
        let before = at.checked_sub(1).map(|before| format!("v{before}"));
        created(&format!("v{at}"), before.as_deref())
    });
    let found = ordered(row.collect(), &ObservedState::default());
    let expected = (0..100_usize).map(|at| at.checked_sub(1).into_iter().collect::<Vec<_>>());
    assert_eq!(found, expected.collect::<Vec<_>>());
}
