//! Whole texts through the reader: what they mean, and what is said of them.

use super::*;
use crate::diagnostic::{Diagnostics, Severity, SourceMap};

/// What a text means and what is said of it: `code` of an error, `?code` of a warning.
pub(super) fn read_as(text: &str, syntax: Syntax) -> (Vec<VolumeSpec>, Vec<String>) {
    let (mut sources, mut diagnostics) = (SourceMap::default(), Diagnostics::default());
    let source = sources.add("test", text);
    let specs = parse(
        &mut sources,
        source,
        syntax,
        &Defaults::default(),
        &mut diagnostics,
    );
    let said = diagnostics.iter().map(|said| match said.severity {
        Severity::Error => said.code.to_string(),
        Severity::Warning => format!("?{}", said.code),
    });
    (specs, said.collect())
}

#[test]
fn a_flat_file_is_one_volume() {
    let (specs, said) = read_as(template(Syntax::Hcl), Syntax::Hcl);
    assert_eq!(said, Vec::<String>::new());
    assert_eq!(specs.len(), 1);
    assert_eq!(specs[0].request.id.as_str(), "database");
    assert_eq!(specs[0].request.capabilities.len(), 2);
    assert_eq!(specs[0].request.capacity.min.get(), 1 << 30);
}
