//! `job run`, `job dispatch`, `job periodic force`, `job revert`, `job stop`, `alloc stop`: changes something, then follows what the
//! server makes of it.
//!
//! A request is sent once. After it, the command only reads, so an interrupt leaves the job as it is.
//! `job run` ends when all allocations run or have ended, when one failed, or when one has no place.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::context::WorkflowContext;
use super::error::WorkflowError;
use super::job_progress::{
    JobProgress, job_progress, named, next_launch_text, none_placed, not_placed, result_text,
    waiting_reason,
};
use crate::ports::{JobDispatch, JobRegistration, ServerKind};
use crate::reconcile::seen_nodes::seen_nodes;
use crate::reconcile::unclaimed_users::read_volumes;
use nomad_csi_model::diagnostic::{Code, Diagnostic};
use nomad_csi_model::{AllocId, AllocWrites, JobId, JobKey, Namespace, one_line, shell_quoted};
use nomad_csi_plan::ClaimingAlloc;
use nomad_csi_wire::{AllocationStub, EvaluationDocument, JobDocument, allocation_from_wire};

/// How many allocations a problem names.
const MOST_SHOWN: usize = 5;

/// The pause between two reads.
const PAUSE: Duration = Duration::from_millis(500);

/// How long an allocation may take that no evaluation has placed yet.
const PLACEMENT_LIMIT: Duration = Duration::from_secs(10);

/// The wait for the result of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobWait {
    /// End after the request.
    Detached,
    /// Wait at most this long; the text is the limit as the user wrote it.
    AtMost(Duration, String),
}

/// How a followed job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobOutcome {
    /// As it should, or it was not followed.
    Done,
    /// Some allocations have no place. The reasons are reported.
    NotPlaced,
}

/// Registers a job, and waits until its allocations run.
///
/// # Errors
/// If the server refuses, an allocation fails, the time is over, or the user interrupts.
pub async fn run_job(
    context: &WorkflowContext<'_>,
    registration: &JobRegistration,
    wait: &JobWait,
) -> Result<JobOutcome, WorkflowError> {
    if context.is_interrupted() {
        return Err(WorkflowError::interrupted());
    }
    let registered = context.api.register_job(registration).await?;
    let id = &registration.job.id;
    report_warnings(context, id, &registered.warnings);
    report_evaluation(context, &format!("job {id}: registered"), &registered.eval_id);
    report_later_start(context, registration);
    let key = JobKey { namespace: Namespace::new(&registration.job.namespace), id: JobId::new(id) };
    follow_new_job(context, &key, &registered.eval_id, wait).await
}

/// Makes a job from a parameterized one, and waits until its allocations run.
///
/// # Errors
/// If the server refuses, an allocation fails, the time is over, or the user interrupts.
pub async fn dispatch_job(
    context: &WorkflowContext<'_>,
    job: &JobKey,
    request: &JobDispatch,
    wait: &JobWait,
) -> Result<JobOutcome, WorkflowError> {
    if context.is_interrupted() {
        return Err(WorkflowError::interrupted());
    }
    let dispatched = context.api.dispatch_job(job, request).await?;
    let id = &dispatched.dispatched_job_id;
    let done = match dispatched.eval_id.is_empty() && !request.idempotency_token.is_empty() {
        true => format!("job {}: already dispatched as {id}", job.id),
        false => format!("job {}: dispatched as {id}", job.id),
    };
    report_evaluation(context, &done, &dispatched.eval_id);
    let key = JobKey::new(job.namespace.clone(), JobId::new(id));
    follow_new_job(context, &key, &dispatched.eval_id, wait).await
}

/// Launches a periodic job before its time, and waits until its allocations run.
///
/// # Errors
/// If the server refuses, an allocation fails, the time is over, or the user interrupts.
pub async fn launch_job(
    context: &WorkflowContext<'_>,
    job: &JobKey,
    wait: &JobWait,
) -> Result<JobOutcome, WorkflowError> {
    if context.is_interrupted() {
        return Err(WorkflowError::interrupted());
    }
    let launched = context.api.launch_job(job).await?;
    let reading = context.api.read_evaluation(&job.namespace, &launched.eval_id);
    let evaluation = context.unless_interrupted(reading).await??;
    let id = evaluation.map(|evaluation| evaluation.job_id);
    let done = match &id {
        Some(id) => format!("job {}: launched as {id}", job.id),
        None => format!("job {}: launched", job.id),
    };
    report_evaluation(context, &done, &launched.eval_id);
    let Some(id) = id else {
        return Ok(JobOutcome::Done);
    };
    let key = JobKey::new(job.namespace.clone(), JobId::new(id));
    follow_new_job(context, &key, &launched.eval_id, wait).await
}

/// Registers an earlier version of a job again, and waits until its allocations run.
///
/// # Errors
/// If the server refuses, an allocation fails, the time is over, or the user interrupts.
pub async fn revert_job(
    context: &WorkflowContext<'_>,
    job: &JobKey,
    version: u64,
    wait: &JobWait,
) -> Result<JobOutcome, WorkflowError> {
    if context.is_interrupted() {
        return Err(WorkflowError::interrupted());
    }
    let reverted = context.api.revert_job(job, version).await?;
    report_warnings(context, job.id.as_str(), &reverted.warnings);
    let done = format!("job {}: version {version} registered again", job.id);
    report_evaluation(context, &done, &reverted.eval_id);
    follow_new_job(context, job, &reverted.eval_id, wait).await
}

/// Follows a job that the server has just registered, unless it runs nothing itself.
async fn follow_new_job(
    context: &WorkflowContext<'_>,
    key: &JobKey,
    evaluation: &str,
    wait: &JobWait,
) -> Result<JobOutcome, WorkflowError> {
    let (JobWait::AtMost(limit, limit_text), false) = (wait, evaluation.is_empty()) else {
        return Ok(JobOutcome::Done);
    };
    let following = Following {
        context,
        deadline: Instant::now() + *limit,
        limit_text,
        unmet: "the job is registered, and not all of it runs",
    };
    let work = following.follow_job(key, evaluation);
    context.unless_interrupted(work).await?
}

/// Says how a job starts that does not run now.
fn report_later_start(context: &WorkflowContext<'_>, registration: &JobRegistration) {
    let job = &registration.job;
    if job.parameterized_job.is_some() {
        let line = format!(
            "job {}: runs with `nomad-csi job dispatch {} --namespace {}`",
            one_line(&job.id),
            shell_quoted(&job.id),
            shell_quoted(&job.namespace)
        );
        context.reporter.status(&line);
    } else if job.periodic.is_some() {
        let line = match next_launch_text(job, context.clock.now()) {
            Some(next) => format!("job {}: next launch {next}", job.id),
            None => format!("job {}: it does not start by itself", job.id),
        };
        context.reporter.status(&line);
    }
}

/// Stops a job, and waits until the server has evaluated that.
///
/// # Errors
/// If the server refuses, the time is over, or the user interrupts.
pub async fn stop_job(
    context: &WorkflowContext<'_>,
    job: &JobKey,
    purge: bool,
    wait: &JobWait,
) -> Result<(), WorkflowError> {
    if purge {
        let checking = check_purge(context, job);
        context.unless_interrupted(checking).await??;
    }
    let stopped = context.api.stop_job(job, purge).await?;
    let done = match purge {
        true => format!("job {}: stopped and removed", job.id),
        false => format!("job {}: stopped", job.id),
    };
    report_evaluation(context, &done, &stopped.eval_id);
    await_evaluation(context, &job.namespace, &stopped.eval_id, wait).await
}

/// Refuses to remove a job from a server of Nomad before its allocations with volumes have ended: it forgets them at once, and nothing
/// shows who still writes to their volumes. The agent keeps a job until its allocations have ended.
async fn check_purge(context: &WorkflowContext<'_>, job: &JobKey) -> Result<(), WorkflowError> {
    let api = context.api;
    if api.server().await? == ServerKind::Agent {
        return Ok(());
    }
    let allocations = api.list_job_allocations(job).await?;
    let nodes = seen_nodes(api, &[]).await;
    let running = allocations.iter().map(allocation_from_wire);
    let running = running
        .filter(|alloc| nodes.writes(alloc) != AllocWrites::Ended && !alloc.client.has_ended());
    let mut writing: Vec<ClaimingAlloc> = vec![];
    for alloc in running {
        if read_volumes(api, &alloc.id).await.is_ok_and(|used| used.is_empty()) {
            continue;
        }
        writing.push(ClaimingAlloc { id: alloc.id.clone(), alloc: Some(alloc) });
        if writing.len() == MOST_SHOWN {
            break;
        }
    }
    if writing.is_empty() {
        return Ok(());
    }
    let message = format!(
        "cannot remove job `{}`: not all of its allocations with volumes have ended",
        job.id
    );
    let problem = Diagnostic::error(Code::VolumeInUse, message);
    let shown = writing.iter();
    let problem = shown.fold(problem, |problem, alloc| problem.note(alloc.to_string()));
    let problem = problem
        .note("the server would forget them at once, and nothing would show who still writes to their volumes")
        .help("stop the job without `--purge`, and remove it when its allocations are `complete` or `failed`");
    Err(WorkflowError::blocked([problem]))
}

/// Stops an allocation, and waits until the server has evaluated that.
///
/// # Errors
/// If the server refuses, the time is over, or the user interrupts.
pub async fn stop_allocation(
    context: &WorkflowContext<'_>,
    id: &AllocId,
    wait: &JobWait,
) -> Result<(), WorkflowError> {
    let reading = context.api.read_allocation(id);
    let Some(allocation) = context.unless_interrupted(reading).await?? else {
        let message = format!("allocation `{id}` does not exist");
        return Err(Diagnostic::error(Code::AllocNotFound, message)
            .help(Code::AllocNotFound.advice())
            .into());
    };
    let namespace = Namespace::new(&allocation.value.namespace);
    let stopped = context.api.stop_allocation(id).await?;
    let done = format!("allocation {id}: stopping");
    report_evaluation(context, &done, &stopped.eval_id);
    await_evaluation(context, &namespace, &stopped.eval_id, wait).await
}

/// Restarts the tasks of all allocations of a job that run, one allocation after the other. Returns how many.
///
/// # Errors
/// If nothing of the job runs, the server refuses, or the user interrupts. Earlier allocations stay restarted.
pub async fn restart_job(
    context: &WorkflowContext<'_>,
    job: &JobKey,
) -> Result<usize, WorkflowError> {
    let listing = context.api.list_job_allocations(job);
    let allocations = context.unless_interrupted(listing).await??;
    let running = allocations
        .into_iter()
        .filter(|alloc| alloc.client_status == "running" && alloc.desired_status == "run");
    let mut restarted = 0;
    for alloc in running {
        if context.is_interrupted() {
            return Err(WorkflowError::interrupted());
        }
        context.api.restart_allocation(&AllocId::new(&alloc.id), "").await?;
        context.reporter.status(&format!("{}: restarting", named(&alloc)));
        restarted += 1;
    }
    if restarted == 0 {
        let message = format!("cannot restart job {}: none of its allocations runs", job.quoted());
        return Err(Diagnostic::error(Code::JobNotRunning, message)
            .help(Code::JobNotRunning.advice())
            .into());
    }
    Ok(restarted)
}

async fn await_evaluation(
    context: &WorkflowContext<'_>,
    namespace: &Namespace,
    id: &str,
    wait: &JobWait,
) -> Result<(), WorkflowError> {
    let (JobWait::AtMost(limit, limit_text), false) = (wait, id.is_empty()) else {
        return Ok(());
    };
    let following = Following {
        context,
        deadline: Instant::now() + *limit,
        limit_text,
        unmet: "the server has not evaluated the stop",
    };
    let work = following.follow_evaluation(namespace, id);
    context.unless_interrupted(work).await??;
    Ok(())
}

fn report_evaluation(context: &WorkflowContext<'_>, done: &str, id: &str) {
    let line = match id {
        "" => done.to_owned(),
        id => format!("{done} (evaluation {})", short(id)),
    };
    context.reporter.status(&line);
}

fn short(id: &str) -> String {
    id.chars().take(8).collect()
}

/// Reports what a server warns about, without the headers of its lists.
pub fn report_warnings(context: &WorkflowContext<'_>, job: &str, warnings: &str) {
    let is_header = |line: &&str| line.ends_with("occurred:") || line.ends_with("warning(s):");
    let lines = warnings.lines();
    let lines = lines.map(|line| line.trim().trim_start_matches("* "));
    let lines: Vec<&str> = lines.filter(|line| !line.is_empty() && !is_header(line)).collect();
    if !lines.is_empty() {
        let text = format!("the server warns about job `{job}`");
        let warning = Diagnostic::warning(Code::ApplyServerWarning, text).note(lines.join("\n"));
        context.reporter.diagnostic(warning);
    }
}

/// A command that follows a job until a deadline.
struct Following<'a> {
    context: &'a WorkflowContext<'a>,
    deadline: Instant,
    limit_text: &'a str,
    /// The condition that is not met yet, for the error at the deadline.
    unmet: &'static str,
}

impl Following<'_> {
    async fn follow_job(&self, key: &JobKey, id: &str) -> Result<JobOutcome, WorkflowError> {
        let Some(evaluation) = self.follow_evaluation(&key.namespace, id).await? else {
            let message = format!("evaluation `{id}` does not exist any more");
            return Err(Diagnostic::error(Code::JobNotRunning, message)
                .note("another command may have removed the job")
                .help("run `nomad-csi job status` to check the job")
                .into());
        };
        let failed = evaluation.failed_placements.clone().unwrap_or_default();
        if !failed.is_empty() {
            let problem = not_placed(key.id.as_str(), &failed);
            self.context.reporter.diagnostic(problem);
            return Ok(JobOutcome::NotPlaced);
        }
        self.follow_allocations(key, &evaluation).await
    }

    /// Waits until the server is done with an evaluation and those that continue it. `None` means that
    /// the server has removed it, as it may after the job is removed.
    async fn follow_evaluation(
        &self,
        namespace: &Namespace,
        id: &str,
    ) -> Result<Option<EvaluationDocument>, WorkflowError> {
        let mut id = id.to_owned();
        loop {
            let read = self.context.api.read_evaluation(namespace, &id).await?;
            let Some(evaluation) = read else {
                return Ok(None);
            };
            match evaluation.status.as_str() {
                "complete" if evaluation.next_eval.is_empty() => return Ok(Some(evaluation)),
                "complete" => id.clone_from(&evaluation.next_eval),
                "failed" | "canceled" => return Err(ended(&evaluation).into()),
                // Other statuses are on their way.
                _ => {}
            }
            self.pause(&format!("evaluation {} is {}", short(&id), evaluation.status)).await?;
        }
    }

    async fn follow_allocations(
        &self,
        key: &JobKey,
        evaluation: &EvaluationDocument,
    ) -> Result<JobOutcome, WorkflowError> {
        let Some(job) = self.context.api.read_job(key).await? else {
            let message = format!("job `{}` was removed by another command", key.id);
            return Err(Diagnostic::error(Code::JobNotRunning, message).into());
        };
        let mut reported = BTreeMap::new();
        let read = async || {
            let allocations = self.context.api.list_job_allocations(key).await?;
            self.report_changes(&allocations, evaluation, &mut reported);
            Ok(allocations)
        };
        let pause = async |why: String| self.pause(&why).await;
        match settled(&job.value, evaluation, read, pause).await? {
            Settled::Done(allocations) => {
                let result = result_text(&job.value, &allocations);
                let line = format!("job {}: {result}", key.id);
                self.context.reporter.status(&line);
                Ok(JobOutcome::Done)
            }
            Settled::NonePlaced => {
                let server = self.context.api.server().await?;
                self.context.reporter.diagnostic(none_placed(key, server == ServerKind::Agent));
                Ok(JobOutcome::NotPlaced)
            }
            Settled::Failed(reasons) => {
                let message = match reasons.len() {
                    1 => format!("1 allocation of job `{}` failed", key.id),
                    count => format!("{count} allocations of job `{}` failed", key.id),
                };
                Err(Diagnostic::error(Code::JobNotRunning, message)
                    .note(reasons.join("\n"))
                    .help(Code::JobNotRunning.advice())
                    .into())
            }
        }
    }

    /// Reports each allocation of this evaluation whose status changed, or what it waits for.
    fn report_changes(
        &self,
        allocations: &[AllocationStub],
        evaluation: &EvaluationDocument,
        reported: &mut BTreeMap<String, String>,
    ) {
        for stub in allocations {
            let is_new = stub.create_index >= evaluation.create_index;
            let line = match waiting_reason(stub) {
                Some(reason) => format!("{}: waits: {}", named(stub), one_line(reason)),
                None => {
                    format!("{}: {} on node {}", named(stub), stub.client_status, stub.node_name)
                }
            };
            if is_new && reported.get(&stub.id) != Some(&line) {
                self.context.reporter.status(&line);
                reported.insert(stub.id.clone(), line);
            }
        }
    }

    /// Waits before the next read, unless the time is over.
    async fn pause(&self, why: &str) -> Result<(), WorkflowError> {
        if Instant::now() + PAUSE > self.deadline {
            let message = format!("timed out after {}: {}", self.limit_text, self.unmet);
            return Err(Diagnostic::error(Code::JobNotRunning, message)
                .note(why)
                .help("wait longer with `--timeout`; the server goes on without this command")
                .into());
        }
        sleep(PAUSE).await;
        Ok(())
    }
}

/// How the allocations of a job ended up.
#[derive(Debug, PartialEq)]
enum Settled {
    /// All of them run, or ended as they should.
    Done(Vec<AllocationStub>),
    /// None was listed in time.
    NonePlaced,
    /// Some failed: the reason of each.
    Failed(Vec<String>),
}

/// Reads the allocations of a job until none of them is on its way. `pause` is called between two reads with what is
/// waited for.
async fn settled(
    job: &JobDocument,
    evaluation: &EvaluationDocument,
    mut read: impl AsyncFnMut() -> Result<Vec<AllocationStub>, WorkflowError>,
    pause: impl AsyncFn(String) -> Result<(), WorkflowError>,
) -> Result<Settled, WorkflowError> {
    let placed_until = Instant::now() + PLACEMENT_LIMIT;
    loop {
        let allocations = read().await?;
        let waiting = match job_progress(job, evaluation, &allocations) {
            JobProgress::Done => return Ok(Settled::Done(allocations)),
            JobProgress::Failed(reasons) => return Ok(Settled::Failed(reasons)),
            JobProgress::NonePlaced if Instant::now() + PAUSE > placed_until => {
                return Ok(Settled::NonePlaced);
            }
            JobProgress::NonePlaced => "no allocation is placed".to_owned(),
            JobProgress::Waiting(reasons) => reasons.join("\n"),
        };
        pause(waiting).await?;
    }
}

fn ended(evaluation: &EvaluationDocument) -> Diagnostic {
    let message = format!(
        "evaluation `{}` of job `{}` is {}",
        short(&evaluation.id),
        evaluation.job_id,
        evaluation.status
    );
    let problem = Diagnostic::error(Code::JobNotRunning, message);
    match evaluation.status_description.as_str() {
        "" => problem.help(Code::JobNotRunning.advice()),
        why => problem.note(why).help(Code::JobNotRunning.advice()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use nomad_csi_wire::decode_value;

    /// Returns how a job ends up whose only allocation is pending for a second from `placed_after` on, and how long that takes.
    async fn settled_with(placed_after: Duration) -> (Settled, Duration) {
        let job = json!({"ID": "web", "Version": 2, "TaskGroups": [{"Name": "g"}]});
        let job: JobDocument = decode_value(&job).expect("a job");
        let start = Instant::now();
        let read = async || {
            let status = match start.elapsed().checked_sub(placed_after) {
                None => return Ok(vec![]),
                Some(passed) if passed < Duration::from_secs(1) => "pending",
                Some(_) => "running",
            };
            let stub = json!({"ID": "3761b601-1111", "Name": "web.g[0]", "TaskGroup": "g",
                "JobVersion": 2, "DesiredStatus": "run", "ClientStatus": status});
            Ok(vec![decode_value(&stub).expect("an allocation")])
        };
        let pause = async |_| {
            sleep(PAUSE).await;
            Ok(())
        };
        let settled = settled(&job, &EvaluationDocument::default(), read, pause).await;
        (settled.unwrap_or_else(|_| panic!("nothing fails here")), start.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_allocation_of_a_job_is_waited_for_for_ten_seconds() {
        let (never, after) = settled_with(Duration::from_secs(3600)).await;
        assert_eq!(never, Settled::NonePlaced);
        assert!((Duration::from_secs(9)..=Duration::from_secs(10)).contains(&after), "{after:?}");
        let (late, after) = settled_with(Duration::from_secs(9)).await;
        assert!(matches!(late, Settled::Done(_)), "{late:?}");
        assert_eq!(after.as_secs(), 10, "it is followed until it runs");
    }
}
