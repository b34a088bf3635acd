//! Finds out what is written at a position, also in a text that does not parse: an editor asks in the middle of a word.
//!
//! Only the characters before the position decide, so that what follows may be unfinished.

use super::cursor::Cursor;
use super::cursor_flow::flow_cursor;
use super::cursor_hcl::hcl_cursor;
use super::cursor_yaml::yaml_cursor;
use nomad_csi_spec::Syntax;

/// Returns what is at an offset of a text.
pub(crate) fn cursor_at(text: &str, syntax: Syntax, offset: usize) -> Cursor {
    match syntax {
        Syntax::Hcl if !Syntax::looks_like_json(text) => hcl_cursor(text, offset),
        Syntax::Hcl | Syntax::Json => flow_cursor(text, 0, offset, vec![], None),
        Syntax::Yaml => yaml_cursor(text, offset),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::cursor::{Target, Written};

    /// Returns the path, the kind of target with its key, and the word at `|` in a text.
    fn shown(marked: &str, syntax: Syntax) -> String {
        let offset = marked.find('|').expect("the text has a mark");
        let text = marked.replacen('|', "", 1);
        let cursor = cursor_at(&text, syntax, offset);
        let path = cursor.path.join("/");
        let word = |written: &Written| text.get(written.range.clone()).unwrap_or("?").to_owned();
        match &cursor.target {
            Target::Nothing => "nothing".to_owned(),
            Target::Key(written) => format!("{path}: key `{}`", word(written)),
            Target::Value(key, written) => {
                let quotes = if written.is_quoted { " in quotes" } else { "" };
                format!("{path}: value of {key} `{}`{quotes}", word(written))
            }
            Target::Expression(key, written) => {
                format!("{path}: expression of {key} `{}`", word(written))
            }
        }
    }

    #[test]
    fn a_place_of_hcl_is_found_in_a_text_that_is_not_finished() {
        for (text, expected) in [
            ("|", ": key ``"),
            ("vol|", ": key `vol`"),
            ("vol|ume \"a\" {\n}\n", ": key `volume`"),
            ("volume \"a|", "nothing"),
            ("volume \"a\" {\n  cap|\n}\n", "volume/a: key `cap`"),
            ("volume \"a\" { cap|", "volume/a: key `cap`"),
            ("volume \"a\" {\n  capability {\n    |", "volume/a/capability: key ``"),
            ("volume \"a\" {\n  capability {\n  }\n  |", "volume/a: key ``"),
            ("volume \"a\" {\n  name = |\n}\n", "volume/a: expression of name ``"),
            ("volume \"a\" {\n  name = var.e|\n  x", "volume/a: expression of name `var.e`"),
            ("volume \"a\" {\n  name = \"x-${var.e|}\"", "volume/a: expression of name `var.e`"),
            ("volume \"a\" {\n  name = \"x-${var.e|", "volume/a: expression of name `var.e`"),
            (
                "volume \"a\" {\n  name = \"x-${var.e}-y|z\"\n",
                "volume/a: value of name `x-${var.e}-yz` in quotes",
            ),
            (
                "volume \"a\" {\n  name = \"abc|\n  b = 1\n",
                "volume/a: value of name `abc` in quotes",
            ),
            ("volume \"a\" {\n  name = \"abc\n  b = 1\n  c|", "volume/a: key `c`"),
            ("a = { b = [ { c = 1, d| } ] }", "a/b: key `d`"),
            (
                "capability = [{ access_mode = \"s|\" }]",
                "capability: value of access_mode `s` in quotes",
            ),
            ("a = f(x, |", ": expression of a ``"),
            ("# comment |", "nothing"),
            ("a = 1 // comment |", "nothing"),
            ("/* a\n | */", "nothing"),
            ("a = <<EOF\n text ${var.x|}\nEOF\n", ": expression of a `var.x`"),
            ("a = <<EOF\n text\nEOF\nb|", ": key `b`"),
            ("a = x == y ? |", ": expression of a ``"),
            ("a = \"$${x\"\nb|", ": key `b`"),
            ("}}}\na|", ": key `a`"),
        ] {
            assert_eq!(shown(text, Syntax::Hcl), expected, "{text}");
        }
    }

    #[test]
    fn a_place_of_yaml_is_found_by_its_indentation() {
        for (text, expected) in [
            ("|", ": key ``"),
            ("vol|", ": key `vol`"),
            ("volume:\n  a:\n    cap|", "volume/a: key `cap`"),
            ("volume:\n  a:\n    name: x|", "volume/a: value of name `x`"),
            ("volume:\n  a:\n    name: ${var.e|}", "volume/a: expression of name `var.e`"),
            ("volume:\n  a:\n    name: \"x|y\"", "volume/a: value of name `xy` in quotes"),
            (
                "volume:\n  a:\n    capability:\n      - access_mode: s|\n",
                "volume/a/capability: value of access_mode `s`",
            ),
            (
                "volume:\n  a:\n    capability:\n      - access_mode: s\n        att|",
                "volume/a/capability: key `att`",
            ),
            ("volume:\n  a:\n    capability:\n    - att|", "volume/a/capability: key `att`"),
            ("volume:\n  a: {name: x, cap|}", "volume/a: key `cap`"),
            (
                "volume:\n  a: {capability: [{access_mode: s|}]}",
                "volume/a/capability: value of access_mode `s`",
            ),
            ("volume:\n  a:\n    x: 1\nclass:\n  |", "class: key ``"),
            ("volume:\n  a:\n---\n|", ": key ``"),
            ("# comment |", "nothing"),
        ] {
            assert_eq!(shown(text, Syntax::Yaml), expected, "{text}");
        }
    }

    #[test]
    fn a_place_of_json_is_found_by_its_brackets() {
        for (text, expected) in [
            ("{|", ": key ``"),
            ("{\"vol|", ": key `vol`"),
            ("{\"volume\": {\"a\": {\"cap|\"}}}", "volume/a: key `cap`"),
            ("{\"volume\": {\"a\": {\"name\": \"x|y\"", "volume/a: value of name `xy` in quotes"),
            (
                "{\"volume\": {\"a\": {\"name\": \"${var.e|\"",
                "volume/a: expression of name `var.e`",
            ),
            ("{\"volume\": {\"a\": {\"enabled\": |", "volume/a: value of enabled ``"),
            (
                "{\"capability\": [{\"access_mode\": \"s|\"}]}",
                "capability: value of access_mode `s` in quotes",
            ),
            ("{\"capability\": [{\"a\": 1}, {\"b|", "capability: key `b`"),
            ("{\"a\": {\"b\": 1}, \"c|", ": key `c`"),
        ] {
            assert_eq!(shown(text, Syntax::Json), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_offset_of_every_text_has_a_place(
            text in "([a-cä🦀 \n\t:=\",{}\\[\\]()#/$<-]|\\$\\{|<<E\n|\\\\){0,40}",
            at in 0usize..200,
        ) {
            let at = crate::positions::floor(&text, at);
            for syntax in Syntax::ALL {
                let cursor = cursor_at(&text, syntax, at);
                if let Target::Key(written)
                | Target::Value(_, written)
                | Target::Expression(_, written) = cursor.target
                {
                    prop_assert!(text.get(written.range.clone()).is_some());
                    prop_assert!(written.range.start <= at && at <= written.range.end);
                }
            }
        }
    }
}
