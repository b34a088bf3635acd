use std::path::Path;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;
use tokio::task::JoinHandle;

use super::*;
use crate::driver::RunningPlugin;
use crate::fakes::{
    FakeConnector, FakeDriver, FakeObserver, ProbeResponse, plugin_named, set_probe_response,
};
use crate::volume_call_locks::VolumeCallLocks;
use nomad_csi_model::Health;
use nomad_csi_ports::{PluginDirectory as _, RandomIds, SystemClock};
use nomad_csi_testing::{FakeBackend, NothingSent};

struct TestBed {
    plugin: Arc<FakeBackend>,
    driver: Arc<FakeDriver>,
    connector: Arc<FakeConnector>,
    registry: Arc<Registry>,
    observer: Arc<FakeObserver>,
    stop: CancellationToken,
}

impl TestBed {
    fn new() -> Self {
        let plugin = plugin_named("fake.csi.example");
        Self {
            driver: Arc::default(),
            connector: Arc::new(FakeConnector {
                plugin: plugin.clone(),
                sockets: Mutex::default(),
            }),
            registry: Arc::new(Registry::new(VolumeCallLocks::new("session".into()))),
            observer: Arc::default(),
            stop: CancellationToken::new(),
            plugin,
        }
    }

    fn supervise(
        &self,
        recorded: Option<PluginInstance>,
    ) -> (watch::Receiver<TaskStatus>, JoinHandle<()>) {
        let (task, deps) = self.task_and_deps(recorded);
        let supervisor = Supervisor::new(task, deps);
        let status = supervisor.status();
        (status, tokio::spawn(supervisor.run(self.stop.clone())))
    }

    fn task_and_deps(&self, recorded: Option<PluginInstance>) -> (PluginTask, SupervisorDeps) {
        let task = PluginTask {
            plugin: "p".into(),
            node: "here".into(),
            task: "task".into(),
            socket: "/run/p.sock".into(),
            health_timeout: (!self.driver.runs_already).then_some(PluginTask::HEALTH_TIMEOUT),
            recorded,
        };
        let deps = SupervisorDeps {
            driver: self.driver.clone(),
            connector: self.connector.clone(),
            sent: Arc::new(NothingSent),
            registry: self.registry.clone(),
            observer: self.observer.clone(),
            clock: Arc::new(SystemClock),
            ids: Arc::new(RandomIds),
        };
        (task, deps)
    }

    async fn is_registered(&self) -> bool {
        self.registry.instance(&"p".into(), &"task".into()).await.is_some()
    }

    async fn end(&self, run: JoinHandle<()>) {
        self.stop.cancel();
        run.await.unwrap();
        assert!(self.driver.all_ended(), "a process is still running");
        assert!(!self.is_registered().await);
    }
}

/// B62: a plugin is registered only after its first healthy fingerprint. B70: when supervision ends, it
/// is reported as gone.
#[tokio::test(start_paused = true)]
async fn a_plugin_is_registered_once_it_is_healthy() {
    let bed = TestBed::new();
    set_probe_response(&bed.plugin, ProbeResponse::Unavailable);
    let (status, run) = bed.supervise(None);
    bed.driver.until_started(1).await;
    let reason = wait_until_healthy(status.clone(), Duration::from_secs(7)).await.unwrap_err();
    assert_eq!(reason, "Probe failed with Unavailable: scripted Unavailable");
    assert!(!bed.is_registered().await);
    assert!(bed.observer.reports().is_empty(), "an unhealthy first report creates nothing");

    set_probe_response(&bed.plugin, ProbeResponse::Ready);
    wait_until_healthy(status.clone(), Duration::from_secs(10)).await.unwrap();
    assert!(bed.is_registered().await);
    assert_eq!(bed.observer.reports(), ["healthy"]);
    assert_eq!(bed.driver.started(), 1);
    bed.end(run).await;
    assert_eq!(bed.observer.reports(), ["healthy", "gone"], "reported as gone");
    assert_eq!(*status.borrow(), TaskStatus::Stopped);
}

/// B63: after the health timeout the plugin is restarted. W42: it is supervised again exactly once.
#[tokio::test(start_paused = true)]
async fn a_plugin_that_never_becomes_healthy_is_restarted() {
    let bed = TestBed::new();
    set_probe_response(&bed.plugin, ProbeResponse::NotReady);
    let begun = Instant::now();
    let (status, run) = bed.supervise(None);
    bed.driver.until_started(2).await;
    let waited = begun.elapsed();
    assert!(waited >= PluginTask::HEALTH_TIMEOUT && waited < Duration::from_secs(40), "{waited:?}");
    let reason = wait_until_healthy(status, Duration::from_secs(600)).await.unwrap_err();
    assert_eq!(
        reason,
        "the plugin was not healthy within 30 s: the plugin reports that it is not ready; it last wrote: cannot listen"
    );
    bed.end(run).await;
}

/// W42: a plugin that becomes unhealthy later is restarted too, unlike in Nomad.
#[tokio::test(start_paused = true)]
async fn a_plugin_that_stays_unhealthy_is_restarted() {
    let bed = TestBed::new();
    let (status, run) = bed.supervise(None);
    bed.observer.until("healthy").await;
    set_probe_response(&bed.plugin, ProbeResponse::NotReady);
    bed.observer.until("the plugin reports that it is not ready").await;
    assert!(matches!(&*status.borrow(), TaskStatus::Unhealthy { .. } | TaskStatus::Healthy));
    bed.driver.until_started(2).await;
    set_probe_response(&bed.plugin, ProbeResponse::Ready);
    bed.observer.until("healthy").await;
    let reports = bed.observer.reports();
    assert_eq!(reports[..2], ["healthy", "the plugin reports that it is not ready"]);
    assert!(reports[2].starts_with("the plugin was not healthy within 30 s"), "{reports:?}");
    bed.end(run).await;
}

/// B64: each change of health is reported once.
#[tokio::test(start_paused = true)]
async fn a_plugin_that_recovers_keeps_running() {
    let bed = TestBed::new();
    let (_status, run) = bed.supervise(None);
    bed.observer.until("healthy").await;
    set_probe_response(&bed.plugin, ProbeResponse::NotReady);
    bed.observer.until("the plugin reports that it is not ready").await;
    set_probe_response(&bed.plugin, ProbeResponse::Ready);
    bed.observer.until("healthy").await;
    bed.end(run).await;
    assert_eq!(bed.driver.started(), 1);
    assert_eq!(
        bed.observer.reports(),
        ["healthy", "the plugin reports that it is not ready", "healthy", "gone"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_crashed_plugin_is_reported_immediately_and_restarted() {
    let bed = TestBed::new();
    let (status, run) = bed.supervise(None);
    bed.observer.until("healthy").await;
    let died = Instant::now();
    bed.driver.end(1, "was killed by signal 9");
    bed.observer.until("the plugin's process was killed by signal 9; it last wrote").await;
    assert!(died.elapsed() < Duration::from_millis(5), "{:?}", died.elapsed());
    assert!(bed.is_registered().await, "calls fail as unavailable and are retried");
    bed.observer.until("healthy").await;
    assert!(died.elapsed() < Duration::from_millis(200), "{:?}", died.elapsed());
    assert_eq!(bed.connector.sockets.lock().len(), 2, "connected again");
    assert_eq!(*status.borrow(), TaskStatus::Healthy);
    bed.end(run).await;
}

#[tokio::test(start_paused = true)]
async fn waiting_ends_after_failed_starts_and_supervision_continues() {
    let bed = TestBed::new();
    bed.driver.failures.lock().extend([std::io::ErrorKind::NotFound; 4]);
    let begun = Instant::now();
    let (status, run) = bed.supervise(None);
    let reason = wait_until_healthy(status, Duration::from_secs(600)).await.unwrap_err();
    assert_eq!(reason, "cannot start task p: entity not found");
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    bed.observer.until("healthy").await;
    bed.end(run).await;
}

/// B70: a plugin that cannot be started any more is not listed forever.
#[tokio::test(start_paused = true)]
async fn an_instance_of_an_earlier_run_is_removed_with_its_supervisor() {
    let recorded = PluginInstance {
        alloc_id: "earlier".into(),
        health: Health { healthy: false, description: "not probed".to_owned() },
        updated_at: 1,
        provider: "fake.csi.example".to_owned(),
        provider_version: "1".to_owned(),
        process: None,
        requires_controller: true,
        requires_topologies: false,
        controller: None,
        node: None,
    };
    let bed = TestBed::new();
    let failures = [std::io::ErrorKind::NotFound; 50];
    bed.driver.failures.lock().extend(failures);
    let (status, run) = bed.supervise(Some(recorded));
    wait_until_healthy(status, Duration::from_secs(60)).await.unwrap_err();
    bed.end(run).await;
    assert_eq!(bed.observer.reports(), ["cannot start task p: entity not found", "gone"]);
}

#[tokio::test(start_paused = true)]
async fn it_stops_during_the_pause_before_a_restart() {
    let bed = TestBed::new();
    bed.driver.failures.lock().extend([std::io::ErrorKind::NotFound; 50]);
    let (mut status, run) = bed.supervise(None);
    let many = |status: &TaskStatus| matches!(status, TaskStatus::Restarting { failures: 10, .. });
    status.wait_for(many).await.unwrap();
    let stopped = Instant::now();
    bed.end(run).await;
    assert!(stopped.elapsed() < Duration::from_millis(1));
}

/// A run of a process ends when the process was waited for, and not before.
#[tokio::test(start_paused = true)]
async fn the_end_of_a_process_ends_its_run() {
    let bed = TestBed::new();
    let (status, run) = bed.supervise(None);
    let healthy = wait_until_healthy(status, Duration::from_secs(10)).await;
    healthy.unwrap();
    let first = bed.registry.running(&"p".into(), &"task".into()).ok();
    let first = first.unwrap().run;
    assert!(!first.is_gone());
    bed.driver.end(1, "was killed by signal 9");
    first.wait_until_gone().await;
    assert!(bed.is_registered().await, "callers retry");
    bed.driver.until_started(2).await;
    bed.end(run).await;
}

/// A process that ignores every signal is not gone, whatever its connection does. It is gone when the
/// driver can start the next one.
#[tokio::test(start_paused = true)]
async fn a_process_that_does_not_stop_is_not_gone() {
    let bed = TestBed::new();
    let (status, run) = bed.supervise(None);
    let healthy = wait_until_healthy(status, Duration::from_secs(10)).await;
    healthy.unwrap();
    let first = bed.registry.running(&"p".into(), &"task".into()).ok();
    let first = first.unwrap().run;
    bed.driver.is_stuck.store(true, Ordering::Relaxed);
    set_probe_response(&bed.plugin, ProbeResponse::Unavailable);
    bed.observer.until("cannot stop the earlier process").await;
    assert!(!first.is_gone());
    set_probe_response(&bed.plugin, ProbeResponse::Ready);
    bed.driver.end(1, "was killed by signal 9");
    bed.driver.until_started(2).await;
    first.wait_until_gone().await;
    bed.driver.is_stuck.store(false, Ordering::Relaxed);
    bed.end(run).await;
}

/// Another instance would be asked while this one may carry out a call.
#[tokio::test(start_paused = true)]
async fn a_process_that_does_not_stop_is_not_reported_as_gone() {
    let bed = TestBed::new();
    let (_status, run) = bed.supervise(None);
    bed.observer.until("healthy").await;
    bed.driver.is_stuck.store(true, Ordering::Relaxed);
    bed.stop.cancel();
    run.await.unwrap();
    assert_eq!(bed.observer.reports(), ["healthy"]);
}

fn bed_with_a_running_plugin() -> TestBed {
    TestBed { driver: Arc::new(FakeDriver::of_running()), ..TestBed::new() }
}

/// A plugin that the agent did not start is not stopped, however long it does not answer.
#[tokio::test(start_paused = true)]
async fn a_plugin_that_runs_already_is_never_stopped() {
    let bed = bed_with_a_running_plugin();
    let (_status, run) = bed.supervise(None);
    bed.observer.until("healthy").await;
    set_probe_response(&bed.plugin, ProbeResponse::NotReady);
    bed.observer.until("the plugin reports that it is not ready").await;
    tokio::time::advance(PluginTask::HEALTH_TIMEOUT * 20).await;
    set_probe_response(&bed.plugin, ProbeResponse::Ready);
    bed.observer.until("healthy").await;
    assert_eq!(bed.driver.started(), 1);
    bed.stop.cancel();
    run.await.unwrap();
    assert!(!bed.driver.all_ended(), "it goes on");
    assert!(!bed.is_registered().await);
    let reports = bed.observer.reports();
    let last = "the agent has stopped using the plugin, whose process still runs";
    assert_eq!(reports.last().map(String::as_str), Some(last), "it is not gone");
}

/// What an operator does who has lost the record of the process: the agent is started once with the endpoint, on whose socket
/// nothing listens any more, and stopped.
#[tokio::test]
async fn a_plugin_that_neither_listens_nor_is_on_record_is_gone_when_the_agent_stops() {
    for (has_record, is_gone) in [(false, true), (true, false)] {
        let directory = tempfile::tempdir().unwrap();
        let [socket, record] =
            ["csi.sock", "plugin.process"].map(|name| directory.path().join(name));
        if has_record {
            // A process of a plugin that has closed its socket: this one.
            let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
            let plugin = running_at(&socket, &record);
            drop(plugin.start().await.unwrap());
            drop(listener);
            std::fs::remove_file(&socket).unwrap();
        }
        let bed = TestBed::new();
        let (_status, run) = bed.supervise(None);
        bed.observer.until("healthy").await;
        let recorded = bed.observer.newest.lock().clone();
        let (task, mut deps) = bed.task_and_deps(recorded);
        bed.stop.cancel();
        run.await.unwrap();
        deps.driver = Arc::new(running_at(&socket, &record));
        let task = PluginTask { health_timeout: None, ..task };
        let stop = CancellationToken::new();
        let run = tokio::spawn(Supervisor::new(task, deps).run(stop.clone()));
        bed.observer.until("cannot use task ebs: nothing listens on").await;
        stop.cancel();
        run.await.unwrap();
        let reports = bed.observer.reports();
        assert_eq!(reports.last().unwrap() == "gone", is_gone, "{reports:?}");
    }
}

fn running_at(socket: &Path, record: &Path) -> RunningPlugin {
    let longest_call = Duration::from_secs(1800);
    RunningPlugin::new("ebs".to_owned(), socket.to_owned(), record.to_owned(), longest_call)
}

/// Another instance would be asked while a call may run in this one.
#[tokio::test(start_paused = true)]
async fn a_plugin_with_a_call_under_way_is_not_reported_as_gone() {
    let bed = bed_with_a_running_plugin();
    let (_status, run) = bed.supervise(None);
    bed.observer.until("healthy").await;
    let instance = bed.registry.running(&"p".into(), &"task".into()).ok();
    let call = instance.unwrap().run.enter();
    bed.stop.cancel();
    run.await.unwrap();
    drop(call);
    assert_eq!(bed.observer.reports(), ["healthy"]);
}

/// A plugin that the next agent must wait for is not reported as gone either, and is looked for all the time.
#[tokio::test(start_paused = true)]
async fn a_plugin_that_may_be_busy_is_used_later() {
    let bed = bed_with_a_running_plugin();
    let busy = [std::io::ErrorKind::ResourceBusy; 100];
    bed.driver.failures.lock().extend(busy);
    let begun = Instant::now();
    let (_status, run) = bed.supervise(None);
    bed.observer.until("healthy").await;
    let waited = begun.elapsed();
    assert!(waited < Duration::from_secs(2 * 100), "{waited:?}");
    bed.stop.cancel();
    run.await.unwrap();

    let bed = bed_with_a_running_plugin();
    bed.driver.failures.lock().extend(busy);
    let (mut status, run) = bed.supervise(None);
    let is_busy =
        |status: &TaskStatus| matches!(status, TaskStatus::Restarting { failures: 3, .. });
    status.wait_for(is_busy).await.unwrap();
    bed.stop.cancel();
    run.await.unwrap();
    assert_eq!(bed.observer.reports(), Vec::<String>::new());
}
