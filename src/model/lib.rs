//! Owns what every other crate speaks of: volumes, capabilities, plugins, nodes and their parts; the errors and warnings for
//! users ([`diagnostic`]); when a call is repeated ([`retry`]); and files that only this user can use ([`private`]).
//!
//! These types do not depend on Nomad's JSON, HCL or protobuf; `wire`, `spec` and `csi` convert to
//! them. A type checks its rules when it is built, so its users need no further checks.

mod alloc;
mod alloc_writes;
mod bytes;
mod capability;
mod capacity;
mod client_node;
pub mod diagnostic;
mod display;
mod duration;
mod evaluation;
mod external;
mod fence_statement;
mod field_ref;
mod health;
mod hex;
mod hidden_field;
mod host_volume;
mod id;
mod job;
mod limit;
mod mount_config;
mod mount_options;
mod nested_mount;
mod node;
mod operator_token;
mod paths;
mod plugin;
pub mod private;
mod remote_volume;
pub mod retry;
mod secret_values;
mod secrets;
mod server_version;
mod set_name;
mod snapshot;
mod socket_path;
mod stats;
mod task_state;
mod term;
mod text;
mod topology;
mod unstarted_alloc;
mod usage;
mod variable;
mod volume;
mod volume_claim;
mod volume_creation;
mod volume_event;
mod volume_summary;

pub use alloc::{Alloc, ClientStatus, DesiredStatus, NodeContact};
pub use alloc_writes::{AllocWrites, SeenNodes, alloc_writes};
pub use bytes::{Bytes, BytesError, CapacityRange};
pub use capability::{AccessMode, AttachmentMode, Capability};
pub use capacity::{Capacity, CapacityReport, ReportedCapacity};
pub use client_node::{ClientNode, NodeSight};
pub use display::{
    ago, boundary_before, escape_json, escape_json_for_yaml, is_invisible, one_line, shell_quoted,
    until, visible_char,
};
pub use duration::{GoDuration, InvalidDuration};
pub use evaluation::{BlockedEvaluation, BlockedEvaluations};
pub use external::{Condition, ExternalVolume};
pub use fence_statement::FenceStatement;
pub use field_ref::FieldRef;
pub use health::{
    StorageStatus, StorageStatusKind, VolumeHealth, VolumeStatus, VolumeStatusKind, health_word,
};
pub use hex::hex;
pub use hidden_field::HiddenField;
pub use host_volume::HostVolume;
pub use id::{
    AllocId, EvaluationId, ExternalId, ExternalNodeId, HostSession, IdProblem, JobId, JobKey,
    JobPathProblem, Namespace, NamespacedId, NodeId, PluginId, SnapshotId, VariablePath,
    VolumeAlias, VolumeId,
};
pub use job::{
    Constraint, ConstraintOperator, CsiPluginConfig, CsiPluginType, DelayFunction, Dispatch,
    HostAccessMode, InvalidSettings, Job, JobOrigin, JobType, JobVolume, JobVolumeKind, Lifecycle,
    LifecycleHook, Parameterized, PartEffect, Payload, PayloadRule, Periodic, PropagationMode,
    Reference, ReschedulePolicy, Resources, RestartMode, RestartPolicy, SelinuxLabel, Task,
    TaskConfig, TaskEnvironment, TaskGroup, TextPart, VolumeMount, text_parts,
};
pub use limit::{LimitField, set_limit};
pub use mount_config::MountConfig;
pub use mount_options::MountOptions;
pub use nested_mount::{SHARED_DIRECTORY, shared_mount_around};
pub use node::{Node, NodeStatus};
pub use operator_token::{
    LONGEST_OPERATOR_TOKEN, OPERATOR_TOKEN_DIRECTORY, OPERATOR_TOKEN_FILE, operator_token_name,
    operator_token_names,
};
pub use paths::{MountRoot, MountRootProblem, StagingPath, TargetPath, record_beside, segment};
pub use plugin::{
    ControllerCapabilities, ControllerInfo, Health, HealthCount, NodeCapabilities, NodeInfo,
    Plugin, PluginInstance, PluginSummary,
};
pub use remote_volume::RemoteVolume;
pub use secret_values::SecretValues;
pub use secrets::{
    InvalidSealedText, SealedSecrets, Secret, SecretOwner, SecretRef, SecretRefs, Secrets,
};
pub use server_version::{InvalidVersion, ServerVersion};
pub use set_name::{SetName, SetNameProblem};
pub use snapshot::Snapshot;
pub use socket_path::socket_path;
pub use stats::{PublishedStats, Quantity, ReportedQuantity, StatsUnit, VolumeStats};
pub use task_state::{AllocReport, TaskEvent, TaskPhase, TaskState};
pub use term::Term;
pub use text::Text;
pub use topology::{Topology, TopologyRequest};
pub use unstarted_alloc::UnstartedAlloc;
pub use usage::{PublishContext, Usage};
pub use variable::{PathProblem, VariableKey};
pub use volume::{KeptFiles, UnresolvedRequest, Volume, VolumeField, VolumeRequest};
pub use volume_claim::{ClaimProblem, VolumeClaim};
pub use volume_creation::VolumeCreation;
pub use volume_event::VolumeEvent;
pub use volume_summary::VolumeSummary;
