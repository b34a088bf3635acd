//! A job, its groups and their volumes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::launching::{ParameterizedDocument, PeriodicDocument};
use super::policy::{ConstraintDocument, ReschedulePolicyDocument, RestartPolicyDocument};
use super::task::TaskDocument;
use super::unsupported::{Unsupported, block, kept_disk};
use crate::volume::MountOptionsDocument;
use nomad_csi_model::TaskEnvironment;

/// The body of a request that registers, plans or validates a job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct JobRequestDocument {
    /// True if the response to a plan has the difference; only a plan has it.
    #[serde(skip_serializing_if = "is_false")]
    pub diff: bool,
    /// True if the job must still have this index.
    pub enforce_index: bool,
    /// The job.
    pub job: Option<JobDocument>,
    /// The index that the job must have; 0 for a new job.
    pub job_modify_index: u64,
    /// True if soft policies are overridden.
    pub policy_override: bool,
    /// The file that the job comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub submission: Option<JobSubmissionDocument>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(truth: &bool) -> bool {
    !*truth
}

/// The file that a job comes from. Nomad shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct JobSubmissionDocument {
    /// `hcl2` or `json`.
    pub format: String,
    /// The text.
    pub source: String,
    /// The values of variables, by name.
    pub variable_flags: BTreeMap<String, String>,
    /// A text with the values of variables.
    pub variables: String,
}

/// A job. `null` stands for Nomad's default.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct JobDocument {
    /// Nodes that it prefers; ignored.
    #[serde(skip_serializing_if = "Unsupported::is_absent")]
    pub affinities: Unsupported,
    /// Requirements on the nodes of all groups.
    pub constraints: Vec<ConstraintDocument>,
    /// The index of the creation; only a server sets it.
    pub create_index: u64,
    /// The datacenters.
    pub datacenters: Vec<String>,
    /// The token that makes a repeated request to dispatch it the same request; only a server sets it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub dispatch_idempotency_token: String,
    /// True if it was dispatched; only a server sets it.
    #[serde(skip_serializing_if = "is_false")]
    pub dispatched: bool,
    /// The ID.
    #[serde(rename = "ID")]
    pub id: String,
    /// The index of the last change of the specification; only a server sets it.
    pub job_modify_index: u64,
    /// Values for the environments of all tasks.
    #[serde(skip_serializing_if = "TaskEnvironment::is_empty")]
    pub meta: TaskEnvironment,
    /// The index of the last change; only a server sets it.
    pub modify_index: u64,
    /// The clusters that run it; refused.
    #[serde(skip_serializing_if = "Unsupported::is_absent")]
    pub multiregion: Unsupported,
    /// The name.
    pub name: String,
    /// The namespace.
    pub namespace: String,
    /// The node pool.
    pub node_pool: String,
    /// The values that each dispatch of it has to give.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameterized_job: Option<ParameterizedDocument>,
    /// The job that it was made from; only a server sets it.
    #[serde(rename = "ParentID", skip_serializing_if = "String::is_empty")]
    pub parent_id: String,
    /// The payload of a dispatched job. It is not shown, and no client sets it.
    #[serde(skip_serializing_if = "Unsupported::is_absent")]
    pub payload: Unsupported,
    /// When it starts by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub periodic: Option<PeriodicDocument>,
    /// The priority.
    pub priority: Option<i64>,
    /// The region.
    pub region: String,
    /// When a failed allocation is replaced, unless a group says otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reschedule: Option<ReschedulePolicyDocument>,
    /// How its allocations are spread; ignored.
    #[serde(skip_serializing_if = "Unsupported::is_absent")]
    pub spreads: Unsupported,
    /// `pending`, `running` or `dead`; only a server sets it.
    pub status: String,
    /// True if the job was stopped. Only a server sets it: what a client sends with it is refused.
    pub stop: bool,
    /// When the job was registered, in nanoseconds since the epoch; only a server sets it.
    pub submit_time: i64,
    /// The groups.
    pub task_groups: Vec<TaskGroupDocument>,
    /// `service`, `batch`, `system` or `sysbatch`.
    #[serde(rename = "Type")]
    pub job_type: String,
    /// How the groups are updated, unless they say otherwise.
    pub update: Option<UpdateDocument>,
    /// The version; only a server sets it.
    pub version: u64,
}

/// How a group is updated.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct UpdateDocument {
    /// The number of canaries.
    pub canary: Option<i64>,
}

/// A group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct TaskGroupDocument {
    /// Nodes that it prefers; ignored.
    #[serde(skip_serializing_if = "Unsupported::is_absent")]
    pub affinities: Unsupported,
    /// Requirements on the node.
    pub constraints: Vec<ConstraintDocument>,
    /// Its own Consul; ignored.
    #[serde(deserialize_with = "block", skip_serializing_if = "Unsupported::is_absent")]
    pub consul: Unsupported,
    /// The number of allocations.
    pub count: Option<i64>,
    /// The behaviour while its node is away; refused.
    #[serde(deserialize_with = "block", skip_serializing_if = "Unsupported::is_absent")]
    pub disconnect: Unsupported,
    /// The disk of its allocation, if that should outlive the allocation; ignored.
    #[serde(deserialize_with = "kept_disk", skip_serializing_if = "Unsupported::is_absent")]
    pub ephemeral_disk: Unsupported,
    /// The older form of `Disconnect`; refused.
    #[serde(skip_serializing_if = "Unsupported::is_absent")]
    pub max_client_disconnect: Unsupported,
    /// How long its tasks run; refused.
    #[serde(skip_serializing_if = "Unsupported::is_absent")]
    pub max_run_duration: Unsupported,
    /// Values for the environments of its tasks.
    #[serde(skip_serializing_if = "TaskEnvironment::is_empty")]
    pub meta: TaskEnvironment,
    /// The name.
    pub name: String,
    /// Its networks; ignored.
    #[serde(skip_serializing_if = "Unsupported::is_absent")]
    pub networks: Unsupported,
    /// The rule that it stays with a lost node; refused.
    #[serde(skip_serializing_if = "Unsupported::is_absent")]
    pub prevent_reschedule_on_lost: Unsupported,
    /// When a failed allocation is replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reschedule_policy: Option<ReschedulePolicyDocument>,
    /// When a failed task is restarted.
    pub restart_policy: Option<RestartPolicyDocument>,
    /// How it is scaled; ignored.
    #[serde(skip_serializing_if = "Unsupported::is_absent")]
    pub scaling: Unsupported,
    /// Its services; ignored.
    #[serde(skip_serializing_if = "Unsupported::is_absent")]
    pub services: Unsupported,
    /// How long its tasks wait before they stop; ignored.
    #[serde(skip_serializing_if = "Unsupported::is_absent")]
    pub shutdown_delay: Unsupported,
    /// How its allocations are spread; ignored.
    #[serde(skip_serializing_if = "Unsupported::is_absent")]
    pub spreads: Unsupported,
    /// When its tasks stop while their node is away; refused.
    #[serde(skip_serializing_if = "Unsupported::is_absent")]
    pub stop_after_client_disconnect: Unsupported,
    /// The tasks.
    pub tasks: Vec<TaskDocument>,
    /// How it is updated.
    pub update: Option<UpdateDocument>,
    /// The volumes, by the name under which tasks mount them.
    pub volumes: BTreeMap<String, VolumeRequestDocument>,
}

/// A volume of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct VolumeRequestDocument {
    /// The access mode.
    pub access_mode: String,
    /// The attachment mode.
    pub attachment_mode: String,
    /// Mount options that override those of the volume.
    pub mount_options: Option<MountOptionsDocument>,
    /// The name under which tasks mount it.
    pub name: String,
    /// True if each allocation has a volume of its own.
    pub per_alloc: bool,
    /// True if the allocations only read.
    pub read_only: bool,
    /// The volume's ID, or the name of a host volume.
    pub source: String,
    /// True if an allocation stays with the volume that it had first.
    pub sticky: bool,
    /// `csi` or `host`.
    #[serde(rename = "Type")]
    pub volume_type: String,
}
