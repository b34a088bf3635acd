//! Arguments that several commands share. The arguments of one command are defined next to it.
//!
//! Doc comments here are the text of the help, the manual and the reference.

mod changes;
mod files;
mod global;
mod ledger;
mod ledger_choice;
mod output;
mod parallelism;
#[cfg(feature = "agent")]
mod plugin_profile;
mod plugins;
mod redacted;
mod reports;
mod secrets;
mod server_wait;
mod set;
mod value_parsers;
mod watch;

pub(crate) use changes::{
    ChangeArgs, NO_PROVIDER_HELP, SERVER_VERSION_HELP, SHARE_HELP, StandingChangeArgs,
};
pub(crate) use files::{FileArgs, GivenVariable, SYNTAX_HELP, SpecSyntax, required_paths};
pub(crate) use global::{GlobalArgs, LogFormat};
pub(crate) use ledger::{LEDGER_NAMESPACE_HELP, LedgerArgs};
pub(crate) use ledger_choice::LedgerChoice;
pub(crate) use output::{OutputArgs, REPORT_FORMAT_HELP, ReportFormat};
pub(crate) use parallelism::ParallelismArgs;
#[cfg(feature = "agent")]
pub(crate) use plugin_profile::{AgentProfileArgs, PluginProfileArgs};
pub(crate) use plugins::PluginFilesArgs;
pub(crate) use redacted::RedactedText;
pub(crate) use reports::ReportArgs;
pub(crate) use secrets::SecretArgs;
pub(crate) use server_wait::ServerWaitArgs;
pub(crate) use set::SetArgs;
pub(crate) use value_parsers::{drift_field, not_empty, one_of};
pub(crate) use watch::WatchArgs;
