//! The journal of an earlier version with secrets in clear, and what a start leaves of them.

use std::path::Path;

use super::super::directory::{journal_file, key_file};
use super::*;
use nomad_csi_claims::state::samples::jobs::{
    alloc_placed, alloc_reported, job_key, job_registered,
};
use nomad_csi_claims::state::samples::{key, node_registered, registered, started};
use nomad_csi_claims::state::{
    AllocEvent, Event, EventKind, JobEvent, RecordedFlags, RecordedMountOptions, State,
};
use nomad_csi_model::{
    AllocId, ClientStatus, JobVolume, JobVolumeKind, MountOptions, SecretOwner, Secrets,
    VolumeAlias,
};

const ALLOC: &str = "5fc98185-17ff-26bc-a802-0c74fa471c99";
const FLAG: &str = "password=canary-flag";

fn volume() -> SecretOwner {
    SecretOwner::from(&key("default", "db"))
}

/// Returns what an earlier version has recorded.
fn clear_events(sealer: &KeySealer) -> Vec<Event> {
    let mut volume_registered = registered(&key("default", "db"), "vol-1");
    if let EventKind::VolumeRegistered { definition, provided, secrets } = &mut volume_registered {
        *secrets = sealer.seal(&volume(), &Secrets::from_iter([("k", "canary-secret")]));
        definition.mount_options = Some(RecordedMountOptions {
            fs_type: "cifs".to_owned(),
            mount_flags: RecordedFlags::Clear(vec![FLAG.to_owned()]),
        });
        provided.context = [("login".to_owned(), "user:canary-secret".to_owned())].into();
    }
    let web = job_key("web");
    let mut job = job_registered(&web);
    if let EventKind::Job { event, .. } = &mut job
        && let JobEvent::Registered { job, settings, .. } = &mut **event
    {
        let taken = Secrets::from_iter([(
            "0/0",
            r#"{"environment":{},"config":{"command":"canary-command"}}"#,
        )]);
        *settings = sealer.seal(&SecretOwner::Job(web.clone()), &taken);
        let volume = JobVolume {
            source: "db".to_owned(),
            read_only: false,
            per_alloc: false,
            sticky: false,
            kind: JobVolumeKind::Csi {
                access_mode: None,
                attachment_mode: None,
                mount_options: Some(MountOptions {
                    fs_type: String::new(),
                    mount_flags: vec![FLAG.to_owned()],
                }),
            },
        };
        job.groups[0].volumes.insert(VolumeAlias::new("data"), volume);
    }
    let mut report = alloc_reported(ALLOC, ClientStatus::Running);
    if let EventKind::PlacedAlloc { event, .. } = &mut report
        && let AllocEvent::Reported { report } = &mut **event
    {
        report.description = "cannot start canary-command".to_owned();
    }
    let node = node_registered(0);
    let EventKind::NodeRegistered { node: known } = &node else {
        panic!("the sample registers a node");
    };
    let placed = alloc_placed(&web, ALLOC, known.id.as_str());
    // An update that replaces no allocation: only the number of them changes.
    let mut scaled = job.clone();
    if let EventKind::Job { event, .. } = &mut scaled
        && let JobEvent::Registered { job, .. } = &mut **event
    {
        job.groups[0].count = 2;
    }
    let kinds = [started(), node, volume_registered, job, placed, report, scaled];
    kinds.into_iter().map(|kind| Event::new(1, kind)).collect()
}

async fn state_in(data: &Path) -> State {
    let journal = EmbeddedJournal::open(journal_file(data)).await.unwrap();
    let held = journal.load().await.unwrap();
    journal.close().await.unwrap();
    replay(held.snapshot, held.events).unwrap()
}

async fn start(data: &Path) {
    let journal = EmbeddedJournal::open(journal_file(data)).await.unwrap();
    seal_clear_secrets(key_file(data), &journal).await.unwrap();
    assert!(journal.is_sealed().await.unwrap());
    journal.close().await.unwrap();
}

fn has_canary(data: &Path) -> bool {
    let bytes = std::fs::read(journal_file(data)).unwrap();
    bytes.windows(7).any(|window| window == b"canary-")
}

#[tokio::test]
async fn no_byte_of_the_journal_is_a_secret_after_the_first_start() {
    let data = tempfile::tempdir().unwrap();
    let data = data.path();
    let sealer = KeySealer::open(&key_file(data), None).unwrap();
    let journal = EmbeddedJournal::open(journal_file(data)).await.unwrap();
    let events = clear_events(&sealer);
    journal.append(2, events.into()).await.unwrap();
    journal.close().await.unwrap();
    nomad_csi_server::store::forget_that_it_is_sealed(&journal_file(data));
    assert!(has_canary(data));
    let before = state_in(data).await;
    start(data).await;
    assert!(!has_canary(data));
    let after = state_in(data).await;
    assert_eq!(after.index(), before.index());
    let open = |sealed| sealer.open(&volume(), sealed).unwrap();
    let record = after.record(&key("default", "db")).unwrap();
    let options = record.definition.mount_options.as_ref().unwrap();
    let flags = open(options.sealed().unwrap());
    assert_eq!(flags.expose().map(|(_, flag)| flag).collect::<Vec<_>>(), [FLAG]);
    let shown = record.provided.context.to_shown_map();
    assert_eq!(shown["login"], MountOptions::REDACTED);
    let version = &after.job(&job_key("web")).unwrap().current;
    let placed = &after.alloc(&AllocId::new(ALLOC)).unwrap().placement;
    let placed = &placed.as_ref().unwrap().job;
    assert_eq!((placed.version, version.version), (0, 1));
    assert_eq!(placed.settings, version.settings, "the allocation would be replaced");
    let owner = SecretOwner::Job(version.key());
    let settings = sealer.open(&owner, &version.settings).unwrap();
    let job = version.job.with_settings(&settings).unwrap();
    let kind = &job.groups[0].volumes[&VolumeAlias::new("data")].kind;
    let JobVolumeKind::Csi { mount_options, .. } = kind else {
        panic!("{kind:?}");
    };
    assert_eq!(mount_options.as_ref().unwrap().mount_flags, [FLAG]);
    let config = job.groups[0].tasks[0].config.expose();
    assert_eq!(config["command"], "canary-command");
    let alloc = after.alloc(&AllocId::new(ALLOC)).unwrap();
    let placement = alloc.placement.as_ref().unwrap();
    assert_eq!(placement.job.job.groups[0].tasks, version.job.groups[0].tasks);
    let report = placement.report.as_ref().unwrap();
    assert_eq!(report.description, "cannot start [REDACTED]");
    let bytes = std::fs::read(journal_file(data)).unwrap();
    start(data).await;
    assert_eq!(std::fs::read(journal_file(data)).unwrap().len(), bytes.len());
}
