//! Allocations as a table, in the layout of Nomad's CLI.

use jiff::tz::TimeZone;

use super::table::{heading, table};
use super::time::{ago, local_time};
use nomad_csi_model::Alloc;

/// The current time and the time zone that times are shown in.
#[derive(Clone)]
pub(crate) struct TimeReference {
    /// The current time in nanoseconds since the epoch.
    pub now: i64,
    /// The local time zone.
    pub zone: TimeZone,
}

/// Returns the section on allocations, with short IDs and ages unless `wide`.
pub(super) fn allocations(allocs: &[Alloc], now: &TimeReference, wide: bool) -> String {
    let mut text = heading("Allocations");
    if allocs.is_empty() {
        text.push_str("No allocations placed\n");
        return text;
    }
    let mut sorted: Vec<&Alloc> = allocs.iter().collect();
    sorted.sort_by_key(|alloc| (std::cmp::Reverse(alloc.create_time), &alloc.id));
    if wide {
        text.push_str(&wide_table(&sorted, now));
    } else {
        text.push_str(&short_table(&sorted, now));
    }
    text
}

fn short_table(allocs: &[&Alloc], now: &TimeReference) -> String {
    let headings =
        ["ID", "Node ID", "Task Group", "Version", "Desired", "Status", "Created", "Modified"];
    let rows = allocs.iter().map(|alloc| {
        [
            short_id(alloc.id.as_str()),
            short_id(alloc.node_id.as_str()),
            alloc.task_group.clone(),
            alloc.job_version.to_string(),
            alloc.desired.as_str().to_owned(),
            alloc.client.as_str().to_owned(),
            ago(alloc.create_time, now.now),
            ago(alloc.modify_time, now.now),
        ]
    });
    table(headings, rows)
}

fn wide_table(allocs: &[&Alloc], now: &TimeReference) -> String {
    let headings = [
        "ID",
        "Eval ID",
        "Node ID",
        "Node Name",
        "Job ID",
        "Task Group",
        "Version",
        "Desired",
        "Status",
        "Created",
        "Modified",
    ];
    let rows = allocs.iter().map(|alloc| {
        [
            alloc.id.to_string(),
            alloc.evaluation_id.clone(),
            alloc.node_id.to_string(),
            alloc.node_name.clone(),
            alloc.job_id.clone(),
            alloc.task_group.clone(),
            alloc.job_version.to_string(),
            alloc.desired.as_str().to_owned(),
            alloc.client.as_str().to_owned(),
            local_time(alloc.create_time, &now.zone),
            local_time(alloc.modify_time, &now.zone),
        ]
    });
    table(headings, rows)
}

/// Returns the first eight characters of a UUID, as Nomad's CLI shows it.
pub(super) fn short_id(id: &str) -> String {
    id.chars().take(8).collect()
}
