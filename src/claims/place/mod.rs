//! Placement: which allocations a job needs, and which node can take each.
//!
//! [`evaluate()`] compares a job with its allocations and decides what to place, stop and leave. A node takes an
//! allocation only if [`refusals`] finds no reason against it; every reason is kept and shown. A volume is checked
//! with the rules of its claim (`claim::admit`), so an allocation is not placed for a claim that would be denied.
//! Nothing here calls a node or changes a state.

mod constraint;
mod decision;
mod drain;
mod evaluate;
mod feasible;
mod node_attributes;
mod refusal_text;
mod returned;
#[cfg(test)]
mod samples;

pub use decision::{Decision, Placed, SlotDecision, SlotOutcome};
pub use drain::is_drained;
pub use evaluate::evaluate;
pub use feasible::{Candidate, refusals};
