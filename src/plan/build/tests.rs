//! What a plan says, by what is wanted, what is there, and whose server it is.

use super::*;
use crate::model::{
    AccessMode, AllocId, AttachmentMode, CapacityRange, ControllerCapabilities, ControllerInfo,
    ExternalId, MountOptions, Namespace, PluginId, SecretRefs, Secrets, Volume, VolumeId,
    WantedRequest,
};
use crate::plan::diff::{Change, Shown};
use crate::plan::inputs::PluginState;
use crate::plan::merge::{Expansion, SecretsChange};
use crate::plan::rules::MergeRules;
use crate::plan::samples::{
    READERS, WRITER, against, bytes, changes, codes, existing, inputs, observed, one, places,
    plugin, sent, spec, wanted,
};
use crate::spec::Purpose;

const BOTH: [MergeRules; 2] = [MergeRules::NOMAD, MergeRules::AGENT];

/// `users` 12: a run without changes is a fixpoint, also where order and absence differ (W19, W21).
#[test]
fn what_was_created_as_specified_is_unchanged() {
    for rules in BOTH {
        let planned = against(wanted(), existing(), rules);
        assert_eq!(planned.action, Action::Unchanged, "{rules:?}");
        assert_eq!(planned.pin, Pin::At(9));
        assert!(planned.warnings.is_empty());
    }
}

/// W21: what Nomad compares by position is sent as it has it.
#[test]
fn a_request_to_nomad_has_the_stored_order() {
    let there = observed(Some(existing()), plugin(|_| {}));
    let planned = one(wanted(), &there, MergeRules::NOMAD, Purpose::Create);
    assert_eq!(sent(&planned).topology_request, places(&["b", "a"]));
    let planned = one(wanted(), &there, MergeRules::AGENT, Purpose::Create);
    assert_eq!(*sent(&planned), wanted());
}

#[test]
fn absence_asks_for_creation_and_an_external_id_for_registration() {
    let nothing = observed(None, plugin(|_| {}));
    let create = one(wanted(), &nothing, MergeRules::NOMAD, Purpose::ByExternalId);
    assert!(matches!(create.action, Action::Create(_)));
    assert_eq!(create.pin, Pin::Absent);
    let request = WantedRequest {
        external_id: Some(ExternalId::new("vol-1")),
        ..wanted()
    };
    let register = one(request, &nothing, MergeRules::NOMAD, Purpose::ByExternalId);
    assert!(matches!(register.action, Action::Register(_)));
}

#[test]
fn an_update_names_the_fields_with_old_and_new() {
    let mut request = wanted();
    request.capabilities = vec![WRITER];
    request.capacity.max = bytes(3000);
    request.mount_options = Some(MountOptions {
        fs_type: "xfs".into(),
        mount_flags: vec!["password=hunter2".into()],
    });
    for rules in BOTH {
        let planned = against(request.clone(), existing(), rules);
        let expected = [
            (
                "capacity_max",
                Shown::Size(bytes(2000)),
                Shown::Size(bytes(3000)),
            ),
            (
                "capability",
                Shown::Capabilities([WRITER, READERS].into()),
                Shown::Capabilities([WRITER].into()),
            ),
            (
                "mount_options.fs_type",
                Shown::Absent,
                Shown::Text("xfs".into()),
            ),
            ("mount_options.mount_flags", Shown::Absent, Shown::Hidden),
        ]
        .map(|(field, old, new)| Change { field, old, new });
        assert_eq!(changes(&planned), expected, "{rules:?}");
        assert!(!format!("{:?}", changes(&planned)).contains("hunter2"));
    }
}

/// `nomad-http-api` 10.1, item 5.
#[test]
fn hidden_flags_differ_only_by_presence() {
    let hidden = |flags: &[&str]| {
        let mut volume = existing();
        let mount_flags = flags.iter().map(ToString::to_string).collect();
        volume.mount_options = Some(MountOptions {
            fs_type: String::new(),
            mount_flags,
        });
        volume
    };
    let mut request = wanted();
    request.mount_options = Some(MountOptions {
        fs_type: String::new(),
        mount_flags: vec!["ro".into()],
    });
    for rules in BOTH {
        let same = against(request.clone(), hidden(&[MountOptions::REDACTED]), rules);
        assert_eq!(same.action, Action::Unchanged);
        assert_eq!(
            changes(&against(request.clone(), hidden(&[]), rules)).len(),
            1
        );
    }
    for rules in BOTH {
        let unsaid = against(wanted(), hidden(&[MountOptions::REDACTED]), rules);
        assert_eq!(unsaid.action, Action::Unchanged);
        let mut none = wanted();
        none.mount_options = Some(MountOptions::default());
        let lost = against(none, hidden(&[MountOptions::REDACTED]), rules);
        let expected = Change {
            field: "mount_options.mount_flags",
            old: Shown::Hidden,
            new: Shown::Absent,
        };
        assert_eq!(changes(&lost), [expected]);
    }
}

/// B01, B02, B04, `users` 8.
#[test]
fn every_refusal_is_foretold_with_the_servers_words_and_a_place() {
    let mut request = wanted();
    request.name = Some("other".into());
    request.capabilities = vec![READERS];
    request.topology_request = places(&["c"]);
    request.parameters = Some([("type".to_owned(), "gp3".to_owned())].into());
    let mut volume = existing();
    volume.access_mode = Some(AccessMode::SingleNodeWriter);
    volume.attachment_mode = Some(AttachmentMode::FileSystem);
    for rules in BOTH {
        let planned = against(request.clone(), volume.clone(), rules);
        let expected = [
            "volume/immutable-field",
            "volume/in-use",
            "volume/immutable-field",
            "volume/immutable-field",
        ];
        assert_eq!(codes(&planned), expected, "{rules:?}");
        let Action::Blocked(reasons) = &planned.action else {
            unreachable!("checked above")
        };
        assert_eq!(
            reasons[0].notes,
            ["the server would say: volume name cannot be updated"]
        );
        assert_eq!(reasons[0].labels[0].span, planned.span().unwrap());
    }
}

#[test]
fn a_maximum_below_the_size_is_blocked_at_its_place() {
    let mut request = wanted();
    request.capacity = CapacityRange {
        min: bytes(100),
        max: bytes(500),
    };
    let planned = against(request, existing(), MergeRules::NOMAD);
    assert_eq!(codes(&planned), ["volume/capacity"]);
    let Action::Blocked(reasons) = &planned.action else {
        unreachable!("checked above")
    };
    assert_eq!(
        reasons[0].labels[0].span,
        planned.spec.unwrap().fields["capacity_max"]
    );
}

#[test]
fn growing_beyond_the_size_asks_the_plugin_to_expand() {
    let mut request = wanted();
    request.capacity = CapacityRange {
        min: bytes(1500),
        max: bytes(2000),
    };
    let planned = against(request.clone(), existing(), MergeRules::NOMAD);
    let Action::Expand(update) = &planned.action else {
        panic!("{planned:?}")
    };
    assert_eq!(
        update.expansion,
        Expansion::Needed {
            to: request.capacity
        }
    );
    let rigid = plugin(|plugin| {
        for instance in plugin.controllers.values_mut() {
            instance.controller = Some(ControllerInfo {
                capabilities: ControllerCapabilities::default(),
            });
        }
    });
    let observed = observed(Some(existing()), rigid);
    let planned = one(request, &observed, MergeRules::NOMAD, Purpose::ByExternalId);
    assert_eq!(codes(&planned), ["plugin/unsupported"]);
}

/// W20: on Nomad, an update without secrets erases them; on the agent it keeps them.
#[test]
fn an_update_that_erases_secrets_says_so() {
    let mut changed = wanted();
    changed.capacity.max = bytes(3000);
    let with = |secrets: Option<SecretRefs>| WantedRequest {
        secrets,
        ..changed.clone()
    };
    let some = SecretRefs::from(&Secrets::from_iter([("key", "value")]));
    for (secrets, rules, change, warned) in [
        (None, MergeRules::NOMAD, SecretsChange::Clear, true),
        (None, MergeRules::AGENT, SecretsChange::Keep, false),
        (
            Some(SecretRefs::default()),
            MergeRules::NOMAD,
            SecretsChange::Clear,
            false,
        ),
        (
            Some(some.clone()),
            MergeRules::NOMAD,
            SecretsChange::Replace,
            false,
        ),
    ] {
        let planned = against(with(secrets), existing(), rules);
        let Action::Update(update) = &planned.action else {
            panic!("{planned:?}")
        };
        assert_eq!(update.secrets, change);
        let codes: Vec<_> = planned
            .warnings
            .iter()
            .map(|warning| warning.code)
            .collect();
        assert_eq!(codes == [Code::PlanErasesSecrets], warned);
    }
}

/// Secrets cannot be read, so they are no difference by themselves; who says `register` sends them.
#[test]
fn secrets_alone_change_nothing_unless_they_are_sent_on_purpose() {
    let request = WantedRequest {
        secrets: Some(SecretRefs::from(&Secrets::from_iter([("key", "value")]))),
        ..wanted()
    };
    for rules in BOTH {
        let there = observed(Some(existing()), plugin(|_| {}));
        let planned = one(request.clone(), &there, rules, Purpose::ByExternalId);
        assert_eq!(planned.action, Action::Unchanged);
        let planned = one(request.clone(), &there, rules, Purpose::Register);
        assert!(changes(&planned).is_empty());
    }
}

/// W21: Nomad takes a topology request for a volume that has none, and forgets it.
#[test]
fn a_topology_request_that_nomad_ignores_is_warned_of() {
    let mut volume = existing();
    volume.topologies.clear();
    volume.topology_request = None;
    let planned = against(wanted(), volume.clone(), MergeRules::NOMAD);
    assert_eq!(planned.action, Action::Unchanged);
    assert_eq!(planned.warnings[0].code, Code::PlanIgnoredField);
    let planned = against(wanted(), volume, MergeRules::AGENT);
    assert_eq!(changes(&planned)[0].field, "topology_request.required");
}

/// `users` 18: what a plugin cannot do is found before it is asked.
#[test]
fn a_plugin_that_cannot_do_it_blocks() {
    let registered = WantedRequest {
        external_id: Some(ExternalId::new("vol-1")),
        ..wanted()
    };
    let unhealthy = || plugin(|plugin| plugin.summary.controllers.healthy = 0);
    let node_only = || {
        plugin(|plugin| {
            plugin.summary.controller_required = false;
            plugin.controllers.clear();
        })
    };
    let no_create = || {
        plugin(|plugin| {
            for instance in plugin.controllers.values_mut() {
                instance.controller = Some(ControllerInfo {
                    capabilities: ControllerCapabilities::default(),
                });
            }
        })
    };
    let before_first_report = || {
        plugin(|plugin| {
            plugin.summary.controller_required = false;
            plugin.controllers.clear();
            plugin.nodes.clear();
        })
    };
    for (name, state, request, expected) in [
        (
            "missing",
            PluginState::Missing,
            wanted(),
            Some("plugin/unknown"),
        ),
        ("not readable", PluginState::Unknown, wanted(), None),
        (
            "unhealthy, create",
            unhealthy(),
            wanted(),
            Some("plugin/unhealthy"),
        ),
        (
            "unhealthy, register",
            unhealthy(),
            registered.clone(),
            Some("plugin/unhealthy"),
        ),
        (
            "node only, create",
            node_only(),
            wanted(),
            Some("plugin/no-controller"),
        ),
        ("node only, register", node_only(), registered.clone(), None),
        (
            "no create, create",
            no_create(),
            wanted(),
            Some("plugin/unsupported"),
        ),
        ("no create, register", no_create(), registered, None),
        (
            "before its first report",
            before_first_report(),
            wanted(),
            None,
        ),
    ] {
        let planned = one(
            request,
            &observed(None, state),
            MergeRules::NOMAD,
            Purpose::ByExternalId,
        );
        match expected {
            Some(code) => assert_eq!(codes(&planned), [code], "{name}"),
            None => assert!(
                matches!(planned.action, Action::Create(_) | Action::Register(_)),
                "{name}: {:?}",
                planned.action
            ),
        }
    }
}

#[test]
fn a_misspelt_plugin_is_told_the_nearest() {
    let mut request = wanted();
    request.plugin_id = PluginId::new("hostpaht");
    let mut there = observed(None, plugin(|_| {}));
    there.plugins = [(request.plugin_id.clone(), PluginState::Missing)].into();
    let planned = one(request, &there, MergeRules::NOMAD, Purpose::ByExternalId);
    let Action::Blocked(reasons) = &planned.action else {
        panic!("{planned:?}")
    };
    assert_eq!(
        reasons[0].help,
        ["there is a plugin hostpath; is it meant?"]
    );
}

#[test]
fn counts_add_up() {
    let mut blocked = wanted();
    blocked.name = Some("other".into());
    let there = observed(Some(existing()), plugin(|_| {}));
    let mut other = wanted();
    other.id = VolumeId::new("new");
    let specs = vec![spec(wanted()), spec(blocked), spec(other)];
    let plan = build(inputs(
        specs,
        &there,
        MergeRules::NOMAD,
        Purpose::ByExternalId,
    ));
    let counts = plan.counts();
    assert_eq!(
        (
            counts.create,
            counts.unchanged,
            counts.blocked,
            counts.changes()
        ),
        (1, 1, 1, 1)
    );
}

/// Issue 3, point 1: what ends with the volume's use is waited for; what does not is blocked, and
/// everything is told at once.
#[test]
fn an_update_waits_for_use_to_end_and_is_blocked_if_that_would_not_help() {
    let in_use = Volume {
        access_mode: Some(AccessMode::SingleNodeWriter),
        attachment_mode: Some(AttachmentMode::FileSystem),
        write_allocs: [AllocId::new("a1")].into(),
        ..existing()
    };
    let mut request = wanted();
    request.capabilities = vec![READERS];
    request.mount_options = Some(MountOptions {
        fs_type: "xfs".into(),
        mount_flags: vec![],
    });
    for rules in BOTH {
        let planned = against(request.clone(), in_use.clone(), rules);
        let Action::Waits(wait) = &planned.action else {
            panic!("{planned:?}")
        };
        assert_eq!(wait.reasons.len(), 2);
        assert_eq!(wait.holders[0].id, AllocId::new("a1"));
        assert_eq!(planned.stakes, None);

        let mut too_small = request.clone();
        too_small.capacity.max = bytes(1);
        too_small.capacity.min = bytes(1);
        let planned = against(too_small, in_use.clone(), rules);
        let expected = ["volume/in-use", "volume/in-use", "volume/capacity"];
        assert_eq!(codes(&planned), expected, "{rules:?}");

        let left_over = Volume {
            write_allocs: [].into(),
            ..in_use.clone()
        };
        let mut request = wanted();
        request.capabilities = vec![READERS];
        assert_eq!(
            codes(&against(request, left_over, rules)),
            ["volume/in-use"]
        );
    }
}

/// A create into a namespace that does not exist leaves its data in the provider on Nomad, and
/// nothing that names it.
#[test]
fn a_new_volume_wants_a_namespace_that_exists() {
    let mut there = observed(None, plugin(|_| {}));
    for (namespaces, expected) in [
        (None, None),
        (Some(vec!["default"]), None),
        (
            Some(vec!["defaults"]),
            Some("there is a namespace defaults; is it meant?"),
        ),
        (
            Some(vec!["prod"]),
            Some("make it first: `nomad namespace apply default`"),
        ),
    ] {
        there.namespaces = namespaces.map(|names| names.into_iter().map(Namespace::new).collect());
        let planned = one(wanted(), &there, MergeRules::NOMAD, Purpose::ByExternalId);
        match (&planned.action, expected) {
            (Action::Create(_), None) => {}
            (Action::Blocked(reasons), Some(help)) => {
                assert_eq!(reasons[0].code, Code::VolumeUnknownNamespace);
                assert_eq!(reasons[0].help, [help]);
            }
            (other, _) => panic!("{other:?}"),
        }
    }
}
