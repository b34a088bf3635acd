//! Finds the comments that belong to a key: those above it, and the one behind its value.

use std::ops::Range;

use crate::syntax::Syntax;

/// Returns the comment lines between the end of what is before and a key.
pub(super) fn comments_above(text: &str, syntax: Syntax, between: Range<usize>) -> Vec<String> {
    let written = text.get(between.clone()).unwrap_or_default();
    // The rest of the first line belongs to what is before, unless the file starts here.
    let lines = match (between.start, written.split_once('\n')) {
        (0, _) => written,
        (_, Some((_, rest))) => rest,
        (_, None) => return vec![],
    };
    lines.lines().filter_map(|line| comment(line, syntax)).collect()
}

/// Returns the comment behind a value, on the line where the value ends.
pub(super) fn comment_behind(text: &str, syntax: Syntax, end: usize) -> Option<String> {
    let rest = text.get(end..)?.lines().next()?;
    let rest = rest.trim_start_matches([' ', '\t', ',']);
    comment(rest, syntax)
}

fn comment(line: &str, syntax: Syntax) -> Option<String> {
    let line = line.trim();
    let content = match syntax {
        Syntax::Json => None,
        Syntax::Yaml => line.strip_prefix('#'),
        Syntax::Hcl => line.strip_prefix('#').or_else(|| line.strip_prefix("//")).or_else(|| {
            let inside = line.strip_prefix("/*")?.strip_suffix("*/")?;
            (!inside.contains("*/")).then_some(inside)
        }),
    };
    let content = content?;
    Some(content.strip_prefix(' ').unwrap_or(content).trim_end().to_owned())
}
