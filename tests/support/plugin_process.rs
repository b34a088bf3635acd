//! The embedded plugin as a separate process, with its socket and its state in a directory.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nomad_csi_proto as proto;

use super::plugin_client::{Client, channel};
use super::wait::until_async;

/// Returns the socket of the plugin in a directory.
pub(crate) fn socket_in(directory: &Path) -> PathBuf {
    directory.join("s/csi.sock")
}

/// Returns the endpoint of the plugin in a directory.
pub(crate) fn endpoint(directory: &Path) -> String {
    format!("unix://{}", socket_in(directory).display())
}

/// Returns the command of the plugin in a directory, on the node `node-1`.
pub(crate) fn plugin_command(directory: &Path, flags: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nomad-csi"));
    command
        .args(["plugin", "serve", "--node-id", "node-1", "--endpoint", &endpoint(directory)])
        .arg("--state-dir")
        .arg(directory.join("state"))
        .args(flags)
        .stdin(Stdio::null())
        .stderr(Stdio::null());
    command
}

/// A process that is killed when it is dropped.
pub(crate) struct KilledOnDrop(pub(crate) Child);

impl Drop for KilledOnDrop {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// A running plugin and a client of it.
pub(crate) struct PluginProcess {
    pub(crate) process: KilledOnDrop,
    pub(crate) client: Client,
}

impl PluginProcess {
    /// Starts a plugin with this command and waits until it answers on the socket.
    pub(crate) async fn run(mut command: Command, socket: &Path) -> Self {
        let process = KilledOnDrop(command.spawn().unwrap());
        let mut client = Client::over(channel(socket));
        until_async("the plugin to answer", async || {
            let answer = client.identity.probe(proto::ProbeRequest {}).await;
            answer.map(drop).map_err(|status| status.to_string())
        })
        .await;
        Self { process, client }
    }
}
