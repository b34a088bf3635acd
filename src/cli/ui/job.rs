//! Jobs in the layout of Nomad's CLI, with the volumes that each group uses.

use super::allocs::{TimeReference, allocations};
use super::table::{heading, key_values, table};
use super::time::local_time;
use nomad_csi_client::reconcile::workflow::{next_launch_text, placement_reasons};
use nomad_csi_model::Alloc;
use nomad_csi_wire::{
    AllocationStub, EvaluationDocument, JobDocument, JobStub, JobSummaryDocument,
    allocation_from_wire,
};

/// A job with what belongs to it.
pub(crate) struct JobOverview {
    /// The job.
    pub job: JobDocument,
    /// How many allocations are in which state.
    pub summary: JobSummaryDocument,
    /// The jobs that were made from it, by ID.
    pub children: Vec<JobStub>,
    /// The allocations.
    pub allocations: Vec<AllocationStub>,
    /// The evaluations, newest first.
    pub evaluations: Vec<EvaluationDocument>,
}

/// Returns a table of jobs.
pub(crate) fn job_list(jobs: &[JobStub], now: &TimeReference, wide: bool) -> String {
    let headings = ["ID", "Type", "Priority", "Status", "Submit Date"];
    let rows = jobs.iter().map(|job| {
        [
            job.id.clone(),
            kind(&job.job_type, job.periodic, job.parameterized_job),
            job.priority.to_string(),
            status(&job.status, job.stop),
            local_time(job.submit_time, &now.zone),
        ]
    });
    if !wide {
        return table(headings, rows);
    }
    let rows = rows.zip(jobs).map(|([id, kind, priority, status, at], job)| {
        let namespace = job.namespace.clone();
        let pool = job.node_pool.clone();
        [id, namespace, kind, priority, pool, status, at]
    });
    let headings = ["ID", "Namespace", "Type", "Priority", "Node Pool", "Status", "Submit Date"];
    table(headings, rows)
}

/// Returns a table of the versions of a job.
pub(crate) fn job_versions(versions: &[JobDocument], now: &TimeReference) -> String {
    let rows = versions.iter().map(|version| {
        let groups = version.task_groups.iter();
        let groups = groups.map(|group| {
            let count = group.count.unwrap_or(1);
            format!("{} ({count})", group.name)
        });
        [
            version.version.to_string(),
            local_time(version.submit_time, &now.zone),
            version.priority.unwrap_or_default().to_string(),
            groups.collect::<Vec<_>>().join(", "),
        ]
    });
    table(["Version", "Submit Date", "Priority", "Task Groups"], rows)
}

/// Returns the details of one job.
pub(crate) fn job_detail(overview: &JobOverview, now: &TimeReference, wide: bool) -> String {
    let job = &overview.job;
    let mut sections = vec![key_values([
        ("ID", job.id.clone()),
        ("Name", job.name.clone()),
        ("Submit Date", local_time(job.submit_time, &now.zone)),
        ("Type", kind(&job.job_type, job.periodic.is_some(), is_parameterized(job))),
        ("Priority", job.priority.unwrap_or_default().to_string()),
        ("Datacenters", job.datacenters.join(",")),
        ("Namespace", job.namespace.clone()),
        ("Node Pool", job.node_pool.clone()),
        ("Status", status(&job.status, job.stop)),
        ("Version", job.version.to_string()),
    ])];
    let is_template = job.periodic.is_some() || is_parameterized(job);
    sections.extend(is_template.then(|| launching(overview, now)));
    sections.extend((!is_template).then(|| summary(&overview.summary)));
    sections.extend(volumes(job));
    sections.extend(placement_failure(&overview.evaluations));
    let allocs: Vec<Alloc> = overview.allocations.iter().map(allocation_from_wire).collect();
    sections.push(allocations(&allocs, now, wide));
    sections.join("\n")
}

/// A job that others are made from is another kind of its type, in Nomad's words.
fn kind(job_type: &str, is_periodic: bool, is_parameterized: bool) -> String {
    let mut kind = job_type.to_owned();
    if is_periodic {
        kind += "/periodic";
    }
    if is_parameterized {
        kind += "/parameterized";
    }
    kind
}

fn is_parameterized(job: &JobDocument) -> bool {
    job.parameterized_job.is_some() && !job.dispatched
}

/// How a job starts that runs nothing itself, and the jobs that were made from it.
fn launching(overview: &JobOverview, now: &TimeReference) -> String {
    let job = &overview.job;
    let mut lines = vec![];
    if let Some(periodic) = &job.periodic {
        let one = (!periodic.spec.is_empty()).then_some(&periodic.spec);
        let expressions: Vec<&str> =
            one.into_iter().chain(&periodic.specs).map(String::as_str).collect();
        let zone = match periodic.time_zone.as_str() {
            "" => "UTC",
            zone => zone,
        };
        lines.push(("Launches", expressions.join("; ")));
        lines.push(("Time Zone", zone.to_owned()));
        let next = next_launch_text(job, now.now);
        let none = || "none: it does not start by itself".to_owned();
        lines.push(("Next Launch", next.unwrap_or_else(none)));
        lines.push((
            "Overlap",
            if periodic.prohibit_overlap { "prohibited" } else { "allowed" }.to_owned(),
        ));
    }
    if let Some(parameterized) = job.parameterized_job.as_ref().filter(|_| is_parameterized(job)) {
        lines.push(("Payload", parameterized.payload.clone()));
        lines.push(("Required Meta", parameterized.meta_required.join(", ")));
        lines.push(("Optional Meta", parameterized.meta_optional.join(", ")));
    }
    let rows = overview.children.iter().map(|child| {
        [
            child.id.clone(),
            status(&child.status, child.stop),
            local_time(child.submit_time, &now.zone),
        ]
    });
    let children = match overview.children.is_empty() {
        true => "No job was made from it\n".to_owned(),
        false => table(["ID", "Status", "Submit Date"], rows),
    };
    heading("Launching") + &key_values(lines) + "\n" + &heading("Jobs Made From It") + &children
}

fn status(status: &str, is_stopped: bool) -> String {
    match is_stopped {
        true => format!("{status} (stopped)"),
        false => status.to_owned(),
    }
}

fn summary(summary: &JobSummaryDocument) -> String {
    let headings =
        ["Task Group", "Queued", "Starting", "Running", "Failed", "Complete", "Lost", "Unknown"];
    let rows = summary.summary.iter().map(|(group, counts)| {
        [
            group.clone(),
            counts.queued.to_string(),
            counts.starting.to_string(),
            counts.running.to_string(),
            counts.failed.to_string(),
            counts.complete.to_string(),
            counts.lost.to_string(),
            counts.unknown.to_string(),
        ]
    });
    heading("Summary") + &table(headings, rows)
}

fn volumes(job: &JobDocument) -> Option<String> {
    let groups = job.task_groups.iter();
    let rows: Vec<_> = groups
        .flat_map(|group| {
            group.volumes.iter().map(|(alias, volume)| {
                [
                    group.name.clone(),
                    alias.clone(),
                    volume.volume_type.clone(),
                    match volume.per_alloc {
                        true => format!("{}[N]", volume.source),
                        false => volume.source.clone(),
                    },
                    volume.read_only.to_string(),
                ]
            })
        })
        .collect();
    let headings = ["Task Group", "Name", "Type", "Source", "Read Only"];
    (!rows.is_empty()).then(|| heading("Volumes") + &table(headings, rows))
}

/// Returns why the rest of a job is not placed, if an evaluation waits for that.
fn placement_failure(evaluations: &[EvaluationDocument]) -> Option<String> {
    let is_blocked = evaluations.iter().any(|one| one.status == "blocked");
    let failed = evaluations
        .iter()
        .find_map(|one| one.failed_placements.as_ref().filter(|all| !all.is_empty()))?;
    let lines = failed.iter().map(|(group, metrics)| {
        let reasons = placement_reasons(metrics);
        format!("{group}: {reasons}\n")
    });
    let text = heading("Placement Failure") + &lines.collect::<String>();
    is_blocked.then_some(text)
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;
    use serde_json::json;

    use super::*;
    use nomad_csi_wire::decode_value;

    #[test]
    fn a_job_shows_its_volumes_and_why_it_is_not_placed() {
        let overview = JobOverview {
            job: decode_value(
                &json!({"ID": "web", "Name": "web", "Type": "service", "Status": "pending",
                "TaskGroups": [{"Name": "g", "Volumes": {"v": {"Type": "csi", "Source": "db",
                    "PerAlloc": true}}}]}),
            )
            .expect("cannot decode"),
            summary: decode_value(&json!({"Summary": {"g": {"Queued": 1}}}))
                .expect("cannot decode"),
            children: vec![],
            allocations: vec![],
            evaluations: vec![
                decode_value(&json!({"Status": "blocked"})).expect("cannot decode"),
                decode_value(&json!({"Status": "complete", "FailedTGAllocs": {"g": {
                    "ConstraintFiltered": {"missing CSI volume(s) db[0]": 2}}}}))
                .expect("cannot decode"),
            ],
        };
        let now = TimeReference { now: 0, zone: TimeZone::UTC };
        let text = job_detail(&overview, &now, false);
        let text = anstream::adapter::strip_str(&text).to_string();
        for line in [
            "g           1       0         0        0       0         0     0",
            "g           v     csi   db[N]   false",
            "g: 2 nodes refused: missing CSI volume(s) db[0]",
            "No allocations placed",
        ] {
            assert!(text.lines().any(|shown| shown == line), "{line}\n{text}");
        }
    }
}
