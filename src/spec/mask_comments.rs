//! Finds the comments of a text that parses in which a secret may be, to hide them.
//!
//! `password: #1abc` has no value in YAML: what was meant as a secret is a comment. So every comment after a key of
//! secrets, and after everything below it, is hidden up to the next key.

use std::ops::Range;

use super::syntax::Syntax;
use super::tree::{Node, Object, Value};
use nomad_csi_model::diagnostic::Span;

/// Returns the ranges to hide, in ascending order. `is_sensitive` says which keys have secrets.
pub(super) fn secret_comments(
    text: &str,
    syntax: Syntax,
    documents: &[Object<'_>],
    is_sensitive: impl Fn(&str) -> bool,
) -> Vec<Range<usize>> {
    let mut tokens = Tokens { found: vec![], is_sensitive };
    for document in documents {
        tokens.object(document, false);
    }
    let mut tokens = tokens.found;
    tokens.sort_by_key(|(span, _)| span.range().start);
    let starts = tokens.iter().skip(1).map(|(span, _)| span.range().start);
    let ends = starts.chain([text.len()]);
    let gaps = tokens.iter().zip(ends);
    gaps.filter(|((_, is_secret), _)| *is_secret)
        .filter_map(|((span, _), end)| comment(text, syntax, span.range().end..end))
        .collect()
}

/// Returns the range from the first comment in a gap between two tokens to the end of the gap.
fn comment(text: &str, syntax: Syntax, gap: Range<usize>) -> Option<Range<usize>> {
    let markers: &[&str] = match syntax {
        Syntax::Hcl => &["#", "//", "/*"],
        Syntax::Yaml => &["#"],
        Syntax::Json => &[],
    };
    let between = text.get(gap.clone())?;
    let begins = markers.iter().filter_map(|marker| between.find(marker));
    let begin = begins.min()?;
    Some(gap.start + begin..gap.start + between.trim_end().len())
}

/// Keys and values of a text, and whether they are below a key of secrets or are one.
struct Tokens<F> {
    found: Vec<(Span, bool)>,
    is_sensitive: F,
}

impl<F: Fn(&str) -> bool> Tokens<F> {
    fn object(&mut self, object: &Object<'_>, is_secret: bool) {
        for entry in object.entries.iter().chain(&object.duplicates) {
            let is_secret = is_secret || (self.is_sensitive)(&entry.key.text);
            let labels = entry.labels.iter().map(|label| label.span);
            for span in [entry.key.span].into_iter().chain(labels) {
                self.found.push((span, is_secret));
            }
            self.value(&entry.value, is_secret);
        }
    }

    fn value(&mut self, node: &Node<'_>, is_secret: bool) {
        match &node.value {
            Value::Object(object) => self.object(object, is_secret),
            Value::List(values) => values.iter().for_each(|value| self.value(value, is_secret)),
            Value::Null
            | Value::Invalid
            | Value::Scalar(_)
            | Value::Reference(_)
            | Value::Unknown
            | Value::Expression(_) => self.found.push((node.span, is_secret)),
        }
    }
}
