//! A task of a job.

use serde::{Deserialize, Serialize};

use super::launching::DispatchPayloadDocument;
use super::policy::{ConstraintDocument, RestartPolicyDocument};
use super::unsupported::{Unsupported, block, given_identity};
use nomad_csi_model::{TaskConfig, TaskEnvironment};

/// A task. `null` stands for Nomad's default. Durations are in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct TaskDocument {
    /// Commands that a person runs in it; ignored.
    #[serde(skip_serializing_if = "Unsupported::is_absent")]
    pub actions: Unsupported,
    /// Nodes that it prefers; ignored.
    #[serde(skip_serializing_if = "Unsupported::is_absent")]
    pub affinities: Unsupported,
    /// Files that it gets from elsewhere; refused.
    #[serde(skip_serializing_if = "Unsupported::is_absent")]
    pub artifacts: Unsupported,
    /// The plugin that it is.
    #[serde(rename = "CSIPluginConfig")]
    pub csi_plugin_config: Option<CsiPluginDocument>,
    /// The driver's configuration.
    pub config: TaskConfig,
    /// Requirements on the node.
    pub constraints: Vec<ConstraintDocument>,
    /// The file that gets the payload of a dispatched job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dispatch_payload: Option<DispatchPayloadDocument>,
    /// The driver.
    pub driver: String,
    /// The environment.
    pub env: TaskEnvironment,
    /// The signal that asks it to end.
    pub kill_signal: String,
    /// How long it may take to end.
    pub kill_timeout: Option<i64>,
    /// True if the other tasks end with it.
    pub leader: bool,
    /// When it runs.
    pub lifecycle: Option<LifecycleDocument>,
    /// Values for its environment.
    #[serde(skip_serializing_if = "TaskEnvironment::is_empty")]
    pub meta: TaskEnvironment,
    /// The name.
    pub name: String,
    /// The resources.
    pub resources: Option<ResourcesDocument>,
    /// Its own Consul; ignored.
    #[serde(deserialize_with = "block", skip_serializing_if = "Unsupported::is_absent")]
    pub consul: Unsupported,
    /// Its identities, which are refused if it gets one as a file or a variable.
    #[serde(deserialize_with = "given_identity", skip_serializing_if = "Unsupported::is_absent")]
    pub identities: Unsupported,
    /// Its identity without a name.
    #[serde(deserialize_with = "given_identity", skip_serializing_if = "Unsupported::is_absent")]
    pub identity: Unsupported,
    /// When it is restarted after a failure.
    pub restart_policy: Option<RestartPolicyDocument>,
    /// How it is scaled; ignored.
    #[serde(skip_serializing_if = "Unsupported::is_absent")]
    pub scaling_policies: Unsupported,
    /// When it runs; refused.
    #[serde(deserialize_with = "block", skip_serializing_if = "Unsupported::is_absent")]
    pub schedule: Unsupported,
    /// Secrets that it gets; refused.
    #[serde(skip_serializing_if = "Unsupported::is_absent")]
    pub secrets: Unsupported,
    /// Its services; ignored.
    #[serde(skip_serializing_if = "Unsupported::is_absent")]
    pub services: Unsupported,
    /// How long it waits before it stops; ignored.
    #[serde(skip_serializing_if = "Unsupported::is_absent")]
    pub shutdown_delay: Unsupported,
    /// Files that are made for it; refused.
    #[serde(skip_serializing_if = "Unsupported::is_absent")]
    pub templates: Unsupported,
    /// The user.
    pub user: String,
    /// The tokens that it gets; refused.
    #[serde(deserialize_with = "block", skip_serializing_if = "Unsupported::is_absent")]
    pub vault: Unsupported,
    /// The volumes that it mounts.
    pub volume_mounts: Vec<VolumeMountDocument>,
}

/// When a task runs that is not a main task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct LifecycleDocument {
    /// `prestart`, `poststart` or `poststop`.
    pub hook: String,
    /// True if it runs as long as the main tasks.
    pub sidecar: bool,
}

/// The resources of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResourcesDocument {
    /// Processor time in MHz.
    #[serde(rename = "CPU")]
    pub cpu: Option<i64>,
    /// Whole processor cores.
    #[serde(rename = "Cores")]
    pub cores: Option<i64>,
    /// Space on disk in MiB; Nomad's CLI requires the field.
    #[serde(rename = "DiskMB")]
    pub disk_mb: Option<i64>,
    /// The limit of memory in MiB.
    #[serde(rename = "MemoryMaxMB")]
    pub memory_max_mb: Option<i64>,
    /// Memory in MiB.
    #[serde(rename = "MemoryMB")]
    pub memory_mb: Option<i64>,
}

/// A volume of the group in the file system of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct VolumeMountDocument {
    /// The path in the task.
    pub destination: String,
    /// The propagation of mounts.
    pub propagation_mode: String,
    /// True if the task only reads.
    pub read_only: bool,
    /// The SELinux label.
    #[serde(rename = "SELinuxLabel")]
    pub selinux_label: String,
    /// The group's name of the volume.
    pub volume: String,
}

/// The CSI plugin that a task is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct CsiPluginDocument {
    /// How long it may take until it is healthy, in nanoseconds.
    pub health_timeout: i64,
    /// The plugin's ID.
    #[serde(rename = "ID")]
    pub id: String,
    /// The directory of the socket.
    pub mount_dir: String,
    /// The parent directory of staging and target paths.
    pub stage_publish_base_dir: String,
    /// `controller`, `node` or `monolith`.
    #[serde(rename = "Type")]
    pub plugin_type: String,
}
