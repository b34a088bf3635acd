//! Ports over worlds in memory, for tests: as strict as the real thing, and able to fail like it.

mod journal;

pub use journal::{AppendFault, MemoryJournal};
