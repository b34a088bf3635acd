//! Every place of a state that has something sealed, and what is shared.

use std::collections::HashSet;
use std::convert::Infallible;

use super::*;
use crate::claim::{Claims, Tombstone};
use crate::state::samples::jobs::{alloc_placed, job_key, job_registered};
use crate::state::samples::{create_intended, key, node_registered, registered, state_of};
use crate::state::{EventKind, IntentRequest, JobEvent, Subject, VariableEvent};
use nomad_csi_model::{ExternalId, PluginId, RemoteVolume, VariableKey, VariablePath};

/// Begins what is sealed with the old key, and with the new one. In JSON it is hexadecimal.
const OLD: &[u8] = b"sealed with the old key: ";
const NEW: &[u8] = b"sealed with the new key: ";

fn old(what: &str) -> SealedSecrets {
    SealedSecrets::new([OLD, what.as_bytes()].concat())
}

/// Replaces [`OLD`] by [`NEW`] and the owner.
struct Replace;

impl Reseal for Replace {
    type Error = Infallible;

    fn secrets(
        &self,
        owner: &SecretOwner,
        sealed: &SealedSecrets,
    ) -> Result<SealedSecrets, Infallible> {
        let what = sealed.as_bytes().strip_prefix(OLD).unwrap();
        let owner = owner.to_string();
        Ok(SealedSecrets::new([NEW, owner.as_bytes(), b": ", what].concat()))
    }

    fn flags(&self, owner: &SecretOwner, flags: &SealedFlags) -> Result<SealedFlags, Infallible> {
        Ok(SealedFlags {
            sealed: self.secrets(owner, &flags.sealed)?,
            fingerprint: "new".to_owned(),
        })
    }
}

fn flags(what: &str) -> SealedFlags {
    SealedFlags { sealed: old(what), fingerprint: "old".to_owned() }
}

/// A claim and a staging, as an agent records them.
fn claims(volume: &NamespacedId) -> Claims {
    let capability = serde_json::json!({
        "access_mode": "single-node-writer",
        "attachment_mode": "file-system",
    });
    let usage = |what| {
        serde_json::json!({
            "capability": capability, "fs_type": "cifs",
            "flags": serde_json::to_value(flags(what)).unwrap(),
        })
    };
    let call = serde_json::json!({"index": 3, "is_setup": true, "instance": "p1"});
    let volume_json = serde_json::to_value(volume).unwrap();
    let mut claims: Claims = serde_json::from_value(serde_json::json!({
        "claims": [[{"alloc": "a1", "alias": "data"}, {
            "volume": volume_json, "node": "n1", "usage": usage("flags of the claim"),
            "read_only": false, "intent": "hold", "granted_at": 1,
        }]],
        "stagings": {"n1": {
            "volume": volume_json, "usage": usage("flags of the staging"), "state": "yes",
            "call": call,
        }},
        "attachments": {"n1": {
            "external_node": "i-1", "state": "yes", "call": call,
            "made_for": {
                "volume": volume_json, "usage": usage("flags of the attachment"), "read_only": false,
            },
        }},
    }))
    .unwrap();
    claims.tombstones.push(Tombstone {
        volume: volume.clone(),
        secrets: old("secrets of the tombstone"),
        since: 1,
    });
    claims
}

/// A state with something sealed in every place, as it is written to a snapshot.
fn sealed_everywhere() -> State {
    let (db, job) = (key("prod", "db"), job_key("web"));
    let variable = VariableKey::new("prod".into(), VariablePath::new("app/db"));
    let written = VariableEvent::Written { items: old("items") };
    let EventKind::Job { event, .. } = job_registered(&job) else {
        panic!("it is the event of a job");
    };
    let JobEvent::Registered { job: given, .. } = *event else {
        panic!("it is a registration");
    };
    let registration = |settings: &str| EventKind::Job {
        job: job.clone(),
        event: Box::new(JobEvent::Registered {
            job: given.clone(),
            settings: old(settings),
            earlier: 1,
        }),
    };
    let mut volume = registered(&db, "vol-1");
    if let EventKind::VolumeRegistered { definition, secrets, .. } = &mut volume {
        *secrets = old("secrets");
        definition.mount_options.as_mut().unwrap().mount_flags =
            RecordedFlags::Sealed(old("flags"));
    }
    let mut state = state_of([
        volume,
        EventKind::Variable { key: variable, event: written },
        registration("settings of the earlier version"),
        registration("settings"),
        node_registered(0),
        alloc_placed(&job, "a1", "node-0"),
    ]);
    state.store(StoredRecord::Claims(Arc::new(ClaimsRecord {
        volume: RemoteVolume {
            plugin_id: PluginId::new("hostpath"),
            external_id: ExternalId::new("vol-1"),
        },
        claims: claims(&db),
        modify_index: 4,
        modify_time: 4,
    })));
    state
}

fn text(records: &[(Subject, Option<StoredRecord>)]) -> String {
    let json = |record: &StoredRecord| match record {
        StoredRecord::Acl(record) => serde_json::to_string(&**record),
        StoredRecord::Alloc(_, record) => serde_json::to_string(record),
        StoredRecord::Claims(record) => serde_json::to_string(&**record),
        StoredRecord::Job(record) => serde_json::to_string(&**record),
        StoredRecord::Namespace(record) => serde_json::to_string(&**record),
        StoredRecord::Node(record) => serde_json::to_string(record),
        StoredRecord::Plugin(_, record) => serde_json::to_string(record),
        StoredRecord::Variable(record) => serde_json::to_string(&**record),
        StoredRecord::Volume(record) => serde_json::to_string(&**record),
    };
    let records = records.iter().filter_map(|(_, record)| record.as_ref());
    records.map(|record| json(record).unwrap()).collect()
}

fn count(text: &str, sealed: &[u8]) -> usize {
    let digits: String = nomad_csi_model::hex(sealed).collect();
    text.matches(&digits).count()
}

#[test]
fn nothing_stays_sealed_with_the_old_key() {
    let state = sealed_everywhere();
    let before = text(&SnapshotChanges::complete(&state).records);
    // Secrets, flags, items, settings of two versions of the job and of its allocation, claim, staging, attachment, tombstone.
    assert_eq!((count(&before, OLD), count(&before, NEW)), (10, 0));
    let Ok(resealed) = ResealedState::new(&state, &Replace);
    let after = text(&resealed.snapshot.records);
    assert_eq!((count(&after, OLD), count(&after, NEW)), (0, 10));
    assert_eq!(resealed.sealed, 9, "job and allocation share their settings");
    let fingerprints = ["old", "new"].map(|one| after.matches(&format!(r#""{one}""#)).count());
    assert_eq!(fingerprints, [0, 3], "fingerprints are those of the new key");
}

/// The next call of an intent has a fingerprint of the new key, and would pass for another request.
#[test]
fn no_request_of_an_open_intent_has_a_fingerprint_of_the_old_key() {
    let instance = Some("p1".into());
    let request = || Some(IntentRequest { fingerprint: "old".to_owned(), has_new_instance: false });
    let mut created = create_intended(&key("prod", "new"));
    if let EventKind::VolumeCreateIntended { instance: of, request: with, .. } = &mut created {
        (*of, *with) = (instance.clone(), request());
    }
    let db = key("prod", "db");
    let state = state_of([
        created,
        registered(&db, "vol-1"),
        EventKind::VolumeExpandIntended {
            key: db.clone(),
            to: Default::default(),
            instance: instance.clone(),
            request: request(),
        },
        EventKind::VolumeModifyIntended {
            key: db.clone(),
            parameters: Default::default(),
            instance,
            request: request(),
        },
    ]);
    let of_intents = |records: &[(Subject, Option<StoredRecord>)]| {
        let text = text(records);
        [r#""instance":"p1""#, r#""request":"old""#].map(|part| text.matches(part).count())
    };
    assert_eq!(of_intents(&SnapshotChanges::complete(&state).records), [3, 3]);
    let Ok(resealed) = ResealedState::new(&state, &Replace);
    assert_eq!(of_intents(&resealed.snapshot.records), [3, 0], "the instances stay");
}

#[test]
fn everything_else_stays_as_it_is() {
    let state = sealed_everywhere();
    let complete = SnapshotChanges::complete(&state);
    let Ok(resealed) = ResealedState::new(&state, &Replace);
    assert_eq!(resealed.snapshot.numbers, complete.numbers);
    assert_eq!(resealed.snapshot.objects, complete.objects);
    let subjects = |changes: &SnapshotChanges| -> HashSet<Subject> {
        changes.records.iter().map(|(one, _)| one.clone()).collect()
    };
    assert_eq!(subjects(&resealed.snapshot), subjects(&complete));
}
