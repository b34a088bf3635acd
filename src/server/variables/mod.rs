//! Variables: small maps of text with compare-and-set and locks, as Nomad serves them since 1.4
//! (`nomad-neighbour-apis` 1, 2).
//!
//! `decide` says what a write comes to, and is pure; `service` carries it out as one event of the
//! journal, in which items stand only sealed, and ends locks when their time is over.

mod decide;
mod service;

pub use decide::VariableWrite;
pub use service::{VariableOutcome, VariablePorts, VariableReading, Variables};
