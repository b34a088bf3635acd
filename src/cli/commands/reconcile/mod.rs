//! `reconcile`: reports drift in rounds, and with `--apply` reverses it.
//!
//! Each round reads the files, the ledger and the server again. It logs what changed since the round
//! before, and always updates the metrics. A round never asks. A change that is blocked, riskier than
//! approved, or not permitted waits for a person.

mod args;
mod round_log;
mod run;

pub(crate) use args::ReconcileArgs;
pub(crate) use run::reconcile_until_stopped;
