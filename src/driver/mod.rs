//! Task drivers, with which the agent runs processes.
//!
//! There are two contracts. A driver of [`crate::ports::RunDriver`] runs tasks that outlive the agent: `exec` and
//! `raw_exec` under a shim ([`ShimDriver`]), `mock_driver` in memory. A driver of [`crate::ports::TaskDriver`] runs a
//! task that never outlives its parent: the plugin of `--embedded` ([`RawExec`]), which `node::supervisor` watches.

mod descriptors;
mod mock;
mod output;
mod predecessor;
mod process_file;
mod process_id;
mod raw_exec;
mod shim;

pub use descriptors::{InheritedDescriptor, inherited_descriptors};
pub use mock::MockDriver;
pub use raw_exec::RawExec;
pub use shim::{ShimDriver, run_task_process};
