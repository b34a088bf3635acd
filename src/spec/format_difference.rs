//! Shows what a format changes in a text, as a unified diff.
//!
//! A format keeps the order of the lines, changes lines and removes empty ones. So a line of the old text has its partner at
//! the first place that is left, and no search is needed.

/// The number of unchanged lines around a change.
const CONTEXT: usize = 3;

/// A line of the old text, of the new one, or of both.
enum Change<'t> {
    Kept(&'t str),
    Removed(&'t str),
    Added(&'t str),
}

/// Returns the unified diff of a text and its formatted form; empty if they are equal.
pub fn format_difference(name: &str, old: &str, new: &str) -> String {
    use std::fmt::Write as _;

    let changes = changes(old, new);
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

fn changes<'t>(old: &'t str, new: &'t str) -> Vec<Change<'t>> {
    let mut changes = vec![];
    let mut added = vec![];
    let mut new_lines = new.split_inclusive('\n').peekable();
    for line in old.split_inclusive('\n') {
        if new_lines.next_if_eq(&line).is_some() {
            changes.append(&mut added);
            changes.push(Change::Kept(line));
            continue;
        }
        changes.push(Change::Removed(line));
        let is_empty = |line: &str| line.trim().is_empty();
        let has_partner = |next: &&str| is_empty(next) == is_empty(line);
        // The removed lines of a block come before the added ones.
        added.extend(new_lines.next_if(has_partner).map(Change::Added));
    }
    changes.append(&mut added);
    changes.extend(new_lines.map(Change::Added));
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
        assert_eq!(format_difference("x", old, new), expected);
        assert_eq!(format_difference("x", new, new), "");
        let from_nothing = "--- x\n+++ x\n@@ -1,1 +0,0 @@\n-\n";
        assert_eq!(format_difference("x", "\n", ""), from_nothing);
    }
}
