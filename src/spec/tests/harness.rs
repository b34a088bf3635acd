//! Reads texts for tests.

use crate::defaults::Defaults;
use crate::parse::parse;
use crate::syntax::Syntax;
use crate::volume_spec::VolumeSpec;
use nomad_csi_model::diagnostic::{Diagnostic, Diagnostics, Severity, SourceMap};

/// The result of reading a text: volumes, diagnostics and sources.
pub(crate) struct ReadResult {
    pub(crate) specs: Vec<VolumeSpec>,
    pub(crate) diagnostics: Diagnostics,
    pub(crate) sources: SourceMap,
}

pub(crate) fn read(text: &str, syntax: Syntax) -> ReadResult {
    let (mut sources, mut diagnostics) = (SourceMap::default(), Diagnostics::default());
    let source = sources.add("test", text);
    let specs = parse(&mut sources, source, syntax, &Defaults::default(), &mut diagnostics);
    ReadResult { specs, diagnostics, sources }
}

/// Reads a text to volumes and codes: `code` of an error, `?code` of a warning.
pub(crate) fn read_as(text: &str, syntax: Syntax) -> (Vec<VolumeSpec>, Vec<String>) {
    let read = read(text, syntax);
    let messages = read.diagnostics.iter().map(code).collect();
    (read.specs, messages)
}

pub(crate) fn code(diagnostic: &Diagnostic) -> String {
    match diagnostic.severity {
        Severity::Error => diagnostic.code.to_string(),
        Severity::Warning => format!("?{}", diagnostic.code),
    }
}

/// Returns the diagnostics of a text with their first positions: `code line:column text`.
pub(crate) fn messages(text: &str, syntax: Syntax) -> Vec<String> {
    let ReadResult { diagnostics, sources, .. } = read(text, syntax);
    let place = |diagnostic: &Diagnostic| {
        let span = diagnostic.labels[0].span;
        let at = sources.location(span);
        let shown = sources.redacted_snippet(span);
        format!("{} {}:{} {shown}", code(diagnostic), at.line, at.column).trim_end().to_owned()
    };
    diagnostics.iter().map(place).collect()
}

/// Returns a complete volume in HCL with additional lines.
pub(crate) fn hcl(lines: &str) -> String {
    format!(
        "{lines}\nid = \"a\"\ntype = \"csi\"\nplugin_id = \"p\"\ncapability {{\n  access_mode = \"single-node-writer\"\n  attachment_mode = \"file-system\"\n}}\n"
    )
}

/// Returns a complete volume in JSON with additional members.
pub(crate) fn json(members: &str) -> String {
    format!(
        r#"{{{members}, "id": "a", "type": "csi", "plugin_id": "p",
        "capability": [{{"access_mode": "single-node-writer", "attachment_mode": "file-system"}}]}}"#
    )
}

/// Returns a complete volume in YAML with additional lines.
pub(crate) fn yaml(lines: &str) -> String {
    format!(
        "{lines}\nid: a\ntype: csi\nplugin_id: p\ncapability:\n  access_mode: single-node-writer\n  attachment_mode: file-system\n"
    )
}

pub(crate) fn name_of(text: &str, syntax: Syntax) -> (Option<String>, Vec<String>) {
    let (specs, messages) = read_as(text, syntax);
    (specs.into_iter().next().and_then(|spec| spec.request.name), messages)
}
