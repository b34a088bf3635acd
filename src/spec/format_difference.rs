//! Shows what a format changes in a text, as a unified diff.
//!
//! A format keeps the order of the lines, changes lines and removes empty ones. So a line of the old text has its partner at
//! the first place that is left, and no search is needed. Lines are compared as they are, and shown without their secrets.

use super::format_secrets::{ShownTexts, shown_texts};
use nomad_csi_model::diagnostic::{SourceId, SourceMap};

/// The number of unchanged lines around a change.
const CONTEXT: usize = 3;

/// A line of the old text, of the new one, or of both, as it is shown.
enum Change<'t> {
    Kept(&'t str),
    Removed(&'t str),
    Added(&'t str),
}

/// A line as it is, and as it is shown.
#[derive(Clone, Copy)]
struct Line<'t> {
    written: &'t str,
    shown: &'t str,
}

/// Returns the unified diff of a text and its formatted form, without what may be secret; empty if they are equal.
pub fn format_difference(
    name: &str,
    sources: &mut SourceMap,
    source: SourceId,
    new: &str,
) -> String {
    let old = std::sync::Arc::clone(sources.text(source));
    if *old == *new {
        return String::new();
    }
    let shown = shown_texts(sources, source, new);
    difference(name, &old, new, &shown)
}

fn difference(name: &str, old: &str, new: &str, shown: &ShownTexts) -> String {
    use std::fmt::Write as _;

    let changes = changes(lines(old, &shown.old), lines(new, &shown.new));
    let mut out = String::new();
    let is_change = |change: &Change<'_>| !matches!(change, Change::Kept(_));
    let (mut at, mut old_line, mut new_line) = (0, 1, 1);
    while let Some(distance) = changes[at..].iter().position(is_change) {
        let start = (at + distance).saturating_sub(CONTEXT).max(at);
        let skipped = start - at;
        let (old_start, new_start) = (old_line + skipped, new_line + skipped);
        let mut end = at + distance;
        while let Some(next) = changes[end..].iter().position(is_change) {
            if next > 2 * CONTEXT {
                break;
            }
            end += next + 1;
        }
        let end = (end + CONTEXT).min(changes.len());
        let hunk = &changes[start..end];
        let count = |is: fn(&Change<'_>) -> bool| hunk.iter().filter(|change| is(change)).count();
        let old_count = count(|change| !matches!(change, Change::Added(_)));
        let new_count = count(|change| !matches!(change, Change::Removed(_)));
        if out.is_empty() {
            let _infallible = writeln!(out, "--- {name}\n+++ {name}");
        }
        let (old_from, new_from) = (first(old_start, old_count), first(new_start, new_count));
        let _infallible = writeln!(out, "@@ -{old_from},{old_count} +{new_from},{new_count} @@");
        for change in hunk {
            let (sign, line) = match change {
                Change::Kept(line) => (' ', line),
                Change::Removed(line) => ('-', line),
                Change::Added(line) => ('+', line),
            };
            out.push(sign);
            out.push_str(line);
            if !line.ends_with('\n') {
                out.push_str("\n\\ No newline at end of file\n");
            }
        }
        (old_line, new_line) = (old_start + old_count, new_start + new_count);
        at = end;
    }
    out
}

/// The number of the first line of a hunk: that before it if the hunk has none.
fn first(start: usize, count: usize) -> usize {
    if count == 0 { start - 1 } else { start }
}

/// Returns the lines of a text. What is shown of it has the same line breaks.
fn lines<'t>(text: &'t str, shown: &'t str) -> impl Iterator<Item = Line<'t>> {
    let lines = text.split_inclusive('\n').zip(shown.split_inclusive('\n'));
    lines.map(|(written, shown)| Line { written, shown })
}

fn changes<'t>(
    old: impl Iterator<Item = Line<'t>>,
    new: impl Iterator<Item = Line<'t>>,
) -> Vec<Change<'t>> {
    let mut changes = vec![];
    let mut added = vec![];
    let mut new_lines = new.peekable();
    for line in old {
        if new_lines.next_if(|next| next.written == line.written).is_some() {
            changes.append(&mut added);
            changes.push(Change::Kept(line.shown));
            continue;
        }
        changes.push(Change::Removed(line.shown));
        let is_empty = |line: &Line<'_>| line.written.trim().is_empty();
        let has_partner = |next: &Line<'_>| is_empty(next) == is_empty(&line);
        // The removed lines of a block come before the added ones.
        added.extend(new_lines.next_if(has_partner).map(|line| Change::Added(line.shown)));
    }
    changes.append(&mut added);
    changes.extend(new_lines.map(|line| Change::Added(line.shown)));
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diff_names_lines_with_their_numbers() {
        let old = "a = 1\nb=2\n\n\nc = 3\nd = 4\ne = 5\nf = 6\ng = 7\nh = 8\ni = 9\nj=10";
        let new = "a = 1\nb = 2\n\nc = 3\nd = 4\ne = 5\nf = 6\ng = 7\nh = 8\ni = 9\nj = 10\n";
        let expected = "--- x\n+++ x\n@@ -1,7 +1,6 @@\n a = 1\n-b=2\n+b = 2\n \n-\n c = 3\n d = 4\n e = 5\n\
            @@ -9,4 +8,4 @@\n g = 7\n h = 8\n i = 9\n-j=10\n\\ No newline at end of file\n+j = 10\n";
        let difference = |old: &str, new: &str| {
            let shown = ShownTexts { old: old.into(), new: new.into() };
            difference("x", old, new, &shown)
        };
        assert_eq!(difference(old, new), expected);
        assert_eq!(difference(new, new), "");
        let from_nothing = "--- x\n+++ x\n@@ -1,1 +0,0 @@\n-\n";
        assert_eq!(difference("\n", ""), from_nothing);
    }
}
