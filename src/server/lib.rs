//! Owns the control-plane half of the agent: HTTP API, volumes, variables, claims and jobs, and the journal with sealed
//! secrets ([`store`]).

mod acl;
mod acquire;
mod candidates;
mod cell;
mod claims;
mod clear_secrets;
mod early_reply;
mod error;
mod event_stream;
#[cfg(any(test, feature = "testing"))]
pub mod fake;
mod forward;
mod forward_error;
mod history;
pub mod http;
mod jobs;
mod journal;
mod keyed_locks;
mod namespaces;
mod node_events;
mod nodes;
mod observer;
mod plugin_call_queue;
mod plugin_call_queues;
mod plugin_instances;
mod ports;
mod repeated_call;
mod sealer;
mod sealing;
mod sent_secrets;
mod services;
pub mod store;
mod variables;
mod volumes;

pub use acl::{
    AclService, AclSettings, Bearer, NewToken, Rights, SecretHash, TokenExpiry, TokenKind,
    TokenUpdate,
};
pub use candidates::{Candidates, InstanceEnd, NoController, candidates};
pub use cell::{
    CellOptions, CellStopped, CommitError, Expected, FollowedState, NotCurrent, STATE_LIMITS,
    StateCell, StateLimits, Watch,
};
pub use claims::{
    ClaimDriver, ClaimLimits, ClaimOutcome, ClaimService, ClaimStatus, MountRequest, StepAttempts,
};
pub use clear_secrets::with_sealed_secrets;
pub use error::{
    AclError, CallDescription, CallTarget, ClaimError, ClaimWriter, ControllerOperation,
    CopySource, JobError, LeftInstance, NamespaceError, NamespaceUser, PluginFailure, RequestError,
    ResidualState, ServerError, SnapshotError, UnsupportedOperation, UpdateOrigin, VariableError,
};
pub use forward_error::{ForwardError, ForwardOutcome};
pub use history::volume_history;
pub use jobs::{JobPlan, JobScheduler, JobService, JobWritten, LocalControlPlane};
pub use journal::{
    Followed, FollowedJournal, Journal, JournalError, JournalErrorKind, NextSnapshot, Replay,
};
pub use keyed_locks::{KeyedGuard, KeyedLocks, QueueFull};
pub use namespaces::NamespaceService;
pub use node_events::{NodeEvent, NodeEvents};
pub use nodes::PresenceLimits;
pub use observer::RecordingObserver;
pub use plugin_call_queue::{CallClass, PluginConcurrency};
pub use plugin_call_queues::{CallPermit, PluginCallQueues};
pub use ports::ServerPorts;
pub use repeated_call::ForwardLimits;
pub use sealer::{SealError, Sealer};
pub use sent_secrets::RecordedSecrets;
pub use services::{AgentInfo, Services};
pub use variables::{VariableContents, VariableService, VariableWrite, VariableWriteOutcome};
pub use volumes::{
    CreatedSnapshot, CreationAttempts, GivenUp, PendingCreation, SnapshotRequest, VolumeLimits,
    VolumeService, VolumeSubmission, VolumeWriteResult,
};
