//! Values of the server that complete a command line, each kind read when it is needed.
//!
//! A server that does not answer within a fraction of a second completes nothing. No agent is started.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};

use super::live_lists::{LiveLists, NamedObjects, ServerValue};
use crate::cli::args::GlobalArgs;
use crate::cli::cluster_contexts::select_cluster;
use crate::cli::command_context::CommandContext;
use crate::cli::env::Environment;
use crate::cli::servers::Servers;
use crate::cli::settings::{Target, namespace, server_target};

/// The longest time that a completion takes.
const PATIENCE: Duration = Duration::from_millis(700);

/// The values of the server that the command line names.
pub(super) struct ServerValues {
    global: GlobalArgs,
    environment: Environment,
    directory: PathBuf,
    servers: Arc<dyn Servers>,
    named: NamedObjects,
}

impl ServerValues {
    /// Reads nothing yet. `global` and `named` are on the command line so far.
    pub(super) fn new(global: GlobalArgs, named: NamedObjects, context: &CommandContext) -> Self {
        Self {
            global,
            named,
            environment: context.environment.clone(),
            directory: context.directory.clone(),
            servers: Arc::clone(&context.servers),
        }
    }

    /// Returns a completer of one kind. With words in `before`, each value comes after each of them.
    pub(super) fn completer(
        this: &Arc<Self>,
        kind: ServerValue,
        before: &[String],
    ) -> ArgValueCompleter {
        let (this, before) = (Arc::clone(this), before.to_vec());
        let known: OnceLock<Vec<String>> = OnceLock::new();
        ArgValueCompleter::new(move |current: &OsStr| {
            let values = known.get_or_init(|| {
                let values = this.ask(kind);
                if before.is_empty() {
                    return values;
                }
                let pairs = before
                    .iter()
                    .flat_map(|word| values.iter().map(move |value| format!("{word}{value}")));
                pairs.collect()
            });
            candidates(values, current)
        })
    }

    /// Queries the server for a time that a user does not notice.
    fn ask(&self, kind: ServerValue) -> Vec<String> {
        let chosen = select_cluster(&self.global, &self.environment, &self.directory);
        let Ok(chosen) = chosen else {
            return vec![];
        };
        let chosen = chosen.as_ref();
        let Ok(target @ Target::Cluster(_)) =
            server_target(&self.global, &self.environment, &self.directory, chosen)
        else {
            return vec![];
        };
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
            return vec![];
        };
        let known = runtime.block_on(async {
            let asking = async {
                let session = self.servers.open(&target).await.ok()?;
                let scope =
                    namespace(&self.global, &self.environment, chosen).ok()?.unwrap_or_default();
                let lists = LiveLists { api: &*session.api, scope: &scope, named: &self.named };
                lists.values(kind).await
            };
            tokio::time::timeout(PATIENCE, asking).await.ok().flatten()
        });
        runtime.shutdown_background();
        known.unwrap_or_default()
    }
}

/// Returns the values that start as the current word does, without those that the command would take for an option.
pub(super) fn candidates(values: &[String], current: &OsStr) -> Vec<CompletionCandidate> {
    let current = current.to_string_lossy();
    let matching = values
        .iter()
        .filter(|value| value.starts_with(current.as_ref()) && !value.starts_with('-'));
    matching.map(CompletionCandidate::new).collect()
}
