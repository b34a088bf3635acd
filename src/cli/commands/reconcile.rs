//! `reconcile`: looks again and again, says what has drifted, and puts it back if that is wanted.
//!
//! A round reads everything anew: the files, the ledger, the server. What it finds is told when it is
//! another thing than the round before found, and is measured always. With `--apply` a round plans and
//! applies as `apply` does; what is worse than reversible, or blocked, is left to a person. Nobody is
//! asked anything.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use tokio::net::TcpListener;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::cli::args::{Choices, ReconcileArguments};
use crate::cli::choices::chosen;
use crate::cli::commands::carry_out::{Run, carry_out};
use crate::cli::commands::drift::recorded;
use crate::cli::commands::prepare::{Asked, prepare, remarks};
use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::ledger::{alone_on_set, owner};
use crate::cli::specs::{Wanted, read};
use crate::diagnostic::{Code, Diagnostic, Diagnostics, Severity};
use crate::model::SetName;
use crate::nomad::NomadClient;
use crate::plan::{Basis, DriftState, Plan, Unapproved, VolumeDrift, findings};
use crate::ports::RandomIds;
use crate::reconcile::{
    Cause, DriftQuery, Ending, Outcome, RoundEnd, SetLedger, Watch, look_for_drift, run_loop,
};
use crate::spec::Purpose;
use crate::telemetry::{METRICS_CONTENT_TYPE, ReconcileMetrics, serve_metrics};

/// The word that stands in ledgers.
const RECONCILE: &str = "reconcile";

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
            let rounds = Rounds {
                context,
                client,
                arguments,
                metrics: ReconcileMetrics::default(),
            };
            let stop = context.interrupts.stop();
            let mut told = Told::default();
            let interval = arguments.interval;
            let running = run_loop(client, interval, &RandomIds, stop, async |cause| {
                rounds.one(cause, &mut told).await
            });
            match &listener {
                None => running.await,
                Some(listener) => {
                    let text = || rounds.metrics.text();
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

/// What the rounds have in common.
struct Rounds<'a> {
    context: &'a Context,
    client: &'a NomadClient,
    arguments: &'a ReconcileArguments,
    metrics: ReconcileMetrics,
}

/// What was told last: it is told again only if it is another thing.
#[derive(Default)]
struct Told {
    drift: Vec<String>,
    stuck: Vec<String>,
}

impl Rounds<'_> {
    async fn one(&self, cause: Cause, told: &mut Told) -> RoundEnd {
        let started = Instant::now();
        let ended = self.look(told).await;
        let took = started.elapsed();
        let milliseconds = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        let cause = cause.as_str();
        match ended {
            Ok(set) => {
                self.metrics.round("done", took);
                let seconds = self.context.clock.now() / 1_000_000_000;
                let seconds = u32::try_from(seconds).map_or(0.0, f64::from);
                self.metrics.success(&set, seconds);
                tracing::debug!(cause, set, milliseconds, "round done");
                RoundEnd::Done
            }
            Err(error) if error.exit == Exit::Interrupted => RoundEnd::Done,
            Err(error) => {
                self.metrics.round("failed", took);
                self.tell_errors(&error.diagnostics);
                tracing::error!(cause, milliseconds, "round failed; it is tried again");
                RoundEnd::Failed
            }
        }
    }

    fn tell_errors(&self, diagnostics: &Diagnostics) {
        let errors = diagnostics.iter();
        for one in errors.filter(|one| one.severity == Severity::Error) {
            self.metrics.error(one.code.as_str());
            let notes = one.notes.join("; ");
            tracing::error!(code = one.code.as_str(), notes, "{}", one.message);
        }
    }

    /// The set's name, empty if there is none.
    async fn look(&self, told: &mut Told) -> Result<String, CliError> {
        let (context, arguments) = (self.context, self.arguments);
        let asked = context.namespace()?;
        let purpose = Purpose::ByExternalId;
        let (files, set) = (&arguments.files, &arguments.set);
        let (wanted, diagnostics) = read(context, files, purpose, set, asked.as_ref())?;
        if diagnostics.has_errors() {
            return Err(diagnostics.into());
        }
        let name = wanted.set.as_ref().map_or("", SetName::as_str).to_owned();
        let looking = self.drift(&wanted, &name, told);
        context.interrupts.unless(looking).await??;
        if arguments.apply {
            self.put_back(&wanted, told).await?;
        }
        Ok(name)
    }

    async fn drift(&self, wanted: &Wanted, set: &str, told: &mut Told) -> Result<(), CliError> {
        let place = &self.arguments.place;
        let recorded = recorded(self.context, self.client, wanted, place).await?;
        let ignore: BTreeSet<String> = self.arguments.ignore.iter().cloned().collect();
        let query = DriftQuery {
            wanted: &wanted.volumes,
            set: recorded.set(),
            ignore: &ignore,
            parallelism: usize::from(self.arguments.parallelism.parallelism),
        };
        let found = look_for_drift(self.client, query).await?;
        for state in ["gone", "changed", "not-known", "not-applied-yet", "same"] {
            let of_state = found.volumes.iter().filter(|one| one.state.word() == state);
            self.metrics.drift(set, state, of_state.count());
        }
        let drifted: Vec<&VolumeDrift> =
            found.volumes.iter().filter(|one| one.is_drift()).collect();
        let lines: Vec<String> = drifted.iter().map(|one| line(one)).collect();
        if lines != told.drift {
            for (line, volume) in lines.iter().zip(&drifted) {
                let (namespace, id) = (volume.key.namespace.as_str(), volume.key.id.as_str());
                let index = volume.modify_index;
                tracing::warn!(
                    set,
                    volume.namespace = namespace,
                    volume.id = id,
                    index,
                    "{line}"
                );
            }
            let (drifted, volumes) = (lines.len(), found.volumes.len());
            tracing::info!(set, drifted, volumes, "drift is another than before");
            told.drift = lines;
        }
        Ok(())
    }

    async fn put_back(&self, wanted: &Wanted, told: &mut Told) -> Result<(), CliError> {
        let (context, client) = (self.context, self.client);
        let place = &self.arguments.place;
        let owned = owner(context, place, wanted.set.as_ref(), client);
        let Some((ledger, name)) = owned else {
            let stop = context.interrupts.stop();
            return self.apply(wanted, None, stop, told).await;
        };
        alone_on_set(context, ledger, &name, RECONCILE, async |set, stop| {
            self.apply(wanted, Some(set), stop, told).await
        })
        .await
    }

    async fn apply(
        &self,
        wanted: &Wanted,
        set: Option<&mut SetLedger>,
        stop: &CancellationToken,
        told: &mut Told,
    ) -> Result<(), CliError> {
        let parallelism = self.arguments.parallelism.parallelism;
        let choices: Choices = self.arguments.choices.clone().into();
        let asked = Asked {
            wanted,
            purpose: Purpose::ByExternalId,
            parallelism,
            chosen: chosen(self.context, &choices, &wanted.volumes)?,
            documents: false,
            set: set.as_deref().map(SetLedger::set),
        };
        let prepared = prepare(self.context, self.client, &asked).await?;
        let plan = &prepared.plan;
        let missing = asked.chosen.approvals.missing(plan);
        if self.is_stuck(plan, &missing, told) {
            return Ok(());
        }
        let news = asked.set.is_some_and(|set| !findings(plan, set).is_empty());
        if plan.counts().changes() == 0 && !news {
            return Ok(());
        }
        let run = Run {
            command: RECONCILE,
            set,
            saved: None,
            parallelism,
            stop,
            watch: &Quiet,
        };
        let outcomes = carry_out(self.context, self.client, wanted, &prepared, run).await?;
        self.tell_outcomes(plan, &outcomes)
    }

    /// What a person has to decide: nothing is begun while there is any of it.
    fn is_stuck(&self, plan: &Plan, missing: &[Unapproved], told: &mut Told) -> bool {
        let mut reasons: Vec<(Code, String)> = vec![];
        if plan.counts().stuck() > 0 {
            let blocked = remarks(plan).into_iter();
            let blocked = blocked.filter(|one| one.severity == Severity::Error);
            reasons.extend(blocked.map(|one| (one.code, one.message)));
        }
        reasons.extend(missing.iter().map(|one| {
            let flag = format!(
                "--approve {}:{}/{}",
                one.risk, one.key.namespace, one.key.id
            );
            let message = format!(
                "volume {}: {}; nobody agreed with {flag}",
                one.key, one.risk
            );
            (Code::CliApprovalNeeded, message)
        }));
        for (code, _) in &reasons {
            self.metrics.error(code.as_str());
        }
        let is_stuck = !reasons.is_empty() || plan.counts().stuck() > 0;
        let lines: Vec<String> = reasons.iter().map(|(_, message)| message.clone()).collect();
        if lines != told.stuck {
            for (code, message) in &reasons {
                tracing::warn!(code = code.as_str(), "{message}");
            }
            if is_stuck {
                tracing::warn!("nothing is changed until that is settled");
            }
            told.stuck = lines;
        }
        is_stuck
    }

    fn tell_outcomes(&self, plan: &Plan, outcomes: &[Outcome]) -> Result<(), CliError> {
        let mut failures = vec![];
        for (planned, outcome) in plan.volumes.iter().zip(outcomes) {
            let (namespace, id) = (planned.key.namespace.as_str(), planned.key.id.as_str());
            let action = planned.action.word();
            let result = match &outcome.ending {
                Ending::Unchanged | Ending::Blocked => continue,
                Ending::Done(_) | Ending::Removed => "done",
                Ending::NotBegun => "not-begun",
                Ending::Stale(why) | Ending::Held(why) | Ending::Failed(why) => {
                    failures.push(why.clone());
                    "failed"
                }
            };
            self.metrics.change(result);
            tracing::info!(
                volume.namespace = namespace,
                volume.id = id,
                action,
                result,
                "the change of a volume has ended"
            );
        }
        if failures.is_empty() {
            return Ok(());
        }
        Err(failures.into_iter().collect::<Diagnostics>().into())
    }
}

/// What has drifted of a volume, in one line.
fn line(volume: &VolumeDrift) -> String {
    match &volume.state {
        DriftState::Changed(fields) => {
            let fields: Vec<&str> = fields.iter().map(|one| one.field).collect();
            format!("volume {} has drifted: {}", volume.key, fields.join(", "))
        }
        DriftState::Gone => match volume.basis {
            Basis::Applied => format!("volume {} is gone", volume.key),
            Basis::File => format!("volume {} is not there: never made, or removed", volume.key),
        },
        DriftState::Same | DriftState::NotYet | DriftState::NotKnown => String::new(),
    }
}

/// Nobody looks on: what was done is told at the end.
struct Quiet;

impl Watch for Quiet {
    fn began(&self, _: usize) {}
    fn ended(&self, _: usize, _: &Outcome) {}
}
