//! The rules of a job, checked without a server.
//!
//! Each rule has Nomad's text where Nomad has the rule. Errors are for what can never run; warnings
//! for what Nomad accepts and fails to run on some nodes. All problems are reported together.

mod constraint;
mod definition;
mod group;
mod launching;
mod root_task;
mod rules;
mod task;
mod volume;

pub use definition::validate;
pub use root_task::{ROOT_REFUSED, may_be_refused_as_root, root_tasks};
