//! Core dumps contain keys and secrets, so the agent and the plugin make none.
//!
//! A process that makes no core dump can also not be read by other processes of the same user, except
//! root (`PR_SET_DUMPABLE`).

use rustix::process::{DumpableBehavior, set_dumpable_behavior};

/// Turns core dumps of this process off, unless they are allowed.
pub(super) fn restrict_core_dumps(are_allowed: bool) {
    if are_allowed {
        return;
    }
    if let Err(error) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        tracing::warn!(%error, "cannot turn core dumps off");
    }
}
