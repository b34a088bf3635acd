//! The result of `plugin diff`, as text and as JSON.

use serde_json::{Value, json};

use crate::cli::ui::printer::one_line;
use crate::cli::ui::table::{heading, key_values, table};
use nomad_csi_conformance::{LossKind, ProbeDocument, ProfileDiff};

/// Returns what is lost and what is new, as text.
pub(crate) fn profile_diff_text(
    old: &ProbeDocument,
    new: &ProbeDocument,
    diff: &ProfileDiff,
) -> String {
    let version = |of: &ProbeDocument| one_line(&format!("{} {}", of.name, of.vendor_version));
    let mut sections = vec![key_values([("Old", version(old)), ("New", version(new))])];
    if diff.lost.is_empty() {
        sections.push("Nothing is lost\n".to_owned());
    } else {
        let rows = diff.lost.iter().map(|loss| {
            let kind = match loss.kind {
                LossKind::Breaking => "breaking",
                LossKind::Feature => "feature",
            };
            [kind.to_owned(), loss.what.clone(), loss.consequence.clone()]
        });
        sections.push(heading("Lost") + &table(["Kind", "What", "Consequence"], rows));
    }
    if !diff.gained.is_empty() {
        let lines = diff.gained.iter().map(|name| format!("{}\n", one_line(name)));
        sections.push(heading("New") + &lines.collect::<String>());
    }
    sections.join("\n")
}

/// Returns what is lost and what is new, as JSON.
pub(crate) fn profile_diff_json(
    old: &ProbeDocument,
    new: &ProbeDocument,
    diff: &ProfileDiff,
) -> Value {
    let version =
        |of: &ProbeDocument| json!({"name": of.name, "vendor_version": of.vendor_version});
    json!({
        "version": 1,
        "old": version(old),
        "new": version(new),
        "is_breaking": diff.is_breaking(),
        "lost": diff.lost,
        "gained": diff.gained,
    })
}
