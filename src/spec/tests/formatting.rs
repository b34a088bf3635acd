//! The format of HCL: examples, and properties of every text.

use proptest::collection::vec;
use proptest::prelude::*;

use crate::format::format_hcl;
use crate::hcl1::{TokenKind, format, tokens};
use nomad_csi_model::diagnostic::{Diagnostics, SourceMap};

fn formatted(text: &str) -> String {
    let mut sources = SourceMap::default();
    let source = sources.add("file.hcl", text);
    let mut problems = Diagnostics::default();
    let formatted = format_hcl(&mut sources, source, &mut problems);
    formatted.unwrap_or_else(|| {
        let messages: Vec<_> = problems.iter().map(|problem| problem.message.clone()).collect();
        panic!("{text:?}: {messages:?}")
    })
}

#[test]
fn white_space_is_put_in_order() {
    for (text, expected) in [
        ("id=\"a\"", "id = \"a\"\n"),
        ("id = \"a\"\ncapacity_min=\"1\"\n", "id           = \"a\"\ncapacity_min = \"1\"\n"),
        ("a = 1\n\nlonger = 2\n", "a = 1\n\nlonger = 2\n"),
        ("\n\na = 1\n\n\n\nb = 2\n\n\n", "a = 1\n\nb = 2\n"),
        ("a{\nb=1\n}\n", "a {\n  b = 1\n}\n"),
        ("volume   \"a\"{\n\t\tb=1\n    }", "volume \"a\" {\n  b = 1\n}\n"),
        ("a {b=1}\n", "a { b = 1 }\n"),
        ("a { }\n", "a {}\n"),
        ("a=[ \"x\",\"y\" ,]\n", "a = [\"x\", \"y\",]\n"),
        ("a = [{\nb = 1\n},{\nc = 2\n}]\n", "a = [{\n  b = 1\n}, {\n  c = 2\n}]\n"),
        ("a = [\n{\nb = 1\n}\n]\n", "a = [\n  {\n    b = 1\n  }\n]\n"),
        ("a = 1 # x\nlong = 22   // y\n", "a    = 1  # x\nlong = 22 // y\n"),
        ("a {\n# x\n  /* y\n z */\n}\n", "a {\n  # x\n  /* y\n z */\n}\n"),
        ("a {\nb=<<EOT\n x\n  EOT\n}\n", "a {\n  b = <<EOT\n x\n  EOT\n}\n"),
        ("a = <<EOT\nx\nEOT", "a = <<EOT\nx\nEOT\n"),
        ("a=1\r\nb {\r\nc=2 # x\r\n}\r\n", "a = 1\r\nb {\r\n  c = 2 # x\r\n}\r\n"),
        ("\u{feff}a=1", "\u{feff}a = 1\n"),
        ("a=1 b=2\n", "a = 1 b = 2\n"),
        ("日本 = 1\na = 2\n", "日本 = 1\na  = 2\n"),
        ("secrets { a = env( \"X\" ) }\n", "secrets { a = env(\"X\") }\n"),
        ("# only\n", "# only\n"),
        ("", ""),
    ] {
        assert_eq!(formatted(text), expected, "{text:?}");
    }
}

/// Operators of several characters are tokens of one character each.
#[test]
fn the_tokens_of_an_operator_still_touch() {
    for (text, expected) in [
        ("a=b==c\n", "a = b==c\n"),
        ("a=b  ==  c\n", "a = b == c\n"),
        ("a = b>=c\n", "a = b>=c\n"),
        ("a = b!=c\n", "a = b!=c\n"),
        ("a = {for k in b : k => k}\n", "a = { for k in b : k => k }\n"),
        ("a = {for k in b : k=>k}\n", "a = { for k in b : k=>k }\n"),
        ("a = -b\n", "a = -b\n"),
        ("a = !b\n", "a = !b\n"),
        (
            "a = \"%{ if x == \"a\" }b  c%{ endif }\"\n",
            "a = \"%{ if x == \"a\" }b  c%{ endif }\"\n",
        ),
    ] {
        assert_eq!(format(text).ok().as_deref(), Some(expected), "{text:?}");
    }
}

#[test]
fn a_text_that_does_not_parse_is_not_formatted() {
    for text in ["a = \n", "a {\n", "a = \"x\n", "/* x", "a = 1 2 3 =\n"] {
        let mut sources = SourceMap::default();
        let source = sources.add("file.hcl", text);
        let mut problems = Diagnostics::default();
        assert_eq!(format_hcl(&mut sources, source, &mut problems), None, "{text:?}");
        assert!(problems.has_errors(), "{text:?}");
    }
}

fn parts(text: &str) -> Option<Vec<(TokenKind, String)>> {
    let found = tokens(text).ok()?;
    let part = |(kind, range): (TokenKind, std::ops::Range<usize>)| {
        (kind, text[range].trim_end_matches('\r').to_owned())
    };
    Some(found.into_iter().map(part).collect())
}

/// A piece of a text, and white space or none.
fn piece() -> impl Strategy<Value = String> {
    let words = prop::sample::select(vec![
        "a",
        "long_key",
        "=",
        "==",
        "=>",
        ">",
        "{",
        "}",
        "[",
        "]",
        "(",
        ")",
        ",",
        "\"x\"",
        "\"${a}\"",
        "\"%{\"",
        "1",
        "-1",
        "true",
        "+",
        "!",
        "?",
        ":",
        ".",
        "# c\n",
        "/* c */",
        "/* c\nd */",
        "<<EOT\n  x\n EOT\n",
        "<<-E\r\nx\r\nE\r\n",
        "日本",
    ]);
    let gap = prop::sample::select(vec!["", " ", "  ", "\n", "\n\n\n", "\t", "\r\n", " \n "]);
    (words, gap).prop_map(|(word, gap)| format!("{word}{gap}"))
}

/// An item that parses, with white space that is not in order.
fn item() -> impl Strategy<Value = String> {
    let gap = || prop::sample::select(vec!["", " ", "   ", "\t"]);
    let key = prop::sample::select(vec!["a", "long_key", "\"k\"", "日本"]);
    let value = prop::sample::select(vec![
        "1",
        "\"x\"",
        "[ 1,2 ]",
        "[\n1,\n2\n]",
        "{ b=1 }",
        "{\nb=1\nccc = 2\n}",
        "[{\na=1\n},{\nb=2\n}]",
        "env( \"X\" )",
        "<<EOT\n x\nEOT",
        "\"${x}\"",
        "[]",
        "{}",
    ]);
    let tail = prop::sample::select(vec!["\n", "\n\n\n", "\r\n", "\n# c\n", "\n/* c\n d */\n"]);
    (gap(), key, gap(), gap(), value, tail)
        .prop_map(|(g1, key, g2, g3, value, tail)| format!("{g1}{key}{g2}={g3}{value}{tail}"))
}

proptest! {
    #[test]
    fn tokens_stay_and_twice_is_once(pieces in vec(piece(), 0..24)) {
        let text = pieces.concat();
        let Some(before) = parts(&text) else { return Ok(()) };
        let once = format(&text).ok();
        let once = once.expect("tokens can be formatted");
        prop_assert_eq!(parts(&once), Some(before), "{:?}", once);
        let twice = format(&once).ok();
        prop_assert_eq!(twice.as_ref(), Some(&once));
    }

    /// [`formatted`] fails if the parsed trees differ.
    #[test]
    fn what_parses_has_the_same_tree(items in vec(item(), 0..12)) {
        let text = items.concat();
        let once = formatted(&text);
        prop_assert_eq!(formatted(&once), once);
    }
}
