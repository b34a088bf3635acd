//! Fakes of the ports in memory: as strict as the real adapters, with injected failures.

mod attachment_state;
mod backend;
mod block_storage;
mod call_observer;
mod clock;
mod ids;
mod in_use;
mod journal;
mod ledger;
mod machine;
mod mounter;
mod node_state;
mod plugin;
mod provider_state;
mod refusal;
mod sealer;
mod settings;
mod storage;
mod volume_api;

pub use backend::{Call, CallError, FakeBackend, FakeLane, Fault};
pub use block_storage::FakeBlockStorage;
pub use call_observer::NoCallObserver;
pub use clock::FakeClock;
pub use ids::CountingIds;
pub use in_use::{FakeAttachment, FakeStaging, FakeTarget};
pub use journal::{AppendFault, MemoryJournal};
pub use ledger::{LedgerFault, MemoryLedger};
pub use machine::FakeMachine;
pub use mounter::FakeMounter;
pub use plugin::{FakeConnector, FakeDirectory, FakePlugin};
pub use provider_state::{FakeSnapshot, FakeVolume, ProviderState};
pub use refusal::Refusal;
pub use sealer::FakeSealer;
pub use settings::PluginSettings;
pub use volume_api::{CallFault, FakeServer};
