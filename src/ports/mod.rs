//! What the core needs from outside, in the core's words.
//!
//! A port is a role with a contract, never a concrete thing: an adapter (L5) implements it over one
//! outside crate, a fake over memory. The contract is the doc comment; a fake is as strict as the
//! real thing, so that a test finds what production would.

mod access;
mod block_storage;
mod clock;
mod connector;
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

pub use access::{AccessReader, Policy, TokenOwner};
pub use block_storage::{
    Attach, AttachedDevice, BlockStorage, Copied, FileSystem, LoopDevice, Offers, Tuning,
};
pub use clock::{Clock, SystemClock};
pub use connector::{Connector, PluginConnection};
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
pub use secret_source::{FoundSecret, SecretRemark, SecretSource};
pub use storage::{CreateSnapshot, ExpandVolume, ExpandedVolume, ListSnapshots, Page, PageRequest};
pub use verdict::{verdict_of, verdict_unsent};
pub use volume_api::{
    ApiError, Reading, ServerKind, VolumeApi, VolumeQuery, VolumeReader, Written,
};
pub use volume_watch::{VolumeWatch, WaitFor, Watched};
