//! The order of the rules: first whether the volumes exist, then whether each fits, then what all jobs together need.

use std::collections::{BTreeMap, BTreeSet};

use super::kinds::unfit_volume;
use super::limits::{too_many_users, too_many_volumes};
use super::sources::{missing_volumes, used_ids};
use super::uses::{LintedJob, VolumeUse};
use super::volumes::LintVolumes;
use crate::plugin_snapshots::PluginSnapshots;
use nomad_csi_model::NamespacedId;
use nomad_csi_model::diagnostic::Diagnostics;

/// Returns the existing volumes that the jobs use.
pub fn used_volumes(jobs: &[LintedJob<'_>], volumes: &LintVolumes) -> BTreeSet<NamespacedId> {
    let used = VolumeUse::of_jobs(jobs).flat_map(|one| {
        let ids = used_ids(one, volumes).into_iter();
        ids.map(move |id| NamespacedId::new(one.namespace().clone(), id))
    });
    used.filter(|key| volumes.get(&key.namespace, &key.id).is_some()).collect()
}

/// Checks jobs against volumes, and against files of plugins.
pub fn lint_jobs(
    jobs: &[LintedJob<'_>],
    volumes: &LintVolumes,
    snapshots: &PluginSnapshots,
) -> Diagnostics {
    let mut problems = Diagnostics::default();
    let mut users: BTreeMap<NamespacedId, Vec<VolumeUse<'_>>> = BTreeMap::new();
    for one in VolumeUse::of_jobs(jobs) {
        missing_volumes(one, volumes).into_iter().for_each(|problem| problems.push(problem));
        let mut found = None;
        for id in used_ids(one, volumes) {
            let Some(volume) = volumes.get(one.namespace(), &id) else {
                continue;
            };
            // One problem of all instances of a block is one problem.
            found = found.or_else(|| unfit_volume(one, &id, volume, snapshots));
            let key = NamespacedId::new(one.namespace().clone(), id);
            users.entry(key).or_default().push(one);
        }
        found.into_iter().for_each(|problem| problems.push(problem));
    }
    for (key, users) in &users {
        let problem = too_many_users(key, users);
        problem.into_iter().for_each(|problem| problems.push(problem));
    }
    let found = too_many_volumes(&users, volumes, snapshots);
    found.into_iter().for_each(|problem| problems.push(problem));
    problems
}
