//! Removals and replacements: what is removed, and which option each needs.

use std::sync::Arc;

use super::*;
use crate::action::Plan;
use crate::build::build_plan;
use crate::claiming_alloc::ClaimingAlloc;
use crate::inputs::{ObservedState, OwnedSet, OwnedVolume, PlanOptions};
use crate::ledger::RecordedData;
use crate::risk::{LastSnapshot, Recovery, Risk};
use crate::rules::MergeRules;
use crate::samples::{codes, desired, existing, observed, plugin, spec};
use nomad_csi_model::{AllocId, ExternalId, NamespacedId, VolumeId, VolumeSummary};
use nomad_csi_spec::Purpose;

struct Case {
    observed: ObservedState,
    owned: Option<OwnedSet>,
    options: PlanOptions,
    desired: Vec<UnresolvedRequest>,
}

fn key() -> NamespacedId {
    existing().key()
}

fn owned(protect: bool) -> Option<OwnedSet> {
    let entry = OwnedVolume { protect, ..OwnedVolume::default() };
    Some(OwnedSet { set: "prod".into(), volumes: [(key(), entry)].into(), ..OwnedSet::default() })
}

fn case() -> Case {
    Case {
        observed: observed(Some(existing()), plugin(|_| {})),
        owned: None,
        options: PlanOptions::default(),
        desired: vec![],
    }
}

impl Case {
    fn plan(self) -> Vec<PlannedVolume> {
        self.whole_plan().volumes
    }

    fn whole_plan(self) -> Plan {
        build_plan(PlanInputs {
            desired: self.desired.into_iter().map(spec).collect(),
            purpose: Purpose::ByExternalId,
            observed: &self.observed,
            rules: MergeRules::NOMAD,
            owned: self.owned.as_ref(),
            options: &self.options,
        })
    }

    fn only(self) -> PlannedVolume {
        let mut volumes = self.plan();
        assert_eq!(volumes.len(), 1, "{volumes:?}");
        volumes.remove(0)
    }
}

fn claimed_volume() -> Volume {
    Volume { write_allocs: [AllocId::new("a1")].into(), ..existing() }
}

fn risk(planned: &PlannedVolume) -> Risk {
    planned.impact.as_ref().expect("the volume changes").risk
}

/// `--prune` removes only owned volumes that no file names, and keeps their data.
#[test]
fn only_owned_volumes_that_no_file_names_are_pruned() {
    let prune = PlanOptions { prune: true, ..PlanOptions::default() };
    let pruned = Case { owned: owned(false), options: prune.clone(), ..case() };
    let pruned = pruned.only();
    assert_eq!(pruned.action, Action::Deregister);
    assert_eq!(risk(&pruned), Risk::NeedsDowntime);
    let impact = pruned.impact.expect("the volume changes");
    assert!(!impact.loss.expect("a registration is lost").destroys_data);
    assert_eq!(impact.recovery, Recovery::RegisterAgain(ExternalId::new("vol-1")));
    for (name, owned, options, desired) in [
        ("not requested", owned(false), PlanOptions::default(), vec![]),
        ("no ledger", None, prune.clone(), vec![]),
        ("not owned", Some(OwnedSet::default()), prune.clone(), vec![]),
    ] {
        let kept = Case { owned, options, desired, ..case() };
        assert_eq!(kept.plan(), [], "{name}");
    }
    let named = Case { owned: owned(false), options: prune, desired: vec![desired()], ..case() };
    assert_eq!(named.only().action, Action::Unchanged);
}

/// Another run of the command would create it again, empty.
#[test]
fn a_volume_that_another_set_declares_is_not_pruned() {
    let options = |prune: bool, elsewhere: &[(NamespacedId, &str)]| PlanOptions {
        prune,
        declared_elsewhere: Arc::new(
            elsewhere.iter().map(|(key, at)| (key.clone(), (*at).to_owned())).collect(),
        ),
        ..PlanOptions::default()
    };
    let moved = [(key(), "teams/b")];
    let other = [(NamespacedId::new("other".into(), key().id), "teams/b")];
    let planned = |options: PlanOptions| Case { owned: owned(false), options, ..case() }.plan();
    let blocked = planned(options(true, &moved)).remove(0);
    assert_eq!(codes(&blocked), [Code::PlanDeclaredElsewhere.as_str()]);
    assert_eq!(planned(options(true, &other)).remove(0).action, Action::Deregister);
    assert_eq!(planned(options(false, &moved)), []);
    let gone = observed(None, plugin(|_| {}));
    let gone =
        Case { observed: gone, owned: owned(false), options: options(true, &moved), ..case() };
    assert_eq!(gone.only().action, Action::Unchanged);
}

/// What a plan leaves alone is named, unless the set removed it itself or another file declares it.
#[test]
fn owned_volumes_in_no_file_are_named() {
    let inputs = |data: RecordedData, elsewhere: bool| {
        let mut owned = owned(false).unwrap();
        owned.volumes.get_mut(&key()).unwrap().data = data;
        let at = elsewhere.then(|| (key(), "teams/b".to_owned()));
        let options = PlanOptions {
            declared_elsewhere: Arc::new(at.into_iter().collect()),
            ..PlanOptions::default()
        };
        Case { owned: Some(owned), options, ..case() }
    };
    for (data, elsewhere, expected) in [
        (RecordedData::Unrecorded, false, vec![key()]),
        (RecordedData::Unrecorded, true, vec![]),
        (RecordedData::Removed, false, vec![]),
    ] {
        assert_eq!(inputs(data, elsewhere).whole_plan().undeclared, expected);
    }
}

/// A repeated run succeeds: a volume that is already gone needs no change.
#[test]
fn a_volume_that_is_already_gone_is_unchanged() {
    let options =
        PlanOptions { prune: true, delete_data: [key()].into(), ..PlanOptions::default() };
    let gone =
        Case { observed: observed(None, plugin(|_| {})), owned: owned(true), options, ..case() };
    let gone = gone.only();
    assert_eq!(gone.warnings[0].code, Code::VolumeNotFound);
    assert_eq!((gone.action, gone.expected_version), (Action::Unchanged, VolumeVersion::Absent));
    assert_eq!(gone.impact, None);
}

#[test]
fn a_protected_volume_is_not_pruned_deleted_or_replaced() {
    let prune = PlanOptions { prune: true, ..PlanOptions::default() };
    let delete = PlanOptions { delete_data: [key()].into(), ..PlanOptions::default() };
    let replace = PlanOptions { replace: [key()].into(), ..PlanOptions::default() };
    for (options, desired) in [(prune, vec![]), (delete, vec![]), (replace, vec![desired()])] {
        let kept = Case { owned: owned(true), options, desired, ..case() };
        let kept = kept.only();
        assert_eq!(codes(&kept), [Code::PlanProtected.as_str()]);
        assert_eq!(kept.impact, None);
    }
}

#[test]
fn a_removal_waits_for_claims() {
    let delete = PlanOptions { delete_data: [key()].into(), ..PlanOptions::default() };
    let replace = PlanOptions { replace: [key()].into(), ..PlanOptions::default() };
    for (options, desired) in [(delete, vec![]), (replace, vec![desired()])] {
        let waits = Case {
            observed: observed(Some(claimed_volume()), plugin(|_| {})),
            options,
            desired,
            ..case()
        };
        let Action::WaitingForClaims(wait) = waits.only().action else {
            panic!("it does not wait")
        };
        assert_eq!(wait.claims, ClaimingAlloc::of(&claimed_volume()));
        assert_eq!(wait.reasons[0].code, Code::VolumeInUse);
    }
}

/// One external volume is registered twice (GH-13266).
#[test]
fn shared_data_is_not_deleted() {
    let mut there = observed(Some(existing()), plugin(|_| {}));
    let document = serde_json::json!({
        "ID": "alias", "Namespace": "other", "PluginID": "hostpath", "ExternalID": "vol-1",
    });
    let alias = nomad_csi_wire::decode_value(&document).expect("a list's entry");
    let alias: VolumeSummary = nomad_csi_wire::summary_from_wire(&alias);
    there.registered = vec![alias];
    let shared = Case {
        observed: there,
        options: PlanOptions { delete_data: [key()].into(), ..PlanOptions::default() },
        ..case()
    };
    assert_eq!(codes(&shared.only()), [Code::VolumeShared.as_str()]);
}

#[test]
fn data_of_a_declared_volume_is_not_deleted() {
    let contradiction = Case {
        options: PlanOptions { delete_data: [key()].into(), ..PlanOptions::default() },
        desired: vec![desired()],
        ..case()
    };
    assert_eq!(codes(&contradiction.only()), [Code::PlanStillWanted.as_str()]);
}

/// A mistyped name must not result in an empty plan without a warning.
#[test]
fn deleting_a_missing_volume_warns_with_a_suggestion() {
    let typed = |namespace: &str, id: &str| {
        NamespacedId::new(nomad_csi_model::Namespace::new(namespace), VolumeId::new(id))
    };
    for (requested, registered, help) in [
        (typed("default", "dbb"), "default", "did you mean volume `db`?"),
        (typed("prod", "db"), "default", "`--delete-data default/db`"),
        (typed("default", "web"), "default", "deleted before"),
    ] {
        let document = serde_json::json!({
            "ID": "db", "Namespace": registered, "PluginID": "hostpath", "ExternalID": "vol-1",
        });
        let volume: VolumeSummary = nomad_csi_wire::summary_from_wire(
            &nomad_csi_wire::decode_value(&document).expect("an entry"),
        );
        let mut there = observed(None, plugin(|_| {}));
        there.registered = vec![volume];
        let missing = Case {
            observed: there,
            options: PlanOptions { delete_data: [requested].into(), ..PlanOptions::default() },
            ..case()
        };
        let missing = missing.only();
        assert_eq!(missing.action, Action::Unchanged);
        assert!(missing.warnings[0].help[0].contains(help), "{missing:?}");
    }
}

/// The plugin of the existing volume must be able to delete it and to take the snapshot. It may
/// differ from the plugin of the new volume.
#[test]
fn missing_abilities_of_the_old_plugin_block_the_replacement() {
    type Change = fn(&mut nomad_csi_model::Plugin);
    let able: Change = |_| {};
    let no_snapshot: Change = |plugin| {
        for instance in plugin.controllers.values_mut() {
            let controller = instance.controller.as_mut().expect("it has one");
            controller.capabilities.create_delete_snapshot = false;
        }
    };
    let no_deletion: Change = |plugin| {
        for instance in plugin.controllers.values_mut() {
            let controller = instance.controller.as_mut().expect("it has one");
            controller.capabilities.create_delete_volume = false;
        }
    };
    let unhealthy: Change = |plugin| plugin.summary.controllers.healthy = 0;
    let none: Change = |plugin| {
        plugin.summary.controller_required = false;
        plugin.controllers.clear();
    };
    for (change, snapshot_first, expected) in [
        (able, true, &[][..]),
        (no_snapshot, false, &[]),
        (no_snapshot, true, &[Code::PluginUnsupported]),
        (no_deletion, false, &[Code::PluginUnsupported]),
        (none, false, &[Code::PluginNoController]),
        (unhealthy, true, &[Code::PluginUnhealthy]),
    ] {
        let mut there = observed(Some(existing()), plugin(change));
        let new = nomad_csi_model::PluginId::new("another");
        there.plugins.insert(new.clone(), plugin(|_| {}));
        let replaced = Case {
            observed: there.clone(),
            options: PlanOptions {
                replace: [key()].into(),
                snapshot_first,
                ..PlanOptions::default()
            },
            desired: vec![UnresolvedRequest { plugin_id: new, ..desired() }],
            ..case()
        };
        let replaced = replaced.only();
        let expected: Vec<_> = expected.iter().map(|code| code.as_str()).collect();
        if expected.is_empty() {
            assert!(matches!(replaced.action, Action::Replace(_)), "{replaced:?}");
        } else {
            assert_eq!(codes(&replaced), expected);
        }
        let deleted = Case {
            observed: there,
            options: PlanOptions { delete_data: [key()].into(), ..PlanOptions::default() },
            ..case()
        };
        let deleted = deleted.only();
        if expected.is_empty() || (snapshot_first && change as usize == no_snapshot as usize) {
            assert_eq!(deleted.action, Action::DeleteData);
        } else {
            assert_eq!(codes(&deleted), expected);
        }
    }
}

#[test]
fn a_replacement_has_two_steps_and_reports_the_loss() {
    let mut there = observed(Some(existing()), plugin(|_| {}));
    let snapshot = LastSnapshot::Taken { id: "snap-1".into(), at: 7 };
    there.snapshots = [(key(), snapshot.clone())].into();
    let created = Case {
        observed: there.clone(),
        options: PlanOptions {
            replace: [key()].into(),
            snapshot_first: true,
            ..PlanOptions::default()
        },
        desired: vec![desired()],
        ..case()
    };
    let planned = created.only();
    let Action::Replace(replace) = &planned.action else { panic!("{planned:?}") };
    assert_eq!(replace.steps, ReplaceSteps::DeleteThenCreate);
    assert!(replace.snapshot_first);
    assert_eq!(risk(&planned), Risk::DestroysData);
    let impact = planned.impact.expect("the volume changes");
    let loss = impact.loss.expect("data is lost");
    assert!(loss.destroys_data);
    assert_eq!(loss.capacity, existing().capacity);
    assert_eq!(loss.last_snapshot, snapshot);
    assert_eq!(impact.recovery, Recovery::RestoreOwnSnapshot);

    let without = Case {
        observed: there.clone(),
        options: PlanOptions { replace: [key()].into(), ..PlanOptions::default() },
        desired: vec![desired()],
        ..case()
    };
    let impact = without.only().impact.expect("the volume changes");
    assert_eq!(impact.recovery, Recovery::RestoreSnapshot("snap-1".into()));

    let registered = Case {
        observed: there,
        options: PlanOptions { replace: [key()].into(), ..PlanOptions::default() },
        desired: vec![UnresolvedRequest {
            external_id: Some(ExternalId::new("vol-2")),
            ..desired()
        }],
        ..case()
    };
    let planned = registered.only();
    let Action::Replace(replace) = &planned.action else { panic!("{planned:?}") };
    assert_eq!(replace.steps, ReplaceSteps::DeregisterThenRegister);
    assert_eq!(risk(&planned), Risk::NeedsDowntime);
}

/// A source exists before its copy is created and is removed after it.
#[test]
fn copies_are_created_after_their_source_and_before_its_removal() {
    let copy = UnresolvedRequest {
        id: VolumeId::new("copy"),
        clone_id: Some("vol-1".into()),
        ..desired()
    };
    let source = UnresolvedRequest {
        id: VolumeId::new("source"),
        external_id: Some(ExternalId::new("vol-1")),
        ..desired()
    };
    let appears = Case {
        observed: observed(None, plugin(|_| {})),
        desired: vec![copy.clone(), source],
        ..case()
    };
    let plan = appears.plan();
    assert_eq!(plan[0].depends_on, [1]);
    assert_eq!(plan[1].depends_on, [0_usize; 0]);

    let goes = Case {
        options: PlanOptions { delete_data: [key()].into(), ..PlanOptions::default() },
        desired: vec![copy],
        ..case()
    };
    let plan = goes.plan();
    assert_eq!(plan[0].depends_on, [0_usize; 0]);
    assert_eq!(plan[1].action, Action::DeleteData);
    assert_eq!(plan[1].depends_on, [0]);
}

/// Two volumes that are copies of each other still get an order.
#[test]
fn dependencies_have_no_cycle() {
    let of = |id: &str, from: &str| UnresolvedRequest {
        id: VolumeId::new(id),
        name: Some(id.into()),
        clone_id: Some(from.into()),
        ..desired()
    };
    let circle = Case {
        observed: observed(None, plugin(|_| {})),
        desired: vec![of("a", "c"), of("b", "a"), of("c", "b")],
        ..case()
    };
    let edges: usize = circle.plan().iter().map(|one| one.depends_on.len()).sum();
    assert_eq!(edges, 2);
}
