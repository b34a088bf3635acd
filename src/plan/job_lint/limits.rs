//! What all given jobs together need: one writer at a time, and no more volumes than the nodes can have.

use std::collections::{BTreeMap, BTreeSet};

use super::uses::VolumeUse;
use super::volumes::LintVolumes;
use crate::plugin_snapshots::PluginSnapshots;
use nomad_csi_model::diagnostic::{Code, Diagnostic};
use nomad_csi_model::{NamespacedId, PluginId};

/// Returns a problem if several groups write to a volume that has one writer. Groups that end by themselves can do so one
/// after the other.
pub(super) fn too_many_users(key: &NamespacedId, users: &[VolumeUse<'_>]) -> Option<Diagnostic> {
    let mut writers = users.iter().filter(|one| one.is_single_writer() && one.count() > 0);
    let first = writers.next()?;
    let another = writers.find(|one| !std::ptr::eq(one.group, first.group))?;
    let ends = first.job.job_type.ends() || another.job.job_type.ends();
    let of_job = match std::ptr::eq(first.job, another.job) {
        true => String::new(),
        false => format!(" of job `{}`", first.job.id),
    };
    let what = format!(
        "group `{}`{of_job} writes to volume {} too, which allows one writer",
        first.group.name,
        key.quoted()
    );
    let problem = match ends {
        true => another.warning(Code::JobTooManyUsers, &what),
        false => another.error(Code::JobTooManyUsers, &what),
    };
    let problem =
        problem.label(another.span(), "the second writer").label(first.span(), "first here");
    Some(match ends {
        true => problem.note("one of them waits until the other has ended"),
        false => problem.note("one of them could never start while the other runs"),
    }
    .help("give each group a volume of its own, set `read_only = true`, or use `multi-node-multi-writer`"))
}

/// Returns a problem for each plugin of which the jobs use more volumes than its nodes can have.
pub(super) fn too_many_volumes(
    users: &BTreeMap<NamespacedId, Vec<VolumeUse<'_>>>,
    volumes: &LintVolumes,
    snapshots: &PluginSnapshots,
) -> Vec<Diagnostic> {
    let mut of_plugins: BTreeMap<&PluginId, BTreeSet<&NamespacedId>> = BTreeMap::new();
    for key in users.keys() {
        if let Some(volume) = volumes.get(&key.namespace, &key.id) {
            of_plugins.entry(&volume.plugin).or_default().insert(key);
        }
    }
    let too_many = |(plugin, used): (&PluginId, BTreeSet<&NamespacedId>)| {
        let snapshot = snapshots.get(plugin)?;
        let (nodes, max) = (snapshot.node_count()?, snapshot.max_volumes?);
        let limit = nodes.saturating_mul(max);
        let count = u64::try_from(used.len()).unwrap_or(u64::MAX);
        if count <= limit {
            return None;
        }
        let beyond = used.into_iter().nth(usize::try_from(limit).ok()?)?;
        let one = users.get(beyond)?.first()?;
        let what = format!(
            "the jobs use {count} volumes of plugin `{plugin}`, and its nodes can have {limit}"
        );
        let problem =
            one.error(Code::JobVolumeLimit, &what).label(one.span(), "one volume too many");
        let node_word = if nodes == 1 { "node" } else { "nodes" };
        let volume_word = if max == 1 { "volume" } else { "volumes" };
        Some(
            problem
                .note(format!("{nodes} {node_word} with at most {max} {volume_word} each"))
                .note(snapshot.said())
                .help("run the plugin on more nodes, or use fewer volumes"),
        )
    };
    of_plugins.into_iter().filter_map(too_many).collect()
}
