//! Runs the subcommands of `acl`.

use super::args::AclCommand;
use super::{policy, token};
use crate::cli::command_context::CommandContext;
use crate::cli::commands::status::ask;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;

/// Runs a subcommand.
///
/// # Errors
/// If the server refuses.
pub(crate) async fn manage_acl(
    context: &CommandContext,
    command: &AclCommand,
) -> Result<Exit, CliError> {
    ask(context, async |cluster| match command {
        AclCommand::Bootstrap(arguments) => token::bootstrap(context, cluster, arguments).await,
        AclCommand::Token(command) => token::manage(context, cluster, command).await,
        AclCommand::Policy(command) => policy::manage(context, cluster, command).await,
    })
    .await
}
