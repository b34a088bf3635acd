//! What a saved plan keeps, what it refuses, and what it never holds.

use super::*;
use crate::model::{MountOptions, SecretRefs, Secrets, Volume, VolumeId};
use crate::plan::build::build;
use crate::plan::inputs::Inputs;
use crate::plan::rules::MergeRules;
use crate::plan::samples::{bytes, codes, existing, observed, plugin, spec, wanted};
use crate::spec::Purpose;

fn larger() -> WantedRequest {
    let mut request = wanted();
    request.capacity.max = bytes(3000);
    request
}

fn plan(request: WantedRequest, observed: &Observed, requests: &Requests) -> Plan {
    build(Inputs {
        wanted: vec![spec(request)],
        purpose: Purpose::ByExternalId,
        observed,
        rules: MergeRules::NOMAD,
        owned: None,
        requests,
    })
}

fn saved(request: WantedRequest, observed: &Observed) -> SavedPlan {
    let requests = Requests::default();
    let made = plan(request, observed, &requests);
    let origin = Origin {
        id: "7b0c".into(),
        server: "http://127.0.0.1:4646".into(),
        ..Origin::default()
    };
    SavedPlan::of(origin, &made, observed, &requests, &Approvals::default())
}

fn there(volume: Option<Volume>) -> Observed {
    observed(volume, plugin(|_| {}))
}

/// `users` 3.5: each thing that moved is told, per volume.
#[test]
fn what_moved_since_is_left_alone_and_named() {
    let before = there(Some(existing()));
    let saved = saved(larger(), &before);
    let moved = Volume {
        modify_index: 10,
        ..existing()
    };
    let mut other = larger();
    other.capacity.max = bytes(4000);
    let newer = observed(
        Some(existing()),
        plugin(|plugin| plugin.version = "2".into()),
    );
    for (name, request, now, why) in [
        ("nothing", larger(), there(Some(existing())), None),
        (
            "spec",
            other,
            there(Some(existing())),
            Some("its specification has changed"),
        ),
        (
            "index",
            larger(),
            there(Some(moved)),
            Some("it was at index 9, and now it is at 10"),
        ),
        (
            "gone",
            larger(),
            there(None),
            Some("it existed, and now it does not"),
        ),
        (
            "plugin",
            larger(),
            newer,
            Some("its plugin's version was 1, and now it is 2"),
        ),
    ] {
        let mut plan = plan(request, &now, &Requests::default());
        saved.hold_against(&mut plan, &now);
        let planned = &plan.volumes[0];
        match (why, &planned.action) {
            (None, Action::Update(_)) => {}
            (Some(why), Action::Blocked(reasons)) => {
                assert_eq!(reasons[0].code, Code::PlanStale, "{name}");
                assert_eq!(reasons[0].notes, [why], "{name}");
                assert_eq!(planned.stakes, None, "{name}");
            }
            (_, other) => panic!("{name}: {other:?}"),
        }
    }
}

/// terraform#24078: a plan to create is not a plan to overwrite what came meanwhile.
#[test]
fn what_was_absent_and_now_exists_is_left_alone() {
    let saved = saved(larger(), &there(None));
    let now = there(Some(existing()));
    let mut plan = plan(larger(), &now, &Requests::default());
    saved.hold_against(&mut plan, &now);
    assert_eq!(codes(&plan.volumes[0]), [Code::PlanStale.as_str()]);
}

#[test]
fn what_nobody_looked_at_is_left_alone_and_what_nobody_wants_any_more_is_told() {
    let saved = saved(larger(), &there(None));
    let mut stranger = larger();
    stranger.id = VolumeId::new("stranger");
    let now = there(None);
    let mut plan = plan(stranger, &now, &Requests::default());
    saved.hold_against(&mut plan, &now);
    assert_eq!(codes(&plan.volumes[0]), [Code::PlanStale.as_str()]);
    assert_eq!(plan.remarks[0].code, Code::PlanStale);
}

/// Canary: neither the values of secrets nor mount flags are in the file.
#[test]
fn a_saved_plan_holds_no_hidden_value() {
    let mut request = larger();
    request.secrets = Some(SecretRefs::from(&Secrets::from_iter([("key", "canary-1")])));
    request.mount_options = Some(MountOptions {
        fs_type: "ext4".into(),
        mount_flags: vec!["password=canary-2".into()],
    });
    let text = saved(request, &there(Some(existing()))).write();
    assert!(!text.contains("canary"), "{text}");
}

#[test]
fn a_saved_plan_is_read_back_as_it_was_written() {
    let key = existing().key();
    let requests = Requests {
        prune: true,
        replace: [key.clone()].into(),
        snapshot_first: true,
        delete_data: [key.clone()].into(),
        accept_loss: [(HiddenField::MountFlags, key.clone())].into(),
        deny: [DenyRule::Expand].into(),
    };
    let approvals = Approvals {
        max_risk: Some(Risk::NeedsDowntime),
        approved: [(Risk::DestroysData, key)].into(),
    };
    let observed = there(Some(existing()));
    let made = plan(larger(), &observed, &requests);
    let saved = SavedPlan::of(Origin::default(), &made, &observed, &requests, &approvals);
    let read = SavedPlan::read(&saved.write()).expect("it is a plan");
    assert_eq!(read, saved);
    assert_eq!(read.requests(), Ok(requests));
    assert_eq!(read.approvals(), Ok(approvals));
}

#[test]
fn what_is_no_plan_is_refused() {
    let text = saved(larger(), &there(None)).write();
    let later = text.replace("\"format\": 1", "\"format\": 2");
    assert_eq!(SavedPlan::read(&later), Err(SavedPlanProblem::TooNew(2)));
    let strange = text.replace("\"deny\": []", "\"deny\": [\"everything\"]");
    for damaged in ["", "{}", "[]", &text[..text.len() / 2], &strange] {
        let refused = SavedPlan::read(damaged);
        assert!(
            matches!(refused, Err(SavedPlanProblem::Damaged(_))),
            "{damaged}"
        );
    }
}

/// A hash is of what is wanted, in whatever order it was written, and of each field.
#[test]
fn every_field_that_is_not_hidden_is_in_the_hash() {
    let mut reordered = larger();
    reordered.capabilities.reverse();
    assert_eq!(hash(&reordered), hash(&larger()));
    let mut others = vec![larger(), larger(), larger(), larger()];
    others[0].name = Some("other".into());
    others[1].external_id = Some(ExternalId::new("other"));
    others[2].parameters = Some(BTreeMap::new());
    others[3].secrets = Some(SecretRefs::default());
    for other in others {
        assert_ne!(hash(&other), hash(&larger()), "{other:?}");
    }
}
