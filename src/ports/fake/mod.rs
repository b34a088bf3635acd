//! Ports over worlds in memory, for tests: as strict as the real thing, and able to fail like it.

mod backend;
mod block_storage;
mod clock;
mod ids;
mod journal;
mod ledger;
mod mounter;
mod plugin;
mod sealer;
mod settings;
mod storage;
mod volume_api;
mod world;

pub use backend::{Call, CallFailed, FakeBackend, Fault};
pub use block_storage::FakeBlockStorage;
pub use clock::FakeClock;
pub use ids::CountingIds;
pub use journal::{AppendFault, MemoryJournal};
pub use ledger::{LedgerFault, MemoryLedger};
pub use mounter::FakeMounter;
pub use plugin::{FakeConnector, FakeDirectory, FakePlugin};
pub use sealer::FakeSealer;
pub use settings::Settings;
pub use volume_api::{CallFault, FakeServer};
pub use world::{FakeSnapshot, FakeStaging, FakeTarget, FakeVolume, Refusal, World};
