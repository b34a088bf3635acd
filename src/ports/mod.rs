//! Ports: the interfaces through which the core uses storage, servers, plugins and the system.
//!
//! A port is a trait for a role, never for a concrete product. An adapter implements it over one
//! external crate, a fake in memory. The doc comment of a port is its contract. A fake is as strict
//! as the adapter, so a test finds the errors that production would.

mod access;
mod allocation_api;
mod attachment;
mod block_storage;
mod call_observer;
mod capacity;
mod claim_api;
mod clock;
mod cluster_api;
mod cluster_reader;
mod connector;
mod contained;
mod control_plane;
mod controller_host;
mod document;
mod driver;
#[cfg(any(test, feature = "testing"))]
pub mod fake;
mod health;
mod host_error;
mod ids;
mod job_api;
mod journal;
mod ledger;
mod measurements;
mod mount_observer;
mod mounter;
mod namespace_api;
mod node_api;
mod node_host;
mod observer;
mod plugin;
mod plugins;
mod process_table;
mod provider_api;
mod sealer;
mod secret_source;
mod server_wait;
mod stats;
mod step_text;
mod storage;
mod task_logs;
mod task_run;
mod variable_api;
mod verdict;
mod volume_api;
mod volume_watch;

pub use access::{AccessReader, Policy, TokenKind};
pub use allocation_api::{AllocationApi, LogReader, LogRequest};
pub use attachment::{ControllerPublishVolume, ControllerUnpublishVolume, NodeExpandVolume};
pub use block_storage::{
    AttachOptions, AttachedDevice, BlockStorage, BlockStorageFeatures, CopyMethod, DeviceTuning,
    FileContent, FileSystem, LoopDevice,
};
pub use call_observer::{CallLoad, CallObserver};
pub use capacity::GetCapacity;
pub use claim_api::{ClaimApi, ClaimQuery, VolumeClaimRequest, VolumeReleaseRequest};
pub use clock::{Clock, SystemClock};
pub use cluster_api::ClusterApi;
pub use cluster_reader::ClusterReader;
pub use connector::{Connector, PeerProcess, PluginConnection, SentSecrets, SentSecretsReader};
pub use contained::{ContainedPanic, contained};
pub use control_plane::{
    AssignedAlloc, AssignedAllocs, ControlPlane, ControlPlaneError, LostMount, MountRefused,
    UnreadableAlloc,
};
pub use controller_host::{ControllerHost, ControllerPublishRequest, ControllerUnpublishRequest};
pub use document::Document;
pub use driver::{DriverError, StoppedProcess, Task, TaskCommand, TaskDriver};
pub use health::{ListVolumeHealth, ListedHealth, NodeVolumeHealth};
pub use host_error::{HostError, HostFileError, HostOperation};
pub use ids::{IdSource, RandomIds};
pub use job_api::{JobApi, JobDispatch, JobRegistration};
pub use journal::{Journal, JournalError, JournalErrorKind, Replay};
pub use ledger::{Ledger, LedgerError, LedgerFailure, LockHolder, SetLock};
pub use measurements::{
    CallMeasurements, METRICS_CONTENT_TYPE, Measurements, MetricsSource, NoMeasurements,
    VolumeHealthCounts, VolumeStatsSample,
};
pub use mount_observer::{MountAction, MountEvent, MountObserver};
pub use mounter::{
    MountCalls, MountChanges, MountEntry, MountError, MountFlags, MountIdentity, Mounter,
    SourceIdentity,
};
pub use namespace_api::NamespaceApi;
pub use node_api::{DrainChange, NodeApi};
pub use node_host::{
    CallOrder, NodeExpandRequest, NodeHost, PublishRequest, StageRequest, StatsRequest,
    SweepOutcome, UnpublishRequest, UnstageRequest,
};
pub use observer::{PluginObserver, ReportRefused};
pub use plugin::{
    Controller, CreateVolume, CreatedVolume, Delivery, Identity, NodeDescription, NodeService,
    PluginCapabilities, PluginError, PluginInfo, PublishVolume, Rpc, StageVolume, StatusCode,
    ValidateVolume, VolumeSource,
};
pub use plugins::PluginDirectory;
pub use process_table::{ProcessIdentity, ProcessState, ProcessTable};
pub use provider_api::{ProviderReader, SnapshotApi, SnapshotRequest};
pub use sealer::{SealError, Sealer};
pub use secret_source::{ResolvedSecret, SecretProblem, SecretSource};
pub use server_wait::{OutageObserver, ServerWait};
pub use stats::NodeVolumeStats;
pub use step_text::{StepSubject, nomad_step_text};
pub use storage::{
    CreateSnapshot, ExpandVolume, ExpandedVolume, ListSnapshots, ModifyVolume, Page, PageRequest,
};
pub use task_logs::{LogChunk, LogOrigin, LogPosition, TaskLogError, TaskLogs, TaskOutput};
pub use task_run::{
    DriverConfig, LimitReached, LimitsReached, LogFile, LogLimits, LogSlice, LogStream, MockScript,
    RunDriver, RunEnd, RunError, RunRequest, RunStart, RunStatus, TaskMount, TaskProgram, TaskUser,
};
pub use variable_api::VariableReader;
pub use verdict::{verdict_of, verdict_unsent};
pub use volume_api::{
    ApiError, ServerKind, VolumeApi, VolumeQuery, VolumeReader, WithDocument, WriteReply,
};
pub use volume_watch::{VolumeWatch, WatchRequest, WatchResponse};
