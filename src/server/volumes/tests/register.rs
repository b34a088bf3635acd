//! Registering volumes, and updating registrations.

use std::time::Duration;

use super::health::claim_on_new_node;
use super::recording::record;
use super::*;
use crate::cell::Expected;
use crate::error::UpdateOrigin;
use crate::fake::AppendFault;
use crate::journal::JournalErrorKind;
use crate::sealer::Sealer as _;
use crate::volumes::VolumeLimits;
use crate::volumes::validation::{ValidationTarget, validate_submission};
use nomad_csi_claims::state::{
    Event, EventKind, ProviderFacts, RecordedFlags, RecordedMountOptions,
};
use nomad_csi_model::{Namespace, NamespacedId, PluginId, SecretOwner, Secrets, VolumeId};
use nomad_csi_ports::StatusCode;
use nomad_csi_testing::Fault;
use nomad_csi_wire::RequestProblem;

const NEW: ValidationTarget = ValidationTarget { origin: UpdateOrigin::Create, exists: false };

fn problems_of(submission: &VolumeSubmission, target: ValidationTarget) -> String {
    text(validate_submission(submission, target))
}

/// B91: one error has all problems, in Nomad's text and order.
#[test]
fn all_missing_fields_are_reported_in_nomads_order() {
    let topologies = RequestProblem::TopologyWithoutSegments("required");
    let submission = VolumeSubmission {
        request: VolumeRequest {
            namespace: Namespace::new(""),
            snapshot_id: Some("s".into()),
            clone_id: Some("c".into()),
            capabilities: vec![],
            ..FakeAgent::request("db")
        },
        problems: vec![topologies.clone(), topologies],
    };
    assert_eq!(
        problems_of(&submission, NEW),
        "validation: missing namespace, only one of snapshot_id and clone_id is allowed, \
         must include at least one capability block, required topology is missing segments field, \
         required topology is missing segments field"
    );
}

/// Requests that Nomad stores although they can never work are refused (W23), as are names that cannot
/// be addressed (W49).
#[test]
fn an_invalid_request_is_refused_before_any_call() {
    let base = || FakeAgent::request("db");
    let block = capability(AccessMode::SingleNodeWriter, AttachmentMode::BlockDevice);
    let redacted = MountOptions::REDACTED;
    let cases = [
        (
            VolumeRequest { id: VolumeId::new(""), plugin_id: PluginId::new(""), ..base() },
            Some("missing volume id, missing plugin id"),
        ),
        (VolumeRequest { name: None, ..base() }, Some("missing Name")),
        (
            VolumeRequest { namespace: Namespace::new("*"), ..base() },
            Some("a volume cannot be in namespace \"*\""),
        ),
        (
            FakeAgent::request("a/b"),
            Some("invalid volume id \"a/b\": Nomad's HTTP API cannot address an ID with '/'"),
        ),
        (
            VolumeRequest { capacity: sized(2, 1), ..base() },
            Some("max requested capacity (1 B) less than or equal to min (2 B)"),
        ),
        (
            VolumeRequest { mount_options: Some(ext4().redacted()), ..base() },
            Some("mount flags are [REDACTED], which a server shows instead of the values"),
        ),
        (
            VolumeRequest { secrets: Some(Secrets::from_iter([("k", redacted)])), ..base() },
            Some("a secret is [REDACTED], which a server shows instead of the value"),
        ),
        (
            VolumeRequest {
                capacity: sized(1, 1),
                capabilities: vec![block, block],
                mount_options: Some(ext4()),
                ..base()
            },
            None,
        ),
    ];
    for (request, expected) in cases {
        let result = validate_submission(&request.into(), NEW);
        let expected = expected.map(|text| format!("validation: {text}"));
        assert_eq!(result.err().map(|error| error.text()), expected);
    }
    let unread = VolumeSubmission {
        problems: vec![
            RequestProblem::NegativeCapacity("requested capacity min"),
            RequestProblem::AccessMode("x".into()),
        ],
        request: VolumeRequest { capabilities: vec![], ..base() },
    };
    assert_eq!(
        problems_of(&unread, NEW),
        "validation: unknown volume access mode: x, requested capacity min cannot be negative"
    );
}

#[test]
fn the_id_and_name_of_an_existing_volume_are_not_validated() {
    let request = VolumeRequest { name: None, ..FakeAgent::request("a/b") };
    for origin in [UpdateOrigin::Create, UpdateOrigin::Register] {
        assert!(
            validate_submission(&request.clone().into(), ValidationTarget { origin, exists: true })
                .is_ok()
        );
    }
}

/// W18: nothing is assumed about an unknown plugin.
#[tokio::test(start_paused = true)]
async fn the_plugin_must_be_known_and_its_controller_healthy() {
    let agent = agent().await;
    let request = agent.add_external_volume("vol-1", "db");
    let unknown = VolumeRequest { plugin_id: PluginId::new("ebs0"), ..request.clone() };
    assert_eq!(text(agent.register(unknown).await), "no CSI plugin named: ebs0 could be found");
    agent.observe(false).await;
    assert_eq!(text(agent.register(request).await), "no healthy controllers for CSI plugin: fake");
    assert_eq!(agent.calls(), (0, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_request_without_volumes_is_refused() {
    let agent = agent().await;
    assert_eq!(text(agent.volumes.register(vec![]).await), "missing volume definition");
    assert_eq!(text(agent.volumes.create(vec![]).await), "missing volume definition");
}

/// B08, W22: only fields that a client may set are stored; the requested topologies are the volume's.
#[tokio::test(start_paused = true)]
async fn a_new_registration_stores_only_client_fields() {
    let agent = agent().await;
    let request = VolumeRequest {
        capacity: sized(10, 20),
        topology_request: Some(in_zones(&["a"])),
        secrets: Some(Secrets::from_iter([("token", "t")])),
        ..agent.add_external_volume("vol-1", "db")
    };
    let result = agent.register(request).await.unwrap();
    let volume = result.volumes[0].volume();
    assert_eq!(volume.external_id, Some(ExternalId::new("vol-1")));
    assert_eq!(volume.topologies, [zone("a")]);
    assert_eq!(volume.requested_capacity, sized(10, 20));
    assert_eq!(volume.capacity, Bytes::ZERO);
    assert_eq!(volume.provider, "fake.csi.nomad-csi.test");
    assert_eq!(volume.modify_index, result.index);
    assert!(result.warnings.is_empty());
    let record = agent.record("db").unwrap();
    let secrets = agent.sealer.open(&record.key().into(), &record.secrets).unwrap();
    assert_eq!(secrets.expose().collect::<Vec<_>>(), [("token", "t")]);
}

/// B11, B20, B21, W24: validation is sent all fields including mount options, and its answer decides.
/// B22: the plugin gets the one value that was sent.
#[tokio::test(start_paused = true)]
async fn the_plugin_validates_new_and_changed_registrations() {
    let agent = agent().await;
    let sent = record(&agent);
    let request = VolumeRequest {
        mount_options: Some(ext4()),
        parameters: Some([("p".to_owned(), "v".to_owned())].into()),
        secrets: Some(Secrets::from_iter([("token", "t")])),
        ..agent.add_external_volume("vol-1", "db")
    };
    agent.register(request.clone()).await.unwrap();
    {
        let validations = sent.validations.lock();
        assert_eq!(validations.len(), 1);
        // Every field, so that a new one is decided about here.
        let nomad_csi_ports::ValidateVolume {
            external_id,
            capabilities,
            mount_options,
            parameters,
            context,
            secrets,
        } = &validations[0];
        assert_eq!(*external_id, ExternalId::new("vol-1"));
        assert_eq!(*capabilities, request.capabilities);
        assert_eq!(*mount_options, ext4());
        assert_eq!(Some(parameters), request.parameters.as_ref());
        assert_eq!(*context, request.context.clone().unwrap_or_default());
        assert_eq!(secrets.expose().collect::<Vec<_>>(), [("token", "t")]);
    }
    let before = agent.state();
    let refused = VolumeRequest {
        context: Some([("not".to_owned(), "its own".to_owned())].into()),
        secrets: None,
        ..request
    };
    assert_eq!(
        text(agent.register(refused).await),
        "controller validate volume: CSI.ControllerValidateVolume: \
         volume capability validation failed: rpc error: code = InvalidArgument \
         desc = the context does not belong to vol-1"
    );
    assert_eq!(agent.state(), before);
    let validations = sent.validations.lock();
    assert!(!validations[1].secrets.is_empty(), "stored secrets are used");
}

/// B11: a plugin without a controller is not called.
#[tokio::test(start_paused = true)]
async fn a_plugin_without_a_controller_is_not_called() {
    let mut settings = PluginSettings { controller: None, ..PluginSettings::default() };
    settings.plugin.controller_service = false;
    let agent = FakeAgent::start(settings).await.unwrap();
    let request = agent.add_external_volume("vol-1", "db");
    agent.register(request.clone()).await.unwrap();
    assert_eq!(agent.calls(), (0, 0, 0));
    assert_eq!(text(agent.create(FakeAgent::request("new")).await), "plugin has no controller");
    assert_eq!(text(agent.delete("db").await), "plugin \"fake\" for volume \"db\" not found");
}

/// B01, B09: an identical request records no event and keeps the volume unchanged.
#[tokio::test(start_paused = true)]
async fn registering_again_changes_nothing() {
    let agent = agent().await;
    agent.create(FakeAgent::request("db")).await.unwrap();
    let before = agent.state();
    let again =
        VolumeRequest { mount_options: Some(MountOptions::default()), ..FakeAgent::request("db") };
    for _ in 0..2 {
        agent.register(again.clone()).await.unwrap();
        assert_eq!(agent.state(), before);
    }
    let volume = agent.record("db").unwrap();
    assert_eq!(volume.provided.external_id, Some(ExternalId::new("fake-1")));
    assert_eq!(volume.provided.context.len(), 1);
}

/// B02, B05: an update of either kind that changes what cannot change is refused with one error that has all texts, and
/// the record stays as it is, to the byte. Each field alone is refused too.
#[tokio::test(start_paused = true)]
async fn every_field_that_cannot_change_is_named_in_one_error() {
    let agent = agent().await;
    let request = VolumeRequest {
        parameters: Some([("a".to_owned(), "1".to_owned())].into()),
        clone_id: Some("source".into()),
        ..agent.add_external_volume("vol-1", "db")
    };
    agent.register(request.clone()).await.unwrap();
    agent.observe_plugin("other", true).await;
    let stored = |agent: &FakeAgent| serde_json::to_string(&agent.record("db")).unwrap();
    let before = stored(&agent);
    type Change = fn(&mut VolumeRequest);
    let changes: [(Change, &str); 6] = [
        (|request| request.name = Some("other".into()), "volume name cannot be updated"),
        (
            |request| request.external_id = Some(ExternalId::new("vol-2")),
            "volume external ID cannot be updated",
        ),
        (
            |request| request.plugin_id = PluginId::new("other"),
            "volume plugin ID cannot be updated",
        ),
        (|request| request.clone_id = Some("another".into()), "volume clone ID cannot be updated"),
        (
            |request| {
                request.clone_id = None;
                request.snapshot_id = Some("snap".into());
            },
            "volume snapshot ID cannot be updated",
        ),
        (
            |request| request.parameters = Some([("a".to_owned(), "2".to_owned())].into()),
            "volume parameters cannot be updated",
        ),
    ];
    let mut whole = request.clone();
    for (change, text) in changes {
        let mut one = request.clone();
        change(&mut one);
        change(&mut whole);
        for error in [
            agent.register(one.clone()).await.unwrap_err(),
            agent.create(one.clone()).await.unwrap_err(),
        ] {
            assert!(error.text().contains(text), "{text}: {}", error.text());
            assert!(error.text().contains("1 error occurred"), "{text}: {}", error.text());
        }
        assert_eq!(stored(&agent), before, "{text}");
    }
    // A snapshot and a clone exclude each other, so the whole request has all but the clone.
    let error = agent.register(whole).await.unwrap_err().text();
    assert!(error.contains("5 errors occurred"), "{error}");
    for (_, text) in changes.iter().filter(|(_, text)| !text.contains("clone")) {
        assert!(error.contains(text), "{text}: {error}");
    }
    assert_eq!(stored(&agent), before);
}

/// B12: whichever caller writes, external ID and plugin of a volume with claims stay, and a registration is written only
/// into a namespace that exists: the writer of the state refuses it, not only its callers.
#[tokio::test(start_paused = true)]
async fn the_identity_of_a_volume_is_kept_by_the_state_itself() {
    let agent = agent().await;
    let request = VolumeRequest {
        capabilities: vec![capability(AccessMode::SingleNodeWriter, AttachmentMode::FileSystem)],
        ..agent.add_external_volume("vol-1", "db")
    };
    agent.register(request).await.unwrap();
    let claim = crate::claims::MountRequest {
        volume: FakeAgent::key("db"),
        alloc: "a1".into(),
        node: Some(FakeAgent::NODE.into()),
        alias: None,
        read_only: false,
        access_mode: None,
        attachment_mode: None,
        mount_options: None,
    };
    let wait = Duration::from_secs(60);
    agent.services.claims.claim(&claim, wait).await.unwrap();
    let before = agent.record("db").unwrap();
    let update = |change: fn(&mut VolumeRecord)| {
        let mut record = before.clone();
        change(&mut record);
        EventKind::VolumeUpdated {
            definition: Box::new(record.definition),
            provided: Box::new(record.provided),
            secrets: record.secrets,
        }
    };
    for change in [
        (|record: &mut VolumeRecord| record.provided.external_id = Some("vol-2".into()))
            as fn(&mut VolumeRecord),
        |record| record.provided.external_id = None,
        |record| record.definition.plugin_id = "other".into(),
    ] {
        let event = Event::new(1, update(change));
        agent.cell.commit(Expected::Any, event).await.unwrap_err();
    }
    let now = agent.record("db").unwrap();
    assert_eq!((&now.definition, &now.provided), (&before.definition, &before.provided));
    let same = Event::new(1, update(|_| {}));
    agent.cell.commit(Expected::Any, same).await.unwrap();
}

/// B13: all capabilities are stored and sent to the plugin, by create and by register; without one, nothing is.
#[tokio::test(start_paused = true)]
async fn all_capabilities_are_stored_and_sent() {
    let agent = agent().await;
    let sent = record(&agent);
    let several = vec![
        capability(AccessMode::SingleNodeWriter, AttachmentMode::FileSystem),
        capability(AccessMode::MultiNodeReaderOnly, AttachmentMode::FileSystem),
        capability(AccessMode::SingleNodeWriter, AttachmentMode::BlockDevice),
    ];
    let with = |request: VolumeRequest, capabilities: &[Capability]| VolumeRequest {
        capabilities: capabilities.to_vec(),
        ..request
    };
    let registered = agent.add_external_volume("vol-1", "registered");
    for request in [registered, FakeAgent::request("created")] {
        let id = request.id.to_string();
        let none = with(request.clone(), &[]);
        let refused = match id.as_str() {
            "created" => agent.create(none).await,
            _ => agent.register(none).await,
        };
        let expected = "must include at least one capability block";
        assert!(text(refused).contains(expected), "{id}");
        assert_eq!(agent.record(&id), None);
        let request = with(request, &several);
        match id.as_str() {
            "created" => agent.create(request).await.unwrap(),
            _ => agent.register(request).await.unwrap(),
        };
        let stored = agent.record(&id).unwrap().definition.capabilities.to_vec();
        assert_eq!(stored, several, "{id}");
    }
    let validations = sent.validations.lock();
    assert_eq!(validations.len(), 1);
    assert_eq!(validations[0].capabilities, several);
    let creates = sent.creates.lock();
    assert_eq!(creates.len(), 1);
    assert_eq!(creates[0].capabilities, several);
}

/// B94: the registrations of a request are one durable write, and a deregistration of several removes all or none.
#[tokio::test(start_paused = true)]
async fn a_batch_is_one_write_and_all_or_nothing() {
    let agent = agent().await;
    let ids = ["a", "b", "c"];
    let requests = |agent: &FakeAgent| {
        let request = |id: &&str| agent.add_external_volume(&format!("vol-{id}"), id).into();
        ids.iter().map(request).collect::<Vec<_>>()
    };
    let writes = || agent.journal.append_sizes().len();
    let before = writes();
    let all = requests(&agent);
    agent.volumes.register(all).await.unwrap();
    assert_eq!(writes(), before + 1, "several writes for one request");
    // A write that fails leaves nothing.
    let full = AppendFault::NotWritten(JournalErrorKind::DiskFull);
    agent.journal.fail_next([full]);
    let more = ["d", "e"].map(|id| agent.add_external_volume(&format!("vol-{id}"), id).into());
    agent.volumes.register(more.to_vec()).await.unwrap_err();
    assert_eq!([agent.phase("d"), agent.phase("e")], [None, None]);

    let keys = |ids: &[&str]| {
        ids.iter().map(|id| FakeAgent::key(id)).collect::<std::collections::BTreeSet<_>>()
    };
    for (some, named) in [(&["a", "nope"][..], "nope"), (&["nope", "c", "b"], "nope")] {
        let refused = agent.volumes.deregister_all(keys(some), false).await;
        let refused = text(refused);
        assert!(refused.contains("volume not found") && refused.contains(named), "{refused}");
    }
    let claim = crate::claims::MountRequest {
        volume: FakeAgent::key("b"),
        alloc: "a1".into(),
        node: Some(FakeAgent::NODE.into()),
        alias: None,
        read_only: false,
        access_mode: None,
        attachment_mode: None,
        mount_options: None,
    };
    let wait = Duration::from_secs(60);
    agent.services.claims.claim(&claim, wait).await.unwrap();
    let in_use = text(agent.volumes.deregister_all(keys(&ids), false).await);
    assert!(in_use.contains("volume in use: b"), "{in_use}");
    assert!(ids.iter().all(|id| agent.phase(id) == Some(Phase::Registered)));
    let before = writes();
    agent.volumes.deregister_all(keys(&["a", "c"]), false).await.unwrap();
    assert_eq!(writes(), before + 1);
    assert_eq!([agent.phase("a"), agent.phase("c")], [None, None]);
    assert_eq!(agent.phase("b"), Some(Phase::Registered));
}

/// B12: a refused update of either kind has Nomad's texts.
#[tokio::test(start_paused = true)]
async fn a_refused_update_names_every_reason_and_stores_nothing() {
    let agent = agent().await;
    let request = agent.add_external_volume("vol-1", "db");
    agent.register(request.clone()).await.unwrap();
    let before = agent.state();
    let other = VolumeRequest {
        name: Some("other".into()),
        external_id: Some(ExternalId::new("vol-2")),
        ..request.clone()
    };
    let error = agent.register(other.clone()).await.unwrap_err();
    assert_eq!(
        error.text(),
        "unable to update volume: 2 errors occurred:\n\t* volume name cannot be updated\n\t\
         * volume external ID cannot be updated\n\n"
    );
    assert_eq!(
        text(agent.create(other).await),
        "1 error occurred:\n\t* 2 errors occurred:\n\t* volume name cannot be updated\n\t\
         * volume external ID cannot be updated\n\n\n\n"
    );
    let larger = VolumeRequest { capacity: sized(10, 0), ..request };
    assert_eq!(
        text(agent.register(larger).await),
        "unable to update volume: expand is not implemented by this controller plugin"
    );
    assert_eq!(agent.record("db"), before.record(&FakeAgent::key("db")).map(|r| (**r).clone()));
}

/// W20, B26: omitted secrets are kept.
#[tokio::test(start_paused = true)]
async fn omitted_secrets_are_kept() {
    let agent = agent().await;
    let secrets = |pairs: &[(&str, &str)]| Some(pairs.iter().copied().collect::<Secrets>());
    let request = agent.add_external_volume("vol-1", "db");
    for (given, expected) in [
        (secrets(&[("a", "1")]), vec![("a", "1")]),
        (None, vec![("a", "1")]),
        (secrets(&[("b", "2")]), vec![("b", "2")]),
        (secrets(&[]), vec![]),
    ] {
        let request = VolumeRequest { secrets: given, ..request.clone() };
        agent.register(request).await.unwrap();
        let record = agent.record("db").unwrap();
        let stored = agent.sealer.open(&record.key().into(), &record.secrets).unwrap();
        assert_eq!(stored.expose().collect::<Vec<_>>(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn lost_secrets_are_replaced_by_registering_again() {
    let agent = agent().await;
    let request = VolumeRequest {
        secrets: Some(Secrets::from_iter([("a", "1")])),
        ..agent.add_external_volume("vol-1", "db")
    };
    agent.register(request.clone()).await.unwrap();
    let record = agent.record("db").unwrap();
    let foreign = agent.sealer.seal(
        &SecretOwner::Volume(NamespacedId::new(Namespace::default(), "x".into())),
        &Secrets::from_iter([("a", "1")]),
    );
    let damaged = EventKind::VolumeUpdated {
        definition: Box::new(record.definition.clone()),
        provided: Box::new(record.provided.clone()),
        secrets: foreign,
    };
    let event = Event::new(0, damaged);
    agent.cell.commit(Expected::Any, event).await.unwrap();
    let silent = VolumeRequest { secrets: None, ..request.clone() };
    assert_eq!(
        text(agent.register(silent).await),
        "volume `db`: cannot decrypt the stored secrets with this agent's key"
    );
    assert!(text(agent.delete("db").await).contains("cannot decrypt"));
    agent.register(request).await.unwrap();
    agent.delete("db").await.unwrap();
}

/// W08, B10: a change during validation is detected and kept.
#[tokio::test(start_paused = true)]
async fn a_change_in_between_is_kept() {
    let agent = agent().await;
    let request = agent.add_external_volume("vol-1", "db");
    agent.register(request.clone()).await.unwrap();
    agent.backend.inject_faults(Rpc::ValidateVolumeCapabilities, [Fault::Hang]);
    let arrived = agent.backend.calls().len() as u64 + 1;
    let update = VolumeRequest { mount_options: Some(ext4()), ..request };
    let in_between = async {
        agent.backend.wait_for_calls(arrived).await;
        let record = agent.record("db").unwrap();
        let changed = EventKind::VolumeUpdated {
            definition: Box::new(record.definition.clone()),
            provided: Box::new(ProviderFacts {
                capacity: Bytes::new(7).unwrap(),
                ..record.provided
            }),
            secrets: record.secrets,
        };
        let event = Event::new(0, changed);
        agent.cell.commit(Expected::Any, event).await.unwrap();
        agent.backend.release();
    };
    let (result, ()) = tokio::join!(agent.register(update), in_between);
    let volume = result.unwrap().volumes[0].volume();
    assert_eq!(volume.capacity, Bytes::new(7).unwrap());
    assert_eq!(volume.mount_options, Some(ext4().redacted()));
}

/// A claim that comes while the plugin validates is granted for what the registration says until then.
#[tokio::test(start_paused = true)]
async fn what_a_claim_relies_on_stays_although_it_came_during_the_update() {
    let both = [AccessMode::SingleNodeWriter, AccessMode::MultiNodeMultiWriter];
    let both = both.map(|mode| capability(mode, AttachmentMode::FileSystem));
    type Update = fn(&mut VolumeRequest);
    let updates: [(Update, Option<&str>); 3] = [
        (
            |request| request.mount_options = Some(ext4()),
            Some("can not update mount options while volume is in use"),
        ),
        (
            |request| request.capabilities.truncate(1),
            Some("volume requested capabilities update was not compatible"),
        ),
        (|request| request.secrets = Some(Secrets::default()), None),
    ];
    for (change, refused) in updates {
        let agent = agent().await;
        let request = VolumeRequest {
            capabilities: both.to_vec(),
            secrets: Some([("k", "v")].into_iter().collect()),
            ..agent.add_external_volume("vol-1", "db")
        };
        agent.register(request.clone()).await.unwrap();
        let faults = [Fault::Hang];
        agent.backend.inject_faults(Rpc::ValidateVolumeCapabilities, faults);
        let arrived = agent.backend.calls().len() as u64 + 1;
        let mut update = request;
        change(&mut update);
        let in_between = async {
            agent.backend.wait_for_calls(arrived).await;
            claim_on_new_node(&agent, 1).await;
            agent.backend.release();
        };
        let (result, ()) = tokio::join!(agent.register(update), in_between);
        match refused {
            Some(expected) => {
                let found = text(result);
                assert!(found.contains(expected), "{found}");
            }
            None => assert!(result.is_ok(), "{result:?}"),
        }
    }
}

/// W54: a plugin that reports another provider keeps its volumes, and they can still be updated.
#[tokio::test(start_paused = true)]
async fn a_renamed_provider_does_not_block_updates() {
    let agent = agent().await;
    let request = agent.add_external_volume("vol-1", "db");
    agent.register(request.clone()).await.unwrap();
    agent.backend.update_settings(|plugin| plugin.info.name = "renamed.test".into());
    agent.observe(true).await;
    let update = VolumeRequest { mount_options: Some(ext4()), ..request };
    let result = agent.register(update).await.unwrap();
    let volume = result.volumes[0].volume();
    assert_eq!(volume.provider, "renamed.test");
    assert_eq!(volume.mount_options, Some(ext4().redacted()));
}

/// Flags may contain passwords (CIFS). Journals of the first versions have them in the clear: they can
/// be read, and the next change of the options seals them.
#[tokio::test(start_paused = true)]
async fn mount_flags_are_recorded_sealed_and_compared_in_the_clear() {
    let agent = agent().await;
    let flags = || {
        let definition = agent.record("db").unwrap().definition;
        definition.mount_options.unwrap().mount_flags
    };
    let is_sealed = |flags| matches!(flags, RecordedFlags::Sealed(sealed) if !sealed.is_empty());
    let request =
        VolumeRequest { mount_options: Some(ext4()), ..agent.add_external_volume("vol-1", "db") };
    agent.register(request.clone()).await.unwrap();
    assert!(is_sealed(flags()));

    let record = agent.record("db").unwrap();
    let mut definition = record.definition;
    let clear = RecordedFlags::Clear(ext4().mount_flags);
    definition.mount_options =
        Some(RecordedMountOptions { fs_type: ext4().fs_type, mount_flags: clear.clone() });
    let by_version_1 = EventKind::VolumeUpdated {
        definition: Box::new(definition),
        provided: Box::new(record.provided),
        secrets: record.secrets,
    };
    let event = Event::new(0, by_version_1);
    agent.cell.commit(Expected::Any, event).await.unwrap();
    agent.register(request.clone()).await.unwrap();
    assert_eq!(flags(), clear, "an identical request changes nothing");

    let read_only = VolumeRequest {
        mount_options: Some(MountOptions {
            mount_flags: vec!["noatime".into(), "ro".into()],
            ..ext4()
        }),
        ..request
    };
    agent.register(read_only.clone()).await.unwrap();
    assert!(is_sealed(flags()));
    let before = agent.state();
    agent.register(read_only).await.unwrap();
    assert_eq!(agent.state(), before, "sealed flags are compared too");
}

/// B94: all volumes of a request are registered, or none.
#[tokio::test(start_paused = true)]
async fn one_invalid_volume_refuses_the_whole_request() {
    let agent = agent().await;
    let good = agent.add_external_volume("vol-1", "good");
    let bad = VolumeRequest { capabilities: vec![], ..agent.add_external_volume("vol-2", "bad") };
    let both = vec![good.clone().into(), bad.into()];
    assert_eq!(
        text(agent.volumes.register(both).await),
        "volume \"bad\": validation: must include at least one capability block"
    );
    assert_eq!(agent.record("good"), None);
    let twice = vec![good.clone().into(), good.clone().into()];
    assert_eq!(
        text(agent.volumes.register(twice).await),
        "validation: the request contains the volume twice"
    );
    let two = vec![good.into(), agent.add_external_volume("vol-3", "fine").into()];
    let result = agent.volumes.register(two).await.unwrap();
    assert_eq!(result.volumes.len(), 2);
}

/// W13: allowed with a warning, but not while the other one is being deleted.
#[tokio::test(start_paused = true)]
async fn registered_data_is_registered_again_only_on_request_and_with_a_warning() {
    let agent = agent().await;
    agent.register(agent.add_external_volume("vol-1", "one")).await.unwrap();
    let mut two = agent.add_external_volume("vol-1", "two");
    let refused = "volume `two` cannot be registered: external volume `vol-1` is already registered as `one`; \
        if both are meant to use data that already exists, repeat the request with `?share=true`";
    assert_eq!(text(agent.register(two.clone()).await), refused);
    assert_eq!(agent.phase("two"), None);
    two.share = true;
    let result = agent.register(two.clone()).await.unwrap();
    assert_eq!(
        result.warnings,
        [
            "volume `two`: external volume `vol-1` is also registered as `one`; they share their claims, and \
             neither volume can be deleted while the other is registered"
        ]
    );
    assert_eq!(
        text(agent.delete("one").await),
        "volume `one` cannot be deleted: external volume `vol-1` is also registered as `two`"
    );
    assert_eq!(agent.calls().1, 0);
    two.share = false;
    agent.register(two).await.unwrap();
    agent.deregister("two", false).await.unwrap();
    agent.backend.inject_faults(Rpc::DeleteVolume, [Fault::Fail(StatusCode::Internal)]);
    agent.delete("one").await.unwrap_err();
    assert_eq!(
        text(agent.register(agent.add_external_volume("vol-1", "three")).await),
        "volume `three` cannot be registered: external volume `vol-1` is being deleted as `one`"
    );
    agent.delete("one").await.unwrap();
}

/// Neither a batch nor a registration at the same time registers data twice, and nothing of a refused batch stays.
#[tokio::test(start_paused = true)]
async fn a_batch_and_concurrent_requests_register_data_once() {
    let agent = agent().await;
    let [one, two] = ["one", "two"].map(|id| agent.add_external_volume("vol-1", id));
    let batch = |share: bool| -> Vec<VolumeSubmission> {
        let requests = [one.clone(), two.clone()];
        let shared = requests.map(|request| VolumeRequest { share, ..request });
        shared.map(VolumeSubmission::from).into()
    };
    let refused = agent.volumes.register(batch(false)).await.unwrap_err();
    assert!(refused.message().contains("already registered as `one`"), "{refused:?}");
    assert_eq!([agent.phase("one"), agent.phase("two")], [None, None]);
    let (first, second) = tokio::join!(agent.register(one.clone()), agent.register(two.clone()));
    assert_eq!([first.is_ok(), second.is_ok()].iter().filter(|is_ok| **is_ok).count(), 1);
    agent.volumes.register(batch(true)).await.unwrap();
    // What is registered twice already can be sent again.
    agent.volumes.register(batch(false)).await.unwrap();
}

/// A plugin that answers a create with the data of another volume gets no second registration, and its data stays.
#[tokio::test(start_paused = true)]
async fn a_create_that_returns_registered_data_is_refused() {
    for share in [false, true] {
        let agent = agent().await;
        // The fake plugin names its first volume so.
        let known = agent.add_external_volume("fake-1", "known");
        agent.register(known).await.unwrap();
        let request = VolumeRequest { share, ..FakeAgent::request("new") };
        let result = agent.volumes.create(vec![request.into()]).await;
        agent.assert_consistent();
        match (share, result) {
            (false, Err(refused)) => {
                let text = refused.message();
                assert!(text.contains("already registered as `known`"), "{text}");
                assert_eq!(agent.phase("new"), None);
            }
            (true, Ok(_)) => assert_eq!(agent.phase("new"), Some(Phase::Registered)),
            (_, result) => panic!("share {share}: {result:?}"),
        }
        assert_eq!(agent.calls().1, 0, "the data is of another volume");
    }
}

/// B92: a topology is optional. Where the plugin has topologies, a volume without one gives a warning.
#[tokio::test(start_paused = true)]
async fn a_volume_without_a_topology_gives_a_warning_where_the_plugin_has_them() {
    let mut settings = PluginSettings::default();
    for has_topologies in [false, true] {
        settings.plugin.volume_accessibility_constraints = has_topologies;
        let agent = FakeAgent::start(settings.clone()).await.unwrap();
        let request = agent.add_external_volume("vol-1", "db");
        let result = agent.register(request.clone()).await.unwrap();
        let expected = "volume `db`: plugin `fake` has topologies, and the volume has none, so a job can be \
                        placed on a node that cannot reach it; name them in `topology_request`";
        let expected: &[&str] = if has_topologies { &[expected] } else { &[] };
        assert_eq!(result.warnings, expected);
        let zone = Topology { segments: [("zone".to_owned(), "a".to_owned())].into() };
        let with_topology = VolumeRequest {
            topology_request: Some(TopologyRequest { required: vec![zone], preferred: vec![] }),
            ..agent.add_external_volume("vol-2", "web")
        };
        let result = agent.register(with_topology).await.unwrap();
        assert_eq!(result.warnings, Vec::<String>::new());
    }
}

#[tokio::test(start_paused = true)]
async fn mount_options_of_a_block_device_give_a_warning() {
    let agent = agent().await;
    let request = VolumeRequest {
        capabilities: vec![capability(AccessMode::SingleNodeWriter, AttachmentMode::BlockDevice)],
        mount_options: Some(ext4()),
        ..agent.add_external_volume("vol-1", "db")
    };
    let result = agent.register(request).await.unwrap();
    assert_eq!(
        result.warnings,
        [
            "volume `db`: mount options have no effect on a volume that is only used as a block device"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_journal_failure_is_an_error_and_a_retry_succeeds() {
    let agent = agent().await;
    let request = agent.add_external_volume("vol-1", "db");
    agent.journal.fail_next([AppendFault::NotWritten(JournalErrorKind::DiskFull)]);
    let error = agent.register(request.clone()).await.unwrap_err();
    assert_eq!(error.code_and_status().0.as_str(), "journal/disk-full");
    assert_eq!(error.text(), "cannot append to the agent's journal `memory`: an injected fault");
    agent.register(request).await.unwrap();
}

/// W04, W30: an operation that waits too long fails and has no effect.
#[tokio::test(start_paused = true)]
async fn waiting_ends_with_an_error() {
    let limits = VolumeLimits { queue_timeout: Duration::from_secs(10), ..VolumeLimits::default() };
    let agent = agent().await.restart(limits).await.unwrap();
    agent.backend.inject_faults(Rpc::CreateVolume, [Fault::Hang]);
    let second = async {
        agent.backend.wait_for_calls(1).await;
        let start = tokio::time::Instant::now();
        let error = agent.deregister("db", false).await.unwrap_err();
        assert_eq!(start.elapsed(), limits.queue_timeout);
        agent.backend.release();
        error
    };
    let (first, second) = tokio::join!(agent.create(FakeAgent::request("db")), second);
    first.unwrap();
    assert_eq!(second.code_and_status().0.as_str(), "server/busy");
    assert_eq!(
        second.text(),
        "the operation was not started: other operations on volume `db` took longer than 10 s"
    );
}

/// W31: a stop cancels the calls that are still running after its grace period.
#[tokio::test(start_paused = true)]
async fn a_stop_refuses_new_operations_and_aborts_running_ones() {
    let agent = agent().await;
    agent.backend.inject_faults(Rpc::CreateVolume, [Fault::Hang]);
    let running = agent.create(FakeAgent::request("db"));
    let stop = async {
        agent.backend.wait_for_calls(1).await;
        agent.volumes.stop(Duration::from_secs(5)).await;
    };
    let (running, ()) = tokio::join!(running, stop);
    assert_eq!(running.unwrap_err().text(), "the agent is stopping");
    assert_eq!(agent.phase("db"), Some(Phase::Creating));
    let refused = agent.create(FakeAgent::request("other")).await;
    assert_eq!(refused.unwrap_err().code_and_status().0.as_str(), "server/stopping");
}
