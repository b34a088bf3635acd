//! The server half of the agent: state, volume and variable operations, HTTP API.

mod acquire;
mod cell;
mod error;
#[cfg(any(test, feature = "testing"))]
pub mod fake;
mod forward;
pub mod http;
mod keyed_limiter;
mod observer;
mod services;
mod variables;
mod volumes;

pub use cell::{CellOptions, CommitError, Expected, StateCell};
pub use error::{
    CallTarget, ControllerOperation, CopySource, PluginFailure, RequestError, ResidualState,
    ServerError, SnapshotError, UnsupportedOperation, UpdateOrigin, VariableError,
};
pub use forward::{
    Candidates, ForwardError, ForwardLimits, ForwardOutcome, Forwarder, NoController, candidates,
};
pub use keyed_limiter::{KeyedLimiter, KeyedPermit, QueueFull};
pub use observer::RecordingObserver;
pub use services::{AgentInfo, Services};
pub use variables::{
    VariableContents, VariablePorts, VariableService, VariableWrite, VariableWriteOutcome,
};
pub use volumes::{
    SnapshotRequest, VolumeLimits, VolumePorts, VolumeService, VolumeSubmission, VolumeWriteResult,
};
