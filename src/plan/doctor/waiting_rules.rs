//! Findings about who waits for a volume: jobs whose placement failed because of it, and allocations whose tasks did not
//! start.
//!
//! Nomad's scheduler and the agent's say why each node was refused. A reason counts only if it names the volume. Who holds
//! the volume follows from its claims, or from its allocations where the server hides claims.

use std::collections::BTreeSet;

use super::facts::VolumeFacts;
use super::finding::{Confidence, Evidence, FactSource, Finding, Remedy, Rule};
use super::remedies::{
    Service, act, names_volume, on_agent, plugin_status, run, start_plugin, stop_job,
    wait_schedulable, wait_unclaimed,
};
use nomad_csi_model::{
    AllocId, BlockedEvaluation, ClientStatus, DesiredStatus, NodeId, UnstartedAlloc, VolumeClaim,
    ago, one_line, shell_quoted,
};

/// How many reasons and holders a finding names.
const MAX_NAMED: usize = 3;
/// How long a pending allocation may take before it is a finding, in nanoseconds.
const PENDING_TIME: i64 = 60_000_000_000;
/// How the agent's report of an allocation begins that waits for a volume.
const WAITING: &str = "Waiting: ";

/// Returns the jobs whose placement failed because of the volume.
pub(super) fn waiting_jobs(facts: &VolumeFacts<'_>) -> Vec<Finding> {
    let evaluations = facts.evaluations.iter();
    let found = evaluations.filter_map(|evaluation| {
        let reasons = evaluation.reasons.iter();
        let own = reasons.filter(|reason| names_volume(reason, facts.volume.id.as_str()));
        let own: Vec<&str> = own.take(MAX_NAMED).map(String::as_str).collect();
        (!own.is_empty()).then(|| waiting_job(facts, evaluation, &own))
    });
    found.collect()
}

fn waiting_job(facts: &VolumeFacts<'_>, evaluation: &BlockedEvaluation, own: &[&str]) -> Finding {
    let job = one_line(&evaluation.job_id);
    let reasons = one_line(&own.join("; "));
    let mut evidence = vec![Evidence::new(
        FactSource::Evaluations,
        format!(
            "evaluation `{}` of job `{job}` is blocked; its placement failed: {reasons}",
            one_line(&evaluation.id)
        ),
    )];
    let kinds: BTreeSet<Obstacle> = own.iter().map(|reason| Obstacle::of(reason)).collect();
    let holders = match kinds.contains(&Obstacle::Claims) {
        true => holders(facts),
        false => vec![],
    };
    evidence.extend(holders_evidence(facts, &holders));
    let mut remedies: Vec<Remedy> = vec![];
    for kind in kinds {
        remedies.extend(remedies_against(facts, kind, &holders, &evaluation.job_id));
    }
    remedies.push(check_job(facts, &evaluation.job_id));
    let confidence = if on_agent(facts) { Confidence::Known } else { Confidence::Inferred };
    Finding {
        rule: Rule::JobWaiting,
        verdict: format!("job `{job}` waits for the volume: {reasons}"),
        confidence,
        evidence,
        remedies,
    }
}

/// The kind of a scheduler's reason that names the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Obstacle {
    /// Another claim has the volume, or its modes are in force.
    Claims,
    /// The volume is not given in the way that the job asks for.
    Capability,
    /// The node is lost, or has returned and is not swept.
    NodeLost,
    /// An earlier claim is not released yet.
    Release,
    /// Another reason. Nothing is proposed against what is not known.
    Other,
    /// The plugin serves no volume now.
    Unschedulable,
    /// The node has no healthy plugin.
    Plugin,
    /// The plugin has no room for another volume on the node.
    NodeFull,
    /// The volume cannot be accessed from the node.
    Topology,
}

/// Words of the reasons that go away when another allocation gives the volume back.
const HELD: [&str; 4] = [
    "has exhausted its available",
    "volume max claims reached",
    "cannot change attachment mode of claimed volume",
    "with other modes or mount options",
];

impl Obstacle {
    fn of(reason: &str) -> Self {
        let is_full = reason.contains("has the maximum number of volumes");
        let has = |words: &[&str]| words.iter().any(|word| reason.contains(word));
        match reason {
            _ if has(&[
                "has no room for the volume on node",
                "has reached the plugin's limit of",
            ]) =>
            {
                Self::NodeFull
            }
            _ if has(&["does not have the capability"]) => Self::Capability,
            _ if has(&["is lost or not swept yet"]) => Self::NodeLost,
            _ if has(&["is still being detached", "is still being released"]) => Self::Release,
            _ if reason.starts_with("did not meet topology") => Self::Topology,
            _ if reason.starts_with("CSI plugin ") && is_full => Self::NodeFull,
            _ if reason.starts_with("CSI plugin ") => Self::Plugin,
            // With the reader claims, the text has both words.
            _ if reason.contains("unschedulable") && !reason.contains("exhausted") => {
                Self::Unschedulable
            }
            _ if has(&HELD) => Self::Claims,
            _ => Self::Other,
        }
    }
}

/// Returns what helps against an obstacle; what changes least comes first.
fn remedies_against(
    facts: &VolumeFacts<'_>,
    obstacle: Obstacle,
    holders: &[Holder<'_>],
    waiting: &str,
) -> Vec<Remedy> {
    match obstacle {
        Obstacle::Claims => claim_remedies(facts, holders, waiting),
        Obstacle::Capability => vec![act(
            "use access and attachment modes in the job that `volume status` lists, or add them to the volume",
        )],
        Obstacle::NodeLost => vec![act(
            "make another node available, or let this one return: its volumes are free when it is swept, or fenced",
        )],
        Obstacle::Release => vec![wait_unclaimed(facts)],
        Obstacle::Other => vec![],
        Obstacle::Unschedulable => vec![wait_schedulable(facts)],
        Obstacle::Plugin => vec![start_plugin(facts, Service::Nodes)],
        Obstacle::NodeFull => vec![act(
            "stop an allocation that uses another volume of the plugin on that node, or run the plugin on another node",
        )],
        Obstacle::Topology => vec![
            act(
                "make a node available that is in a topology of the volume: with a healthy plugin, eligible, and accepted by the job",
            ),
            plugin_status(facts),
        ],
    }
}

/// Waiting comes first only if someone is to give the volume back: a service never does.
fn claim_remedies(facts: &VolumeFacts<'_>, holders: &[Holder<'_>], waiting: &str) -> Vec<Remedy> {
    let gives_back = holders.is_empty() || holders.iter().any(|holder| holder.is_ending);
    let mut remedies = vec![];
    if gives_back {
        remedies.push(wait_unclaimed(facts));
    }
    let held = holders.iter().filter(|holder| !holder.is_ending);
    let jobs: BTreeSet<&str> = held.filter_map(|holder| holder.job).collect();
    for job in jobs.into_iter().take(MAX_NAMED) {
        remedies.push(match job == waiting {
            true => act(format!(
                "job `{}` wants the volume more than once: lower the `count` of its group, or give each allocation its own volume with `per_alloc`",
                one_line(job)
            )),
            false => {
                let why = format!(
                    "which holds the volume, if job `{}` is to have it instead",
                    one_line(waiting)
                );
                stop_job(facts, job, &why)
            }
        });
    }
    if !gives_back {
        let wait = wait_unclaimed(facts);
        let action = "only if what holds the volume ends by itself, as a batch job does: wait until the volume is unclaimed";
        remedies.push(Remedy { action: action.to_owned(), ..wait });
    }
    remedies
}

fn check_job(facts: &VolumeFacts<'_>, job: &str) -> Remedy {
    let (id, namespace) = (shell_quoted(job), shell_quoted(facts.volume.namespace.as_str()));
    let command = match on_agent(facts) {
        true => format!("nomad-csi explain placement {id} --namespace {namespace}"),
        false => format!("nomad job status {id}"),
    };
    run("check the job", command)
}

/// An allocation that has the volume.
struct Holder<'a> {
    alloc: &'a AllocId,
    job: Option<&'a str>,
    node: Option<&'a NodeId>,
    /// True if its allocation has ended or must stop, or its claim is being released.
    is_ending: bool,
    source: FactSource,
}

/// Returns who has the volume.
fn holders<'a>(facts: &VolumeFacts<'a>) -> Vec<Holder<'a>> {
    let find = |id: &AllocId| facts.volume.allocs.iter().find(|alloc| alloc.id == *id);
    let must_stop = |id: &AllocId| {
        find(id).is_some_and(|alloc| match alloc.desired {
            DesiredStatus::Stop | DesiredStatus::Evict => true,
            DesiredStatus::Run | DesiredStatus::Other(_) => false,
        })
    };
    let job_of = |id: &AllocId| {
        let alloc = find(id)?;
        (!alloc.job_id.is_empty()).then_some(alloc.job_id.as_str())
    };
    match facts.claims {
        Some(claims) => {
            let claims = claims.iter();
            let holders = claims.map(|claim: &VolumeClaim| Holder {
                alloc: &claim.alloc,
                job: job_of(&claim.alloc),
                node: Some(&claim.node),
                is_ending: claim.is_in_release() || must_stop(&claim.alloc),
                source: FactSource::Claims,
            });
            holders.collect()
        }
        None => {
            let ids = facts.volume.claiming_allocs();
            let holders = ids.map(|id| {
                let alloc = find(id);
                Holder {
                    alloc: id,
                    job: job_of(id),
                    node: alloc.map(|alloc| &alloc.node_id),
                    is_ending: must_stop(id) || alloc.is_some_and(|alloc| alloc.client.has_ended()),
                    source: FactSource::Volume,
                }
            });
            holders.collect()
        }
    }
}

fn holders_evidence(facts: &VolumeFacts<'_>, holders: &[Holder<'_>]) -> Vec<Evidence> {
    let named = holders.iter().take(MAX_NAMED).map(|holder| {
        let name = facts.alloc_name(holder.alloc);
        let node = holder.node.map(|node| format!(" on node `{}`", facts.node_name(node)));
        let does = match holder.is_ending {
            true => "still has the volume, and is to give it back",
            false => "holds the volume",
        };
        Evidence::new(holder.source, format!("{name} {does}{}", node.unwrap_or_default()))
    });
    let mut evidence: Vec<_> = named.collect();
    if let (Some(first), 1..) = (holders.first(), holders.len().saturating_sub(MAX_NAMED)) {
        let others = holders.len().saturating_sub(MAX_NAMED);
        evidence.push(Evidence::new(first.source, format!("{others} more hold the volume")));
    }
    evidence
}

/// Returns the allocations that name the volume and whose tasks did not start. On the agent, one whose claim of this volume is
/// published or has a problem is none: it does not wait for this volume, or another rule finds it.
pub(super) fn unstarted_tasks(facts: &VolumeFacts<'_>) -> Vec<Finding> {
    let unstarted = facts.unstarted.iter();
    let found = unstarted.filter_map(|one| {
        let mut claims = facts.claims.into_iter().flatten();
        let claim = claims.find(|claim| claim.alloc == one.alloc.id);
        if claim.is_some_and(|claim| claim.is_published || claim.problem.is_some()) {
            return None;
        }
        if claim.is_none() && waits_for_claim(facts, one) {
            return Some(waiting_alloc(facts, one));
        }
        let waited = facts.now.saturating_sub(one.reported_at);
        let is_late = one.alloc.client.has_ended() || waited >= PENDING_TIME;
        is_late.then(|| unstarted_task(facts, one))
    });
    found.collect()
}

/// Returns whether the agent reports that the allocation waits, and for this volume.
fn waits_for_claim(facts: &VolumeFacts<'_>, one: &UnstartedAlloc) -> bool {
    let names = one.report.contains(&facts.volume.key().quoted());
    on_agent(facts)
        && one.alloc.client == ClientStatus::Pending
        && one.report.starts_with(WAITING)
        && names
}

fn waiting_alloc(facts: &VolumeFacts<'_>, one: &UnstartedAlloc) -> Finding {
    let reason = one_line(one.report.strip_prefix(WAITING).unwrap_or(&one.report));
    let (id, node) = (one_line(one.alloc.id.as_str()), facts.node_name(&one.alloc.node_id));
    let holders = holders(facts);
    let mut evidence = vec![Evidence::new(
        FactSource::Allocations,
        format!(
            "allocation `{id}` is pending; reported {}: {reason}",
            ago(one.reported_at, facts.now)
        ),
    )];
    evidence.extend(holders_evidence(facts, &holders));
    let mut remedies = match holders.is_empty() {
        true => vec![plugin_status(facts)],
        false => claim_remedies(facts, &holders, &one.alloc.job_id),
    };
    remedies.push(check_alloc(facts, one));
    Finding {
        rule: Rule::JobWaiting,
        verdict: format!(
            "allocation `{id}` (job `{}`) is placed on node `{node}` and waits for the volume: {reason}",
            one_line(&one.alloc.job_id)
        ),
        confidence: Confidence::Known,
        evidence,
        remedies,
    }
}

fn check_alloc(facts: &VolumeFacts<'_>, one: &UnstartedAlloc) -> Remedy {
    let id = shell_quoted(one.alloc.id.as_str());
    let command = match on_agent(facts) {
        true => format!("nomad-csi alloc status {id}"),
        false => format!("nomad alloc status {id}"),
    };
    run("check what its node reports", command)
}

fn unstarted_task(facts: &VolumeFacts<'_>, one: &UnstartedAlloc) -> Finding {
    let id = one_line(one.alloc.id.as_str());
    let node = facts.node_name(&one.alloc.node_id);
    let status = one_line(one.alloc.client.as_str());
    Finding {
        rule: Rule::TasksNotStarted,
        verdict: format!(
            "allocation `{id}` (job `{}`) is {status} on node `{node}`: its tasks did not start",
            one_line(&one.alloc.job_id)
        ),
        confidence: Confidence::Inferred,
        evidence: vec![Evidence::new(
            FactSource::Allocations,
            format!(
                "allocation `{id}` names the volume, and its node reported {}: {}",
                ago(one.reported_at, facts.now),
                one_line(&one.report)
            ),
        )],
        remedies: vec![check_alloc(facts, one), plugin_status(facts)],
    }
}

#[cfg(test)]
mod tests;
