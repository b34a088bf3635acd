//! Task drivers, with which the agent runs processes.
//!
//! A driver implements [`crate::ports::TaskDriver`]: it starts a task with exactly the given
//! environment, watches it, logs its output, and stops it. `node::supervisor` decides which task runs
//! when.

mod output;
mod predecessor;
mod process_file;
mod process_id;
mod raw_exec;

pub use raw_exec::RawExec;
