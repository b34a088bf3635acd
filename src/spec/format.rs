//! Formats the HCL of specifications and job files, without a change of their meaning.
//!
//! A text that does not parse is not formatted. The result is read again: if its values are others, it is refused.

use std::sync::Arc;

use super::parse::{hidden_ranges, withheld};
use super::parse_error::ParseError;
use super::syntax::Syntax;
use super::tree::{Entry, Node, Object, Value};
use super::{hcl, hcl1};
use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics, SourceId, SourceMap};

/// Returns an HCL text with its white space in order. Adds its error to `diagnostics` if it does not parse.
pub fn format_hcl(
    sources: &mut SourceMap,
    source: SourceId,
    diagnostics: &mut Diagnostics,
) -> Option<String> {
    if sources.is_withheld(source) {
        diagnostics.push(withheld(sources.name(source), true));
        return None;
    }
    let text = Arc::clone(sources.text(source));
    match formatted(&text, source) {
        Ok(Some(formatted)) => Some(formatted),
        Ok(None) => {
            let message =
                format!("cannot format `{}`: its values would change", sources.name(source));
            diagnostics
                .push(Diagnostic::error(Code::Internal, message).help(Code::Internal.advice()));
            None
        }
        Err(problem) => {
            for range in hidden_ranges(&text, Syntax::Hcl, &problem) {
                sources.hide(SourceMap::span(source, range));
            }
            diagnostics.push(problem.into_diagnostic(source));
            None
        }
    }
}

/// Returns the formatted text; `None` if it would have other values.
fn formatted(text: &str, source: SourceId) -> Result<Option<String>, ParseError> {
    let before = tree(text, source)?;
    let formatted = hcl1::format(text)?;
    if formatted == text {
        return Ok(Some(formatted));
    }
    let is_equal = tree(&formatted, source).is_ok_and(|after| objects_are_equal(&before, &after));
    Ok(is_equal.then_some(formatted))
}

/// Reads a specification, or a job.
fn tree(text: &str, source: SourceId) -> Result<Object<'_>, ParseError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut ignored = Diagnostics::default();
    hcl::parse(text, source, &mut ignored)
        .or_else(|problem| hcl::parse_job(text, source, &mut ignored).map_err(|_| problem))
}

/// Compares everything but the positions. The parser limits the depth of what is compared.
fn objects_are_equal(one: &Object<'_>, other: &Object<'_>) -> bool {
    let all_equal = |one: &[Entry<'_>], other: &[Entry<'_>]| {
        one.len() == other.len()
            && one.iter().zip(other).all(|(one, other)| entries_are_equal(one, other))
    };
    all_equal(&one.entries, &other.entries) && all_equal(&one.duplicates, &other.duplicates)
}

fn entries_are_equal(one: &Entry<'_>, other: &Entry<'_>) -> bool {
    let labels = one.labels.iter().map(|label| &label.text);
    one.key.text == other.key.text
        && labels.eq(other.labels.iter().map(|label| &label.text))
        && nodes_are_equal(&one.value, &other.value)
}

fn nodes_are_equal(one: &Node<'_>, other: &Node<'_>) -> bool {
    match (&one.value, &other.value) {
        (Value::Null, Value::Null)
        | (Value::Invalid, Value::Invalid)
        | (Value::Unknown, Value::Unknown) => true,
        (Value::Scalar(one), Value::Scalar(other)) => {
            one.kind == other.kind && one.text == other.text
        }
        (Value::Reference(one), Value::Reference(other)) => {
            one.source == other.source && one.arguments == other.arguments
        }
        (Value::List(one), Value::List(other)) => {
            one.len() == other.len()
                && one.iter().zip(other).all(|(one, other)| nodes_are_equal(one, other))
        }
        (Value::Object(one), Value::Object(other)) => objects_are_equal(one, other),
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
