//! Parses a text to the job that it declares.

use super::decode;
use super::file::JobFile;
use crate::{Defaults, Syntax, read_job_text};
use nomad_csi_model::diagnostic::{Diagnostics, SourceId, SourceMap};

/// Parses the job of one text; `None` if there is none. Problems are added to `diagnostics`.
///
/// The values of environments and of keys that look like secrets are hidden in `sources`, even if
/// the text does not parse. Of a withheld text, no diagnostic shows anything.
pub fn parse_job(
    sources: &mut SourceMap,
    source: SourceId,
    syntax: Syntax,
    defaults: &Defaults,
    diagnostics: &mut Diagnostics,
) -> Option<JobFile> {
    let decoded = read_job_text(sources, source, syntax, diagnostics, |text, tree, problems| {
        decode::decode(text, source, &tree, defaults, problems)
    });
    decoded.flatten()
}
