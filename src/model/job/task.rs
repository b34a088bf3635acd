//! A task: one process or container of a group.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::constraint::Constraint;
use super::environment::{TaskConfig, TaskEnvironment};
use super::keywords::{CsiPluginType, LifecycleHook, PropagationMode, SelinuxLabel};
use super::restart::RestartPolicy;
use crate::id::{PluginId, VolumeAlias};

/// A task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Task {
    /// The name, unique in the group.
    pub name: String,
    /// The driver that runs it, such as `exec`.
    pub driver: String,
    /// The driver's configuration.
    pub config: TaskConfig,
    /// The environment.
    pub environment: TaskEnvironment,
    /// The values of `meta` blocks: its own, else those of its group. Those of its job are the job's.
    #[serde(default, skip_serializing_if = "TaskEnvironment::is_empty")]
    pub meta: TaskEnvironment,
    /// The user that runs it; empty for the driver's default.
    pub user: String,
    /// Requirements on the node.
    pub constraints: Vec<Constraint>,
    /// When it is restarted after a failure.
    pub restart: RestartPolicy,
    /// How long it may take to end after the kill signal.
    pub kill_timeout: Duration,
    /// The signal that asks it to end; empty for the driver's default.
    pub kill_signal: String,
    /// When it runs; a main task has none.
    pub lifecycle: Option<Lifecycle>,
    /// True if the other tasks of the group end with it.
    pub is_leader: bool,
    /// The volumes that it mounts.
    pub volume_mounts: Vec<VolumeMount>,
    /// The plugin that it is, if it is one.
    pub csi_plugin: Option<CsiPluginConfig>,
    /// The file in its directory that gets the payload of a dispatched job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_file: Option<String>,
    /// The resources that it asks for.
    pub resources: Resources,
}

impl Task {
    /// The time to end of a task that names none.
    pub const DEFAULT_KILL_TIMEOUT: Duration = Duration::from_secs(5);
    /// The longest time to end that a job may ask for. Nothing ends the task sooner.
    pub const MAX_KILL_TIMEOUT: Duration = Duration::from_secs(60 * 60);

    /// Returns the time between the kill signal and SIGKILL, also of a job that was recorded before it was limited.
    pub fn time_to_end(&self) -> Duration {
        self.kill_timeout.min(Self::MAX_KILL_TIMEOUT)
    }

    /// Creates a main task without volumes, with Nomad's defaults.
    pub fn new(name: impl Into<String>, driver: impl Into<String>, restart: RestartPolicy) -> Self {
        Self {
            name: name.into(),
            driver: driver.into(),
            config: TaskConfig::default(),
            environment: TaskEnvironment::default(),
            meta: TaskEnvironment::default(),
            user: String::new(),
            constraints: vec![],
            restart,
            kill_timeout: Self::DEFAULT_KILL_TIMEOUT,
            kill_signal: String::new(),
            lifecycle: None,
            is_leader: false,
            volume_mounts: vec![],
            csi_plugin: None,
            payload_file: None,
            resources: Resources::default(),
        }
    }
}

/// When a task runs that is not a main task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lifecycle {
    /// The moment of its start.
    pub hook: LifecycleHook,
    /// True if it runs as long as the main tasks.
    pub is_sidecar: bool,
}

/// A volume of the group in the file system of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VolumeMount {
    /// The group's name of the volume.
    pub volume: VolumeAlias,
    /// The path in the task.
    pub destination: String,
    /// True if the task only reads.
    pub read_only: bool,
    /// The propagation of mounts.
    pub propagation_mode: PropagationMode,
    /// The SELinux label, if the volume gets another one.
    pub selinux_label: Option<SelinuxLabel>,
}

/// The CSI plugin that a task is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CsiPluginConfig {
    /// The plugin's ID, which volumes name.
    pub id: PluginId,
    /// The services that it serves.
    pub plugin_type: CsiPluginType,
    /// The directory of the socket, in the task.
    pub mount_dir: String,
    /// The parent directory of staging and target paths, in the task.
    pub stage_publish_base_dir: String,
    /// How long the plugin may take until it is healthy for the first time.
    pub health_timeout: Duration,
}

impl CsiPluginConfig {
    /// The directory of the socket, unless a job names another.
    pub const DEFAULT_MOUNT_DIR: &'static str = "/csi";
    /// The parent directory of staging and target paths, unless a job names another.
    pub const DEFAULT_STAGE_PUBLISH_BASE_DIR: &'static str = "/local/csi";
    /// The time until the plugin is healthy, unless a job names another.
    pub const DEFAULT_HEALTH_TIMEOUT: Duration = Duration::from_secs(30);

    /// Creates a plugin with Nomad's defaults (B59).
    pub fn new(id: PluginId, plugin_type: CsiPluginType) -> Self {
        Self {
            id,
            plugin_type,
            mount_dir: Self::DEFAULT_MOUNT_DIR.to_owned(),
            stage_publish_base_dir: Self::DEFAULT_STAGE_PUBLISH_BASE_DIR.to_owned(),
            health_timeout: Self::DEFAULT_HEALTH_TIMEOUT,
        }
    }
}

/// The resources that a task asks for. A node limits its tasks to them as far as its machine can.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resources {
    /// Processor time in MHz.
    pub cpu: i64,
    /// Whole processor cores.
    pub cores: i64,
    /// Memory in MiB.
    pub memory_mb: i64,
    /// The limit of memory in MiB; 0 if it is the reservation.
    pub memory_max_mb: i64,
}

/// Nomad's defaults.
impl Default for Resources {
    fn default() -> Self {
        Self { cpu: 100, cores: 0, memory_mb: 300, memory_max_mb: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recorded_task_without_a_limit_ends_in_time() {
        let restart = RestartPolicy::of_type(crate::JobType::Service);
        let mut task = Task::new("t", "exec", restart);
        for (asked, given) in [(30, 30), (3600, 3600), (3601, 3600), (u64::MAX, 3600)] {
            task.kill_timeout = Duration::from_secs(asked);
            assert_eq!(task.time_to_end().as_secs(), given);
        }
    }
}
