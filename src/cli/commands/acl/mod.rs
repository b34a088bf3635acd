//! `acl bootstrap`, `acl token` and `acl policy`.

mod args;
mod policy;
mod run;
mod token;

pub(crate) use args::AclCommand;
pub(crate) use run::manage_acl;
