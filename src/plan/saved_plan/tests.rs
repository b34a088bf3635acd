//! Saved plans: what they contain and what they block.

use super::*;
use crate::action::ClaimWait;
use crate::build::build_plan;
use crate::inputs::PlanInputs;
use crate::policy::Policy;
use crate::rules::MergeRules;
use crate::samples::{bytes, codes, complete_request, desired, existing, observed, plugin, spec};
use nomad_csi_model::{MountOptions, SecretRefs, Secrets, Volume, VolumeId};
use nomad_csi_spec::Purpose;
use serde_json::json;

fn larger() -> UnresolvedRequest {
    let mut request = desired();
    request.capacity.max = bytes(3000);
    request
}

fn plan(request: UnresolvedRequest, observed: &ObservedState, options: &PlanOptions) -> Plan {
    build_plan(PlanInputs {
        desired: vec![spec(request)],
        purpose: Purpose::ByExternalId,
        observed,
        rules: MergeRules::NOMAD,
        owned: None,
        options,
    })
}

fn saved(request: UnresolvedRequest, observed: &ObservedState) -> SavedPlan {
    let options = PlanOptions::default();
    let made = plan(request, observed, &options);
    let origin = PlanOrigin {
        id: "7b0c".into(),
        server: "http://127.0.0.1:4646".into(),
        ..PlanOrigin::default()
    };
    SavedPlan::of(origin, &made, observed, &options, &Approvals::default())
}

fn there(volume: Option<Volume>) -> ObservedState {
    observed(volume, plugin(|_| {}))
}

/// Every difference of a volume is reported.
#[test]
fn changed_entries_are_blocked_with_their_differences() {
    let before = there(Some(existing()));
    let saved = saved(larger(), &before);
    let moved = Volume { spec_index: 10, ..existing() };
    let mut other = larger();
    other.capacity.max = bytes(4000);
    let newer = observed(Some(existing()), plugin(|plugin| plugin.version = "2".into()));
    for (name, request, now, why) in [
        ("nothing", larger(), there(Some(existing())), None),
        ("spec", other, there(Some(existing())), Some("its specification has changed")),
        ("index", larger(), there(Some(moved)), Some("it was at index 9 and is now at index 10")),
        ("gone", larger(), there(None), Some("it no longer exists")),
        ("plugin", larger(), newer, Some("its plugin's version was 1 and is now 2")),
    ] {
        let mut plan = plan(request, &now, &PlanOptions::default());
        saved.block_changed_entries(&mut plan, &now);
        let planned = &plan.volumes[0];
        match (why, &planned.action) {
            (None, Action::Update(_)) => {}
            (Some(why), Action::Blocked(reasons)) => {
                assert_eq!(reasons[0].code, Code::PlanStale, "{name}");
                assert_eq!(reasons[0].notes, [why], "{name}");
                assert_eq!(planned.impact, None, "{name}");
            }
            (_, other) => panic!("{name}: {other:?}"),
        }
    }
}

/// A plan to create must not overwrite a volume that appeared since (terraform#24078).
#[test]
fn a_volume_that_appeared_since_is_blocked() {
    let saved = saved(larger(), &there(None));
    let now = there(Some(existing()));
    let mut plan = plan(larger(), &now, &PlanOptions::default());
    saved.block_changed_entries(&mut plan, &now);
    assert_eq!(codes(&plan.volumes[0]), [Code::PlanStale.as_str()]);
}

#[test]
fn new_entries_are_blocked_and_missing_ones_reported() {
    let saved = saved(larger(), &there(None));
    let mut stranger = larger();
    stranger.id = VolumeId::new("stranger");
    let now = there(None);
    let mut plan = plan(stranger, &now, &PlanOptions::default());
    saved.block_changed_entries(&mut plan, &now);
    assert_eq!(codes(&plan.volumes[0]), [Code::PlanStale.as_str()]);
    // It was reviewed, and a forgotten variable must not drop it without an error.
    assert_eq!(plan.volumes[1].key, larger().key());
    assert_eq!(codes(&plan.volumes[1]), [Code::PlanStale.as_str()]);
    assert_eq!(plan.remarks, []);
}

/// A repeated run finds a removal done.
#[test]
fn a_removal_that_is_not_needed_any_more_is_a_remark() {
    let mut saved = saved(larger(), &there(None));
    saved.volumes[0].spec = None;
    let now = there(None);
    let mut stranger = larger();
    stranger.id = VolumeId::new("stranger");
    let mut plan = plan(stranger, &now, &PlanOptions::default());
    saved.block_changed_entries(&mut plan, &now);
    assert_eq!(plan.volumes.len(), 1);
    assert_eq!(plan.remarks[0].code, Code::PlanStale);
}

#[test]
fn a_saved_plan_contains_no_hidden_value() {
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
fn a_saved_plan_is_read_back() {
    let key = existing().key();
    let options = PlanOptions {
        prune: true,
        replace: [key.clone()].into(),
        snapshot_first: true,
        delete_data: [key.clone()].into(),
        accept_loss: [(HiddenField::MountFlags, key.clone())].into(),
        share: [key.clone()].into(),
        deny: [DenyRule::Expand].into(),
        policies: Policies::default(),
        plugin_snapshots: crate::plugin_snapshots::PluginSnapshots::default(),
        no_provider: true,
        declared_elsewhere: Arc::default(),
    };
    let approvals = Approvals {
        max_risk: Some(Risk::NeedsDowntime),
        approved: [(Risk::DestroysData, key)].into(),
        cut_off: ["a1"].into_iter().collect(),
    };
    let observed = there(Some(existing()));
    let made = plan(larger(), &observed, &options);
    let saved = SavedPlan::of(PlanOrigin::default(), &made, &observed, &options, &approvals);
    let read = SavedPlan::read(&saved.write()).expect("it is a plan");
    assert_eq!(read, saved);
    assert_eq!(read.options(), Ok(options));
    assert_eq!(read.approvals(), Ok(approvals));
}

/// Programs before 0.1 wrote `waits` for the action `wait`.
#[test]
fn the_earlier_name_of_a_waiting_volume_is_read() {
    let mut plan = plan(larger(), &there(Some(existing())), &PlanOptions::default());
    plan.volumes[0].action =
        Action::WaitingForClaims(ClaimWait { reasons: vec![], claims: vec![] });
    let observed = there(Some(existing()));
    let origin = PlanOrigin::default();
    let (options, approvals) = (PlanOptions::default(), Approvals::default());
    let saved = SavedPlan::of(origin, &plan, &observed, &options, &approvals);
    let text = saved.write();
    let earlier = text.replace("\"action\": \"wait\"", "\"action\": \"waits\"");
    assert_ne!(earlier, text);
    assert_eq!(SavedPlan::read(&earlier), Ok(saved));
}

#[test]
fn invalid_and_newer_files_are_refused() {
    let text = saved(larger(), &there(None)).write();
    let later = text.replace("\"format\": 1", "\"format\": 3");
    assert_eq!(SavedPlan::read(&later), Err(SavedPlanProblem::TooNew(3)));
    let strange = text.replace("\"deny\": []", "\"deny\": [\"everything\"]");
    for damaged in ["", "{}", "[]", &text[..text.len() / 2], &strange] {
        let refused = SavedPlan::read(damaged);
        assert!(matches!(refused, Err(SavedPlanProblem::Damaged(_))), "{damaged}");
    }
}

/// The hash covers every field and ignores the order.
#[test]
fn the_hash_covers_every_visible_field() {
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

/// The hash of a saved plan is that of these bytes, in every version.
#[test]
fn the_hashed_form_of_a_request_never_changes() {
    let capability =
        |mode: &str| format!(r#"{{"access_mode":"{mode}","attachment_mode":"file-system"}}"#);
    let (writer, readers) =
        (capability("single-node-writer"), capability("multi-node-reader-only"));
    let zones = |zones: [&str; 2]| {
        zones.map(|zone| format!(r#"{{"segments":{{"zone":"{zone}"}}}}"#)).join(",")
    };
    let (required, preferred) = (zones(["b", "a"]), zones(["d", "c"]));
    let stored = [
        r#"{"namespace":"default","id":"db","name":"database","external_id":"vol-1","#.to_owned(),
        format!(r#""plugin_id":"hostpath","capabilities":[{writer},{readers}],"#),
        r#""capacity_min":1000,"capacity_max":2000,"#.to_owned(),
        format!(r#""topology_request":{{"required":[{required}],"preferred":[{preferred}]}},"#),
        r#""clone_id":"vol-0","snapshot_id":"snap-0","fs_type":"ext4","mount_flags":2,"#.to_owned(),
        r#""secrets":["password","user"],"parameters":{"a":"1","b":"parameter"},"#.to_owned(),
        r#""context":{"a":"1","b":"context"}}"#.to_owned(),
    ];
    let request = complete_request().to_unresolved();
    let text = serde_json::to_string(&CanonicalRequest::of(&request)).unwrap();
    assert_eq!(text, stored.concat());
}

#[test]
fn a_field_without_a_place_is_hashed_if_it_is_given() {
    let placed: Vec<_> = PLACED.into_iter().filter(|field| *field != VolumeField::Name).collect();
    let given = larger();
    let omitted = UnresolvedRequest { name: None, ..larger() };
    let text = |request| serde_json::to_string(&others(request, &placed)).unwrap();
    assert_eq!([text(&given), text(&omitted)], [r#"{"name":"database"}"#, "{}"]);
}

#[test]
fn only_a_plan_with_variables_has_the_second_format() {
    let observed = there(Some(existing()));
    let plain = saved(larger(), &observed);
    assert!(plain.write().starts_with("{\n  \"format\": 1,"), "{}", plain.write());
    let made = plan(larger(), &observed, &PlanOptions::default());
    let variables =
        [("none", None), ("null", Some(json!(null))), ("map", Some(json!({"a": [1.5]})))].map(
            |(name, value)| SavedVariable { name: name.into(), value, from: "`--var`".into() },
        );
    let origin = PlanOrigin { variables: variables.to_vec(), ..PlanOrigin::default() };
    let (options, approvals) = (PlanOptions::default(), Approvals::default());
    let written = SavedPlan::of(origin.clone(), &made, &observed, &options, &approvals).write();
    assert!(written.starts_with("{\n  \"format\": 2,"), "{written}");
    assert_eq!(SavedPlan::read(&written).unwrap().origin(), &origin);
    let newer = written.replacen("\"format\": 2", "\"format\": 3", 1);
    assert_eq!(SavedPlan::read(&newer), Err(SavedPlanProblem::TooNew(3)));
}

fn expanded() -> UnresolvedRequest {
    let mut request = desired();
    request.capacity.min = bytes(1500);
    request
}

/// The options of a command with a policy.
fn without_expansions() -> PlanOptions {
    let policy = Policy {
        file: "ci.policy.toml".to_owned(),
        deny: [DenyRule::Expand].into(),
        max_risk: None,
    };
    PlanOptions { policies: [policy].into_iter().collect(), ..PlanOptions::default() }
}

/// A new plan would be refused too, so the reason is not that this one is out of date.
#[test]
fn a_change_that_a_policy_forbids_since_the_plan_names_the_policy() {
    let observed = there(Some(existing()));
    let saved = saved(expanded(), &observed);
    let options = without_expansions();
    let mut now = plan(expanded(), &observed, &options);
    saved.block_changed_entries(&mut now, &observed);
    let reasons = now.volumes[0].action.reasons();
    let messages: Vec<&str> = reasons.iter().map(|reason| reason.message.as_str()).collect();
    assert_eq!(
        messages,
        [
            "cannot change volume `db`: the change would expand it (forbidden by policy `ci.policy.toml`, key `deny`)"
        ]
    );
}

/// A policy that is left out allows nothing that the plan did not have.
#[test]
fn a_change_that_was_forbidden_when_the_plan_was_made_is_not_made() {
    let observed = there(Some(existing()));
    let options = without_expansions();
    let made = plan(expanded(), &observed, &options);
    let origin = PlanOrigin::default();
    let saved = SavedPlan::of(origin, &made, &observed, &options, &Approvals::default());
    let mut now = plan(expanded(), &observed, &saved.options().expect("known options"));
    assert!(now.volumes[0].action.reasons().is_empty());
    saved.block_changed_entries(&mut now, &observed);
    assert_eq!(now.volumes[0].action.reasons()[0].code, Code::PlanStale);
}
