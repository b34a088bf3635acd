//! The reading in one pass hides all that a reading for every single word hides.

use proptest::prelude::*;

use super::*;

fn next_word(text: &str, from: usize) -> Option<Range<usize>> {
    let start = from + text[from..].find(is_word)?;
    let length = text[start..].find(|c| !is_word(c));
    Some(start..length.map_or(text.len(), |length| start + length))
}

/// Returns the end of one word's block, by reading the text after it.
fn block_end(text: &str, word: &Range<usize>, syntax: Syntax) -> usize {
    let line_start = text[..word.start].rfind('\n').map_or(0, |at| at + 1);
    let indent = indentation(&text[line_start..]);
    let mut open = 0;
    let mut start = word.end + usize::from(text[word.end..].starts_with(['"', '\'']));
    loop {
        let end = text[start..].find('\n').map_or(text.len(), |at| start + at);
        let line = &text[start..end];
        open = brackets(open, line);
        start = match after_here_document(text, end, line) {
            Some(after) => after,
            None => end + 1,
        };
        let Some(next) = text.get(start..).filter(|next| !next.is_empty()) else {
            return text.len();
        };
        let next = next.lines().next().unwrap_or_default();
        if open == 0 && indentation(next) <= indent && starts_with_key(next, syntax) {
            return start;
        }
    }
}

/// If a line opens a here-document, returns the start of the line after it.
fn after_here_document(text: &str, line_end: usize, line: &str) -> Option<usize> {
    let (_, after) = line.rsplit_once("<<")?;
    let word = after.trim_start_matches('-').trim();
    if word.is_empty() || !word.chars().all(is_word) {
        return None;
    }
    let mut start = line_end + 1;
    while start < text.len() {
        let end = text[start..].find('\n').map_or(text.len(), |at| start + at);
        if text[start..end].trim() == word {
            return Some(end + 1);
        }
        start = end + 1;
    }
    Some(text.len())
}

/// The ranges of every sensitive word, each found alone.
fn slow(text: &str, syntax: Syntax) -> Vec<Range<usize>> {
    let mut found = vec![];
    let mut at = 0;
    while let Some(word) = next_word(text, at) {
        at = word.end;
        if may_be_sensitive(&text[word.clone()]) {
            found.push(word.end..block_end(text, &word, syntax));
        }
    }
    found
}

fn line() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "secrets {",
        "token = \"x\"",
        "\"secrets\": {",
        "secrets:",
        "password",
        "id = \"a\"",
        "\"id\": \"a\",",
        "id: a",
        "name = \"b\"",
        "<<EOF",
        "x = <<-END",
        "EOF",
        "END",
        "{",
        "}",
        "[",
        "]",
        "\"",
        "'",
        "\\",
        "capability {",
        "volume \"a\" {",
        "mount_flags = [",
        "x",
    ]);
    let pieces = prop::collection::vec(piece, 0..4);
    (0usize..3, pieces).prop_map(|(indent, pieces)| "  ".repeat(indent) + &pieces.join(" "))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_shown_that_one_word_alone_hides(
        lines in prop::collection::vec(line(), 0..14),
        ends_with_line in any::<bool>(),
    ) {
        let text = lines.join("\n") + if ends_with_line { "\n" } else { "" };
        for syntax in Syntax::ALL {
            let hidden = possible_secrets(&text, syntax);
            for range in slow(&text, syntax) {
                let covers = |one: &Range<usize>| one.start <= range.start && one.end >= range.end;
                let is_covered = range.is_empty() || hidden.iter().any(covers);
                prop_assert!(is_covered, "{syntax}: {range:?} is not in {hidden:?}: {text}");
            }
        }
    }
}

#[test]
fn a_block_ends_before_the_next_field() {
    let text =
        "id = \"a\"\nsecrets {\n  token = \"x\"\n  key = <<EOF\nid = 1\nEOF\n}\nname = \"b\"\n";
    let hidden = possible_secrets(text, Syntax::Hcl);
    let shown: Vec<_> = hidden.iter().map(|range| &text[range.clone()]).collect();
    assert_eq!(shown, [" {\n  token = \"x\"\n  key = <<EOF\nid = 1\nEOF\n}\n"]);
}

#[test]
fn a_line_with_many_sensitive_words_hides_the_rest() {
    let ends = |count: usize| {
        let text = format!("{}\nid = \"a\"\n", "token ".repeat(count));
        let hidden = possible_secrets(&text, Syntax::Hcl);
        hidden.last().map(|range| range.end == text.len())
    };
    assert_eq!((ends(MANY), ends(MANY + 1)), (Some(false), Some(true)));
}
