//! Jobs: submitted, placed, stopped, and run by nodes.
//!
//! [`JobService`] records what clients want and returns at once; it never waits for CSI (B31, B32). One
//! [`JobScheduler`] watches the state and places and stops allocations as `place::evaluate` decides. Nodes take
//! their allocations from [`LocalControlPlane`] and report there; a terminal report releases the claims.
//!
//! A periodic or parameterized job runs nothing itself: `children` are the jobs that are made from it, at the times of
//! its cron expressions or on request.

mod children;
mod control_plane;
mod dispatching;
mod evaluation;
mod forgetting;
mod launching;
mod mount_delay;
mod scheduler;
mod service;
mod settings;

pub(super) use children::DispatchRequest;
pub(super) use forgetting::{forget_stopped, left_instances};
pub(super) use settings::JobSealer;

pub use control_plane::LocalControlPlane;
pub use scheduler::JobScheduler;
pub use service::{JobPlan, JobService, JobWritten};

#[cfg(test)]
mod tests;
