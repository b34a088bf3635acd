//! What came of an import, for people.

use std::collections::BTreeMap;

use super::printer::one_line;
use crate::plan::Mark;
use crate::reconcile::ImportFound;

/// `1 volume`, `2 volumes`.
pub(crate) fn volumes(count: usize) -> String {
    if count == 1 {
        "1 volume".to_owned()
    } else {
        format!("{count} volumes")
    }
}

/// How many volumes are written exactly, and what is to be known of the others.
pub(crate) fn import_summary(found: &ImportFound) -> String {
    let marked: Vec<_> = found
        .volumes
        .iter()
        .filter(|one| !one.marks.is_empty())
        .collect();
    let exact = found.volumes.len() - marked.len();
    let first = format!(
        "{}: {exact} exact, {} marked; secrets are shown by no server, and `unknown` in the files.",
        volumes(found.volumes.len()),
        marked.len()
    );
    let marked = marked.iter().map(|one| {
        let marks: Vec<_> = one.marks.iter().map(Mark::as_str).collect();
        let key = one.written.request.key();
        format!("\n  {}: {}", one_line(&key.to_string()), marks.join(", "))
    });
    let mut unregistered: BTreeMap<&str, usize> = BTreeMap::new();
    for (plugin, _) in &found.unregistered {
        *unregistered.entry(plugin.as_str()).or_default() += 1;
    }
    let unregistered = unregistered.iter().map(|(plugin, count)| {
        let plugin = one_line(plugin);
        format!(
            "\nThe provider of plugin {plugin} lists {count} more, which are registered nowhere: `nomad-csi orphans --plugin {plugin}` lists them, `nomad-csi import --external {plugin} EXTERNAL_ID` writes one down."
        )
    });
    std::iter::once(first)
        .chain(marked)
        .chain(unregistered)
        .collect()
}
