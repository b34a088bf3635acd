//! Recognizes templates of other programs in a text that does not parse: they have to be rendered first.
//!
//! nomad-pack and levant write `[[ … ]]`, Go templates and many other programs `{{ … }}`, and Terraform's `templatefile` has
//! `${…}` and `%{…}` outside of quotes. The first of them at or after the line of the error explains the error, and else the
//! last one before it. Here-documents and comments may have any of them.

use std::ops::Range;

use super::hcl1::{is_open_heredoc, skipped_end};
use super::parse_error::ParseError;
use super::syntax::Syntax;
use nomad_csi_model::diagnostic::{Code, Diagnostic, SourceId, SourceMap};

/// The kinds of files that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileKind {
    Job,
    Specification,
}

/// A kind of templates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// `[[ … ]]`
    SquareBrackets,
    /// `{{ … }}` and `{% … %}`
    CurlyBrackets,
    /// `${…}` and `%{…}` outside of quotes.
    Terraform,
}

/// The places of a text at which templates start, which are searched once for all problems of the text.
pub(super) struct Templates<'t> {
    text: &'t str,
    found: Vec<(Kind, usize, bool)>,
}

/// Returns the error of a template, if one explains why a text does not parse.
pub(super) fn unrendered(
    text: &str,
    syntax: Syntax,
    file: FileKind,
    problem: &ParseError,
) -> Option<ParseError> {
    Templates::of(text, syntax).problem(file, problem.range.start)
}

impl<'t> Templates<'t> {
    /// Searches the templates of a text.
    pub(super) fn of(text: &'t str, syntax: Syntax) -> Self {
        Self { text, found: markers(text, syntax) }
    }

    /// Returns the error of the template that explains a problem at an offset.
    pub(super) fn problem(&self, file: FileKind, place: usize) -> Option<ParseError> {
        let Self { text, found } = self;
        let line = text.get(..place)?.rfind('\n').map_or(0, |at| at + 1);
        let line_end = text.get(line..)?.find('\n').map_or(text.len(), |length| line + length);
        let is_near = |kind: Kind, at: usize, is_quoted: bool| match kind {
            // A text may have brackets for the program that reads it, also in a file that parses.
            Kind::CurlyBrackets | Kind::SquareBrackets => {
                !is_quoted || (line..=line_end).contains(&at)
            }
            Kind::Terraform => true,
        };
        let mut near = found.iter().filter(|(kind, at, is_quoted)| is_near(*kind, *at, *is_quoted));
        let after = near.clone().find(|(_, at, _)| *at >= line);
        let (kind, at, _) = after.or_else(|| near.next_back())?;
        Some(not_rendered(*kind, *at..end_of(text, *kind, *at), file))
    }
}

/// Returns the error of a template.
fn not_rendered(kind: Kind, place: Range<usize>, file: FileKind) -> ParseError {
    let what = match file {
        FileKind::Job => "a job file",
        FileKind::Specification => "a specification",
    };
    let message = match kind {
        Kind::SquareBrackets => {
            format!(
                "this is a template of nomad-pack or levant, not {what}: `[[ … ]]` is not rendered"
            )
        }
        Kind::CurlyBrackets => {
            format!(
                "this is a template, not {what}: what is in `{{{{ … }}}}` or `{{% … %}}` is not rendered"
            )
        }
        Kind::Terraform => format!(
            "this is a template of Terraform, not {what}: `${{…}}` and `%{{…}}` outside of quotes are not rendered"
        ),
    };
    let help = match (kind, file) {
        (Kind::SquareBrackets, _) => {
            "render it first, with `nomad-pack render PACK` or `levant render FILE`, and give the result to this command"
        }
        (Kind::CurlyBrackets, _) => {
            "render it first with the program that it is written for, and give the result to this command"
        }
        (Kind::Terraform, FileKind::Job) => {
            "write the values, or let Terraform write the result of `templatefile` to a file (resource `local_file`)"
        }
        (Kind::Terraform, FileKind::Specification) => {
            "write `\"${var.NAME}\"` in a `volume \"NAME\" { … }` block, and `for_each` for several volumes"
        }
    };
    let problem = ParseError::syntax(place, message).label("not rendered").help(help);
    ParseError { code: Code::SpecOtherForm, ..problem }
}

/// Returns a warning about `[[ .name ]]` in a quoted text of a file that parses: no reader of the text has a use for it.
pub(super) fn unrendered_text(text: &str, source: SourceId) -> Option<Diagnostic> {
    if !text.contains("[[") {
        return None;
    }
    let is_field = |at: usize| {
        let action = text.get(at..end_of(text, Kind::SquareBrackets, at)).unwrap_or_default();
        let inner = action.trim_start_matches(['[', '-']).trim_end_matches([']', '-']).trim();
        let name = inner.strip_prefix('.').unwrap_or_default();
        name.starts_with(|c: char| c.is_ascii_alphabetic())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.'))
    };
    let markers = markers(text, Syntax::Hcl);
    let mut fields = markers.iter().filter(|(kind, at, is_quoted)| {
        *kind == Kind::SquareBrackets && *is_quoted && is_field(*at)
    });
    let (_, at, _) = fields.next()?;
    let place = SourceMap::span(source, *at..end_of(text, Kind::SquareBrackets, *at));
    let message = "`[[ … ]]` of nomad-pack or levant is not rendered: it is a text here";
    Some(
        Diagnostic::warning(Code::SpecOtherForm, message)
            .label(place, "taken literally")
            .help("render the file first, with `nomad-pack render PACK` or `levant render FILE`"),
    )
}

/// Limit of the markers that are looked at.
const MOST: usize = 1_000;

/// Returns where templates start, in order, and whether that is in a quoted text. What follows a here-document without an end
/// is its content.
fn markers(text: &str, syntax: Syntax) -> Vec<(Kind, usize, bool)> {
    let bytes = text.as_bytes();
    let mut found = vec![];
    let (mut at, mut quoted_until, mut line_end) = (0, 0, 0);
    while at < bytes.len() && found.len() < MOST {
        let is_quoted = at < quoted_until;
        if !is_quoted && syntax == Syntax::Hcl && matches!(bytes[at], b'"' | b'#' | b'/' | b'<') {
            if bytes[at] == b'"' {
                if line_end <= at {
                    let length = text.get(at..).and_then(|rest| rest.find('\n'));
                    line_end = length.map_or(text.len(), |length| at + length);
                }
                // A quote of a template may be the end of one of the file.
                let line = text.get(..line_end).unwrap_or_default();
                quoted_until = skipped_end(line, at).unwrap_or(line_end);
            } else if let Some(end) = skipped_end(text, at) {
                at = end.max(at + 1);
                continue;
            } else if is_open_heredoc(text, at) {
                break;
            }
        }
        let rest = text.get(at..).unwrap_or_default();
        let kind = if is_action(rest, "[[", "]]") {
            Some(Kind::SquareBrackets)
        } else if is_action(rest, "{{", "}}") || is_action(rest, "{%", "%}") {
            Some(Kind::CurlyBrackets)
        } else if !is_quoted
            && syntax == Syntax::Hcl
            && (rest.starts_with("${") || rest.starts_with("%{"))
        {
            Some(Kind::Terraform)
        } else {
            None
        };
        found.extend(kind.map(|kind| (kind, at, is_quoted)));
        at += if kind.is_some() { 2 } else { 1 };
    }
    found
}

/// Returns whether a text starts with an action of a Go template: a word, a field or a comment in brackets.
fn is_action(text: &str, open: &str, close: &str) -> bool {
    let Some(inner) = text.strip_prefix(open) else {
        return false;
    };
    let inner = inner.strip_prefix(['-', '#']).unwrap_or(inner).trim_start_matches([' ', '\t']);
    let is_word =
        inner.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '.' | '$' | '/' | '('));
    if !is_word {
        return false;
    }
    // Not the rest of a long line, at each of its brackets.
    let near = inner.char_indices().nth(LONGEST_ACTION).map_or(inner.len(), |(at, _)| at);
    let near = inner.get(..near).unwrap_or_default();
    near.lines().next().is_some_and(|line| line.contains(close))
}

/// Limit of the characters of an action.
const LONGEST_ACTION: usize = 500;

/// Returns the end of a template: its closing brackets, or the end of its line.
fn end_of(text: &str, kind: Kind, at: usize) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    let close = match kind {
        Kind::SquareBrackets => "]]",
        Kind::CurlyBrackets if rest.starts_with("{%") => "%}",
        Kind::CurlyBrackets => "}}",
        Kind::Terraform => "}",
    };
    let line = rest.find('\n').unwrap_or(rest.len());
    let line = rest.get(..line).unwrap_or_default().trim_end();
    at + line.find(close).map_or(line.len(), |length| length + close.len())
}
