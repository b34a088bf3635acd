//! `volume delete` and `volume deregister`.

use super::args::{DeleteArgs, DeregisterArgs};
use crate::cli::args::{LedgerArgs, ParallelismArgs, ServerWaitArgs};
use crate::cli::command_context::CommandContext;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::given_secrets::given_secrets;
use crate::cli::ledger::ledger_access;
use crate::cli::ui::one_line;
use nomad_csi_client::reconcile::workflow::{RemovalRequest, remove_volumes};
use nomad_csi_model::diagnostic::{Code, Diagnostic};
use nomad_csi_model::{AllocId, Secrets};
use nomad_csi_plan::{DenyRule, Removal, Risk};

/// `volume deregister`.
///
/// # Errors
/// If a policy forbids it, and those of [`remove_volumes`].
pub(crate) async fn deregister(
    context: &CommandContext,
    arguments: &DeregisterArgs,
) -> Result<Exit, CliError> {
    let ids = arguments.ids.iter();
    let actions = ids.map(|id| format!("deregister volume `{}`", one_line(id)));
    context.refuse_by_policies(actions, DenyRule::Deregister, Risk::NeedsDowntime)?;
    let request = RemovalRequest {
        ids: &arguments.ids,
        scope: context.namespace()?.unwrap_or_default(),
        removal: Removal::Deregister { force: arguments.force },
        is_approved: arguments.yes,
        cut_off: arguments.approve.iter().map(AllocId::as_str).collect(),
        if_exists: arguments.if_exists,
        secrets: Secrets::default(),
        ledger: None,
    };
    let options = (&arguments.ledger, arguments.server_wait, arguments.parallelism);
    remove(context, options, request).await
}

/// `volume delete`.
///
/// # Errors
/// If a policy forbids it, a secret is invalid, and those of [`remove_volumes`].
pub(crate) async fn delete(
    context: &CommandContext,
    arguments: &DeleteArgs,
) -> Result<Exit, CliError> {
    let ids = arguments.ids.iter();
    let actions = ids.map(|id| format!("delete volume `{}`", one_line(id)));
    context.refuse_by_policies(actions, DenyRule::DeleteData, Risk::DestroysData)?;
    let secrets = given_secrets(context, &arguments.secrets).await?;
    refuse_commas(&secrets)?;
    let request = RemovalRequest {
        ids: &arguments.ids,
        secrets,
        scope: context.namespace()?.unwrap_or_default(),
        removal: Removal::Delete,
        is_approved: arguments.yes,
        cut_off: arguments.approve.iter().cloned().collect(),
        if_exists: arguments.if_exists,
        ledger: None,
    };
    let options = (&arguments.ledger, arguments.server_wait, arguments.parallelism);
    remove(context, options, request).await
}

async fn remove(
    context: &CommandContext,
    (ledger, server_wait, parallelism): (&LedgerArgs, ServerWaitArgs, ParallelismArgs),
    request: RemovalRequest<'_>,
) -> Result<Exit, CliError> {
    context
        .with_cluster(async |cluster| {
            let cluster = &*cluster.waiting(context.wait_for_server(server_wait));
            let request =
                RemovalRequest { ledger: ledger_access(context, ledger, cluster), ..request };
            let workflow = context.waiting_workflow(
                cluster,
                "volume remove",
                server_wait,
                parallelism.parallelism,
            );
            remove_volumes(&workflow, context, &request).await?;
            Ok(Exit::Done)
        })
        .await
}

/// Refuses secrets that cannot be sent. Nomad takes them in a header, `k=v,k=w`, in which nothing can be
/// escaped.
fn refuse_commas(secrets: &Secrets) -> Result<(), CliError> {
    let mut pairs = secrets.expose();
    let Some((key, _)) = pairs.find(|(key, value)| key.contains(',') || value.contains(',')) else {
        return Ok(());
    };
    let message = format!("secret `{}` contains a comma", one_line(key));
    Err(Diagnostic::error(Code::CliInvalidValue, message)
        .note("Nomad splits the header with the secrets at commas")
        .help("register the volume with its secrets (`volume register`), then delete it without secrets")
        .into())
}
