//! Ports over worlds in memory, for tests: as strict as the real thing, and able to fail like it.

mod journal;
mod volume_api;

pub use journal::{AppendFault, MemoryJournal};
pub use volume_api::{CallFault, FakeServer};
