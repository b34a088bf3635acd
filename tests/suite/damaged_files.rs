//! Damaged journals and catalogues: each opens with its whole content, or is refused in words.
//!
//! `NOMAD_CSI_DAMAGES` is the number of damages of each file (default 200).

use std::collections::BTreeMap;
use std::path::Path;

use nomad_csi_claims::state::samples::History;
use nomad_csi_claims::state::{Event, SnapshotChanges, State, replay};
use nomad_csi_hostpath::{ProfileOptions, serve};
use nomad_csi_proto as proto;
use nomad_csi_server::store::EmbeddedJournal;
use nomad_csi_server::{Journal as _, JournalError};
use nomad_csi_testing::FakeMounter;
use tokio::sync::oneshot;

use crate::support::damage::damage;
use crate::support::hostpath::{PluginFixture, TestHost, config};
use crate::support::plugin_client::{Client, channel, named};
use crate::support::random::Random;

fn seeds() -> u64 {
    let text = std::env::var("NOMAD_CSI_DAMAGES").ok();
    text.and_then(|text| text.parse().ok()).unwrap_or(200)
}

/// How the damages of a file ended.
#[derive(Debug, Default)]
struct Outcomes {
    whole: u64,
    refused: BTreeMap<String, u64>,
    other_content: Vec<u64>,
}

impl Outcomes {
    fn add<T: PartialEq>(&mut self, seed: u64, expected: &T, found: Result<T, String>) {
        match found {
            Ok(found) if found == *expected => self.whole += 1,
            Ok(_) => self.other_content.push(seed),
            Err(message) => {
                assert!(!message.trim().is_empty(), "seed {seed}: no reason");
                let kind: String = message.chars().filter(|c| !c.is_ascii_digit()).collect();
                *self.refused.entry(kind).or_default() += 1;
            }
        }
    }

    #[expect(clippy::print_stdout, reason = "a run reports its counts")]
    fn assert_none_differs(&self, file: &str) {
        println!("{file}: {self:#?}");
        assert!(self.whole > 0 && !self.refused.is_empty(), "{self:?}");
        assert_eq!(self.other_content, [0_u64; 0], "{file}: {self:?}");
    }
}

/// How many events of the history the journal has.
const WRITTEN: usize = 400;

fn history() -> Vec<Event> {
    History::new(7).take(WRITTEN + 20).collect()
}

/// Writes a journal with a snapshot and later events.
async fn write_journal(path: &Path) {
    let events = &history()[..WRITTEN];
    let journal = EmbeddedJournal::open(path).await.unwrap();
    journal.append(2, events[..250].into()).await.unwrap();
    let snapshot = replay(None, events[..250].to_vec()).unwrap();
    let changes = SnapshotChanges::complete(&snapshot);
    journal.write_snapshot(changes).await.unwrap();
    journal.append(252, events[250..].into()).await.unwrap();
    journal.close().await.unwrap();
}

/// Reads a journal, appends to it and takes a snapshot. Returns the state before and after that.
async fn read_journal(path: &Path) -> Result<(State, State), String> {
    let refused = |error: JournalError| format!("{error}: {}", error.source);
    let journal = EmbeddedJournal::open(path).await.map_err(refused)?;
    let content = journal.load().await.map_err(refused)?;
    let before = replay(content.snapshot, content.events).map_err(|error| error.to_string())?;
    let more: Vec<_> = history()[WRITTEN..].to_vec();
    let appended = journal.append(before.index() + 1, more.into()).await;
    appended.map_err(refused)?;
    let content = journal.load().await.map_err(refused)?;
    let after = replay(content.snapshot, content.events).map_err(|error| error.to_string())?;
    let changes = SnapshotChanges::complete(&after);
    journal.write_snapshot(changes).await.map_err(refused)?;
    Ok((before, after))
}

#[tokio::test]
async fn a_damaged_journal_has_its_whole_content_or_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journal.redb");
    write_journal(&path).await;
    let states = [WRITTEN, WRITTEN + 20].map(|end| replay(None, history()[..end].to_vec()));
    let [before, after] = states.map(Result::unwrap);
    let expected = (before, after);
    let whole = std::fs::read(&path).unwrap();
    let mut outcomes = Outcomes::default();
    for seed in 0..seeds() {
        let mut bytes = whole.clone();
        damage(&mut bytes, &mut Random(seed));
        std::fs::write(&path, bytes).unwrap();
        outcomes.add(seed, &expected, read_journal(&path).await);
    }
    outcomes.assert_none_differs("journal");
}

/// What a plugin reports: volumes and snapshots.
type Content =
    (Vec<proto::list_volumes_response::Entry>, Vec<proto::list_snapshots_response::Entry>);

async fn content(client: &mut Client) -> Result<Content, String> {
    let refused = |status: tonic::Status| status.message().to_owned();
    let volumes = proto::ListVolumesRequest::default();
    let volumes = client.controller.list_volumes(volumes).await;
    let snapshots = proto::ListSnapshotsRequest::default();
    let snapshots = client.controller.list_snapshots(snapshots).await;
    Ok((
        volumes.map_err(refused)?.into_inner().entries,
        snapshots.map_err(refused)?.into_inner().entries,
    ))
}

/// Starts a plugin on a directory, reads its content, and stops it.
async fn read_catalogue(directory: &Path, host: &TestHost) -> Result<Content, String> {
    let config = config(directory);
    let socket = config.socket().to_owned();
    let (stop, stopped) = oneshot::channel::<()>();
    let stopped = async { drop(stopped.await) };
    let served = tokio::spawn(serve(config, host.plugin_host(), stopped));
    while tokio::net::UnixStream::connect(&socket).await.is_err() {
        if served.is_finished() {
            let ended = served.await.unwrap();
            return Err(ended.expect_err("it ended by itself").to_string());
        }
        tokio::task::yield_now().await;
    }
    let mut client = Client::over(channel(&socket));
    let mut found = content(&mut client).await;
    if found.is_ok() {
        let deleted = async {
            let id = client.try_create(named("later")).await?;
            client.delete(&id).await
        };
        if let Err(status) = deleted.await {
            found = Err(status.message().to_owned());
        }
    }
    drop(stop);
    drop(served.await.unwrap());
    found
}

#[tokio::test]
async fn a_damaged_catalogue_has_its_whole_content_or_is_refused() {
    let host = TestHost::without_devices(FakeMounter::new());
    let mut fixture = PluginFixture::on_host(host.clone(), ProfileOptions::default()).await;
    for number in 0..40 {
        let id = fixture.client.create(&format!("volume-{number}")).await;
        if number % 4 == 0 {
            let name = format!("snapshot-{number}");
            fixture.client.snapshot(&name, &id).await.unwrap();
        }
    }
    let expected = content(&mut fixture.client).await.unwrap();
    let PluginFixture { directory, plugin, .. } = fixture;
    plugin.stop().await;
    let path = directory.path().join("state/catalog.redb");
    let whole = std::fs::read(&path).unwrap();
    let mut outcomes = Outcomes::default();
    for seed in 0..seeds() {
        let mut bytes = whole.clone();
        damage(&mut bytes, &mut Random(seed));
        std::fs::write(&path, bytes).unwrap();
        outcomes.add(seed, &expected, read_catalogue(directory.path(), &host).await);
    }
    outcomes.assert_none_differs("catalogue");
}
