//! Plans by specification, observed state and server.

use super::*;
use crate::diff::{Change, FieldValue};
use crate::inputs::{PlanInputs, PlanOptions, PluginState};
use crate::merge::{Expansion, SecretsChange};
use crate::rules::MergeRules;
use crate::samples::{
    READERS, WRITER, against, bytes, changes, codes, desired, existing, inputs, observed, one,
    places, plugin, sent, spec,
};
use crate::volume_version::VolumeVersion;
use nomad_csi_model::diagnostic::{Diagnostics, SourceMap};
use nomad_csi_model::{
    AccessMode, AllocId, AttachmentMode, CapacityRange, ControllerCapabilities, ControllerInfo,
    ExternalId, HealthCount, MountOptions, Namespace, PluginId, SecretRefs, Secrets,
    UnresolvedRequest, Volume, VolumeId,
};
use nomad_csi_spec::{Defaults, Purpose, Syntax, parse};

const BOTH: [MergeRules; 2] = [MergeRules::NOMAD, MergeRules::AGENT];

/// A plan after an apply is empty, even if order and absence differ (W19, W21).
#[test]
fn an_applied_volume_is_unchanged() {
    for rules in BOTH {
        let planned = against(desired(), existing(), rules);
        assert_eq!(planned.action, Action::Unchanged, "{rules:?}");
        assert_eq!(planned.expected_version, VolumeVersion::At(9));
        assert!(planned.warnings.is_empty());
    }
}

/// B90: health makes no difference, nor does the order of topologies; one more or one less does.
#[test]
fn health_is_not_compared_and_topologies_are_sets() {
    for rules in BOTH {
        let mut volume = existing();
        volume.schedulable = !volume.schedulable;
        volume.controllers.healthy += 1;
        volume.nodes.expected += 1;
        let planned = against(desired(), volume, rules);
        assert_eq!(planned.action, Action::Unchanged, "{rules:?}");
        for other in [places(&["a"]), places(&["a", "b", "c"])] {
            let mut volume = existing();
            volume.topology_request = other;
            let planned = against(desired(), volume, rules);
            assert_ne!(planned.action, Action::Unchanged, "{rules:?}");
        }
    }
}

/// Nomad compares topologies by position, so they are sent in the stored order (W21).
#[test]
fn a_request_to_nomad_has_the_stored_order() {
    let there = observed(Some(existing()), plugin(|_| {}));
    let planned = one(desired(), &there, MergeRules::NOMAD, Purpose::Create);
    assert_eq!(sent(&planned).topology_request, places(&["b", "a"]));
    let planned = one(desired(), &there, MergeRules::AGENT, Purpose::Create);
    assert_eq!(*sent(&planned), desired());
}

#[test]
fn a_missing_volume_is_created_or_with_an_external_id_registered() {
    let nothing = observed(None, plugin(|_| {}));
    let create = one(desired(), &nothing, MergeRules::NOMAD, Purpose::ByExternalId);
    assert!(matches!(create.action, Action::Create(_)));
    assert_eq!(create.expected_version, VolumeVersion::Absent);
    let request = UnresolvedRequest { external_id: Some(ExternalId::new("vol-1")), ..desired() };
    let register = one(request, &nothing, MergeRules::NOMAD, Purpose::ByExternalId);
    assert!(matches!(register.action, Action::Register(_)));
}

#[test]
fn an_update_names_the_fields_with_old_and_new() {
    let mut request = desired();
    request.capabilities = vec![WRITER];
    request.capacity.max = bytes(3000);
    request.mount_options =
        Some(MountOptions { fs_type: "xfs".into(), mount_flags: vec!["password=hunter2".into()] });
    for rules in BOTH {
        let planned = against(request.clone(), existing(), rules);
        let expected = [
            ("capacity_max", FieldValue::Size(bytes(2000)), FieldValue::Size(bytes(3000))),
            (
                "capability",
                FieldValue::Capabilities([WRITER, READERS].into()),
                FieldValue::Capabilities([WRITER].into()),
            ),
            ("mount_options.fs_type", FieldValue::Absent, FieldValue::Text("xfs".into())),
            ("mount_options.mount_flags", FieldValue::Absent, FieldValue::Hidden),
        ]
        .map(|(field, old, new)| Change { field, old, new });
        assert_eq!(changes(&planned), expected, "{rules:?}");
        assert!(!format!("{:?}", changes(&planned)).contains("hunter2"));
    }
}

#[test]
fn hidden_flags_differ_only_by_presence() {
    let hidden = |flags: &[&str]| {
        let mut volume = existing();
        let mount_flags = flags.iter().map(ToString::to_string).collect();
        volume.mount_options = Some(MountOptions { fs_type: String::new(), mount_flags });
        volume
    };
    let mut request = desired();
    request.mount_options =
        Some(MountOptions { fs_type: String::new(), mount_flags: vec!["ro".into()] });
    for rules in BOTH {
        let same = against(request.clone(), hidden(&[MountOptions::REDACTED]), rules);
        assert_eq!(same.action, Action::Unchanged);
        assert_eq!(changes(&against(request.clone(), hidden(&[]), rules)).len(), 1);
    }
    for rules in BOTH {
        let omitted = against(desired(), hidden(&[MountOptions::REDACTED]), rules);
        assert_eq!(omitted.action, Action::Unchanged);
        let mut none = desired();
        none.mount_options = Some(MountOptions::default());
        let lost = against(none, hidden(&[MountOptions::REDACTED]), rules);
        let expected = Change {
            field: "mount_options.mount_flags",
            old: FieldValue::Hidden,
            new: FieldValue::Absent,
        };
        assert_eq!(changes(&lost), [expected]);
    }
}

#[test]
fn every_refusal_is_predicted_with_the_servers_text_and_a_span() {
    let mut request = desired();
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
        let Action::Blocked(reasons) = &planned.action else { unreachable!("checked above") };
        assert_eq!(reasons[0].notes, ["the server would return: volume name cannot be updated"]);
        assert_eq!(reasons[0].labels[0].span, planned.span().unwrap());
    }
}

#[test]
fn a_maximum_below_the_size_is_blocked_at_its_span() {
    let mut request = desired();
    request.capacity = CapacityRange { min: bytes(100), max: bytes(500) };
    let planned = against(request, existing(), MergeRules::NOMAD);
    assert_eq!(codes(&planned), ["volume/capacity"]);
    let Action::Blocked(reasons) = &planned.action else { unreachable!("checked above") };
    assert_eq!(reasons[0].labels[0].span, planned.spec.unwrap().fields["capacity_max"]);
}

#[test]
fn a_minimum_above_the_size_expands() {
    let mut request = desired();
    request.capacity = CapacityRange { min: bytes(1500), max: bytes(2000) };
    let planned = against(request.clone(), existing(), MergeRules::NOMAD);
    let Action::Expand(update) = &planned.action else { panic!("{planned:?}") };
    assert_eq!(update.expansion, Expansion::Needed { to: request.capacity });
    let rigid = plugin(|plugin| {
        for instance in plugin.controllers.values_mut() {
            instance.controller =
                Some(ControllerInfo { capabilities: ControllerCapabilities::default() });
        }
    });
    let observed = observed(Some(existing()), rigid);
    let planned = one(request, &observed, MergeRules::NOMAD, Purpose::ByExternalId);
    assert_eq!(codes(&planned), ["plugin/unsupported"]);
}

/// On Nomad, an update without secrets clears them; on the agent it keeps them (W20).
#[test]
fn an_update_that_clears_secrets_warns() {
    let mut changed = desired();
    changed.capacity.max = bytes(3000);
    let with = |secrets: Option<SecretRefs>| UnresolvedRequest { secrets, ..changed.clone() };
    let some = SecretRefs::from(&Secrets::from_iter([("key", "value")]));
    for (secrets, rules, change, warned) in [
        (None, MergeRules::NOMAD, SecretsChange::Clear, true),
        (None, MergeRules::AGENT, SecretsChange::Keep, false),
        (Some(SecretRefs::default()), MergeRules::NOMAD, SecretsChange::Clear, false),
        (Some(some.clone()), MergeRules::NOMAD, SecretsChange::Replace, false),
    ] {
        let planned = against(with(secrets), existing(), rules);
        let Action::Update(update) = &planned.action else { panic!("{planned:?}") };
        assert_eq!(update.secrets, change);
        let codes: Vec<_> = planned.warnings.iter().map(|warning| warning.code).collect();
        assert_eq!(codes == [Code::PlanErasesSecrets], warned);
    }
}

/// Secrets cannot be read, so they are not a difference by themselves. `register` sends them.
#[test]
fn secrets_alone_are_sent_only_by_register() {
    let request = UnresolvedRequest {
        secrets: Some(SecretRefs::from(&Secrets::from_iter([("key", "value")]))),
        ..desired()
    };
    for rules in BOTH {
        let there = observed(Some(existing()), plugin(|_| {}));
        let planned = one(request.clone(), &there, rules, Purpose::ByExternalId);
        assert_eq!(planned.action, Action::Unchanged);
        let planned = one(request.clone(), &there, rules, Purpose::Register);
        assert!(changes(&planned).is_empty());
    }
}

/// Nomad accepts a topology request for a volume without topologies and ignores it (W21).
#[test]
fn a_topology_request_that_nomad_ignores_causes_a_warning() {
    let mut volume = existing();
    volume.topologies.clear();
    volume.topology_request = None;
    let planned = against(desired(), volume.clone(), MergeRules::NOMAD);
    assert_eq!(planned.action, Action::Unchanged);
    assert_eq!(planned.warnings[0].code, Code::PlanIgnoredField);
    let planned = against(desired(), volume, MergeRules::AGENT);
    assert_eq!(changes(&planned)[0].field, "topology_request.required");
}

#[test]
fn a_missing_plugin_ability_blocks() {
    let registered = UnresolvedRequest { external_id: Some(ExternalId::new("vol-1")), ..desired() };
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
                instance.controller =
                    Some(ControllerInfo { capabilities: ControllerCapabilities::default() });
            }
        })
    };
    let before_first_report = || {
        plugin(|plugin| {
            plugin.summary.controller_required = false;
            plugin.controllers.clear();
            plugin.nodes.clear();
            plugin.summary.controllers = HealthCount::default();
        })
    };
    for (name, state, request, expected) in [
        ("missing", PluginState::Missing, desired(), Some("plugin/unknown")),
        ("not readable", PluginState::Unknown, desired(), None),
        ("unhealthy, create", unhealthy(), desired(), Some("plugin/unhealthy")),
        ("unhealthy, register", unhealthy(), registered.clone(), Some("plugin/unhealthy")),
        ("node only, create", node_only(), desired(), Some("plugin/no-controller")),
        ("node only, register", node_only(), registered.clone(), None),
        ("no create, create", no_create(), desired(), Some("plugin/unsupported")),
        ("no create, register", no_create(), registered, None),
        ("before its first report", before_first_report(), desired(), None),
    ] {
        let planned =
            one(request, &observed(None, state), MergeRules::NOMAD, Purpose::ByExternalId);
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

/// A register needs no controller, as far as the server knows before the first report.
#[test]
fn a_controller_that_has_not_reported_blocks_creates() {
    let started = plugin(|plugin| {
        plugin.summary.controller_required = false;
        plugin.controllers.clear();
        plugin.nodes.clear();
        plugin.summary.controllers = HealthCount { healthy: 0, expected: 1 };
    });
    let observed = observed(None, started);
    let plan = |request| one(request, &observed, MergeRules::NOMAD, Purpose::ByExternalId);
    assert_eq!(codes(&plan(desired())), ["plugin/unhealthy"]);
    let registered = UnresolvedRequest { external_id: Some(ExternalId::new("vol-1")), ..desired() };
    assert!(matches!(plan(registered).action, Action::Register(_)));
}

#[test]
fn a_misspelt_plugin_gets_a_suggestion() {
    let mut request = desired();
    request.plugin_id = PluginId::new("hostpaht");
    let mut there = observed(None, plugin(|_| {}));
    there.plugins = [(request.plugin_id.clone(), PluginState::Missing)].into();
    let planned = one(request, &there, MergeRules::NOMAD, Purpose::ByExternalId);
    let Action::Blocked(reasons) = &planned.action else { panic!("{planned:?}") };
    assert_eq!(reasons[0].help, ["did you mean plugin `hostpath`?"]);
}

#[test]
fn counts_add_up() {
    let mut blocked = desired();
    blocked.name = Some("other".into());
    let there = observed(Some(existing()), plugin(|_| {}));
    let mut other = desired();
    other.id = VolumeId::new("new");
    let specs = vec![spec(desired()), spec(blocked), spec(other)];
    let plan = build_plan(inputs(specs, &there, MergeRules::NOMAD, Purpose::ByExternalId));
    let counts = plan.counts();
    assert_eq!((counts.create, counts.unchanged, counts.blocked, counts.changes()), (1, 1, 1, 1));
}

/// A refusal that ends with the claims waits; every other one blocks, with all reasons.
#[test]
fn an_update_waits_only_if_claims_alone_prevent_it() {
    let in_use = Volume {
        access_mode: Some(AccessMode::SingleNodeWriter),
        attachment_mode: Some(AttachmentMode::FileSystem),
        write_allocs: [AllocId::new("a1")].into(),
        ..existing()
    };
    let mut request = desired();
    request.capabilities = vec![READERS];
    request.mount_options = Some(MountOptions { fs_type: "xfs".into(), mount_flags: vec![] });
    for rules in BOTH {
        let planned = against(request.clone(), in_use.clone(), rules);
        let Action::WaitingForClaims(wait) = &planned.action else { panic!("{planned:?}") };
        assert_eq!(wait.reasons.len(), 2);
        assert_eq!(wait.claims[0].id, AllocId::new("a1"));
        assert_eq!(planned.impact, None);

        let mut too_small = request.clone();
        too_small.capacity.max = bytes(1);
        too_small.capacity.min = bytes(1);
        let planned = against(too_small, in_use.clone(), rules);
        let expected = ["volume/in-use", "volume/in-use", "volume/capacity"];
        assert_eq!(codes(&planned), expected, "{rules:?}");

        let left_over = Volume { write_allocs: [].into(), ..in_use.clone() };
        let mut request = desired();
        request.capabilities = vec![READERS];
        assert_eq!(codes(&against(request, left_over, rules)), ["volume/in-use"]);
    }
}

/// On Nomad, creating a volume in a missing namespace leaves unregistered data at the provider.
#[test]
fn a_new_volume_needs_an_existing_namespace() {
    let mut there = observed(None, plugin(|_| {}));
    for (namespaces, expected) in [
        (None, None),
        (Some(vec!["default"]), None),
        (Some(vec!["defaults"]), Some("did you mean namespace `defaults`?")),
        (Some(vec!["prod"]), Some("run `nomad-csi namespace create default` first")),
    ] {
        there.namespaces = namespaces.map(|names| names.into_iter().map(Namespace::new).collect());
        let planned = one(desired(), &there, MergeRules::NOMAD, Purpose::ByExternalId);
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

/// A list that loses an item gives the fields of its neighbour to each index after it.
#[test]
fn a_field_of_another_index_has_the_help_of_stable_keys() {
    let text = |block: &str| {
        format!(
            "volume \"db\" {{\n {block}\n type = \"csi\"\n plugin_id = \"hostpath\"\n capability {{\n access_mode = \"single-node-writer\"\n attachment_mode = \"file-system\"\n}}\n}}\n"
        )
    };
    let reasons = |block: &str, id: &str| {
        let (mut sources, mut problems) = (SourceMap::default(), Diagnostics::default());
        let source = sources.add("v.hcl", text(block));
        let defaults = Defaults::default();
        let desired = parse(&mut sources, source, Syntax::Hcl, &defaults, &mut problems);
        assert!(!problems.has_errors(), "{problems:?}");
        let volume = Volume { id: VolumeId::new(id), ..existing() };
        let observed = observed(Some(volume), plugin(|_| {}));
        let plan = build_plan(PlanInputs {
            desired,
            purpose: Purpose::ByExternalId,
            observed: &observed,
            rules: MergeRules::NOMAD,
            owned: None,
            options: &PlanOptions::default(),
        });
        let Action::Blocked(reasons) = &plan.volumes[0].action else { panic!("{id}") };
        let of_name = reasons.iter().find(|one| one.code == Code::VolumeImmutableField);
        of_name.expect("the name differs").help.clone()
    };
    assert_eq!(
        reasons("count = 1\n name = \"other\"", "db[0]"),
        ["volumes of a `count` are identified by position: use `for_each` with stable keys"]
    );
    let other = ["keep the current value, or create another volume with another ID"];
    assert_eq!(reasons("for_each = [\"a\"]\n name = \"other\"", "db-a"), other);
    assert_eq!(reasons("name = \"other\"", "db"), other);
}

/// A token that may not read plugins sees what a file says.
#[test]
fn a_plugin_that_the_token_cannot_read_is_as_its_file_says() {
    let text = r#"{"version":1,"kind":"plugin-snapshot","id":"hostpath","provider":"csi.example",
        "controller_required":true,"controller_capabilities":[],"node_capabilities":[],"topologies":[]}"#;
    let file = crate::plugin_snapshots::read_snapshot("h.plugin.json", "", text).unwrap();
    for (state, blocked) in [(PluginState::Unknown, true), (plugin(|_| ()), false)] {
        let mut observed = observed(None, state);
        observed.plugin_snapshots = [file.clone()].into_iter().collect();
        let planned = one(desired(), &observed, MergeRules::NOMAD, Purpose::ByExternalId);
        match blocked {
            true => assert_eq!(codes(&planned), [Code::PluginUnsupported.as_str()]),
            false => assert!(planned.action.creates(), "{planned:?}"),
        }
    }
}
