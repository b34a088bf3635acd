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
use crate::model::{Namespace, PluginId, Secrets};
use crate::ports::{ClusterApi, VolumeQuery};

/// The longest time that a completion takes.
const PATIENCE: Duration = Duration::from_millis(700);

/// A kind of value that a server has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServerValue {
    Volume,
    Plugin,
    /// A namespace.
    Namespace,
    /// A namespace, or `*`.
    Scope,
    Set,
    Node,
    Job,
    Allocation,
    /// A snapshot at the provider of the plugin on the command line.
    Snapshot,
    /// A volume of the provider of the plugin on the command line, by its external ID.
    ExternalVolume,
}

/// The values of the server that the command line names.
pub(super) struct ServerValues {
    global: GlobalArgs,
    environment: Environment,
    directory: PathBuf,
    servers: Arc<dyn Servers>,
    /// The plugin on the command line so far.
    plugin: Option<PluginId>,
}

impl ServerValues {
    /// Reads nothing yet. `global` and `plugin` are on the command line so far.
    pub(super) fn new(
        global: GlobalArgs,
        plugin: Option<PluginId>,
        context: &CommandContext,
    ) -> Self {
        Self {
            global,
            plugin,
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
                Some(values_of(&*session.api, kind, &scope, self.plugin.as_ref()).await)
            };
            tokio::time::timeout(PATIENCE, asking).await.ok().flatten()
        });
        runtime.shutdown_background();
        known.unwrap_or_default()
    }
}

/// Returns the values of a kind; empty if they cannot be listed.
async fn values_of(
    api: &dyn ClusterApi,
    kind: ServerValue,
    scope: &Namespace,
    plugin: Option<&PluginId>,
) -> Vec<String> {
    match (kind, plugin) {
        (ServerValue::Volume, _) => volumes(api, scope).await,
        (ServerValue::Plugin, _) => {
            let plugins = api.list_plugins(None).await.unwrap_or_default();
            plugins.iter().map(|one| one.value.id.to_string()).collect()
        }
        (ServerValue::Namespace, _) => namespaces(api).await,
        (ServerValue::Scope, _) => {
            let mut names = namespaces(api).await;
            names.insert(0, Namespace::ALL.to_owned());
            names
        }
        (ServerValue::Set, _) => {
            let sets = api.ledger(Namespace::default()).sets().await;
            let sets = sets.unwrap_or_default();
            sets.iter().map(ToString::to_string).collect()
        }
        (ServerValue::Node, _) => {
            let nodes = api.list_nodes().await.unwrap_or_default();
            nodes.into_iter().map(|node| node.name).collect()
        }
        (ServerValue::Job, _) => {
            let jobs = api.list_jobs(scope, "").await.unwrap_or_default();
            jobs.into_iter().map(|job| job.value.id).collect()
        }
        (ServerValue::Allocation, _) => {
            let allocations = api.list_allocations(scope, "").await.unwrap_or_default();
            allocations.into_iter().map(|one| one.value.id).collect()
        }
        (ServerValue::Snapshot, Some(plugin)) => {
            let none = Secrets::default();
            let snapshots = api.list_snapshots(plugin, scope, &none).await;
            let snapshots = snapshots.unwrap_or_default();
            snapshots.iter().map(|one| one.id.to_string()).collect()
        }
        (ServerValue::ExternalVolume, Some(plugin)) => {
            let volumes = api.list_external_volumes(plugin, scope).await;
            let volumes = volumes.unwrap_or_default();
            volumes
                .iter()
                .map(|one| one.external_id.to_string())
                .collect()
        }
        (ServerValue::Snapshot | ServerValue::ExternalVolume, None) => vec![],
    }
}

async fn volumes(api: &dyn ClusterApi, scope: &Namespace) -> Vec<String> {
    let everywhere = VolumeQuery {
        namespace: Namespace::new(Namespace::ALL),
        prefix: None,
        plugin: None,
        filter: None,
    };
    let volumes = api.list_volumes(&everywhere).await.unwrap_or_default();
    let is_in_scope =
        |namespace: &Namespace| scope.as_str() == Namespace::ALL || namespace == scope;
    let in_scope = volumes
        .iter()
        .filter(|one| is_in_scope(&one.value.namespace));
    in_scope.map(|one| one.value.id.to_string()).collect()
}

async fn namespaces(api: &dyn ClusterApi) -> Vec<String> {
    let names = api.namespace_names().await.unwrap_or_default();
    names.iter().map(ToString::to_string).collect()
}

/// Returns the values that start as the current word does.
pub(super) fn candidates(values: &[String], current: &OsStr) -> Vec<CompletionCandidate> {
    let current = current.to_string_lossy();
    let matching = values
        .iter()
        .filter(|value| value.starts_with(current.as_ref()));
    matching.map(CompletionCandidate::new).collect()
}
