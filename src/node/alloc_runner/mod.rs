//! Runs the allocations that the server assigned to this node.
//!
//! [`AllocRunners`] follows the server's list with one runner for each allocation. A runner checks what can be
//! checked, mounts all volumes of the group, and only then starts tasks in the order of their hooks. It reports
//! each transition, and the end only when no process and no mount of a task is left. Decisions are pure: which task
//! starts or stops ([`lifecycle`]), whether it runs again ([`restart`]), what is reported ([`progress`]).

mod collection;
mod crashes;
mod deps;
mod desired;
mod driver_check;
mod interruption;
mod leftovers;
mod lifecycle;
mod mount_watch;
mod mounting;
mod observed_run;
mod plugin_watch;
mod progress;
mod recovery;
mod reporter;
mod restart;
mod run_outcome;
mod runner;
mod runners;
mod task_environment;
mod task_events;
mod task_plan;
mod task_runner;
#[cfg(test)]
mod tests;

pub use deps::AllocRunnerDeps;
pub use interruption::interrupt_alloc;
pub use runners::AllocRunners;
