//! Registrations of data that another volume has.

use super::*;
use crate::build::build_plan;
use crate::inputs::{ObservedState, PlanOptions};
use crate::rules::MergeRules;
use crate::samples::{desired, observed, plugin, spec};
use nomad_csi_model::{Namespace, UnresolvedRequest, VolumeId};
use nomad_csi_spec::{Purpose, VolumeSpec};

fn key(namespace: &str, id: &str) -> NamespacedId {
    NamespacedId::new(Namespace::new(namespace), VolumeId::new(id))
}

fn registered(namespace: &str, id: &str, external_id: Option<&str>, plugin: &str) -> VolumeSummary {
    let document = serde_json::json!({"ID": id, "Namespace": namespace, "PluginID": plugin});
    let document = nomad_csi_wire::decode_value(&document).unwrap();
    VolumeSummary {
        external_id: external_id.map(ExternalId::new),
        ..nomad_csi_wire::summary_from_wire(&document)
    }
}

/// Volume `old` with external ID `vol-1` at a plugin of this provider.
fn of_provider(provider: &str, plugin: &str) -> VolumeSummary {
    VolumeSummary {
        provider: provider.to_owned(),
        ..registered("default", "old", Some("vol-1"), plugin)
    }
}

/// A specification that registers external ID `vol-1`.
fn registering(id: &str) -> VolumeSpec {
    let mut spec = spec(UnresolvedRequest {
        id: VolumeId::new(id),
        external_id: Some(ExternalId::new("vol-1")),
        ..desired()
    });
    spec.request.name = Some(id.to_owned());
    spec
}

/// The plan of specifications whose volumes do not exist.
fn planned(
    desired: Vec<VolumeSpec>,
    others: Vec<VolumeSummary>,
    share: &[NamespacedId],
    rules: MergeRules,
) -> Vec<PlannedVolume> {
    let observed = ObservedState { registered: others, ..observed(None, plugin(|_| {})) };
    let options = PlanOptions { share: share.iter().cloned().collect(), ..PlanOptions::default() };
    let plan = build_plan(PlanInputs {
        desired,
        purpose: Purpose::ByExternalId,
        observed: &observed,
        rules,
        owned: None,
        options: &options,
    });
    plan.volumes
}

/// For each registration, the others that its refusal names.
fn refused(
    ids: &[&str],
    others: Vec<VolumeSummary>,
    share: &[NamespacedId],
    rules: MergeRules,
) -> Vec<Option<Vec<String>>> {
    let desired = ids.iter().map(|id| registering(id)).collect();
    let planned = planned(desired, others, share, rules);
    let names = |planned: &PlannedVolume| match &planned.action {
        Action::Register(request) => {
            assert_eq!(request.share, share.contains(&planned.key));
            None
        }
        Action::Blocked(reasons) => {
            assert_eq!(reasons[0].code, Code::VolumeShared, "{reasons:?}");
            Some(reasons[0].notes.clone())
        }
        action => panic!("{}", action.as_str()),
    };
    planned.iter().map(names).collect()
}

#[test]
fn data_of_another_registration_is_not_registered_again() {
    for rules in [MergeRules::NOMAD, MergeRules::AGENT] {
        for (other, is_refused) in [
            (registered("default", "old", Some("vol-1"), "hostpath"), true),
            (registered("prod", "db", Some("vol-1"), "hostpath"), true),
            (registered("default", "vol-1", None, "hostpath"), true),
            (registered("default", "db", Some("vol-1"), "hostpath"), false),
            (registered("default", "old", Some("vol-2"), "hostpath"), false),
            (registered("default", "old", Some("vol-1"), "other"), true),
            (of_provider("csi.example", "other"), true),
            (of_provider("other.csi", "other"), false),
            (registered("default", "old", None, "hostpath"), false),
        ] {
            let found = refused(&["db"], vec![other.clone()], &[], rules);
            assert_eq!(found[0].is_some(), is_refused, "{other:?}");
            let named = &[key("default", "db")];
            assert_eq!(refused(&["db"], vec![other], named, rules), [None]);
        }
    }
}

#[test]
fn an_approval_of_another_volume_shares_nothing() {
    let other = || vec![registered("prod", "old", Some("vol-1"), "hostpath")];
    for share in [key("prod", "old"), key("prod", "db"), key("default", "old")] {
        let found = refused(&["db"], other(), std::slice::from_ref(&share), MergeRules::NOMAD);
        let notes = found[0].as_ref().expect("it is refused");
        assert_eq!(
            notes[0],
            "volume `old` in namespace `prod` has external ID `vol-1` at plugin `hostpath`",
            "{share:?}"
        );
    }
}

#[test]
fn of_two_specifications_of_the_same_data_one_is_registered() {
    let found = refused(&["db", "copy", "third"], vec![], &[], MergeRules::AGENT);
    let blocked: Vec<bool> = found.iter().map(Option::is_some).collect();
    assert_eq!(blocked, [false, true, true]);
    let share = [key("default", "copy")];
    let found = refused(&["db", "copy", "third"], vec![], &share, MergeRules::AGENT);
    let blocked: Vec<bool> = found.iter().map(Option::is_some).collect();
    assert_eq!(blocked, [false, false, true]);
}

/// A volume of this ID that the provider creates.
fn created(id: &str, name: Option<&str>) -> VolumeSpec {
    spec(UnresolvedRequest { id: VolumeId::new(id), name: name.map(str::to_owned), ..desired() })
}

/// For each creation, the reason of its refusal.
fn refused_creations(
    desired: Vec<VolumeSpec>,
    others: Vec<VolumeSummary>,
    share: &[NamespacedId],
    rules: MergeRules,
) -> Vec<Option<Diagnostic>> {
    let reason = |planned: PlannedVolume| match planned.action {
        Action::Create(_) => None,
        Action::Blocked(reasons) => reasons.into_iter().next(),
        action => panic!("{}", action.as_str()),
    };
    let planned = planned(desired, others, share, rules).into_iter();
    planned.map(reason).collect()
}

/// W13: a plugin answers a creation with the volume that it has of that name.
#[test]
fn nothing_is_created_under_the_name_of_another_volume() {
    let named = |namespace: &str, id: &str, name: &str, plugin: &str| VolumeSummary {
        name: name.to_owned(),
        ..registered(namespace, id, Some("vol-7"), plugin)
    };
    for (other, desired, is_refused) in [
        (named("prod", "db", "db", "hostpath"), created("db", Some("db")), true),
        (named("prod", "db", "db", "hostpath"), created("db", None), true),
        (named("default", "old", "db", "hostpath"), created("db", None), true),
        (named("default", "db", "db", "hostpath"), created("db", None), false),
        (named("prod", "db", "prod-db", "hostpath"), created("db", None), false),
        (named("prod", "db", "db", "hostpath"), created("db", Some("default-db")), false),
        (named("prod", "db", "", "hostpath"), created("db", Some("")), false),
    ] {
        let found = |rules, share: &[NamespacedId]| {
            refused_creations(vec![desired.clone()], vec![other.clone()], share, rules).remove(0)
        };
        let reason = found(MergeRules::NOMAD, &[]);
        assert_eq!(reason.is_some(), is_refused, "{other:?}");
        if let Some(reason) = reason {
            assert_eq!(reason.code, Code::VolumeShared);
            assert!(reason.notes[0].starts_with(&format!(
                "volume `{}` in namespace `{}` has name",
                other.id, other.namespace
            )));
        }
        assert_eq!(found(MergeRules::NOMAD, &[key("default", "db")]), None);
        assert_eq!(found(MergeRules::AGENT, &[]), None, "the agent makes names");
    }
    let two = || vec![created("a", Some("db")), created("b", Some("db")), created("c", None)];
    let reasons = refused_creations(two(), vec![], &[], MergeRules::NOMAD);
    let blocked: Vec<bool> = reasons.iter().map(Option::is_some).collect();
    assert_eq!(blocked, [false, true, false]);
}
