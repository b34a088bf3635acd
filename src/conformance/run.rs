//! Runs the selected checks one after the other, and cleans up after each of them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::case::Case;
use super::catalog::cases;
use super::check::{Check, CheckSession, StopReason};
use super::finding::Leftover;
use super::options::CheckOptions;
use super::probed_plugin::{ProbeError, ProbedPlugin};
use super::report::{CheckOutcome, Report, Verdict};
use super::select::{Choice, Selection};
use super::workload_files::WorkloadFiles;
use nomad_csi_csi::RawClient;

/// Observes the progress of a run.
pub trait CheckObserver: Send + Sync {
    /// The plugin is probed, and `checks` checks will run.
    fn run_started(&self, plugin: &ProbedPlugin, checks: usize);
    /// The check at `position`, counted from 0, has started.
    fn check_started(&self, position: usize, case: &Case);
    /// The check at `position` has finished.
    fn check_finished(&self, position: usize, outcome: &CheckOutcome);
}

/// Probes the plugin and runs the selected checks. When `stop` is cancelled, the running check is
/// aborted and cleaned up, and no other check starts.
///
/// # Errors
/// If the plugin cannot be probed.
pub async fn run_checks(
    client: RawClient,
    options: CheckOptions,
    selection: &Selection,
    files: Arc<dyn WorkloadFiles>,
    observer: &dyn CheckObserver,
    stop: &CancellationToken,
) -> Result<Report, ProbeError> {
    let started = Instant::now();
    let plugin = ProbedPlugin::probe(&client).await?;
    let chosen: Vec<(Case, Choice)> = cases()
        .into_iter()
        .map(|case| (case, selection.choose(&case, &plugin, &options)))
        .filter(|(_, choice)| *choice != Choice::Exclude)
        .collect();
    let count = chosen.iter().filter(|(_, choice)| *choice == Choice::Run).count();
    observer.run_started(&plugin, count);
    let log_start = match &options.log {
        Some(log) => files.tail(log, 0, 0).await.map_or(0, |(_, length)| length),
        None => 0,
    };
    let mut session = CheckSession {
        client,
        options,
        plugin,
        files,
        has_created_volume: false,
        refused_creation: None,
        names_used: 0,
        invalid_errors: vec![],
        findings: 0,
        log_start,
    };
    let mut state = RunState::default();
    for (case, choice) in chosen {
        let outcome = match choice {
            Choice::Exclude => continue,
            Choice::Skip(reason) => unstarted(case, Verdict::Skipped(reason)),
            Choice::Run => match state.verdict_if_over(stop) {
                Some(verdict) => unstarted(case, verdict),
                None => {
                    observer.check_started(state.finished, &case);
                    let outcome = run_check(case, &mut session, stop, &mut state).await;
                    observer.check_finished(state.finished, &outcome);
                    state.finished += 1;
                    outcome
                }
            },
        };
        state.outcomes.push(outcome);
    }
    let may_lack_parameters = session.options.parameters.is_empty() && !session.has_created_volume;
    Ok(Report {
        missing_parameters: session.refused_creation.filter(|_| may_lack_parameters),
        plugin: session.plugin,
        outcomes: state.outcomes,
        leftovers: state.leftovers,
        interrupted: stop.is_cancelled(),
        elapsed: started.elapsed(),
    })
}

/// The state of a run.
#[derive(Default)]
struct RunState {
    outcomes: Vec<CheckOutcome>,
    leftovers: Vec<Leftover>,
    finished: usize,
    /// The ID of the check that lost the plugin.
    plugin_lost_since: Option<&'static str>,
}

impl RunState {
    /// Returns the verdict of a check that can no longer start.
    fn verdict_if_over(&self, stop: &CancellationToken) -> Option<Verdict> {
        if stop.is_cancelled() {
            let reason = "the run was interrupted before this check";
            return Some(Verdict::Skipped(reason.to_owned()));
        }
        let since = self.plugin_lost_since?;
        let reason = format!("the plugin stopped listening during check `{since}`");
        Some(Verdict::NotRun(reason))
    }

    /// Adds leftovers, without those of an earlier check.
    fn add_leftovers(&mut self, left: Vec<Leftover>) {
        for one in left {
            if !self.leftovers.iter().any(|known| known.what == one.what) {
                self.leftovers.push(one);
            }
        }
    }
}

async fn run_check(
    case: Case,
    session: &mut CheckSession,
    stop: &CancellationToken,
    state: &mut RunState,
) -> CheckOutcome {
    let started = Instant::now();
    let mut check = Check::new(session);
    let ended = tokio::select! {
        biased;
        () = stop.cancelled() => None,
        ended = (case.work)(&mut check) => Some(ended),
    };
    if !stop.is_cancelled() && !check.plugin_still_listens().await {
        state.plugin_lost_since = Some(case.id);
    }
    let verdict = match ended {
        None => Verdict::NotRun("the run was interrupted".to_owned()),
        Some(_) if check.has_failed() => Verdict::Failed,
        Some(Ok(()) | Err(StopReason::FindingRecorded)) => Verdict::Passed,
        Some(Err(StopReason::NotRun(reason))) => Verdict::NotRun(reason),
        Some(Err(StopReason::NotApplicable(reason))) => Verdict::Skipped(reason),
    };
    let elapsed = started.elapsed();
    let left = check.clean_up().await;
    state.add_leftovers(left);
    CheckOutcome {
        case,
        verdict,
        findings: check.take_findings(),
        exchanges: check.exchanges,
        elapsed,
    }
}

fn unstarted(case: Case, verdict: Verdict) -> CheckOutcome {
    CheckOutcome { case, verdict, findings: vec![], exchanges: vec![], elapsed: Duration::ZERO }
}
