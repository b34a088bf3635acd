//! Which version merges how, and what follows for a plan (`nomad-http-api` 8, `users` table 1b).

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::model::{AllocId, Bytes, CapacityRange, MountOptions, PluginId, TopologyRequest};
use crate::plan::action::{Action, Planned};
use crate::plan::build::build;
use crate::plan::inputs::{Inputs, Requests};
use crate::plan::merge::{Expansion, merge};
use crate::plan::samples::{
    against, bytes, codes, existing, inputs, observed, one, places, plugin, sent, spec, wanted,
};
use crate::spec::Purpose;

fn version(text: &str) -> ServerVersion {
    ServerVersion::parse(text).expect("a version")
}

fn of(text: &str) -> MergeRules {
    MergeRules::of_nomad(&version(text))
}

/// 8.1 and 8.3: the releases at which something changed, and those right before them.
#[test]
fn each_version_has_its_rules() {
    use OmittedMap::{Keep, Wipe};
    use UpdateRule::{FieldByField, Overwrite, WhileUnused};
    for (release, update, context, unseen) in [
        ("1.1.0", Overwrite, Wipe, 7),
        ("1.1.12", Overwrite, Wipe, 7),
        ("1.1.13", Overwrite, Wipe, 2),
        ("1.2.6", Overwrite, Wipe, 7),
        ("1.2.7", Overwrite, Wipe, 2),
        ("1.3.0", WhileUnused, Wipe, 0),
        ("1.6.2+ent", WhileUnused, Wipe, 0),
        ("1.6.3", FieldByField, Wipe, 0),
        ("1.7.17", FieldByField, Wipe, 0),
        ("1.7.18", FieldByField, Keep, 0),
        ("1.8.9", FieldByField, Wipe, 0),
        ("1.8.10", FieldByField, Keep, 0),
        ("1.9.5", FieldByField, Wipe, 0),
        ("1.9.6", FieldByField, Keep, 0),
        ("1.10.0-beta.1", FieldByField, Keep, 0),
        ("2.0.5", FieldByField, Keep, 0),
    ] {
        let rules = of(release);
        assert_eq!(rules.update, update, "{release}");
        assert_eq!(rules.omitted_context, context, "{release}");
        assert_eq!(rules.omitted_secrets, Wipe, "{release}");
        assert_eq!(rules.unseen.fields().len(), unseen, "{release}");
    }
    assert_eq!(of("2.0.5"), MergeRules::NOMAD);
}

/// The strictest rules hold wherever nobody knows better, and somebody says so.
#[test]
fn a_server_that_does_not_say_its_version_is_the_strictest_and_that_is_told() {
    let oldest = MergeRules {
        creates: CreateRule::PerhapsWithMaximum,
        ..of("1.3.0")
    };
    assert_eq!(MergeRules::STRICTEST, oldest);
    let remark = rules_remark(None).expect("it is told");
    assert_eq!(remark.code, Code::PlanUnknownVersion);
    assert_eq!(rules_remark(Some(&version("2.0.5"))), None);
    let remark = rules_remark(Some(&version("1.2.3"))).expect("it is told");
    assert_eq!(remark.code, Code::PlanUnseenField);
    assert!(remark.message.contains("capability"), "{}", remark.message);
}

fn texts(volume: &Volume, update: &WantedRequest, rules: MergeRules) -> Vec<String> {
    let refusals = merge(volume, update, rules).expect_err("it is refused");
    refusals.into_iter().map(|refusal| refusal.text).collect()
}

fn claimed() -> Volume {
    Volume {
        write_allocs: [AllocId::new("a1")].into(),
        ..existing()
    }
}

/// The stored topology request, in its order, so that nothing else is in the way.
fn again() -> WantedRequest {
    WantedRequest {
        topology_request: existing().topology_request,
        mount_options: Some(MountOptions::default()),
        capacity: CapacityRange {
            min: bytes(1000),
            max: bytes(2000),
        },
        ..wanted()
    }
}

/// 8.3: what Nomad 1.3 to 1.6.2 refuses beyond later versions, in its own words.
#[test]
fn before_1_6_3_nothing_in_use_changes_and_sizes_enclose_what_there_is() {
    let rules = of("1.6.2");
    let range = |min, max| WantedRequest {
        capacity: CapacityRange {
            min: bytes(min),
            max: bytes(max),
        },
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
    let unsized_volume = Volume {
        capacity: Bytes::default(),
        ..existing()
    };
    let merged = merge(&unsized_volume, &range(7, 9), rules).expect("it is merged");
    let recorded = merged.volume.requested_capacity;
    assert_eq!(recorded, unsized_volume.requested_capacity);
    assert_eq!(merged.expansion, Expansion::None);
}

/// As Nomad 1.3.16 answered: the size has its place among the reasons, mount options have none, and
/// that the volume is in use is said where nothing else is.
#[test]
fn before_1_6_3_reasons_stand_in_the_order_of_that_time() {
    let other_options = Some(MountOptions {
        fs_type: "xfs".into(),
        mount_flags: vec![],
    });
    let several = WantedRequest {
        name: Some("other".into()),
        capacity: CapacityRange::default(),
        topology_request: None,
        mount_options: other_options.clone(),
        parameters: Some([("type".to_owned(), "other".to_owned())].into()),
        ..again()
    };
    let remounted = WantedRequest {
        mount_options: other_options,
        ..again()
    };
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
        (
            "1.6.3",
            "can not update mount options while volume is in use",
        ),
    ] {
        assert_eq!(
            texts(&claimed(), &remounted, of(release)),
            [text],
            "{release}"
        );
    }
}

/// 8.3: what Nomad 1.1 and 1.2 refuses and loses.
#[test]
fn before_1_3_an_update_takes_the_volumes_place() {
    let rules = of("1.2.16");
    let same = WantedRequest {
        external_id: existing().external_id,
        ..again()
    };
    for (volume, update) in [
        (existing(), again()),
        (claimed(), same.clone()),
        (
            existing(),
            WantedRequest {
                plugin_id: PluginId::new("other"),
                ..same.clone()
            },
        ),
    ] {
        assert_eq!(texts(&volume, &update, rules), ["volume exists: db"]);
    }
    let stored = Volume {
        parameters: [("type".to_owned(), "gp3".to_owned())].into(),
        ..existing()
    };
    let merged = merge(&stored, &same, rules).expect("it is merged");
    assert!(merged.volume.parameters.is_empty());
    assert!(!stored.capacity.is_zero() && merged.volume.capacity.is_zero());
}

/// As Nomad 1.1.18 did: it takes a new name, new parameters and a larger size, and nothing but its
/// record changes. That is shown, and it is said.
#[test]
fn before_1_3_what_only_the_record_changes_is_told() {
    let mut request = wanted();
    request.name = Some("other".into());
    request.parameters = Some([("type".to_owned(), "io2".to_owned())].into());
    request.capacity.min = bytes(1500);
    let planned = against(request, existing(), of("1.2.16"));
    let Action::Update(update) = &planned.action else {
        panic!("{planned:?}")
    };
    let fields: Vec<_> = update.changes.iter().map(|change| change.field).collect();
    assert_eq!(fields, ["name", "capacity_min", "parameters"]);
    let told = &planned.warnings[0];
    assert_eq!(told.code, Code::PlanIgnoredField);
    let all = "the new name, capacity_min, parameters of volume db";
    assert!(told.message.contains(all), "{}", told.message);
    let planned = against(wanted(), existing(), of("1.2.16"));
    let ignored = |told: &Diagnostic| told.code == Code::PlanIgnoredField;
    assert!(!planned.warnings.iter().any(ignored), "{planned:?}");
}

/// As Nomad 1.1.18 and 1.3.16 answered, and 1.6.10 did not: a create without a largest size is
/// refused by the Nomad that is to call the plugin, so that neither is a volume deleted to be made
/// anew so; also not where nobody says how old the server is, though a create is tried there.
#[test]
fn before_1_6_3_nothing_is_created_without_a_largest_size() {
    let range = |min, max| WantedRequest {
        capacity: CapacityRange {
            min: bytes(min),
            max: bytes(max),
        },
        ..wanted()
    };
    let nobody = observed(None, plugin(|_| {}));
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
        let planned = one(range(min, max), &nobody, rules, Purpose::Create);
        if refused {
            assert_eq!(
                codes(&planned),
                ["volume/capacity"],
                "{rules:?} {min} {max}"
            );
        } else {
            let is_create = matches!(planned.action, Action::Create(_));
            assert!(is_create, "{rules:?} {min} {max}: {planned:?}");
        }
    }
    let there = observed(Some(existing()), plugin(|_| {}));
    let requests = Requests {
        replace: [existing().key()].into(),
        ..Requests::default()
    };
    for (rules, refused) in [
        (of("1.6.2"), true),
        (of("1.6.3"), false),
        (MergeRules::STRICTEST, true),
    ] {
        let wanted = vec![spec(range(1000, 0))];
        let inputs = Inputs {
            requests: &requests,
            ..inputs(wanted, &there, rules, Purpose::Create)
        };
        let planned = build(inputs).volumes.remove(0);
        let is_blocked = matches!(planned.action, Action::Blocked(_));
        assert_eq!(is_blocked, refused, "{rules:?}: {planned:?}");
    }
}

/// What helps with a size that is refused is not the same everywhere: before 1.6.3 a missing
/// `capacity_max` is what is refused.
#[test]
fn the_help_for_a_refused_size_is_that_of_the_version() {
    let mut request = wanted();
    request.capacity.max = bytes(500);
    request.capacity.min = Bytes::default();
    for (release, help) in [
        ("1.6.2", "enclose the size"),
        ("1.6.3", "raise `capacity_max`"),
    ] {
        let planned = against(request.clone(), existing(), of(release));
        let Action::Blocked(reasons) = &planned.action else {
            panic!("{release}: {planned:?}")
        };
        assert!(reasons[0].help[0].contains(help), "{release}: {reasons:?}");
    }
}

/// `users` 10: what this server would lose, and would be lost by leaving it out, is sent again.
#[test]
fn what_an_old_server_would_forget_is_sent_again() {
    let context = || [("attach".to_owned(), "iscsi".to_owned())].into();
    let stored = Volume {
        context: context(),
        parameters: [("type".to_owned(), "gp3".to_owned())].into(),
        ..existing()
    };
    let mut request = wanted();
    request.mount_options = Some(MountOptions {
        fs_type: "xfs".into(),
        mount_flags: vec![],
    });
    for (release, again) in [
        ("1.2.16", vec!["context", "parameters"]),
        ("1.9.5", vec!["context"]),
        ("1.9.6", vec![]),
    ] {
        let mut request = request.clone();
        if release == "1.2.16" {
            // Mount options are not shown there, so that something else has to differ.
            request.capabilities = vec![request.capabilities[0]];
        }
        let planned = against(request, stored.clone(), of(release));
        let Action::Update(update) = &planned.action else {
            panic!("{release}: {planned:?}")
        };
        assert_eq!(update.sent_again, again, "{release}");
        let is_sent = sent(&planned).context == Some(context());
        assert_eq!(is_sent, again.contains(&"context"), "{release}");
    }
}

/// An old server refuses what it has already; a plan does not ask it to take that.
#[test]
fn what_is_as_wanted_is_unchanged_however_strict_the_server() {
    let mut request = wanted();
    request.capacity.max = Bytes::default();
    let mut stored = claimed();
    stored.requested_capacity.max = Bytes::default();
    for release in ["1.2.16", "1.3.0", "1.6.3", "1.9.5", "2.0.5"] {
        let planned = against(request.clone(), stored.clone(), of(release));
        assert_eq!(planned.action, Action::Unchanged, "{release}");
    }
}

/// A volume in use can change once it is not, also where the server refuses it as a whole.
#[test]
fn a_volume_in_use_waits_on_an_old_server() {
    let mut request = wanted();
    request.capabilities = vec![request.capabilities[0]];
    let planned = against(request.clone(), claimed(), of("1.6.2"));
    assert!(matches!(planned.action, Action::Waits(_)), "{planned:?}");
    request.name = Some("other".into());
    let planned = against(request, claimed(), of("1.6.2"));
    assert_eq!(codes(&planned), ["volume/immutable-field"]);
}

fn sizes() -> impl Strategy<Value = CapacityRange> {
    let size = || select(vec![0, 500, 1000, 1500, 3000]);
    (size(), size()).prop_map(|(min, max)| CapacityRange {
        min: bytes(min),
        max: bytes(max),
    })
}

fn options() -> impl Strategy<Value = Option<MountOptions>> {
    let of = |fs_type: &str, flags: &[&str]| {
        Some(MountOptions {
            fs_type: fs_type.into(),
            mount_flags: flags.iter().map(ToString::to_string).collect(),
        })
    };
    select(vec![
        None,
        of("", &[]),
        of("ext4", &[]),
        of("ext4", &["ro"]),
    ])
}

fn maps() -> impl Strategy<Value = Option<BTreeMap<String, String>>> {
    let of = |value: &str| Some([("key".to_owned(), value.to_owned())].into());
    select(vec![None, Some(BTreeMap::new()), of("a"), of("b")])
}

fn topologies() -> impl Strategy<Value = Option<TopologyRequest>> {
    let nothing = Some(TopologyRequest::default());
    select(vec![
        None,
        nothing,
        places(&["a", "b"]),
        places(&["b", "a"]),
        places(&["c"]),
    ])
}

prop_compose! {
    fn requests()(
        capacity in sizes(), mount_options in options(), parameters in maps(), context in maps(),
        topology_request in topologies(), reversed in any::<bool>(), fewer in any::<bool>(),
        said_name in any::<bool>(),
    ) -> WantedRequest {
        let mut request = WantedRequest {
            capacity, mount_options, parameters, context, topology_request, ..wanted()
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

/// What a server shows of a volume that was updated so.
fn after(volume: &Volume, planned: &Planned, rules: MergeRules) -> Option<Volume> {
    let (Action::Update(update) | Action::Expand(update)) = &planned.action else {
        return None;
    };
    let merged = merge(volume, &update.request, rules).expect("what is planned is taken");
    let mut volume = merged.volume;
    if let Expansion::Needed { to } = merged.expansion {
        volume.capacity = to.min;
    }
    volume.mount_options = volume.mount_options.map(|options| options.redacted());
    Some(volume)
}

proptest! {
    /// Issue 3, point 7: what was done is not to be done again, under every rule set; and what a plan
    /// sends is never refused by the rules that it was made by.
    #[test]
    fn the_plan_of_what_was_merged_is_unchanged(
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
