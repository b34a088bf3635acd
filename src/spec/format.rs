//! Formats the HCL of specifications and job files, without a change of their meaning.
//!
//! A text that does not parse is not formatted, and neither is one of another program, such as the configuration of an
//! agent. The result is read again: if its values are others, it is refused. An expression is not understood for that, so its
//! text must be the same.

use std::ops::Range;
use std::sync::Arc;

use super::hcl::{PlacedHcl, parse_placed};
use super::hcl_kind::{HclKind, looks_like_ours};
use super::job_text::environments;
use super::language::is_of_language;
use super::parse::{hidden_ranges, withheld};
use super::parse_error::ParseError;
use super::syntax::Syntax;
use super::tree::{Entry, Node, Object, Value};
use super::{hcl1, variable_file};
use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics, SourceId, SourceMap};

/// Who chose a text to format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FormatChoice {
    /// The person at the command: a text that is not formatted is an error.
    Named,
    /// It was in a directory, where files of other programs are not mentioned.
    Found,
}

/// Returns an HCL text with its white space in order. Adds its error to `diagnostics` if it cannot be formatted.
pub fn format_hcl(
    sources: &mut SourceMap,
    source: SourceId,
    choice: FormatChoice,
    diagnostics: &mut Diagnostics,
) -> Option<String> {
    if sources.is_withheld(source) {
        diagnostics.push(withheld(sources.name(source), true));
        return None;
    }
    let text = Arc::clone(sources.text(source));
    match formatted(&text, source) {
        Ok((kind, formatted)) => {
            let is_ours =
                kind != HclKind::Other || variable_file::is_named_so(sources.name(source));
            match (choice, is_ours, formatted) {
                (_, true, Some(formatted)) => Some(formatted),
                (FormatChoice::Found, false, _) => None,
                (FormatChoice::Named, false, _) => {
                    diagnostics.push(of_another_program(sources.name(source)));
                    None
                }
                (_, true, None) => {
                    diagnostics.push(changed(sources.name(source)));
                    None
                }
            }
        }
        Err(_) if choice == FormatChoice::Found && !looks_like_ours(&text) => None,
        Err(problem) => {
            for range in hidden_of_unread(sources.name(source), &text, &problem) {
                sources.hide(SourceMap::span(source, range));
            }
            diagnostics.push(problem.into_diagnostic(source));
            None
        }
    }
}

/// Returns what may be secret in a text that does not parse: all of it, unless it is a specification or a job.
fn hidden_of_unread(name: &str, text: &str, problem: &ParseError) -> Vec<Range<usize>> {
    if variable_file::is_named_so(name) || !looks_like_ours(text) {
        return std::iter::once(0..text.len()).collect();
    }
    let secrets = hidden_ranges(text, Syntax::Hcl, problem).into_iter();
    secrets.chain(environments(text)).collect()
}

fn of_another_program(name: &str) -> Diagnostic {
    let message = format!("cannot format `{name}`: it is neither a specification nor a job");
    Diagnostic::error(Code::CliInvalidValue, message)
        .help("name files with volumes or jobs, or their directory")
}

fn changed(name: &str) -> Diagnostic {
    let message = format!("cannot format `{name}`: its values would change");
    Diagnostic::error(Code::Internal, message).help(Code::Internal.advice())
}

/// Returns what a text is, and its formatted text; `None` if that would have other values.
pub(super) fn formatted(
    text: &str,
    source: SourceId,
) -> Result<(HclKind, Option<String>), ParseError> {
    let before = ReadHcl::of(text, source)?;
    let kind = HclKind::of(&before.placed.body);
    let written = hcl1::format(before.text, &before.placed.expressions)?;
    let written = format!("{}{written}", before.mark);
    if written == text {
        return Ok((kind, Some(written)));
    }
    let is_equal = ReadHcl::of(&written, source).is_ok_and(|after| before.is_equal(&after));
    Ok((kind, is_equal.then_some(written)))
}

/// A text and its tree.
pub(super) struct ReadHcl<'t> {
    /// The mark of the byte order, or nothing.
    mark: &'static str,
    /// The text after the mark, in which the positions of the tree are.
    text: &'t str,
    pub(super) placed: PlacedHcl<'t>,
}

impl<'t> ReadHcl<'t> {
    /// Reads a text.
    pub(super) fn of(text: &'t str, source: SourceId) -> Result<Self, ParseError> {
        let (mark, text) = match text.strip_prefix(MARK) {
            Some(rest) => (MARK, rest),
            None => ("", text),
        };
        let placed = parse_placed(text, source, is_of_language).map_err(|mut problem| {
            problem.range.start += mark.len();
            problem.range.end += mark.len();
            problem
        })?;
        Ok(Self { mark, text, placed })
    }

    /// Returns the length of the mark.
    pub(super) fn mark_length(&self) -> usize {
        self.mark.len()
    }

    /// Returns the places of everything that is no white space.
    pub(super) fn places(&self) -> Vec<Range<usize>> {
        hcl1::places(self.text, &self.placed.expressions).unwrap_or_default()
    }

    /// Returns the texts of everything that is no white space.
    #[cfg(test)]
    pub(super) fn written(&self) -> Vec<String> {
        self.places().into_iter().map(|place| self.text[place].to_owned()).collect()
    }

    fn expression(&self, range: &Range<usize>) -> &'t str {
        // How the line after an expression ends is no part of it.
        self.text.get(range.clone()).unwrap_or_default().trim_end_matches('\r')
    }

    /// Compares everything but the positions.
    fn is_equal(&self, other: &Self) -> bool {
        let (one, two) = (&self.placed.expressions, &other.placed.expressions);
        let mut expressions = one.iter().zip(two);
        one.len() == two.len()
            && expressions.all(|(one, two)| self.expression(one) == other.expression(two))
            && self.objects_are_equal(&self.placed.body, other, &other.placed.body)
    }

    /// Compares two objects. The parser limits the depth of what is compared.
    fn objects_are_equal(&self, one: &Object<'_>, other: &Self, two: &Object<'_>) -> bool {
        let all_equal = |one: &[Entry<'_>], two: &[Entry<'_>]| {
            let mut pairs = one.iter().zip(two);
            one.len() == two.len()
                && pairs.all(|(one, two)| self.entries_are_equal(one, other, two))
        };
        all_equal(&one.entries, &two.entries) && all_equal(&one.duplicates, &two.duplicates)
    }

    fn entries_are_equal(&self, one: &Entry<'_>, other: &Self, two: &Entry<'_>) -> bool {
        let labels = one.labels.iter().map(|label| &label.text);
        one.key.text == two.key.text
            && labels.eq(two.labels.iter().map(|label| &label.text))
            && self.nodes_are_equal(&one.value, other, &two.value)
    }

    fn nodes_are_equal(&self, one: &Node<'_>, other: &Self, two: &Node<'_>) -> bool {
        match (&one.value, &two.value) {
            (Value::Null, Value::Null) | (Value::Unknown, Value::Unknown) => true,
            // Their values are not known here.
            (Value::Invalid, Value::Invalid) | (Value::Expression(_), Value::Expression(_)) => {
                self.expression(&one.span.range()) == other.expression(&two.span.range())
            }
            (Value::Scalar(one), Value::Scalar(two)) => {
                one.kind == two.kind && one.text == two.text
            }
            (Value::Reference(one), Value::Reference(two)) => {
                one.source == two.source && one.arguments == two.arguments
            }
            (Value::List(one), Value::List(two)) => {
                let mut pairs = one.iter().zip(two);
                one.len() == two.len()
                    && pairs.all(|(one, two)| self.nodes_are_equal(one, other, two))
            }
            (Value::Object(one), Value::Object(two)) => self.objects_are_equal(one, other, two),
            (
                Value::Null
                | Value::Invalid
                | Value::Unknown
                | Value::Scalar(_)
                | Value::Reference(_)
                | Value::Expression(_)
                | Value::List(_)
                | Value::Object(_),
                _,
            ) => false,
        }
    }
}

/// The mark of the byte order.
const MARK: &str = "\u{feff}";
