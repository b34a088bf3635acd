//! The format of HCL: examples, and properties of every text.

use proptest::collection::vec;
use proptest::prelude::*;

use crate::format::{FormatChoice, format_hcl};
use crate::hcl1::{TokenKind, format, tokens};
use nomad_csi_model::diagnostic::{Diagnostics, SourceMap};

fn formatted(text: &str) -> String {
    let source = SourceMap::default().add("file.hcl", text);
    match crate::format::formatted(text, source) {
        Ok((_, Some(formatted))) => formatted,
        Ok((_, None)) => panic!("{text:?}: its values would change"),
        Err(problem) => panic!("{text:?}: {}", problem.message),
    }
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
        ("secrets{a=env( \"X\" )}\n", "secrets { a = env( \"X\" ) }\n"),
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
        assert_eq!(format(text, &[]).ok().as_deref(), Some(expected), "{text:?}");
    }
}

/// The tokens of an expression are not those of HCL1: `"${f("}")}  x"` is one text.
#[test]
fn an_expression_stays_as_it_is() {
    for text in [
        "a = f(\"${g(\"}\")}  x\")\n",
        "a = f( \"${g(\"}\")}\",1 )\n",
        "a = [1, f( \"}  {\" )]\n",
        "a = merge({\nb=1\n    c =  2\n}, {})\n",
        "a = {for k in b :   k=>k}\n",
        "a = x  ?  \"%{ if y == \"a\" }b  c%{ endif }\" : 1\n",
        "volume \"a\" {\n  x = \"${f(\"  \")}  y\"\n}\n",
        "volume \"a\" {\n  x = <<E\n  ${f(\"  \")}  y\nE\n}\n",
        "variable \"a\" {\n  type = map( string )\n}\n",
        "job \"a\" {\n  b = \"${attr.x}  y\"\n  c = attr.x  == 1\n}\n",
    ] {
        assert_eq!(formatted(text), text);
        let crowded = text.replacen(" = ", "=", 1);
        assert_eq!(formatted(&crowded), text);
    }
}

/// Whatever the gaps, a line ends as the first one that is not within a token.
#[test]
fn all_lines_end_as_the_first_one_does() {
    for (text, expected) in [
        ("a=1\r\nb=2\n", "a = 1\r\nb = 2\r\n"),
        ("a=1\nb=2\r\n", "a = 1\nb = 2\n"),
        ("\n# c\r\na=1", "# c\r\na = 1\r\n"),
        ("\r\n# c\na=1\r\n", "# c\na = 1\n"),
        ("\na=<<E\r\nx\r\nE\nb=1\r\n", "a = <<E\r\nx\r\nE\nb = 1\n"),
        ("a=<<E\r\nx\r\nE", "a = <<E\r\nx\r\nE\r\n"),
        ("a=<<E\nx\nE\r\nb=1\n", "a = <<E\nx\nE\r\nb = 1\r\n"),
        ("a=f(<<E\r\nx\r\nE\r\n)\r\nb=1", "a = f(<<E\r\nx\r\nE\r\n)\r\nb = 1\r\n"),
        ("a=x.y # c\r\nb=2", "a = x.y # c\r\nb = 2\r\n"),
        ("# c\r\r\na=1\n", "# c\r\na = 1\r\n"),
        ("\u{feff}a=1\r\nb=2\r\n", "\u{feff}a = 1\r\nb = 2\r\n"),
    ] {
        assert_eq!(formatted(text), expected, "{text:?}");
        assert_eq!(formatted(expected), expected, "{text:?}");
    }
}

/// One long key does not widen the lines around it, so the result is not much larger than the text.
#[test]
fn nothing_is_aligned_far_to_the_right() {
    let long = "k".repeat(118);
    let text = format!("a = 1\n{long} = 2\n");
    let aligned = format!("a{} = 1\n{long} = 2\n", " ".repeat(117));
    assert_eq!(formatted(&text), aligned);
    let longer = "k".repeat(120);
    let text = format!("a=1 # x\n{longer}=2 # y\n");
    assert_eq!(formatted(&text), format!("a = 1 # x\n{longer} = 2 # y\n"));
    let value = "v".repeat(120);
    let text = format!("a=1 # x\nbb=\"{value}\" # y\n");
    assert_eq!(formatted(&text), format!("a  = 1 # x\nbb = \"{value}\" # y\n"));
    let lines = "a=1 # x\n".repeat(10_000);
    let text = format!("{}=1 # x\n{lines}", "k".repeat(500_000));
    let formatted = format(&text, &[]).ok();
    assert!(formatted.is_some_and(|formatted| formatted.len() < 2 * text.len()));
}

/// What a directory has beside specifications.
#[test]
fn only_specifications_and_jobs_are_formatted() {
    let problems = |name: &str, text: &str, choice| {
        let mut sources = SourceMap::default();
        let source = sources.add(name, text);
        let mut problems = Diagnostics::default();
        let formatted = format_hcl(&mut sources, source, choice, &mut problems);
        let messages: Vec<_> = problems.iter().map(|problem| problem.message.clone()).collect();
        (formatted.is_some(), messages)
    };
    for text in [
        "id=\"a\"\nplugin_id=\"b\"\n",
        "Type=\"CSI\"\n",
        "set=\"a\"\n",
        "volume \"a\" {}\n",
        "variable \"a\" {}\nlocals {}\n",
        "class \"a\" {}\n",
        "job \"a\" {}\n",
        "# only\n",
    ] {
        for choice in [FormatChoice::Found, FormatChoice::Named] {
            assert_eq!(problems("a.hcl", text, choice), (true, vec![]), "{text}");
        }
    }
    for text in [
        "datacenter=\"a\"\nserver {\nenabled=true\n}\n",
        "namespace \"default\" {\npolicy=\"read\"\n}\n",
        "name=\"a\"\nlimit {}\n",
        "name=\"a\"\ntype=\"host\"\nplugin_id=\"mkdir\"\n",
        "locals {}\nterraform {}\n",
        "variable=1\n",
    ] {
        assert_eq!(problems("a.hcl", text, FormatChoice::Found), (false, vec![]), "{text}");
        let message = "cannot format `a.hcl`: it is neither a specification nor a job".to_owned();
        assert_eq!(problems("a.hcl", text, FormatChoice::Named), (false, vec![message]), "{text}");
        assert_eq!(problems("d/a.vars.hcl", text, FormatChoice::Named), (true, vec![]), "{text}");
    }
    let broken = "server {\n  x = \"\n";
    assert_eq!(problems("a.hcl", broken, FormatChoice::Found), (false, vec![]));
    assert_eq!(problems("a.hcl", broken, FormatChoice::Named).1.len(), 1);
    let broken = "\"plugin_id\" = \"\n";
    assert_eq!(problems("a.hcl", broken, FormatChoice::Found).1.len(), 1);
}

#[test]
fn a_text_that_does_not_parse_is_not_formatted() {
    for text in ["a = \n", "a {\n", "a = \"x\n", "/* x", "a = 1 2 3 =\n"] {
        let mut sources = SourceMap::default();
        let source = sources.add("file.hcl", text);
        let mut problems = Diagnostics::default();
        let formatted = format_hcl(&mut sources, source, FormatChoice::Named, &mut problems);
        assert_eq!(formatted, None, "{text:?}");
        assert!(problems.has_errors(), "{text:?}");
    }
}

/// What is shown of a text that does not parse, and what a difference shows of one that does.
#[test]
fn nothing_is_shown_of_a_text_that_may_be_secret() {
    for (name, text) in [
        ("prod.vars.hcl", "db = \"hunter2\nother = 1\n"),
        ("prod.vars.hcl", "plugin_id=\"x\"\ndb=\"hunter2\"\n"),
        ("d/prod.VARS.hcl", "volume={ a=\"hunter2\" }\n"),
        ("other.hcl", "db = \"hunter2\nmore = 1\n"),
        (
            "job.nomad.hcl",
            "job \"a\" {\n  env {\n    DB_URL = \"postgres://u:hunter2@h\" x\n  }\n}\n",
        ),
    ] {
        let mut sources = SourceMap::default();
        let source = sources.add(name, text);
        let mut problems = Diagnostics::default();
        let formatted = format_hcl(&mut sources, source, FormatChoice::Named, &mut problems);
        let shown = match formatted {
            Some(new) => {
                crate::format_difference::format_difference(name, &mut sources, source, &new)
            }
            None => sources.redacted_text(source).to_string(),
        };
        assert!(!shown.contains("hunter2"), "{name}: {shown}");
    }
}

/// Comments cost no values, and each gets the indentation of its level.
#[test]
fn a_text_does_not_become_many_times_longer() {
    let nested = |lines: usize| {
        let (open, close) = ("a {\n".repeat(60), "}\n".repeat(60));
        format!("volume \"v\" {{\n{open}{}{close}}}\n", "#\n".repeat(lines))
    };
    for (lines, is_formatted) in [(1_000, true), (100_000, false)] {
        let mut sources = SourceMap::default();
        let source = sources.add("file.hcl", nested(lines));
        let mut problems = Diagnostics::default();
        let formatted = format_hcl(&mut sources, source, FormatChoice::Named, &mut problems);
        assert_eq!(formatted.is_some(), is_formatted, "{lines}");
        assert_eq!(problems.has_errors(), !is_formatted, "{lines}");
    }
}

fn parts(text: &str) -> Option<Vec<(TokenKind, String)>> {
    let found = tokens(text, &[]).ok()?;
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
        "# c\r\n",
        "// c\r",
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
        // An indented end is the end, wherever the next one is.
        "<<-E\r\nx\r\n E\r\n",
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
        "f(\"${g(\"}\")}  x\", 1)",
        "x  ? {\na=1\n} : [ 2,3 ]",
        "<<EOT\r\n x\r\nEOT",
        "[ f( 1 ),\n2 ]",
        "{ a: 1 }",
        "[]",
        "{}",
    ]);
    let tail = prop::sample::select(vec!["\n", "\n\n\n", "\r\n", "\n# c\n", "\n/* c\n d */\n"]);
    (gap(), key, gap(), gap(), value, tail)
        .prop_map(|(g1, key, g2, g3, value, tail)| format!("{g1}{key}{g2}={g3}{value}{tail}"))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn tokens_stay_and_twice_is_once(pieces in vec(piece(), 0..24)) {
        let text = pieces.concat();
        let Some(before) = parts(&text) else { return Ok(()) };
        let once = format(&text, &[]).ok();
        let once = once.expect("tokens can be formatted");
        prop_assert_eq!(parts(&once), Some(before), "{:?}", once);
        let twice = format(&once, &[]).ok();
        prop_assert_eq!(twice.as_ref(), Some(&once));
    }

    /// [`formatted`] fails if the parsed trees differ.
    #[test]
    fn what_parses_has_the_same_tree(
        mark in prop::sample::select(vec!["", "\u{feff}"]),
        start in prop::sample::select(vec!["", "\n", "\r\n", "volume \"a\" {}\n", "volume \"a\" {}\r\n"]),
        items in vec(item(), 0..12),
        ends in prop::sample::select(vec![None, Some("\n"), Some("\r\n")]),
    ) {
        let mut text = format!("{mark}{start}{}", items.concat());
        if let Some(end) = ends {
            text = text.replace("\r\n", "\n").replace('\n', end);
        }
        let once = formatted(&text);
        let read = |text: &str| {
            let source = SourceMap::default().add("file.hcl", text);
            let read = crate::format::ReadHcl::of(text, source).ok().map(|read| read.written());
            read.expect("it parses")
        };
        prop_assert_eq!(read(&once), read(&text));
        prop_assert_eq!(formatted(&once), once);
    }
}
