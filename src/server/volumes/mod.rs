//! Creates, registers, expands, modifies, deletes and deregisters volumes; lists and snapshots what providers
//! have.
//!
//! An operation acquires its volume, reads the record, decides, records an intent, calls the plugin
//! and records the answer. The intent comes before every call that changes a registered volume.
//! After `kill -9` the record shows how far the operation came, and the next request for the volume
//! continues it. A creation is continued without a request too ([`creation_driver`]): its volume may exist, and no list
//! of volumes has it.
//!
//! [`VolumeService`] runs the operations. Each operation is a function that gets a [`context`]: records, secrets, locks
//! and controllers. One that may answer its client before it ends gets the reply too.

mod call_effect;
mod capacity;
mod create;
mod creation;
mod creation_driver;
mod delete;
mod deps;
mod deregister;
mod expand;
mod health;
mod limits;
mod listing_health;
mod modify;
mod named_intent;
mod pending;
mod plugin;
mod plugin_validation;
mod provider;
mod register;
mod resource_locks;
mod service;
mod store;
mod submission;
mod update;
mod validation;
mod warnings;

pub use creation::GivenUp;
pub(crate) use creation_driver::CreationDriver;
pub use limits::VolumeLimits;
pub use pending::{CreationAttempts, PendingCreation};
pub use provider::{CreatedSnapshot, SnapshotRequest};
pub use service::VolumeService;
pub use submission::{VolumeSubmission, VolumeWriteResult};

#[cfg(test)]
mod tests;
