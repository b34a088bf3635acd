//! The rules of each Nomad version, and their effect on a plan.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::action::{Action, PlannedVolume};
use crate::build::build_plan;
use crate::inputs::{PlanInputs, PlanOptions};
use crate::merge::{Expansion, merge};
use crate::samples::{
    against, bytes, codes, desired, existing, inputs, observed, one, places, plugin, sent, spec,
};
use nomad_csi_model::{AllocId, Bytes, CapacityRange, MountOptions, PluginId, TopologyRequest};
use nomad_csi_spec::Purpose;

fn version(text: &str) -> ServerVersion {
    ServerVersion::parse(text).expect("a version")
}

fn of(text: &str) -> MergeRules {
    MergeRules::of_nomad(&version(text))
}

/// Covers the releases that changed a rule and those immediately before.
#[test]
fn each_version_has_its_rules() {
    use OmittedMap::{Clear, Keep};
    use UpdateRule::{FieldByField, Overwrite, WhileUnused};
    for (release, update, context, unreported) in [
        ("1.1.0", Overwrite, Clear, 7),
        ("1.1.12", Overwrite, Clear, 7),
        ("1.1.13", Overwrite, Clear, 2),
        ("1.2.6", Overwrite, Clear, 7),
        ("1.2.7", Overwrite, Clear, 2),
        ("1.3.0", WhileUnused, Clear, 0),
        ("1.6.2+ent", WhileUnused, Clear, 0),
        ("1.6.3", FieldByField, Clear, 0),
        ("1.7.17", FieldByField, Clear, 0),
        ("1.7.18", FieldByField, Keep, 0),
        ("1.8.9", FieldByField, Clear, 0),
        ("1.8.10", FieldByField, Keep, 0),
        ("1.9.5", FieldByField, Clear, 0),
        ("1.9.6", FieldByField, Keep, 0),
        ("1.10.0-beta.1", FieldByField, Keep, 0),
        ("2.0.5", FieldByField, Keep, 0),
    ] {
        let rules = of(release);
        assert_eq!(rules.update, update, "{release}");
        assert_eq!(rules.omitted_context, context, "{release}");
        assert_eq!(rules.omitted_secrets, Clear, "{release}");
        assert_eq!(rules.unreported.fields().len(), unreported, "{release}");
    }
    assert_eq!(of("2.0.5"), MergeRules::NOMAD);
}

#[test]
fn an_unknown_version_has_the_strictest_rules_and_causes_a_warning() {
    let oldest = MergeRules { creates: CreateRule::MaybeWithMaximum, ..of("1.3.0") };
    assert_eq!(MergeRules::STRICTEST, oldest);
    let remark = server_version_warning(None).expect("the version causes a warning");
    assert_eq!(remark.code, Code::PlanUnknownVersion);
    assert_eq!(server_version_warning(Some(&version("2.0.5"))), None);
    let remark =
        server_version_warning(Some(&version("1.2.3"))).expect("the version causes a warning");
    assert_eq!(remark.code, Code::PlanUnseenField);
    assert!(remark.message.contains("capability"), "{}", remark.message);
}

fn texts(volume: &Volume, update: &UnresolvedRequest, rules: MergeRules) -> Vec<String> {
    let refusals = merge(volume, update, rules).expect_err("it is refused");
    refusals.into_iter().map(|refusal| refusal.text).collect()
}

fn claimed() -> Volume {
    Volume { write_allocs: [AllocId::new("a1")].into(), ..existing() }
}

/// Returns an update with the stored topology request in its order, to exclude other refusals.
fn again() -> UnresolvedRequest {
    UnresolvedRequest {
        topology_request: existing().topology_request,
        mount_options: Some(MountOptions::default()),
        capacity: CapacityRange { min: bytes(1000), max: bytes(2000) },
        ..desired()
    }
}

/// The additional refusals of Nomad 1.3 to 1.6.2, with their exact text.
#[test]
fn before_1_6_3_nothing_in_use_changes_and_sizes_enclose_what_there_is() {
    let rules = of("1.6.2");
    let range = |min, max| UnresolvedRequest {
        capacity: CapacityRange { min: bytes(min), max: bytes(max) },
        ..again()
    };
    let enclose = "volume requested capacity update was not compatible with existing capacity";
    for (min, max, refused) in [
        (1000, 2000, false),
        (500, 1000, false),
        (0, 0, true),
        (1500, 2000, true),
        (500, 999, true),
    ] {
        let merged = merge(&existing(), &range(min, max), rules);
        assert_eq!(merged.is_err(), refused, "{min} {max}");
        if refused {
            assert_eq!(texts(&existing(), &range(min, max), rules), [enclose]);
        }
    }
    let in_use = texts(&claimed(), &again(), rules);
    assert_eq!(in_use, ["volume cannot be updated while in use"]);
    let unsized_volume = Volume { capacity: Bytes::default(), ..existing() };
    let merged = merge(&unsized_volume, &range(7, 9), rules).expect("it is merged");
    let recorded = merged.volume.requested_capacity;
    assert_eq!(recorded, unsized_volume.requested_capacity);
    assert_eq!(merged.expansion, Expansion::None);
}

/// Nomad 1.3.16 returned these: the size among the other reasons, never the mount options, and the use
/// only if there is no other reason.
#[test]
fn before_1_6_3_reasons_stand_in_the_order_of_that_time() {
    let other_options = Some(MountOptions { fs_type: "xfs".into(), mount_flags: vec![] });
    let several = UnresolvedRequest {
        name: Some("other".into()),
        capacity: CapacityRange::default(),
        topology_request: None,
        mount_options: other_options.clone(),
        parameters: Some([("type".to_owned(), "other".to_owned())].into()),
        ..again()
    };
    let remounted = UnresolvedRequest { mount_options: other_options, ..again() };
    let all = [
        "volume name cannot be updated",
        "volume requested capacity update was not compatible with existing capacity",
        "volume topology request update was not compatible with existing topology",
        "volume parameters cannot be updated",
    ];
    assert_eq!(texts(&claimed(), &several, of("1.6.2")), all);
    for (release, text) in [
        ("1.3.0", "volume cannot be updated while in use"),
        ("1.6.2", "volume cannot be updated while in use"),
        ("1.6.3", "can not update mount options while volume is in use"),
    ] {
        assert_eq!(texts(&claimed(), &remounted, of(release)), [text], "{release}");
    }
}

/// The refusals and losses of Nomad 1.1 and 1.2.
#[test]
fn before_1_3_an_update_takes_the_volumes_place() {
    let rules = of("1.2.16");
    let same = UnresolvedRequest { external_id: existing().external_id, ..again() };
    for (volume, update) in [
        (existing(), again()),
        (claimed(), same.clone()),
        (existing(), UnresolvedRequest { plugin_id: PluginId::new("other"), ..same.clone() }),
    ] {
        assert_eq!(texts(&volume, &update, rules), ["volume exists: db"]);
    }
    let stored =
        Volume { parameters: [("type".to_owned(), "gp3".to_owned())].into(), ..existing() };
    let merged = merge(&stored, &same, rules).expect("it is merged");
    assert!(merged.volume.parameters.is_empty());
    assert!(!stored.capacity.is_zero() && merged.volume.capacity.is_zero());
}

/// Nomad 1.1.18 accepts a new name, new parameters and a larger size, and changes only its record. The
/// plan shows the change and warns.
#[test]
fn before_1_3_a_change_of_the_record_only_causes_a_warning() {
    let mut request = desired();
    request.name = Some("other".into());
    request.parameters = Some([("type".to_owned(), "io2".to_owned())].into());
    request.capacity.min = bytes(1500);
    let planned = against(request, existing(), of("1.2.16"));
    let Action::Update(update) = &planned.action else { panic!("{planned:?}") };
    let fields: Vec<_> = update.changes.iter().map(|change| change.field).collect();
    assert_eq!(fields, ["name", "capacity_min", "parameters"]);
    let warning = &planned.warnings[0];
    assert_eq!(warning.code, Code::PlanIgnoredField);
    let all = "the new name, capacity_min, parameters of volume `db`";
    assert!(warning.message.contains(all), "{}", warning.message);
    let planned = against(desired(), existing(), of("1.2.16"));
    let ignored = |warning: &Diagnostic| warning.code == Code::PlanIgnoredField;
    assert!(!planned.warnings.iter().any(ignored), "{planned:?}");
}

/// Nomad 1.1.18 and 1.3.16 refuse a create with only a minimum size, and 1.6.10 does not. So no volume is
/// deleted for such a replacement, also on a server of unknown version, where a create is still tried.
#[test]
fn before_1_6_3_nothing_is_created_without_a_largest_size() {
    let range = |min, max| UnresolvedRequest {
        capacity: CapacityRange { min: bytes(min), max: bytes(max) },
        ..desired()
    };
    let empty = observed(None, plugin(|_| {}));
    for (rules, min, max, refused) in [
        (of("1.1.0"), 1000, 0, true),
        (of("1.6.2"), 1000, 0, true),
        (of("1.6.2"), 1000, 1000, false),
        (of("1.6.2"), 0, 1000, false),
        (of("1.6.2"), 0, 0, false),
        (of("1.6.3"), 1000, 0, false),
        (MergeRules::STRICTEST, 1000, 0, false),
        (MergeRules::AGENT, 1000, 0, false),
    ] {
        let planned = one(range(min, max), &empty, rules, Purpose::Create);
        if refused {
            assert_eq!(codes(&planned), ["volume/capacity"], "{rules:?} {min} {max}");
        } else {
            let is_create = matches!(planned.action, Action::Create(_));
            assert!(is_create, "{rules:?} {min} {max}: {planned:?}");
        }
    }
    let there = observed(Some(existing()), plugin(|_| {}));
    let options = PlanOptions { replace: [existing().key()].into(), ..PlanOptions::default() };
    for (rules, refused) in
        [(of("1.6.2"), true), (of("1.6.3"), false), (MergeRules::STRICTEST, true)]
    {
        let desired = vec![spec(range(1000, 0))];
        let inputs =
            PlanInputs { options: &options, ..inputs(desired, &there, rules, Purpose::Create) };
        let planned = build_plan(inputs).volumes.remove(0);
        let is_blocked = matches!(planned.action, Action::Blocked(_));
        assert_eq!(is_blocked, refused, "{rules:?}: {planned:?}");
    }
}

/// The help for a refused size depends on the version: before 1.6.3 a missing `capacity_max` is refused.
#[test]
fn the_help_for_a_refused_size_matches_the_version() {
    let mut request = desired();
    request.capacity.max = bytes(500);
    request.capacity.min = Bytes::default();
    for (release, help) in
        [("1.6.2", "enclose the current size"), ("1.6.3", "raise `capacity_max`")]
    {
        let planned = against(request.clone(), existing(), of(release));
        let Action::Blocked(reasons) = &planned.action else { panic!("{release}: {planned:?}") };
        assert!(reasons[0].help[0].contains(help), "{release}: {reasons:?}");
    }
}

#[test]
fn fields_that_an_old_server_would_clear_are_resent() {
    let context = || [("attach".to_owned(), "iscsi".to_owned())].into();
    let stored = Volume {
        context: context(),
        parameters: [("type".to_owned(), "gp3".to_owned())].into(),
        ..existing()
    };
    let mut request = desired();
    request.mount_options = Some(MountOptions { fs_type: "xfs".into(), mount_flags: vec![] });
    for (release, again) in
        [("1.2.16", vec!["context", "parameters"]), ("1.9.5", vec!["context"]), ("1.9.6", vec![])]
    {
        let mut request = request.clone();
        if release == "1.2.16" {
            // Mount options are not shown there, so another field must differ.
            request.capabilities = vec![request.capabilities[0]];
        }
        let planned = against(request, stored.clone(), of(release));
        let Action::Update(update) = &planned.action else { panic!("{release}: {planned:?}") };
        assert_eq!(update.resent_fields, again, "{release}");
        let is_sent = sent(&planned).context == Some(context());
        assert_eq!(is_sent, again.contains(&"context"), "{release}");
    }
}

/// An old server refuses even an update without changes, so a plan never sends one.
#[test]
fn an_unchanged_volume_is_unchanged_on_every_server() {
    let mut request = desired();
    request.capacity.max = Bytes::default();
    let mut stored = claimed();
    stored.requested_capacity.max = Bytes::default();
    for release in ["1.2.16", "1.3.0", "1.6.3", "1.9.5", "2.0.5"] {
        let planned = against(request.clone(), stored.clone(), of(release));
        assert_eq!(planned.action, Action::Unchanged, "{release}");
    }
}

#[test]
fn a_volume_in_use_waits_on_an_old_server() {
    let mut request = desired();
    request.capabilities = vec![request.capabilities[0]];
    let planned = against(request.clone(), claimed(), of("1.6.2"));
    assert!(matches!(planned.action, Action::WaitingForClaims(_)), "{planned:?}");
    request.name = Some("other".into());
    let planned = against(request, claimed(), of("1.6.2"));
    assert_eq!(codes(&planned), ["volume/immutable-field"]);
}

fn sizes() -> impl Strategy<Value = CapacityRange> {
    let size = || select(vec![0, 500, 1000, 1500, 3000]);
    (size(), size()).prop_map(|(min, max)| CapacityRange { min: bytes(min), max: bytes(max) })
}

fn options() -> impl Strategy<Value = Option<MountOptions>> {
    let of = |fs_type: &str, flags: &[&str]| {
        Some(MountOptions {
            fs_type: fs_type.into(),
            mount_flags: flags.iter().map(ToString::to_string).collect(),
        })
    };
    select(vec![None, of("", &[]), of("ext4", &[]), of("ext4", &["ro"])])
}

fn maps() -> impl Strategy<Value = Option<BTreeMap<String, String>>> {
    let of = |value: &str| Some([("key".to_owned(), value.to_owned())].into());
    select(vec![None, Some(BTreeMap::new()), of("a"), of("b")])
}

fn topologies() -> impl Strategy<Value = Option<TopologyRequest>> {
    let nothing = Some(TopologyRequest::default());
    select(vec![None, nothing, places(&["a", "b"]), places(&["b", "a"]), places(&["c"])])
}

prop_compose! {
    fn requests()(
        capacity in sizes(), mount_options in options(), parameters in maps(), context in maps(),
        topology_request in topologies(), reversed in any::<bool>(), fewer in any::<bool>(),
        said_name in any::<bool>(),
    ) -> UnresolvedRequest {
        let mut request = UnresolvedRequest {
            capacity, mount_options, parameters, context, topology_request, ..desired()
        };
        if reversed {
            request.capabilities.reverse();
        }
        if fewer {
            request.capabilities.truncate(1);
        }
        if !said_name {
            request.name = None;
        }
        request
    }
}

prop_compose! {
    fn volumes()(
        requested_capacity in sizes(), capacity in select(vec![0, 1000]), mount_options in options(),
        parameters in maps(), context in maps(), topology_request in topologies(),
        placed in any::<bool>(), claimed in any::<bool>(),
    ) -> Volume {
        let volume = existing();
        Volume {
            requested_capacity,
            capacity: bytes(capacity),
            mount_options: mount_options.map(|options| options.redacted()),
            parameters: parameters.unwrap_or_default(),
            context: context.unwrap_or_default(),
            topology_request,
            topologies: if placed { volume.topologies.clone() } else { vec![] },
            write_allocs: claimed.then(|| AllocId::new("a1")).into_iter().collect(),
            ..volume
        }
    }
}

/// Returns the volume as the server shows it after the update.
fn after(volume: &Volume, planned: &PlannedVolume, rules: MergeRules) -> Option<Volume> {
    let (Action::Update(update) | Action::Expand(update)) = &planned.action else {
        return None;
    };
    let merged =
        merge(volume, &update.request, rules).expect("the server accepts a planned update");
    let mut volume = merged.volume;
    if let Expansion::Needed { to } = merged.expansion {
        volume.capacity = to.min;
    }
    volume.mount_options = volume.mount_options.map(|options| options.redacted());
    Some(volume)
}

proptest! {
    /// Under every rule set, the plan after an update is empty, and the rules of a plan never refuse its
    /// requests.
    #[test]
    fn the_plan_after_an_update_is_unchanged(
        request in requests(),
        volume in volumes(),
        rules in select(vec![
            MergeRules::NOMAD, MergeRules::AGENT, MergeRules::STRICTEST, of("1.9.5"), of("1.2.16"),
        ]),
    ) {
        let planned = against(request.clone(), volume.clone(), rules);
        if let Some(after) = after(&volume, &planned, rules) {
            let again = against(request, after, rules);
            prop_assert_eq!(&again.action, &Action::Unchanged, "after {:?}", planned);
        }
    }
}
