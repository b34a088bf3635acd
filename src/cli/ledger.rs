//! The ledger that the arguments of a command select.

use std::sync::Arc;

use super::args::{LedgerArgs, LedgerChoice};
use super::command_context::CommandContext;
use super::error::CliError;
use nomad_csi_client::files::FileLedger;
use nomad_csi_client::ports::ClusterApi;
use nomad_csi_client::reconcile::workflow::LedgerAccess;
use nomad_csi_model::diagnostic::{Code, Diagnostic};
use nomad_csi_model::{Namespace, SetName};
use nomad_csi_plan::LedgerLocation;

/// Returns the selected ledger; `None` for `--ledger none`.
pub(super) fn ledger_access(
    context: &CommandContext,
    arguments: &LedgerArgs,
    api: &dyn ClusterApi,
) -> Option<LedgerAccess> {
    let namespace = Namespace::new(arguments.ledger_namespace.as_str());
    let flags = ledger_flags(arguments);
    match &arguments.ledger {
        LedgerChoice::Nomad => Some(LedgerAccess {
            ledger: api.ledger(namespace.clone()),
            variables_namespace: Some(namespace),
            flags,
        }),
        LedgerChoice::File(path) => Some(LedgerAccess {
            ledger: Arc::new(FileLedger::new(&context.directory, path)),
            variables_namespace: None,
            flags,
        }),
        LedgerChoice::Without => None,
    }
}

/// Returns the variables that hold a set; `None` if none do.
pub(super) fn ledger_location(
    arguments: &LedgerArgs,
    set: Option<&SetName>,
) -> Option<LedgerLocation> {
    match arguments.ledger {
        LedgerChoice::Nomad => Some(LedgerLocation {
            namespace: Namespace::new(arguments.ledger_namespace.as_str()),
            set: set?.clone(),
        }),
        LedgerChoice::File(_) | LedgerChoice::Without => None,
    }
}

/// Returns the selected ledger, for commands that require one.
///
/// # Errors
/// For `--ledger none`.
pub(super) fn required_ledger(
    context: &CommandContext,
    arguments: &LedgerArgs,
    api: &dyn ClusterApi,
) -> Result<LedgerAccess, CliError> {
    ledger_access(context, arguments, api).ok_or_else(|| {
        Diagnostic::error(Code::CliInvalidValue, "this command requires a ledger")
            .help("name the ledger with `--ledger nomad` or `--ledger file:PATH`")
            .into()
    })
}

/// Returns the flags that select the ledger, each after a space. Empty for the default ledger.
fn ledger_flags(arguments: &LedgerArgs) -> String {
    let ledger = match &arguments.ledger {
        LedgerChoice::Nomad => String::new(),
        LedgerChoice::File(_) | LedgerChoice::Without => format!(" --ledger {}", arguments.ledger),
    };
    let default = Namespace::default();
    match arguments.ledger_namespace.as_str() {
        same if same == default.as_str() => ledger,
        other => format!("{ledger} --ledger-namespace {other}"),
    }
}
