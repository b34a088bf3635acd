//! Jobs, allocations and evaluations of the state in Nomad's JSON.

use std::collections::{BTreeMap, BTreeSet};

use crate::jobs::JobPlan;
use nomad_csi_claims::state::{
    AllocRecord, EarlierVersion, EvaluationRecord, EvaluationStatus, EvaluationTrigger,
    GroupFailure, JobRecord, JobVersion, Placement, State, client_status,
};
use nomad_csi_model::{
    AllocId, ClientStatus, DesiredStatus, EvaluationId, Job, JobKey, JobType, Node, NodeId, Task,
};
use nomad_csi_spec::job::LaunchTimes;
use nomad_csi_wire::{
    AllocationDocument, AllocationStub, DesiredUpdatesDocument, EvaluationDocument, EvaluationStub,
    GroupDiffDocument, GroupSummaryDocument, JobChildrenDocument, JobDiffDocument, JobDocument,
    JobPlanResponse, JobStub, JobSummaryDocument, PlacementMetricsDocument,
    PlanAnnotationsDocument, ResourcesDocument, job_to_wire, task_states_to_wire,
};

/// An allocation that was placed for a job.
pub(super) struct PlacedAlloc<'a> {
    pub(super) id: &'a AllocId,
    pub(super) record: &'a AllocRecord,
    pub(super) placement: &'a Placement,
}

/// Returns every allocation that was placed for a job, sorted by ID.
pub(super) fn placed_allocs(state: &State) -> impl Iterator<Item = PlacedAlloc<'_>> {
    state.allocs().filter_map(|(id, record)| {
        let placement = record.placement.as_deref()?;
        Some(PlacedAlloc { id, record, placement })
    })
}

/// Returns the allocations of a job, sorted by ID.
pub(super) fn allocs_of<'a>(
    state: &'a State,
    key: &JobKey,
) -> impl Iterator<Item = PlacedAlloc<'a>> {
    let of_job = state.allocs_of_job(key);
    of_job.map(|(id, record, placement)| PlacedAlloc { id, record, placement })
}

impl PlacedAlloc<'_> {
    pub(super) fn client_status(&self, state: &State) -> ClientStatus {
        client_status(state, &self.record.node, self.placement)
    }

    fn client_description(&self) -> String {
        let report = self.placement.report.as_ref();
        report.map_or_else(String::new, |report| report.description.clone())
    }

    fn desired(&self) -> (String, String) {
        match &self.placement.stop_reason {
            None => (DesiredStatus::Run.as_str().to_owned(), String::new()),
            Some(reason) => (DesiredStatus::Stop.as_str().to_owned(), reason.clone()),
        }
    }

    pub(super) fn stub(&self, state: &State) -> AllocationStub {
        let (desired_status, desired_description) = self.desired();
        let version = &self.placement.job;
        AllocationStub {
            client_description: self.client_description(),
            client_status: self.client_status(state).as_str().to_owned(),
            create_index: self.record.create_index,
            create_time: self.record.create_time,
            desired_description,
            desired_status,
            eval_id: self.placement.evaluation.to_string(),
            id: self.id.to_string(),
            job_id: version.job.id.to_string(),
            job_type: version.job.job_type.to_string(),
            job_version: version.version,
            modify_index: self.record.modify_index,
            modify_time: self.record.modify_time,
            name: self.placement.name(),
            namespace: version.job.namespace.to_string(),
            node_id: self.record.node.to_string(),
            node_name: node_name(state, &self.record.node),
            task_group: self.placement.group.clone(),
            task_states: self.tasks(),
            ..AllocationStub::default()
        }
    }

    pub(super) fn document(&self, state: &State) -> AllocationDocument {
        let stub = self.stub(state);
        let version = &self.placement.job;
        let group = version.job.groups.iter().find(|group| group.name == self.placement.group);
        let tasks = group.map(|group| &group.tasks[..]).unwrap_or_default();
        let by_task = tasks.iter().map(|task| (task.name.clone(), resources([task])));
        AllocationDocument {
            alloc_modify_index: self.record.modify_index,
            client_description: stub.client_description,
            client_status: stub.client_status,
            create_index: stub.create_index,
            create_time: stub.create_time,
            desired_description: stub.desired_description,
            desired_status: stub.desired_status,
            eval_id: stub.eval_id,
            id: stub.id,
            job: Some(version_document(version)),
            job_id: stub.job_id,
            modify_index: stub.modify_index,
            modify_time: stub.modify_time,
            name: stub.name,
            namespace: stub.namespace,
            node_id: stub.node_id,
            node_name: stub.node_name,
            resources: resources(tasks),
            task_group: stub.task_group,
            task_resources: by_task.collect(),
            task_states: stub.task_states,
            ..AllocationDocument::default()
        }
    }

    fn tasks(&self) -> Option<BTreeMap<String, nomad_csi_wire::TaskStateDocument>> {
        let report = self.placement.report.as_ref()?;
        task_states_to_wire(&report.tasks)
    }
}

/// The resources that tasks ask for together. Disk space is not managed.
fn resources<'a>(tasks: impl IntoIterator<Item = &'a Task>) -> ResourcesDocument {
    let (mut cpu, mut memory) = (0, 0);
    for task in tasks {
        cpu += task.resources.cpu;
        memory += task.resources.memory_mb;
    }
    ResourcesDocument {
        cpu: Some(cpu),
        memory_mb: Some(memory),
        disk_mb: Some(0),
        ..ResourcesDocument::default()
    }
}

fn node_name(state: &State, id: &NodeId) -> String {
    let node: Option<&Node> = state.node(id);
    node.map(|node| node.name.clone()).unwrap_or_default()
}

fn version_document(version: &JobVersion) -> JobDocument {
    JobDocument { version: version.version, ..job_to_wire(&version.job) }
}

/// `pending`, `running` or `dead`.
pub(super) fn status_of(state: &State, record: &JobRecord) -> &'static str {
    let job = &record.current.job;
    let mut evaluations = record.evaluations.iter();
    let is_open = evaluations.any(|one| {
        use EvaluationStatus::{Blocked, Pending};
        matches!(one.result.status, Pending | Blocked)
    });
    let lives = allocs_of(state, &record.key()).any(|alloc| !alloc.record.has_ended);
    if record.is_stopped {
        "dead"
    } else if lives || job.is_template() || job.job_type == JobType::System {
        "running"
    } else if is_open || !job.job_type.ends() {
        "pending"
    } else {
        "dead"
    }
}

/// The complete job. Environments and driver configurations, which may be secret, are left out.
pub(super) fn job_document(state: &State, record: &JobRecord) -> JobDocument {
    JobDocument {
        create_index: record.create_index,
        job_modify_index: record.job_modify_index,
        modify_index: record.modify_index,
        status: status_of(state, record).to_owned(),
        stop: record.is_stopped,
        submit_time: record.submit_time,
        ..version_document(&record.current)
    }
}

/// The versions of a job that are on record, newest first.
pub(super) fn version_documents(state: &State, record: &JobRecord) -> Vec<JobDocument> {
    let newest = job_document(state, record);
    let of_version = |one: EarlierVersion| JobDocument {
        create_index: newest.create_index,
        job_modify_index: one.job_modify_index,
        modify_index: one.job_modify_index,
        status: newest.status.clone(),
        stop: newest.stop,
        submit_time: one.submit_time,
        ..version_document(&one.version)
    };
    let earlier: Vec<_> = record.versions().skip(1).map(of_version).collect();
    [newest].into_iter().chain(earlier).collect()
}

pub(super) fn job_stub(state: &State, record: &JobRecord) -> JobStub {
    let job: &Job = &record.current.job;
    JobStub {
        create_index: record.create_index,
        datacenters: job.datacenters.clone(),
        id: job.id.to_string(),
        job_modify_index: record.job_modify_index,
        job_summary: summary(state, record),
        modify_index: record.modify_index,
        name: job.name.clone(),
        namespace: job.namespace.to_string(),
        node_pool: job.node_pool.clone(),
        parameterized_job: job.is_parameterized(),
        parent_id: job.origin.as_ref().map(|origin| origin.parent.to_string()).unwrap_or_default(),
        periodic: job.periodic.is_some(),
        priority: job.priority,
        status: status_of(state, record).to_owned(),
        stop: record.is_stopped,
        submit_time: record.submit_time,
        job_type: job.job_type.to_string(),
        version: record.current.version,
        ..JobStub::default()
    }
}

pub(super) fn summary(state: &State, record: &JobRecord) -> JobSummaryDocument {
    let job = &record.current.job;
    let groups = job.groups.iter();
    let mut counts: BTreeMap<String, GroupSummaryDocument> =
        groups.map(|group| (group.name.clone(), GroupSummaryDocument::default())).collect();
    let mut modify_index = record.modify_index;
    for alloc in allocs_of(state, &record.key()) {
        modify_index = modify_index.max(alloc.record.modify_index);
        let count = counts.entry(alloc.placement.group.clone()).or_default();
        match alloc.client_status(state) {
            ClientStatus::Pending => count.starting += 1,
            ClientStatus::Running => count.running += 1,
            ClientStatus::Complete => count.complete += 1,
            ClientStatus::Failed => count.failed += 1,
            ClientStatus::Lost => count.lost += 1,
            ClientStatus::Unknown | ClientStatus::Other(_) => count.unknown += 1,
        }
    }
    let blocked = record.evaluations.iter();
    let blocked = blocked.filter(|one| one.result.status == EvaluationStatus::Blocked);
    for (group, failure) in blocked.flat_map(|one| &one.result.failures) {
        counts.entry(group.clone()).or_default().queued += i64::from(failure.queued);
    }
    JobSummaryDocument {
        children: children(state, record),
        create_index: record.create_index,
        job_id: job.id.to_string(),
        modify_index,
        namespace: job.namespace.to_string(),
        summary: counts,
    }
}

/// How many of the jobs that were made from a job are in which state.
fn children(state: &State, record: &JobRecord) -> JobChildrenDocument {
    let mut counts = JobChildrenDocument::default();
    if !record.current.job.is_template() {
        return counts;
    }
    for child in state.children_of(&record.key()) {
        match status_of(state, child) {
            _ if child.is_purged => {}
            "pending" => counts.pending += 1,
            "running" => counts.running += 1,
            _ => counts.dead += 1,
        }
    }
    counts
}

const fn trigger_word(trigger: EvaluationTrigger) -> &'static str {
    match trigger {
        EvaluationTrigger::Registered => "job-register",
        EvaluationTrigger::Stopped => "job-deregister",
        EvaluationTrigger::AllocStopped => "alloc-stop",
        EvaluationTrigger::Queued => "queued-allocs",
        EvaluationTrigger::Launched => "periodic-job",
    }
}

pub(super) const fn status_word(status: EvaluationStatus) -> &'static str {
    match status {
        EvaluationStatus::Pending => "pending",
        EvaluationStatus::Complete => "complete",
        EvaluationStatus::Blocked => "blocked",
        EvaluationStatus::Cancelled => "canceled",
    }
}

pub(super) fn evaluation_document(
    state: &State,
    job: &JobRecord,
    record: &EvaluationRecord,
    with_related: bool,
) -> EvaluationDocument {
    let result = &record.result;
    let text = |id: &Option<EvaluationId>| id.as_ref().map(ToString::to_string).unwrap_or_default();
    let failures = &result.failures;
    let is_blocked = result.status == EvaluationStatus::Blocked;
    let queued = failures.iter();
    let queued = queued.map(|(group, failure)| (group.clone(), i64::from(failure.queued)));
    let description = if is_blocked { "created to place remaining allocations" } else { "" };
    EvaluationDocument {
        blocked_eval: text(&result.blocked),
        create_index: record.create_index,
        create_time: record.create_time,
        failed_placements: (!failures.is_empty()).then(|| metrics(state, failures)),
        id: result.id.to_string(),
        job_id: job.current.job.id.to_string(),
        job_modify_index: job.job_modify_index,
        modify_index: record.modify_index,
        modify_time: record.modify_time,
        namespace: job.namespace().to_string(),
        previous_eval: text(&result.previous),
        priority: job.current.job.priority,
        queued_allocations: Some(queued.collect()),
        related_evals: with_related.then(|| related(job, record)),
        status: status_word(result.status).to_owned(),
        status_description: description.to_owned(),
        triggered_by: trigger_word(result.trigger).to_owned(),
        job_type: job.current.job.job_type.to_string(),
        ..EvaluationDocument::default()
    }
}

fn related(job: &JobRecord, record: &EvaluationRecord) -> Vec<EvaluationStub> {
    let own = &record.result;
    let is_related = |other: &&EvaluationRecord| {
        let other = &other.result;
        own.blocked.as_ref() == Some(&other.id)
            || own.previous.as_ref() == Some(&other.id)
            || other.previous.as_ref() == Some(&own.id)
    };
    let all = job.evaluations.iter().filter(is_related);
    all.map(|one| EvaluationStub {
        id: one.result.id.to_string(),
        job_id: job.current.job.id.to_string(),
        namespace: job.namespace().to_string(),
        priority: job.current.job.priority,
        status: status_word(one.result.status).to_owned(),
        triggered_by: trigger_word(one.result.trigger).to_owned(),
        job_type: job.current.job.job_type.to_string(),
        ..EvaluationStub::default()
    })
    .collect()
}

/// Why groups were not placed: each reason, with the number of nodes that it excludes.
fn metrics(
    state: &State,
    failures: &BTreeMap<String, GroupFailure>,
) -> BTreeMap<String, PlacementMetricsDocument> {
    let of_group = |failure: &GroupFailure| {
        let mut reasons: BTreeMap<String, i64> = BTreeMap::new();
        for node_reasons in failure.nodes.values() {
            for reason in BTreeSet::from_iter(node_reasons) {
                *reasons.entry(reason.clone()).or_default() += 1;
            }
        }
        let nodes = i64::try_from(failure.nodes.len()).unwrap_or(i64::MAX);
        let mut available: BTreeMap<String, i64> = BTreeMap::new();
        for node in state.nodes().filter(|node| node.is_eligible) {
            *available.entry(node.datacenter.clone()).or_default() += 1;
        }
        PlacementMetricsDocument {
            coalesced_failures: i64::from(failure.queued.saturating_sub(1)),
            constraint_filtered: Some(reasons),
            node_pool: Job::DEFAULT_NODE_POOL.to_owned(),
            nodes_available: Some(available),
            nodes_evaluated: nodes,
            nodes_filtered: nodes,
            nodes_in_pool: i64::try_from(state.nodes().len()).unwrap_or(i64::MAX),
            ..PlacementMetricsDocument::default()
        }
    };
    let groups = failures.iter();
    groups.map(|(group, failure)| (group.clone(), of_group(failure))).collect()
}

/// Returns what a submission would do. The difference names the groups that change, not their fields.
pub(super) fn plan_document(state: &State, job: &Job, plan: &JobPlan) -> JobPlanResponse {
    let change = match (plan.exists, plan.is_changed) {
        (false, _) => "Added",
        (true, true) => "Edited",
        (true, false) => "None",
    };
    let mut groups = vec![];
    let mut updates_by_group = BTreeMap::new();
    for group in &job.groups {
        let updates = updates(state, plan, &group.name);
        updates_by_group.insert(group.name.clone(), updates);
        let shown = [
            ("create", updates.place),
            ("destroy", updates.stop),
            ("create/destroy update", updates.destructive_update),
            ("ignore", updates.ignore),
        ];
        let shown = shown.into_iter().filter(|(_, count)| *count > 0);
        groups.push(GroupDiffDocument {
            name: group.name.clone(),
            diff_type: if updates.changes_allocations() {
                change.to_owned()
            } else {
                "None".to_owned()
            },
            updates: Some(shown.map(|(word, count)| (word.to_owned(), count)).collect()),
            ..GroupDiffDocument::default()
        });
    }
    let failures = &plan.decision.failures;
    JobPlanResponse {
        annotations: Some(PlanAnnotationsDocument {
            desired_updates: updates_by_group,
            preempted_allocs: None,
        }),
        diff: Some(JobDiffDocument {
            id: job.id.to_string(),
            diff_type: change.to_owned(),
            task_groups: Some(groups),
            ..JobDiffDocument::default()
        }),
        failed_placements: (!failures.is_empty()).then(|| metrics(state, failures)),
        index: state.index(),
        job_modify_index: plan.job_modify_index,
        next_periodic_launch: next_launch_text(job, plan),
        warnings: plan.warnings.join("\n"),
        ..JobPlanResponse::default()
    }
}

fn next_launch_text(job: &Job, plan: &JobPlan) -> Option<String> {
    let times = LaunchTimes::of(job.periodic.as_ref()?).ok()?;
    plan.next_launch.map(|at| times.text(at))
}

/// A stop with a placement in the same group is an update.
fn updates(state: &State, plan: &JobPlan, group: &str) -> DesiredUpdatesDocument {
    let decision = &plan.decision;
    let is_here = |id: &AllocId| {
        let record = state.alloc(id);
        let placement = record.and_then(|record| record.placement.as_deref());
        placement.is_some_and(|placement| placement.group == group)
    };
    let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
    let stops = count(decision.stop.iter().filter(|(id, _)| is_here(id)).count());
    let places = count(decision.place.iter().filter(|one| one.group == group).count());
    let failed = decision.failures.get(group);
    let queued = failed.map_or(0, |failure| u64::from(failure.queued));
    let replaced = stops.min(places);
    DesiredUpdatesDocument {
        destructive_update: replaced,
        ignore: u64::from(decision.unchanged.get(group).copied().unwrap_or(0)),
        place: places - replaced + queued,
        stop: stops - replaced,
        ..DesiredUpdatesDocument::default()
    }
}
