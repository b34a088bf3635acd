use parking_lot::Mutex;

use tokio::sync::Notify;
use tokio::time::{Instant, advance};

use super::*;
use crate::claims::MountRequest;
use crate::fake::FakeAgent;
use nomad_csi_model::{
    AccessMode, Condition, ExternalId, NodeCapabilities, Quantity, ReportedQuantity, StatsUnit,
};
use nomad_csi_ports::{
    CallMeasurements, Measurements, MetricsSource, Rpc, StatusCode, VolumeHealthCounts,
};
use nomad_csi_testing::{Fault, PluginSettings, ReportedStats};

const RPC: Rpc = Rpc::NodeGetVolumeStats;
const LONG: Duration = Duration::from_secs(30);

fn reporting() -> PluginSettings {
    PluginSettings {
        node: Some(NodeCapabilities {
            stage_unstage_volume: true,
            get_volume_stats: true,
            ..NodeCapabilities::default()
        }),
        ..PluginSettings::default()
    }
}

fn mount(volume: &str, node: &str, alloc: &str) -> MountRequest {
    MountRequest {
        volume: FakeAgent::key(volume),
        alloc: AllocId::new(alloc),
        node: Some(NodeId::new(node)),
        alias: None,
        read_only: false,
        access_mode: None,
        attachment_mode: None,
        mount_options: None,
    }
}

async fn claim(agent: &FakeAgent, volume: &str, node: &str, alloc: &str) {
    let claims = &agent.services.claims;
    let claimed = claims.claim(&mount(volume, node, alloc), LONG).await;
    let claimed = claimed.unwrap().claim.unwrap();
    assert_eq!(claimed.published, Known::Yes, "{claimed:?}");
}

async fn release(agent: &FakeAgent, volume: &str, alloc: &str) {
    let claims = &agent.services.claims;
    let key = FakeAgent::key(volume);
    let alloc = AllocId::new(alloc);
    let released = claims.release(&key, &alloc, None, LONG);
    assert_eq!(released.await.unwrap().0, 0, "it is not released");
}

/// An agent with volumes for several writers: `v0` is `fake-1` of the plugin, and so on.
async fn agent_with(settings: PluginSettings, volumes: usize) -> FakeAgent {
    let agent = FakeAgent::start(settings).await.unwrap();
    agent.add_node().await;
    for number in 0..volumes {
        let mut request = FakeAgent::request(&format!("v{number}"));
        request.capabilities[0].access_mode = AccessMode::MultiNodeMultiWriter;
        agent.volumes.create(vec![request.into()]).await.unwrap();
    }
    agent
}

fn used(bytes: i64) -> ReportedStats {
    let quantity =
        |unit, used, total| ReportedQuantity { unit, total, used, available: total - used };
    ReportedStats {
        quantities: vec![
            quantity(StatsUnit::Bytes, bytes, 1000),
            quantity(StatsUnit::Inodes, 1, 10),
        ],
        condition: None,
    }
}

fn shown(used: u64) -> VolumeStats {
    let quantity = |used, total: u64| Quantity {
        total: Some(total),
        used: Some(used),
        available: Some(total - used),
    };
    VolumeStats {
        bytes: Some(quantity(used, 1000)),
        inodes: Some(quantity(1, 10)),
        ..VolumeStats::default()
    }
}

async fn read(agent: &FakeAgent, volume: &str) -> PublishedStats {
    let claims = &agent.services.claims;
    claims.volume_stats(&FakeAgent::key(volume)).await.unwrap()
}

/// W56: each node on which the volume is published is asked, at the paths that were recorded: the fake refuses others.
/// Two allocations on a node are one question.
#[tokio::test(start_paused = true)]
async fn the_nodes_where_a_volume_is_published_are_asked() {
    let agent = agent_with(reporting(), 1).await;
    let (here, there) = (FakeAgent::NODE, FakeAgent::SECOND_NODE);
    let external = agent.backend.settings().description.external_node_id;
    let id = ExternalId::new("fake-1");
    agent.backend.set_stats(external, id.clone(), used(400));
    let second = FakeAgent::second_external_node();
    agent.backend.set_stats(second, id, used(700));
    assert_eq!(read(&agent, "v0").await, PublishedStats::default());
    assert_eq!(agent.backend.count(RPC), 0, "it is published nowhere");
    claim(&agent, "v0", here, "a1").await;
    claim(&agent, "v0", here, "a2").await;
    claim(&agent, "v0", there, "a3").await;
    let report = read(&agent, "v0").await;
    let at = |node: &str, used| (NodeId::new(node), shown(used));
    assert_eq!(report.nodes, [at(here, 400), at(there, 700)]);
    assert_eq!(report.unknown, Vec::<String>::new());
    assert_eq!(agent.backend.count(RPC), 2);
    for alloc in ["a1", "a2"] {
        release(&agent, "v0", alloc).await;
    }
    assert_eq!(read(&agent, "v0").await.nodes, [at(there, 700)]);
    let missing = FakeAgent::key("no");
    let missing = agent.services.claims.volume_stats(&missing);
    let missing = missing.await;
    assert!(matches!(missing, Err(ServerError::NoVolumeToRead)));
}

/// A plugin without the capability is not asked, also where it reports a condition; one that is not healthy is unknown.
#[tokio::test(start_paused = true)]
async fn only_a_healthy_plugin_with_the_capability_is_asked() {
    for (get_volume_stats, volume_condition) in
        [(false, false), (true, false), (false, true), (true, true)]
    {
        let mut settings = reporting();
        if let Some(node) = &mut settings.node {
            node.get_volume_stats = get_volume_stats;
            node.volume_condition = volume_condition;
        }
        let agent = agent_with(settings, 1).await;
        claim(&agent, "v0", FakeAgent::NODE, "a1").await;
        let reports = get_volume_stats || volume_condition;
        let claims = &agent.services.claims;
        assert_eq!(claims.reports_stats(&FakeAgent::PLUGIN.into()), reports);
        let report = read(&agent, "v0").await;
        assert_eq!(report.nodes.len(), usize::from(reports));
        assert_eq!(report.unknown, Vec::<String>::new());
        assert_eq!(agent.backend.count(RPC), usize::from(reports));
        agent.observe(false).await;
        let report = read(&agent, "v0").await;
        assert_eq!(agent.backend.count(RPC), usize::from(reports));
        assert_eq!((report.nodes.len(), report.unknown.len()), (0, usize::from(reports)));
    }
}

/// W56: nonsense and refusals are unknown, and the answer of the other node is shown.
#[tokio::test(start_paused = true)]
async fn what_a_node_does_not_tell_is_unknown_and_fails_nothing_else() {
    let agent = agent_with(reporting(), 1).await;
    claim(&agent, "v0", FakeAgent::NODE, "a1").await;
    claim(&agent, "v0", FakeAgent::SECOND_NODE, "a2").await;
    for fault in [
        Fault::Fail(StatusCode::Internal),
        Fault::Fail(StatusCode::Unimplemented),
        Fault::LoseReply,
        Fault::Hang,
    ] {
        agent.backend.inject_faults(RPC, [fault]);
        let report = read(&agent, "v0").await;
        let counts = (report.nodes.len(), report.unknown.len());
        assert_eq!(counts, (1, 1), "{fault:?}: {report:?}");
    }
    let external = agent.backend.settings().description.external_node_id;
    let nonsense = ReportedStats {
        condition: Some(Condition { abnormal: true, message: "slow".to_owned() }),
        ..used(-1)
    };
    agent.backend.set_stats(external, "fake-1".into(), nonsense);
    let report = read(&agent, "v0").await;
    let (_, here) = &report.nodes[0];
    assert_eq!(here.bytes, None);
    assert_eq!(here.inodes, shown(0).inodes);
    assert_eq!(here.problems, ["the plugin reports -1 used bytes, which is negative"]);
}

/// W56: while plugins do not answer about statistics, volumes are mounted and unmounted at once, this one and others.
#[tokio::test(start_paused = true)]
async fn statistics_that_hang_delay_no_mount() {
    let agent = agent_with(reporting(), 2).await;
    let here = FakeAgent::NODE;
    claim(&agent, "v0", here, "a1").await;
    agent.backend.inject_faults(RPC, [Fault::Hang; 40]);
    let claims = agent.services.claims.clone();
    let before = agent.backend.calls().len() as u64;
    let asked: Vec<_> = (0..40)
        .map(|_| {
            let claims = claims.clone();
            tokio::spawn(async move { claims.volume_stats(&FakeAgent::key("v0")).await })
        })
        .collect();
    let limit = MAX_ASKED as u64;
    agent.backend.wait_for_calls(before + limit).await;
    let begun = Instant::now();
    claim(&agent, "v0", here, "a2").await;
    claim(&agent, "v1", here, "a3").await;
    claim(&agent, "v0", FakeAgent::SECOND_NODE, "a4").await;
    for (volume, alloc) in [("v0", "a1"), ("v0", "a2"), ("v1", "a3"), ("v0", "a4")] {
        release(&agent, volume, alloc).await;
    }
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    assert_eq!(agent.backend.count(RPC), MAX_ASKED, "others wait their turn");
    for one in asked {
        let report = one.await.unwrap().unwrap();
        assert_eq!((report.nodes.len(), report.unknown.len()), (0, 1));
    }
    assert!(begun.elapsed() <= Duration::from_secs(20), "{:?}", begun.elapsed());
}

/// A sample asks a plugin on a node a few questions at once, and gives up in time.
#[tokio::test(start_paused = true)]
async fn a_sample_is_bounded_in_calls_and_time() {
    let agent = agent_with(reporting(), 20).await;
    for number in 0..20 {
        let volume = format!("v{number}");
        claim(&agent, &volume, FakeAgent::NODE, &format!("a{number}")).await;
    }
    claim(&agent, "v0", FakeAgent::SECOND_NODE, "b").await;
    agent.backend.inject_faults(RPC, [Fault::Hang; 30]);
    let claims = agent.services.claims.clone();
    let begun = Instant::now();
    let sampling = tokio::spawn(async move { claims.sample_stats().await });
    let first = SAMPLED_CALLS + 1;
    while agent.backend.count(RPC) < first {
        tokio::task::yield_now().await;
    }
    advance(Duration::from_secs(9)).await;
    assert_eq!(agent.backend.count(RPC), first, "more are asked at once");
    let sample = sampling.await.unwrap();
    assert_eq!(begun.elapsed(), SAMPLE_TIME);
    assert_eq!((sample.stats.len(), sample.unknown), (0, 21));
    agent.backend.clear_faults();
    let external = agent.backend.settings().description.external_node_id;
    for number in 1..=20 {
        let id = ExternalId::new(format!("fake-{number}"));
        agent.backend.set_stats(external.clone(), id, used(number));
    }
    let sample = agent.services.claims.sample_stats().await;
    let key = |volume: &str, node| (FakeAgent::key(volume), NodeId::new(node));
    let of = |volume: &str| sample.stats.get(&key(volume, FakeAgent::NODE));
    assert_eq!(of("v6"), Some(&shown(7)));
    assert_eq!((sample.stats.len(), sample.unknown), (20, 1), "one reports nothing");
}

/// Metrics that count their samples.
#[derive(Debug, Default)]
struct FakeMetrics {
    reads: Arc<Notify>,
    samples: Mutex<Vec<VolumeStatsSample>>,
}

impl CallMeasurements for FakeMetrics {
    fn plugin_call(&self, _: &str, _: &str, _: StatusCode, _: Duration) {}
}

impl Measurements for FakeMetrics {
    fn request(&self, _: &str, _: bool, _: u16, _: Duration) {}
    fn journal_write(&self, _: usize, _: bool, _: Duration) {}
    fn snapshot_write(&self, _: bool, _: Duration) {}
    fn volume_health(&self, _: VolumeHealthCounts) {}
    fn volume_stats(&self, sample: VolumeStatsSample) {
        self.samples.lock().push(sample);
    }
}

impl MetricsSource for FakeMetrics {
    fn metrics(&self) -> String {
        self.reads.notify_waiters();
        String::new()
    }

    fn reads(&self) -> Arc<Notify> {
        self.reads.clone()
    }
}

/// A reading asks no plugin itself. Samples follow readings, at most one per minute, drop volumes that are gone, and are
/// not shown for ever.
#[tokio::test(start_paused = true)]
async fn samples_follow_readings_and_do_not_last() {
    let agent = agent_with(reporting(), 1).await;
    let external = agent.backend.settings().description.external_node_id;
    agent.backend.set_stats(external, "fake-1".into(), used(5));
    claim(&agent, "v0", FakeAgent::NODE, "a1").await;
    let metrics = Arc::new(FakeMetrics::default());
    let services = agent.services.clone().with_metrics(metrics.clone());
    let pass = async |seconds| {
        for _ in 0..seconds {
            advance(Duration::from_secs(1)).await;
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
        }
    };
    let series = || {
        let samples = metrics.samples.lock();
        let counts = samples.iter().map(|sample| sample.stats.len());
        counts.collect::<Vec<_>>()
    };
    pass(1).await;
    assert_eq!(series(), [0_usize; 0], "without a reader");
    let before = agent.backend.count(RPC);
    services.metrics();
    assert_eq!(agent.backend.count(RPC), before, "a reading asked a plugin");
    pass(1).await;
    assert_eq!(series(), [1]);
    for _ in 0..30 {
        services.metrics();
        pass(1).await;
    }
    assert_eq!(series(), [1], "a minute has not passed");
    pass(40).await;
    services.metrics();
    pass(1).await;
    assert_eq!(series(), [1, 1]);
    release(&agent, "v0", "a1").await;
    pass(65).await;
    services.metrics();
    pass(1).await;
    assert_eq!(series(), [1, 1, 0], "the volume is published nowhere");
    claim(&agent, "v0", FakeAgent::NODE, "a2").await;
    pass(65).await;
    services.metrics();
    pass(1).await;
    assert_eq!(series(), [1, 1, 0, 1]);
    pass(400).await;
    assert_eq!(series(), [1, 1, 0, 1, 0], "it is shown without a reader");
}
