//! Compares files with what is known of plugins with the server, which is right.

use std::collections::{BTreeMap, BTreeSet};

use super::inputs::PluginState;
use super::plugin_snapshots::{PluginSnapshot, PluginSnapshots, SnapshotDocument, SnapshotOrigin};
use nomad_csi_model::diagnostic::{Code, Diagnostic};
use nomad_csi_model::{Plugin, PluginId, one_line, shell_quoted};

/// Returns a warning for each file that says something else than the server.
pub fn outdated_snapshots(
    snapshots: &PluginSnapshots,
    plugins: &BTreeMap<PluginId, PluginState>,
) -> Vec<Diagnostic> {
    let outdated = |snapshot: &PluginSnapshot| {
        let id = &snapshot.plugin.summary.id;
        match plugins.get(id)? {
            PluginState::Known(plugin) => outdated(snapshot, plugin),
            PluginState::Missing | PluginState::Unknown => None,
        }
    };
    snapshots.iter().filter_map(outdated).collect()
}

fn outdated(snapshot: &PluginSnapshot, plugin: &Plugin) -> Option<Diagnostic> {
    let (said, known) = (document(&snapshot.plugin)?, document(plugin)?);
    let mut points = vec![];
    changed(&mut points, "the provider is", &said.provider, &known.provider);
    changed(&mut points, "the version is", &said.provider_version, &known.provider_version);
    match snapshot.origin {
        SnapshotOrigin::Server(_) => {
            differences(&mut points, &capabilities(&said), &capabilities(&known));
            let limit = |max: Option<u64>| max.map_or("none".to_owned(), |max| max.to_string());
            let (before, now) = (limit(said.max_volumes), limit(known.max_volumes));
            changed(&mut points, "the limit of volumes of a node is", &before, &now);
            differences(&mut points, &places(&said), &places(&known));
        }
        // A plugin names capabilities that servers do not report, and knows only the node that it runs on.
        SnapshotOrigin::Plugin => {}
    }
    if points.is_empty() {
        return None;
    }
    let id = &snapshot.plugin.summary.id;
    let file = one_line(&snapshot.file);
    let message = format!("`{file}` of plugin `{id}` is out of date: the server is right");
    let warning = Diagnostic::warning(Code::PluginSnapshotOutdated, message);
    let warning = points.into_iter().fold(warning, Diagnostic::note);
    Some(warning.help(match snapshot.origin {
        SnapshotOrigin::Server(_) => format!(
            "run `nomad-csi plugin snapshot {} --out {}`",
            shell_quoted(id),
            shell_quoted(&snapshot.file)
        ),
        SnapshotOrigin::Plugin => {
            "run `nomad-csi plugin probe --endpoint URL -o json` again".to_owned()
        }
    }))
}

fn document(plugin: &Plugin) -> Option<SnapshotDocument> {
    SnapshotDocument::of(plugin, None, None)
}

fn changed(points: &mut Vec<String>, what: &str, said: &str, known: &str) {
    if said != known {
        points.push(format!("{what} `{}` now, not `{}`", one_line(known), one_line(said)));
    }
}

fn differences(points: &mut Vec<String>, said: &BTreeSet<String>, known: &BTreeSet<String>) {
    points.extend(said.difference(known).map(|gone| format!("the plugin no longer has {gone}")));
    points.extend(known.difference(said).map(|new| format!("the plugin has {new} now")));
}

fn capabilities(document: &SnapshotDocument) -> BTreeSet<String> {
    let controller = document.controller_capabilities.iter();
    let controller = controller.map(|name| format!("controller capability {name}"));
    let node = document.node_capabilities.iter().map(|name| format!("node capability {name}"));
    controller.chain(node).collect()
}

fn places(document: &SnapshotDocument) -> BTreeSet<String> {
    let shown = |(key, value): (&String, &String)| format!("{key}={value}");
    let place = |segments: &BTreeMap<String, String>| {
        let segments: Vec<String> = segments.iter().map(shown).collect();
        one_line(&format!("a node with the topology ({})", segments.join(", ")))
    };
    let reported = document.topologies.iter().filter(|one| !one.segments.is_empty());
    reported.map(|one| place(&one.segments)).collect()
}

#[cfg(test)]
mod tests;
