//! The effect of each event in each phase, on plugins, and over long histories.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::state::invariant::violations;
use crate::state::provider_name::provider_name;
use crate::state::query::{plugin as read_plugin, plugin_status, volumes_sharing};
use crate::state::replay::replay;
use crate::state::samples::{
    History, create_intended, created, definition, instance, key, node_registered, provided,
    registered, started, state_of,
};
use crate::state::snapshot::StateSnapshot;
use nomad_csi_model::{AllocId, ExternalId, NodeId, NodeStatus, PluginId, PluginInstance};

/// One event of each kind for a volume.
fn volume_events(key: &NamespacedId) -> Vec<EventKind> {
    let key = key.clone();
    vec![
        create_intended(&key),
        created(&key, "ext-2"),
        EventKind::VolumeCreateAbandoned { key: key.clone(), may_remain: None },
        registered(&key, "ext-3"),
        EventKind::VolumeUpdated {
            definition: Box::new(definition(&key)),
            provided: Box::new(provided("ext-4")),
            secrets: SealedSecrets::default(),
        },
        EventKind::VolumeDeleteIntended { key: key.clone(), instance: None, request: None },
        EventKind::VolumeDeleteAbandoned { key: key.clone() },
        EventKind::VolumeDeleted { key: key.clone() },
        EventKind::VolumeDeregistered { key },
    ]
}

/// A state with a volume in this phase.
fn volume_in(phase: Option<Phase>, key: &NamespacedId) -> State {
    let mut kinds = vec![started()];
    match phase {
        None => {}
        Some(Phase::Creating) => kinds.push(create_intended(key)),
        Some(Phase::Registered) => kinds.push(registered(key, "ext-1")),
        Some(Phase::Deleting) => {
            kinds.push(registered(key, "ext-1"));
            kinds.push(EventKind::VolumeDeleteIntended {
                key: key.clone(),
                instance: None,
                request: None,
            });
        }
    }
    state_of(kinds)
}

/// A volume is recorded before its creation (W14) and until its deletion is confirmed (W09).
#[test]
fn each_event_is_valid_in_its_phases_and_leads_to_the_next_one() {
    use Phase::{Creating, Deleting, Registered};
    let removed: Option<Phase> = None;
    // Per event, in the order of `volume_events`: the phase after the event, for each phase before it.
    // The outer `None` means that the event is not valid.
    let expected: [[Option<Option<Phase>>; 4]; 9] = [
        [Some(Some(Creating)), Some(Some(Creating)), None, None],
        [None, Some(Some(Registered)), None, None],
        [None, Some(removed), None, None],
        [Some(Some(Registered)), None, None, None],
        [None, None, Some(Some(Registered)), None],
        [None, None, Some(Some(Deleting)), Some(Some(Deleting))],
        [None, None, None, Some(Some(Registered))],
        [None, None, None, Some(removed)],
        [None, None, Some(removed), Some(removed)],
    ];
    let key = key("default", "db");
    for (kind, row) in volume_events(&key).into_iter().zip(expected) {
        let phases = [None, Some(Creating), Some(Registered), Some(Deleting)];
        for (before, after) in phases.into_iter().zip(row) {
            let mut state = volume_in(before, &key);
            let unchanged = state.clone();
            let event = Event::new(99, kind.clone());
            let case = format!("{} of {before:?}", kind.name());
            let result = check(&state, &event);
            apply(&mut state, &event);
            assert_eq!(state.index, unchanged.index + 1, "{case}");
            match after {
                Some(after) => {
                    assert_eq!(result, Ok(()), "{case}");
                    assert_eq!(state.record(&key).map(|r| r.phase), after, "{case}");
                }
                None => {
                    let Err(EventConflict::Volume { phase, .. }) = result else {
                        panic!("{case}: {result:?}");
                    };
                    assert_eq!(phase, before, "{case}");
                    assert_eq!(State { index: unchanged.index, ..state }, unchanged, "{case}");
                }
            }
        }
    }
}

#[test]
fn an_invalid_event_is_reported_with_the_phase() {
    let key = key("prod", "db");
    let event = Event::new(1, EventKind::VolumeDeleted { key: key.clone() });
    let message = |phase| check(&volume_in(phase, &key), &event).unwrap_err().to_string();
    assert_eq!(
        message(None),
        "`volume deleted` is not valid for volume `db` (namespace `prod`), which does not exist"
    );
    assert_eq!(
        message(Some(Phase::Registered)),
        "`volume deleted` is not valid for volume `db` (namespace `prod`), which is registered"
    );
}

/// A second attempt sends the name of the first one (W13, W14).
#[test]
fn a_retried_create_keeps_the_generation_and_takes_the_new_definition() {
    let key = key("default", "db");
    let mut state = state_of([started(), create_intended(&key)]);
    let first = state.record(&key).unwrap().clone();
    let mut new_definition = definition(&key);
    new_definition.parameters = Default::default();
    let again = EventKind::VolumeCreateIntended {
        definition: Box::new(new_definition.clone()),
        secrets: SealedSecrets::new(vec![7]),
        earlier: first.create_requests(),
        instance: None,
        request: None,
    };
    apply(&mut state, &Event::new(50, again));
    let second = state.record(&key).unwrap();
    assert_eq!((second.create_index, second.create_time), (first.create_index, first.create_time));
    assert_eq!((second.modify_index, second.modify_time), (4, 50));
    assert_eq!((&second.definition, second.secrets.as_bytes()), (&new_definition, &[7][..]));
    assert_eq!(provider_name(&state, second), provider_name(&state, &first));
    assert_eq!(second.earlier_creates, first.create_requests());
    assert_eq!(state.creating().count(), 1);
    apply(&mut state, &Event::new(60, created(&key, "ext-1")));
    assert_eq!(state.record(&key).unwrap().earlier_creates, []);
    assert_eq!(state.creating().count(), 0);
}

#[test]
fn the_response_of_a_create_is_stored_with_the_times_of_the_events() {
    let key = key("default", "db");
    let state = state_of([started(), create_intended(&key), created(&key, "ext-1")]);
    let record = state.record(&key).unwrap();
    assert_eq!(record.provided, provided("ext-1"));
    assert_eq!((record.create_index, record.modify_index), (3, 4));
    assert_eq!((record.create_time, record.modify_time), (2_000_000_000, 3_000_000_000));
}

/// The index by external ID is never stale, so shared volumes are always detected (W13).
#[test]
fn volumes_that_share_an_external_id_are_found_after_every_change() {
    let (a, b) = (key("default", "a"), key("prod", "b"));
    let (plugin, id) = (PluginId::new("hostpath"), ExternalId::new("ext-1"));
    let mut state = state_of([started(), registered(&a, "ext-1"), registered(&b, "ext-1")]);
    let shared = |state: &State| volumes_sharing(state, &plugin, &id);
    assert_eq!(shared(&state), [a.clone(), b.clone()]);
    let other = EventKind::VolumeUpdated {
        definition: Box::new(definition(&a)),
        provided: Box::new(provided("ext-2")),
        secrets: SealedSecrets::default(),
    };
    apply(&mut state, &Event::new(9, other));
    assert_eq!(shared(&state), std::slice::from_ref(&b));
    apply(&mut state, &Event::new(9, EventKind::VolumeDeregistered { key: b }));
    assert!(shared(&state).is_empty() && state.remote_ids.len() == 1);
}

#[test]
fn instances_are_unhealthy_after_a_start_until_their_next_fingerprint() {
    let plugin = PluginId::new("hostpath");
    let observed = |node: &str| alloc_observed(node, node, |_| {});
    let mut state = state_of([started(), observed("n1"), observed("n2")]);
    assert_eq!(plugin_status(&state, &plugin).unwrap().nodes.healthy, 2);
    let origin = state.origin.clone();
    let again = EventKind::AgentStarted { origin: "another".to_owned() };
    apply(&mut state, &Event::new(70, again));
    let status = plugin_status(&state, &plugin).unwrap();
    assert_eq!((status.nodes.healthy, status.nodes.expected), (0, 2));
    assert!(status.controller_required, "the plugin still requires its controller (W18)");
    let instance = &state.plugins[&plugin].allocs[&AllocId::new("n1")].instance;
    assert_eq!(instance.health.description, "not probed since the agent started");
    assert_eq!(instance.updated_at, 70);
    assert_eq!(state.origin, origin, "the origin of the first start stays");
}

fn registered_node(id: &str) -> EventKind {
    EventKind::NodeRegistered { node: nomad_csi_model::Node::new(id.into(), "machine", "dc1") }
}

fn connected(node: &str, session: &str, secret_hash: Option<&str>) -> EventKind {
    EventKind::NodeConnected {
        node: node.into(),
        session: session.into(),
        secret_hash: secret_hash.map(ToOwned::to_owned),
    }
}

/// A status has the time of its change. What a node offers at its registration does not change it, nor does a repetition.
#[test]
fn the_status_of_a_node_changes_in_order() {
    let node = NodeId::new("n1");
    let mut state = state_of([started(), registered_node("n1"), connected("n1", "s1", None)]);
    let known = |state: &State| (state.nodes[&node].status, state.nodes[&node].status_since);
    let since = known(&state).1;
    assert!(since > 0);
    let disconnected = || EventKind::NodeDisconnected { node: node.clone() };
    let down = || EventKind::NodeDown { node: node.clone() };
    let event = |time: i64, kind: EventKind| Event::new(time, kind);
    assert!(check(&state, &event(50, down())).is_err(), "a node that is ready is not down");
    apply(&mut state, &event(51, connected("n1", "s2", None)));
    assert_eq!(known(&state), (NodeStatus::Ready, since), "it was ready");
    apply(&mut state, &event(60, disconnected()));
    assert_eq!(known(&state), (NodeStatus::Disconnected, 60));
    assert!(check(&state, &event(61, disconnected())).is_err());
    apply(&mut state, &event(70, down()));
    assert_eq!(known(&state), (NodeStatus::Down, 70));
    assert!(check(&state, &event(71, down())).is_err());
    apply(&mut state, &event(80, connected("n1", "s2", None)));
    assert_eq!(known(&state), (NodeStatus::Ready, 80));
    for kind in [disconnected(), down()] {
        assert!(check(&state_of([started()]), &event(90, kind)).is_err(), "an unknown node");
    }
}

/// The plugins of a node go on under another leader, and also while the node's process stays; another process has to ask
/// them first.
#[test]
fn a_leader_changes_no_plugin_and_a_session_only_those_of_its_node() {
    let plugin = PluginId::new("hostpath");
    let observed = |node: &str| alloc_observed(node, node, |_| {});
    let registered = ["n1", "n2"].map(registered_node);
    let mut state = state_of([started()].into_iter().chain(registered).chain([
        connected("n1", "s1", None),
        observed("n1"),
        observed("n2"),
    ]));
    let healthy = |state: &State| {
        let allocs = state.plugins[&plugin].allocs.values();
        let healthy = allocs.filter(|alloc| alloc.instance.health.healthy);
        healthy.map(|alloc| alloc.node.to_string()).collect::<Vec<_>>()
    };
    let leads = EventKind::LeaderStarted { origin: "another".to_owned() };
    for (event, expected) in [
        (leads, &["n1", "n2"][..]),
        (connected("n1", "s1", None), &["n1", "n2"]),
        (connected("n2", "s2", None), &["n1"]),
        (connected("n1", "s3", None), &[]),
    ] {
        let text = format!("{event:?}");
        apply(&mut state, &Event::new(70, event));
        assert_eq!(healthy(&state), expected, "{text}");
    }
    assert_eq!(state.session(&"n1".into()), Some(&"s3".into()));
    assert_eq!(state.origin, "2f6d1c7e-0000-4000-8000-000000000001");
}

/// Only who knows the secret of a node can be it.
#[test]
fn a_session_needs_the_secret_of_its_node() {
    let mut state = state_of([started(), registered_node("n1")]);
    for (event, is_valid) in [
        (connected("n2", "s1", None), false),
        (connected("n1", "s1", None), true),
        (connected("n1", "s2", Some("hash")), true),
        (connected("n1", "s3", Some("other")), false),
        (connected("n1", "s4", None), false),
        (connected("n1", "s5", Some("hash")), true),
    ] {
        let event = Event::new(70, event);
        assert_eq!(check(&state, &event).is_ok(), is_valid, "{event:?}");
        apply(&mut state, &event);
    }
    assert_eq!(state.session(&"n1".into()), Some(&"s5".into()));
    assert_eq!(state.node_secret_hash(&"n1".into()), Some("hash"));
}

/// Returns the fingerprint of an allocation of plugin `hostpath`.
fn alloc_observed(alloc: &str, node: &str, edit: impl FnOnce(&mut PluginInstance)) -> EventKind {
    let mut instance = instance(true);
    instance.alloc_id = AllocId::new(alloc);
    edit(&mut instance);
    EventKind::PluginAllocObserved {
        plugin: PluginId::new("hostpath"),
        node: NodeId::new(node),
        instance: Box::new(instance),
    }
}

fn alloc_gone(alloc: &str) -> EventKind {
    EventKind::PluginAllocGone { plugin: PluginId::new("hostpath"), alloc: AllocId::new(alloc) }
}

/// Returns which allocation readers get on node `n1` for the controller and for the node service.
fn serving(state: &State) -> [Option<String>; 2] {
    let view = read_plugin(state, &PluginId::new("hostpath"));
    let Some(view) = view else {
        return [None, None];
    };
    [view.plugin.controllers, view.plugin.nodes].map(|instances| {
        let instance = instances.get(&NodeId::new("n1"))?;
        Some(instance.alloc_id.to_string())
    })
}

/// B68: a controller and a node plugin on one node each have their own part. B96: the plugin exists
/// until its last allocation ends.
#[test]
fn a_controller_and_a_node_allocation_on_one_node_are_both_kept() {
    let plugin = PluginId::new("hostpath");
    let both = [
        started(),
        alloc_observed("controller", "n1", |instance| instance.node = None),
        alloc_observed("node", "n1", |instance| instance.controller = None),
    ];
    for (ended, left) in [("controller", 1), ("node", 0)] {
        let mut state = state_of(both.clone());
        let expected = ["controller", "node"].map(|alloc| Some(alloc.to_owned()));
        assert_eq!(serving(&state), expected);
        let status = plugin_status(&state, &plugin).unwrap();
        assert_eq!((status.controllers.healthy, status.nodes.healthy), (1, 1));
        assert!(status.is_schedulable());

        apply(&mut state, &Event::new(9, alloc_gone(ended)));
        let mut expected = expected;
        expected[1 - left] = None;
        assert_eq!(serving(&state), expected, "after the end of `{ended}`");
        let last = ["controller", "node"][left];
        apply(&mut state, &Event::new(9, alloc_gone("unknown")));
        assert!(plugin_status(&state, &plugin).is_some());
        apply(&mut state, &Event::new(9, alloc_gone(last)));
        assert_eq!(plugin_status(&state, &plugin), None);
    }
}

/// B71: during an upgrade the newest allocation is used, and the one that is left afterwards, in both
/// orders of ending. A healthy one is preferred.
#[test]
fn two_allocations_of_one_plugin_follow_each_other_without_a_gap() {
    let upgrade = [
        started(),
        alloc_observed("z-old", "n1", |_| {}),
        alloc_observed("a-new", "n1", |_| {}),
        alloc_observed("z-old", "n1", |instance| instance.updated_at = 99),
    ];
    for (ended, left) in [("z-old", "a-new"), ("a-new", "z-old")] {
        let mut state = state_of(upgrade.clone());
        let record = &state.plugins[&PluginId::new("hostpath")];
        let called = record.controllers();
        let called: Vec<_> = called.iter().map(|c| c.instance.alloc_id.as_str()).collect();
        assert_eq!(called, ["a-new", "z-old"]);
        let status = plugin_status(&state, &PluginId::new("hostpath")).unwrap();
        assert_eq!((status.nodes.healthy, status.nodes.expected), (1, 1));
        assert_eq!(serving(&state), [(); 2].map(|()| Some("a-new".to_owned())));
        apply(&mut state, &Event::new(9, alloc_gone(ended)));
        assert_eq!(serving(&state), [(); 2].map(|()| Some(left.to_owned())));
    }
    let unhealthy = |instance: &mut PluginInstance| instance.health.healthy = false;
    let failing = alloc_observed("a-new", "n1", unhealthy);
    let state = state_of(upgrade.into_iter().chain([failing]));
    assert_eq!(serving(&state), [(); 2].map(|()| Some("z-old".to_owned())));
}

/// Up to version 3 a node has one instance of a plugin, and a newer task replaces it.
#[test]
fn instances_of_earlier_versions_replace_each_other_on_their_node() {
    let observed = |alloc: &str, node: &str| {
        let EventKind::PluginAllocObserved { plugin, node, instance } =
            alloc_observed(alloc, node, |_| {})
        else {
            panic!("another event")
        };
        EventKind::PluginInstanceObserved { plugin, node, instance }
    };
    let before_the_crash = [started(), observed("task-1", "n1"), observed("other", "n2")];
    let after = [started(), observed("task-2", "n1")];
    let state = state_of(before_the_crash.into_iter().chain(after));
    let record = &state.plugins[&PluginId::new("hostpath")];
    let allocs: Vec<_> = record.allocs.keys().map(AllocId::as_str).collect();
    assert_eq!(allocs, ["other", "task-2"]);
    let newest = record.newest_on(&NodeId::new("n1")).unwrap();
    assert_eq!(newest.instance.alloc_id.as_str(), "task-2");
}

/// A plugin exists while it has an instance (B70).
#[test]
fn a_plugin_is_removed_with_its_last_instance() {
    let plugin = PluginId::new("hostpath");
    let node = NodeId::new("n1");
    let removed = |node: &NodeId| EventKind::PluginInstanceGone {
        plugin: plugin.clone(),
        node: node.clone(),
    };
    let observed = EventKind::PluginInstanceObserved {
        plugin: plugin.clone(),
        node: node.clone(),
        instance: Box::new(instance(true)),
    };
    let mut state = state_of([started(), observed]);
    apply(&mut state, &Event::new(9, removed(&NodeId::new("elsewhere"))));
    assert_eq!((state.plugins.len(), state.plugins_index), (1, 3));
    apply(&mut state, &Event::new(9, removed(&node)));
    assert_eq!((state.plugins.len(), state.plugins_index), (0, 5));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_history_violates_an_invariant(seed: u64) {
        let mut history = History::new(seed);
        for _ in 0..200 {
            let _event = history.next();
            prop_assert_eq!(violations(history.state()), Vec::<String>::new());
        }
    }

    /// A plan does not read a volume whose index of the specification is the same.
    #[test]
    fn no_volume_changes_without_its_index(seed: u64) {
        let mut history = History::new(seed);
        let mut seen = BTreeMap::new();
        for _ in 0..200 {
            let _event = history.next();
            for record in history.state().volumes.values() {
                let at = (record.definition.key.clone(), record.modify_index);
                let content = (record.definition.clone(), record.provided.clone());
                let before = seen.entry(at).or_insert_with(|| content.clone());
                prop_assert_eq!(&*before, &content);
            }
        }
    }

    #[test]
    fn a_snapshot_with_later_events_equals_the_full_history(seed: u64, cut in 0_usize..120) {
        let mut history = History::new(seed);
        let events: Vec<_> = history.by_ref().take(120).collect();
        let (before, after) = events.split_at(cut);
        let first = replay(None, before.to_vec()).unwrap();
        let snapshot = StateSnapshot::from(&first);
        prop_assert_eq!(&State::from(snapshot.clone()), &first);
        prop_assert_eq!(&replay(Some(snapshot), after.to_vec()).unwrap(), history.state());
    }
}

/// The histories of the property tests and crash tests have everything that can happen.
#[test]
fn a_long_history_has_every_kind_of_event() {
    let seen: BTreeSet<_> = History::new(3)
        .take(10_000)
        .map(|event| match event.kind {
            EventKind::Claim { event, .. } => event.name(),
            EventKind::Variable { .. } => "variable",
            kind => kind.name(),
        })
        .collect();
    let expected = [
        "ACL bootstrapped",
        "ACL object deleted",
        "ACL policy written",
        "ACL token written",
        "agent started",
        "allocation cut off",
        "allocation ended",
        "allocation forgotten",
        "allocation placed",
        "allocation reported",
        "allocation started",
        "allocation stop requested",
        "claim access changed",
        "claim granted",
        "claim release requested",
        "claim released",
        "claim step done",
        "claim step failed",
        "claim step started",
        "claims orphaned",
        "expansion on nodes required",
        "job evaluated",
        "job forgotten",
        "job launched",
        "job registered",
        "job stopped",
        "leader started",
        "lost node given up",
        "mounts lost",
        "namespace deleted",
        "namespace written",
        "node booted",
        "node connected",
        "node disconnected",
        "node down",
        "node lost",
        "node rebooted",
        "node registered",
        "node returned",
        "node swept",
        "plugin allocation gone",
        "plugin allocation observed",
        "plugin instance gone",
        "plugin instance observed",
        "variable",
        "volume create abandoned",
        "volume create intended",
        "volume created",
        "volume delete abandoned",
        "volume delete intended",
        "volume deleted",
        "volume deregistered",
        "volume expand abandoned",
        "volume expand intended",
        "volume expanded",
        "volume modified",
        "volume modify abandoned",
        "volume modify intended",
        "volume registered",
        "volume updated",
    ];
    assert_eq!(seen, BTreeSet::from(expected));
}

/// A blocking read of the nodes sees a change of eligibility.
#[test]
fn a_registration_of_a_node_changes_the_index_of_the_nodes() {
    let state = state_of([started(), node_registered(1), node_registered(1)]);
    assert_eq!(state.nodes_index(), state.index());
}

/// B16: a stored volume without capabilities gets the pair of its current modes with the first change of a claim, and keeps
/// it when the claim is gone; other volumes keep their lists.
#[test]
fn a_volume_without_capabilities_gets_the_pair_in_force() {
    use crate::claim::{ClaimEvent, samples};
    use nomad_csi_model::AccessMode;
    let (bare, usual) = (key("default", "bare"), key("default", "usual"));
    let registered_as = |key: &NamespacedId, external: &str, is_bare: bool| {
        let EventKind::VolumeRegistered { mut definition, provided, secrets } =
            registered(key, external)
        else {
            panic!("another event")
        };
        if is_bare {
            definition.capabilities = vec![].into();
        }
        EventKind::VolumeRegistered { definition, provided, secrets }
    };
    let mut state = state_of([
        started(),
        registered_as(&bare, "ext-1", true),
        registered_as(&usual, "ext-2", false),
    ]);
    let list = |state: &State, key: &NamespacedId| {
        state.record(key).unwrap().definition.capabilities.to_vec()
    };
    let before = list(&state, &usual);
    assert_eq!(list(&state, &bare), []);
    for (at, volume) in [&bare, &usual].into_iter().enumerate() {
        let mut request =
            samples::request(&format!("a{at}"), "n1", AccessMode::MultiNodeReaderOnly);
        request.volume = volume.clone();
        let modes = request.usage.capability;
        let (claim_key, claim) = request.granted(1);
        let (alloc, node) = (claim_key.alloc.clone(), claim.node.clone());
        let remote = state.remote_volume(volume).unwrap();
        let change = |event| EventKind::Claim { volume: remote.clone(), event: Box::new(event) };
        let granted =
            change(ClaimEvent::Granted { key: claim_key.clone(), claim: Box::new(claim) });
        let requested =
            change(ClaimEvent::ReleaseRequested { key: claim_key.clone(), reason: String::new() });
        let released = change(ClaimEvent::Released { key: claim_key });
        for event in [EventKind::AllocStarted { alloc, node }, granted, requested, released] {
            let event = Event::new(9, event);
            assert_eq!(check(&state, &event), Ok(()));
            apply(&mut state, &event);
        }
        let expected = if *volume == bare { vec![modes] } else { before.clone() };
        assert_eq!(list(&state, volume), expected);
    }
}

/// W56: parameters that were set stay until they are set again; a change counts when it has succeeded; other data has none.
#[test]
fn mutable_parameters_are_merged_when_their_change_has_succeeded() {
    let key = key("default", "db");
    let parameters = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        let pairs = pairs.iter();
        pairs.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    let mut state = state_of([started(), registered(&key, "ext-1")]);
    let mut record = |kind: EventKind| {
        let event = Event::new(7, kind);
        let is_valid = check(&state, &event).is_ok();
        apply(&mut state, &event);
        let record = state.record(&key).unwrap();
        let pending = record.modifying.clone();
        (is_valid, record.mutable_parameters.clone(), pending)
    };
    let intended = |pairs| EventKind::VolumeModifyIntended {
        key: key.clone(),
        parameters: parameters(pairs),
        instance: None,
        request: None,
    };
    let modified = || EventKind::VolumeModified { key: key.clone() };
    let abandoned =
        |may_have_changed| EventKind::VolumeModifyAbandoned { key: key.clone(), may_have_changed };
    let updated = |external_id: &str| EventKind::VolumeUpdated {
        definition: Box::new(definition(&key)),
        provided: Box::new(provided(external_id)),
        secrets: SealedSecrets::default(),
    };
    let none = parameters(&[]);
    assert_eq!(record(modified()), (false, none.clone(), None));
    assert_eq!(record(abandoned(false)), (false, none.clone(), None));
    let first = parameters(&[("a", "1"), ("b", "2")]);
    let open = record(intended(&[("a", "1"), ("b", "2")]));
    assert_eq!(open, (true, none.clone(), Some(first.clone())));
    assert_eq!(record(modified()), (true, first.clone(), None));
    let open = record(intended(&[("b", "3")]));
    assert_eq!(open.1, first, "it has not succeeded yet");
    assert_eq!(record(abandoned(false)), (true, first.clone(), None));
    record(intended(&[("b", "4"), ("c", "")]));
    let all = parameters(&[("a", "1"), ("b", "4"), ("c", "")]);
    assert_eq!(record(modified()), (true, all.clone(), None));
    record(intended(&[("b", "6"), ("d", "5")]));
    let known = parameters(&[("a", "1"), ("c", "")]);
    assert_eq!(record(abandoned(true)), (true, known.clone(), None), "`b` may be 4 or 6");
    record(intended(&[("d", "5")]));
    let pending = Some(parameters(&[("d", "5")]));
    assert_eq!(record(updated("ext-1")), (true, known, pending));
    assert_eq!(record(updated("ext-2")), (true, none, None));
}
