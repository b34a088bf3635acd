//! Owns the traits between the agent's server, its node, plugins and the system, the verdict on a failed call, and `run_blocking` for calls
//! that block.
//!
//! A port is a trait for a role, never for a concrete product. An adapter implements it over one
//! external crate, a fake in memory. The doc comment of a port is its contract. A fake is as strict
//! as the adapter, so a test finds the errors that production would.

mod alloc_access;
mod attachment;
mod block_storage;
mod blocking;
mod call_observer;
mod capacity;
mod clock;
mod cluster_memory;
mod connector;
mod control_plane;
mod controller_host;
mod health;
mod host_directory;
mod host_error;
mod ids;
mod leader_lease;
mod measurements;
mod mount_observer;
mod mounter;
mod node_host;
mod node_plane;
mod observer;
mod plugin;
mod plugins;
mod presence;
mod stats;
mod step_text;
mod storage;
mod task_logs;
mod term_guard;
mod verdict;

pub use alloc_access::{AllocAccess, AllocAccessError, AllocFile};
pub use attachment::{ControllerPublishVolume, ControllerUnpublishVolume, NodeExpandVolume};
pub use block_storage::{
    AttachOptions, AttachedDevice, BlockStorage, BlockStorageFeatures, CopyMethod, DeviceTuning,
    FileContent, FileSystem, LoopDevice,
};
pub use blocking::run_blocking;
pub use call_observer::{CallLoad, CallObserver};
pub use capacity::GetCapacity;
pub use clock::{Clock, SystemClock};
pub use cluster_memory::{ClusterMemory, ClusterMemoryError, ClusterPosition};
pub use connector::{
    Connector, NoSentSecrets, PeerProcess, PluginConnection, SentSecrets, SentSecretsReader,
};
pub use control_plane::{
    AssignedAlloc, AssignedAllocs, ControlPlane, ControlPlaneError, LostMount, MountDelay,
    MountRefused, UnreadableAlloc,
};
pub use controller_host::{ControllerHost, ControllerPublishRequest, ControllerUnpublishRequest};
pub use health::{ListVolumeHealth, ListedHealth, NodeVolumeHealth};
pub use host_directory::{ConnectedNode, HostDirectory};
pub use host_error::{HostError, HostFileError, HostOperation};
pub use ids::{IdSource, RandomIds};
pub use leader_lease::{LeaderLease, NotLeading, SoleServer};
pub use measurements::{
    CallMeasurements, METRICS_CONTENT_TYPE, Measurements, MetricsSource, NoMeasurements,
    VolumeHealthCounts, VolumeStatsSample,
};
pub use mount_observer::{MountAction, MountEvent, MountObserver};
pub use mounter::{
    MountCalls, MountChanges, MountEntry, MountError, MountFlags, MountIdentity, Mounter,
    SourceIdentity,
};
pub use node_host::{
    CallOrder, NodeExpandRequest, NodeHost, PublishRequest, StageRequest, StatsRequest,
    SweepOutcome, UnpublishRequest, UnstageRequest,
};
pub use node_plane::{NodePlane, NodeSecret, NotLeader, Registration, RegistrationRefused};
pub use observer::{PluginObserver, ReportRefused};
pub use plugin::{
    Controller, CreateVolume, CreatedVolume, Delivery, Identity, NodeDescription, NodeService,
    PluginCapabilities, PluginError, PluginInfo, PublishVolume, Rpc, StageVolume, StatusCode,
    ValidateVolume, VolumeSource,
};
pub use plugins::PluginDirectory;
pub use presence::NodePresence;
pub use stats::NodeVolumeStats;
pub use step_text::{StepSubject, nomad_step_text};
pub use storage::{
    CreateSnapshot, ExpandVolume, ExpandedVolume, ListSnapshots, ModifyVolume, Page, PageRequest,
};
pub use task_logs::{
    LogChunk, LogOrigin, LogPosition, LogStream, TaskLogError, TaskLogs, TaskOutput,
};
pub use term_guard::TermGuard;
pub use verdict::{verdict_of, verdict_unsent};
