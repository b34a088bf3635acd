//! Carries out a plan: what may begin, begins; one outcome per volume.
//!
//! What needs something else waits for it (`schedule`); what can go on at once does, within
//! `parallelism` and a bound per plugin. A volume has one entry, and an entry makes one call at a
//! time. Before every change the volume is read again and compared with the plan's expected version; one that has
//! moved is left alone. A call is sent once. If its answer is lost, what happened is found out by
//! reading, never by sending it again: a server may still be at work on the first
//! (`nomad-http-api` 10.1, item 11).
//!
//! One that fails stops none of the others but those that need it. On interrupt, calls that run are
//! waited for and nothing new begins. After a crash nothing needs repair here: the next run plans
//! from what is there.

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;

use super::change::{Call, CallKind, change};
use super::execution::Execution;
use super::outcome::{Outcome, Status};
use super::remove::remove;
use super::replace::replace;
use super::schedule::{Schedule, Turn};
use crate::diagnostic::{Code, Diagnostic};
use crate::plan::{Action, Plan, PlannedVolume, Removal};

/// Carries out a plan; the outcomes are in its order.
pub async fn execute(execution: &Execution<'_>, plan: &Plan) -> Vec<Outcome> {
    let mut schedule = Schedule::new(plan);
    let mut outcomes = vec![Outcome::plain(Status::NotStarted); plan.volumes.len()];
    let mut running = FuturesUnordered::new();
    loop {
        while running.len() < execution.parallelism.max(1)
            && let Some(turn) = schedule.next()
        {
            running.push(one(execution, plan, turn));
        }
        let Some((position, outcome)) = running.next().await else {
            return outcomes;
        };
        schedule.ended(position, outcome.status.is_success());
        outcomes[position] = outcome;
    }
}

async fn one(execution: &Execution<'_>, plan: &Plan, turn: Turn) -> (usize, Outcome) {
    let Turn { position, missing } = turn;
    let planned = &plan.volumes[position];
    let outcome = match (&planned.action, missing) {
        (Action::Unchanged, _) => Outcome::plain(Status::Unchanged),
        (Action::Blocked(_) | Action::WaitingForClaims(_), _) => Outcome::plain(Status::Blocked),
        _ if execution.stop.is_cancelled() => Outcome::plain(Status::NotStarted),
        (_, Some(missing)) => Outcome::plain(Status::DependencyFailed(held(
            planned,
            &plan.volumes[missing],
        ))),
        (_, None) => {
            execution.progress.began(position);
            let outcome = act(execution, planned).await;
            execution.progress.ended(position, &outcome);
            outcome
        }
    };
    (position, outcome)
}

async fn act(execution: &Execution<'_>, planned: &PlannedVolume) -> Outcome {
    match &planned.action {
        Action::Create(request) => {
            change(execution, planned, Call::new(CallKind::Create, request)).await
        }
        Action::Register(request) => {
            change(execution, planned, Call::new(CallKind::Register, request)).await
        }
        Action::Update(update) => {
            change(
                execution,
                planned,
                Call::new(CallKind::Register, &update.request),
            )
            .await
        }
        Action::Expand(update) => {
            change(
                execution,
                planned,
                Call::new(CallKind::Expand, &update.request),
            )
            .await
        }
        Action::Replace(order) => replace(execution, planned, order).await,
        Action::Deregister => {
            remove(execution, planned, Removal::Deregister { force: false }).await
        }
        Action::DeleteData => remove(execution, planned, Removal::Delete).await,
        Action::Unchanged => Outcome::plain(Status::Unchanged),
        Action::Blocked(_) | Action::WaitingForClaims(_) => Outcome::plain(Status::Blocked),
    }
}

fn held(planned: &PlannedVolume, missing: &PlannedVolume) -> Diagnostic {
    let (key, other) = (&planned.key, &missing.key);
    let message =
        format!("volume {key} was not begun: volume {other}, which comes first, did not succeed");
    let problem = Diagnostic::error(Code::ApplyHeldBack, message);
    match planned.span() {
        Some(span) => problem.label(span, ""),
        None => problem,
    }
    .help(format!(
        "see what became of volume {other}; then run the command again"
    ))
}

#[cfg(test)]
mod tests;
