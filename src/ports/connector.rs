//! Connections to plugins by socket.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;

use super::plugin::{Controller, Identity, NodeService};
use nomad_csi_model::{PluginId, Secret};

/// The three services of one plugin over one connection. The connection is opened on first use and
/// reopened after a failure.
#[derive(Clone)]
pub struct PluginConnection {
    /// The Identity service, which every plugin has.
    pub identity: Arc<dyn Identity>,
    /// The Controller service; returns `UNIMPLEMENTED` if the plugin has none.
    pub controller: Arc<dyn Controller>,
    /// The Node service; returns `UNIMPLEMENTED` if the plugin has none.
    pub node: Arc<dyn NodeService>,
}

/// A process at the other end of a connection. Its number is given to another process after its end, its number and
/// start time together are not, until the machine starts again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerProcess {
    /// The process ID.
    pub pid: i32,
    /// The start time in clock ticks since the boot.
    pub start_time: u64,
}

/// The secrets that earlier calls have sent to a plugin, and that the texts of its answers must not show.
#[derive(Default)]
pub struct SentSecrets {
    secrets: Vec<Secret>,
    sealed: Vec<Secret>,
}

impl SentSecrets {
    /// Adds a value of `secrets`.
    pub fn add_secret(&mut self, value: &str) {
        self.secrets.push(Secret::new(value.to_owned()));
    }

    /// Adds a mount flag, a value of a publish context, or a secret of another plugin.
    pub fn add_sealed(&mut self, value: &str) {
        self.sealed.push(Secret::new(value.to_owned()));
    }

    /// The values of `secrets`.
    pub fn secrets(&self) -> impl Iterator<Item = &str> {
        self.secrets.iter().map(|value| value.as_str())
    }

    /// The mount flags, the values of publish contexts, and the secrets of other plugins.
    pub fn sealed(&self) -> impl Iterator<Item = &str> {
        self.sealed.iter().map(|value| value.as_str())
    }
}

impl std::fmt::Debug for SentSecrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let values = self.secrets.len() + self.sealed.len();
        write!(f, "SentSecrets({values} hidden)")
    }
}

/// Knows what earlier calls have sent.
#[async_trait]
pub trait SentSecretsReader: Send + Sync {
    /// Returns what was sent to a plugin, and what was sent to others: the plugin may have had another ID. That is no
    /// secret of its own, so its addresses may contain it.
    async fn sent(&self, plugin: Option<&PluginId>) -> SentSecrets;
}

/// Nothing that was sent before is known, as on a node: the server has the record. What its own connections have sent is hidden.
pub struct NoSentSecrets;

#[async_trait]
impl SentSecretsReader for NoSentSecrets {
    async fn sent(&self, _: Option<&PluginId>) -> SentSecrets {
        SentSecrets::default()
    }
}

/// Creates connections.
pub trait Connector: Send + Sync {
    /// Returns a connection to the plugin at `socket`, which hides what was `sent` to the plugin before. Does no I/O, so
    /// the plugin may start later. With a process, calls fail while another one listens there.
    fn connect(
        &self,
        socket: &Path,
        required_peer: Option<PeerProcess>,
        sent: &SentSecrets,
    ) -> PluginConnection;
}
