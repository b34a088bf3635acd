//! What rounds say: to the log what is news, to the metrics everything.
//!
//! A loop runs for months, and whoever reads its log wants to see what has changed. So drift, and what
//! keeps it from being put back, are told when they are another thing than in the round before; a
//! plugin that is not well for an hour makes one line, not a hundred and twenty.

use std::time::Duration;

use crate::cli::ledger::LockNews;
use crate::diagnostic::{Diagnostic, Diagnostics, Severity, SourceMap};
use crate::model::NamespacedId;
use crate::plan::{Basis, DriftState, Plan, VolumeDrift};
use crate::reconcile::{Cause, Ending, Outcome};
use crate::telemetry::ReconcileMetrics;

/// The log and the metrics of a loop.
pub(super) struct Log<'a> {
    metrics: &'a ReconcileMetrics,
    /// What was told last.
    drift: Vec<String>,
    stuck: Vec<Diagnostic>,
}

impl<'a> Log<'a> {
    /// Nothing was told yet.
    pub(super) fn new(metrics: &'a ReconcileMetrics) -> Self {
        Self {
            metrics,
            drift: vec![],
            stuck: vec![],
        }
    }

    /// A round found out everything, at that time: nanoseconds since the epoch.
    pub(super) fn done(&self, cause: Cause, set: &str, took: Duration, now: i64) {
        self.metrics.round("done", took);
        let seconds = u32::try_from(now / 1_000_000_000).map_or(0.0, f64::from);
        self.metrics.success(set, seconds);
        let (cause, milliseconds) = (cause.as_str(), milliseconds(took));
        tracing::debug!(cause, set, milliseconds, "round done");
    }

    /// A round did not.
    pub(super) fn failed(
        &self,
        cause: Cause,
        took: Duration,
        why: &Diagnostics,
        sources: &SourceMap,
    ) {
        self.metrics.round("failed", took);
        let errors = why.iter().filter(|one| one.severity == Severity::Error);
        for one in errors {
            self.metrics.error(one.code.as_str());
            error(one, sources);
        }
        let (cause, milliseconds) = (cause.as_str(), milliseconds(took));
        tracing::error!(cause, milliseconds, "round failed; it is tried again");
    }

    /// How every volume is beside what was left.
    pub(super) fn drift(&mut self, set: &str, volumes: &[VolumeDrift]) {
        for state in ["gone", "changed", "not-known", "not-applied-yet", "same"] {
            let of_state = volumes.iter().filter(|one| one.state.word() == state);
            self.metrics.drift(set, state, of_state.count());
        }
        let drifted = volumes.iter().filter(|one| one.is_drift());
        let (drifted, lines): (Vec<_>, Vec<_>) = drifted.map(|one| (one, line(one))).unzip();
        if lines == self.drift {
            return;
        }
        for (line, volume) in lines.iter().zip(&drifted) {
            let NamespacedId { namespace, id } = &volume.key;
            let (namespace, id) = (namespace.as_str(), id.as_str());
            let index = volume.modify_index;
            tracing::warn!(
                set,
                volume.namespace = namespace,
                volume.id = id,
                index,
                "{line}"
            );
        }
        let (drifted, volumes) = (lines.len(), volumes.len());
        tracing::info!(set, drifted, volumes, "drift is another than before");
        self.drift = lines;
    }

    /// What a person has to settle before anything is changed; empty if nothing.
    pub(super) fn stuck(&mut self, reasons: Vec<Diagnostic>, sources: &SourceMap) {
        for reason in &reasons {
            self.metrics.error(reason.code.as_str());
        }
        if reasons == self.stuck {
            return;
        }
        for reason in &reasons {
            warning(reason, sources);
        }
        if reasons.is_empty() {
            tracing::info!("what kept changes back is settled");
        } else {
            tracing::warn!("nothing is changed until that is settled");
        }
        self.stuck = reasons;
    }

    /// How every volume of a plan ended that was to be changed. What failed is handed back.
    pub(super) fn outcomes(&self, plan: &Plan, outcomes: &[Outcome]) -> Diagnostics {
        let mut failures = vec![];
        for (planned, outcome) in plan.volumes.iter().zip(outcomes) {
            for one in &outcome.warnings {
                warning(one, &SourceMap::default());
            }
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
            let (namespace, id) = (planned.key.namespace.as_str(), planned.key.id.as_str());
            let action = planned.action.word();
            tracing::info!(
                volume.namespace = namespace,
                volume.id = id,
                action,
                result,
                "the change of a volume has ended"
            );
        }
        failures.into_iter().collect()
    }
}

/// What becomes of the set's lock.
pub(super) fn lock(news: LockNews) {
    match news {
        LockNews::Waiting(line) => tracing::info!("{line}"),
        LockNews::Ended(why) => warning(&why, &SourceMap::default()),
    }
}

/// Something that keeps nothing back.
pub(super) fn warning(one: &Diagnostic, sources: &SourceMap) {
    let (code, at) = (one.code.as_str(), place(one, sources));
    let (notes, help) = (one.notes.join("; "), one.help.join("; "));
    tracing::warn!(code, at, notes, help, "{}", one.message);
}

fn error(one: &Diagnostic, sources: &SourceMap) {
    let (code, at) = (one.code.as_str(), place(one, sources));
    let (notes, help) = (one.notes.join("; "), one.help.join("; "));
    tracing::error!(code, at, notes, help, "{}", one.message);
}

/// Where it is at fault, `volumes/db.hcl:3:5`; `None` if it is about no file.
fn place(one: &Diagnostic, sources: &SourceMap) -> Option<String> {
    let label = one.labels.first()?;
    let location = sources.location(label.span);
    let name = sources.name(label.span.source);
    Some(format!("{name}:{}:{}", location.line, location.column))
}

fn milliseconds(took: Duration) -> u64 {
    u64::try_from(took.as_millis()).unwrap_or(u64::MAX)
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
