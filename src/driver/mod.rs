//! Task drivers: how the agent runs processes.
//!
//! A driver implements [`crate::ports::TaskDriver`]: it starts a task with exactly the environment it
//! was given, watches it, forwards what it writes to the log, and stops it. Which task runs when is
//! `node::supervisor`'s business.

mod output;
mod raw_exec;

pub use raw_exec::RawExec;
