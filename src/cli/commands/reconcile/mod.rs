//! `reconcile`: looks again and again, says what has drifted, and puts it back if that is wanted.
//!
//! A round reads everything anew: the files, the ledger, the server. What it finds is told when it is
//! another thing than the round before found, and is measured always. With `--apply` a round plans and
//! applies as `apply` does; what is worse than reversible, blocked, or more than the token may do is
//! left to a person. Nobody is asked anything.
//!
//! A round looks once: what is told, planned and put back comes from the same reading of the server,
//! so that nothing is put back without a word on what was wrong. With `--apply` that reading is made
//! with the set's lock held.

mod log;
mod round;
mod run;

pub(crate) use run::run;
