//! The jobs that are made from periodic and parameterized ones, and when. Pure.
//!
//! A launch is decided once: the job that it makes and the time up to which launches are decided are one commit. So a
//! restart neither repeats nor forgets one. Launches that were due while no agent ran are one launch, as in Nomad.

use super::forgetting::is_over;
use nomad_csi_claims::place::evaluate;
use nomad_csi_claims::state::{JobRecord, State};
use nomad_csi_model::{
    Dispatch, Job, JobId, JobKey, JobOrigin, Parameterized, Payload, PayloadRule, TaskEnvironment,
};
use nomad_csi_spec::job::{LaunchTimes, LaunchTimesProblem};

/// The number of nanoseconds of a second.
const SECOND: i64 = 1_000_000_000;

/// A client's request to run a parameterized job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DispatchRequest {
    /// Values for the environments of its tasks.
    pub meta: TaskEnvironment,
    /// The payload.
    pub payload: Payload,
    /// The part before the time in the ID of the new job.
    pub id_prefix: String,
    /// The priority; 0 stands for that of the parameterized job.
    pub priority: i64,
    /// The token that makes a repeated request the same request; empty without one.
    pub idempotency_token: String,
}

/// How far the clock may be behind the last launch: less passes soon.
const SET_BACK: i64 = 60 * SECOND;

/// A decision on the launches of a periodic job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NextLaunch {
    /// It has none any more.
    Never,
    /// The next one is at this time, in nanoseconds since the epoch.
    At(i64),
    /// One is due.
    Due(DueLaunch),
    /// Launches are on record as decided up to a time that the clock, which was set back, has not reached: they are
    /// decided again from now. A job that exists is not made again.
    SetBack,
}

/// A launch that is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DueLaunch {
    /// The time for which it is made.
    pub(super) time: i64,
    /// The time up to which launches are decided with it.
    pub(super) until: i64,
    /// True if an earlier one runs, beside which there must be none.
    pub(super) is_left_out: bool,
}

/// Returns what happens to the launches of a job; `None` if it does not start by itself. `has_running_child` is asked if
/// one is due, after its times were searched.
///
/// # Errors
/// If the recorded job has no launch times.
pub(super) fn next_launch(
    record: &JobRecord,
    now: i64,
    has_running_child: impl FnOnce() -> bool,
) -> Option<Result<NextLaunch, Vec<LaunchTimesProblem>>> {
    let periodic = record.current.job.periodic.as_ref()?;
    let since = record.launched_until.filter(|_| record.starts_by_itself())?;
    let times = match LaunchTimes::of(periodic) {
        Ok(times) => times,
        Err(problems) => return Some(Err(problems)),
    };
    if since > now.saturating_add(SET_BACK) {
        return Some(Ok(NextLaunch::SetBack));
    }
    let Some(first) = times.next_after(since) else {
        return Some(Ok(NextLaunch::Never));
    };
    if first > now {
        return Some(Ok(NextLaunch::At(first)));
    }
    let is_only_one = times.next_after(first).is_none_or(|second| second > now);
    let time = if is_only_one { first } else { now };
    Some(Ok(NextLaunch::Due(DueLaunch {
        time,
        until: time,
        is_left_out: periodic.prohibits_overlap && has_running_child(),
    })))
}

/// Returns whether something runs of a job that was made from this one, or will without a change.
pub(super) fn has_running_child(state: &State, parent: &JobKey, now: i64) -> bool {
    state.children_of(parent).any(|child| {
        let mut allocs = state.allocs_of_job(&child.key());
        allocs.any(|(_, alloc, _)| !alloc.has_ended)
            || !is_over(child, &evaluate(state, child, now))
    })
}

/// Returns the job of a launch at this time, in nanoseconds since the epoch.
pub(super) fn launched_job(parent: &Job, time: i64) -> Job {
    let id = JobId::new(format!("{}/periodic-{}", parent.id, time.div_euclid(SECOND)));
    Job {
        name: id.to_string(),
        id,
        periodic: None,
        origin: Some(JobOrigin {
            parent: parent.id.clone(),
            // What a periodic job was dispatched with reaches its launches.
            dispatch: parent.origin.as_ref().and_then(|origin| origin.dispatch.clone()),
        }),
        ..parent.clone()
    }
}

/// Returns the job of a request at this time, in nanoseconds since the epoch. `unique` is not repeated.
pub(super) fn dispatched_job(
    parent: &Job,
    request: &DispatchRequest,
    time: i64,
    unique: &str,
) -> Job {
    let seconds = time.div_euclid(SECOND);
    let unique: String = unique.chars().take(8).collect();
    let prefix = match request.id_prefix.as_str() {
        "" => String::new(),
        prefix => format!("{prefix}-"),
    };
    let id = JobId::new(format!("{}/dispatch-{prefix}{seconds}-{unique}", parent.id));
    let mut meta = request.meta.clone();
    meta.fill_in(&parent.meta);
    Job {
        name: id.to_string(),
        id,
        meta,
        priority: match request.priority {
            0 => parent.priority,
            priority => priority,
        },
        origin: Some(JobOrigin {
            parent: parent.id.clone(),
            dispatch: Some(Dispatch {
                idempotency_token: request.idempotency_token.clone(),
                payload: request.payload.clone(),
            }),
        }),
        ..parent.clone()
    }
}

/// Returns why a parameterized job does not take a request, in Nomad's words.
pub(super) fn dispatch_problem(rules: &Parameterized, request: &DispatchRequest) -> Option<String> {
    let bytes = request.payload.expose().len();
    match rules.payload {
        PayloadRule::Required if bytes == 0 => {
            return Some("Payload is not provided but required by parameterized job".to_owned());
        }
        PayloadRule::Forbidden if bytes > 0 => {
            return Some("Payload provided but forbidden by parameterized job".to_owned());
        }
        PayloadRule::Required | PayloadRule::Optional | PayloadRule::Forbidden => {}
    }
    let limit = Payload::MAX_BYTES;
    if bytes > limit {
        return Some(format!("Payload exceeds maximum size; {bytes} > {limit}"));
    }
    let is_known = |key: &str| {
        let mut known = rules.meta_required.iter().chain(&rules.meta_optional);
        known.any(|known| known == key)
    };
    let keys = request.meta.expose().map(|(key, _)| key);
    let unknown: Vec<&str> = keys.filter(|key| !is_known(key)).collect();
    if !unknown.is_empty() {
        let keys = unknown.join(" ");
        return Some(format!("Dispatch request included unpermitted metadata keys: [{keys}]"));
    }
    let required = rules.meta_required.iter().map(String::as_str);
    let missing: Vec<&str> = required.filter(|key| request.meta.get(key).is_none()).collect();
    if !missing.is_empty() {
        let keys = missing.join(" ");
        return Some(format!("Dispatch did not provide required meta keys: [{keys}]"));
    }
    let is_valid = request.priority == 0 || (1..=100).contains(&request.priority);
    (!is_valid).then(|| "dispatch job priority must be between [1, 100]".to_owned())
}

/// Returns why a job cannot become this one, in Nomad's words.
pub(super) fn update_problem(known: &Job, desired: &Job) -> Option<&'static str> {
    match (known.periodic.is_some(), desired.periodic.is_some()) {
        (true, false) => return Some("cannot update periodic job to being non-periodic"),
        (false, true) => return Some("cannot update non-periodic job to being periodic"),
        (true, true) | (false, false) => {}
    }
    match (known.is_parameterized(), desired.is_parameterized()) {
        (true, false) => return Some("cannot update parameterized job to being non-parameterized"),
        (false, true) => return Some("cannot update non-parameterized job to being parameterized"),
        (true, true) | (false, false) => {}
    }
    let is_dispatched = |job: &Job| {
        let origin = job.origin.as_ref();
        origin.is_some_and(|origin| origin.dispatch.is_some())
    };
    (is_dispatched(known) != is_dispatched(desired)).then_some("field 'Dispatched' is read-only")
}
