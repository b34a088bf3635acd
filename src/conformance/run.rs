//! Carries out checks one after the other, and cleans up after each, whatever happened.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

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
    let mut session = Session {
        client,
        setup,
        profile,
        workload,
        named: 0,
        bad_refusals: vec![],
    };
    let mut outcomes = vec![];
    let mut leftovers = vec![];
    let mut position = 0;
    for (case, choice) in chosen {
        let outcome = match choice {
            Choice::Leave => continue,
            Choice::Skip(reason) => skipped(case, reason),
            Choice::Run if stop.is_cancelled() => {
                skipped(case, "the run was interrupted before it".to_owned())
            }
            Choice::Run => {
                watch.began(position, &case);
                let outcome = carry_out(case, &mut session, stop, &mut leftovers).await;
                watch.ended(position, &outcome);
                position += 1;
                outcome
            }
        };
        outcomes.push(outcome);
    }
    Ok(Report {
        profile: session.profile,
        outcomes,
        leftovers,
        interrupted: stop.is_cancelled(),
        elapsed: started.elapsed(),
    })
}

async fn carry_out(
    case: Case,
    session: &mut Session,
    stop: &CancellationToken,
    leftovers: &mut Vec<Leftover>,
) -> Outcome {
    let started = Instant::now();
    let mut check = Check::new(session);
    let ended = tokio::select! {
        biased;
        () = stop.cancelled() => None,
        ended = (case.work)(&mut check) => Some(ended),
    };
    let verdict = match ended {
        None => Verdict::Untried("the run was interrupted".to_owned()),
        Some(_) if check.has_failed() => Verdict::Failed,
        Some(Ok(()) | Err(Stop::Found)) => Verdict::Passed,
        Some(Err(Stop::Untried(reason))) => Verdict::Untried(reason),
        Some(Err(Stop::NotDemanded(reason))) => Verdict::Skipped(reason),
    };
    let elapsed = started.elapsed();
    let left = check.clean_up().await;
    // What one check could not remove is told once.
    let known: BTreeMap<&str, ()> = leftovers
        .iter()
        .map(|one| (one.what.as_str(), ()))
        .collect();
    let new: Vec<_> = left
        .into_iter()
        .filter(|one| !known.contains_key(one.what.as_str()))
        .collect();
    leftovers.extend(new);
    Outcome {
        case,
        verdict,
        findings: check.findings,
        exchanges: check.exchanges,
        elapsed,
    }
}

fn skipped(case: Case, reason: String) -> Outcome {
    Outcome {
        case,
        verdict: Verdict::Skipped(reason),
        findings: vec![],
        exchanges: vec![],
        elapsed: std::time::Duration::ZERO,
    }
}
