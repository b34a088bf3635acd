//! Allocations in the layout of Nomad's CLI, with their volumes.

use super::allocs::{TimeReference, short_id};
use super::table::{heading, key_values, table};
use super::time::{ago, local_time};
use nomad_csi_wire::{
    AllocFileDocument, AllocationDocument, AllocationStub, TaskGroupDocument, TaskStateDocument,
    nanoseconds_from_wire,
};

/// Returns a table of the files of an allocation.
pub(crate) fn file_list(files: &[AllocFileDocument], now: &TimeReference) -> String {
    let rows = files.iter().map(|file| {
        let modified = nanoseconds_from_wire(file.mod_time.as_deref());
        let slash = if file.is_dir { "/" } else { "" };
        [
            file.file_mode.clone(),
            file.size.to_string(),
            local_time(modified, &now.zone),
            format!("{}{slash}", file.name),
        ]
    });
    table(["Mode", "Size", "Modified", "Name"], rows)
}

/// Returns a table of allocations.
pub(crate) fn allocation_list(stubs: &[AllocationStub], now: &TimeReference, wide: bool) -> String {
    let headings = [
        "ID",
        "Job ID",
        "Node Name",
        "Task Group",
        "Version",
        "Desired",
        "Status",
        "Created",
        "Modified",
    ];
    let time = |time: i64| match wide {
        true => local_time(time, &now.zone),
        false => ago(time, now.now),
    };
    let rows = stubs.iter().map(|stub| {
        [
            if wide { stub.id.clone() } else { short_id(&stub.id) },
            stub.job_id.clone(),
            stub.node_name.clone(),
            stub.task_group.clone(),
            stub.job_version.to_string(),
            stub.desired_status.clone(),
            stub.client_status.clone(),
            time(stub.create_time),
            time(stub.modify_time),
        ]
    });
    table(headings, rows)
}

/// Returns the details of one allocation.
pub(crate) fn allocation_detail(
    allocation: &AllocationDocument,
    now: &TimeReference,
    wide: bool,
) -> String {
    let id = |id: &str| if wide { id.to_owned() } else { short_id(id) };
    let version = allocation.job.as_ref().map(|job| job.version);
    let mut pairs = vec![
        ("ID", allocation.id.clone()),
        ("Eval ID", id(&allocation.eval_id)),
        ("Name", allocation.name.clone()),
        ("Node ID", id(&allocation.node_id)),
        ("Node Name", allocation.node_name.clone()),
        ("Job ID", allocation.job_id.clone()),
        ("Job Version", version.unwrap_or_default().to_string()),
        ("Client Status", allocation.client_status.clone()),
        ("Client Description", allocation.client_description.clone()),
        ("Desired Status", allocation.desired_status.clone()),
        ("Desired Description", allocation.desired_description.clone()),
        ("Created", ago(allocation.create_time, now.now)),
        ("Modified", ago(allocation.modify_time, now.now)),
    ];
    if !allocation.next_allocation.is_empty() {
        pairs.push(("Replacement", id(&allocation.next_allocation)));
    }
    let mut sections = vec![key_values(pairs)];
    sections.extend(volumes(allocation));
    for (name, task) in allocation.task_states.iter().flatten() {
        sections.push(task_section(name, task, now));
    }
    sections.join("\n")
}

/// Returns the group of an allocation, as it was when the allocation was placed.
pub(crate) fn group_of(allocation: &AllocationDocument) -> Option<&TaskGroupDocument> {
    let groups = &allocation.job.as_ref()?.task_groups;
    groups.iter().find(|group| group.name == allocation.task_group)
}

fn volumes(allocation: &AllocationDocument) -> Option<String> {
    let group = group_of(allocation)?;
    let index = allocation.name.rfind('[').map(|at| &allocation.name[at..]);
    let rows: Vec<_> = group
        .volumes
        .iter()
        .map(|(alias, volume)| {
            let index = index.filter(|_| volume.per_alloc).unwrap_or_default();
            [
                format!("{}{index}", volume.source),
                alias.clone(),
                volume.volume_type.clone(),
                volume.read_only.to_string(),
            ]
        })
        .collect();
    let headings = ["ID", "Name", "Type", "Read Only"];
    (!rows.is_empty()).then(|| heading("Volumes") + &table(headings, rows))
}

fn task_section(name: &str, task: &TaskStateDocument, now: &TimeReference) -> String {
    let at = |time: &Option<String>| local_time(nanoseconds_from_wire(time.as_deref()), &now.zone);
    let state = match task.failed {
        true => format!("{} (failed)", task.state),
        false => task.state.clone(),
    };
    let mut text = heading(&format!("Task \"{name}\" is \"{state}\""));
    text.push_str(&key_values([
        ("Started At", at(&task.started_at)),
        ("Finished At", at(&task.finished_at)),
        ("Total Restarts", task.restarts.to_string()),
        ("Last Restart", at(&task.last_restart)),
    ]));
    if !task.events.is_empty() {
        let rows = task.events.iter().rev().map(|event| {
            [
                local_time(event.time, &now.zone),
                event.event_type.clone(),
                event.display_message.clone(),
            ]
        });
        text.push_str("\nRecent Events:\n");
        text.push_str(&table(["Time", "Type", "Description"], rows));
    }
    text
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;
    use serde_json::json;

    use super::*;
    use nomad_csi_wire::decode_value;

    #[test]
    fn an_allocation_shows_its_own_volume_and_the_events_of_its_tasks() {
        let allocation: AllocationDocument = decode_value(&json!({
            "ID": "3761b601-1111", "Name": "web.g[2]", "TaskGroup": "g",
            "Job": {"ID": "web", "TaskGroups": [{"Name": "g", "Volumes": {
                "v": {"Type": "csi", "Source": "db", "PerAlloc": true},
                "w": {"Type": "host", "Source": "logs", "ReadOnly": true}}}]},
            "TaskStates": {"t": {"State": "dead", "Failed": true, "StartedAt": "2026-11-22T02:45:55Z",
                "Events": [{"Type": "Started", "Time": 1_000_000_000, "DisplayMessage": "Task started by client"},
                    {"Type": "Terminated", "Time": 2_000_000_000, "DisplayMessage": "Exit Code: 1"}]}},
        }))
        .expect("cannot decode");
        let now = TimeReference { now: 0, zone: TimeZone::UTC };
        let text = allocation_detail(&allocation, &now, false);
        let text = anstream::adapter::strip_str(&text).to_string();
        for line in [
            "db[2]  v     csi   false",
            "logs   w     host  true",
            "Task \"t\" is \"dead (failed)\"",
            "Started At     = 2026-11-22T02:45:55+00:00",
            "1970-01-01T00:00:02+00:00  Terminated  Exit Code: 1",
        ] {
            assert!(text.lines().any(|shown| shown == line), "{line}\n{text}");
        }
    }
}
