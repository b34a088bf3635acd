//! Whether an existing volume fits the group that uses it: its modes, whether it may be written, and its topologies.

use super::uses::VolumeUse;
use super::volumes::LintVolume;
use crate::plugin_snapshots::PluginSnapshots;
use nomad_csi_model::diagnostic::{Code, Diagnostic};
use nomad_csi_model::{Capability, Topology, VolumeId};

/// Returns why allocations of the group cannot use the volume.
pub(super) fn unfit_volume(
    one: VolumeUse<'_>,
    id: &VolumeId,
    volume: &LintVolume,
    snapshots: &PluginSnapshots,
) -> Option<Diagnostic> {
    unwritable(one, id, volume)
        .or_else(|| wrong_capability(one, id, volume))
        .or_else(|| unreachable(one, id, volume, snapshots))
}

/// The group writes, and the volume is for readers only.
fn unwritable(one: VolumeUse<'_>, id: &VolumeId, volume: &LintVolume) -> Option<Diagnostic> {
    if one.volume.read_only {
        return None;
    }
    let capabilities = volume.capabilities.as_deref().unwrap_or_default();
    let only_reads = !capabilities.is_empty()
        && capabilities.iter().all(|capability| !capability.access_mode.allows_writes());
    let is_read_only = volume.read_only == Some(true);
    if !only_reads && !is_read_only {
        return None;
    }
    let what = format!("the group writes, and volume `{id}` can only be read");
    let problem = one
        .error(Code::JobVolumeReadOnly, &what)
        .label(one.span(), "without `read_only = true`, the group writes");
    let problem = match &volume.places {
        Some(places) if is_read_only => problem.label(places.read_only, "declared as read-only"),
        Some(places) => problem.label(places.capability, "every access mode only reads"),
        None => problem.note(format!("the volume has: {}", list(capabilities))),
    };
    Some(
        problem.help(
            "set `read_only = true` in the job, or give the volume an access mode that writes",
        ),
    )
}

/// The volume does not have the modes.
fn wrong_capability(one: VolumeUse<'_>, id: &VolumeId, volume: &LintVolume) -> Option<Diagnostic> {
    let (desired, capabilities) = (one.capability?, volume.capabilities.as_deref()?);
    if capabilities.contains(&desired) {
        return None;
    }
    let Capability { access_mode, attachment_mode } = desired;
    let what = format!("volume `{id}` does not have `{access_mode}` with `{attachment_mode}`");
    let problem = one.error(Code::JobVolumeCapability, &what).label(one.field("access_mode"), "");
    let problem = match &volume.places {
        Some(places) => problem.label(places.capability, "the capabilities of the volume"),
        None => problem,
    };
    let problem = problem.note(format!("the volume has: {}", list(capabilities)));
    Some(problem.help("use modes that the volume has, or add a `capability` to the volume"))
}

/// No node of the plugin can reach the volume.
fn unreachable(
    one: VolumeUse<'_>,
    id: &VolumeId,
    volume: &LintVolume,
    snapshots: &PluginSnapshots,
) -> Option<Diagnostic> {
    let required = &volume.topologies.required;
    let snapshot = snapshots.get(&volume.plugin)?;
    let nodes = snapshot.nodes.as_ref().filter(|nodes| !nodes.is_empty())?;
    let is_known = nodes.iter().all(|(place, _)| !place.segments.is_empty());
    let reaches = |place: &Topology| required.iter().any(|desired| place.is_within(desired));
    if !is_known || required.is_empty() || nodes.iter().any(|(place, _)| reaches(place)) {
        return None;
    }
    let plugin = &volume.plugin;
    let what = format!("no node of plugin `{plugin}` has a topology of volume `{id}`");
    let problem =
        one.error(Code::JobVolumeTopology, &what).label(one.span(), "no node can run this group");
    let problem = match &volume.places {
        Some(places) => problem.label(places.topology, "no node has one of these"),
        None => problem,
    };
    let shown: Vec<String> = nodes.iter().map(|(place, _)| format!("({place})")).collect();
    let problem = problem.note(format!("the nodes have: {}", shown.join(", ")));
    Some(
        problem
            .note(snapshot.said())
            .help("run the plugin on a node with a topology of the volume"),
    )
}

fn list(capabilities: &[Capability]) -> String {
    let shown = |one: &Capability| format!("`{}` with `{}`", one.access_mode, one.attachment_mode);
    capabilities.iter().map(shown).collect::<Vec<_>>().join(", ")
}
