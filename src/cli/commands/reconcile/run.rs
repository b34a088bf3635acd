//! The loop as a command: from its arguments until somebody ends it.

use std::net::SocketAddr;

use tokio::net::TcpListener;

use super::log::Log;
use super::round::Rounds;
use crate::cli::args::ReconcileArguments;
use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::diagnostic::{Code, Diagnostic};
use crate::ports::RandomIds;
use crate::reconcile::run_loop;
use crate::telemetry::{METRICS_CONTENT_TYPE, ReconcileMetrics, serve_metrics};

/// Runs rounds until somebody stops it, which is no error.
///
/// # Errors
/// If the server's address cannot be used, or nobody could ask for the metrics at theirs.
pub(crate) async fn run(
    context: &Context,
    arguments: &ReconcileArguments,
) -> Result<Exit, CliError> {
    if arguments.files.files.iter().any(|file| file == "-") {
        let message = "standard input can be read once, and `reconcile` reads again and again";
        return Err(Diagnostic::error(Code::CliInvalidValue, message)
            .help("name files or directories with `-f`")
            .into());
    }
    let listener = match arguments.metrics {
        Some(address) => Some(listen(address).await?),
        None => None,
    };
    context
        .with_client(async |client| {
            let metrics = ReconcileMetrics::default();
            let rounds = Rounds {
                context,
                client,
                arguments,
            };
            let mut log = Log::new(&metrics);
            let stop = context.interrupts.stop();
            let interval = arguments.interval;
            let running = run_loop(client, interval, &RandomIds, stop, async |cause| {
                rounds.one(cause, &mut log).await
            });
            match &listener {
                None => running.await,
                Some(listener) => {
                    let text = || metrics.text();
                    tokio::select! {
                        () = running => {}
                        never = serve_metrics(listener, METRICS_CONTENT_TYPE, text) => match never {},
                    }
                }
            }
            tracing::info!("stopped");
            Ok(Exit::Done)
        })
        .await
}

async fn listen(address: SocketAddr) -> Result<TcpListener, CliError> {
    let listener = TcpListener::bind(address).await.map_err(|error| {
        let message = format!("nobody can ask for the metrics at {address}: {error}");
        Diagnostic::error(Code::CliInvalidValue, message)
            .help("name another address with `--metrics`, or end who listens there")
    })?;
    let address = listener.local_addr().unwrap_or(address);
    tracing::info!(%address, "metrics can be read at /metrics");
    Ok(listener)
}
