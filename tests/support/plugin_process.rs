//! The embedded plugin as a separate process, with its socket and its state in a directory.

use std::fs::File;
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
        .stderr(log_in(directory));
    command
}

/// Opens the log of the plugin in a directory, which starts and restarts append to.
fn log_in(directory: &Path) -> File {
    File::options().create(true).append(true).open(directory.join("plugin.log")).unwrap()
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
    /// Starts a plugin with this command and waits until it answers on the socket. Panics if it ends, with its log in the
    /// directory.
    pub(crate) async fn run(mut command: Command, directory: &Path, socket: &Path) -> Self {
        let mut process = KilledOnDrop(command.spawn().unwrap());
        let mut client = Client::over(channel(socket));
        until_async("the plugin to answer", async || {
            let log = || std::fs::read_to_string(directory.join("plugin.log")).unwrap_or_default();
            if let Some(status) = process.0.try_wait().unwrap() {
                panic!("the plugin ended instead: {status}\n{}", log());
            }
            let answer = client.identity.probe(proto::ProbeRequest {}).await;
            answer.map(drop).map_err(|status| format!("{status}\n{}", log()))
        })
        .await;
        Self { process, client }
    }
}
