//! What a task may use, as control groups of version 2 enforce it.
//!
//! ```text
//! DELEGATED/agent                        the agent, its embedded plugin, and the shims of tasks
//! DELEGATED/nomad-csi-tasks/RUN          one run of a task of `exec`
//! ```
//!
//! A group with controllers has no processes of its own, so the agent needs the group `agent` in a delegated one. It looks for it
//! when it starts ([`TaskLimits::prepare`]). What it finds missing is not enforced, and it says so; what it found is
//! enforced, and a run whose group cannot be made does not start. A task is in its group before its first instruction: the
//! stage makes the group and enters it ([`ControlGroup::enter`]). The shim is outside, so no limit of a task stops it; it
//! removes the group when no process of the task is left. After a shim that was killed, the agent does, which also removes
//! the empty groups of earlier agents when it starts.

mod control_group;
mod controller;
#[cfg(test)]
mod fake_kernel;
mod group_files;
mod plan;
mod process_numbers;
mod task_limits;

pub(super) use control_group::ControlGroup;
pub(super) use group_files::HostGroups;
pub(super) use process_numbers::{limit_process_numbers, process_numbers_are_own};
pub use task_limits::{NotEnforced, TaskLimits};
