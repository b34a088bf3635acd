//! Allocations as a table, as Nomad's CLI shows them.

use jiff::tz::TimeZone;

use super::table::{heading, table};
use super::time::{ago, local};
use crate::model::{Alloc, ClientStatus, DesiredStatus};

/// From when and where times are shown.
#[derive(Clone)]
pub(crate) struct Now {
    /// Nanoseconds since the epoch.
    pub nanoseconds: i64,
    /// Where people live.
    pub zone: TimeZone,
}

impl Now {
    /// How long ago that was: `1h20m ago`; nothing for a time that was never set.
    pub(crate) fn ago(&self, nanoseconds: i64) -> String {
        ago(nanoseconds, self.nanoseconds)
    }
}

/// The section on allocations; short IDs and ages, or everything if it is `wide`.
pub(super) fn allocations(allocs: &[Alloc], now: &Now, wide: bool) -> String {
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

fn short_table(allocs: &[&Alloc], now: &Now) -> String {
    let headings = [
        "ID",
        "Node ID",
        "Task Group",
        "Version",
        "Desired",
        "Status",
        "Created",
        "Modified",
    ];
    let rows = allocs.iter().map(|alloc| {
        [
            short(alloc.id.as_str()),
            short(alloc.node_id.as_str()),
            alloc.task_group.clone(),
            alloc.job_version.to_string(),
            desired(&alloc.desired).to_owned(),
            client(&alloc.client).to_owned(),
            ago(alloc.create_time, now.nanoseconds),
            ago(alloc.modify_time, now.nanoseconds),
        ]
    });
    table(headings, rows)
}

fn wide_table(allocs: &[&Alloc], now: &Now) -> String {
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
            desired(&alloc.desired).to_owned(),
            client(&alloc.client).to_owned(),
            local(alloc.create_time, &now.zone),
            local(alloc.modify_time, &now.zone),
        ]
    });
    table(headings, rows)
}

/// The first eight characters, by which Nomad's people call a UUID.
pub(super) fn short(id: &str) -> String {
    id.chars().take(8).collect()
}

/// Nomad's word.
pub(super) fn desired(status: &DesiredStatus) -> &str {
    match status {
        DesiredStatus::Run => "run",
        DesiredStatus::Stop => "stop",
        DesiredStatus::Evict => "evict",
        DesiredStatus::Other(word) => word,
    }
}

/// Nomad's word.
pub(super) fn client(status: &ClientStatus) -> &str {
    match status {
        ClientStatus::Pending => "pending",
        ClientStatus::Running => "running",
        ClientStatus::Complete => "complete",
        ClientStatus::Failed => "failed",
        ClientStatus::Lost => "lost",
        ClientStatus::Unknown => "unknown",
        ClientStatus::Other(word) => word,
    }
}
