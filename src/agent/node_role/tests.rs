//! What a node reports of plugins behind endpoints that an earlier run of its agent has used.

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::timeout;

use std::os::unix::net::UnixListener;
use std::time::Duration;

use super::*;
use crate::agent::DataDirSetting;
use crate::agent::directory::DataDir;
use crate::agent::plugin_endpoint::PluginEndpoint;
use crate::agent::running_plugin::task_id;
use crate::agent::tasks::TaskDrivers;
use nomad_csi_claims::state::samples::instance;
use nomad_csi_node::TaskDriver as _;
use nomad_csi_node::driver::RunningPlugin;
use nomad_csi_ports::ReportRefused;
use nomad_csi_server::NodeEvents;
use nomad_csi_testing::FakeClock;

const PLUGIN: &str = "ebs";

/// A report, by its health or `gone`.
type Reports = Vec<(PluginId, String)>;

/// Servers that refuse the first reports.
#[derive(Default)]
struct Servers {
    refusals: Mutex<usize>,
    reports: watch::Sender<Reports>,
}

impl Servers {
    fn record(&self, plugin: &PluginId, report: String) -> Result<(), ReportRefused> {
        let mut refusals = self.refusals.lock();
        if *refusals > 0 {
            *refusals -= 1;
            return Err(ReportRefused { reason: "this node is connected to no server".to_owned() });
        }
        self.reports.send_modify(|reports| reports.push((plugin.clone(), report)));
        Ok(())
    }

    async fn until_reported(&self) {
        let mut reports = self.reports.subscribe();
        let waited = reports.wait_for(|reports| !reports.is_empty());
        assert!(timeout(Duration::from_secs(3600), waited).await.is_ok(), "nothing is reported");
    }

    fn all(&self) -> Reports {
        self.reports.borrow().clone()
    }
}

#[async_trait::async_trait]
impl PluginObserver for Servers {
    async fn changed(
        &self,
        plugin: &PluginId,
        _: &NodeId,
        instance: PluginInstance,
    ) -> Result<(), ReportRefused> {
        assert!(!instance.health.healthy, "nothing answers in these tests");
        self.record(plugin, instance.health.description)
    }

    async fn gone(&self, plugin: &PluginId, _: &AllocId) -> Result<(), ReportRefused> {
        self.record(plugin, "gone".to_owned())
    }
}

/// The directory of a node whose earlier run has reported a healthy plugin.
struct Bed {
    directory: tempfile::TempDir,
    dirs: AgentDirs,
    node: Node,
}

impl Bed {
    async fn after_a_healthy_plugin() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let data = DataDirSetting::Persistent(directory.path().join("data"));
        let dirs = AgentDirs::create_dirs(DataDir::prepare(&data).unwrap(), None).unwrap();
        let bed = Self { directory, dirs, node: Node::new("n1".into(), "machine", "dc1") };
        let accepting = Arc::new(Accepting);
        let instances = EndpointInstances::new(bed.dirs.plugin_records(), accepting);
        let healthy = PluginInstance { alloc_id: bed.task(), ..instance(true) };
        instances.changed(&PLUGIN.into(), &bed.node.id, healthy).await.unwrap();
        bed
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("csi.sock")
    }

    fn task(&self) -> AllocId {
        task_id(&self.node.id, &self.socket())
    }

    /// Records this process as that of the plugin. Its socket is gone afterwards.
    async fn record_living_process(&self) {
        let listener = UnixListener::bind(self.socket()).unwrap();
        let file = self.dirs.running_process(&self.task());
        let plugin = RunningPlugin::new(PLUGIN.into(), self.socket(), file, Duration::ZERO);
        plugin.start().await.unwrap();
        drop(listener);
        std::fs::remove_file(self.socket()).unwrap();
    }

    /// Records a process of an earlier boot.
    fn record_ended_process(&self) {
        let file = self.dirs.running_process(&self.task());
        let ended = br#"{"pid":1,"start_time":1,"boot_id":"earlier"}"#;
        nomad_csi_model::private::replace(&file, ended).unwrap();
    }

    /// Starts the supervision with the endpoint in the configuration, or without it.
    async fn start(
        &self,
        is_used: bool,
        servers: &Arc<Servers>,
        stop: &CancellationToken,
    ) -> JoinSet<()> {
        let mut config = AgentConfig::embedded(self.directory.path().join("data"), None).unwrap();
        if is_used {
            let endpoint = PluginEndpoint { id: Some(PLUGIN.into()), socket: self.socket() };
            config.plugin_endpoints = vec![endpoint];
        }
        let clock: Arc<dyn Clock> = Arc::new(FakeClock::default());
        let ids: Arc<dyn IdSource> = Arc::new(RandomIds);
        let own = (Arc::new(self.node.clone()), HostSession::new("session"));
        let side = ServerSide {
            plugins: servers.clone(),
            mounts: Arc::new(NodeEvents::new(clock.clone())).of_node(self.node.id.clone()),
            sent: Arc::new(NoSentSecrets),
        };
        let metrics = Arc::new(AgentMetrics::default());
        let tools = NodeTools { clock: clock.clone(), ids: ids.clone(), metrics };
        let parts = NodeParts::new(&self.dirs, own, TaskDrivers::new(), side, tools);
        let supervised = (&self.node, &parts, servers.clone() as Arc<dyn PluginObserver>);
        let started = supervise_endpoints(&config, &self.dirs, supervised, (clock, ids), stop);
        started.await.unwrap()
    }

    /// Runs the node until it has reported something, stops its supervisor, and returns all reports.
    async fn run(&self, is_used: bool, refusals: usize) -> Reports {
        let servers = Arc::new(Servers { refusals: Mutex::new(refusals), ..Servers::default() });
        let stop = CancellationToken::new();
        let running = self.start(is_used, &servers, &stop).await;
        if is_used {
            servers.until_reported().await;
            stop.cancel();
        }
        // Reports of what is not used end by themselves.
        let ended = timeout(Duration::from_secs(3600), running.join_all()).await;
        assert!(ended.is_ok(), "a report is not accepted");
        servers.all()
    }

    fn remembers(&self) -> bool {
        let instances = EndpointInstances::new(self.dirs.plugin_records(), Arc::new(Accepting));
        let recorded = instances.recorded();
        assert!(recorded.iter().all(|(_, instance)| instance.alloc_id == self.task()));
        !recorded.is_empty()
    }
}

/// Servers that accept everything.
struct Accepting;

#[async_trait::async_trait]
impl PluginObserver for Accepting {
    async fn changed(
        &self,
        _: &PluginId,
        _: &NodeId,
        _: PluginInstance,
    ) -> Result<(), ReportRefused> {
        Ok(())
    }

    async fn gone(&self, _: &PluginId, _: &AllocId) -> Result<(), ReportRefused> {
        Ok(())
    }
}

fn texts(reports: &Reports) -> Vec<&str> {
    reports.iter().map(|(_, text)| text.as_str()).collect()
}

/// A supervisor that knew nothing of it would report neither.
#[tokio::test(start_paused = true)]
async fn a_plugin_that_ended_while_the_agent_was_down_is_unhealthy_and_then_gone() {
    let bed = Bed::after_a_healthy_plugin().await;
    bed.record_ended_process();
    let reports = bed.run(true, 0).await;
    let [unhealthy, gone] = texts(&reports)[..] else { panic!("{reports:?}") };
    assert!(unhealthy.contains("nothing listens on"), "{unhealthy}");
    assert_eq!(gone, "gone");
    assert!(!bed.remembers());
}

#[tokio::test(start_paused = true)]
async fn a_plugin_whose_process_still_runs_is_unhealthy_and_stays() {
    for is_used in [true, false] {
        let bed = Bed::after_a_healthy_plugin().await;
        bed.record_living_process().await;
        let reports = bed.run(is_used, 0).await;
        let [unhealthy] = texts(&reports)[..] else { panic!("{reports:?}") };
        let expected = match is_used {
            true => "nothing listens on",
            false => {
                "the node was started without the plugin in its `plugin_endpoints`, and process"
            }
        };
        assert!(unhealthy.contains(expected), "{unhealthy}");
        assert!(bed.remembers(), "the next start reports its end");
    }
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_is_not_used_any_more_is_gone_with_its_process() {
    let bed = Bed::after_a_healthy_plugin().await;
    bed.record_ended_process();
    let reports = bed.run(false, 0).await;
    assert_eq!(reports, [(PluginId::from(PLUGIN), "gone".to_owned())]);
    assert!(!bed.remembers());
}

/// Only the operator knows whether it runs.
#[tokio::test(start_paused = true)]
async fn a_plugin_without_a_record_of_its_process_stays() {
    let bed = Bed::after_a_healthy_plugin().await;
    let reports = bed.run(false, 0).await;
    let [unhealthy] = texts(&reports)[..] else { panic!("{reports:?}") };
    assert!(unhealthy.contains("it is not on record which process it is"), "{unhealthy}");
    assert!(bed.remembers());
}

#[tokio::test(start_paused = true)]
async fn a_report_that_is_refused_is_made_again() {
    let bed = Bed::after_a_healthy_plugin().await;
    bed.record_ended_process();
    let reports = bed.run(false, 3).await;
    assert_eq!(texts(&reports), ["gone"]);
    assert!(!bed.remembers());
}

/// Otherwise the end of an instance that a server has is never reported.
#[tokio::test]
async fn what_is_not_remembered_is_not_reported() {
    let directory = tempfile::tempdir().unwrap();
    let servers = Arc::new(Servers::default());
    let missing = directory.path().join("missing");
    let instances = EndpointInstances::new(missing, servers.clone());
    let reported = instances.changed(&PLUGIN.into(), &"n1".into(), instance(false)).await;
    let reason = reported.unwrap_err().reason;
    assert!(reason.contains("the node cannot remember the plugin"), "{reason}");
    assert_eq!(servers.all(), []);
}

#[tokio::test]
async fn an_instance_stays_remembered_until_its_end_is_accepted() {
    let bed = Bed::after_a_healthy_plugin().await;
    let servers = Arc::new(Servers { refusals: Mutex::new(1), ..Servers::default() });
    let instances = EndpointInstances::new(bed.dirs.plugin_records(), servers);
    instances.gone(&PLUGIN.into(), &bed.task()).await.unwrap_err();
    assert!(bed.remembers());
    instances.gone(&PLUGIN.into(), &bed.task()).await.unwrap();
    assert!(!bed.remembers());
}
