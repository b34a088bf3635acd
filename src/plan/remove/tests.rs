//! What goes, what stays, and what has to be said for either.

use super::*;
use crate::model::{AllocId, ExternalId, NamespacedId, VolumeId, VolumeSummary};
use crate::plan::build::build;
use crate::plan::holder::Holder;
use crate::plan::inputs::{Observed, Owned, Requests};
use crate::plan::risk::{LastSnapshot, Risk, Undo};
use crate::plan::rules::MergeRules;
use crate::plan::samples::{codes, existing, observed, plugin, spec, wanted};
use crate::spec::Purpose;

struct Case {
    observed: Observed,
    owned: Option<Owned>,
    requests: Requests,
    wanted: Vec<WantedRequest>,
}

fn key() -> NamespacedId {
    existing().key()
}

fn owned(protect: bool) -> Option<Owned> {
    let entry = OwnedVolume {
        protect,
        ..OwnedVolume::default()
    };
    Some(Owned {
        set: "prod".into(),
        volumes: [(key(), entry)].into(),
    })
}

fn case() -> Case {
    Case {
        observed: observed(Some(existing()), plugin(|_| {})),
        owned: None,
        requests: Requests::default(),
        wanted: vec![],
    }
}

impl Case {
    fn plan(self) -> Vec<Planned> {
        build(Inputs {
            wanted: self.wanted.into_iter().map(spec).collect(),
            purpose: Purpose::ByExternalId,
            observed: &self.observed,
            rules: MergeRules::NOMAD,
            owned: self.owned.as_ref(),
            requests: &self.requests,
        })
        .volumes
    }

    fn only(self) -> Planned {
        let mut volumes = self.plan();
        assert_eq!(volumes.len(), 1, "{volumes:?}");
        volumes.remove(0)
    }
}

fn claimed_volume() -> Volume {
    Volume {
        write_allocs: [AllocId::new("a1")].into(),
        ..existing()
    }
}

fn risk(planned: &Planned) -> Risk {
    planned.stakes.as_ref().expect("something is done").risk
}

/// Decision 10 of the architecture, `users` feature 33: nothing goes unless it is owned, unnamed, and
/// somebody said `--prune`; and then its data stays.
#[test]
fn only_what_the_set_owns_and_no_file_names_is_pruned() {
    let prune = Requests {
        prune: true,
        ..Requests::default()
    };
    let pruned = Case {
        owned: owned(false),
        requests: prune.clone(),
        ..case()
    };
    let pruned = pruned.only();
    assert_eq!(pruned.action, Action::Deregister);
    assert_eq!(risk(&pruned), Risk::NeedsDowntime);
    let stakes = pruned.stakes.expect("something is done");
    assert!(!stakes.lost.expect("a registration").data);
    assert_eq!(stakes.undo, Undo::RegisterAgain(ExternalId::new("vol-1")));
    for (name, owned, requests, wanted) in [
        ("nobody asked", owned(false), Requests::default(), vec![]),
        ("no ledger", None, prune.clone(), vec![]),
        ("not owned", Some(Owned::default()), prune.clone(), vec![]),
    ] {
        let kept = Case {
            owned,
            requests,
            wanted,
            ..case()
        };
        assert_eq!(kept.plan(), [], "{name}");
    }
    let named = Case {
        owned: owned(false),
        requests: prune,
        wanted: vec![wanted()],
        ..case()
    };
    assert_eq!(named.only().action, Action::Unchanged);
}

/// What shall go and is gone is done: a repeated run succeeds (`users` 4).
#[test]
fn what_is_gone_already_is_no_change() {
    let requests = Requests {
        prune: true,
        delete_data: [key()].into(),
        ..Requests::default()
    };
    let gone = Case {
        observed: observed(None, plugin(|_| {})),
        owned: owned(true),
        requests,
        ..case()
    };
    let gone = gone.only();
    assert_eq!(gone.warnings[0].code, Code::VolumeNotFound);
    assert_eq!((gone.action, gone.pin), (Action::Unchanged, Pin::Absent));
    assert_eq!(gone.stakes, None);
}

/// `users` feature 34.
#[test]
fn what_is_protected_is_neither_pruned_nor_deleted_nor_replaced() {
    let prune = Requests {
        prune: true,
        ..Requests::default()
    };
    let delete = Requests {
        delete_data: [key()].into(),
        ..Requests::default()
    };
    let replace = Requests {
        replace: [key()].into(),
        ..Requests::default()
    };
    for (requests, wanted) in [(prune, vec![]), (delete, vec![]), (replace, vec![wanted()])] {
        let kept = Case {
            owned: owned(true),
            requests,
            wanted,
            ..case()
        };
        let kept = kept.only();
        assert_eq!(codes(&kept), [Code::PlanProtected.as_str()]);
        assert_eq!(kept.stakes, None);
    }
}

/// Finding 3 of `users`: nothing asks the server to delete what somebody uses.
#[test]
fn a_removal_waits_for_those_who_use_the_volume() {
    let delete = Requests {
        delete_data: [key()].into(),
        ..Requests::default()
    };
    let replace = Requests {
        replace: [key()].into(),
        ..Requests::default()
    };
    for (requests, wanted) in [(delete, vec![]), (replace, vec![wanted()])] {
        let waits = Case {
            observed: observed(Some(claimed_volume()), plugin(|_| {})),
            requests,
            wanted,
            ..case()
        };
        let Action::Waits(wait) = waits.only().action else {
            panic!("it does not wait")
        };
        assert_eq!(wait.holders, Holder::of(&claimed_volume()));
        assert_eq!(wait.reasons[0].code, Code::VolumeInUse);
    }
}

/// nomad#13266: one external volume, registered twice.
#[test]
fn data_that_is_also_anothers_is_not_deleted() {
    let mut there = observed(Some(existing()), plugin(|_| {}));
    let document = serde_json::json!({
        "ID": "alias", "Namespace": "other", "PluginID": "hostpath", "ExternalID": "vol-1",
    });
    let alias = crate::wire::decode_value(&document).expect("a list's entry");
    let alias: VolumeSummary = crate::wire::summary_from_wire(&alias);
    there.registered = vec![alias];
    let shared = Case {
        observed: there,
        requests: Requests {
            delete_data: [key()].into(),
            ..Requests::default()
        },
        ..case()
    };
    assert_eq!(codes(&shared.only()), [Code::VolumeShared.as_str()]);
}

#[test]
fn data_of_a_volume_that_a_file_wants_is_not_deleted() {
    let contradiction = Case {
        requests: Requests {
            delete_data: [key()].into(),
            ..Requests::default()
        },
        wanted: vec![wanted()],
        ..case()
    };
    assert_eq!(
        codes(&contradiction.only()),
        [Code::PlanStillWanted.as_str()]
    );
}

/// Nobody finds out by an empty plan that he mistyped what he wanted to have deleted.
#[test]
fn a_deletion_of_what_does_not_exist_says_so_and_what_may_be_meant() {
    let typed = |namespace: &str, id: &str| {
        NamespacedId::new(crate::model::Namespace::new(namespace), VolumeId::new(id))
    };
    for (asked, registered, help) in [
        (typed("default", "dbb"), "default", "there is a volume db;"),
        (typed("prod", "db"), "default", "`--delete-data default/db`"),
        (typed("default", "web"), "default", "deleted before"),
    ] {
        let document = serde_json::json!({
            "ID": "db", "Namespace": registered, "PluginID": "hostpath", "ExternalID": "vol-1",
        });
        let volume: VolumeSummary = crate::wire::summary_from_wire(
            &crate::wire::decode_value(&document).expect("an entry"),
        );
        let mut there = observed(None, plugin(|_| {}));
        there.registered = vec![volume];
        let missing = Case {
            observed: there,
            requests: Requests {
                delete_data: [asked].into(),
                ..Requests::default()
            },
            ..case()
        };
        let missing = missing.only();
        assert_eq!(missing.action, Action::Unchanged);
        assert!(missing.warnings[0].help[0].contains(help), "{missing:?}");
    }
}

/// `users` 18: the plugin that has the data must be able to let go of it, and to cut the snapshot;
/// which may be another than the one that makes the new volume.
#[test]
fn what_the_old_plugin_cannot_do_is_said_before_anything_goes() {
    type Change = fn(&mut crate::model::Plugin);
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
        let new = crate::model::PluginId::new("another");
        there.plugins.insert(new.clone(), plugin(|_| {}));
        let replaced = Case {
            observed: there.clone(),
            requests: Requests {
                replace: [key()].into(),
                snapshot_first,
                ..Requests::default()
            },
            wanted: vec![WantedRequest {
                plugin_id: new,
                ..wanted()
            }],
            ..case()
        };
        let replaced = replaced.only();
        let expected: Vec<_> = expected.iter().map(|code| code.as_str()).collect();
        if expected.is_empty() {
            assert!(
                matches!(replaced.action, Action::Replace(_)),
                "{replaced:?}"
            );
        } else {
            assert_eq!(codes(&replaced), expected);
        }
        let deleted = Case {
            observed: there,
            requests: Requests {
                delete_data: [key()].into(),
                ..Requests::default()
            },
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

/// `users` 12: replacement has its word, and says in words what it destroys.
#[test]
fn a_replacement_is_two_steps_and_names_what_is_lost() {
    let mut there = observed(Some(existing()), plugin(|_| {}));
    let snapshot = LastSnapshot::Taken {
        id: "snap-1".into(),
        at: 7,
    };
    there.snapshots = [(key(), snapshot.clone())].into();
    let created = Case {
        observed: there.clone(),
        requests: Requests {
            replace: [key()].into(),
            snapshot_first: true,
            ..Requests::default()
        },
        wanted: vec![wanted()],
        ..case()
    };
    let planned = created.only();
    let Action::Replace(replace) = &planned.action else {
        panic!("{planned:?}")
    };
    assert_eq!(replace.steps, ReplaceSteps::DeleteThenCreate);
    assert!(replace.snapshot_first);
    assert_eq!(risk(&planned), Risk::DestroysData);
    let stakes = planned.stakes.expect("something is done");
    let lost = stakes.lost.expect("the data");
    assert!(lost.data);
    assert_eq!(lost.capacity, existing().capacity);
    assert_eq!(lost.last_snapshot, snapshot);
    assert_eq!(stakes.undo, Undo::Restore("snap-1".into()));

    let registered = Case {
        observed: there,
        requests: Requests {
            replace: [key()].into(),
            ..Requests::default()
        },
        wanted: vec![WantedRequest {
            external_id: Some(ExternalId::new("vol-2")),
            ..wanted()
        }],
        ..case()
    };
    let planned = registered.only();
    let Action::Replace(replace) = &planned.action else {
        panic!("{planned:?}")
    };
    assert_eq!(replace.steps, ReplaceSteps::DeregisterThenRegister);
    assert_eq!(risk(&planned), Risk::NeedsDowntime);
}

/// A source is there before its copy is made, and goes after it.
#[test]
fn copies_are_made_after_their_source_appears_and_before_it_goes() {
    let copy = WantedRequest {
        id: VolumeId::new("copy"),
        clone_id: Some("vol-1".into()),
        ..wanted()
    };
    let source = WantedRequest {
        id: VolumeId::new("source"),
        external_id: Some(ExternalId::new("vol-1")),
        ..wanted()
    };
    let appears = Case {
        observed: observed(None, plugin(|_| {})),
        wanted: vec![copy.clone(), source],
        ..case()
    };
    let plan = appears.plan();
    assert_eq!(plan[0].depends_on, [1]);
    assert_eq!(plan[1].depends_on, [0_usize; 0]);

    let goes = Case {
        requests: Requests {
            delete_data: [key()].into(),
            ..Requests::default()
        },
        wanted: vec![copy],
        ..case()
    };
    let plan = goes.plan();
    assert_eq!(plan[0].depends_on, [0_usize; 0]);
    assert_eq!(plan[1].action, Action::DeleteData);
    assert_eq!(plan[1].depends_on, [0]);
}

/// Two volumes that want to be filled from each other cannot both be; the order has an end anyway.
#[test]
fn an_order_has_no_cycle() {
    let of = |id: &str, from: &str| WantedRequest {
        id: VolumeId::new(id),
        name: Some(id.into()),
        clone_id: Some(from.into()),
        ..wanted()
    };
    let circle = Case {
        observed: observed(None, plugin(|_| {})),
        wanted: vec![of("a", "c"), of("b", "a"), of("c", "b")],
        ..case()
    };
    let edges: usize = circle.plan().iter().map(|one| one.depends_on.len()).sum();
    assert_eq!(edges, 2);
}
