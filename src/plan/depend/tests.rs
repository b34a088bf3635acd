use super::*;
use crate::model::VolumeId;
use crate::plan::action::{Replace, ReplaceSteps};
use crate::plan::pin::Pin;
use crate::plan::samples::{existing, spec, wanted};

fn request(id: &str, clone_id: Option<&str>) -> WantedRequest {
    WantedRequest {
        id: VolumeId::new(id),
        name: Some(format!("name of {id}")),
        clone_id: clone_id.map(str::to_owned),
        ..wanted()
    }
}

fn entry(request: WantedRequest, action: Action) -> Planned {
    let spec = spec(request);
    Planned {
        key: spec.key(),
        spec: Some(spec),
        action,
        pin: Pin::Absent,
        stakes: None,
        depends_on: vec![],
        warnings: vec![],
    }
}

fn created(id: &str, clone_id: Option<&str>) -> Planned {
    let request = request(id, clone_id);
    entry(request.clone(), Action::Create(Box::new(request)))
}

fn replaced(id: &str) -> Planned {
    let request = request(id, None);
    let replace = Replace {
        snapshot_first: false,
        steps: ReplaceSteps::DeleteThenCreate,
        request: request.clone(),
    };
    entry(request, Action::Replace(Box::new(replace)))
}

fn ordered(mut volumes: Vec<Planned>, observed: &Observed) -> Vec<Vec<usize>> {
    order(&mut volumes, observed);
    volumes.into_iter().map(|one| one.depends_on).collect()
}

/// Each name that a copy can have for its source, and none that another plugin has.
#[test]
fn a_source_is_known_by_each_of_its_names_at_its_plugin() {
    for (clone_id, expected) in [
        ("source", vec![0]),
        ("name of source", vec![0]),
        ("vol-9", vec![0]),
        ("vol-8", vec![]),
    ] {
        let source = WantedRequest {
            external_id: Some(ExternalId::new("vol-9")),
            ..request("source", None)
        };
        let volumes = vec![
            entry(source.clone(), Action::Unchanged),
            created("copy", Some(clone_id)),
        ];
        let found = ordered(volumes, &Observed::default());
        assert_eq!(found, [vec![], expected], "{clone_id}");
        let elsewhere = WantedRequest {
            plugin_id: PluginId::new("other"),
            ..source
        };
        let volumes = vec![
            entry(elsewhere, Action::Unchanged),
            created("copy", Some(clone_id)),
        ];
        let found = ordered(volumes, &Observed::default());
        assert_eq!(found, [vec![], vec![0; 0]], "{clone_id}");
    }
}

/// What is replaced is there under its external ID before, and under its own ID after.
#[test]
fn a_source_that_is_replaced_is_copied_as_it_was_or_as_it_will_be() {
    let observed = Observed {
        volumes: [(existing().key(), existing())].into(),
        ..Observed::default()
    };
    for (clone_id, expected) in [("vol-1", [vec![1], vec![]]), ("db", [vec![], vec![0]])] {
        let volumes = vec![replaced("db"), created("copy", Some(clone_id))];
        assert_eq!(ordered(volumes, &observed), expected, "{clone_id}");
    }
}

/// Twenty thousand copies, each held against every entry, would be four hundred million comparisons.
#[test]
fn many_copies_of_one_source_and_a_row_of_copies_are_ordered() {
    const COPIES: usize = 20_000;
    let mut volumes = vec![created("source", None)];
    volumes.extend((0..COPIES).map(|at| created(&format!("copy{at}"), Some("source"))));
    let found = ordered(volumes, &Observed::default());
    assert!(found[0].is_empty());
    assert!(found[1..].iter().all(|earlier| *earlier == [0]));
    let row = (0..100_usize).map(|at| {
        let before = at.checked_sub(1).map(|before| format!("v{before}"));
        created(&format!("v{at}"), before.as_deref())
    });
    let found = ordered(row.collect(), &Observed::default());
    let expected = (0..100_usize).map(|at| at.checked_sub(1).into_iter().collect::<Vec<_>>());
    assert_eq!(found, expected.collect::<Vec<_>>());
}
