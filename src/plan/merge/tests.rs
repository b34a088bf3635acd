//! Every cell of the merge table, under both rule sets.

use std::collections::BTreeSet;

use super::*;
use nomad_csi_model::{
    AccessMode, AllocId, AttachmentMode, HealthCount, Namespace, PluginId, SecretRefs, Secrets,
    Topology, VolumeId,
};

const BOTH: [(&str, MergeRules); 2] = [("nomad", MergeRules::NOMAD), ("agent", MergeRules::AGENT)];

const WRITER: Capability = Capability {
    access_mode: AccessMode::SingleNodeWriter,
    attachment_mode: AttachmentMode::FileSystem,
};
const READERS: Capability = Capability {
    access_mode: AccessMode::MultiNodeReaderOnly,
    attachment_mode: AttachmentMode::FileSystem,
};

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect()
}

fn bytes(bytes: u64) -> Bytes {
    Bytes::new(bytes).unwrap()
}

fn range(min: u64, max: u64) -> CapacityRange {
    CapacityRange { min: bytes(min), max: bytes(max) }
}

fn zone(name: &str) -> Topology {
    Topology { segments: map(&[("zone", name)]) }
}

fn topology_request(required: &[&str], preferred: &[&str]) -> TopologyRequest {
    let zones = |names: &[&str]| names.iter().map(|name| zone(name)).collect();
    TopologyRequest { required: zones(required), preferred: zones(preferred) }
}

fn mount_options(fs_type: &str, flags: &[&str]) -> MountOptions {
    MountOptions {
        fs_type: fs_type.into(),
        mount_flags: flags.iter().map(ToString::to_string).collect(),
    }
}

/// Returns an unclaimed, created volume with every field set.
fn stored() -> Volume {
    Volume {
        namespace: Namespace::default(),
        id: VolumeId::new("db"),
        name: "database".into(),
        external_id: Some(ExternalId::new("vol-1")),
        plugin_id: PluginId::new("ebs0"),
        provider: "ebs.csi.example".into(),
        provider_version: "v1".into(),
        capabilities: vec![WRITER],
        requested_capacity: range(1000, 2000),
        capacity: bytes(1000),
        topology_request: Some(topology_request(&["a", "b"], &["a"])),
        topologies: vec![zone("a")],
        clone_id: Some("vol-0".into()),
        snapshot_id: Some("snap-0".into()),
        mount_options: Some(mount_options("ext4", &["noatime"])),
        parameters: map(&[("type", "gp3")]),
        context: map(&[("k", "v")]),
        access_mode: None,
        attachment_mode: None,
        read_allocs: BTreeSet::new(),
        write_allocs: BTreeSet::new(),
        allocs: vec![],
        schedulable: true,
        controller_required: true,
        controllers: HealthCount::default(),
        nodes: HealthCount::default(),
        create_index: 7,
        modify_index: 9,
        spec_index: 9,
        create_time: 1,
        modify_time: 2,
        kept_files: vec![],
    }
}

fn claimed() -> Volume {
    Volume {
        access_mode: Some(READERS.access_mode),
        attachment_mode: Some(READERS.attachment_mode),
        read_allocs: BTreeSet::from([AllocId::new("alloc-1")]),
        capabilities: vec![READERS],
        ..stored()
    }
}

/// Returns the update that repeats every stored value.
fn again(volume: &Volume) -> UnresolvedRequest {
    UnresolvedRequest {
        namespace: volume.namespace.clone(),
        id: volume.id.clone(),
        name: Some(volume.name.clone()),
        external_id: volume.external_id.clone(),
        plugin_id: volume.plugin_id.clone(),
        capabilities: volume.capabilities.clone(),
        capacity: volume.requested_capacity,
        topology_request: volume.topology_request.clone(),
        clone_id: volume.clone_id.clone(),
        snapshot_id: volume.snapshot_id.clone(),
        mount_options: volume.mount_options.clone(),
        secrets: None,
        parameters: Some(volume.parameters.clone()),
        context: None,
        share: false,
    }
}

fn texts(outcome: Result<Merged, Vec<Refusal>>) -> Vec<String> {
    outcome.expect_err("the update is refused").into_iter().map(|refusal| refusal.text).collect()
}

#[test]
fn repeating_the_stored_values_changes_nothing() {
    for (server, rules) in BOTH {
        for volume in [stored(), claimed()] {
            let merged = merge(&volume, &again(&volume), rules).unwrap();
            assert_eq!(merged.volume, volume, "{server}");
            assert_eq!(merged.expansion, Expansion::None, "{server}");
        }
    }
}

#[test]
fn all_changed_identities_are_refused_together_in_nomads_order() {
    for (server, rules) in BOTH {
        let update = UnresolvedRequest {
            name: Some("other".into()),
            external_id: Some(ExternalId::new("vol-2")),
            plugin_id: PluginId::new("ceph"),
            clone_id: Some("vol-9".into()),
            snapshot_id: Some("snap-9".into()),
            parameters: Some(map(&[("type", "io2")])),
            capabilities: vec![WRITER],
            topology_request: Some(topology_request(&["c"], &[])),
            mount_options: Some(mount_options("xfs", &[])),
            capacity: range(3000, 10),
            ..again(&claimed())
        };
        let refusals = merge(&claimed(), &update, rules).unwrap_err();
        let fields: Vec<_> = refusals.iter().map(|refusal| refusal.field).collect();
        assert_eq!(
            fields,
            [
                "name",
                "external_id",
                "plugin_id",
                "clone_id",
                "snapshot_id",
                "capability",
                "topology_request",
                "mount_options",
                "parameters"
            ],
            "{server}"
        );
        let texts: Vec<_> = refusals.iter().map(|r| r.text.as_str()).collect();
        assert_eq!(
            texts,
            [
                "volume name cannot be updated",
                "volume external ID cannot be updated",
                "volume plugin ID cannot be updated",
                "volume clone ID cannot be updated",
                "volume snapshot ID cannot be updated",
                "volume requested capabilities update was not compatible with existing capability in use",
                "volume topology request update was not compatible with existing topology",
                "can not update mount options while volume is in use",
                "volume parameters cannot be updated",
            ],
            "{server}"
        );
    }
}

/// B06: an immutable field that the update omits, or sends empty, keeps its value.
#[test]
fn omitted_or_empty_immutable_fields_keep_their_values() {
    let omitted = UnresolvedRequest {
        name: None,
        external_id: None,
        clone_id: None,
        snapshot_id: None,
        parameters: None,
        context: None,
        ..again(&stored())
    };
    let empty = UnresolvedRequest {
        name: Some(String::new()),
        external_id: Some(ExternalId::new("")),
        clone_id: Some(String::new()),
        snapshot_id: Some(String::new()),
        parameters: Some(BTreeMap::new()),
        context: Some(BTreeMap::new()),
        ..again(&stored())
    };
    for (server, rules) in BOTH {
        for update in [&omitted, &empty] {
            assert_eq!(merge(&stored(), update, rules).unwrap().volume, stored(), "{server}");
        }
    }
}

#[test]
fn an_update_cannot_add_an_external_id_or_a_name() {
    let bare = Volume {
        name: String::new(),
        external_id: None,
        clone_id: None,
        snapshot_id: None,
        ..stored()
    };
    for (server, rules) in BOTH {
        assert_eq!(
            texts(merge(&bare, &again(&stored()), rules)),
            [
                "volume name cannot be updated",
                "volume external ID cannot be updated",
                "volume clone ID cannot be updated",
                "volume snapshot ID cannot be updated"
            ],
            "{server}"
        );
    }
}

#[test]
fn other_parameters_are_refused() {
    for (server, rules) in BOTH {
        for parameters in [map(&[("type", "io2")]), map(&[("type", "gp3"), ("a", "b")])] {
            let update = UnresolvedRequest { parameters: Some(parameters), ..again(&stored()) };
            assert_eq!(
                texts(merge(&stored(), &update, rules)),
                ["volume parameters cannot be updated"],
                "{server}"
            );
        }
    }
}

/// B04: an update must keep the capability in use; then it replaces the list.
#[test]
fn the_capability_in_force_must_stay() {
    for (server, rules) in BOTH {
        let half = Volume { attachment_mode: None, ..claimed() };
        for (volume, desired, accepted) in [
            (claimed(), vec![READERS, WRITER], true),
            (claimed(), vec![READERS, READERS], true),
            (claimed(), vec![WRITER], false),
            (half, vec![READERS], false),
            (stored(), vec![READERS], true),
        ] {
            let update = UnresolvedRequest { capabilities: desired.clone(), ..again(&volume) };
            match merge(&volume, &update, rules) {
                Ok(merged) => {
                    assert!(accepted, "{server} {desired:?}");
                    assert_eq!(merged.volume.capabilities, desired, "{server}");
                }
                Err(refusals) => {
                    assert!(!accepted, "{server} {desired:?}");
                    assert_eq!(refusals.len(), 1);
                    assert_eq!(refusals[0].field, "capability");
                }
            }
        }
    }
}

/// B03: the request cannot change. Nomad compares by position and distinguishes absent from empty; the
/// agent compares sets (W21).
#[test]
fn the_topology_request_of_a_volume_with_topologies_cannot_change() {
    let stored_request = Some(topology_request(&["a", "b"], &["a"]));
    for (case, stored_request, desired, nomad, agent) in [
        ("same", &stored_request, stored_request.clone(), true, true),
        ("reordered", &stored_request, Some(topology_request(&["b", "a"], &["a"])), false, true),
        ("added", &stored_request, Some(topology_request(&["a", "b", "c"], &["a"])), false, false),
        (
            "preferred removed",
            &stored_request,
            Some(topology_request(&["a", "b"], &[])),
            false,
            false,
        ),
        ("left out", &stored_request, None, false, false),
        ("absent twice", &None, None, true, true),
        ("absent, then empty", &None, Some(topology_request(&[], &[])), false, true),
        ("absent, then given", &None, Some(topology_request(&["a"], &[])), false, false),
    ] {
        let volume = Volume { topology_request: stored_request.clone(), ..stored() };
        let update = UnresolvedRequest { topology_request: desired, ..again(&volume) };
        for ((server, rules), accepted) in BOTH.into_iter().zip([nomad, agent]) {
            let outcome = merge(&volume, &update, rules);
            assert_eq!(outcome.is_ok(), accepted, "{server}: {case}");
            if let Ok(merged) = outcome {
                assert_eq!(&merged.volume.topology_request, stored_request, "{server}: {case}");
            }
        }
    }
}

/// For a volume without topologies, Nomad drops the new request and the agent stores it (W21).
#[test]
fn the_agent_stores_a_topology_request_of_a_volume_without_topologies() {
    let volume = Volume { topologies: vec![], ..stored() };
    let (old, new) = (volume.topology_request.clone(), Some(topology_request(&["c"], &[])));
    for (server, rules, desired, expected) in [
        ("nomad", MergeRules::NOMAD, &new, &old),
        ("agent", MergeRules::AGENT, &new, &new),
        ("nomad", MergeRules::NOMAD, &None, &old),
        ("agent", MergeRules::AGENT, &None, &old),
    ] {
        let update = UnresolvedRequest { topology_request: desired.clone(), ..again(&volume) };
        let merged = merge(&volume, &update, rules).unwrap().volume;
        assert_eq!(&merged.topology_request, expected, "{server}");
    }
}

/// An update without mount options clears them; whether absent equals empty depends on the server
/// (W19).
#[test]
fn mount_options_change_only_while_the_volume_is_unclaimed() {
    let (ext4, turned) =
        (Some(mount_options("ext4", &["a", "b"])), Some(mount_options("ext4", &["b", "a"])));
    let (xfs, empty, absent) =
        (Some(mount_options("xfs", &[])), Some(mount_options("", &[])), None);
    for (case, stored_options, desired, nomad, agent) in [
        ("same", &ext4, &ext4, true, true),
        ("flags in other order", &ext4, &turned, true, true),
        ("other", &ext4, &xfs, false, false),
        ("emptied", &ext4, &empty, false, false),
        ("left out", &ext4, &absent, false, false),
        ("empty twice", &empty, &empty, true, true),
        ("left out, stored empty", &empty, &absent, true, true),
        ("empty, stored absent", &absent, &empty, false, true),
        ("absent twice", &absent, &absent, false, true),
    ] {
        for ((server, rules), accepted) in BOTH.into_iter().zip([nomad, agent]) {
            let outcome = |volume: Volume| {
                let volume = Volume { mount_options: stored_options.clone(), ..volume };
                let update = UnresolvedRequest { mount_options: desired.clone(), ..again(&volume) };
                merge(&volume, &update, rules).map(|merged| merged.volume.mount_options)
            };
            let expected = if accepted {
                stored_options.clone()
            } else {
                Some(desired.clone().unwrap_or_default())
            };
            assert_eq!(outcome(stored()), Ok(expected.clone()), "{server}: {case}");
            let in_use = outcome(claimed()).ok();
            assert_eq!(in_use, accepted.then_some(expected), "{server}: {case}");
        }
    }
}

#[test]
fn hidden_flags_are_compared_by_presence() {
    let volume = Volume {
        mount_options: Some(mount_options("ext4", &[MountOptions::REDACTED])),
        ..claimed()
    };
    for (desired, accepted) in [
        (mount_options("ext4", &["anything"]), true),
        (mount_options("ext4", &[]), false),
        (mount_options("xfs", &["anything"]), false),
    ] {
        let update = UnresolvedRequest { mount_options: Some(desired.clone()), ..again(&volume) };
        assert_eq!(merge(&volume, &update, MergeRules::NOMAD).is_ok(), accepted, "{desired:?}");
    }
}

/// Nomad clears omitted secrets, the agent keeps them (W20).
#[test]
fn omitted_secrets_follow_the_rule() {
    let secrets = SecretRefs::from(&Secrets::from_iter([("token", "t")]));
    for (desired, nomad, agent) in [
        (None, SecretsChange::Clear, SecretsChange::Keep),
        (Some(SecretRefs::default()), SecretsChange::Clear, SecretsChange::Clear),
        (Some(secrets), SecretsChange::Replace, SecretsChange::Replace),
    ] {
        for ((server, rules), expected) in BOTH.into_iter().zip([nomad, agent]) {
            for volume in [stored(), claimed()] {
                let update = UnresolvedRequest { secrets: desired.clone(), ..again(&volume) };
                let merged = merge(&volume, &update, rules).unwrap();
                assert_eq!(merged.secrets, expected, "{server} {desired:?}");
            }
        }
    }
}

/// B21: an omitted context keeps its value. Older servers clear it (GH-24922).
#[test]
fn a_context_is_replaced_and_an_omitted_one_follows_the_rule() {
    let wiping = MergeRules { omitted_context: OmittedMap::Clear, ..MergeRules::NOMAD };
    let new = map(&[("n", "1")]);
    for (rules, desired, expected) in [
        (MergeRules::NOMAD, Some(new.clone()), new.clone()),
        (MergeRules::AGENT, Some(new.clone()), new),
        (MergeRules::NOMAD, None, stored().context),
        (MergeRules::AGENT, Some(BTreeMap::new()), stored().context),
        (wiping, None, BTreeMap::new()),
    ] {
        let update = UnresolvedRequest { context: desired, ..again(&stored()) };
        assert_eq!(merge(&stored(), &update, rules).unwrap().volume.context, expected);
    }
}

#[test]
fn a_capacity_is_ignored_recorded_refused_or_needs_expansion() {
    let needed = |min, max| Ok(Expansion::Needed { to: range(min, max) });
    for ((min, max), expected) in [
        ((0, 0), Ok(Expansion::None)),
        ((1000, 2000), Ok(Expansion::None)),
        ((2, 1), Err("max requested capacity (1 B) less than or equal to min (2 B)")),
        ((0, 999), Err("max requested capacity (999 B) less than or equal to current (1.0 kB)")),
        ((500, 2000), Ok(Expansion::Record)),
        ((500, 5000), Ok(Expansion::Record)),
        ((1000, 1000), Ok(Expansion::Record)),
        ((1000, 0), Ok(Expansion::Record)),
        ((1500, 2000), needed(1500, 2000)),
        ((1500, 0), needed(1500, 0)),
        ((1500, 1500), needed(1500, 1500)),
    ] {
        for (server, rules) in BOTH {
            let update = UnresolvedRequest { capacity: range(min, max), ..again(&stored()) };
            match (merge(&stored(), &update, rules), expected) {
                (Ok(merged), Ok(expansion)) => {
                    assert_eq!(merged.expansion, expansion, "{server} {min} {max}");
                    let recorded = if expansion == Expansion::None {
                        range(1000, 2000)
                    } else {
                        range(min, max)
                    };
                    assert_eq!(merged.volume.requested_capacity, recorded);
                    assert_eq!(merged.volume.capacity, stored().capacity);
                }
                (Err(refusals), Err(text)) => {
                    assert_eq!(refusals.len(), 1);
                    assert_eq!(refusals[0].text, text, "{server}");
                    assert_eq!(refusals[0].field, "capacity_max");
                }
                (outcome, _) => panic!("{server} {min} {max}: {outcome:?}"),
            }
        }
    }
}

/// A registered volume has capacity 0, so every positive minimum expands it.
#[test]
fn a_registered_volume_of_unknown_size_needs_expansion_for_any_new_minimum() {
    let registered =
        Volume { capacity: Bytes::ZERO, requested_capacity: CapacityRange::default(), ..stored() };
    let update = UnresolvedRequest { capacity: range(1, 0), ..again(&registered) };
    assert_eq!(
        merge(&registered, &update, MergeRules::AGENT).unwrap().expansion,
        Expansion::Needed { to: range(1, 0) }
    );
}

/// A directory has no size. Nomad takes it for zero bytes and expands it at every change; the agent
/// expands it only if the minimum grows.
#[test]
fn on_the_agent_a_volume_of_unknown_size_has_its_requested_minimum() {
    let created = Volume { capacity: Bytes::ZERO, ..stored() };
    for ((min, max), on_agent) in [
        ((1000, 5000), Expansion::Record),
        ((1000, 1000), Expansion::Record),
        ((500, 2000), Expansion::Record),
        ((1001, 5000), Expansion::Needed { to: range(1001, 5000) }),
    ] {
        let update = UnresolvedRequest { capacity: range(min, max), ..again(&created) };
        let expansion = |rules| merge(&created, &update, rules).unwrap().expansion;
        assert_eq!(expansion(MergeRules::AGENT), on_agent, "{min} {max}");
        let to = range(min, max);
        assert_eq!(expansion(MergeRules::NOMAD), Expansion::Needed { to });
    }
}
