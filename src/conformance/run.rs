//! Carries out checks one after the other, and cleans up after each, whatever happened.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::case::Case;
use super::catalog::cases;
use super::check::{Check, Session, Stop};
use super::profile::{Profile, Unusable};
use super::report::{Leftover, Outcome, Report, Verdict};
use super::select::{Choice, Selection};
use super::setup::Setup;
use super::workload::Workload;
use crate::csi::RawClient;

/// Follows a run.
pub trait Watch: Send + Sync {
    /// The plugin has said who it is, and so many checks will be carried out.
    fn starts(&self, profile: &Profile, checks: usize);
    /// A check begins; counted from 0.
    fn began(&self, position: usize, case: &Case);
    /// A check has ended.
    fn ended(&self, position: usize, outcome: &Outcome);
}

/// Asks the plugin what it is, and carries out what was selected. Once `stop` is cancelled the
/// running check is given up and cleaned up, and no other begins.
///
/// # Errors
/// If nobody is there who could be checked.
pub async fn run(
    client: RawClient,
    setup: Setup,
    selection: &Selection,
    workload: Arc<dyn Workload>,
    watch: &dyn Watch,
    stop: &CancellationToken,
) -> Result<Report, Unusable> {
    let started = Instant::now();
    let profile = Profile::ask(&client).await?;
    let chosen: Vec<(Case, Choice)> = cases()
        .into_iter()
        .map(|case| (case, selection.choose(&case, &profile, &setup)))
        .filter(|(_, choice)| *choice != Choice::Leave)
        .collect();
    let count = chosen
        .iter()
        .filter(|(_, choice)| *choice == Choice::Run)
        .count();
    watch.starts(&profile, count);
    let log_start = match &setup.log {
        Some(log) => workload
            .tail(log, 0, 0)
            .await
            .map_or(0, |(_, length)| length),
        None => 0,
    };
    let mut session = Session {
        client,
        setup,
        profile,
        workload,
        named: 0,
        bad_refusals: vec![],
        log_start,
    };
    let mut so_far = SoFar::default();
    for (case, choice) in chosen {
        let outcome = match choice {
            Choice::Leave => continue,
            Choice::Skip(reason) => without(case, Verdict::Skipped(reason)),
            Choice::Run => match so_far.is_over(stop) {
                Some(verdict) => without(case, verdict),
                None => {
                    watch.began(so_far.carried_out, &case);
                    let outcome = carry_out(case, &mut session, stop, &mut so_far).await;
                    watch.ended(so_far.carried_out, &outcome);
                    so_far.carried_out += 1;
                    outcome
                }
            },
        };
        so_far.outcomes.push(outcome);
    }
    Ok(Report {
        profile: session.profile,
        outcomes: so_far.outcomes,
        leftovers: so_far.leftovers,
        interrupted: stop.is_cancelled(),
        elapsed: started.elapsed(),
    })
}

/// What has come of a run so far.
#[derive(Default)]
struct SoFar {
    outcomes: Vec<Outcome>,
    leftovers: Vec<Leftover>,
    carried_out: usize,
    /// The check since which the plugin does not listen any more.
    gone_since: Option<&'static str>,
}

impl SoFar {
    /// What becomes of a check that cannot begin any more.
    fn is_over(&self, stop: &CancellationToken) -> Option<Verdict> {
        if stop.is_cancelled() {
            let reason = "the run was interrupted before it";
            return Some(Verdict::Skipped(reason.to_owned()));
        }
        let since = self.gone_since?;
        let reason = format!("the plugin does not listen any more, since {since}");
        Some(Verdict::Untried(reason))
    }

    /// Keeps what could not be cleaned up; what several checks could not remove is told once.
    fn leave(&mut self, left: Vec<Leftover>) {
        for one in left {
            if !self.leftovers.iter().any(|known| known.what == one.what) {
                self.leftovers.push(one);
            }
        }
    }
}

async fn carry_out(
    case: Case,
    session: &mut Session,
    stop: &CancellationToken,
    so_far: &mut SoFar,
) -> Outcome {
    let started = Instant::now();
    let mut check = Check::new(session);
    let ended = tokio::select! {
        biased;
        () = stop.cancelled() => None,
        ended = (case.work)(&mut check) => Some(ended),
    };
    if !stop.is_cancelled() && !check.still_listens().await {
        so_far.gone_since = Some(case.id);
    }
    let verdict = match ended {
        None => Verdict::Untried("the run was interrupted".to_owned()),
        Some(_) if check.has_failed() => Verdict::Failed,
        Some(Ok(()) | Err(Stop::Found)) => Verdict::Passed,
        Some(Err(Stop::Untried(reason))) => Verdict::Untried(reason),
        Some(Err(Stop::NotDemanded(reason))) => Verdict::Skipped(reason),
    };
    let elapsed = started.elapsed();
    let left = check.clean_up().await;
    so_far.leave(left);
    Outcome {
        case,
        verdict,
        findings: check.findings,
        exchanges: check.exchanges,
        elapsed,
    }
}

fn without(case: Case, verdict: Verdict) -> Outcome {
    Outcome {
        case,
        verdict,
        findings: vec![],
        exchanges: vec![],
        elapsed: Duration::ZERO,
    }
}
