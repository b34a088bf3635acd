//! Create, register, grow, deregister and delete volumes; what their providers have besides.
//!
//! Every operation is the same sequence: a place in the volume's lane, what is remembered, a pure
//! decision, an intent recorded before the provider is asked for anything that cannot be taken back
//! (W09, W14), the call, its answer recorded. Each step may be the last one: after `kill -9` the
//! record says how far it came, and the next request for that volume goes on from there. Nothing
//! works on pending intents unasked.

mod check;
mod create;
mod definition;
mod delete;
mod desk;
mod expand;
mod intent;
mod plugin;
mod provider;
mod register;
mod service;
mod update;

pub use desk::{VolumeLimits, VolumePorts};
pub use provider::SnapshotRequest;
pub use service::{Submitted, Volumes, WriteOutcome};

#[cfg(test)]
mod tests;
