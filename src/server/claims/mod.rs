//! Claims of volumes: granted, driven to a target path, released, and driven back.
//!
//! [`ClaimService`] grants and releases; the decision is `claim::admit`. One driver watches the state
//! and starts the steps that `claim::next_steps` finds due: one at a time per call lock, each recorded before
//! its call is sent. Neither keeps anything that a restart would lose; what is in memory is only when
//! to try again.

mod backoff;
mod calls;
mod claim_spans;
mod driver;
mod follow_up;
mod kept_files;
mod limits;
mod node_permits;
mod reaper;
mod running_tasks;
mod service;
mod stats;
mod step_choice;
mod step_end;
mod step_request;
mod step_runner;
mod sweep;
mod sweep_wait;
mod view;
mod waiters;
mod writers;

pub use backoff::StepAttempts;
pub use driver::ClaimDriver;
pub use limits::ClaimLimits;
pub use service::{ClaimOutcome, ClaimService, MountRequest};
pub use view::ClaimStatus;
pub(crate) use writers::writers;
