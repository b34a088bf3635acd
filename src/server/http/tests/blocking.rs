//! Blocking queries: who is woken by which change, and that no change is missed.

use std::time::Duration;

use futures_util::FutureExt as _;
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::{agent, get};
use crate::cell::Expected;
use crate::fake::FakeAgent;
use nomad_csi_claims::state::samples::{definition, instance, key, provided, registered};
use nomad_csi_claims::state::{Event, EventKind, LockTerms, VariableEvent};
use nomad_csi_model::{
    AllocId, Namespace, NamespacedId, NodeId, PluginId, PluginInstance, SealedSecrets, VariableKey,
    VariablePath,
};
use nomad_csi_ports::Clock as _;

async fn record(agent: &FakeAgent, kind: EventKind) -> u64 {
    let committed = agent.cell.commit(Expected::Any, Event::new(agent.clock.now(), kind));
    committed.await.unwrap()
}

fn updated(key: &NamespacedId, external_id: &str) -> EventKind {
    EventKind::VolumeUpdated {
        definition: Box::new(definition(key)),
        provided: Box::new(provided(external_id)),
        secrets: SealedSecrets::default(),
    }
}

fn observed(plugin: &str) -> EventKind {
    EventKind::PluginAllocObserved {
        plugin: PluginId::new(plugin),
        node: NodeId::new("n1"),
        instance: Box::new(PluginInstance {
            alloc_id: AllocId::new(format!("task-{plugin}")),
            ..instance(true)
        }),
    }
}

fn variable(path: &str, event: VariableEvent) -> EventKind {
    EventKind::Variable {
        key: VariableKey::new(Namespace::default(), VariablePath::new(path)),
        event,
    }
}

fn written() -> VariableEvent {
    let items = SealedSecrets::default();
    VariableEvent::Written { items }
}

fn locked() -> VariableEvent {
    VariableEvent::LockAcquired {
        items: SealedSecrets::default(),
        terms: LockTerms { id: "mine".to_owned(), ttl: 15_000_000_000, delay: 1 },
    }
}

const READS: [&str; 12] = [
    "/v1/volume/csi/db",
    "/v1/volume/csi/later",
    "/v1/volumes?type=csi",
    "/v1/volumes?type=csi&prefix=d",
    "/v1/volumes?type=csi&namespace=*",
    "/v1/volumes?type=csi&plugin_id=other",
    "/v1/plugin/csi/hostpath",
    "/v1/plugins?type=csi",
    "/v1/plugins?type=csi&prefix=o",
    "/v1/var/app/x",
    "/v1/vars",
    "/v1/vars?prefix=app/",
];

/// Returns the reads that this change wakes, by their numbers in [`READS`].
async fn woken_by(agent: &FakeAgent, kind: EventKind) -> Vec<usize> {
    let index = agent.cell.index();
    let wait = |path: &&str| {
        let join = if path.contains('?') { '&' } else { '?' };
        let uri = format!("{path}{join}index={index}&wait=60s");
        Box::pin(async move { get(agent, &uri).await })
    };
    let mut waiting: Vec<_> = READS.iter().map(wait).collect();
    for read in &mut waiting {
        assert!(read.now_or_never().is_none());
    }
    record(agent, kind).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mut woken = vec![];
    for (number, read) in waiting.into_iter().enumerate() {
        woken.extend(read.now_or_never().map(|_| number));
    }
    woken
}

/// B97: a list with any of its filters can be waited on.
#[tokio::test(start_paused = true)]
async fn a_change_wakes_only_reads_that_show_it() {
    let agent = agent().await;
    let (db, web) = (key("default", "db"), key("default", "web"));
    record(&agent, registered(&db, "1")).await;
    record(&agent, observed("hostpath")).await;
    record(&agent, variable("app/x", written())).await;
    record(&agent, variable("app/x", locked())).await;
    let renewed = || VariableEvent::LockRenewed { id: "mine".to_owned() };
    for (kind, expected) in [
        (updated(&db, "2"), &[0, 2, 3, 4, 5][..]),
        (registered(&web, "3"), &[2, 4, 5]),
        (registered(&key("prod", "db"), "4"), &[4]),
        (registered(&key("default", "later"), "5"), &[1, 2, 4, 5]),
        // Plugins determine the health of volumes.
        (observed("hostpath"), &[0, 1, 2, 3, 4, 6, 7]),
        (observed("other"), &[2, 3, 4, 5, 7, 8]),
        (variable("app/y", written()), &[10, 11]),
        (variable("else", written()), &[10]),
        (variable("app/x", renewed()), &[]),
    ] {
        let name = kind.name();
        assert_eq!(woken_by(&agent, kind).await, expected, "{name}");
    }
    let released = VariableEvent::LockReleased { id: "mine".to_owned() };
    let woken = woken_by(&agent, variable("app/x", released)).await;
    assert_eq!(woken, [9, 10, 11]);
}

/// A client that is behind the index of the table is answered at once, as by Nomad.
#[tokio::test(start_paused = true)]
async fn a_read_behind_the_index_of_the_table_does_not_wait() {
    let agent = agent().await;
    let db = key("default", "db");
    let seen = record(&agent, registered(&db, "1")).await;
    let now = record(&agent, registered(&key("default", "web"), "2")).await;
    let start = Instant::now();
    let answer = get(&agent, &format!("/v1/volume/csi/db?index={seen}&wait=60s")).await;
    assert_eq!((answer.index(), start.elapsed()), (now, Duration::ZERO));
}

/// A read without a volume waits until the volume exists, and then for its plugin too.
#[tokio::test(start_paused = true)]
async fn a_read_with_an_index_ahead_waits_for_it() {
    let agent = agent().await;
    let ahead = agent.cell.index() + 2;
    let uri = format!("/v1/volume/csi/db?index={ahead}&wait=60s");
    let read = get(&agent, &uri);
    let change = async {
        record(&agent, registered(&key("default", "db"), "1")).await;
        record(&agent, variable("else", written())).await;
        record(&agent, observed("hostpath")).await
    };
    let (answer, changed) = tokio::join!(read, change);
    assert_eq!((answer.status, answer.index()), (200, changed));
}

const READERS: usize = 1000;
const CHANGES: usize = 500;

/// Reads a volume again and again, and returns the index of every change.
async fn follow(agent: std::sync::Arc<FakeAgent>, id: String, changes: usize) -> Vec<u64> {
    let mut index = agent.cell.index();
    let mut seen = vec![];
    while seen.len() < changes {
        let uri = format!("/v1/volume/csi/{id}?index={index}&wait=300s");
        let answer = get(&agent, &uri).await;
        index = answer.index();
        let document: Value = answer.json();
        seen.push(document["ModifyIndex"].as_u64().unwrap());
    }
    seen
}

/// Each change wakes one of the readers, whose response is complete before the next change: the paused
/// clock advances only when nothing is left to do.
#[tokio::test(start_paused = true)]
async fn a_thousand_readers_miss_no_change_and_see_no_other() {
    let agent = std::sync::Arc::new(agent().await);
    let keys: Vec<_> = (0..READERS).map(|n| key("default", &format!("v{n}"))).collect();
    for key in &keys {
        record(&agent, registered(key, "0")).await;
    }
    let of = |number: usize| number * 7919 % READERS;
    let mut expected = vec![vec![]; READERS];
    (0..CHANGES).for_each(|number| expected[of(number)].push(0));
    let mut readers = JoinSet::new();
    for (at, changes) in expected.iter().map(Vec::len).enumerate() {
        let reader = follow(agent.clone(), format!("v{at}"), changes);
        readers.spawn(async move { (at, reader.await) });
    }
    expected.iter_mut().for_each(Vec::clear);
    for number in 0..CHANGES {
        tokio::time::sleep(Duration::from_millis(10)).await;
        let index = record(&agent, updated(&keys[of(number)], "1")).await;
        expected[of(number)].push(index);
    }
    let mut seen = vec![vec![]; READERS];
    while let Some(ended) = readers.join_next().await {
        let (at, changes) = ended.unwrap();
        seen[at] = changes;
    }
    assert_eq!(seen, expected);
}
