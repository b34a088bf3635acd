//! Parses one text to the volumes that it declares.

use std::ops::Range;
use std::sync::Arc;

use super::decode::{self, Document};
use super::defaults::Defaults;
use super::parse_error::ParseError;
use super::syntax::Syntax;
use super::tree::Object;
use super::volume_spec::VolumeSpec;
use super::{hcl, json, mask, mask_comments, mask_text, yaml};
use nomad_csi_model::SetName;
use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics, SourceId, SourceMap, Span};

/// The content of one text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parsed {
    /// The volumes, in the order of the text.
    pub volumes: Vec<VolumeSpec>,
    /// The sets that the text names, with their positions.
    pub sets: Vec<(SetName, Span)>,
}

/// Parses the volumes of one text, as [`parse_text`] does.
pub fn parse(
    sources: &mut SourceMap,
    source: SourceId,
    syntax: Syntax,
    defaults: &Defaults,
    diagnostics: &mut Diagnostics,
) -> Vec<VolumeSpec> {
    parse_text(sources, source, syntax, defaults, diagnostics).volumes
}

/// Parses one text. A text without a volume and without a set is an error. Problems are added to
/// `diagnostics`; after an error, the result is good only for [`super::validate()`].
///
/// An HCL text that starts with `{` is read as JSON. Secrets and mount flags are hidden in
/// `sources`, even if the text does not parse, so no diagnostic shows them. Of a withheld text, no
/// diagnostic shows anything.
pub fn parse_text(
    sources: &mut SourceMap,
    source: SourceId,
    syntax: Syntax,
    defaults: &Defaults,
    diagnostics: &mut Diagnostics,
) -> Parsed {
    if !sources.is_withheld(source) {
        return parse_shown(sources, source, syntax, defaults, diagnostics);
    }
    let mut problems = Diagnostics::default();
    let parsed = parse_shown(sources, source, syntax, defaults, &mut problems);
    if problems.is_empty() {
        return parsed;
    }
    diagnostics.push(withheld(sources.name(source), problems.has_errors()));
    if problems.has_errors() {
        return Parsed::default();
    }
    parsed
}

/// The problem of a text of which nothing may be shown.
pub(super) fn withheld(name: &str, has_errors: bool) -> Diagnostic {
    let code = Code::FilesForeignLink;
    let link = format!("`{name}` is a link to a file outside its directory");
    let problem = if has_errors {
        Diagnostic::error(code, format!("{link}, and not a valid specification"))
    } else {
        Diagnostic::warning(code, format!("{link}, and there are warnings about it"))
    };
    problem
        .note("its content is not shown: it may be another file than you expect")
        .help(code.advice())
}

fn parse_shown(
    sources: &mut SourceMap,
    source: SourceId,
    syntax: Syntax,
    defaults: &Defaults,
    diagnostics: &mut Diagnostics,
) -> Parsed {
    let text = Arc::clone(sources.text(source));
    let syntax = match syntax {
        Syntax::Hcl if Syntax::looks_like_json(&text) => Syntax::Json,
        syntax => syntax,
    };
    let documents = match read(&text, source, syntax, diagnostics) {
        Ok(documents) => documents,
        Err(problem) => {
            for range in hidden_ranges(&text, syntax, &problem) {
                sources.hide(SourceMap::span(source, range));
            }
            diagnostics.push(problem.into_diagnostic(source));
            return Parsed::default();
        }
    };
    let mut secrets = vec![];
    for document in &documents {
        mask::for_each_secret(document, &mut |span| secrets.push(span));
    }
    let comments = mask_comments::secret_comments(&text, syntax, &documents, mask::is_sensitive);
    secrets.extend(comments.into_iter().map(|range| SourceMap::span(source, range)));
    let whole = Document {
        has_secrets: documents.iter().any(mask::has_sensitive_key),
        text: &text,
        source,
        syntax,
        defaults,
    };
    let decoded = decode::decode(&documents, &whole, diagnostics);
    secrets.extend(decoded.doubtful);
    secrets.sort_unstable();
    secrets.into_iter().for_each(|span| sources.hide(span));
    Parsed { volumes: decoded.volumes, sets: decoded.sets }
}

/// Returns what to hide in a text that does not parse: all of it if it is too much to search.
pub(super) fn hidden_ranges(text: &str, syntax: Syntax, problem: &ParseError) -> Vec<Range<usize>> {
    if problem.code == Code::SpecTooManyValues {
        return std::iter::once(0..text.len()).collect();
    }
    mask_text::possible_secrets(text, syntax)
}

pub(super) fn read<'a>(
    text: &'a str,
    source: SourceId,
    syntax: Syntax,
    diagnostics: &mut Diagnostics,
) -> Result<Vec<Object<'a>>, ParseError> {
    match syntax {
        Syntax::Hcl => hcl::parse(text, source, diagnostics).map(|object| vec![object]),
        Syntax::Json => json::parse(text, source, diagnostics).map(|object| vec![object]),
        Syntax::Yaml => yaml::parse(text, source, diagnostics),
    }
}
