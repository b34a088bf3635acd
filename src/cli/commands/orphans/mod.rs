//! `orphans`: volumes that a provider has and that are not registered. Lists, registers or deletes them.

mod args;
mod run;

pub(crate) use args::OrphansArgs;
pub(crate) use run::manage_orphans;
