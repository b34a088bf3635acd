//! Explains the claims of one volume, for errors of commands that its claims stop.
//!
//! It only explains. So nothing is read if nothing can be stuck, and a failure to read explains nothing.

use crate::ports::ClusterApi;
use crate::reconcile::volume_facts::{FactOptions, FactReading};
use nomad_csi_model::diagnostic::Diagnostic;
use nomad_csi_model::{AllocId, Volume};
use nomad_csi_plan::doctor::{Finding, diagnose};

/// How many findings explain one error.
const MAX_EXPLAINED: usize = 2;

/// Returns why claims of ended allocations are not released, as far as it is known.
pub(super) async fn stuck_claims(api: &dyn ClusterApi, volume: &Volume, now: i64) -> Vec<Finding> {
    if !may_be_stuck(volume) {
        return vec![];
    }
    let options = FactOptions::of_claims(now);
    let volumes = std::slice::from_ref(volume);
    let Ok(reading) = FactReading::read(api, volumes, options).await else {
        return vec![];
    };
    let findings = diagnose(&reading.facts(volume)).into_iter();
    findings.filter(|one| one.rule.is_about_release()).collect()
}

/// Adds what is known about stuck claims to an error, and what helps.
pub(super) fn explained(problem: Diagnostic, findings: &[Finding]) -> Diagnostic {
    let stuck = findings.iter().take(MAX_EXPLAINED);
    stuck.fold(problem, |problem, finding| {
        let problem = problem.note(finding.note());
        match finding.remedies.first() {
            Some(remedy) => problem.help(remedy.to_string()),
            None => problem,
        }
    })
}

/// Returns whether a claim of the volume belongs to an allocation that is over for the server.
fn may_be_stuck(volume: &Volume) -> bool {
    let ended = |id: &AllocId| {
        let mut allocs = volume.allocs.iter();
        allocs.any(|alloc| alloc.id == *id && alloc.client.is_terminal())
    };
    volume.claiming_allocs().any(ended)
}
