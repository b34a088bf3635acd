//! The server in memory, for tests: as strict as the real one, with injected failures.

mod agent;
mod hosts;
mod journal;
mod lease;
#[cfg(test)]
mod no_instances;
mod sealer;

pub use agent::FakeAgent;
pub use hosts::FakeHosts;
pub use journal::{AppendFault, MemoryJournal};
pub use lease::FakeLease;
#[cfg(test)]
pub(crate) use no_instances::NoInstances;
pub use sealer::FakeSealer;
