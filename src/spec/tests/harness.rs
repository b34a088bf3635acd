//! Texts to read, and what came of it.

use crate::diagnostic::{Diagnostic, Diagnostics, Severity, SourceMap};
use crate::spec::parse::{Defaults, parse};
use crate::spec::syntax::Syntax;
use crate::spec::volume_spec::VolumeSpec;

/// A text, read: the volumes, what is said of it, and the texts that it points into.
pub(in crate::spec) struct Read {
    pub(in crate::spec) specs: Vec<VolumeSpec>,
    pub(in crate::spec) diagnostics: Diagnostics,
    pub(in crate::spec) sources: SourceMap,
}

pub(in crate::spec) fn read(text: &str, syntax: Syntax) -> Read {
    let (mut sources, mut diagnostics) = (SourceMap::default(), Diagnostics::default());
    let source = sources.add("test", text);
    let specs = parse(
        &mut sources,
        source,
        syntax,
        &Defaults::default(),
        &mut diagnostics,
    );
    Read {
        specs,
        diagnostics,
        sources,
    }
}

/// What a text means and what is said of it: `code` of an error, `?code` of a warning.
pub(in crate::spec) fn read_as(text: &str, syntax: Syntax) -> (Vec<VolumeSpec>, Vec<String>) {
    let read = read(text, syntax);
    let said = read.diagnostics.iter().map(code).collect();
    (read.specs, said)
}

pub(in crate::spec) fn code(said: &Diagnostic) -> String {
    match said.severity {
        Severity::Error => said.code.to_string(),
        Severity::Warning => format!("?{}", said.code),
    }
}

/// What is said of a text, each with its first place: `code line:column text`.
pub(in crate::spec) fn said(text: &str, syntax: Syntax) -> Vec<String> {
    let Read {
        diagnostics,
        sources,
        ..
    } = read(text, syntax);
    let place = |said: &Diagnostic| {
        let span = said.labels[0].span;
        let at = sources.location(span);
        let shown = sources.shown_snippet(span);
        format!("{} {}:{} {shown}", code(said), at.line, at.column)
            .trim_end()
            .to_owned()
    };
    diagnostics.iter().map(place).collect()
}

/// A complete volume in HCL with these lines added.
pub(in crate::spec) fn hcl(lines: &str) -> String {
    format!(
        "{lines}\nid = \"a\"\ntype = \"csi\"\nplugin_id = \"p\"\ncapability {{\n  access_mode = \"single-node-writer\"\n  attachment_mode = \"file-system\"\n}}\n"
    )
}

/// A complete volume in JSON with these members added.
pub(in crate::spec) fn json(members: &str) -> String {
    format!(
        r#"{{{members}, "id": "a", "type": "csi", "plugin_id": "p",
        "capability": [{{"access_mode": "single-node-writer", "attachment_mode": "file-system"}}]}}"#
    )
}

/// A complete volume in YAML with these lines added.
pub(in crate::spec) fn yaml(lines: &str) -> String {
    format!(
        "{lines}\nid: a\ntype: csi\nplugin_id: p\ncapability:\n  access_mode: single-node-writer\n  attachment_mode: file-system\n"
    )
}

pub(in crate::spec) fn name_of(text: &str, syntax: Syntax) -> (Option<String>, Vec<String>) {
    let (specs, said) = read_as(text, syntax);
    (
        specs.into_iter().next().and_then(|spec| spec.request.name),
        said,
    )
}
