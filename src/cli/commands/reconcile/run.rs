//! Runs rounds until the user stops them.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::time::Instant;

use super::args::ReconcileArgs;
use super::round_log::RoundLog;
use crate::cli::args::ChangeArgs;
use crate::cli::change_options::change_options;
use crate::cli::command_context::CommandContext;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::ledger::ledger_access;
use crate::cli::server_outage::{OutageLog, SlowResponseLog};
use crate::cli::specs::{EmptyFiles, LoadOptions, read_specifications};
use crate::cli::ui::one_line;
use crate::telemetry::{ReconcileMetrics, serve_metrics};
use nomad_csi_client::ports::{ClusterApi, ServerWait};
use nomad_csi_client::reconcile::workflow::{
    RoundRequest, Specifications, WorkflowContext, run_round,
};
use nomad_csi_client::reconcile::{Cause, RoundEnd, run_loop};
use nomad_csi_model::SetName;
use nomad_csi_model::diagnostic::{Code, Diagnostic, SourceMap};
use nomad_csi_ports::{METRICS_CONTENT_TYPE, RandomIds};
use nomad_csi_spec::Purpose;

/// Runs rounds until the user stops them, which is not an error.
///
/// # Errors
/// If the server's address or the address of the metrics cannot be used.
pub(crate) async fn reconcile_until_stopped(
    context: &CommandContext,
    arguments: &ReconcileArgs,
) -> Result<Exit, CliError> {
    if let Some(passing) = arguments.files.first_passing(&context.directory) {
        let passing = match passing.as_str() {
            "-" => "standard input".to_owned(),
            name => format!("`{}`", one_line(name)),
        };
        let message = format!("cannot use {passing}: every round reads the files again");
        return Err(Diagnostic::error(Code::CliInvalidValue, message)
            .help("name files or directories with `-f`")
            .into());
    }
    let listener = match arguments.metrics {
        Some(address) => Some(listen(address).await?),
        None => None,
    };
    context
        .with_observed_cluster(Arc::new(SlowResponseLog), async |cluster| {
            let cluster = &*cluster.waiting(ServerWait {
                timeout: arguments.server_wait.server_wait.0,
                observer: Arc::new(OutageLog),
            });
            let metrics = ReconcileMetrics::default();
            let log = RoundLog::new(&metrics, context.clock.clone());
            let stop = context.interrupts.stop();
            let interval = arguments.interval;
            let running = run_loop(cluster, interval, &RandomIds, stop, async |cause| {
                run_logged_round(context, cluster, arguments, &log, cause).await
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

/// Runs one round and logs how it ended.
async fn run_logged_round(
    context: &CommandContext,
    cluster: &dyn ClusterApi,
    arguments: &ReconcileArgs,
    log: &RoundLog<'_>,
    cause: Cause,
) -> RoundEnd {
    let started = Instant::now();
    let (ended, set, sources) = match read_files(context, arguments) {
        Ok(specifications) => {
            let ended = reconcile(context, cluster, arguments, log, &specifications).await;
            (ended, specifications.set, specifications.sources)
        }
        Err((error, sources)) => (Err(error), None, sources),
    };
    let duration = started.elapsed();
    match ended {
        Ok(()) => {
            log.round_done(cause, set.as_ref().map_or("", SetName::as_str), duration);
            RoundEnd::Done
        }
        Err(error) if error.exit == Exit::Interrupted => RoundEnd::Done,
        Err(error) => {
            log.round_failed(cause, duration, &error.diagnostics, &sources);
            RoundEnd::Failed
        }
    }
}

fn read_files(
    context: &CommandContext,
    arguments: &ReconcileArgs,
) -> Result<Specifications, (CliError, SourceMap)> {
    let without_sources = |error: CliError| (error, SourceMap::default());
    let namespace = context.namespace().map_err(without_sources)?;
    let load_options = LoadOptions {
        purpose: Purpose::ByExternalId,
        empty_files: match arguments.changes.prune {
            true => EmptyFiles::Pruned,
            false => EmptyFiles::Accepted,
        },
        share: Some(&arguments.changes.share),
        deny: &arguments.changes.deny,
        policies: Some(context.policies().map_err(without_sources)?),
        refuses_files: false,
        plugins: None,
    };
    let (files, set) = (&arguments.files, &arguments.set);
    let read = read_specifications(context, files, load_options, set, namespace.as_ref());
    let (mut specifications, diagnostics) = read.map_err(without_sources)?;
    if diagnostics.has_errors() {
        return Err((diagnostics.into(), specifications.sources));
    }
    // What is not reported as drift is not reversed either.
    for spec in &mut specifications.volumes {
        spec.ignore.extend(arguments.ignore.iter().cloned());
    }
    Ok(specifications)
}

async fn reconcile(
    context: &CommandContext,
    cluster: &dyn ClusterApi,
    arguments: &ReconcileArgs,
    log: &RoundLog<'_>,
    specifications: &Specifications,
) -> Result<(), CliError> {
    let ignore: BTreeSet<String> = arguments.ignore.iter().cloned().collect();
    let changes = if arguments.apply {
        let changes: ChangeArgs = arguments.changes.clone().into();
        Some(change_options(context, &changes, &specifications.volumes)?)
    } else {
        None
    };
    let request = RoundRequest {
        specifications,
        ledger: ledger_access(context, &arguments.ledger, cluster),
        ignore: &ignore,
        asks_providers: !arguments.changes.no_provider,
        changes,
        keeps_going: arguments.keep_going,
    };
    let parallelism = arguments.parallelism.parallelism;
    let workflow = WorkflowContext {
        server_wait: arguments.server_wait.server_wait.0,
        ..context.workflow_with_reporter(cluster, log, "reconcile", parallelism)
    };
    Ok(run_round(&workflow, log, request).await?)
}

async fn listen(address: SocketAddr) -> Result<TcpListener, CliError> {
    let listener = TcpListener::bind(address).await.map_err(|error| {
        let message = format!("cannot serve metrics at {address}: {error}");
        Diagnostic::error(Code::CliInvalidValue, message)
            .help("choose another address with `--metrics`, or stop the process that uses it")
    })?;
    let address = listener.local_addr().unwrap_or(address);
    tracing::info!(%address, "metrics are served at /metrics");
    Ok(listener)
}
