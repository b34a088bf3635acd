//! Reads texts for tests.

use crate::diagnostic::{Diagnostic, Diagnostics, Severity, SourceMap};
use crate::spec::defaults::Defaults;
use crate::spec::parse::parse;
use crate::spec::syntax::Syntax;
use crate::spec::volume_spec::VolumeSpec;

/// The result of reading a text: volumes, diagnostics and sources.
pub(in crate::spec) struct ReadResult {
    pub(in crate::spec) specs: Vec<VolumeSpec>,
    pub(in crate::spec) diagnostics: Diagnostics,
    pub(in crate::spec) sources: SourceMap,
}

pub(in crate::spec) fn read(text: &str, syntax: Syntax) -> ReadResult {
    let (mut sources, mut diagnostics) = (SourceMap::default(), Diagnostics::default());
    let source = sources.add("test", text);
    let specs = parse(
        &mut sources,
        source,
        syntax,
        &Defaults::default(),
        &mut diagnostics,
    );
    ReadResult {
        specs,
        diagnostics,
        sources,
    }
}

/// Reads a text to volumes and codes: `code` of an error, `?code` of a warning.
pub(in crate::spec) fn read_as(text: &str, syntax: Syntax) -> (Vec<VolumeSpec>, Vec<String>) {
    let read = read(text, syntax);
    let messages = read.diagnostics.iter().map(code).collect();
    (read.specs, messages)
}

pub(in crate::spec) fn code(diagnostic: &Diagnostic) -> String {
    match diagnostic.severity {
        Severity::Error => diagnostic.code.to_string(),
        Severity::Warning => format!("?{}", diagnostic.code),
    }
}

/// Returns the diagnostics of a text with their first positions: `code line:column text`.
pub(in crate::spec) fn messages(text: &str, syntax: Syntax) -> Vec<String> {
    let ReadResult {
        diagnostics,
        sources,
        ..
    } = read(text, syntax);
    let place = |diagnostic: &Diagnostic| {
        let span = diagnostic.labels[0].span;
        let at = sources.location(span);
        let shown = sources.redacted_snippet(span);
        format!("{} {}:{} {shown}", code(diagnostic), at.line, at.column)
            .trim_end()
            .to_owned()
    };
    diagnostics.iter().map(place).collect()
}

/// Returns a complete volume in HCL with additional lines.
pub(in crate::spec) fn hcl(lines: &str) -> String {
    format!(
        "{lines}\nid = \"a\"\ntype = \"csi\"\nplugin_id = \"p\"\ncapability {{\n  access_mode = \"single-node-writer\"\n  attachment_mode = \"file-system\"\n}}\n"
    )
}

/// Returns a complete volume in JSON with additional members.
pub(in crate::spec) fn json(members: &str) -> String {
    format!(
        r#"{{{members}, "id": "a", "type": "csi", "plugin_id": "p",
        "capability": [{{"access_mode": "single-node-writer", "attachment_mode": "file-system"}}]}}"#
    )
}

/// Returns a complete volume in YAML with additional lines.
pub(in crate::spec) fn yaml(lines: &str) -> String {
    format!(
        "{lines}\nid: a\ntype: csi\nplugin_id: p\ncapability:\n  access_mode: single-node-writer\n  attachment_mode: file-system\n"
    )
}

pub(in crate::spec) fn name_of(text: &str, syntax: Syntax) -> (Option<String>, Vec<String>) {
    let (specs, messages) = read_as(text, syntax);
    (
        specs.into_iter().next().and_then(|spec| spec.request.name),
        messages,
    )
}
