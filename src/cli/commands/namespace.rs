//! `namespace list`, `namespace create`, `namespace delete`.

use clap::{Args, Subcommand};

use crate::cli::args::{OutputArgs, not_empty};
use crate::cli::command_context::CommandContext;
use crate::cli::commands::status::ask;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::ui::{namespace_list, one_line};
use nomad_csi_client::ports::ClusterApi;
use nomad_csi_model::Namespace;

/// The subcommands of `namespace`.
#[derive(Subcommand, Debug)]
pub(crate) enum NamespaceCommand {
    /// List the namespaces
    #[command(after_long_help = "Example:\n  nomad-csi namespace list")]
    #[command(aliases = ["ls", "status", "get"])]
    List(NamespaceListArgs),
    /// Create a namespace
    ///
    /// Does nothing if the namespace exists.
    #[command(
        after_long_help = "Example:\n  nomad-csi namespace create staging --description tests"
    )]
    Create(NamespaceCreateArgs),
    /// Delete an empty namespace
    ///
    /// The server refuses if volumes, jobs or variables are in the namespace.
    #[command(after_long_help = "Example:\n  nomad-csi namespace delete staging")]
    Delete(NamespaceDeleteArgs),
}

/// Arguments of `namespace list`.
#[derive(Args, Debug)]
pub(crate) struct NamespaceListArgs {
    /// The output format.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Arguments of `namespace create`.
#[derive(Args, Debug)]
pub(crate) struct NamespaceCreateArgs {
    /// Name: 1 to 128 letters, digits and `-`
    #[arg(value_name = "NAME", value_parser = not_empty())]
    pub name: String,
    /// Description for people
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub description: String,
}

/// Arguments of `namespace delete`.
#[derive(Args, Debug)]
pub(crate) struct NamespaceDeleteArgs {
    /// Exact name
    #[arg(value_name = "NAME", value_parser = not_empty())]
    pub name: String,
}

/// Runs a subcommand.
///
/// # Errors
/// If the server refuses.
pub(crate) async fn manage_namespaces(
    context: &CommandContext,
    command: &NamespaceCommand,
) -> Result<Exit, CliError> {
    ask(context, async |cluster| match command {
        NamespaceCommand::List(arguments) => list(context, cluster, arguments).await,
        NamespaceCommand::Create(arguments) => create(context, cluster, arguments).await,
        NamespaceCommand::Delete(arguments) => {
            let name = Namespace::new(&*arguments.name);
            cluster.delete_namespace(&name).await?;
            let line = format!("namespace {}: deleted", one_line(&arguments.name));
            context.printer.print_status(&line);
            Ok(Exit::Done)
        }
    })
    .await
}

async fn list(
    context: &CommandContext,
    api: &dyn ClusterApi,
    arguments: &NamespaceListArgs,
) -> Result<Exit, CliError> {
    let listed = api.list_namespaces().await?;
    let (namespaces, documents): (Vec<_>, Vec<_>) =
        listed.into_iter().map(|reading| (reading.value, reading.document)).unzip();
    let text = arguments.output.output.render_list(&documents)?;
    let text = text.unwrap_or_else(|| namespace_list(&namespaces));
    context.printer.print_result(&text);
    Ok(Exit::Done)
}

async fn create(
    context: &CommandContext,
    api: &dyn ClusterApi,
    arguments: &NamespaceCreateArgs,
) -> Result<Exit, CliError> {
    let name = Namespace::new(&*arguments.name);
    let result = match api.read_namespace(&name).await? {
        Some(_) => "exists; nothing changed",
        None => {
            let description = &arguments.description;
            api.create_namespace(&name, description).await?;
            "created"
        }
    };
    let line = format!("namespace {}: {result}", one_line(&arguments.name));
    context.printer.print_status(&line);
    Ok(Exit::Done)
}
