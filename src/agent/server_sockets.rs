//! The open sockets of a server, which it keeps while its part in the cluster changes.
//!
//! Clients and nodes that come while no part is served wait. The operator's token is that of the sockets.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::JoinSet;

use super::blocking::run_blocking;
use super::cluster_tls::load_https;
use super::directory::AgentDirs;
use super::listen::Listeners;
use super::metrics::serve_metrics_at;
use super::operator_token::OperatorTokenFiles;
use super::role_file::ServerConfig;
use super::run::create_token;
use crate::telemetry::AgentMetrics;
use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics};
use nomad_csi_rpc::{ClusterTls, NodeListener};
use nomad_csi_server::AgentInfo;

/// The open sockets of a server.
pub(super) struct ServerSockets {
    /// The sockets of the HTTP API.
    pub(super) http: Listeners,
    /// The port for nodes and other servers.
    pub(super) port: NodeListener,
    /// The operator's token.
    pub(super) operator: OperatorTokenFiles,
    /// The metrics, which are served from the start.
    pub(super) metrics: Arc<AgentMetrics>,
    /// The certificate of new connections.
    pub(super) tls: watch::Receiver<ClusterTls>,
    _metrics: JoinSet<()>,
    _certificate: watch::Sender<ClusterTls>,
}

impl ServerSockets {
    /// Opens the sockets.
    ///
    /// # Errors
    /// If one cannot be opened.
    pub(super) async fn open(
        config: &ServerConfig,
        dirs: &AgentDirs,
        tls: ClusterTls,
    ) -> Result<Self, Diagnostics> {
        let https = match &config.https {
            Some(files) => Some(load_https(files).await?),
            None => None,
        };
        let http = Listeners::open(config.agent.http, &dirs.agent_socket()).await?;
        let http = http.with_tls(https);
        let (certificate, tls) = watch::channel(tls);
        let port = NodeListener::bind(config.address, tls.clone()).await;
        let port = port.map_err(|error| cannot_listen(config, &error))?;
        let operator = create_token(&config.agent, dirs, &http).await?;
        let metrics = Arc::new(AgentMetrics::default());
        let serving = serve_metrics_at(config.agent.metrics, metrics.clone()).await?;
        let (_metrics, _certificate) = (serving, certificate);
        Ok(Self { http, port, operator, metrics, tls, _metrics, _certificate })
    }

    /// Returns the address of the port for nodes, with its actual port.
    pub(super) fn cluster_address(&self) -> String {
        self.port.address().map(|address| address.to_string()).unwrap_or_default()
    }

    /// Ends the token, and closes the sockets.
    pub(super) async fn close(self) {
        let operator = self.operator;
        drop(run_blocking(move || operator.end()).await);
    }
}

/// Returns what the server reports about itself.
pub(super) fn about(config: &ServerConfig, http: &Listeners) -> AgentInfo {
    AgentInfo {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        name: config.name(),
        region: config.region.clone(),
        datacenter: AgentInfo::DATACENTER.to_owned(),
        address: http.address().map(|address| address.to_string()).unwrap_or_default(),
        node_id: String::new(),
    }
}

fn cannot_listen(config: &ServerConfig, error: &std::io::Error) -> Diagnostics {
    let message = format!("cannot listen for nodes on `{}`: {error}", config.address);
    let help = "use another `address` in `[cluster]`, or stop what listens there";
    Diagnostic::error(Code::AgentCannotListen, message).help(help).into()
}
