//! The interfaces through which this crate uses a server, ledgers, secrets and processes.
//!
//! A port is a trait for a role, never for a concrete product. Its doc comment is its contract.

mod access;
mod acl_api;
mod allocation_api;
mod claim_api;
mod cluster_api;
mod document;
mod job_api;
mod ledger;
mod process_table;
mod provider_api;
mod secret_source;
mod server_wait;
mod variable_api;
mod volume_api;
mod volume_watch;

#[cfg(test)]
pub(crate) mod fake;

pub use access::{AccessReader, Policy, TokenKind};
pub use acl_api::AclApi;
pub use allocation_api::{AllocationApi, LogReader, LogRequest};
pub use claim_api::{ClaimApi, ClaimQuery, FenceRequest, VolumeClaimRequest, VolumeReleaseRequest};
pub use cluster_api::{ClusterApi, DrainChange};
pub use document::Document;
pub use job_api::{JobApi, JobDispatch, JobRegistration};
pub use ledger::{Ledger, LedgerError, LedgerFailure, LockHolder, SetLock};
pub use process_table::{ProcessIdentity, ProcessState, ProcessTable};
pub use provider_api::{ProviderReader, SnapshotApi, SnapshotRequest};
pub use secret_source::{ResolvedSecret, SecretProblem, SecretSource};
pub use server_wait::{OutageObserver, ServerWait};
pub use variable_api::VariableReader;
pub use volume_api::{
    ApiError, ServerKind, VolumeApi, VolumeQuery, VolumeReader, WithDocument, WriteReply,
};
pub use volume_watch::{TopicWatch, VolumeWatch, WatchRequest, WatchResponse, WatchTopic};
