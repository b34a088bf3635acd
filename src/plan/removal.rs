//! May this volume be removed?
//!
//! Nomad deletes the data in the provider before it asks whether anybody uses it (W09,
//! `nomad-http-api` 3.7), and lets two registrations share one external volume, so that deleting one
//! destroys the other's data (`users` 4). So it is asked here, of what was read right before. The
//! names of those in the way are in the answer.

use crate::diagnostic::{Code, Diagnostic};
use crate::model::{Alloc, AllocId, ClientStatus, DesiredStatus, Volume, VolumeSummary};

/// How a volume is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// The registration goes, the data stays.
    Deregister {
        /// Claims of allocations that have ended are dropped with it.
        force: bool,
    },
    /// The data goes too.
    Delete,
}

/// Every reason why a volume may not be removed; `others` are the volumes that can be seen, wherever
/// they are.
pub fn removal_problems(
    volume: &Volume,
    removal: Removal,
    others: &[VolumeSummary],
) -> Vec<Diagnostic> {
    let claims = match removal {
        Removal::Deregister { force: true } => live_claims(volume),
        Removal::Deregister { force: false } | Removal::Delete => all_claims(volume),
    };
    let mut problems = vec![];
    if !claims.is_empty() {
        problems.push(claimed(volume, &claims, removal));
    }
    if removal == Removal::Delete {
        let sharing: Vec<_> = others
            .iter()
            .filter(|other| shares_data(volume, other))
            .collect();
        if !sharing.is_empty() {
            problems.push(shared(volume, &sharing));
        }
    }
    problems
}

/// A claim's allocation, if the server still knows it.
type Claim<'a> = (&'a AllocId, Option<&'a Alloc>);

fn all_claims(volume: &Volume) -> Vec<Claim<'_>> {
    let known = |id: &AllocId| volume.allocs.iter().find(|alloc| alloc.id == *id);
    volume.claimants().map(|id| (id, known(id))).collect()
}

/// As the server judges a forced deregistration: an allocation that is gone, or that has ended on
/// the server or on its client, holds nothing back (`csi-orchestration` 2.9).
fn live_claims(volume: &Volume) -> Vec<Claim<'_>> {
    let is_live = |(_, alloc): &Claim<'_>| {
        alloc.is_some_and(|alloc| {
            let wanted = match alloc.desired {
                DesiredStatus::Stop | DesiredStatus::Evict => false,
                DesiredStatus::Run | DesiredStatus::Other(_) => true,
            };
            wanted && !alloc.client.is_terminal()
        })
    };
    all_claims(volume).into_iter().filter(is_live).collect()
}

fn claimed(volume: &Volume, claims: &[Claim<'_>], removal: Removal) -> Diagnostic {
    let key = volume.key();
    let what = match removal {
        Removal::Delete => "deleted",
        Removal::Deregister { .. } => "deregistered",
    };
    let count = match claims.len() {
        1 => "1 allocation claims it".to_owned(),
        count => format!("{count} allocations claim it"),
    };
    let message = format!("volume {key} is not {what}: {count}");
    let mut problem = Diagnostic::error(Code::VolumeInUse, message);
    for claim in claims {
        problem = problem.note(claim_words(claim));
    }
    let stop = "stop the jobs that use it, wait until their allocations have ended, and try again";
    problem = problem.help(stop);
    let gone = claims.iter().any(|(_, alloc)| alloc.is_none());
    match removal {
        Removal::Deregister { force: false } if gone => {
            problem.help("claims of allocations that have ended, or that the server no longer knows, are dropped by `--force`")
        }
        Removal::Delete if gone => {
            problem.help("a claim of an allocation that the server no longer knows is stuck: no job holds it; once you are sure that nothing has the volume mounted, `volume deregister --force` and registering it again frees it")
        }
        Removal::Deregister { .. } | Removal::Delete => problem,
    }
}

fn claim_words((id, alloc): &Claim<'_>) -> String {
    let Some(alloc) = alloc else {
        return format!("allocation {id}: the server no longer knows it");
    };
    let node = if alloc.node_name.is_empty() {
        alloc.node_id.to_string()
    } else {
        format!("{} ({})", alloc.node_name, alloc.node_id)
    };
    format!(
        "allocation {id}: job {}, group {}, node {node}, {}",
        alloc.job_id,
        alloc.task_group,
        status(&alloc.client)
    )
}

fn status(client: &ClientStatus) -> &str {
    match client {
        ClientStatus::Pending => "pending",
        ClientStatus::Running => "running",
        ClientStatus::Complete => "complete, but not yet released",
        ClientStatus::Failed => "failed, but not yet released",
        ClientStatus::Lost => "lost, but not yet released",
        ClientStatus::Unknown => "unknown: its node is disconnected",
        ClientStatus::Other(word) => word,
    }
}

/// Whether another volume is the same one for the provider. One without an external ID is known to
/// it by its own ID (B35).
fn shares_data(volume: &Volume, other: &VolumeSummary) -> bool {
    let is_itself = other.namespace == volume.namespace && other.id == volume.id;
    let remote = other
        .external_id
        .as_ref()
        .map_or(other.id.as_str(), |id| id.as_str());
    !is_itself && other.plugin_id == volume.plugin_id && remote == volume.remote_id().as_str()
}

fn shared(volume: &Volume, others: &[&VolumeSummary]) -> Diagnostic {
    let key = volume.key();
    let remote = volume.remote_id();
    let message = format!("volume {key} is not deleted: its data is also another volume's");
    let mut problem = Diagnostic::error(Code::VolumeShared, message);
    for other in others {
        problem = problem.note(format!(
            "volume {} in namespace {} has the same external ID {remote} at plugin {}",
            other.id, other.namespace, other.plugin_id
        ));
    }
    problem.help(format!(
        "`volume deregister {}` removes this registration and leaves the data to the other",
        volume.id
    ))
}

#[cfg(test)]
mod tests;
