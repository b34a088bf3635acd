//! Owns the journal of several servers in etcd, and the leadership that fences its writes. It is the only room that knows etcd.
//!
//! ```text
//! client      etcd's API: one request to one member, with a limit of time, and whether a failure is certain
//! leadership  one key with a lease: its create revision is the term
//! journal     a batch of events is one transaction, which requires the leader's key and the end of the log
//! follower    the same log, read by a server that does not lead
//! snapshots   a chain of sets in chunks, of which one key says what counts
//! space       etcd stops all writes at its quota, so growth stops before
//! ```

mod api;
mod batch;
mod boot_time;
mod client;
mod error;
mod failure;
#[cfg(any(test, feature = "testing"))]
pub mod fake;
mod follower;
mod journal;
mod keys;
mod leadership;
mod manifest;
mod messages;
mod reader;
mod reclaim;
mod snapshot_set;
mod space;

pub use api::{Etcd, MemberStatus};
pub use client::{EtcdClient, EtcdEndpoint, EtcdTls};
pub use error::{EtcdError, EtcdErrorKind};
pub use follower::EtcdFollower;
pub use journal::EtcdJournal;
pub use keys::{Keys, recorded_key};
pub use leadership::{Candidate, Leadership, LeadingServer};
pub use reclaim::{Reclaimed, reclaim};
pub use space::Space;
