//! The control-plane half of the agent.

mod cell;
mod error;
#[cfg(any(test, feature = "testing"))]
pub mod fake;
mod forward;
pub mod http;
mod lanes;
mod observer;
mod services;
mod turn;
mod variables;
mod volumes;

pub use cell::{CellOptions, CommitError, Expected, StateCell};
pub use error::{
    Aftermath, CopySource, NotSupported, Object, Operation, PluginFailure, RequestError,
    ServerError, SnapshotError, UpdateRequest, VariableError,
};
pub use forward::{
    Candidates, Forward, ForwardError, ForwardLimits, NoController, Outcome, candidates,
};
pub use lanes::{Lane, LaneFull, Lanes};
pub use observer::RecordingObserver;
pub use services::{About, Services};
pub use variables::{VariableOutcome, VariablePorts, VariableReading, VariableWrite, Variables};
pub use volumes::{SnapshotRequest, Submitted, VolumeLimits, VolumePorts, Volumes, WriteOutcome};
