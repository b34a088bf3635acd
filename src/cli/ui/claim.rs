//! Claims as a table, with the full error of each claim below it.

use super::allocs::TimeReference;
use super::printer::one_line;
use super::table::table;
use super::time::{ago, local_time};
use crate::model::{ClaimProblem, VolumeClaim};

/// The longest problem in a cell of the table.
const SHORT: usize = 60;

/// Returns a table of claims, and a note for each claim with a problem.
pub(crate) fn claim_list(claims: &[VolumeClaim], now: &TimeReference, wide: bool) -> String {
    let mut text = if wide {
        wide_table(claims, now)
    } else {
        short_table(claims, now)
    };
    for claim in claims {
        if let Some(problem) = &claim.problem {
            text.push_str(&note(claim, problem, now));
        }
    }
    text
}

fn short_table(claims: &[VolumeClaim], now: &TimeReference) -> String {
    let headings = [
        "Volume",
        "Allocation",
        "Alias",
        "Node",
        "Access",
        "State",
        "Since",
        "Problem",
    ];
    let rows = claims.iter().map(|claim| {
        [
            claim.volume.to_string(),
            claim.alloc.to_string(),
            claim.alias.to_string(),
            claim.node.to_string(),
            access(claim).to_owned(),
            claim.state.clone(),
            ago(claim.granted_at, now.now),
            claim.problem.as_ref().map(shortened).unwrap_or_default(),
        ]
    });
    table(headings, rows)
}

fn wide_table(claims: &[VolumeClaim], now: &TimeReference) -> String {
    let headings = [
        "Volume",
        "Namespace",
        "Allocation",
        "Alias",
        "Node",
        "Access",
        "Access Mode",
        "Attachment Mode",
        "State",
        "Since",
        "Plugin ID",
        "External ID",
        "Target Path",
        "Problem",
    ];
    let rows = claims.iter().map(|claim| {
        [
            claim.volume.id.to_string(),
            claim.volume.namespace.to_string(),
            claim.alloc.to_string(),
            claim.alias.to_string(),
            claim.node.to_string(),
            access(claim).to_owned(),
            claim.access_mode.clone(),
            claim.attachment_mode.clone(),
            claim.state.clone(),
            local_time(claim.granted_at, &now.zone),
            claim.plugin_id.to_string(),
            claim.external_id.to_string(),
            claim.target_path.clone(),
            claim.problem.as_ref().map(shortened).unwrap_or_default(),
        ]
    });
    table(headings, rows)
}

fn access(claim: &VolumeClaim) -> &'static str {
    if claim.read_only { "reads" } else { "writes" }
}

fn shortened(problem: &ClaimProblem) -> String {
    let full = one_line(&format!("{}: {}", problem.step, problem.error));
    let short: String = full.chars().take(SHORT).collect();
    if short.len() == full.len() {
        full
    } else {
        format!("{}…", short.trim_end())
    }
}

fn note(claim: &VolumeClaim, problem: &ClaimProblem, now: &TimeReference) -> String {
    let text = format!(
        "note: volume {}, allocation {}, alias {}: {} fails, first seen {}: {}",
        claim.volume,
        claim.alloc,
        claim.alias,
        problem.step,
        ago(problem.since, now.now),
        problem.error
    );
    let help = problem.help.as_ref();
    let help = help.map(|help| format!("help: {}\n", one_line(help)));
    format!("{}\n{}", one_line(&text), help.unwrap_or_default())
}
