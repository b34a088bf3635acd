//! Ports: the interfaces through which the core uses storage, servers, plugins and the system.
//!
//! A port is a trait for a role, never for a concrete product. An adapter implements it over one
//! external crate, a fake in memory. The doc comment of a port is its contract. A fake is as strict
//! as the adapter, so a test finds the errors that production would.

mod access;
mod block_storage;
mod call_observer;
mod clock;
mod cluster_api;
mod connector;
mod contained;
mod document;
mod driver;
#[cfg(any(test, feature = "testing"))]
pub mod fake;
mod ids;
mod journal;
mod ledger;
mod mounter;
mod observer;
mod plugin;
mod plugins;
mod provider_api;
mod sealer;
mod secret_source;
mod storage;
mod verdict;
mod volume_api;
mod volume_watch;

pub use access::{AccessReader, Policy, TokenKind};
pub use block_storage::{
    AttachOptions, AttachedDevice, BlockStorage, BlockStorageFeatures, CopyMethod, DeviceTuning,
    FileSystem, LoopDevice,
};
pub use call_observer::{CallLoad, CallObserver};
pub use clock::{Clock, SystemClock};
pub use cluster_api::ClusterApi;
pub use connector::{Connector, PluginConnection};
pub use contained::{ContainedPanic, contained};
pub use document::Document;
pub use driver::{DriverError, Task, TaskCommand, TaskDriver};
pub use ids::{IdSource, RandomIds};
pub use journal::{Journal, JournalError, JournalErrorKind, Replay};
pub use ledger::{Ledger, LedgerError, LedgerFailure, LockHolder, SetLock};
pub use mounter::{MountEntry, MountError, MountFlags, Mounter};
pub use observer::{PluginObserver, ReportRefused};
pub use plugin::{
    Controller, CreateVolume, CreatedVolume, Identity, NodeDescription, NodeService,
    PluginCapabilities, PluginError, PluginInfo, PublishVolume, Rpc, StageVolume, StatusCode,
    ValidateVolume, VolumeSource,
};
pub use plugins::PluginDirectory;
pub use provider_api::{ProviderReader, SnapshotApi, SnapshotRequest};
pub use sealer::{SealError, Sealer};
pub use secret_source::{ResolvedSecret, SecretProblem, SecretSource};
pub use storage::{CreateSnapshot, ExpandVolume, ExpandedVolume, ListSnapshots, Page, PageRequest};
pub use verdict::{verdict_of, verdict_unsent};
pub use volume_api::{
    ApiError, ServerKind, VolumeApi, VolumeQuery, VolumeReader, WithDocument, WriteReply,
};
pub use volume_watch::{VolumeWatch, WatchRequest, WatchResponse};
