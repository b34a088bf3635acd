//! Every request of an apply comes to every harm, with one oracle.
//!
//! The apply that meets it may fail; if it says that it succeeded, it has. Whatever it said, a second
//! apply ends with what is wanted: one volume of the provider's for each on record, none left over,
//! none made twice (W05; `nomad-http-api` 10.1, item 11), all of them and nothing else in the set's
//! ledger, no step left open there, and a plan that is empty. The client is a process, and death is
//! `kill -9`. The agent is the real one over the strict fake plugin.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use nomad_csi::model::{
    Bytes, CapacityRange, ControllerCapabilities, ExternalId, Namespace, SetName, VolumeRequest,
};
use nomad_csi::nomad::{NomadClient, NomadLedger, Settings as ClientSettings};
use nomad_csi::plan::{LedgerKey, LedgerSet, Ownership};
use nomad_csi::ports::fake::Settings;
use nomad_csi::ports::{Ledger as _, RandomIds};
use nomad_csi::reconcile::SetLedger;
use nomad_csi::server::fake::FakeAgent;
use nomad_csi::server::http::router;
use nomad_csi::state::{Phase, violations};

use crate::support::client_process::{Ended, run};
use crate::support::road::{Harm, Road};

/// So many processes at once: most of their time goes by waiting.
const AT_ONCE: usize = 16;
/// Longer than a lock outlives whoever held it.
const LOCK_IS_OVER: Duration = Duration::from_secs(60);

/// What is there, and what is wanted.
struct Scene {
    name: &'static str,
    /// Volumes that the provider makes before.
    there: &'static [&'static str],
    /// One of them that the set owns and no file names; its data stays.
    pruned: Option<&'static str>,
    specification: &'static str,
    /// Beside `apply -f`, in the first run and in the second.
    words: [&'static [&'static str]; 2],
    /// What is on record in the end.
    wanted: &'static [&'static str],
    /// The requests that change a volume, with nothing in their way.
    writes: &'static [&'static str],
    /// The size of the volume `old` in the end, in bytes.
    size: u64,
}

const GROWING: Scene = Scene {
    name: "create, register, expand",
    there: &["old"],
    pruned: None,
    specification: r#"
volume "new" {
  type      = "csi"
  name      = "new"
  plugin_id = "fake"
  capability {
    access_mode     = "single-node-writer"
    attachment_mode = "file-system"
  }
}
volume "found" {
  type        = "csi"
  name        = "found"
  plugin_id   = "fake"
  external_id = "vol-1"
  capability {
    access_mode     = "single-node-writer"
    attachment_mode = "file-system"
  }
}
volume "old" {
  type         = "csi"
  name         = "old-name"
  plugin_id    = "fake"
  capacity_min = "2MiB"
  capacity_max = "4MiB"
  capability {
    access_mode     = "single-node-writer"
    attachment_mode = "file-system"
  }
}
"#,
    words: [&[], &[]],
    wanted: &["found", "new", "old"],
    writes: &[
        "PUT /v1/volume/csi/new/create?namespace=default",
        "PUT /v1/volume/csi/found?namespace=default",
        "PUT /v1/volume/csi/old?namespace=default",
    ],
    size: 2 << 20,
};

const REPLACING: Scene = Scene {
    name: "replace after a snapshot, delete, prune",
    there: &["dropped", "old", "unwanted"],
    pruned: Some("dropped"),
    specification: r#"
volume "old" {
  type         = "csi"
  name         = "old-name"
  plugin_id    = "fake"
  capacity_min = "1MiB"
  capacity_max = "4MiB"
  capability {
    access_mode     = "single-node-writer"
    attachment_mode = "file-system"
  }
}
"#,
    words: [
        &[
            "--replace",
            "old",
            "--snapshot-first",
            "--delete-data",
            "unwanted",
            "--prune",
            "--max-risk",
            "destroys-data",
        ],
        &[
            "--delete-data",
            "unwanted",
            "--prune",
            "--max-risk",
            "destroys-data",
        ],
    ],
    wanted: &["old"],
    writes: &[
        "PUT /v1/volumes/snapshot?namespace=default",
        "DELETE /v1/volume/csi/old/delete?namespace=default",
        "PUT /v1/volume/csi/old/create?namespace=default",
        "DELETE /v1/volume/csi/dropped?force=false&namespace=default",
        "DELETE /v1/volume/csi/unwanted/delete?namespace=default",
    ],
    size: 1 << 20,
};

/// The agent, the way to it, and the directory of the client.
struct Stage {
    agent: FakeAgent,
    road: Road,
    directory: tempfile::TempDir,
    /// What is to stay with the provider although nothing on record names it.
    left: Option<String>,
}

impl Stage {
    async fn set(scene: &Scene) -> Self {
        let agent = FakeAgent::start(Settings {
            controller: Some(ControllerCapabilities {
                create_delete_volume: true,
                create_delete_snapshot: true,
                expand_volume: true,
                ..ControllerCapabilities::default()
            }),
            ..Settings::default()
        });
        let agent = agent.await.unwrap();
        for id in scene.there {
            let request = VolumeRequest {
                capacity: CapacityRange {
                    min: Bytes::new(1 << 20).unwrap(),
                    max: Bytes::new(4 << 20).unwrap(),
                },
                ..FakeAgent::request(id)
            };
            agent.volumes.create(vec![request.into()]).await.unwrap();
        }
        let found = scene.wanted.contains(&"found");
        if found {
            let id = ExternalId::new("vol-1");
            agent.backend.add_volume(id, Default::default());
        }
        let road = Road::to(router(agent.services.clone())).await;
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("volumes.hcl"), scene.specification).unwrap();
        let mut stage = Self {
            agent,
            road,
            directory,
            left: None,
        };
        if let Some(id) = scene.pruned {
            stage.own(id).await;
        }
        stage
    }

    /// The set owns a volume, whose data is to stay.
    async fn own(&mut self, id: &str) {
        let name = SetName::parse("web").unwrap();
        let ledger = Arc::new(self.ledger());
        let opened = SetLedger::open(ledger, name, Arc::new(RandomIds)).await;
        let key = FakeAgent::key(id);
        let own = |set: &mut LedgerSet| set.own(key.clone(), Ownership::default());
        opened.unwrap().update(own).await.unwrap();
        let state = self.agent.state();
        let external = state.record(&key).unwrap().provided.external_id.as_ref();
        self.left = Some(external.unwrap().to_string());
    }

    fn ledger(&self) -> NomadLedger {
        let client = NomadClient::new(&ClientSettings::new(self.road.url())).unwrap();
        client.ledger(Namespace::default())
    }

    async fn client(&self, words: &[&str], harm: Option<(usize, Harm)>) -> Ended {
        let directory: &Path = self.directory.path();
        let kill = self.road.expect(harm);
        run(self.road.url(), directory, words, &kill).await
    }

    async fn apply(&self, scene: &Scene, time: usize, harm: Option<(usize, Harm)>) -> Ended {
        let apply = [
            "apply",
            "-f",
            "volumes.hcl",
            "--set",
            "web",
            "--yes",
            "--parallelism",
            "1",
        ];
        let words = [&apply[..], scene.words[time]].concat();
        self.client(&words, harm).await
    }

    /// What is not as it should be in the ledger.
    async fn ledger_wrongs(&self, scene: &Scene) -> Vec<String> {
        let name = SetName::parse("web").unwrap();
        let stored = self.ledger().read(&name).await;
        let set = LedgerSet::read(name, &stored.unwrap(), LedgerKey::new([1; 32])).unwrap();
        let owned: Vec<_> = set.owned().map(|(key, _)| key.id.as_str()).collect();
        let open = set
            .intents()
            .map(|(key, intent)| format!("{key}: {intent:?}"));
        let open: Vec<_> = open.collect();
        let mut wrongs = vec![];
        if owned != scene.wanted {
            wrongs.push(format!("owned: {owned:?}"));
        }
        if !open.is_empty() {
            wrongs.push(format!("left open: {open:?}"));
        }
        wrongs
    }

    /// What is not as it should be with the agent and the provider.
    fn wrongs(&self, scene: &Scene) -> Vec<String> {
        let state = self.agent.state();
        let mut wrongs = violations(&state);
        let ids: Vec<_> = state
            .records()
            .map(|record| record.key().id.as_str())
            .collect();
        if ids != scene.wanted {
            wrongs.push(format!("on record: {ids:?}"));
        }
        if state
            .records()
            .any(|record| record.phase != Phase::Registered)
        {
            wrongs.push("a volume is between two phases".to_owned());
        }
        let remote = |id: Option<&ExternalId>| id.map(ToString::to_string);
        let on_record: BTreeSet<_> = state
            .records()
            .filter_map(|record| remote(record.provided.external_id.as_ref()))
            .chain(self.left.clone())
            .collect();
        let provided = self.agent.backend.volumes();
        let provided: BTreeSet<_> = provided.iter().map(|v| v.external_id.to_string()).collect();
        let expected = scene.wanted.len() + usize::from(self.left.is_some());
        if on_record != provided || provided.len() != expected {
            wrongs.push(format!(
                "on record: {on_record:?}; in the provider: {provided:?}"
            ));
        }
        let snapshots = self.agent.backend.snapshots();
        if snapshots.len() > 1 {
            wrongs.push(format!("snapshots: {snapshots:?}"));
        }
        let sizes = state
            .records()
            .filter(|record| record.key().id.as_str() == "old");
        let sizes: Vec<_> = sizes.map(|record| record.provided.capacity.get()).collect();
        if sizes != [scene.size] {
            wrongs.push(format!("sizes of `old`: {sizes:?}"));
        }
        wrongs
    }
}

/// Which requests an apply makes that meets no harm.
async fn requests(scene: &Scene) -> Vec<String> {
    let stage = Stage::set(scene).await;
    let ended = stage.apply(scene, 0, None).await;
    assert_eq!(ended.code, Some(0), "{}: {}", scene.name, ended.said);
    let asked = stage.road.asked();
    assert_eq!(stage.wrongs(scene), Vec::<String>::new(), "{}", scene.name);
    let is_write = |line: &&String| !line.starts_with("GET") && line.contains("/v1/volume");
    let writes = asked.iter().filter(is_write);
    assert_eq!(writes.collect::<Vec<_>>(), scene.writes, "{}", scene.name);
    asked
}

/// What is wrong after that harm; nothing if all is well.
async fn suffer(scene: &Scene, at: usize, harm: Harm) -> Vec<String> {
    let stage = Stage::set(scene).await;
    let first = stage.apply(scene, 0, Some((at, harm))).await;
    stage.road.deliver().await;
    stage.agent.clock.advance(LOCK_IS_OVER);
    let mut wrongs = vec![];
    let dies = matches!(harm, Harm::DeathBefore | Harm::DeathAfter);
    if dies != first.code.is_none() {
        wrongs.push(format!("its death: {:?}", first.code));
    }
    if first.code == Some(0) {
        wrongs.extend(stage.wrongs(scene));
    }
    let second = stage.apply(scene, 1, None).await;
    if second.code != Some(0) {
        wrongs.push(format!(
            "the second apply: {:?}: {}",
            second.code, second.said
        ));
    }
    wrongs.extend(stage.wrongs(scene));
    wrongs.extend(stage.ledger_wrongs(scene).await);
    let plan = ["plan", "-f", "volumes.hcl", "--set", "web"];
    let plan = stage.client(&plan, None).await;
    if plan.code != Some(0) {
        wrongs.push(format!("the plan: {:?}: {}", plan.code, plan.said));
    }
    if !wrongs.is_empty() {
        wrongs.push(format!("the first apply: {:?}: {}", first.code, first.said));
    }
    wrongs
}

async fn every_harm(scene: &Scene) {
    let requests = requests(scene).await;
    let cases = requests.iter().enumerate().flat_map(|(at, line)| {
        let harms = Harm::all_to(line).iter();
        harms.map(move |harm| (at, line, *harm))
    });
    let outcomes = stream::iter(cases)
        .map(async |(at, line, harm)| {
            (
                format!("{harm:?} of {at}: {line}"),
                suffer(scene, at, harm).await,
            )
        })
        .buffer_unordered(AT_ONCE);
    let bad: Vec<_> = outcomes
        .filter(|(_, wrongs)| std::future::ready(!wrongs.is_empty()))
        .collect()
        .await;
    assert!(
        bad.is_empty(),
        "{}: {} of them end badly: {bad:#?}\nall requests: {requests:#?}",
        scene.name,
        bad.len()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_happens_on_the_way_nothing_is_made_twice_or_left_over() {
    every_harm(&GROWING).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_happens_on_the_way_what_goes_is_gone_and_what_is_replaced_is_there() {
    every_harm(&REPLACING).await;
}
