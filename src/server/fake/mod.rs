//! The server in memory, for tests: as strict as the real one, with injected failures.

mod agent;
mod hosts;
mod journal;
mod sealer;

pub use agent::FakeAgent;
pub use hosts::FakeHosts;
#[cfg(test)]
pub(crate) use hosts::NoInstances;
pub use journal::{AppendFault, MemoryJournal};
pub use sealer::FakeSealer;
