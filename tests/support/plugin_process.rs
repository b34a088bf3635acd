//! The embedded plugin as a separate process.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use nomad_csi_proto as proto;

use super::plugin_client::{Client, channel};
use super::wait::until_async;

/// A running plugin, killed when it is dropped.
pub(crate) struct PluginProcess {
    pub(crate) process: Child,
    pub(crate) client: Client,
}

impl PluginProcess {
    /// Starts a plugin with its socket and its state in a directory.
    pub(crate) async fn start(directory: &Path, flags: &[&str]) -> Self {
        let socket = directory.join("s/csi.sock");
        let mut command = Command::new(env!("CARGO_BIN_EXE_nomad-csi"));
        command
            .args(["plugin", "serve", "--node-id", "n", "--endpoint"])
            .arg(format!("unix://{}", socket.display()))
            .arg("--state-dir")
            .arg(directory.join("state"))
            .args(flags);
        Self::run(command, &socket).await
    }

    /// Starts a plugin with this command and waits until it answers on the socket.
    pub(crate) async fn run(mut command: Command, socket: &Path) -> Self {
        let process = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let mut client = Client::over(channel(socket));
        until_async("the plugin to answer", async || {
            let answer = client.identity.probe(proto::ProbeRequest {}).await;
            answer.map(drop).map_err(|status| status.to_string())
        })
        .await;
        Self { process, client }
    }
}

impl Drop for PluginProcess {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}
