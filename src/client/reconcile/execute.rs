//! Carries out a plan. Returns one outcome per volume.
//!
//! A volume starts when the volumes that it depends on have ended ([`super::schedule`]). Right before a
//! change the volume is read again, and it is not changed if its version differs from the plan's. A call
//! is sent once. If its reply is lost, its effect is read from the server: the server may still be
//! working on the first call.
//!
//! A failure stops only the volumes that depend on it. After an interrupt, running calls end and nothing
//! new starts. If the server stops responding, running steps wait for it; if it does not come back,
//! nothing new starts. After a crash, the next run plans from the current state.

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;

use super::change::{Before, Call, CallKind, change};
use super::execution::Execution;
use super::outcome::{Outcome, Status};
use super::remove::remove;
use super::replace::{register_in_place, replace};
use super::schedule::{ReadyEntry, Schedule};
use nomad_csi_model::diagnostic::{Code, Diagnostic};
use nomad_csi_plan::{Action, Plan, PlannedVolume, Removal};

/// Carries out a plan. Returns the outcomes in its order.
pub(super) async fn execute(execution: &Execution<'_>, plan: &Plan) -> Vec<Outcome> {
    let mut schedule = Schedule::new(plan, |volume| execution.record.order(volume));
    let mut outcomes = vec![Outcome::plain(Status::NotStarted); plan.volumes.len()];
    let mut running = FuturesUnordered::new();
    let mut server_is_away = false;
    loop {
        while running.len() < execution.parallelism.max(1)
            && let Some(entry) = schedule.next()
        {
            let stops = server_is_away || execution.wait.stop.is_cancelled();
            running.push(run_entry(execution, plan, entry, stops));
        }
        let Some((position, outcome)) = running.next().await else {
            return outcomes;
        };
        schedule.finish(position, outcome.status.is_success());
        server_is_away |= outcome.met_server_away();
        outcomes[position] = outcome;
    }
}

/// Works on an entry that can start, unless nothing new starts.
async fn run_entry(
    execution: &Execution<'_>,
    plan: &Plan,
    entry: ReadyEntry,
    stops: bool,
) -> (usize, Outcome) {
    let ReadyEntry { position, failed_dependency } = entry;
    let planned = &plan.volumes[position];
    let outcome = match (&planned.action, failed_dependency) {
        (Action::Unchanged, _) => Outcome::plain(Status::Unchanged),
        (Action::Blocked(_) | Action::WaitingForClaims(_), _) => Outcome::plain(Status::Blocked),
        _ if stops => Outcome::plain(Status::NotStarted),
        (_, Some(failed)) => Outcome::plain(Status::DependencyFailed(dependency_failed(
            planned,
            &plan.volumes[failed],
        ))),
        (_, None) => {
            execution.wait.progress.started(position);
            let outcome = change_volume(execution, planned).await;
            execution.wait.progress.finished(position, &outcome);
            outcome
        }
    };
    (position, outcome)
}

async fn change_volume(execution: &Execution<'_>, planned: &PlannedVolume) -> Outcome {
    let call = match &planned.action {
        Action::Create(request) => Call::new(CallKind::Create, request),
        Action::Register(request) => Call::new(CallKind::Register, request),
        Action::RegisterAgain(again) => match again.replaces {
            None => Call::new(CallKind::Register, &again.request),
            Some(_) => return register_in_place(execution, planned, &again.request).await,
        },
        Action::Recreate(recreate) => Call::new(CallKind::Create, &recreate.request),
        Action::Update(update) => Call::new(CallKind::Register, &update.request),
        Action::Expand(update) => Call::new(CallKind::Expand, &update.request),
        Action::Replace(replacement) => return replace(execution, planned, replacement).await,
        Action::Deregister => {
            return remove(execution, planned, Removal::Deregister { force: false }).await;
        }
        Action::DeleteData => return remove(execution, planned, Removal::Delete).await,
        Action::Unchanged => return Outcome::plain(Status::Unchanged),
        Action::Blocked(_) | Action::WaitingForClaims(_) => return Outcome::plain(Status::Blocked),
    };
    change(execution, &planned.key, Before::Planned(planned.expected_version), call).await
}

fn dependency_failed(planned: &PlannedVolume, failed: &PlannedVolume) -> Diagnostic {
    let (key, other) = (&planned.key, &failed.key);
    let message = format!(
        "volume {key} was not started: volume `{other}`, which it depends on, failed",
        key = key.quoted()
    );
    let problem = Diagnostic::error(Code::ApplyHeldBack, message);
    match planned.span() {
        Some(span) => problem.label(span, ""),
        None => problem,
    }
    .help(format!("resolve the failure of volume `{other}`, then run the command again"))
}

#[cfg(test)]
mod tests;
