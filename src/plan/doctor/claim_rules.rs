//! Findings about the claims of an agent, which shows their states and errors.

use super::cause::{Cause, release_cause};
use super::facts::VolumeFacts;
use super::finding::{Confidence, Evidence, FactSource, Finding, Remedy, Rule};
use super::remedies::{act, release, release_again, run, show_claims, stop_job, wait_unclaimed};
use nomad_csi_model::{
    ClaimProblem, ClientStatus, FenceStatement, NodeId, VolumeClaim, ago, one_line, shell_quoted,
};

/// Returns what is wrong with each claim.
pub(super) fn claim_findings(facts: &VolumeFacts<'_>, claims: &[VolumeClaim]) -> Vec<Finding> {
    let found = claims.iter().filter_map(|claim| {
        if claim.is_in_release() {
            return Some(released_claim(facts, claims, claim));
        }
        match (&claim.problem, release_cause(facts, &claim.node)) {
            (_, Some(cause @ (Cause::NodeUnknown | Cause::NodeNotReady(_)))) => {
                Some(lost_node(facts, claim, &cause))
            }
            (Some(problem), cause) => Some(unpublished(facts, claim, problem, cause.as_ref())),
            (None, Some(cause)) if claim.is_published => Some(at_risk(facts, claim, &cause)),
            (None, _) => None,
        }
    });
    found.collect()
}

/// A claim that is given back: it is stuck if a step fails or something is known to be missing.
fn released_claim(facts: &VolumeFacts<'_>, claims: &[VolumeClaim], claim: &VolumeClaim) -> Finding {
    let cause = release_cause(facts, &claim.node);
    let mut evidence = vec![state(facts, claim)];
    let name = facts.alloc_name(&claim.alloc);
    let subject = match unproven_end(facts, claim) {
        None => format!("{name} has ended or gave the volume back"),
        Some(status) => {
            format!("{name} is being released, but is {status}: its tasks may still write")
        }
    };
    let node = facts.node_name(&claim.node);
    if cause.is_none() && claim.problem.is_none() {
        return Finding {
            rule: Rule::ReleaseRunning,
            verdict: format!("{subject}; node `{node}` is being released, and no step has failed"),
            confidence: Confidence::Known,
            evidence,
            remedies: vec![wait_unclaimed(facts), show_claims(facts)],
        };
    }
    evidence.extend(claim.problem.as_ref().map(|one| failure(facts, claim, one)));
    evidence.extend(cause.as_ref().map(|cause| cause.evidence(facts, &claim.node)));
    let because = match (&cause, &claim.problem) {
        (Some(cause), _) => cause.clause(facts),
        (None, Some(problem)) => format!("{} fails", problem.step),
        (None, None) => String::new(),
    };
    let mut remedies: Vec<Remedy> = vec![];
    remedies.extend(cause.as_ref().map(|cause| cause.remedy(facts, &claim.node)));
    if cause.is_none() {
        remedies.extend(help(claim));
    }
    let is_used = claims.iter().any(|other| other.node == claim.node && !other.is_in_release());
    remedies.extend(release_again(facts, &claim.node, cause.is_none() && !is_used));
    if let Some(Cause::NodeUnknown | Cause::NodeNotReady(_)) = cause {
        remedies.push(fence(facts, &claim.node));
    }
    Finding {
        rule: Rule::ReleaseStuck,
        verdict: format!("{subject}; node `{node}` was not released, because {because}"),
        confidence: Confidence::Known,
        evidence,
        remedies,
    }
}

/// Returns the status of an allocation of which the server only assumes that it is over.
fn unproven_end<'a>(facts: &VolumeFacts<'a>, claim: &VolumeClaim) -> Option<&'a str> {
    let mut allocs = facts.volume.allocs.iter();
    let alloc = allocs.find(|alloc| alloc.id == claim.alloc)?;
    match alloc.client {
        ClientStatus::Lost | ClientStatus::Unknown => Some(alloc.client.as_str()),
        ClientStatus::Pending
        | ClientStatus::Running
        | ClientStatus::Complete
        | ClientStatus::Failed
        | ClientStatus::Other(_) => None,
    }
}

fn lost_node(facts: &VolumeFacts<'_>, claim: &VolumeClaim, cause: &Cause) -> Finding {
    let node = facts.node_name(&claim.node);
    Finding {
        rule: Rule::NodeDown,
        verdict: format!(
            "{} holds the volume on node `{node}`, but {}; the claim stays until the node returns or is fenced",
            facts.alloc_name(&claim.alloc),
            cause.clause(facts)
        ),
        confidence: Confidence::Known,
        evidence: vec![state(facts, claim), cause.evidence(facts, &claim.node)],
        remedies: vec![cause.remedy(facts, &claim.node), fence(facts, &claim.node)],
    }
}

fn unpublished(
    facts: &VolumeFacts<'_>,
    claim: &VolumeClaim,
    problem: &ClaimProblem,
    cause: Option<&Cause>,
) -> Finding {
    let because =
        cause.map(|cause| format!(", because {}", cause.clause(facts))).unwrap_or_default();
    let mut evidence = vec![state(facts, claim), failure(facts, claim, problem)];
    evidence.extend(cause.map(|cause| cause.evidence(facts, &claim.node)));
    let mut remedies: Vec<Remedy> = vec![];
    match cause {
        Some(cause) => remedies.push(cause.remedy(facts, &claim.node)),
        None => {
            remedies.extend(help(claim));
            if is_about_a_file_system(&problem.error) {
                remedies.extend(earlier_use(facts));
            }
            if is_about_another_use(&problem.error) {
                remedies.push(unknown_use(facts, &claim.node));
            }
        }
    }
    remedies.push(show_claims(facts));
    remedies.push(give_up(facts, claim));
    Finding {
        rule: Rule::PublishStuck,
        verdict: format!(
            "{} cannot use the volume on node `{}`: {} fails{because}",
            facts.alloc_name(&claim.alloc),
            facts.node_name(&claim.node),
            problem.step
        ),
        confidence: Confidence::Known,
        evidence,
        remedies,
    }
}

/// Ends the use of a volume that cannot be published. An allocation of a job gives its volumes back when it ends; a release
/// would be refused.
fn give_up(facts: &VolumeFacts<'_>, claim: &VolumeClaim) -> Remedy {
    let mut allocs = facts.volume.allocs.iter();
    let job = allocs.find(|alloc| alloc.id == claim.alloc && !alloc.job_id.is_empty());
    match job {
        Some(alloc) => stop_job(facts, &alloc.job_id, "if it does not need the volume any more"),
        None => release(facts, &claim.alloc),
    }
}

fn at_risk(facts: &VolumeFacts<'_>, claim: &VolumeClaim, cause: &Cause) -> Finding {
    Finding {
        rule: Rule::NodePluginGone,
        verdict: format!(
            "{} uses the volume on node `{}`, which cannot be released, because {}",
            facts.alloc_name(&claim.alloc),
            facts.node_name(&claim.node),
            cause.clause(facts)
        ),
        confidence: Confidence::Known,
        evidence: vec![state(facts, claim), cause.evidence(facts, &claim.node)],
        remedies: vec![cause.remedy(facts, &claim.node)],
    }
}

fn fence(facts: &VolumeFacts<'_>, node: &NodeId) -> Remedy {
    let name = facts.node_name(node);
    run(format!("if node `{name}` is off, declare it lost"), FenceStatement::command(node))
}

/// Returns whether an error of a plugin or of `mount` may come from a file system of another type. Only a remedy depends on it.
fn is_about_a_file_system(error: &str) -> bool {
    let error = error.to_lowercase();
    let words = ["file system", "filesystem", "fs type", "fs_type", "fstype", "superblock"];
    words.iter().any(|word| error.contains(word))
}

/// Returns whether an error of a plugin or of the agent may come from a use of the volume that is on record nowhere. Only a
/// remedy depends on it.
fn is_about_another_use(error: &str) -> bool {
    let error = error.to_lowercase();
    let words = ["already published", "already in use", "already mounted", "already staged"];
    words.iter().any(|word| error.contains(word))
}

/// Returns the way to end a use of the volume that no claim knows, which an agent with an older state has.
fn unknown_use(facts: &VolumeFacts<'_>, node: &NodeId) -> Remedy {
    let name = facts.node_name(node);
    let node = shell_quoted(node.as_str());
    run(
        format!(
            "if the agent was started with an older state, allocations that it does not know have left mounts: stop the jobs \
             of node `{name}`, and have it unmount what no claim knows"
        ),
        format!(
            "nomad-csi node fence {node} --yes --approve cuts-off:{node} && nomad-csi node unfence {node}"
        ),
    )
}

/// Returns the way back from a change of how nodes use the volume, which no healthy node and plugin can carry out.
fn earlier_use(facts: &VolumeFacts<'_>) -> Option<Remedy> {
    let options = facts.volume.mount_options.as_ref()?;
    let fs_type = Some(one_line(&options.fs_type)).filter(|fs_type| !fs_type.is_empty())?;
    Some(act(format!(
        "if the data has another file system than `{fs_type}`, write the earlier `fs_type` into the specification again, \
         and apply it with `--approve loses-access:{}`; the data is still there",
        shell_quoted(facts.volume.id.as_str())
    )))
}

/// Returns the remedy that the agent gave for the failing step.
fn help(claim: &VolumeClaim) -> Option<Remedy> {
    let help = claim.problem.as_ref()?.help.as_deref()?;
    Some(act(one_line(help)))
}

fn state(facts: &VolumeFacts<'_>, claim: &VolumeClaim) -> Evidence {
    Evidence::new(
        FactSource::Claims,
        format!(
            "the claim of allocation `{}` on node `{}` is {}, granted {}",
            one_line(claim.alloc.as_str()),
            facts.node_name(&claim.node),
            claim.state,
            ago(claim.granted_at, facts.now)
        ),
    )
}

fn failure(facts: &VolumeFacts<'_>, claim: &VolumeClaim, problem: &ClaimProblem) -> Evidence {
    let attempts = match claim.failed_attempts {
        0 => String::new(),
        1 => ", 1 failed attempt".to_owned(),
        count => format!(", {count} failed attempts"),
    };
    Evidence::new(
        FactSource::Claims,
        format!(
            "{} fails, first seen {}{attempts}: {}",
            problem.step,
            ago(problem.since, facts.now),
            one_line(&problem.error)
        ),
    )
}

#[cfg(test)]
mod tests;
