//! The meaning of a registered job's evaluation and allocations for a command that waits.
//!
//! Only allocations of the registered version count. Those that failed before this evaluation count only if
//! nothing else of the job is left. Every decision is a pure function of what the server answered.

use std::collections::BTreeMap;

use nomad_csi_model::diagnostic::{Code, Diagnostic};
use nomad_csi_model::{JobKey, Namespace, one_line, shell_quoted, until};
use nomad_csi_spec::job::LaunchTimes;
use nomad_csi_wire::{
    AllocationStub, EvaluationDocument, JobDocument, PlacementMetricsDocument, TaskStateDocument,
    job_from_wire,
};

/// Where the allocations of a job are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum JobProgress {
    /// All of them run, or ended as they should.
    Done,
    /// The job wants some, and none is listed: another evaluation may still place one.
    NonePlaced,
    /// Some have not started: the reason of each.
    Waiting(Vec<String>),
    /// Some failed: the reason of each.
    Failed(Vec<String>),
}

/// Decides where the allocations of a job are.
pub(super) fn job_progress(
    job: &JobDocument,
    evaluation: &EvaluationDocument,
    allocations: &[AllocationStub],
) -> JobProgress {
    let (mut failed, mut waiting) = (vec![], vec![]);
    for stub in allocations {
        let is_current = stub.job_version == job.version;
        let is_new = stub.create_index >= evaluation.create_index;
        match stub.client_status.as_str() {
            "failed" | "lost" if is_current && is_new => failed.push(why_failed(stub)),
            "failed" | "lost" | "complete" => {}
            _ if stub.desired_status != "run" => {}
            "running" if is_current => {}
            _ if is_current => waiting.push(why_waiting(stub, job)),
            _ => waiting.push(format!("{}: still has the previous version", named(stub))),
        }
    }
    match (failed.is_empty(), waiting.is_empty()) {
        (false, _) => JobProgress::Failed(failed),
        (true, false) => JobProgress::Waiting(waiting),
        (true, true) => match last_failure(job, allocations) {
            Some(reason) => JobProgress::Failed(vec![reason]),
            None if wants_allocations(job) && is_without_allocation(job, allocations) => {
                JobProgress::NonePlaced
            }
            None => JobProgress::Done,
        },
    }
}

/// Returns whether a job has allocations whatever nodes there are. A system job without a fitting node has none.
fn wants_allocations(job: &JobDocument) -> bool {
    let has_count = job.task_groups.iter().any(|group| group.count.unwrap_or(1) > 0);
    job.job_type != "system" && job.job_type != "sysbatch" && !job.stop && has_count
}

fn is_without_allocation(job: &JobDocument, allocations: &[AllocationStub]) -> bool {
    let is_current = |stub: &AllocationStub| {
        stub.job_version == job.version
            && (stub.desired_status == "run" || stub.client_status == "complete")
    };
    !allocations.iter().any(is_current)
}

/// Returns the problem of a job of which no allocation came. Only the agent explains its placements.
pub(super) fn none_placed(job: &JobKey, is_agent: bool) -> Diagnostic {
    let id = shell_quoted(&job.id);
    let namespace = shell_quoted(&job.namespace);
    let how = match is_agent {
        true => {
            format!("run `nomad-csi explain placement {id} --namespace {namespace}` to see why")
        }
        false => {
            format!("run `nomad-csi job status {id} --namespace {namespace}` to check the job")
        }
    };
    let message = format!("no allocation of job `{}` was placed", one_line(job.id.as_str()));
    Diagnostic::error(Code::JobNotPlaced, message)
        .note("the server evaluated the job without a failure, and lists no allocation of this version")
        .help(format!("{how}; the server places allocations by itself"))
}

/// Returns why the newest allocation failed, if none runs and none is complete: a job that is submitted again
/// without a change does not get another one at once.
fn last_failure(job: &JobDocument, allocations: &[AllocationStub]) -> Option<String> {
    let current = || {
        let of_version = allocations.iter();
        of_version.filter(|stub| stub.job_version == job.version && stub.desired_status == "run")
    };
    let is_failed = |stub: &&AllocationStub| ["failed", "lost"].contains(&&*stub.client_status);
    let newest = current().filter(is_failed).max_by_key(|stub| stub.create_index)?;
    current().all(|stub| is_failed(&stub)).then(|| why_failed(newest))
}

/// Returns how many allocations of a job run and how many have ended: `1 running, 2 complete`.
pub(super) fn result_text(job: &JobDocument, allocations: &[AllocationStub]) -> String {
    let of_status = |status: &str| {
        let current = allocations.iter().filter(|stub| {
            stub.client_status == status
                && stub.job_version == job.version
                && stub.desired_status == "run"
        });
        current.count()
    };
    match (of_status("running"), of_status("complete")) {
        (0, 0) => "the server lists no allocation of it".to_owned(),
        (running, 0) => format!("{running} running"),
        (0, complete) => format!("{complete} complete"),
        (running, complete) => format!("{running} running, {complete} complete"),
    }
}

/// Returns an allocation as messages name it: `allocation 3761b601 (web.cache[0])`.
pub(super) fn named(stub: &AllocationStub) -> String {
    let short: String = stub.id.chars().take(8).collect();
    format!("allocation {short} ({})", stub.name)
}

fn why_failed(stub: &AllocationStub) -> String {
    let tasks = stub.task_states.iter().flatten();
    // The other tasks ended because of the failed ones.
    let failed = tasks.filter(|(_, task)| task.failed);
    let reasons: Vec<String> = failed
        .filter_map(|(name, task)| Some(format!("task {name}: {}", decisive_event(task)?)))
        .collect();
    let reason = match (reasons.is_empty(), stub.client_description.as_str()) {
        (false, _) => reasons.join("; "),
        (true, "") => "it gave no reason".to_owned(),
        (true, description) => description.to_owned(),
    };
    format!("{} {}: {reason}", named(stub), stub.client_status)
}

/// Returns the newest event that says why a task ended, not what happened because of it.
fn decisive_event(task: &TaskStateDocument) -> Option<String> {
    const CONSEQUENCES: [&str; 6] = [
        "Alloc Unhealthy",
        "Killing",
        "Killed",
        "Not Restarting",
        "Restarting",
        "Sibling Task Failed",
    ];
    let events = task.events.iter().rev();
    let mut decisive = events.filter(|event| !CONSEQUENCES.contains(&event.event_type.as_str()));
    let event = decisive.next()?;
    Some(format!("{}: {}", event.event_type, event.display_message))
}

fn why_waiting(stub: &AllocationStub, job: &JobDocument) -> String {
    let tasks = stub.task_states.iter().flatten();
    let newest = tasks
        .flat_map(|(name, task)| task.events.last().map(|event| (event.time, name, event)))
        .max_by_key(|(time, name, _)| (*time, *name));
    if let Some((_, task, event)) = newest {
        return format!("{}: task {task}: {}", named(stub), event.display_message);
    }
    let group = job.task_groups.iter().find(|group| group.name == stub.task_group);
    let volumes = group.into_iter().flat_map(|group| group.volumes.values());
    let sources: Vec<&str> = volumes.map(|volume| volume.source.as_str()).collect();
    match sources.as_slice() {
        [] => format!("{}: its node has not started it", named(stub)),
        [one] => format!("{}: waits for volume {one}", named(stub)),
        several => format!("{}: waits for volumes {}", named(stub), several.join(", ")),
    }
}

/// Returns what a pending allocation waits for, as the agent reports it; `None` if the newest event of its tasks is another one.
pub(super) fn waiting_reason(stub: &AllocationStub) -> Option<&str> {
    if stub.client_status != "pending" {
        return None;
    }
    let tasks = stub.task_states.iter().flatten();
    let newest = tasks.filter_map(|(_, task)| task.events.last()).max_by_key(|event| event.time)?;
    newest.display_message.strip_prefix("Waiting: ")
}

/// Returns the problem of placements that failed, with the reasons of each group.
pub(super) fn not_placed(
    job: &str,
    failed: &BTreeMap<String, PlacementMetricsDocument>,
) -> Diagnostic {
    let count: i64 = failed.values().map(|one| one.coalesced_failures + 1).sum();
    let allocations = match count {
        1 => "1 allocation".to_owned(),
        count => format!("{count} allocations"),
    };
    let message = format!("cannot place {allocations} of job `{job}`");
    let reasons: Vec<String> = failed
        .iter()
        .map(|(group, metrics)| format!("group `{group}`: {}", placement_reasons(metrics)))
        .collect();
    Diagnostic::error(Code::JobNotPlaced, message).note(reasons.join("\n")).help(
        "the server places them by itself when a reason is resolved; `nomad-csi job stop` gives up",
    )
}

/// Returns why nodes were refused: `1 node refused: missing CSI volume(s) db`.
pub fn placement_reasons(metrics: &PlacementMetricsDocument) -> String {
    let mut reasons = vec![];
    let datacenters = metrics.nodes_available.iter().flatten();
    for (datacenter, _) in datacenters.filter(|(_, count)| **count == 0) {
        reasons.push(format!("datacenter `{datacenter}` has no ready node"));
    }
    for (reason, count) in metrics.constraint_filtered.iter().flatten() {
        reasons.push(format!("{} refused: {reason}", nodes(*count)));
    }
    for (resource, count) in metrics.dimension_exhausted.iter().flatten() {
        reasons.push(format!("{} without enough {resource}", nodes(*count)));
    }
    if reasons.is_empty() {
        reasons.push("no node is eligible".to_owned());
    }
    reasons.join("; ")
}

fn nodes(count: i64) -> String {
    match count {
        1 => "1 node".to_owned(),
        count => format!("{count} nodes"),
    }
}

/// Returns the next launch of a job for people, with how long it is until then; `None` if it does not start by itself.
pub fn next_launch_text(document: &JobDocument, now: i64) -> Option<String> {
    let (job, _) = job_from_wire(document, &Namespace::default());
    let periodic = job.periodic.filter(|periodic| periodic.is_enabled)?;
    if document.stop || job.parameterized.is_some() && !document.dispatched {
        return None;
    }
    let times = LaunchTimes::of(&periodic).ok()?;
    let next = times.next_after(now)?;
    Some(format!("{} ({})", times.text(next), until(next, now)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use nomad_csi_model::JobId;
    use nomad_csi_wire::decode_value;

    fn job() -> JobDocument {
        decode_value(&json!({"ID": "web", "Version": 2, "TaskGroups": [
            {"Name": "g", "Volumes": {"v": {"Source": "db"}}}, {"Name": "plain"}]}))
        .expect("cannot decode")
    }

    fn stub(text: serde_json::Value) -> AllocationStub {
        let base = json!({"ID": "3761b601-1111", "Name": "web.g[0]", "TaskGroup": "g", "JobVersion": 2,
            "DesiredStatus": "run", "ClientStatus": "pending", "CreateIndex": 40});
        let mut all = base.as_object().expect("an object").clone();
        if let serde_json::Value::Object(fields) = text {
            all.extend(fields);
        }
        decode_value(&all.into()).expect("cannot decode")
    }

    fn progress(stubs: &[AllocationStub]) -> JobProgress {
        let evaluation = EvaluationDocument { create_index: 40, ..EvaluationDocument::default() };
        job_progress(&job(), &evaluation, stubs)
    }

    #[test]
    fn a_job_is_done_when_every_allocation_of_its_version_runs_or_has_ended() {
        let stubs = [
            stub(json!({"ClientStatus": "running"})),
            stub(json!({"ClientStatus": "complete"})),
            stub(json!({"ClientStatus": "failed", "CreateIndex": 39})),
            stub(json!({"ClientStatus": "running", "JobVersion": 1, "DesiredStatus": "stop"})),
        ];
        assert_eq!(progress(&stubs), JobProgress::Done);
        assert_eq!(result_text(&job(), &stubs), "1 running, 1 complete");
        let nothing = "the server lists no allocation of it";
        assert_eq!(result_text(&job(), &[]), nothing);
        let previous = [stub(json!({"ClientStatus": "running", "JobVersion": 1}))];
        assert!(matches!(progress(&previous), JobProgress::Waiting(_)));
    }

    /// A later evaluation may place one, such as after the delay of a rescheduling.
    #[test]
    fn a_job_without_an_allocation_is_not_done_if_it_wants_one() {
        let stopped = stub(json!({"DesiredStatus": "stop", "ClientStatus": "failed"}));
        assert_eq!(progress(&[]), JobProgress::NonePlaced);
        let before = stub(json!({"ClientStatus": "complete", "JobVersion": 1}));
        assert_eq!(progress(std::slice::from_ref(&before)), JobProgress::NonePlaced);
        assert!(!matches!(progress(&[stopped]), JobProgress::Done));
        let ended = stub(json!({"DesiredStatus": "stop", "ClientStatus": "complete"}));
        assert_eq!(progress(&[ended]), JobProgress::Done, "a batch job that has ended");
        for change in [
            json!({"Type": "system"}),
            json!({"Type": "sysbatch"}),
            json!({"Stop": true}),
            json!({"TaskGroups": [{"Name": "g", "Count": 0}]}),
            json!({"TaskGroups": []}),
        ] {
            let mut text = json!({"ID": "web", "Version": 2, "TaskGroups": [{"Name": "g"}]});
            let fields = change.as_object().expect("an object").clone();
            text.as_object_mut().expect("an object").extend(fields);
            let job: JobDocument = decode_value(&text).expect("cannot decode");
            let evaluation = EvaluationDocument::default();
            assert_eq!(job_progress(&job, &evaluation, &[]), JobProgress::Done, "{change}");
        }
    }

    /// Nothing was placed by the evaluation, and nothing runs.
    #[test]
    fn a_job_of_which_only_a_failed_allocation_is_left_has_failed() {
        let old = stub(
            json!({"ClientStatus": "failed", "ClientDescription": "Failed tasks", "CreateIndex": 39}),
        );
        let failed = JobProgress::Failed(vec![
            "allocation 3761b601 (web.g[0]) failed: Failed tasks".to_owned(),
        ]);
        assert_eq!(progress(std::slice::from_ref(&old)), failed);
        let previous = stub(json!({"ClientStatus": "complete", "JobVersion": 1}));
        assert_eq!(progress(&[old.clone(), previous]), failed);
        let running = stub(json!({"ClientStatus": "running", "CreateIndex": 38}));
        assert_eq!(progress(&[old, running]), JobProgress::Done);
    }

    #[test]
    fn a_pending_allocation_without_events_waits_for_its_volumes() {
        let waiting = |text: &str| JobProgress::Waiting(vec![text.to_owned()]);
        assert_eq!(
            progress(&[stub(json!({}))]),
            waiting("allocation 3761b601 (web.g[0]): waits for volume db")
        );
        assert_eq!(
            progress(&[stub(json!({"TaskGroup": "plain"}))]),
            waiting("allocation 3761b601 (web.g[0]): its node has not started it")
        );
        let events = json!({"TaskStates": {"t": {"Events": [
            {"Type": "Received", "Time": 1, "DisplayMessage": "Task received by client"},
            {"Type": "Task Setup", "Time": 2, "DisplayMessage": "Building Task Directory"}]}}});
        assert_eq!(
            progress(&[stub(events)]),
            waiting("allocation 3761b601 (web.g[0]): task t: Building Task Directory")
        );
    }

    #[test]
    fn the_newest_event_is_what_a_pending_allocation_waits_for() {
        let with_events = |status: &str, messages: &[&str]| {
            let events = messages.iter().enumerate().map(|(time, message)| {
                json!({"Type": "Task Setup", "Time": time, "DisplayMessage": message})
            });
            let events: Vec<_> = events.collect();
            stub(json!({"ClientStatus": status, "TaskStates": {"t": {"Events": events}}}))
        };
        let failing = "Waiting: volume `db`: NodeStageVolume fails: busy";
        let reason = Some("volume `db`: NodeStageVolume fails: busy");
        let pending = with_events("pending", &["Task received by client", failing]);
        assert_eq!(waiting_reason(&pending), reason);
        assert_eq!(waiting_reason(&with_events("running", &[failing])), None);
        assert_eq!(waiting_reason(&with_events("pending", &["Task received by client"])), None);
        let over = with_events("pending", &[failing, "Building Task Directory"]);
        assert_eq!(waiting_reason(&over), None);
    }

    #[test]
    fn a_failed_allocation_names_the_event_that_caused_the_failure() {
        let failed = stub(json!({"ClientStatus": "failed", "ClientDescription": "Failed tasks",
            "TaskStates": {"t": {"Failed": true, "Events": [
                {"Type": "Setup Failure", "Time": 1, "DisplayMessage": "mounting volumes: no"},
                {"Type": "Alloc Unhealthy", "Time": 2, "DisplayMessage": "Unhealthy"}]}}}));
        let expected =
            "allocation 3761b601 (web.g[0]) failed: task t: Setup Failure: mounting volumes: no";
        assert_eq!(progress(&[failed]), JobProgress::Failed(vec![expected.to_owned()]));
        let silent = stub(json!({"ClientStatus": "lost"}));
        let expected = "allocation 3761b601 (web.g[0]) lost: it gave no reason";
        assert_eq!(progress(&[silent]), JobProgress::Failed(vec![expected.to_owned()]));
    }

    #[test]
    fn a_job_without_an_allocation_names_the_command_that_says_why() {
        let job = JobKey::new(Namespace::new("prod"), JobId::new("web 1"));
        for (is_agent, command) in [
            (true, "run `nomad-csi explain placement 'web 1' --namespace prod` to see why"),
            (false, "run `nomad-csi job status 'web 1' --namespace prod` to check the job"),
        ] {
            let problem = none_placed(&job, is_agent);
            let expected = format!("{command}; the server places allocations by itself");
            assert_eq!(problem.help, [expected]);
        }
    }

    #[test]
    fn every_reason_of_a_failed_placement_is_named() {
        let metrics: PlacementMetricsDocument = decode_value(&json!({
            "NodesAvailable": {"dc1": 2, "dc2": 0}, "CoalescedFailures": 1,
            "ConstraintFiltered": {"missing CSI volume(s) db": 1},
            "DimensionExhausted": {"memory": 2},
        }))
        .expect("cannot decode");
        let problem = not_placed("web", &[("g".to_owned(), metrics)].into());
        assert_eq!(problem.message, "cannot place 2 allocations of job `web`");
        assert_eq!(
            problem.notes,
            [
                "group `g`: datacenter `dc2` has no ready node; 1 node refused: missing CSI volume(s) db; 2 nodes without enough memory"
            ]
        );
        let nothing = PlacementMetricsDocument::default();
        assert_eq!(placement_reasons(&nothing), "no node is eligible");
    }
}
