//! The log and the metrics of rounds.
//!
//! A loop runs for months, so the log shows what changed. Drift, and what blocks its reversal, are
//! logged when they differ from the round before. The metrics show everything.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use crate::cli::ui::{one_line, unreachable_line};
use crate::cli::workflow::lock_wait_line;
use crate::telemetry::ReconcileMetrics;
use nomad_csi_client::ports::LockHolder;
use nomad_csi_client::reconcile::workflow::{Reporter, RoundReporter, Uncorrected, is_folded};
use nomad_csi_client::reconcile::{Cause, Outcome, ProgressObserver, Status};
use nomad_csi_model::diagnostic::{Diagnostic, Diagnostics, Severity, SourceMap};
use nomad_csi_model::{NamespacedId, SetName};
use nomad_csi_plan::{Baseline, DriftState, Plan, VolumeDrift};
use nomad_csi_ports::Clock;

/// The log and the metrics of a loop.
pub(super) struct RoundLog<'a> {
    metrics: &'a ReconcileMetrics,
    clock: Arc<dyn Clock>,
    logged: Mutex<Logged>,
}

/// The state that was logged last.
#[derive(Default)]
struct Logged {
    drift: Vec<String>,
    blocked: Vec<Diagnostic>,
    unchecked: Vec<Diagnostic>,
    uncorrected: Vec<Uncorrected>,
}

/// Up to this number, the volumes that were not corrected are named.
const NAMED_VOLUMES: usize = 20;

impl<'a> RoundLog<'a> {
    /// A log without entries.
    pub(super) fn new(metrics: &'a ReconcileMetrics, clock: Arc<dyn Clock>) -> Self {
        Self { metrics, clock, logged: Mutex::default() }
    }

    fn logged(&self) -> MutexGuard<'_, Logged> {
        self.logged.lock()
    }

    /// Logs a round that succeeded.
    pub(super) fn round_done(&self, cause: Cause, set: &str, duration: Duration) {
        self.metrics.round("done", duration);
        let now = self.clock.now();
        let seconds = u32::try_from(now / 1_000_000_000).map_or(0.0, f64::from);
        self.metrics.success(set, seconds);
        let (cause, milliseconds) = (cause.as_str(), milliseconds(duration));
        tracing::debug!(cause, set, milliseconds, "round done");
    }

    /// Logs a round that failed.
    pub(super) fn round_failed(
        &self,
        cause: Cause,
        duration: Duration,
        why: &Diagnostics,
        sources: &SourceMap,
    ) {
        self.metrics.round("failed", duration);
        for one in why.iter().filter(|one| one.severity == Severity::Error) {
            self.log_error(one, sources);
        }
        let (cause, milliseconds) = (cause.as_str(), milliseconds(duration));
        tracing::error!(cause, milliseconds, "round failed; the next round retries");
    }

    fn log_error(&self, one: &Diagnostic, sources: &SourceMap) {
        self.metrics.error(one.code.as_str());
        let (code, at) = (one.code.as_str(), location(one, sources));
        let (notes, help) = (one.notes.join("; "), one.help.join("; "));
        tracing::error!(code, at, notes, help, "{}", one.message);
    }
}

impl Reporter for RoundLog<'_> {
    fn status(&self, line: &str) {
        tracing::info!("{}", one_line(line));
    }

    fn diagnostics(&self, diagnostics: &Diagnostics, sources: &SourceMap) {
        for one in diagnostics.iter() {
            match one.severity {
                Severity::Warning => log_warning(one, sources),
                Severity::Error => self.log_error(one, sources),
            }
        }
    }

    fn plan(&self, _: &Plan, _: &str) {}

    fn progress(&self, _: &Plan) -> Box<dyn ProgressObserver + '_> {
        Box::new(NoProgress)
    }

    fn waiting_for_lock(&self, set: &SetName, holder: Option<&LockHolder>, timeout: Duration) {
        self.status(&lock_wait_line(set, holder, timeout, self.clock.now()));
    }
}

impl RoundReporter for RoundLog<'_> {
    fn drift(&self, set: &str, volumes: &[VolumeDrift]) {
        for state in DriftState::NAMES {
            let of_state = volumes.iter().filter(|one| one.state.as_str() == state);
            self.metrics.drift(set, state, of_state.count());
        }
        let drifted = volumes.iter().filter(|one| one.has_drifted());
        let (drifted, lines): (Vec<_>, Vec<_>) = drifted.map(|one| (one, drift_line(one))).unzip();
        if lines == self.logged().drift {
            return;
        }
        for (line, volume) in lines.iter().zip(&drifted) {
            let NamespacedId { namespace, id } = &volume.key;
            let (namespace, id) = (namespace.as_str(), id.as_str());
            let index = volume.spec_index;
            tracing::warn!(set, volume.namespace = namespace, volume.id = id, index, "{line}");
        }
        let (drifted, volumes) = (lines.len(), volumes.len());
        tracing::info!(set, drifted, volumes, "drift changed");
        self.logged().drift = lines;
    }

    fn unchecked(&self, remarks: Vec<Diagnostic>) {
        if remarks == self.logged().unchecked {
            return;
        }
        for remark in &remarks {
            log_warning(remark, &SourceMap::default());
        }
        self.logged().unchecked = remarks;
    }

    fn blocked(&self, reasons: Vec<Diagnostic>, keeps_going: bool, sources: &SourceMap) {
        for reason in &reasons {
            self.metrics.error(reason.code.as_str());
        }
        if reasons == self.logged().blocked {
            return;
        }
        for reason in &reasons {
            log_warning(reason, sources);
        }
        if reasons.is_empty() {
            tracing::info!("changes are no longer blocked");
        } else if keeps_going {
            tracing::warn!("these volumes are not changed until this is resolved");
        } else {
            tracing::warn!("nothing is changed until this is resolved");
        }
        self.logged().blocked = reasons;
    }

    fn uncorrected(&self, set: &str, volumes: &[Uncorrected]) {
        self.metrics.uncorrected(set, volumes.len());
        if volumes == self.logged().uncorrected {
            return;
        }
        for Uncorrected { volume, why } in volumes.iter().take(NAMED_VOLUMES) {
            let (namespace, id) = (volume.namespace.as_str(), volume.id.as_str());
            let why = why.as_str();
            tracing::warn!(
                set,
                volume.namespace = namespace,
                volume.id = id,
                why,
                "volume {volume} is not corrected: {why}"
            );
        }
        let count = volumes.len();
        match count.saturating_sub(NAMED_VOLUMES) {
            0 => {}
            more => tracing::warn!(set, "{more} more volumes are not corrected"),
        }
        match count {
            0 => tracing::info!(set, "all volumes are corrected"),
            count => tracing::info!(set, count, "volumes that are not corrected changed"),
        }
        self.logged().uncorrected = volumes.to_vec();
    }

    fn outcomes(
        &self,
        plan: &Plan,
        outcomes: &[Outcome],
        server_unreachable: Option<Diagnostic>,
    ) -> Diagnostics {
        let is_away = server_unreachable.is_some();
        let mut failures: Vec<_> = server_unreachable.into_iter().collect();
        for (planned, outcome) in plan.volumes.iter().zip(outcomes) {
            for one in &outcome.warnings {
                log_warning(one, &SourceMap::default());
            }
            let result = match &outcome.status {
                Status::Unchanged | Status::Blocked => continue,
                Status::Done(_) | Status::Removed => "done",
                Status::ServerUnreachable(_) | Status::NotStarted => "not-started",
                Status::Failed(_) if is_away && is_folded(outcome) => "unknown",
                Status::Stale(why) | Status::DependencyFailed(why) | Status::Failed(why) => {
                    failures.push(why.clone());
                    "failed"
                }
            };
            self.metrics.change(result);
            let (namespace, id) = (planned.key.namespace.as_str(), planned.key.id.as_str());
            let action = planned.action.as_str();
            tracing::info!(
                volume.namespace = namespace,
                volume.id = id,
                action,
                result,
                "change of a volume ended"
            );
        }
        failures.into_iter().collect()
    }
}

/// Shows no progress: outcomes are logged at the end.
struct NoProgress;

impl ProgressObserver for NoProgress {
    fn started(&self, _: usize) {}
    fn finished(&self, _: usize, _: &Outcome) {}

    fn plugin_unreachable(&self, timeout: Duration) {
        tracing::warn!("{}", unreachable_line(timeout));
    }
}

fn log_warning(one: &Diagnostic, sources: &SourceMap) {
    let (code, at) = (one.code.as_str(), location(one, sources));
    let (notes, help) = (one.notes.join("; "), one.help.join("; "));
    tracing::warn!(code, at, notes, help, "{}", one.message);
}

/// Returns where a diagnostic points, such as `volumes/db.hcl:3:5`. `None` if it points into no file.
fn location(one: &Diagnostic, sources: &SourceMap) -> Option<String> {
    let label = one.labels.first()?;
    let location = sources.location(label.span);
    let name = sources.name(label.span.source);
    Some(format!("{name}:{}:{}", location.line, location.column))
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Describes the drift of a volume in one line.
fn drift_line(volume: &VolumeDrift) -> String {
    match &volume.state {
        DriftState::Changed(fields) => {
            let fields: Vec<&str> = fields.iter().map(|one| one.field).collect();
            format!("volume {} has drifted: {}", volume.key, fields.join(", "))
        }
        DriftState::DataGone(_) => {
            format!("volume {}: its provider no longer has its data", volume.key)
        }
        DriftState::Gone => match volume.baseline {
            Baseline::Applied => format!("volume {} is gone", volume.key),
            Baseline::File => {
                format!("volume {} does not exist: never created, or removed", volume.key)
            }
        },
        DriftState::Unchanged | DriftState::NotApplied | DriftState::Unknown => String::new(),
    }
}
