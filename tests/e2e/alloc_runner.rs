//! Allocations with real tasks under shims, and a fake server that hands out directories as volumes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nomad_csi_csi::GrpcConnector;
use nomad_csi_model::{
    AllocId, AllocReport, Job, JobType, JobVolume, JobVolumeKind, MountRoot, PropagationMode,
    RestartPolicy, TargetPath, Task, TaskConfig, TaskEnvironment, TaskGroup, VolumeMount,
};
use nomad_csi_node::mounts::LinuxMounter;
use nomad_csi_node::{
    AllocRunnerDeps, AllocRunners, NodeTaskLogs, PluginHost, PluginHostDeps, Registry, RunDriver,
    VolumeCallLocks,
};
use nomad_csi_ports::{
    AssignedAlloc, LogOrigin, LogStream, RandomIds, SystemClock, TaskLogs as _, TaskOutput,
};
use nomad_csi_testing::{FakeControlPlane, NothingSent};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::agent_process::processes_with;
use crate::task_fixture::{LONG, exec, is_root, raw_exec};
use crate::task_root::{run_command, run_isolated};
use crate::volume_host::NoObserver;
use crate::wait::{until_async, until_true};

pub(crate) const ID: &str = "8f3a1c52-0000-4000-8000-000000000001";

/// A node on a data directory. Dropping it kills what a failed test left.
pub(crate) struct Node {
    pub(crate) control: Arc<FakeControlPlane>,
    pub(crate) data: tempfile::TempDir,
    running: Option<JoinHandle<()>>,
}

pub(crate) fn drivers() -> BTreeMap<String, Arc<dyn RunDriver>> {
    let exec: Arc<dyn RunDriver> = Arc::new(exec());
    let raw_exec: Arc<dyn RunDriver> = Arc::new(raw_exec());
    [("exec".to_owned(), exec), ("raw_exec".to_owned(), raw_exec)].into()
}

impl Node {
    pub(crate) fn new() -> Self {
        let mut node =
            Self { control: Arc::default(), data: tempfile::tempdir().unwrap(), running: None };
        node.start_agent();
        node
    }

    /// Starts the runners, as an agent does.
    fn start_agent(&mut self) {
        let deps = AllocRunnerDeps {
            host_volumes: Default::default(),
            allows_root_tasks: true,
            control: self.control.clone(),
            drivers: drivers(),
            clock: Arc::new(SystemClock),
            ids: Arc::new(RandomIds),
            node: Arc::new(nomad_csi_model::Node::new("node-1".into(), "laptop", "dc1")),
            mounter: Arc::new(LinuxMounter),
            restarts: Default::default(),
            plugins: Arc::new(PluginHost::new(PluginHostDeps {
                connector: Arc::new(GrpcConnector::new()),
                sent: Arc::new(NothingSent),
                registry: Arc::new(Registry::new(VolumeCallLocks::new("session".into()))),
                observer: Arc::new(NoObserver),
                mounter: Arc::new(LinuxMounter),
                clock: Arc::new(SystemClock),
                ids: Arc::new(RandomIds),
                node: "node-1".into(),
                sockets: self.data.path().join("run"),
                volumes: self.data.path().join("mounts"),
            })),
            hidden_directories: vec![],
            data_directory: self.data.path().to_owned(),
        };
        let runners = AllocRunners::new(deps).run(CancellationToken::new());
        self.running = Some(tokio::spawn(runners));
    }

    /// Drops the runners, as the kernel does with a killed agent.
    async fn kill_agent(&mut self) {
        let running = self.running.take().unwrap();
        running.abort();
        assert!(running.await.unwrap_err().is_cancelled());
    }

    fn volume(&self) -> TargetPath {
        let csi = self.data.path().join("csi");
        let root = MountRoot::new(&csi, &csi).unwrap();
        root.target(&"vol-1".into(), &ID.into(), &"data".into())
    }

    /// Mounts a file system that the server hands out as volume `data`, with the record beside it.
    pub(crate) fn provide_volume(&self) -> PathBuf {
        let target = self.volume();
        let directory = target.on_host().to_owned();
        std::fs::create_dir_all(&directory).unwrap();
        let record = r#"{"plugin_id":"p","external_id":"vol-1","namespace":"default","id":"db"}"#;
        std::fs::write(target.record(), record).unwrap();
        run_command(&["mount", "-t", "tmpfs", "volume", directory.to_str().unwrap()]);
        self.control.provide("data", target.on_host().to_owned());
        directory
    }

    pub(crate) async fn status(&self, status: &str) -> AllocReport {
        let id = AllocId::from(ID);
        let is_meant = |report: &AllocReport| report.status.as_str() == status;
        let waited = self.control.wait_for_report(&id, is_meant);
        let waited = tokio::time::timeout(LONG, waited).await;
        waited.unwrap_or_else(|_| panic!("{:#?}", self.control.reports(&id).last()))
    }

    fn name(&self) -> &str {
        self.data.path().to_str().unwrap()
    }

    fn shims(&self) -> Vec<u32> {
        processes_with(&["task-process", "shim", self.name()])
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            running.abort();
        }
        for pid in processes_with(&["task-process", self.name()]) {
            let pid = rustix::process::Pid::from_raw(pid.try_into().unwrap());
            rustix::process::kill_process(pid.unwrap(), rustix::process::Signal::KILL).ok();
        }
        // The data directory is removed next, which a mount in it would prevent.
        let volume = self.volume().on_host().to_owned();
        rustix::mount::unmount(volume, rustix::mount::UnmountFlags::DETACH).ok();
    }
}

/// A task with as much time as it needs to end after its kill signal, on a busy machine too.
pub(crate) fn shell(name: &str, driver: &str, script: &str) -> Task {
    let policy = RestartPolicy {
        attempts: 1,
        delay: Duration::ZERO,
        ..RestartPolicy::of_type(JobType::Batch)
    };
    let mut task = Task::new(name, driver, policy);
    task.kill_timeout = LONG;
    let config = serde_json::json!({"command": "/bin/sh", "args": ["-c", script]});
    task.config = TaskConfig::new(config.as_object().unwrap().clone());
    if driver == "exec" {
        // The directories that these tests hand out belong to root.
        "root".clone_into(&mut task.user);
    }
    task
}

pub(crate) fn mount(destination: &str, read_only: bool) -> VolumeMount {
    VolumeMount {
        volume: "data".into(),
        destination: destination.to_owned(),
        read_only,
        propagation_mode: PropagationMode::Private,
        selinux_label: None,
    }
}

/// An allocation of a batch job. Its group has volume `data` if a task mounts it.
pub(crate) fn alloc(task: Task) -> AssignedAlloc {
    let mut group = TaskGroup::new("g", JobType::Batch);
    if !task.volume_mounts.is_empty() {
        let kind =
            JobVolumeKind::Csi { access_mode: None, attachment_mode: None, mount_options: None };
        let volume = JobVolume {
            source: "db".to_owned(),
            read_only: false,
            per_alloc: false,
            sticky: false,
            kind,
        };
        group.volumes.insert("data".into(), volume);
    }
    group.tasks = vec![task];
    let mut job = Job::new("default".into(), "shop".into());
    job.job_type = JobType::Batch;
    job.groups = vec![group];
    AssignedAlloc {
        id: ID.into(),
        job: Arc::new(job),
        group: "g".to_owned(),
        index: 7,
        wants_stop: false,
        cut_off: [].into(),
        report: None,
    }
}

fn lines(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().map(ToOwned::to_owned).collect()
}

#[test]
fn a_task_with_a_volume_survives_the_agent_and_leaves_nothing_after_its_stop() {
    let test =
        "alloc_runner::a_task_with_a_volume_survives_the_agent_and_leaves_nothing_after_its_stop";
    run_isolated(test, || async {
        let mut node = Node::new();
        let volume = node.provide_volume();
        let script = "trap 'echo stopped >> /data/starts; exit 0' INT; touch /local/own /alloc/data/shared; \
                  echo \"$NAME $NOMAD_TASK_DIR\" >> /data/starts; while :; do sleep 0.02; done";
        let mut task = shell("web", "exec", script);
        task.environment = TaskEnvironment::from_iter([("NAME", "${NOMAD_ALLOC_NAME}")]);
        task.volume_mounts = vec![mount("/data", false)];
        node.control.assign(alloc(task));
        node.status("running").await;
        let starts = volume.join("starts");
        until_true("the task to write", || !lines(&starts).is_empty());
        let shims = node.shims();
        assert_eq!(shims.len(), 1);

        node.kill_agent().await;
        assert_eq!(node.shims(), shims, "the task outlives the agent");
        node.start_agent();
        node.control.stop(&ID.into());
        let report = node.status("complete").await;
        assert_eq!(report.tasks["web"].restarts, 0);
        assert_eq!(lines(&starts), ["shop.g[7] /local", "stopped"], "it started once");
        until_true("the processes to end", || node.shims().is_empty());
        run_command(&["umount", volume.to_str().unwrap()]);
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        assert!(!mounts.contains(node.name()), "{mounts}");
        let alloc = node.data.path().join("allocs").join(ID);
        assert!(alloc.join("tasks/web/local/own").exists());
        assert!(alloc.join("alloc/data/shared").exists());
    });
}

/// B81: a volume is mounted twice, and the read-only mount is one.
#[test]
fn a_volume_is_mounted_twice_and_once_read_only() {
    let test = "alloc_runner::a_volume_is_mounted_twice_and_once_read_only";
    run_isolated(test, || async {
        let node = Node::new();
        let volume = node.provide_volume();
        let script = "echo yes > /data/${NOMAD_ALLOC_INDEX}/written; cat /ro/written >> /data/7/seen; \
                  (echo no > /ro/refused) 2>/dev/null || echo refused >> /data/7/seen";
        std::fs::create_dir(volume.join("7")).unwrap();
        let script = script.replace("/ro/written", "/ro/7/written");
        let mut task = shell("web", "exec", &script);
        task.volume_mounts = vec![mount("/data", false), mount("/ro", true)];
        node.control.assign(alloc(task));
        node.status("complete").await;
        assert_eq!(lines(&volume.join("7/seen")), ["yes", "refused"]);
        run_command(&["umount", volume.to_str().unwrap()]);
    });
}

#[tokio::test]
async fn a_task_of_another_user_can_write_to_its_directories() {
    if !is_root() {
        return;
    }
    let node = Node::new();
    let script = "id -u > /local/uid && touch /alloc/data/one /secrets/two";
    let mut task = shell("web", "exec", script);
    task.user = "65534".to_owned();
    node.control.assign(alloc(task));
    node.status("complete").await;
    let alloc = node.data.path().join("allocs").join(ID);
    assert_eq!(lines(&alloc.join("tasks/web/local/uid")), ["65534"]);
    assert!(alloc.join("alloc/data/one").exists());
    assert!(alloc.join("tasks/web/secrets/two").exists());
}

/// As in Nomad: what is written belongs to `nobody`, and the shared directory itself to root.
#[tokio::test]
async fn a_task_without_a_user_is_nobody() {
    if !is_root() {
        return;
    }
    let node = Node::new();
    let script = "id -un > /local/name; touch /secrets/own /alloc/data/shared; touch /alloc/new 2>/dev/null; \
                  mv /alloc/logs /alloc/moved 2>/dev/null; true";
    let mut task = shell("web", "exec", script);
    task.user.clear();
    node.control.assign(alloc(task));
    node.status("complete").await;
    let alloc = node.data.path().join("allocs").join(ID);
    assert_eq!(lines(&alloc.join("tasks/web/local/name")), ["nobody"]);
    assert!(alloc.join("tasks/web/secrets/own").exists());
    assert!(alloc.join("alloc/data/shared").exists());
    let mut left: Vec<_> = std::fs::read_dir(alloc.join("alloc"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    left.sort();
    assert_eq!(left, ["data", "logs", "tmp"]);
}

#[tokio::test]
async fn the_output_of_a_task_is_read_across_its_runs() {
    if !is_root() {
        return;
    }
    let node = Node::new();
    let script = "echo run >&2; echo one; echo two; exit 1";
    node.control.assign(alloc(shell("web", "raw_exec", script)));
    let logs = NodeTaskLogs::new(node.data.path().to_owned(), drivers());
    let output = TaskOutput { alloc: ID.into(), task: "web".to_owned(), stream: LogStream::Stdout };
    let begin = logs.locate(&output, LogOrigin::Start, 0).await.unwrap();
    let waited = tokio::time::timeout(LONG, logs.wait_for_more(&output, begin)).await;
    waited.unwrap().unwrap();
    let report = node.status("failed").await;
    assert_eq!(report.tasks["web"].restarts, 1);
    let expected = "one\ntwo\none\ntwo\n";
    assert_eq!(read_all(&logs, &output, LogOrigin::Start, 0).await, expected);
    assert_eq!(read_all(&logs, &output, LogOrigin::Start, 5).await, expected[5..]);
    assert_eq!(read_all(&logs, &output, LogOrigin::End, 10).await, expected[6..]);
    let errors = TaskOutput { stream: LogStream::Stderr, ..output };
    assert_eq!(read_all(&logs, &errors, LogOrigin::End, 99).await, "run\nrun\n");
}

/// Reads an output in small parts until there is no more.
async fn read_all(
    logs: &NodeTaskLogs,
    output: &TaskOutput,
    origin: LogOrigin,
    offset: u64,
) -> String {
    let mut position = logs.locate(output, origin, offset).await.unwrap();
    let mut text = String::new();
    loop {
        let chunk = logs.read(output, position, 3).await.unwrap();
        if chunk.data.is_empty() {
            return text;
        }
        text.push_str(std::str::from_utf8(&chunk.data).unwrap());
        position = chunk.next;
    }
}

/// An agent that is killed again and again while it starts a task starts it once.
#[test]
fn a_task_starts_once_whenever_the_agent_is_killed() {
    let test = "alloc_runner::a_task_starts_once_whenever_the_agent_is_killed";
    run_isolated(test, || async {
        for milliseconds in [0, 1, 2, 4, 8, 16, 32] {
            let mut node = Node::new();
            let volume = node.provide_volume();
            let mut task = shell("web", "exec", "echo start >> /data/starts; exec sleep 1000");
            task.volume_mounts = vec![mount("/data", false)];
            node.control.assign(alloc(task));
            for _ in 0..3 {
                let passed = tokio::time::timeout(
                    Duration::from_millis(milliseconds),
                    std::future::pending::<()>(),
                );
                assert!(passed.await.is_err());
                node.kill_agent().await;
                node.start_agent();
            }
            node.status("running").await;
            let starts = volume.join("starts");
            until_async("the task to write", async || {
                let found = lines(&starts);
                (!found.is_empty()).then_some(()).ok_or(format!("{found:?}"))
            })
            .await;
            node.control.stop(&ID.into());
            node.status("complete").await;
            assert_eq!(lines(&starts), ["start"], "killed after {milliseconds} ms");
            run_command(&["umount", volume.to_str().unwrap()]);
        }
    });
}
