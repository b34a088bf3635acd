//! `acl policy`.

use super::args::{AclOutputArgs, PolicyApplyArgs, PolicyCommand, PolicyShowArgs};
use crate::cli::command_context::CommandContext;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::ui::{one_line, policy_detail, policy_list};
use nomad_csi_client::files::read_text;
use nomad_csi_client::ports::ClusterApi;
use nomad_csi_model::diagnostic::{Code, Diagnostic};
use nomad_csi_wire::PolicyDocument;

pub(super) async fn manage(
    context: &CommandContext,
    api: &dyn ClusterApi,
    command: &PolicyCommand,
) -> Result<Exit, CliError> {
    match command {
        PolicyCommand::Apply(arguments) => apply(context, api, arguments).await,
        PolicyCommand::List(arguments) => list(context, api, arguments).await,
        PolicyCommand::Show(arguments) => show(context, api, arguments).await,
        PolicyCommand::Delete(arguments) => {
            api.delete_policy(&arguments.name).await?;
            let line = format!("policy {}: deleted", one_line(&arguments.name));
            context.printer.print_status(&line);
            Ok(Exit::Done)
        }
    }
}

async fn apply(
    context: &CommandContext,
    api: &dyn ClusterApi,
    arguments: &PolicyApplyArgs,
) -> Result<Exit, CliError> {
    let rules = read_text(&context.directory, &arguments.file)?;
    let description = match &arguments.description {
        Some(description) => description.clone(),
        None => {
            let before = api.read_policy(&arguments.name).await?;
            before.map(|(policy, _)| policy.description).unwrap_or_default()
        }
    };
    let policy = PolicyDocument {
        name: arguments.name.clone(),
        description,
        rules,
        ..PolicyDocument::default()
    };
    api.write_policy(&policy).await?;
    let line = format!("policy {}: applied", one_line(&arguments.name));
    context.printer.print_status(&line);
    Ok(Exit::Done)
}

async fn list(
    context: &CommandContext,
    api: &dyn ClusterApi,
    arguments: &AclOutputArgs,
) -> Result<Exit, CliError> {
    let listed = api.list_policies().await?;
    let (policies, documents): (Vec<_>, Vec<_>) =
        listed.into_iter().map(|reading| (reading.value, reading.document)).unzip();
    let text = arguments.output.output.render_list(&documents)?;
    let text = text.unwrap_or_else(|| policy_list(&policies));
    context.printer.print_result(&text);
    Ok(Exit::Done)
}

async fn show(
    context: &CommandContext,
    api: &dyn ClusterApi,
    arguments: &PolicyShowArgs,
) -> Result<Exit, CliError> {
    let found = api.read_policy(&arguments.name).await?;
    let (policy, document) = found.ok_or_else(|| {
        let message = format!("no policy has the name `{}`", one_line(&arguments.name));
        Diagnostic::error(Code::AclPolicyNotFound, message)
            .help("`nomad-csi acl policy list` shows the names")
    })?;
    let text = arguments.output.output.render_one(&document)?;
    context.printer.print_result(&text.unwrap_or_else(|| policy_detail(&policy)));
    Ok(Exit::Done)
}
