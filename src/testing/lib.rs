//! Owns the fakes of the ports in memory, as strict as the real adapters, with injected failures; and what the tests of
//! several crates need: a disk that loses power, a mount namespace, a model of CSI.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::print_stderr,
    missing_docs,
    reason = "only tests use it: a failed test must panic, and one that is skipped says so"
)]

pub mod alloc_samples;
mod attachment_state;
mod backend;
mod block_storage;
mod call_observer;
mod clock;
mod control_plane;
pub mod crash_disk;
pub mod csi_model;
mod few_or_many;
mod health;
mod ids;
mod in_use;
mod machine;
mod mounter;
pub mod namespace;
mod node_state;
mod plugin;
mod provider_state;
mod refusal;
mod settings;
mod stats;
mod step_host;
mod storage;

pub use backend::{Call, CallError, FakeBackend, FakeCallLock, Fault};
pub use block_storage::FakeBlockStorage;
pub use call_observer::NoCallObserver;
pub use clock::FakeClock;
pub use control_plane::FakeControlPlane;
pub use few_or_many::few_or_many;
pub use ids::CountingIds;
pub use in_use::{FakeAttachment, FakeStaging, FakeTarget};
pub use machine::FakeMachine;
pub use mounter::FakeMounter;
pub use plugin::{FakeConnector, FakeDirectory, FakePlugin, NothingSent};
pub use provider_state::{FakeSnapshot, FakeVolume, ProviderState, ReportedStats};
pub use refusal::Refusal;
pub use settings::PluginSettings;
pub use step_host::FakeStepHost;
