//! The tasks that supervise plugins that run already.
//!
//! A plugin has the ID that the command line gives it, otherwise the name that it gives itself, for which
//! it has to answer when the agent starts. Two sockets may serve one plugin: its controller and its node.
//! The ID of such a task follows from the node and the socket, so it is the same after each start.

use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use tokio::time::{Instant, sleep, timeout_at};

use super::config::AgentConfig;
use super::directory::AgentDirs;
use super::plugin::HOSTPATH;
use super::plugin_endpoint::PluginEndpoint;
use nomad_csi_csi::deadline::for_rpc;
use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics};
use nomad_csi_model::retry::RetryPolicy;
use nomad_csi_model::{AllocId, NodeId, PluginId, PluginInstance, hex};
use nomad_csi_node::PluginTask;
use nomad_csi_node::driver::RunningPlugin;
use nomad_csi_ports::{Connector, Rpc, SentSecrets, SentSecretsReader};

/// Backoff while polling GetPluginInfo.
const ASK_AGAIN: RetryPolicy =
    RetryPolicy { initial: Duration::from_millis(20), max: Duration::from_millis(500) };

/// Returns the task that supervises the plugin of an endpoint, and what finds its process. The instance that is on record is
/// asked for.
///
/// # Errors
/// If the plugin has no ID and does not answer in time, or its ID is that of the embedded plugin.
pub(super) async fn running_plugin(
    endpoint: &PluginEndpoint,
    config: &AgentConfig,
    (connector, sent): (&dyn Connector, &dyn SentSecretsReader),
    (dirs, node): (&AgentDirs, NodeId),
    recorded: impl FnOnce(&PluginId, &AllocId) -> Option<PluginInstance>,
) -> Result<(PluginTask, RunningPlugin), Diagnostics> {
    let socket = &endpoint.socket;
    let plugin = match &endpoint.id {
        Some(id) => id.clone(),
        None => {
            let unnamed = running_at(socket, &PathBuf::new(), "", config);
            let sent = sent.sent(None).await;
            own_name(socket, config.plugin_timeout, (connector, &sent), &unnamed).await?
        }
    };
    if plugin.as_str() == HOSTPATH {
        return Err(id_is_taken(socket));
    }
    let task = task_id(&node, socket);
    let recorded = recorded(&plugin, &task);
    let running = running_at(socket, &dirs.running_process(&task), plugin.as_str(), config);
    let task =
        PluginTask { plugin, node, task, socket: socket.clone(), health_timeout: None, recorded };
    Ok((task, running))
}

fn running_at(
    socket: &Path,
    process_file: &Path,
    name: &str,
    config: &AgentConfig,
) -> RunningPlugin {
    let (socket, file) = (socket.to_owned(), process_file.to_owned());
    let longest = for_rpc(Rpc::NodeStageVolume);
    RunningPlugin::new(name.to_owned(), socket, file, longest)
        .with_users(config.plugin_endpoint_users.clone())
}

/// Asks the plugin for its name until it answers. One that is not trusted is not asked.
async fn own_name(
    socket: &Path,
    limit: Duration,
    (connector, sent): (&dyn Connector, &SentSecrets),
    running: &RunningPlugin,
) -> Result<PluginId, Diagnostics> {
    let connection = connector.connect(socket, None, sent);
    let deadline = Instant::now() + limit;
    let mut attempt = 0;
    let reason = loop {
        let named = async {
            running.check().await.map_err(|error| error.to_string())?;
            let info = connection.identity.plugin_info().await;
            info.map_err(|error| error.to_string())
        };
        let reason = match timeout_at(deadline, named).await {
            Ok(Ok(info)) => return Ok(PluginId::new(info.name)),
            Ok(Err(reason)) => reason,
            Err(_) => "the plugin did not answer".to_owned(),
        };
        let pause = sleep(ASK_AGAIN.delay(attempt, 1.0));
        if timeout_at(deadline, pause).await.is_err() {
            break reason;
        }
        attempt += 1;
    };
    let socket = socket.display();
    let message = format!("cannot use the plugin at `{socket}`: its name is unknown");
    let help = format!(
        "start the plugin before the agent, or give it an ID: `--plugin-endpoint ID=unix://{socket}`"
    );
    let problem = Diagnostic::error(Code::AgentBadPluginEndpoint, message);
    Err(problem.note(reason).help(help).into())
}

fn id_is_taken(socket: &Path) -> Diagnostics {
    let socket = socket.display();
    let message =
        format!("cannot use the plugin at `{socket}`: `{HOSTPATH}` is the embedded plugin");
    let help = format!("give it another ID: `--plugin-endpoint ID=unix://{socket}`");
    let problem = Diagnostic::error(Code::AgentBadPluginEndpoint, message);
    problem.help(help).into()
}

/// Returns the ID of the task behind a socket of a node, in the form of a UUID.
pub(super) fn task_id(node: &NodeId, socket: &Path) -> AllocId {
    let mut hash = Sha256::new_with_prefix(node.as_str());
    hash.update([0]);
    hash.update(socket.as_os_str().as_encoded_bytes());
    let digits: String = hex(&hash.finalize()[..16]).collect();
    let [first, second, third, fourth, fifth] =
        [(0, 8), (8, 12), (12, 16), (16, 20), (20, 32)].map(|(from, to)| &digits[from..to]);
    AllocId::new(format!("{first}-{second}-{third}-{fourth}-{fifth}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_a_task_depends_on_node_and_socket_only() {
        let id = |node: &str, socket: &str| task_id(&node.into(), Path::new(socket));
        assert_eq!(id("a", "/run/x.sock"), id("a", "/run/x.sock"));
        assert_ne!(id("a", "/run/x.sock"), id("b", "/run/x.sock"));
        assert_ne!(id("a", "/run/x.sock"), id("a", "/run/y.sock"));
        assert_eq!(id("a", "/run/x.sock").as_str().len(), 36);
    }
}
