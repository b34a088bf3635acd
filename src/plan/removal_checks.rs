//! Checks before a volume is removed: its claims, and other registrations of its data.
//!
//! Nomad deletes the data at the provider before it checks for claims (W09). It also allows two
//! registrations of one external ID, so deleting one volume destroys the data of the other. These
//! checks use the state that was read immediately before, and name every obstacle.

use super::claim_drops::ClaimDrops;
use super::claiming_alloc::{ClaimingAlloc, UNKNOWN_CLAIM_HELP};
use nomad_csi_model::diagnostic::{Code, Diagnostic};
use nomad_csi_model::{PluginId, Volume, VolumeSummary};

/// The kind of a removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// Remove the registration and keep the data.
    Deregister {
        /// Also drop the claims that [`ClaimDrops`] allows to drop.
        force: bool,
    },
    /// Delete the data and the registration.
    Delete,
}

/// Returns every reason against removing a volume. `others` are all visible volumes, in all
/// namespaces; `drops` decides which claims `--force` drops.
pub fn removal_problems(
    volume: &Volume,
    removal: Removal,
    others: &[VolumeSummary],
    drops: &ClaimDrops,
) -> Vec<Diagnostic> {
    let claims = ClaimingAlloc::of(volume);
    let mut problems = match removal {
        Removal::Deregister { force: true } => drops.problems(volume),
        Removal::Deregister { force: false } | Removal::Delete if claims.is_empty() => vec![],
        Removal::Deregister { force: false } | Removal::Delete => {
            vec![claimed_error(volume, &claims, removal)]
        }
    };
    if removal == Removal::Delete {
        problems.extend(shared_data_error(volume, others));
    }
    problems
}

/// Warns about the claims that `--force` drops; `None` if there are none.
pub fn forced_claims_warning(volume: &Volume) -> Option<Diagnostic> {
    let dropped = ClaimingAlloc::of(volume);
    if dropped.is_empty() {
        return None;
    }
    let claims = match dropped.len() {
        1 => "1 claim".to_owned(),
        count => format!("{count} claims"),
    };
    let message = format!("`--force` drops {claims} of volume {}", volume.key().quoted());
    let mut warning = Diagnostic::warning(Code::VolumeInUse, message);
    for claim in dropped {
        warning = warning.note(claim.to_string());
    }
    Some(
        warning
            .note("`--force` does not unmount the volume or detach it from a node")
            .help("make sure that no node has the volume mounted before another job uses it"),
    )
}

/// The error for a volume that is claimed.
pub(super) fn claimed_error(
    volume: &Volume,
    claims: &[ClaimingAlloc],
    removal: Removal,
) -> Diagnostic {
    let key = volume.key().quoted();
    let verb = match removal {
        Removal::Delete => "delete",
        Removal::Deregister { .. } => "deregister",
    };
    let count = match claims.len() {
        1 => "1 allocation claims it".to_owned(),
        count => format!("{count} allocations claim it"),
    };
    let message = format!("cannot {verb} volume {key}: {count}");
    let mut problem = Diagnostic::error(Code::VolumeInUse, message);
    for claim in claims {
        problem = problem.note(claim.to_string());
    }
    let gone = claims.iter().any(|claim| claim.alloc.is_none());
    if claims.iter().any(|claim| claim.alloc.is_some() && !claim.has_ended()) {
        problem = problem.help(
            "stop the jobs that use the volume, wait until their allocations end, and try again",
        );
    }
    match removal {
        Removal::Deregister { .. } if gone || claims.iter().all(ClaimingAlloc::has_ended) => {
            problem.help("run `nomad-csi volume doctor` to see why the server has not released it; `--force` drops claims only if nothing can write any more")
        }
        Removal::Delete if gone => problem.help(UNKNOWN_CLAIM_HELP),
        Removal::Deregister { .. } | Removal::Delete => problem,
    }
}

/// Returns whether two registrations may have the same data. The provider knows a volume without an external ID
/// by its volume ID (B35).
pub fn shares_data(volume: &Volume, other: &VolumeSummary) -> bool {
    let is_itself = other.namespace == volume.namespace && other.id == volume.id;
    let serves = (&volume.plugin_id, volume.provider.as_str());
    let is_served = (&other.plugin_id, other.provider.as_str());
    !is_itself
        && may_be_one_provider(serves, is_served)
        && other.remote_id() == volume.remote_id().as_str()
}

/// Returns whether two plugins, each with the name of its provider, may serve the same volumes: a new version of a driver runs
/// beside the old one under another ID. A provider without a known name may be any.
pub(super) fn may_be_one_provider(one: (&PluginId, &str), other: (&PluginId, &str)) -> bool {
    one.0 == other.0 || one.1 == other.1 || one.1.is_empty() || other.1.is_empty()
}

/// Returns the error for data that other registrations share; `None` if there are none.
pub(super) fn shared_data_error(volume: &Volume, others: &[VolumeSummary]) -> Option<Diagnostic> {
    let sharing = |other: &&VolumeSummary| shares_data(volume, other);
    let others: Vec<_> = others.iter().filter(sharing).collect();
    if others.is_empty() {
        return None;
    }
    let key = volume.key().quoted();
    let remote = volume.remote_id();
    let message = format!("cannot delete volume {key}: another volume has the same data");
    let mut problem = Diagnostic::error(Code::VolumeShared, message);
    for other in &others {
        problem = problem.note(format!(
            "volume `{}` in namespace `{}` has the same external ID `{remote}` at plugin `{}`",
            other.id, other.namespace, other.plugin_id
        ));
    }
    let problem = problem.help(format!(
        "run `volume deregister {}` to remove this registration and keep the data",
        volume.id
    ));
    Some(
        match others
            .iter()
            .any(|other| other.plugin_id == volume.plugin_id)
        {
            true => problem,
            false => {
                problem.note("both plugins are of one provider, or their provider is not known").help("if they serve different storage, delete the data there, then deregister the volume")
            }
        },
    )
}

#[cfg(test)]
mod tests;
