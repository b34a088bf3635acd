//! Formats HCL as `fmt` does. What is not HCL, or does not parse, stays as it is.

use std::path::Path;

use super::edits::{TextEdit, difference};
use super::workspace::Workspace;
use nomad_csi_model::diagnostic::{Diagnostics, SourceMap};
use nomad_csi_spec::{FormatChoice, Syntax, format_hcl};

/// Returns the edits that format a file.
pub(crate) fn formatting(workspace: &Workspace, path: &Path) -> Vec<TextEdit> {
    let Some((text, syntax)) = workspace.text(path) else {
        return vec![];
    };
    match syntax {
        Syntax::Hcl if !Syntax::looks_like_json(&text) => {}
        Syntax::Hcl | Syntax::Yaml | Syntax::Json => return vec![],
    }
    let mut sources = SourceMap::default();
    let source = sources.add(workspace.shown(path), &*text);
    let mut problems = Diagnostics::default();
    let formatted = format_hcl(&mut sources, source, FormatChoice::Found, &mut problems);
    formatted.map_or_else(Vec::new, |new| difference(&text, &new, workspace.encoding))
}
