//! Task drivers, with which the agent runs processes.
//!
//! There are two contracts. A driver of [`crate::task_run::RunDriver`] runs tasks that outlive the agent: `exec` and
//! `raw_exec` under a shim ([`ShimDriver`]), `mock_driver` in memory. A driver of [`crate::task_driver::TaskDriver`] runs a
//! plugin that `node::supervisor` watches: the embedded one, which never outlives its parent ([`RawExec`]), or one that
//! runs already ([`RunningPlugin`]).

mod descriptors;
mod limits;
mod mock;
mod output;
mod predecessor;
mod process_file;
mod process_id;
mod raw_exec;
mod running_plugin;
mod shim;

pub use descriptors::{InheritedDescriptor, inherited_descriptors};
pub use limits::{NotEnforced, TaskLimits};
pub use mock::MockDriver;
pub use raw_exec::{RawExec, end_earlier_process};
pub use running_plugin::{ProcessRecord, RunningPlugin, process_on_record};
pub use shim::{ShimDriver, may_create_namespaces, run_task_process};
