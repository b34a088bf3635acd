//! One file per verb: from arguments to an exit code, over the ports.

#[cfg(feature = "agent")]
pub(crate) mod agent;
pub(crate) mod apply;
pub(crate) mod auth;
pub(crate) mod carry_out;
pub(crate) mod completion;
pub(crate) mod context;
pub(crate) mod drift;
pub(crate) mod explain;
pub(crate) mod forget;
pub(crate) mod import;
pub(crate) mod man;
pub(crate) mod orphans;
pub(crate) mod plan;
pub(crate) mod plugin;
pub(crate) mod prepare;
pub(crate) mod ready;
pub(crate) mod reconcile;
pub(crate) mod reference;
pub(crate) mod set;
pub(crate) mod snapshot;
mod status;
pub(crate) mod submit;
pub(crate) mod validate;
pub(crate) mod volume;
