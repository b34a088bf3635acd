//! The metrics of an agent or a plugin on their own address. They are served from the start to the end of the
//! stop.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::telemetry::serve_metrics;
use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics};
use nomad_csi_ports::{METRICS_CONTENT_TYPE, MetricsSource};

/// Opens the address and serves the metrics there until the set is dropped. Without an address,
/// nothing is served.
///
/// # Errors
/// If the address cannot be used.
pub(super) async fn serve_metrics_at(
    address: Option<SocketAddr>,
    metrics: Arc<impl MetricsSource + 'static>,
) -> Result<JoinSet<()>, Diagnostics> {
    let mut serving = JoinSet::new();
    let Some(address) = address else {
        return Ok(serving);
    };
    let listener = TcpListener::bind(address).await;
    let listener = listener.map_err(|error| unusable(address, &error))?;
    let address = listener.local_addr().unwrap_or(address);
    tracing::info!(%address, "metrics are served at /metrics");
    serving.spawn(async move {
        match serve_metrics(&listener, METRICS_CONTENT_TYPE, || metrics.metrics()).await {}
    });
    Ok(serving)
}

fn unusable(address: SocketAddr, error: &std::io::Error) -> Diagnostics {
    let code = match error.kind() {
        std::io::ErrorKind::AddrInUse => Code::AgentPortInUse,
        _ => Code::AgentCannotListen,
    };
    Diagnostic::error(code, format!("cannot serve metrics at `{address}`: {error}"))
        .help("choose another address with `--metrics`, or stop the process that uses it")
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::AgentMetrics;

    #[tokio::test]
    async fn an_address_in_use_is_an_error_with_the_option() {
        let taken = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = taken.local_addr().unwrap();
        let refused = serve_metrics_at(Some(address), Arc::<AgentMetrics>::default()).await;
        let problems = refused.unwrap_err();
        let problem = problems.iter().next().unwrap();
        assert_eq!(problem.code, Code::AgentPortInUse);
        assert!(problem.help[0].contains("`--metrics`"), "{problem:?}");
    }
}
