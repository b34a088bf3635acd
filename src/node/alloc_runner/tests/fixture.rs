//! A node with a fake server, and a driver whose tasks follow scripts.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::super::{AllocRunnerDeps, AllocRunners};
use crate::fakes::{FakeObserver, plugin_named};
use crate::plugin_tasks::{PluginHost, PluginHostDeps};
use crate::registry::Registry;
use crate::task_restarts::TaskRestarts;
use crate::task_run::{
    DriverConfig, LogFile, LogSlice, MockScript, RunDriver, RunEnd, RunError, RunRequest, RunStart,
    RunStatus,
};
use crate::volume_call_locks::VolumeCallLocks;
use crate::volume_files::{Durability, MountPoint, VolumeFile, record_source};
use nomad_csi_model::{
    AllocId, AllocReport, HostVolume, Job, JobType, JobVolume, JobVolumeKind, Lifecycle,
    LifecycleHook, MountConfig, MountRoot, NamespacedId, PropagationMode, RemoteVolume,
    RestartMode, RestartPolicy, TargetPath, Task, TaskConfig, TaskGroup, VolumeMount,
};
use nomad_csi_ports::{AssignedAlloc, Clock, LogStream, MountEntry, SourceIdentity};
use nomad_csi_testing::{
    CountingIds, FakeBackend, FakeConnector, FakeControlPlane, FakeMounter, FakePlugin, NothingSent,
};

/// A driver of the crate's mock runs with scripts, by task; the last script of a task repeats. It can mount.
#[derive(Default)]
pub(super) struct ScriptedDriver {
    mock: super::MockRuns,
    scripts: Mutex<BTreeMap<String, VecDeque<MockScript>>>,
    starts: Mutex<Vec<RunRequest>>,
    runs: Mutex<Vec<PathBuf>>,
    refused_starts: Mutex<u32>,
    lost_sources: Mutex<u32>,
    /// The runs that did not start because their source was lost.
    lost: Mutex<BTreeMap<PathBuf, PathBuf>>,
    wait_panics: Mutex<u32>,
    stop_panics: Mutex<u32>,
    /// What goes on without its files, and what is found from the second look on.
    without_files: Mutex<Vec<PathBuf>>,
    found_later: Mutex<Option<Vec<PathBuf>>>,
    /// The runs that were killed without their kill timeout.
    kills: Mutex<Vec<PathBuf>>,
    /// The signals that tasks got.
    pub(super) signals: Mutex<Vec<i32>>,
}

/// Panics if a panic is left.
fn panic_once(panics: &Mutex<u32>) {
    let is_due = {
        let mut left = panics.lock();
        let is_due = *left > 0;
        *left = left.saturating_sub(1);
        is_due
    };
    assert!(!is_due, "the test injects this panic");
}

impl ScriptedDriver {
    pub(super) fn script(&self, task: &str, scripts: &[MockScript]) {
        let scripts = scripts.iter().cloned().collect();
        self.scripts.lock().insert(task.to_owned(), scripts);
    }

    /// The requests of the runs that were started, in order.
    pub(super) fn starts(&self) -> Vec<RunRequest> {
        self.starts.lock().clone()
    }

    /// The tasks that were started, in order.
    pub(super) fn started(&self) -> Vec<String> {
        self.starts().into_iter().map(|request| request.task).collect()
    }

    /// Waits until every run that was started has ended.
    pub(super) async fn until_all_ended(&self) {
        let runs = self.runs.lock().clone();
        for run in runs {
            let end = tokio::time::timeout(Duration::from_secs(60), self.mock.wait(&run));
            end.await.unwrap().unwrap();
        }
    }

    /// The number of runs that have not ended.
    pub(super) async fn running(&self) -> usize {
        let runs = self.runs.lock().clone();
        let mut running = 0;
        for run in runs {
            let status = self.mock.status(&run).await.unwrap();
            running += usize::from(!matches!(status, Some(RunStatus::Ended(_))));
        }
        running
    }

    /// The number of runs that were killed without their kill timeout.
    pub(super) fn kills(&self) -> usize {
        self.kills.lock().len()
    }

    /// Lets these runs, and no others, go on without their files.
    pub(super) fn run_without_files(&self, runs: &[PathBuf]) {
        *self.without_files.lock() = runs.to_vec();
    }

    /// Lets these runs go on without their files after the next look.
    pub(super) fn find_later(&self, runs: &[PathBuf]) {
        *self.found_later.lock() = Some(runs.to_vec());
    }

    pub(super) fn refuse_starts(&self, number: u32) {
        *self.refused_starts.lock() = number;
    }

    /// Finds the source of the first mount gone in the next starts.
    pub(super) fn lose_sources(&self, number: u32) {
        *self.lost_sources.lock() = number;
    }

    /// Panics in the next waits for the end of a run.
    pub(super) fn panic_in_waits(&self, number: u32) {
        *self.wait_panics.lock() = number;
    }

    /// Panics in the next stops.
    pub(super) fn panic_in_stops(&self, number: u32) {
        *self.stop_panics.lock() = number;
    }

    /// Waits until this many runs were started.
    pub(super) async fn until_started(&self, number: usize) {
        let started = async {
            while self.starts().len() < number {
                tokio::task::yield_now().await;
            }
        };
        let limit = Duration::from_secs(3600);
        tokio::time::timeout(limit, started).await.unwrap();
    }

    /// Like [`Self::until_started`], after pauses. The clock is paused, and a sleep moves it.
    pub(super) async fn until_started_later(&self, number: usize) {
        let started = async {
            while self.starts().len() < number {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let limit = Duration::from_secs(3600);
        tokio::time::timeout(limit, started).await.unwrap();
    }

    /// Waits until every panic in a wait has happened. The clock is paused, and a sleep moves it.
    pub(super) async fn until_no_panic_is_left(&self) {
        let left = async {
            while *self.wait_panics.lock() > 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let limit = Duration::from_secs(3600);
        tokio::time::timeout(limit, left).await.unwrap();
    }

    fn next_script(&self, task: &str) -> MockScript {
        let mut scripts = self.scripts.lock();
        let scripts = scripts.entry(task.to_owned()).or_default();
        match scripts.len() {
            0 => lasting(3600),
            1 => scripts[0].clone(),
            _ => scripts.pop_front().unwrap(),
        }
    }
}

#[async_trait]
impl RunDriver for ScriptedDriver {
    fn mount_config(&self) -> MountConfig {
        MountConfig::All
    }

    async fn start(&self, run: &Path, mut request: RunRequest) -> Result<RunStart, RunError> {
        {
            let mut refused = self.refused_starts.lock();
            if *refused > 0 {
                *refused -= 1;
                return Err(RunError::Failed {
                    action: "start",
                    run: run.to_owned(),
                    reason: "the disk is full".to_owned(),
                });
            }
        }
        {
            let mut left = self.lost_sources.lock();
            if *left > 0 {
                *left -= 1;
                let source = request.mounts[0].source.clone();
                self.lost.lock().insert(run.to_owned(), source);
                return Ok(RunStart::Failed);
            }
        }
        let is_new = self.mock.status(run).await?.is_none();
        if is_new {
            self.starts.lock().push(request.clone());
            self.runs.lock().push(run.to_owned());
            request.config = DriverConfig::Mock(self.next_script(&request.task));
        } else {
            request.config = DriverConfig::Mock(lasting(0));
        }
        request.mounts.clear();
        self.mock.start(run, request).await
    }

    async fn status(&self, run: &Path) -> Result<Option<RunStatus>, RunError> {
        self.mock.status(run).await
    }

    async fn wait(&self, run: &Path) -> Result<RunEnd, RunError> {
        panic_once(&self.wait_panics);
        if let Some(source) = self.lost.lock().get(run).cloned() {
            let reason = "gone".to_owned();
            return Ok(RunEnd::SourceLost { source, reason });
        }
        self.mock.wait(run).await
    }

    async fn stop(&self, run: &Path) -> Result<(), RunError> {
        panic_once(&self.stop_panics);
        self.mock.stop(run).await
    }

    async fn signal(&self, run: &Path, signal: i32) -> Result<bool, RunError> {
        self.signals.lock().push(signal);
        self.mock.signal(run, signal).await
    }

    async fn kill(&self, run: &Path) -> Result<(), RunError> {
        self.kills.lock().push(run.to_owned());
        self.mock.kill(run).await
    }

    async fn recover(&self, data: &Path) -> Result<Vec<PathBuf>, RunError> {
        let found = self.mock.recover(data).await?;
        let now = self.without_files.lock().clone();
        if let Some(later) = self.found_later.lock().take() {
            *self.without_files.lock() = later;
        }
        Ok(found.into_iter().chain(now).collect())
    }

    async fn last_lines(
        &self,
        run: &Path,
        stream: LogStream,
        limit: usize,
    ) -> Result<Vec<String>, RunError> {
        self.mock.last_lines(run, stream, limit).await
    }

    async fn log_files(&self, run: &Path, stream: LogStream) -> Result<Vec<LogFile>, RunError> {
        self.mock.log_files(run, stream).await
    }

    async fn read_log(
        &self,
        run: &Path,
        stream: LogStream,
        slice: LogSlice,
    ) -> Result<Vec<u8>, RunError> {
        self.mock.read_log(run, stream, slice).await
    }
}

/// A task that runs this long and exits with status 0.
pub(super) fn lasting(seconds: u64) -> MockScript {
    MockScript { run_for: Duration::from_secs(seconds), ..MockScript::default() }
}

/// A task that exits with this status after this time.
pub(super) fn exiting(code: i32, seconds: u64) -> MockScript {
    MockScript { exit_code: code, ..lasting(seconds) }
}

/// A clock that follows tokio's.
struct TokioClock(Instant);

impl Clock for TokioClock {
    fn now(&self) -> i64 {
        1_000_000_000 + super::super::restart::nanoseconds(self.0.elapsed())
    }
}

/// A task of the group: its name, its hook (`main`, `prestart`, …; `+` for a sidecar).
pub(super) fn task(name: &str, hook: &str) -> Task {
    let mut task = Task::new(name, "exec", policy(0));
    let config = serde_json::json!({"command": "/bin/true"});
    task.config = TaskConfig::new(config.as_object().unwrap().clone());
    let (word, is_sidecar) = match hook.strip_suffix('+') {
        Some(word) => (word, true),
        None => (hook, false),
    };
    let hook = LifecycleHook::parse(word);
    task.lifecycle = hook.map(|hook| Lifecycle { hook, is_sidecar });
    task
}

pub(super) fn policy(attempts: u32) -> RestartPolicy {
    RestartPolicy {
        attempts,
        interval: Duration::from_secs(3600),
        delay: Duration::from_secs(10),
        mode: RestartMode::Fail,
    }
}

/// An allocation of one group with these tasks, which all mount these volumes.
pub(super) fn alloc(job_type: JobType, mut tasks: Vec<Task>, volumes: &[&str]) -> AssignedAlloc {
    let mut group = TaskGroup::new("g", job_type);
    for alias in volumes {
        let kind =
            JobVolumeKind::Csi { access_mode: None, attachment_mode: None, mount_options: None };
        let volume = JobVolume {
            source: (*alias).to_owned(),
            read_only: false,
            per_alloc: false,
            sticky: false,
            kind,
        };
        group.volumes.insert((*alias).into(), volume);
        for task in &mut tasks {
            task.volume_mounts.push(VolumeMount {
                volume: (*alias).into(),
                destination: format!("/{alias}"),
                read_only: false,
                propagation_mode: PropagationMode::Private,
                selinux_label: None,
            });
        }
    }
    group.tasks = tasks;
    let mut job = Job::new("default".into(), "shop".into());
    job.job_type = job_type;
    job.groups = vec![group];
    AssignedAlloc {
        id: ID.into(),
        job: Arc::new(job),
        group: "g".to_owned(),
        index: 0,
        wants_stop: false,
        cut_off: [].into(),
        report: None,
    }
}

pub(super) const ID: &str = "alloc-1";

/// A node.
pub(super) struct Node {
    pub(super) control: Arc<FakeControlPlane>,
    pub(super) driver: Arc<ScriptedDriver>,
    /// The plugin that every plugin task serves.
    pub(super) plugin: Arc<FakeBackend>,
    pub(super) observer: Arc<FakeObserver>,
    pub(super) mounter: FakeMounter,
    /// That of the agent that runs.
    pub(super) registry: Arc<Registry>,
    pub(super) data: tempfile::TempDir,
    /// The host volumes that the next agent offers.
    pub(super) host_volumes: BTreeMap<String, HostVolume>,
    /// The requests to restart tasks.
    pub(super) restarts: TaskRestarts,
    plugins: Option<Arc<PluginHost>>,
    stop: CancellationToken,
    running: Option<JoinHandle<()>>,
}

impl Node {
    pub(super) fn new() -> Self {
        let mut node = Self {
            control: Arc::default(),
            driver: Arc::default(),
            plugin: plugin_named("fake.csi.example"),
            observer: Arc::default(),
            mounter: FakeMounter::new(),
            registry: new_registry(),
            data: tempfile::tempdir().unwrap(),
            host_volumes: [HostVolume::parse("certs=/srv/certs:ro").unwrap()].into(),
            restarts: TaskRestarts::default(),
            plugins: None,
            stop: CancellationToken::new(),
            running: None,
        };
        node.start_agent();
        node
    }

    pub(super) fn start_agent(&mut self) {
        let driver: Arc<dyn RunDriver> = self.driver.clone();
        let mock: Arc<dyn RunDriver> = Arc::new(super::MockRuns::default());
        let plugins = self.plugin_host();
        let deps = AllocRunnerDeps {
            host_volumes: self.host_volumes.clone(),
            allows_root_tasks: false,
            control: self.control.clone(),
            drivers: [("exec".to_owned(), driver), ("mock_driver".to_owned(), mock)].into(),
            clock: Arc::new(TokioClock(Instant::now())),
            ids: Arc::new(CountingIds::from(1)),
            node: Arc::new(nomad_csi_model::Node::new("node-1".into(), "laptop", "dc1")),
            mounter: Arc::new(self.mounter.clone()),
            restarts: self.restarts.clone(),
            plugins: self.plugins.insert(plugins).clone(),
            data_directory: self.data.path().to_owned(),
            hidden_directories: vec![],
        };
        self.stop = CancellationToken::new();
        let runners = AllocRunners::new(deps).run(self.stop.clone());
        self.running = Some(tokio::spawn(runners));
    }

    /// A new host of plugins, with a new registry.
    fn plugin_host(&mut self) -> Arc<PluginHost> {
        self.registry = new_registry();
        let connector = FakeConnector(FakePlugin::new(self.plugin.clone()));
        let sockets = self.data.path().join("run");
        std::fs::create_dir_all(&sockets).unwrap();
        Arc::new(PluginHost::new(PluginHostDeps {
            connector: Arc::new(connector),
            sent: Arc::new(NothingSent),
            registry: self.registry.clone(),
            observer: self.observer.clone(),
            mounter: Arc::new(self.mounter.clone()),
            clock: Arc::new(TokioClock(Instant::now())),
            ids: Arc::new(CountingIds::from(1)),
            node: "node-1".into(),
            sockets,
            volumes: self.data.path().join("mounts"),
        }))
    }

    /// Stops the agent, as SIGTERM does, and starts it again on the same data.
    pub(super) async fn restart_agent(&mut self) {
        self.stop_agent().await;
        self.start_agent();
    }

    pub(super) async fn stop_agent(&mut self) {
        self.stop.cancel();
        self.running.take().unwrap().await.unwrap();
        self.plugins.take().unwrap().record_idle().await;
    }

    /// Returns the directory of an allocation.
    pub(super) fn directory(&self, alloc: &str) -> PathBuf {
        self.data.path().join("allocs").join(alloc)
    }

    /// Waits until the directory of an allocation is gone.
    pub(super) async fn until_removed(&self, alloc: &str) {
        let directory = self.directory(alloc);
        let removed = async {
            while directory.exists() {
                tokio::task::yield_now().await;
            }
        };
        let limit = Duration::from_secs(3600);
        tokio::time::timeout(limit, removed).await.unwrap();
    }

    /// Kills the agent, and starts it again on the same data.
    pub(super) fn kill_agent(&mut self) {
        self.running.take().unwrap().abort();
        self.start_agent();
    }

    /// The directory of a run that an agent was about to start when it was killed.
    pub(super) fn begin_run(&self, task: &str) -> PathBuf {
        self.begin_run_of(ID, task)
    }

    pub(super) fn begin_run_of(&self, alloc: &str, task: &str) -> PathBuf {
        let run = self.directory(alloc).join("tasks").join(task).join("runs/1");
        std::fs::create_dir_all(&run).unwrap();
        run
    }

    pub(super) fn provide(&self, alias: &str) {
        let target = self.target(alias);
        self.mount(alias);
        self.control.provide(alias, target.on_host().to_owned());
    }

    /// The target of a volume of the allocation.
    pub(super) fn target(&self, alias: &str) -> TargetPath {
        self.root().target(&alias.into(), &ID.into(), &alias.into())
    }

    fn root(&self) -> MountRoot {
        let root = self.data.path().join("mounts/fake");
        MountRoot::new(&root, &root).unwrap()
    }

    /// Mounts a volume of the allocation with its record, unless it is mounted.
    pub(super) fn mount(&self, alias: &str) {
        let target = self.target(alias);
        let mounts = self.mounter.mounts();
        if mounts.iter().any(|mount| mount.target == target.on_host()) {
            return;
        }
        std::fs::create_dir_all(self.data.path().join("mounts")).unwrap();
        let record = VolumeFile {
            volume: RemoteVolume { plugin_id: "fake".into(), external_id: alias.into() },
            name: NamespacedId::new("default".into(), alias.into()),
            target: Some((ID.into(), alias.into())),
            source: None,
        };
        let place = MountPoint::of_target(&self.root(), &target);
        place.prepare(&record, true, Durability::Crash).unwrap();
        self.mounter.mount_volume(target.on_host(), alias);
        let mounts = self.mounter.mounts();
        let mut mounts = mounts.iter().rev();
        let mount = mounts.find(|mount| mount.target == target.on_host());
        let source = SourceIdentity { mount: mount.map(MountEntry::identity), device_node: None };
        record_source(target.on_host(), source, Durability::Crash).unwrap();
    }

    /// Unmounts a volume of the allocation behind the back of the agent.
    pub(super) fn unmount(&self, alias: &str) {
        let target = self.target(alias);
        self.mounter.unmount_all(target.on_host()).unwrap();
    }

    pub(super) fn stop_alloc(&self) {
        self.control.stop(&ID.into());
    }

    pub(super) async fn report(&self, is_meant: impl Fn(&AllocReport) -> bool) -> AllocReport {
        let id = AllocId::from(ID);
        let waited = self.control.wait_for_report(&id, is_meant);
        let waited = tokio::time::timeout(Duration::from_secs(36_000), waited).await;
        waited.unwrap_or_else(|_| panic!("{:#?}", self.control.reports(&id).last()))
    }

    /// Waits until the allocation has this status.
    pub(super) async fn status(&self, status: &str) -> AllocReport {
        self.report(|report| report.status.as_str() == status).await
    }

    /// Waits until the description starts with this text.
    pub(super) async fn description(&self, start: &str) -> AllocReport {
        self.report(|report| report.description.starts_with(start)).await
    }

    /// Waits until the task has an event of this kind.
    pub(super) async fn event(&self, task: &str, kind: &str) -> AllocReport {
        self.report(|report| events(report, task).iter().any(|event| event.starts_with(kind))).await
    }
}

fn new_registry() -> Arc<Registry> {
    Arc::new(Registry::new(VolumeCallLocks::new("session".into())))
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            running.abort();
        }
    }
}

/// The events of a task as `KIND: MESSAGE`.
pub(super) fn events(report: &AllocReport, task: &str) -> Vec<String> {
    let events = report.tasks.get(task).map(|task| task.events.as_slice());
    events
        .unwrap_or_default()
        .iter()
        .map(|event| format!("{}: {}", event.kind, event.message))
        .collect()
}
