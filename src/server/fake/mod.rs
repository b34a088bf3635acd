//! The server in memory, for tests: as strict as the real one, with injected failures.

mod agent;
mod journal;
mod sealer;

pub use agent::FakeAgent;
pub use journal::{AppendFault, MemoryJournal};
pub use sealer::FakeSealer;
