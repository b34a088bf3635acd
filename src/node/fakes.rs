//! Fakes for the tests of this crate: a plugin, a driver and an observer.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::task_driver::{DriverError, StoppedProcess, Task, TaskDriver};
use nomad_csi_model::retry::Verdict;
use nomad_csi_model::{
    AllocId, Bytes, Capacity, ControllerCapabilities, ExternalId, ExternalVolume, NodeCapabilities,
    NodeId, PluginId, PluginInstance, PublishContext, Secrets, Snapshot, SnapshotId, StorageStatus,
    VolumeStats, VolumeStatus,
};
use nomad_csi_ports::{
    Connector, Controller, ControllerPublishVolume, ControllerUnpublishVolume, CreateSnapshot,
    CreateVolume, CreatedVolume, Delivery, ExpandVolume, ExpandedVolume, GetCapacity, Identity,
    ListSnapshots, ListVolumeHealth, ListedHealth, ModifyVolume, NodeDescription, NodeExpandVolume,
    NodeService, NodeVolumeHealth, NodeVolumeStats, Page, PageRequest, PeerProcess,
    PluginCapabilities, PluginConnection, PluginError, PluginInfo, PluginObserver, PublishVolume,
    ReportRefused, Rpc, SentSecrets, StageVolume, StatusCode, ValidateVolume,
};

/// How the plugin responds to Probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProbeResponse {
    Ready,
    NotReady,
    Unavailable,
    Hang,
}

/// A plugin that reports what its fields contain.
pub(crate) struct FakePlugin {
    pub(crate) name: String,
    /// CONTROLLER_SERVICE.
    pub(crate) advertises_controller: bool,
    pub(crate) has_controller: bool,
    pub(crate) has_node: bool,
    pub(crate) max_volumes: Mutex<Option<u64>>,
    pub(crate) probe_response: Mutex<ProbeResponse>,
    /// What NodeGetStorageHealth reports; `None` if the plugin does not support it.
    pub(crate) storage: Mutex<Option<Vec<StorageStatus>>>,
}

impl FakePlugin {
    pub(crate) fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            advertises_controller: true,
            has_controller: true,
            has_node: true,
            max_volumes: Mutex::default(),
            probe_response: Mutex::new(ProbeResponse::Ready),
            storage: Mutex::default(),
        }
    }

    pub(crate) fn set_probe_response(&self, response: ProbeResponse) {
        *self.probe_response.lock() = response;
    }

    pub(crate) fn connection(self: Arc<Self>) -> PluginConnection {
        PluginConnection { identity: self.clone(), controller: self.clone(), node: self }
    }
}

fn refuse(rpc: Rpc, code: StatusCode, message: &str) -> PluginError {
    PluginError {
        rpc,
        code,
        verdict: Verdict::Permanent,
        message: message.to_owned(),
        delivery: Delivery::Answered,
    }
}

#[async_trait]
impl Identity for FakePlugin {
    async fn plugin_info(&self) -> Result<PluginInfo, PluginError> {
        Ok(PluginInfo { name: self.name.clone(), vendor_version: "1".to_owned() })
    }

    async fn plugin_capabilities(&self) -> Result<PluginCapabilities, PluginError> {
        Ok(PluginCapabilities {
            controller_service: self.advertises_controller,
            ..PluginCapabilities::default()
        })
    }

    async fn probe(&self) -> Result<bool, PluginError> {
        let response = *self.probe_response.lock();
        match response {
            ProbeResponse::Ready => Ok(true),
            ProbeResponse::NotReady => Ok(false),
            ProbeResponse::Unavailable => {
                Err(refuse(Rpc::Probe, StatusCode::Unavailable, "no connection"))
            }
            ProbeResponse::Hang => std::future::pending().await,
        }
    }
}

#[async_trait]
impl Controller for FakePlugin {
    async fn controller_capabilities(&self) -> Result<ControllerCapabilities, PluginError> {
        if !self.has_controller {
            let rpc = Rpc::ControllerGetCapabilities;
            return Err(refuse(rpc, StatusCode::Unimplemented, "no controller"));
        }
        Ok(ControllerCapabilities {
            create_delete_volume: true,
            ..ControllerCapabilities::default()
        })
    }

    async fn create_volume(&self, _: CreateVolume) -> Result<CreatedVolume, PluginError> {
        Err(refuse(Rpc::CreateVolume, StatusCode::Unimplemented, ""))
    }

    async fn delete_volume(&self, _: ExternalId, _: Secrets) -> Result<(), PluginError> {
        Err(refuse(Rpc::DeleteVolume, StatusCode::Unimplemented, ""))
    }

    async fn validate_volume(&self, _: ValidateVolume) -> Result<(), PluginError> {
        Err(refuse(Rpc::ValidateVolumeCapabilities, StatusCode::Unimplemented, ""))
    }

    async fn list_volumes(&self, _: PageRequest) -> Result<Page<ExternalVolume>, PluginError> {
        Err(refuse(Rpc::ListVolumes, StatusCode::Unimplemented, ""))
    }

    async fn get_capacity(&self, _: GetCapacity) -> Result<Capacity, PluginError> {
        Err(refuse(Rpc::GetCapacity, StatusCode::Unimplemented, ""))
    }

    async fn create_snapshot(&self, _: CreateSnapshot) -> Result<Snapshot, PluginError> {
        Err(refuse(Rpc::CreateSnapshot, StatusCode::Unimplemented, ""))
    }

    async fn delete_snapshot(&self, _: SnapshotId, _: Secrets) -> Result<(), PluginError> {
        Err(refuse(Rpc::DeleteSnapshot, StatusCode::Unimplemented, ""))
    }

    async fn list_snapshots(&self, _: ListSnapshots) -> Result<Page<Snapshot>, PluginError> {
        Err(refuse(Rpc::ListSnapshots, StatusCode::Unimplemented, ""))
    }

    async fn expand_volume(&self, _: ExpandVolume) -> Result<ExpandedVolume, PluginError> {
        let rpc = Rpc::ControllerExpandVolume;
        Err(refuse(rpc, StatusCode::Unimplemented, ""))
    }

    async fn modify_volume(&self, _: ModifyVolume) -> Result<(), PluginError> {
        let rpc = Rpc::ControllerModifyVolume;
        Err(refuse(rpc, StatusCode::Unimplemented, ""))
    }

    async fn volume_health(
        &self,
        _: ExternalId,
        _: Secrets,
    ) -> Result<Vec<VolumeStatus>, PluginError> {
        let rpc = Rpc::ControllerGetVolumeHealth;
        Err(refuse(rpc, StatusCode::Unimplemented, ""))
    }

    async fn list_volume_health(
        &self,
        _: ListVolumeHealth,
    ) -> Result<Page<ListedHealth>, PluginError> {
        let rpc = Rpc::ControllerListVolumeHealth;
        Err(refuse(rpc, StatusCode::Unimplemented, ""))
    }

    async fn controller_publish_volume(
        &self,
        _: ControllerPublishVolume,
    ) -> Result<PublishContext, PluginError> {
        let rpc = Rpc::ControllerPublishVolume;
        Err(refuse(rpc, StatusCode::Unimplemented, ""))
    }

    async fn controller_unpublish_volume(
        &self,
        _: ControllerUnpublishVolume,
    ) -> Result<(), PluginError> {
        let rpc = Rpc::ControllerUnpublishVolume;
        Err(refuse(rpc, StatusCode::Unimplemented, ""))
    }
}

#[async_trait]
impl NodeService for FakePlugin {
    async fn node_capabilities(&self) -> Result<NodeCapabilities, PluginError> {
        Ok(NodeCapabilities {
            get_storage_health: self.storage.lock().is_some(),
            ..NodeCapabilities::default()
        })
    }

    async fn node_info(&self) -> Result<NodeDescription, PluginError> {
        if !self.has_node {
            return Err(refuse(Rpc::NodeGetInfo, StatusCode::Unimplemented, "no node service"));
        }
        Ok(NodeDescription {
            external_node_id: "node-1".into(),
            max_volumes: *self.max_volumes.lock(),
            accessible_topology: None,
        })
    }

    async fn stage_volume(&self, _: StageVolume) -> Result<(), PluginError> {
        Err(refuse(Rpc::NodeStageVolume, StatusCode::Unimplemented, ""))
    }

    async fn unstage_volume(&self, _: ExternalId, _: PathBuf) -> Result<(), PluginError> {
        Err(refuse(Rpc::NodeUnstageVolume, StatusCode::Unimplemented, ""))
    }

    async fn publish_volume(&self, _: PublishVolume) -> Result<(), PluginError> {
        Err(refuse(Rpc::NodePublishVolume, StatusCode::Unimplemented, ""))
    }

    async fn unpublish_volume(&self, _: ExternalId, _: PathBuf) -> Result<(), PluginError> {
        Err(refuse(Rpc::NodeUnpublishVolume, StatusCode::Unimplemented, ""))
    }

    async fn node_volume_stats(&self, _: NodeVolumeStats) -> Result<VolumeStats, PluginError> {
        let rpc = Rpc::NodeGetVolumeStats;
        Err(refuse(rpc, StatusCode::Unimplemented, ""))
    }

    async fn node_volume_health(
        &self,
        _: NodeVolumeHealth,
    ) -> Result<Vec<VolumeStatus>, PluginError> {
        let rpc = Rpc::NodeGetVolumeHealth;
        Err(refuse(rpc, StatusCode::Unimplemented, ""))
    }

    async fn storage_health(&self, _: Secrets) -> Result<Vec<StorageStatus>, PluginError> {
        let statuses = self.storage.lock().clone();
        let unsupported = || refuse(Rpc::NodeGetStorageHealth, StatusCode::Unimplemented, "");
        statuses.ok_or_else(unsupported)
    }

    async fn node_expand_volume(&self, _: NodeExpandVolume) -> Result<Bytes, PluginError> {
        Err(refuse(Rpc::NodeExpandVolume, StatusCode::Unimplemented, ""))
    }
}

/// Connects to one plugin, and records the sockets.
pub(crate) struct FakeConnector {
    pub(crate) plugin: Arc<FakePlugin>,
    pub(crate) sockets: Mutex<Vec<PathBuf>>,
}

impl Connector for FakeConnector {
    fn connect(&self, socket: &Path, _: Option<PeerProcess>, _: &SentSecrets) -> PluginConnection {
        self.sockets.lock().push(socket.to_owned());
        self.plugin.clone().connection()
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
