//! `volume delete` and `volume deregister`.

use super::args::{DeleteArgs, DeregisterArgs};
use crate::cli::args::{LedgerArgs, RedactedText};
use crate::cli::command_context::CommandContext;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::ledger::ledger_access;
use crate::cli::ui::one_line;
use crate::diagnostic::{Code, Diagnostic};
use crate::model::Secrets;
use crate::plan::Removal;
use crate::reconcile::workflow::{RemovalRequest, remove_volumes};

/// `volume deregister`.
///
/// # Errors
/// Those of [`remove_volumes`].
pub(crate) async fn deregister(
    context: &CommandContext,
    arguments: &DeregisterArgs,
) -> Result<Exit, CliError> {
    let request = RemovalRequest {
        ids: &arguments.ids,
        scope: context.namespace()?.unwrap_or_default(),
        removal: Removal::Deregister {
            force: arguments.force,
        },
        is_approved: arguments.yes,
        if_exists: arguments.if_exists,
        secrets: Secrets::default(),
        ledger: None,
    };
    remove(context, &arguments.ledger, request).await
}

/// `volume delete`.
///
/// # Errors
/// If a secret is invalid, and those of [`remove_volumes`].
pub(crate) async fn delete(
    context: &CommandContext,
    arguments: &DeleteArgs,
) -> Result<Exit, CliError> {
    let request = RemovalRequest {
        ids: &arguments.ids,
        secrets: parse_secrets(&arguments.secrets)?,
        scope: context.namespace()?.unwrap_or_default(),
        removal: Removal::Delete,
        is_approved: arguments.yes,
        if_exists: arguments.if_exists,
        ledger: None,
    };
    remove(context, &arguments.ledger, request).await
}

async fn remove(
    context: &CommandContext,
    ledger: &LedgerArgs,
    request: RemovalRequest<'_>,
) -> Result<Exit, CliError> {
    context
        .with_cluster(async |cluster| {
            let request = RemovalRequest {
                ledger: ledger_access(context, ledger, cluster),
                ..request
            };
            let workflow = context.workflow(cluster, "volume remove", 1);
            remove_volumes(&workflow, context, &request).await?;
            Ok(Exit::Done)
        })
        .await
}

/// Parses the secrets. Nomad takes them in a header, `k=v,k=w`, in which nothing can be escaped.
fn parse_secrets(pairs: &[RedactedText]) -> Result<Secrets, CliError> {
    let mut secrets = Secrets::default();
    for pair in pairs {
        let Some((key, value)) = pair.0.split_once('=').filter(|(key, _)| !key.is_empty()) else {
            return Err(
                Diagnostic::error(Code::CliInvalidValue, "a `--secret` has no key")
                    .help("write `--secret KEY=VALUE`")
                    .into(),
            );
        };
        if key.contains(',') || value.contains(',') {
            let message = format!("secret `{}` contains a comma", one_line(key));
            return Err(Diagnostic::error(Code::CliInvalidValue, message)
                .note("Nomad splits the header with the secrets at commas")
                .help("register the volume with its secrets (`volume register -f`), then delete it without `--secret`")
                .into());
        }
        secrets.insert(key, value);
    }
    Ok(secrets)
}
