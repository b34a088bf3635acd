//! Values of the server that complete a command line, each kind read when it is needed.
//!
//! A server that does not answer within a fraction of a second completes nothing. No agent is started.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};

use crate::cli::args::GlobalArgs;
use crate::cli::cluster_contexts::select_cluster;
use crate::cli::command_context::CommandContext;
use crate::cli::env::Environment;
use crate::cli::servers::Servers;
use crate::cli::settings::{Target, namespace, server_target};
use crate::model::Namespace;
use crate::ports::{ClusterApi, VolumeQuery};

/// The longest time that a completion takes.
const PATIENCE: Duration = Duration::from_millis(700);

/// A kind of value that a server has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServerValue {
    Volume,
    Plugin,
    Namespace,
    Set,
    Node,
}

/// The values of the server that the command line names.
pub(super) struct ServerValues {
    global: GlobalArgs,
    environment: Environment,
    directory: PathBuf,
    servers: Arc<dyn Servers>,
}

impl ServerValues {
    /// Reads nothing yet. `global` are the flags on the command line so far.
    pub(super) fn new(global: GlobalArgs, context: &CommandContext) -> Self {
        Self {
            global,
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
        let Ok(chosen) = select_cluster(&self.global, &self.environment) else {
            return vec![];
        };
        let chosen = chosen.as_ref();
        let Ok(target @ Target::Cluster(_)) =
            server_target(&self.global, &self.environment, &self.directory, chosen)
        else {
            return vec![];
        };
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
        else {
            return vec![];
        };
        let known = runtime.block_on(async {
            let asking = async {
                let session = self.servers.open(&target).await.ok()?;
                let scope = namespace(&self.global, &self.environment, chosen)
                    .ok()?
                    .unwrap_or_default();
                Some(values_of(&*session.api, kind, &scope).await)
            };
            tokio::time::timeout(PATIENCE, asking).await.ok().flatten()
        });
        runtime.shutdown_background();
        known.unwrap_or_default()
    }
}

/// Returns the values of a kind; empty if they cannot be listed.
async fn values_of(api: &dyn ClusterApi, kind: ServerValue, scope: &Namespace) -> Vec<String> {
    let everywhere = VolumeQuery {
        namespace: Namespace::new(Namespace::ALL),
        prefix: None,
        plugin: None,
        filter: None,
    };
    match kind {
        ServerValue::Volume => {
            let volumes = api.list_volumes(&everywhere).await.unwrap_or_default();
            let in_scope = volumes
                .iter()
                .filter(|one| scope.as_str() == Namespace::ALL || one.value.namespace == *scope);
            in_scope.map(|one| one.value.id.to_string()).collect()
        }
        ServerValue::Plugin => {
            let plugins = api.list_plugins(None).await.unwrap_or_default();
            plugins.iter().map(|one| one.value.id.to_string()).collect()
        }
        ServerValue::Namespace => {
            let volumes = api.list_volumes(&everywhere).await.unwrap_or_default();
            let mut names: Vec<String> = volumes
                .iter()
                .map(|one| one.value.namespace.to_string())
                .collect();
            names.push(Namespace::ALL.to_owned());
            names.sort();
            names.dedup();
            names
        }
        ServerValue::Set => {
            let sets = api.ledger(Namespace::default()).sets().await;
            let sets = sets.unwrap_or_default();
            sets.iter().map(ToString::to_string).collect()
        }
        ServerValue::Node => {
            let nodes = api.list_nodes().await.unwrap_or_default();
            nodes.into_iter().map(|node| node.name).collect()
        }
    }
}

/// Returns the values that start as the current word does.
pub(super) fn candidates(values: &[String], current: &OsStr) -> Vec<CompletionCandidate> {
    let current = current.to_string_lossy();
    let matching = values
        .iter()
        .filter(|value| value.starts_with(current.as_ref()));
    matching.map(CompletionCandidate::new).collect()
}
