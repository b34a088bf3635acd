//! Findings about claims that the server hides, as Nomad does: they are inferred from allocations.
//!
//! A volume lists the allocations that claim it. One that has ended and is still listed was not
//! released. Why not is inferred from its node and from the plugin there.

use std::collections::BTreeSet;

use super::cause::release_cause;
use super::facts::VolumeFacts;
use super::finding::{Confidence, Evidence, FactSource, Finding, Remedy, Rule};
use super::remedies::{
    act, deregister_by_force, release_again, run, stop_job, stop_waiting_jobs, wait_unclaimed,
};
use crate::{ClaimDrops, ClaimingAlloc};
use nomad_csi_model::{Alloc, ClientStatus, DesiredStatus, NodeSight, ago, one_line, shell_quoted};

/// How long after its end the release of an allocation is taken to be under way, in nanoseconds.
const USUAL_RELEASE: i64 = 60_000_000_000;

/// Returns what is wrong with the allocations that claim the volume.
pub(super) fn alloc_findings(facts: &VolumeFacts<'_>) -> Vec<Finding> {
    let claims = ClaimingAlloc::of(facts.volume);
    let found = claims.iter().filter_map(|claim| match &claim.alloc {
        None => Some(unknown_allocation(facts, claim)),
        Some(alloc) if alloc.client.has_ended() => Some(ended(facts, &claims, alloc)),
        Some(alloc) => match alloc.client {
            ClientStatus::Lost | ClientStatus::Unknown => Some(silent_node(facts, alloc)),
            ClientStatus::Pending
            | ClientStatus::Running
            | ClientStatus::Complete
            | ClientStatus::Failed
            | ClientStatus::Other(_) => living(facts, alloc),
        },
    });
    found.collect()
}

fn unknown_allocation(facts: &VolumeFacts<'_>, claim: &ClaimingAlloc) -> Finding {
    let id = one_line(claim.id.as_str());
    let drops = ClaimDrops { nodes: facts.nodes.clone(), ..ClaimDrops::default() };
    let evidence = format!("the volume lists allocation `{id}`, of which the server has no record");
    let mut remedies = match facts.nodes.away() {
        Some(away) if away.is_empty() => vec![act(
            "make sure on the nodes that none of its processes runs: its job was purged or collected, and nothing on the server shows them any more",
        )],
        Some(away) => away
            .iter()
            .take(2)
            .map(|node| {
                act(format!(
                    "start node `{}` again: its client then stops what the server does not know",
                    one_line(&node.name)
                ))
            })
            .collect(),
        None => vec![act("use a token with `node { policy = \"read\" }`")],
    };
    remedies.extend(deregister_by_force(facts));
    Finding {
        rule: Rule::ClaimWithoutAllocation,
        verdict: format!(
            "allocation `{id}` claims the volume, but the server does not have it any more; no job can release the claim"
        ),
        confidence: Confidence::Inferred,
        evidence: vec![
            Evidence::new(FactSource::Volume, evidence),
            Evidence::new(FactSource::Nodes, drops.why(claim)),
        ],
        remedies,
    }
}

/// An allocation of which the server does not hear: it is lost or unknown, and its tasks may still write.
fn silent_node(facts: &VolumeFacts<'_>, alloc: &Alloc) -> Finding {
    let node = facts.node_name(&alloc.node_id);
    let name = facts.alloc_name(&alloc.id);
    let status = one_line(alloc.client.as_str());
    let id = shell_quoted(alloc.node_id.as_str());
    let look = run("check the node", format!("nomad node status {id}"));
    let (why, mut remedies) = match facts.nodes.sight(&alloc.node_id) {
        NodeSight::Up => (
            format!("node `{node}` is back, and its client has not reported the end of the tasks"),
            vec![
                run(
                    "wait until the client reports `complete` or `failed`",
                    format!("nomad alloc status {}", shell_quoted(alloc.id.as_str())),
                ),
                look,
            ],
        ),
        NodeSight::Away(word) => (
            format!("node `{node}` is {}", one_line(&word)),
            std::iter::once(stop_own_job(facts, alloc))
                .chain(stop_waiting_jobs(facts))
                .chain([act(after_return(&node, alloc)), look])
                .collect(),
        ),
        NodeSight::Gone => (
            format!("the server does not have node `{node}` any more"),
            vec![act(format!("make sure that the machine of node `{node}` is off"))],
        ),
        NodeSight::Fenced => (
            format!("node `{node}` is fenced"),
            vec![act(format!("make sure that the machine of node `{node}` is off"))],
        ),
        NodeSight::Unread => (
            format!("node `{node}` could not be read"),
            vec![act("use a token with `node { policy = \"read\" }`"), look],
        ),
    };
    remedies.extend(deregister_by_force(facts));
    Finding {
        rule: Rule::NodeDown,
        verdict: format!(
            "{name} is {status}, and its tasks may still write to the volume on node `{node}`: {why}"
        ),
        confidence: Confidence::Inferred,
        evidence: vec![claims_it(facts, alloc), Evidence::new(FactSource::Nodes, why)],
        remedies,
    }
}

/// The server replaces a lost or stopping allocation elsewhere, which is the next writer. A job that is purged shows no
/// writer any more.
fn stop_own_job(facts: &VolumeFacts<'_>, alloc: &Alloc) -> Remedy {
    let why = "without `-purge`: the server replaces the allocation elsewhere while it may write";
    stop_job(facts, &alloc.job_id, why)
}

/// Returns what becomes of an allocation when its node is started again.
fn after_return(node: &str, alloc: &Alloc) -> String {
    let then = match alloc.desired {
        DesiredStatus::Stop | DesiredStatus::Evict => {
            "its client then stops the tasks and reports the end"
        }
        DesiredStatus::Run | DesiredStatus::Other(_) => {
            "its client then reports what the tasks do, and they may go on"
        }
    };
    format!("start node `{node}` again: {then}")
}

/// An allocation that has ended, and still claims the volume.
fn ended(facts: &VolumeFacts<'_>, claims: &[ClaimingAlloc], alloc: &Alloc) -> Finding {
    let cause = release_cause(facts, &alloc.node_id);
    let node = facts.node_name(&alloc.node_id);
    let subject = format!("{} has ended", facts.alloc_name(&alloc.id));
    let mut evidence = vec![claims_it(facts, alloc)];
    let is_recent = facts.now.saturating_sub(alloc.modify_time) < USUAL_RELEASE;
    if cause.is_none() && is_recent {
        return Finding {
            rule: Rule::ReleaseRunning,
            verdict: format!("{subject}; node `{node}` is probably being released"),
            confidence: Confidence::Inferred,
            evidence,
            remedies: vec![wait_unclaimed(facts)],
        };
    }
    evidence.extend(cause.as_ref().map(|cause| cause.evidence(facts, &alloc.node_id)));
    let because = cause.as_ref().map_or_else(
        || "and no reason is visible".to_owned(),
        |cause| format!("because {}", cause.clause(facts)),
    );
    let is_used = claims.iter().any(|other| {
        let other = other.alloc.as_ref();
        other.is_some_and(|other| other.node_id == alloc.node_id && !other.client.has_ended())
    });
    let mut remedies = vec![];
    remedies.extend(cause.as_ref().map(|cause| cause.remedy(facts, &alloc.node_id)));
    remedies.extend(release_again(facts, &alloc.node_id, cause.is_none() && !is_used));
    remedies.extend(deregister_by_force(facts));
    Finding {
        rule: Rule::ReleaseStuck,
        verdict: format!("{subject}; node `{node}` was not released, {because}"),
        confidence: Confidence::Inferred,
        evidence,
        remedies,
    }
}

/// An allocation that may run.
fn living(facts: &VolumeFacts<'_>, alloc: &Alloc) -> Option<Finding> {
    let node = facts.node_name(&alloc.node_id);
    let name = facts.alloc_name(&alloc.id);
    let status = run(
        "check the allocation",
        format!("nomad alloc status {}", shell_quoted(alloc.id.as_str())),
    );
    let must_stop = match alloc.desired {
        DesiredStatus::Stop | DesiredStatus::Evict => true,
        DesiredStatus::Run | DesiredStatus::Other(_) => false,
    };
    let cause = release_cause(facts, &alloc.node_id);
    let mut evidence = vec![claims_it(facts, alloc)];
    evidence.extend(cause.as_ref().map(|cause| cause.evidence(facts, &alloc.node_id)));
    let (rule, verdict, remedies) = if must_stop {
        let does = match alloc.client {
            ClientStatus::Pending => "has not started",
            _ => "still runs",
        };
        let verdict = format!(
            "{name} must stop, but {does} on node `{node}`; the volume stays claimed until its tasks end"
        );
        let remedies = vec![status, wait_unclaimed(facts)];
        (Rule::AllocationStopping, verdict, remedies)
    } else {
        let cause = cause?;
        let verdict = format!(
            "{name} uses the volume on node `{node}`, which cannot be released, because {}",
            cause.clause(facts)
        );
        let remedies = vec![cause.remedy(facts, &alloc.node_id)];
        (Rule::NodePluginGone, verdict, remedies)
    };
    Some(Finding { rule, verdict, confidence: Confidence::Inferred, evidence, remedies })
}

/// Returns the allocations that may write to the volume without a claim: the server dropped it, and lets others write.
pub(super) fn unclaimed_writers(facts: &VolumeFacts<'_>) -> Vec<Finding> {
    let unclaimed = facts.unclaimed.into_iter().flatten();
    unclaimed.map(|alloc| unclaimed_writer(facts, alloc)).collect()
}

fn unclaimed_writer(facts: &VolumeFacts<'_>, alloc: &Alloc) -> Finding {
    let node = facts.node_name(&alloc.node_id);
    let name = facts.alloc_name(&alloc.id);
    let status = one_line(alloc.client.as_str());
    let id = one_line(alloc.id.as_str());
    let desired = one_line(alloc.desired.as_str());
    let mut evidence = vec![Evidence::new(
        FactSource::Allocations,
        format!("allocation `{id}` names the volume, is {status}, and should {desired}"),
    )];
    let (why, last) = match facts.nodes.sight(&alloc.node_id) {
        NodeSight::Up => (
            String::new(),
            run(
                "wait until its tasks have ended, before another allocation uses the volume",
                format!("nomad alloc status {}", shell_quoted(alloc.id.as_str())),
            ),
        ),
        NodeSight::Away(word) => {
            let word = one_line(&word);
            evidence.push(Evidence::new(FactSource::Nodes, format!("node `{node}` is {word}")));
            (
                format!(", which is {word}"),
                act(format!(
                    "start node `{node}` again, so that its client stops the tasks, or turn the machine off"
                )),
            )
        }
        NodeSight::Gone | NodeSight::Fenced => (
            ", which the server does not call any more".to_owned(),
            act(format!(
                "make sure that the machine of node `{node}` is off, and do not purge the job before: its record is all that shows the writer"
            )),
        ),
        NodeSight::Unread => (
            ", which could not be read".to_owned(),
            act("use a token with `node { policy = \"read\" }`"),
        ),
    };
    let beside = beside(facts, alloc);
    let others: Vec<_> = beside
        .iter()
        .map(|other| {
            format!(
                "{} uses it on node `{}` now",
                facts.alloc_name(&other.id),
                facts.node_name(&other.node_id)
            )
        })
        .collect();
    let outcome = match others.is_empty() {
        true => ", and has no claim that keeps others away".to_owned(),
        false => format!(", and {}: they may write at the same time", others.join(", ")),
    };
    let jobs: BTreeSet<&str> = beside.iter().map(|other| other.job_id.as_str()).collect();
    let mut remedies: Vec<Remedy> = jobs
        .into_iter()
        .map(|job| stop_job(facts, job, "until the other allocation has ended"))
        .collect();
    remedies.push(stop_own_job(facts, alloc));
    remedies.extend(stop_waiting_jobs(facts));
    remedies.push(last);
    Finding {
        rule: Rule::WritesWithoutClaim,
        verdict: format!("{name} may still write to the volume on node `{node}`{why}{outcome}"),
        confidence: Confidence::Inferred,
        evidence,
        remedies,
    }
}

/// Returns the other allocations that use the volume and have not ended.
fn beside<'a>(facts: &VolumeFacts<'a>, alloc: &Alloc) -> Vec<&'a Alloc> {
    let allocs = facts.volume.allocs.iter();
    allocs.filter(|other| other.id != alloc.id && !other.client.has_ended()).collect()
}

fn claims_it(facts: &VolumeFacts<'_>, alloc: &Alloc) -> Evidence {
    let since = match ago(alloc.modify_time, facts.now) {
        since if since.is_empty() => since,
        since => format!(", last changed {since}"),
    };
    let id = one_line(alloc.id.as_str());
    let status = one_line(alloc.client.as_str());
    Evidence::new(
        FactSource::Volume,
        format!("the volume lists allocation `{id}`, which is {status}{since}"),
    )
}

#[cfg(test)]
mod tests;
