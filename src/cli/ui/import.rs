//! The summary of an import.

use std::collections::BTreeMap;

use super::printer::one_line;
use nomad_csi_client::reconcile::ImportFound;
use nomad_csi_model::shell_quoted;
use nomad_csi_plan::ImportIssue;

/// Returns `1 volume`, `2 volumes` and so on.
pub(crate) fn volume_count(count: usize) -> String {
    if count == 1 { "1 volume".to_owned() } else { format!("{count} volumes") }
}

/// Returns the number of exact volumes, the marks of the others, and unregistered volumes.
pub(crate) fn import_summary(found: &ImportFound) -> String {
    let marked: Vec<_> = found.volumes.iter().filter(|one| !one.issues.is_empty()).collect();
    let exact = found.volumes.len() - marked.len();
    let first = format!(
        "{}: {exact} without problems, {} with problems; secrets are `unknown` in the files, because servers never return them",
        volume_count(found.volumes.len()),
        marked.len()
    );
    let marked = marked.iter().map(|one| {
        let issues: Vec<_> = one.issues.iter().map(ImportIssue::as_str).collect();
        let key = one.written.request.key();
        format!("\n  {}: {}", one_line(&key.to_string()), issues.join(", "))
    });
    let mut unregistered: BTreeMap<&str, usize> = BTreeMap::new();
    for (plugin, _) in &found.unregistered {
        *unregistered.entry(plugin.as_str()).or_default() += 1;
    }
    let unregistered = unregistered.iter().map(|(plugin, count)| {
        let (plugin, word) = (one_line(plugin), shell_quoted(plugin));
        format!(
            "\nThe provider of plugin {plugin} lists {count} more that are not registered: list them with `nomad-csi orphans --plugin {word}`, import one with `nomad-csi import --external {word} EXTERNAL_ID`"
        )
    });
    std::iter::once(first).chain(marked).chain(unregistered).collect()
}
