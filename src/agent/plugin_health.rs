//! Waits for the health of the plugin that the agent's own job runs, and says why it is not healthy.

use std::time::Duration;

use tokio::time::timeout;

use super::plugin::HOSTPATH;
use super::plugin_job::{RunningJob, job_key, live_allocs};
use nomad_csi_claims::state::{Evaluation, EvaluationStatus, State, Subject, Table, Topic};
use nomad_csi_model::{NodeId, PluginId, TaskState, shell_quoted};

/// Restarts of the task after which nothing is waited for.
const MAX_RESTARTS: u32 = 3;

/// Waits until the plugin is healthy, at most for `limit`. Returns early if its task was restarted three times, or does
/// not run at all.
///
/// # Errors
/// The reason why it is not healthy.
pub(super) async fn wait_for_job_health(job: &RunningJob, limit: Duration) -> Result<(), String> {
    let RunningJob { cell, node, .. } = job;
    let earlier = cell.read(|state| restarts(state, node));
    let topics = |_: &State| {
        vec![
            Topic::Object(Subject::Plugin(PluginId::new(HOSTPATH))),
            Topic::all(Table::Allocs),
            Topic::all(Table::Jobs),
        ]
    };
    let is_settled = |state: &State| {
        let has_failed = restarts(state, node) >= earlier + MAX_RESTARTS;
        is_healthy(state, node) || has_failed || is_without_alloc(state, node)
    };
    let waited = timeout(limit, cell.wait_until(topics, is_settled));
    let _is_settled = waited.await.is_ok();
    cell.read(|state| match is_healthy(state, node) {
        true => Ok(()),
        false => Err(reason(state, node)),
    })
}

fn is_healthy(state: &State, node: &NodeId) -> bool {
    let record = state.plugin_record(&PluginId::new(HOSTPATH));
    let newest = record.and_then(|record| record.newest_on(node));
    newest.is_some_and(|newest| newest.instance.health.healthy)
}

/// Returns the newest report of the task.
fn task<'a>(state: &'a State, node: &NodeId) -> Option<&'a TaskState> {
    let reports = live_allocs(state, node).filter_map(|(_, alloc)| alloc.report.as_ref());
    reports.flat_map(|report| report.tasks.values()).last()
}

fn restarts(state: &State, node: &NodeId) -> u32 {
    task(state, node).map_or(0, |task| task.restarts)
}

/// Returns whether the scheduler has decided about the job, and the node has no allocation of it.
fn is_without_alloc(state: &State, node: &NodeId) -> bool {
    let is_decided = newest_evaluation(state)
        .is_none_or(|evaluation| evaluation.status != EvaluationStatus::Pending);
    is_decided && live_allocs(state, node).next().is_none()
}

fn newest_evaluation(state: &State) -> Option<&Evaluation> {
    let job = state.job(&job_key())?;
    job.evaluations.last().map(|evaluation| &evaluation.result)
}

fn reason(state: &State, node: &NodeId) -> String {
    let job = job_key().id;
    let Some((alloc, _)) = live_allocs(state, node).last() else {
        let failures = newest_evaluation(state).into_iter();
        let failures = failures.flat_map(|evaluation| evaluation.failures.values());
        let reasons = failures.flat_map(|failure| failure.nodes.values().flatten());
        let reasons: Vec<_> = reasons.map(String::as_str).collect();
        if !reasons.is_empty() {
            return format!("job `{job}` is not placed: {}", reasons.join("; "));
        }
        let is_eligible = state.node(node).is_none_or(|node| node.is_eligible);
        let hint = match is_eligible {
            true => format!("`nomad-csi explain placement {}` says why", shell_quoted(&job)),
            false => {
                format!(
                    "the node is not eligible: run `nomad-csi node eligibility --enable {}`",
                    shell_quoted(node)
                )
            }
        };
        return format!("job `{job}` has no allocation on this node; {hint}");
    };
    let last = task(state, node).and_then(|task| task.events.last());
    let last = last.map_or("its task has not started", |event| event.message.as_str());
    let alloc = shell_quoted(alloc);
    format!("{last}; `nomad-csi alloc logs {alloc}` shows its output")
}
