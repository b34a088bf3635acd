//! Checks volumes against files with what is known of plugins, before a server is asked.
//!
//! The rules are those of a plan. A server knows better, so beside one only that is checked which no server knows: the
//! modes that a plugin refused, and plugins that no file is of.

use std::collections::{BTreeMap, BTreeSet};

use super::plugin_snapshots::{PluginSnapshot, PluginSnapshots};
use super::preconditions::{PluginOperation, snapshot_problem};
use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics, Span, closest_match};
use nomad_csi_model::{Capability, PluginId, Topology, one_line, shell_quoted};
use nomad_csi_spec::{Purpose, VolumeSpec};

/// Whether a server is asked as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotUse {
    /// The files are all that is known.
    Alone,
    /// A server is asked afterwards.
    BesideServer,
}

/// Adds the problems of volumes that files of plugins show.
pub fn snapshot_problems(
    specs: &[VolumeSpec],
    purpose: Purpose,
    snapshots: &PluginSnapshots,
    use_: SnapshotUse,
    diagnostics: &mut Diagnostics,
) {
    let mut unknown: BTreeMap<(&PluginId, Span), Vec<&VolumeSpec>> = BTreeMap::new();
    for spec in specs {
        let plugin = &spec.request.plugin_id;
        let Some(snapshot) = snapshots.get(plugin) else {
            unknown.entry((plugin, spec.field_span("plugin_id"))).or_default().push(spec);
            continue;
        };
        let problems = refused_modes(spec, snapshot).into_iter().chain(match use_ {
            SnapshotUse::Alone => plugin_problems(spec, purpose, snapshot),
            SnapshotUse::BesideServer => vec![],
        });
        diagnostics.extend(problems.map(|problem| spec.explain(problem)).collect());
    }
    for ((plugin, _), specs) in unknown {
        diagnostics.extend(no_snapshot(plugin, &specs, snapshots).into_iter().collect());
    }
}

/// Returns the problems that a plan would show for a new volume, and those of the keys of its topologies.
fn plugin_problems(
    spec: &VolumeSpec,
    purpose: Purpose,
    snapshot: &PluginSnapshot,
) -> Vec<Diagnostic> {
    if !purpose.creates(spec) {
        return snapshot_problem(spec, snapshot, PluginOperation::Register).into_iter().collect();
    }
    let problem = snapshot_problem(spec, snapshot, PluginOperation::Create);
    let key = unknown_key(spec, snapshot);
    match (problem, key) {
        (Some(problem), Some(key)) if problem.code == Code::PluginTopology => {
            vec![key.explains(problem)]
        }
        (problem, key) => {
            let key = key.map(|key| key.warning(spec, snapshot));
            problem.into_iter().chain(key).collect()
        }
    }
}

/// A key of a requested topology that no node has.
struct UnknownKey<'a> {
    key: &'a str,
    known: BTreeSet<&'a str>,
}

impl UnknownKey<'_> {
    fn explains(&self, problem: Diagnostic) -> Diagnostic {
        let problem =
            problem.note(format!("no node has a topology with the key `{}`", one_line(self.key)));
        match closest_match(self.key, self.known.iter().copied()) {
            Some(near) => problem.help(format!("did you mean `{}`?", one_line(near))),
            None => problem,
        }
    }

    fn warning(&self, spec: &VolumeSpec, snapshot: &PluginSnapshot) -> Diagnostic {
        let message = format!(
            "volume {}: no node of plugin `{}` has a topology with the key `{}`",
            spec.key().quoted(),
            snapshot.plugin.summary.id,
            one_line(self.key)
        );
        let known: Vec<String> =
            self.known.iter().map(|key| format!("`{}`", one_line(key))).collect();
        let warning = Diagnostic::warning(Code::PluginTopology, message)
            .label(spec.field_span("topology_request"), "")
            .note(format!("the topologies of its nodes have the keys: {}", known.join(", ")))
            .note(snapshot.said());
        match closest_match(self.key, self.known.iter().copied()) {
            Some(near) => warning.help(format!("did you mean `{}`?", one_line(near))),
            None => warning.help("use one of these keys, or remove the topology"),
        }
    }
}

/// Returns the first key of a requested topology that no node has. Nothing is known if a node reports no topology.
fn unknown_key<'a>(spec: &'a VolumeSpec, snapshot: &'a PluginSnapshot) -> Option<UnknownKey<'a>> {
    let nodes = snapshot.nodes.as_ref().filter(|nodes| !nodes.is_empty())?;
    if nodes.iter().any(|(place, _)| place.segments.is_empty()) {
        return None;
    }
    fn keys(place: &Topology) -> impl Iterator<Item = &str> {
        place.segments.keys().map(String::as_str)
    }
    let known: BTreeSet<&str> = nodes.iter().flat_map(|(place, _)| keys(place)).collect();
    let request = spec.request.topology_request.as_ref()?;
    let mut requested = request.required.iter().chain(&request.preferred).flat_map(keys);
    let key = requested.find(|key| !known.contains(key))?;
    Some(UnknownKey { key, known })
}

/// Returns warnings of modes that the plugin refused for another volume. A mode that it was never asked about is not known.
fn refused_modes(spec: &VolumeSpec, snapshot: &PluginSnapshot) -> Vec<Diagnostic> {
    let refused = |(at, mode): (usize, &Capability)| {
        let reason = snapshot.refused_modes.get(mode)?;
        let message = format!(
            "volume {}: plugin `{}` refused `{}` with `{}`",
            spec.key().quoted(),
            snapshot.plugin.summary.id,
            mode.access_mode,
            mode.attachment_mode
        );
        let place = spec.capability_spans.get(at).copied();
        let warning = Diagnostic::warning(Code::PluginModeRefused, message)
            .label(place.unwrap_or_else(|| spec.field_span("capability")), "");
        let warning = match reason.is_empty() {
            true => warning,
            false => warning.note(format!("the plugin's reason: {}", one_line(reason))),
        };
        Some(warning.note(snapshot.said()).help(Code::PluginModeRefused.advice()))
    };
    spec.request.capabilities.iter().enumerate().filter_map(refused).collect()
}

/// Returns the warning of a plugin that no file is of, for the volumes that name it at one place.
fn no_snapshot(
    plugin: &PluginId,
    specs: &[&VolumeSpec],
    snapshots: &PluginSnapshots,
) -> Option<Diagnostic> {
    let first = specs.first()?;
    let others = match specs.len() - 1 {
        0 => String::new(),
        1 => " and 1 more".to_owned(),
        count => format!(" and {count} more"),
    };
    let message = format!(
        "volume {}{others}: no file of `--plugins` is of plugin `{plugin}`",
        first.key().quoted()
    );
    let warning = Diagnostic::warning(Code::PluginNoSnapshot, message)
        .label(first.field_span("plugin_id"), "");
    let ids = snapshots.ids().map(PluginId::as_str);
    let warning = match closest_match(plugin.as_str(), ids.clone()) {
        Some(near) => warning.help(format!("did you mean plugin `{near}`?")),
        None => warning.note(format!("the files are of: {}", ids.collect::<Vec<_>>().join(", "))),
    };
    let quoted = shell_quoted(plugin);
    let help = format!("run `nomad-csi plugin snapshot {quoted} --out FILE` to write its file");
    Some(first.explain(warning.help(help)))
}

#[cfg(test)]
mod tests;
