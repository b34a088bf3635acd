//! `agent`: runs until it is told to stop.

use crate::agent::{AgentConfig, AgentOptions, PlayOptions};
use crate::cli::args::Agent;
use crate::cli::context::Context;
use crate::cli::env::Variable;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;

/// Runs it. Being told to stop is no interruption of it: it ends well.
///
/// # Errors
/// If it cannot start.
pub(crate) async fn run(context: &Context, arguments: &Agent) -> Result<Exit, CliError> {
    let data_dir = arguments.data_dir.as_ref();
    let config = AgentConfig::parse(&AgentOptions {
        dev: arguments.dev,
        data_dir: data_dir.map(|path| context.directory.join(path)),
        http: arguments.http.clone(),
        allow_unauthenticated: arguments.allow_unauthenticated,
        plugin: PlayOptions::from(&arguments.plugin),
        runtime_dir: context.environment.path(Variable::RuntimeDir),
    })?;
    crate::agent::run(config, context.interrupts.stop().clone()).await?;
    Ok(Exit::Done)
}
