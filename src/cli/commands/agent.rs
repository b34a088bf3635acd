//! `agent`: server, node and plugin in one, until somebody ends it.

use crate::agent::{self, AgentConfig, AgentOptions};
use crate::cli::args::Agent;
use crate::cli::context::Context;
use crate::cli::env::Variable;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;

/// Runs the agent. Being ended is how it is meant to end, so that is no error.
///
/// # Errors
/// If it cannot start.
pub(crate) async fn run(context: &Context, arguments: &Agent) -> Result<Exit, CliError> {
    let config = AgentConfig::parse(&AgentOptions {
        dev: arguments.dev,
        data_dir: arguments.data_dir.as_deref().map(|path| context.path(path)),
        http: arguments.http.clone(),
        allow_unauthenticated: arguments.allow_unauthenticated,
        runtime_dir: context.environment.path(Variable::RuntimeDir),
    })?;
    agent::run(config, context.interrupts.stop().clone()).await?;
    Ok(Exit::Done)
}
