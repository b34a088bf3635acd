//! Quick fixes: the replacements that problems suggest.

use std::path::Path;

use serde_json::{Value, json};

use super::analysis::Analysis;
use super::edits::TextEdit;
use super::positions::{Lines, Range};
use super::published::diagnostic;
use super::uri::uri_of;
use super::workspace::Workspace;

/// Returns the quick fixes for problems in a range of a file.
pub(crate) fn quick_fixes(
    workspace: &Workspace,
    analysis: &Analysis,
    path: &Path,
    range: &Range,
) -> Vec<Value> {
    let Some(text) = analysis.text(path) else {
        return vec![];
    };
    let lines = Lines::new(&text.text, workspace.encoding);
    let of_text = analysis.problems.iter().filter(|problem| {
        problem.labels.first().is_some_and(|label| label.span.source == text.source)
    });
    let mut fixes = vec![];
    for problem in of_text {
        let Some(replacement) = &problem.replacement else {
            continue;
        };
        let replaced = lines.range(&replacement.span.range());
        let shown = diagnostic(workspace, analysis, &lines, problem);
        let is_here = replaced.touches(range) || shown.range.touches(range);
        if replacement.span.source != text.source || !is_here {
            continue;
        }
        let new_text = replacement.text.clone();
        let first_line = new_text.lines().next().unwrap_or_default().to_owned();
        let edit = TextEdit { range: replaced, new_text };
        let mut changes = serde_json::Map::new();
        changes.insert(uri_of(path), json!([edit]));
        fixes.push(json!({
            "title": format!("{}: `{first_line}`", replacement.title),
            "kind": "quickfix",
            "diagnostics": [shown],
            "isPreferred": true,
            "edit": {"changes": changes},
        }));
    }
    fixes
}
