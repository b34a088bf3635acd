//! Claims as a table, with the full error of each claim below it.

use super::allocs::TimeReference;
use super::printer::one_line;
use super::table::{heading, table};
use super::time::{ago, local_time};
use nomad_csi_client::reconcile::workflow::VolumeOverview;
use nomad_csi_model::{ClaimProblem, VolumeClaim, until};
use nomad_csi_plan::doctor::Finding;

/// The longest problem in a cell of the table.
const SHORT: usize = 60;

/// Returns a table of claims, and a note for each claim with a problem.
pub(crate) fn claim_list(claims: &[VolumeClaim], now: &TimeReference, wide: bool) -> String {
    let mut text = if wide { wide_table(claims, now) } else { short_table(claims, now) };
    for claim in claims {
        if let Some(problem) = &claim.problem {
            text.push_str(&note(claim, problem, now));
        }
    }
    text
}

/// Returns the claims as a section of a volume's details, and what is wrong with the volume. Empty if
/// neither is known.
pub(crate) fn volume_overview(
    overview: &VolumeOverview,
    now: &TimeReference,
    wide: bool,
) -> String {
    let mut text = String::new();
    if !overview.claims.is_empty() {
        text.push('\n');
        text.push_str(&heading("Claims"));
        text.push_str(&claim_list(&overview.claims, now, wide));
    }
    if !overview.findings.is_empty() {
        text.push('\n');
    }
    text.extend(overview.findings.iter().map(finding_lines));
    text
}

/// Returns a finding and the remedy that changes least.
fn finding_lines(finding: &Finding) -> String {
    let note = one_line(&finding.note());
    let help = finding.remedies.first();
    let help = help.map(|remedy| format!("help: {}\n", one_line(&remedy.to_string())));
    format!("note: {note}\n{}", help.unwrap_or_default())
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
        "Next Attempt",
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
            next_attempt(claim, now),
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
        "Failed Attempts",
        "Next Attempt",
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
            claim.failed_attempts.to_string(),
            next_attempt(claim, now),
            claim.plugin_id.to_string(),
            claim.external_id.to_string(),
            claim.target_path.clone(),
            claim.problem.as_ref().map(shortened).unwrap_or_default(),
        ]
    });
    table(headings, rows)
}

fn next_attempt(claim: &VolumeClaim, now: &TimeReference) -> String {
    let next = claim.next_attempt;
    next.map(|next| until(next, now.now)).unwrap_or_default()
}

fn access(claim: &VolumeClaim) -> &'static str {
    if claim.read_only { "reads" } else { "writes" }
}

fn shortened(problem: &ClaimProblem) -> String {
    let full = one_line(&format!("{}: {}", problem.step, problem.error));
    let short: String = full.chars().take(SHORT).collect();
    if short.len() == full.len() { full } else { format!("{}…", short.trim_end()) }
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
