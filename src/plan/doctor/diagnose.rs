//! Runs all rules.

use super::alloc_rules::{alloc_findings, unclaimed_writers};
use super::claim_rules::claim_findings;
use super::facts::VolumeFacts;
use super::fenced_nodes::fenced_nodes;
use super::finding::Finding;
use super::health_rules::health_findings;
use super::kept_files::kept_files;
use super::plugin_rules::plugin_findings;
use super::provider_rules::{provider_findings, registered_twice, written_twice};
use super::waiting_rules::{unstarted_tasks, waiting_jobs};

/// Returns all findings, the most severe first. A volume without findings is healthy as far as the facts
/// show.
pub fn diagnose(facts: &VolumeFacts<'_>) -> Vec<Finding> {
    let mut findings = plugin_findings(facts);
    findings.extend(provider_findings(facts));
    findings.extend(written_twice(facts).or_else(|| registered_twice(facts)));
    findings.extend(health_findings(facts));
    match facts.claims {
        Some(claims) => findings.extend(claim_findings(facts, claims)),
        None => findings.extend(alloc_findings(facts)),
    }
    findings.extend(unclaimed_writers(facts));
    findings.extend(unstarted_tasks(facts));
    findings.extend(waiting_jobs(facts));
    findings.extend(kept_files(facts));
    findings.extend(fenced_nodes(facts));
    findings.sort_by_key(|finding| (std::cmp::Reverse(finding.rule.severity()), finding.rule));
    findings
}
