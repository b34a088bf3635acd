//! The subcommands of `job`.

mod args;
pub(crate) mod dispatch;
pub(crate) mod force;
pub(crate) mod history;
pub(crate) mod lint;
pub(crate) mod placement;
pub(crate) mod plan;
mod refused_variables;
pub(crate) mod restart;
pub(crate) mod revert;
pub(crate) mod run;
pub(crate) mod status;
pub(crate) mod stop;
mod submitted;
pub(crate) mod validate;

pub(crate) use args::{JobCommand, JobLintArgs, JobPeriodicCommand, PlacementArgs, WaitingArgs};
