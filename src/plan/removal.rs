//! May this volume be removed?
//!
//! Nomad deletes the data in the provider before it asks whether anybody uses it (W09,
//! `nomad-http-api` 3.7), and lets two registrations share one external volume, so that deleting one
//! destroys the other's data (`users` 4). So it is asked here, of what was read right before. The
//! names of those in the way are in the answer.

use super::holder::Holder;
use crate::diagnostic::{Code, Diagnostic};
use crate::model::{Volume, VolumeSummary};

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
    let holders = holders_in_the_way(volume, removal);
    let mut problems = vec![];
    if !holders.is_empty() {
        problems.push(claimed(volume, &holders, removal));
    }
    if removal == Removal::Delete {
        problems.extend(shared(volume, others));
    }
    problems
}

/// What `--force` passes over and what it cannot: the claims that are dropped; `None` if there are none.
pub fn forced_claims(volume: &Volume) -> Option<Diagnostic> {
    let dropped: Vec<Holder> = Holder::of(volume)
        .into_iter()
        .filter(|holder| !holder.is_live())
        .collect();
    if dropped.is_empty() {
        return None;
    }
    let key = volume.key();
    let claims = match dropped.len() {
        1 => "1 claim".to_owned(),
        count => format!("{count} claims"),
    };
    let message = format!("`--force` drops {claims} of volume {key}");
    let mut warning = Diagnostic::warning(Code::VolumeInUse, message);
    for claim in dropped {
        warning = warning.note(claim.to_string());
    }
    Some(
        warning
            .note("it skips the server's check that nobody claims the volume, for claims like these only; where one may still run the server refuses all the same")
            .note("nothing is unmounted on a node or detached from one by it")
            .help("be sure that nothing has the volume mounted any more"),
    )
}

/// Who holds the volume back from being removed so.
pub(super) fn holders_in_the_way(volume: &Volume, removal: Removal) -> Vec<Holder> {
    let mut holders = Holder::of(volume);
    match removal {
        Removal::Deregister { force: true } => holders.retain(Holder::is_live),
        Removal::Deregister { force: false } | Removal::Delete => {}
    }
    holders
}

/// Why it is not removed now: who claims it.
pub(super) fn claimed(volume: &Volume, claims: &[Holder], removal: Removal) -> Diagnostic {
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
        problem = problem.note(claim.to_string());
    }
    let stop = "stop the jobs that use it, wait until their allocations have ended, and try again";
    problem = problem.help(stop);
    let gone = claims.iter().any(|holder| holder.alloc.is_none());
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

/// Why its data is not deleted: who else has it.
pub(super) fn shared(volume: &Volume, others: &[VolumeSummary]) -> Option<Diagnostic> {
    let sharing = |other: &&VolumeSummary| shares_data(volume, other);
    let others: Vec<_> = others.iter().filter(sharing).collect();
    if others.is_empty() {
        return None;
    }
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
    Some(problem.help(format!(
        "`volume deregister {}` removes this registration and leaves the data to the other",
        volume.id
    )))
}

#[cfg(test)]
mod tests;
