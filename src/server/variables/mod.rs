//! Nomad's variables: small text maps with compare-and-set and locks.
//!
//! `decide` determines the result of a write and is pure. `service` records it as one event, with
//! sealed items, and expires locks.

mod decide;
mod service;

pub use decide::VariableWrite;
pub use service::{VariableContents, VariableService, VariableWriteOutcome};
