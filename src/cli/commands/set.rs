//! `set list` and `set show`: what the ledger records. They take no lock.

use clap::{Args, Subcommand};

use crate::cli::args::{LedgerArgs, OutputArgs};
use crate::cli::command_context::CommandContext;
use crate::cli::commands::status::ask;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::ledger::required_ledger;
use crate::cli::ui::{set_detail, set_document, set_list, set_summary};
use nomad_csi_client::ports::{ClusterApi, Document};
use nomad_csi_model::SetName;
use nomad_csi_model::diagnostic::Diagnostics;

/// The subcommands of `set`.
#[derive(Subcommand, Debug)]
pub(crate) enum SetCommand {
    /// List sets
    #[command(after_long_help = "Example:\n  nomad-csi set list")]
    #[command(aliases = ["ls", "status"])]
    List(SetListArgs),
    /// Show the volumes that a set owns and its unfinished operations
    #[command(after_long_help = "Example:\n  nomad-csi set show web")]
    #[command(aliases = ["get", "describe"])]
    Show(SetShowArgs),
}

/// Arguments of `set list`.
#[derive(Args, Debug)]
pub(crate) struct SetListArgs {
    /// The ledger.
    #[command(flatten)]
    pub ledger: LedgerArgs,
    /// The output format.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Arguments of `set show`.
#[derive(Args, Debug)]
pub(crate) struct SetShowArgs {
    /// Name of the set
    #[arg(value_name = "NAME")]
    pub name: SetName,
    /// The ledger of the set.
    #[command(flatten)]
    pub ledger: LedgerArgs,
    /// The output format.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Runs a subcommand.
///
/// # Errors
/// If the ledger cannot be read, or does not have the set.
pub(crate) async fn show_sets(
    context: &CommandContext,
    command: &SetCommand,
) -> Result<Exit, CliError> {
    ask(context, async |client| match command {
        SetCommand::List(arguments) => list(context, client, arguments).await,
        SetCommand::Show(arguments) => show(context, client, arguments).await,
    })
    .await
}

async fn list(
    context: &CommandContext,
    client: &dyn ClusterApi,
    arguments: &SetListArgs,
) -> Result<Exit, CliError> {
    let access = required_ledger(context, &arguments.ledger, client)?;
    let (mut sets, mut unread) = (vec![], vec![]);
    for set in access.all_sets().await? {
        match set {
            Ok(set) => sets.push(set.set().clone()),
            Err(error) => unread.push(error.diagnostic()),
        }
    }
    let documents: Vec<Document> = sets.iter().map(set_summary).collect();
    match arguments.output.output.render_list(&documents)? {
        Some(text) => context.printer.print_result(&text),
        None if !sets.is_empty() => context.printer.print_result(&set_list(&sets)),
        None if !unread.is_empty() => {}
        None => context.printer.print_status(&format!(
            "No sets in {}; to use another ledger, add `--ledger` or `--ledger-namespace`",
            access.ledger.name()
        )),
    }
    // A set that cannot be read does not hide the others.
    if unread.is_empty() {
        return Ok(Exit::Done);
    }
    Err(unread.into_iter().collect::<Diagnostics>().into())
}

async fn show(
    context: &CommandContext,
    client: &dyn ClusterApi,
    arguments: &SetShowArgs,
) -> Result<Exit, CliError> {
    let access = required_ledger(context, &arguments.ledger, client)?;
    let set = access.open_set(&arguments.name).await?;
    if !set.exists() {
        let workflow = context.workflow(client, "set show", 1);
        let problem = access.set_not_found(&workflow, &arguments.name).await;
        return Err(problem.into());
    }
    let text = arguments
        .output
        .output
        .render_one(&set_document(set.set()))?
        .unwrap_or_else(|| set_detail(set.set(), &context.time_reference()));
    context.printer.print_result(&text);
    Ok(Exit::Done)
}
