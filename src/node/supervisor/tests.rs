use std::sync::Mutex;

use tokio::task::JoinHandle;

use super::*;
use crate::model::Health;
use crate::node::fakes::{Answer, FakeConnector, FakeDriver, FakePlugin, RecordingObserver};
use crate::ports::{PluginDirectory as _, RandomIds, SystemClock};

struct Bench {
    plugin: Arc<FakePlugin>,
    driver: Arc<FakeDriver>,
    connector: Arc<FakeConnector>,
    registry: Arc<Registry>,
    observer: Arc<RecordingObserver>,
    stop: CancellationToken,
}

impl Bench {
    fn new() -> Self {
        let plugin = Arc::new(FakePlugin::named("fake.csi.example"));
        Self {
            driver: Arc::default(),
            connector: Arc::new(FakeConnector {
                plugin: plugin.clone(),
                sockets: Mutex::default(),
            }),
            registry: Arc::new(Registry::new("here".into())),
            observer: Arc::default(),
            stop: CancellationToken::new(),
            plugin,
        }
    }

    fn supervise(
        &self,
        recorded: Option<PluginInstance>,
    ) -> (watch::Receiver<TaskStatus>, JoinHandle<()>) {
        let task = PluginTask {
            plugin: "p".into(),
            node: "here".into(),
            task: "task".into(),
            command: TaskCommand {
                name: "p".to_owned(),
                program: "/bin/plugin".into(),
                arguments: vec![],
                environment: vec![],
            },
            socket: "/run/p.sock".into(),
            health_timeout: PluginTask::HEALTH_TIMEOUT,
            recorded,
        };
        let supervisor = Supervisor::new(
            task,
            Surroundings {
                driver: self.driver.clone(),
                connector: self.connector.clone(),
                registry: self.registry.clone(),
                observer: self.observer.clone(),
                clock: Arc::new(SystemClock),
                ids: Arc::new(RandomIds),
            },
        );
        let status = supervisor.status();
        (status, tokio::spawn(supervisor.run(self.stop.clone())))
    }

    async fn is_registered(&self) -> bool {
        self.registry
            .instance(&"p".into(), &"here".into())
            .await
            .is_some()
    }

    async fn end(&self, run: JoinHandle<()>) {
        self.stop.cancel();
        run.await.unwrap();
        assert!(self.driver.all_ended(), "a process is left");
        assert!(!self.is_registered().await);
    }
}

/// B62: no registration before it is well, one after.
#[tokio::test(start_paused = true)]
async fn a_plugin_is_registered_once_it_is_well() {
    let bench = Bench::new();
    bench.plugin.now_answers(Answer::Unavailable);
    let (status, run) = bench.supervise(None);
    bench.driver.until_started(1).await;
    let reason = wait_until_healthy(status.clone(), Duration::from_secs(7))
        .await
        .unwrap_err();
    assert_eq!(reason, "Probe failed with Unavailable: no connection");
    assert!(!bench.is_registered().await);
    assert!(
        bench.observer.told().is_empty(),
        "an unwell first report creates nothing"
    );

    bench.plugin.now_answers(Answer::Ready);
    wait_until_healthy(status.clone(), Duration::from_secs(10))
        .await
        .unwrap();
    assert!(bench.is_registered().await);
    assert_eq!(bench.observer.told(), ["healthy"]);
    assert_eq!(bench.driver.started(), 1);
    bench.end(run).await;
    assert_eq!(bench.observer.told(), ["healthy", "gone"], "B70");
    assert_eq!(*status.borrow(), TaskStatus::Stopped);
}

/// B63 and W42: restarted after the health timeout, and supervised again exactly once.
#[tokio::test(start_paused = true)]
async fn a_plugin_that_never_becomes_well_is_restarted() {
    let bench = Bench::new();
    bench.plugin.now_answers(Answer::NotReady);
    let begun = Instant::now();
    let (status, run) = bench.supervise(None);
    bench.driver.until_started(2).await;
    let waited = begun.elapsed();
    assert!(
        waited >= PluginTask::HEALTH_TIMEOUT && waited < Duration::from_secs(40),
        "{waited:?}"
    );
    let reason = wait_until_healthy(status, Duration::from_secs(600))
        .await
        .unwrap_err();
    assert_eq!(
        reason,
        "the plugin was not healthy within 30 s: the plugin says that it is not ready; it last wrote: cannot listen"
    );
    bench.end(run).await;
}

/// W42: ill health after a good start restarts it too; Nomad never does.
#[tokio::test(start_paused = true)]
async fn a_plugin_that_stays_unwell_is_restarted() {
    let bench = Bench::new();
    let (status, run) = bench.supervise(None);
    bench.observer.until("healthy").await;
    bench.plugin.now_answers(Answer::NotReady);
    bench
        .observer
        .until("the plugin says that it is not ready")
        .await;
    assert!(matches!(
        &*status.borrow(),
        TaskStatus::Unhealthy { .. } | TaskStatus::Healthy
    ));
    bench.driver.until_started(2).await;
    bench.plugin.now_answers(Answer::Ready);
    bench.observer.until("healthy").await;
    let told = bench.observer.told();
    assert_eq!(
        told[..2],
        ["healthy", "the plugin says that it is not ready"]
    );
    assert!(
        told[2].starts_with("the plugin was not healthy within 30 s"),
        "{told:?}"
    );
    bench.end(run).await;
}

/// B64: one report per transition.
#[tokio::test(start_paused = true)]
async fn a_plugin_that_recovers_is_left_running() {
    let bench = Bench::new();
    let (_status, run) = bench.supervise(None);
    bench.observer.until("healthy").await;
    bench.plugin.now_answers(Answer::NotReady);
    bench
        .observer
        .until("the plugin says that it is not ready")
        .await;
    bench.plugin.now_answers(Answer::Ready);
    bench.observer.until("healthy").await;
    bench.end(run).await;
    assert_eq!(bench.driver.started(), 1);
    assert_eq!(
        bench.observer.told(),
        [
            "healthy",
            "the plugin says that it is not ready",
            "healthy",
            "gone"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_dies_is_marked_at_once_and_started_again() {
    let bench = Bench::new();
    let (status, run) = bench.supervise(None);
    bench.observer.until("healthy").await;
    let died = Instant::now();
    bench.driver.end(1, "was killed by signal 9");
    bench
        .observer
        .until("the plugin's process was killed by signal 9; it last wrote")
        .await;
    assert!(
        died.elapsed() < Duration::from_millis(5),
        "{:?}",
        died.elapsed()
    );
    assert!(
        bench.is_registered().await,
        "calls fail as unavailable and are tried again"
    );
    bench.observer.until("healthy").await;
    assert!(
        died.elapsed() < Duration::from_millis(200),
        "{:?}",
        died.elapsed()
    );
    assert_eq!(
        bench.connector.sockets.lock().unwrap().len(),
        2,
        "connected anew"
    );
    assert_eq!(*status.borrow(), TaskStatus::Healthy);
    bench.end(run).await;
}

#[tokio::test(start_paused = true)]
async fn a_program_that_cannot_be_started_is_given_up_by_who_waits_not_by_us() {
    let bench = Bench::new();
    bench
        .driver
        .failures
        .lock()
        .unwrap()
        .extend([std::io::ErrorKind::NotFound; 4]);
    let begun = Instant::now();
    let (status, run) = bench.supervise(None);
    let reason = wait_until_healthy(status, Duration::from_secs(600))
        .await
        .unwrap_err();
    assert_eq!(reason, "cannot start task p: entity not found");
    assert!(
        begun.elapsed() < Duration::from_secs(1),
        "{:?}",
        begun.elapsed()
    );
    bench.observer.until("healthy").await;
    bench.end(run).await;
}

/// Otherwise a plugin that cannot be started any more would be listed for ever (B70).
#[tokio::test(start_paused = true)]
async fn an_instance_of_an_earlier_run_goes_with_its_supervision() {
    let recorded = PluginInstance {
        alloc_id: "earlier".into(),
        health: Health {
            healthy: false,
            description: "not probed".to_owned(),
        },
        updated_at: 1,
        provider: "fake.csi.example".to_owned(),
        provider_version: "1".to_owned(),
        requires_controller: true,
        requires_topologies: false,
        controller: None,
        node: None,
    };
    let bench = Bench::new();
    let failures = [std::io::ErrorKind::NotFound; 50];
    bench.driver.failures.lock().unwrap().extend(failures);
    let (status, run) = bench.supervise(Some(recorded));
    wait_until_healthy(status, Duration::from_secs(60))
        .await
        .unwrap_err();
    bench.end(run).await;
    assert_eq!(
        bench.observer.told(),
        ["cannot start task p: entity not found", "gone"]
    );
}

#[tokio::test(start_paused = true)]
async fn it_can_be_stopped_while_it_waits_to_restart() {
    let bench = Bench::new();
    bench
        .driver
        .failures
        .lock()
        .unwrap()
        .extend([std::io::ErrorKind::NotFound; 50]);
    let (mut status, run) = bench.supervise(None);
    let many = |status: &TaskStatus| matches!(status, TaskStatus::Restarting { failures: 10, .. });
    status.wait_for(many).await.unwrap();
    let stopped = Instant::now();
    bench.end(run).await;
    assert!(stopped.elapsed() < Duration::from_millis(1));
}
