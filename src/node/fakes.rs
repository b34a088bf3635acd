//! Fakes for the tests of this crate: a driver, an observer, and the strict fake plugin as these tests change it.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::task_driver::{DriverError, StoppedProcess, Task, TaskDriver};
use nomad_csi_model::{AllocId, NodeId, PluginId, PluginInstance};
use nomad_csi_ports::{
    Connector, PeerProcess, PluginConnection, PluginObserver, ReportRefused, Rpc, SentSecrets,
    StatusCode,
};
use nomad_csi_testing::{FakeBackend, FakePlugin, Fault, PluginSettings};

/// How the plugin responds to Probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProbeResponse {
    Ready,
    NotReady,
    Unavailable,
    Hang,
}

/// A plugin of this name, with a controller and a node.
pub(crate) fn plugin_named(name: &str) -> Arc<FakeBackend> {
    let mut settings = PluginSettings::default();
    name.clone_into(&mut settings.info.name);
    FakeBackend::new(settings)
}

/// Defines the response to every later Probe.
pub(crate) fn set_probe_response(plugin: &FakeBackend, response: ProbeResponse) {
    plugin.clear_faults();
    plugin.update_settings(|settings| settings.ready = response != ProbeResponse::NotReady);
    let fault = match response {
        ProbeResponse::Ready | ProbeResponse::NotReady => return,
        ProbeResponse::Unavailable => Fault::Fail(StatusCode::Unavailable),
        ProbeResponse::Hang => Fault::Hang,
    };
    plugin.inject_faults(Rpc::Probe, [fault; 1000]);
}

pub(crate) fn connection(plugin: &Arc<FakeBackend>) -> PluginConnection {
    FakePlugin::new(plugin.clone()).connection()
}

/// Connects to one plugin, and records the sockets.
pub(crate) struct FakeConnector {
    pub(crate) plugin: Arc<FakeBackend>,
    pub(crate) sockets: Mutex<Vec<PathBuf>>,
}

impl Connector for FakeConnector {
    fn connect(&self, socket: &Path, _: Option<PeerProcess>, _: &SentSecrets) -> PluginConnection {
        self.sockets.lock().push(socket.to_owned());
        connection(&self.plugin)
    }
}

/// Records reports in order: a health description, or `gone`.
#[derive(Default)]
pub(crate) struct FakeObserver {
    reports: watch::Sender<Vec<String>>,
    refuse: Mutex<bool>,
    /// The instance that was reported last.
    pub(crate) newest: Mutex<Option<PluginInstance>>,
}

impl FakeObserver {
    pub(crate) fn reports(&self) -> Vec<String> {
        self.reports.borrow().clone()
    }

    pub(crate) fn refuse(&self, refuse: bool) {
        *self.refuse.lock() = refuse;
    }

    /// Waits until the last report starts with this text.
    pub(crate) async fn until(&self, last: &str) {
        let is_reported =
            |reports: &Vec<String>| reports.last().is_some_and(|report| report.starts_with(last));
        let mut reports = self.reports.subscribe();
        let waited = tokio::time::timeout(Duration::from_secs(3600), reports.wait_for(is_reported));
        assert!(waited.await.is_ok(), "waited for {last:?}, reported {:?}", self.reports());
    }

    /// Waits until there are this many reports.
    pub(crate) async fn until_reports(&self, number: usize) {
        let mut reports = self.reports.subscribe();
        let reported = reports.wait_for(|reports| reports.len() >= number);
        let waited = tokio::time::timeout(Duration::from_secs(3600), reported);
        assert!(waited.await.is_ok(), "reported {:?}", self.reports());
    }

    fn record(&self, report: String) -> Result<(), ReportRefused> {
        if *self.refuse.lock() {
            return Err(ReportRefused { reason: "the disk is full".to_owned() });
        }
        self.reports.send_modify(|reports| reports.push(report));
        Ok(())
    }
}

#[async_trait]
impl PluginObserver for FakeObserver {
    async fn changed(
        &self,
        _: &PluginId,
        _: &NodeId,
        instance: PluginInstance,
    ) -> Result<(), ReportRefused> {
        assert_eq!(instance.health.healthy, instance.health.description.starts_with("healthy"));
        let health = instance.health.description.clone();
        *self.newest.lock() = Some(instance);
        self.record(health)
    }

    async fn gone(&self, _: &PluginId, _: &AllocId) -> Result<(), ReportRefused> {
        self.record("gone".to_owned())
    }
}

/// Starts fake processes that run until the test ends them.
#[derive(Default)]
pub(crate) struct FakeDriver {
    /// Errors of the first starts.
    pub(crate) failures: Mutex<VecDeque<std::io::ErrorKind>>,
    processes: Mutex<BTreeMap<usize, watch::Sender<Option<String>>>>,
    started: watch::Sender<usize>,
    /// True if processes ignore every signal, as those that wait for a disk do.
    pub(crate) is_stuck: Arc<AtomicBool>,
    /// True if processes run already, so that the agent does not stop them.
    pub(crate) runs_already: bool,
}

impl FakeDriver {
    /// A driver whose processes run already.
    pub(crate) fn of_running() -> Self {
        Self { runs_already: true, ..Self::default() }
    }

    pub(crate) fn started(&self) -> usize {
        *self.started.borrow()
    }

    /// Waits until that many processes have been started.
    pub(crate) async fn until_started(&self, number: usize) {
        let mut started = self.started.subscribe();
        let waited = started.wait_for(|started| *started >= number);
        assert!(tokio::time::timeout(Duration::from_secs(3600), waited).await.is_ok());
    }

    /// Ends a process by its number; the first is 1.
    pub(crate) fn end(&self, number: usize, how: &str) {
        self.processes.lock()[&number].send_replace(Some(how.to_owned()));
    }

    /// Returns whether every process has ended.
    pub(crate) fn all_ended(&self) -> bool {
        self.processes.lock().values().all(|exit| exit.borrow().is_some())
    }
}

struct FakeTask {
    exit: watch::Sender<Option<String>>,
    is_stuck: Arc<AtomicBool>,
    runs_already: bool,
}

fn stuck(action: &'static str) -> DriverError {
    DriverError { task: "p".to_owned(), action, source: std::io::ErrorKind::TimedOut.into() }
}

#[async_trait]
impl Task for FakeTask {
    async fn wait(&self) -> String {
        let mut exit = self.exit.subscribe();
        let how = exit.wait_for(Option::is_some).await.unwrap();
        how.clone().unwrap()
    }

    async fn stop(&self, is_idle: bool) -> Result<StoppedProcess, DriverError> {
        if self.runs_already {
            return Ok(match is_idle {
                true => StoppedProcess::LeftIdle,
                false => StoppedProcess::LeftBusy,
            });
        }
        if self.is_stuck.load(Ordering::Relaxed) && self.exit.borrow().is_none() {
            return Err(stuck("stop"));
        }
        self.exit.send_if_modified(|exit| exit.replace("was stopped".to_owned()).is_none());
        Ok(StoppedProcess::Exited)
    }

    fn required_peer(&self) -> Option<PeerProcess> {
        None
    }

    fn last_lines(&self) -> Vec<String> {
        vec!["cannot listen".to_owned(), "  ".to_owned()]
    }
}

#[async_trait]
impl TaskDriver for FakeDriver {
    async fn start(&self) -> Result<Box<dyn Task>, DriverError> {
        if let Some(kind) = self.failures.lock().pop_front() {
            return Err(DriverError { task: "p".to_owned(), action: "start", source: kind.into() });
        }
        if self.is_stuck.load(Ordering::Relaxed) && !self.all_ended() {
            return Err(stuck("stop the earlier process of"));
        }
        assert!(self.all_ended(), "two processes of one task");
        let (exit, _) = watch::channel(None);
        let number = self.started() + 1;
        self.processes.lock().insert(number, exit.clone());
        self.started.send_replace(number);
        Ok(Box::new(FakeTask {
            exit,
            is_stuck: self.is_stuck.clone(),
            runs_already: self.runs_already,
        }))
    }
}
