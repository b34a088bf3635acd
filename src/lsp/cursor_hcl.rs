//! Finds the place of an offset in HCL, and the names that an unfinished text declares.

use std::ops::Range;

use super::cursor::{Cursor, Target, Written, is_name, is_word, text_target, word_around};
use nomad_csi_spec::NameKind;

/// Returns what is at an offset.
pub(crate) fn hcl_cursor(text: &str, offset: usize) -> Cursor {
    let mut scanner = Scanner::new(text, offset);
    scanner.run();
    scanner.cursor()
}

/// What an unfinished text has at its top level.
#[derive(Default)]
pub(crate) struct HclOutline {
    /// The names that it declares.
    pub(crate) declared: Vec<(NameKind, Range<usize>)>,
    /// True if it has a block.
    pub(crate) has_blocks: bool,
}

/// Returns what a text has, as far as it can be read.
pub(crate) fn hcl_outline(text: &str) -> HclOutline {
    let mut scanner = Scanner::new(text, text.len());
    scanner.run();
    scanner.outline
}

/// What is open.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Open {
    /// A block or an object.
    Body,
    /// A list, or arguments.
    Items,
    /// A quoted text that starts here.
    Text(usize),
    /// A here-document: the start of its content, and its word.
    Heredoc(usize, String),
    /// `${` in a text.
    Interpolation,
}

struct Frame {
    open: Open,
    /// The length of the path outside.
    path_length: usize,
    /// The key outside whose value this is.
    key: Option<String>,
}

struct Scanner<'t> {
    text: &'t str,
    at: usize,
    end: usize,
    path: Vec<String>,
    frames: Vec<Frame>,
    /// The words before `=` or `{`.
    words: Vec<Range<usize>>,
    /// The key whose value is read.
    key: Option<String>,
    is_in_comment: bool,
    outline: HclOutline,
}

impl<'t> Scanner<'t> {
    fn new(text: &'t str, end: usize) -> Self {
        Self {
            text,
            at: 0,
            end,
            path: vec![],
            frames: vec![],
            words: vec![],
            key: None,
            is_in_comment: false,
            outline: HclOutline::default(),
        }
    }

    fn rest(&self) -> &'t str {
        self.text.get(self.at..self.end).unwrap_or_default()
    }

    fn word(&self, range: &Range<usize>) -> &'t str {
        self.text.get(range.clone()).unwrap_or_default()
    }

    fn run(&mut self) {
        while let Some(c) = self.rest().chars().next() {
            match self.frames.last().map(|frame| &frame.open) {
                Some(Open::Text(start)) => {
                    let start = *start;
                    self.text_step(c, start);
                }
                Some(Open::Heredoc(start, word)) => {
                    let (start, word) = (*start, word.clone());
                    self.heredoc_step(c, start, &word);
                }
                Some(Open::Body | Open::Items | Open::Interpolation) | None => self.code_step(c),
            }
        }
    }

    fn push(&mut self, open: Open) {
        let (path_length, key) = (self.path.len(), self.key.clone());
        self.frames.push(Frame { open, path_length, key });
    }

    fn pop(&mut self) {
        if let Some(frame) = self.frames.pop() {
            self.path.truncate(frame.path_length);
            self.key = frame.key;
            self.words.clear();
        }
    }

    fn text_step(&mut self, c: char, start: usize) {
        let rest = self.rest();
        if rest.starts_with("$${") || rest.starts_with("%%{") {
            self.at += 3;
        } else if rest.starts_with("${") {
            self.push(Open::Interpolation);
            self.at += 2;
        } else if c == '\\' {
            let next = rest.chars().nth(1).map_or(0, char::len_utf8);
            self.at += 1 + next;
        } else if c == '"' || c == '\n' {
            let words = std::mem::take(&mut self.words);
            self.pop();
            self.words = words;
            if self.key.is_none() && self.is_in_body() {
                self.words.push(start..self.at);
            }
            self.at += usize::from(c == '"');
        } else {
            self.at += c.len_utf8();
        }
    }

    fn heredoc_step(&mut self, c: char, start: usize, word: &str) {
        let rest = self.rest();
        let is_line_start = self.at == start || self.text[..self.at].ends_with('\n');
        let line = rest.split('\n').next().unwrap_or_default();
        let is_whole =
            self.at + line.len() < self.text.len().min(self.end) || self.end == self.text.len();
        if is_line_start && is_whole && line.trim() == word {
            self.at += line.len();
            self.pop();
        } else if rest.starts_with("${") {
            self.push(Open::Interpolation);
            self.at += 2;
        } else {
            self.at += c.len_utf8();
        }
    }

    fn is_in_body(&self) -> bool {
        self.frames.last().is_none_or(|frame| frame.open == Open::Body)
    }

    fn code_step(&mut self, c: char) {
        let rest = self.rest();
        let line = || rest.find('\n');
        if c == '#' || rest.starts_with("//") {
            self.is_in_comment = line().is_none();
            self.at = line().map_or(self.end, |length| self.at + length);
        } else if rest.starts_with("/*") {
            let end = rest.get(2..).and_then(|inside| inside.find("*/"));
            self.is_in_comment = end.is_none();
            self.at = end.map_or(self.end, |length| self.at + length + 4);
        } else if is_word(c) {
            let length = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            if self.key.is_none() && self.is_in_body() {
                self.words.push(self.at..self.at + length);
            }
            self.at += length;
        } else if let Some((word, length)) = heredoc(rest) {
            self.push(Open::Heredoc(self.at + length, word.to_owned()));
            self.at += length;
        } else {
            self.sign(c, rest);
        }
    }

    fn sign(&mut self, c: char, rest: &str) {
        let is_in_body = self.is_in_body();
        self.at += c.len_utf8();
        match c {
            '"' => {
                let words = self.words.clone();
                self.push(Open::Text(self.at));
                self.words = words;
            }
            '{' => self.open_body(),
            '}' => self.close(&[Open::Body, Open::Interpolation]),
            '[' | '(' => self.push(Open::Items),
            ']' | ')' => self.close(&[Open::Items]),
            '=' if is_in_body && self.key.is_none() && !rest.starts_with("==") => self.assign(),
            ':' if is_in_body && self.key.is_none() => self.assign(),
            '\n' | ',' if is_in_body => {
                self.key = None;
                self.words.clear();
            }
            _ => {}
        }
    }

    fn assign(&mut self) {
        let Some(word) = self.words.last().cloned() else {
            return;
        };
        if self.path == ["locals"] {
            self.outline.declared.push((NameKind::Local, word.clone()));
        }
        self.key = Some(self.word(&word).to_owned());
        self.words.clear();
    }

    fn open_body(&mut self) {
        let words = std::mem::take(&mut self.words);
        self.push(Open::Body);
        match self.key.take() {
            Some(key) => self.path.push(key),
            None => {
                let names: Vec<&str> = words.iter().map(|word| self.word(word)).collect();
                const BLOCKS: [&str; 5] = ["volume", "class", "defaults", "variable", "locals"];
                let is_block = names.first().is_some_and(|name| BLOCKS.contains(name));
                self.outline.has_blocks |= is_block && self.path.is_empty();
                let kind = match names.first() {
                    Some(&"variable") => Some(NameKind::Variable),
                    Some(&"class") => Some(NameKind::Class),
                    Some(_) | None => None,
                };
                if let (Some(kind), [_, label], true) = (kind, &words[..], self.path.is_empty()) {
                    self.outline.declared.push((kind, label.clone()));
                }
                self.path.extend(names.into_iter().map(ToOwned::to_owned));
            }
        }
    }

    /// Closes the innermost of what is open and closed by a character, with everything in it that is not closed.
    fn close(&mut self, closed: &[Open]) {
        let is_text = |open: &Open| matches!(open, Open::Text(_) | Open::Heredoc(..));
        let open = self.frames.iter().rev().take_while(|frame| !is_text(&frame.open));
        let depth = open.into_iter().position(|frame| closed.contains(&frame.open));
        for _ in 0..depth.map_or(0, |depth| depth + 1) {
            self.pop();
        }
    }

    fn cursor(self) -> Cursor {
        let target = self.target();
        Cursor { path: self.path, target }
    }

    fn target(&self) -> Target {
        if self.is_in_comment {
            return Target::Nothing;
        }
        let key = self.frames.last().and_then(|frame| frame.key.clone());
        match self.frames.last().map(|frame| &frame.open) {
            Some(Open::Text(start)) => {
                let after = self.text.get(self.end..).unwrap_or_default();
                let length = after.find(['"', '\n']).unwrap_or(after.len());
                let content = *start..self.end + length;
                match key {
                    Some(key) => text_target(self.text, content, self.end, key, true),
                    None if self.words.is_empty() => {
                        Target::Key(Written { range: content, is_quoted: true })
                    }
                    None => Target::Nothing,
                }
            }
            Some(Open::Heredoc(..)) => Target::Nothing,
            Some(Open::Interpolation) => key.map_or(Target::Nothing, |key| self.expression(key)),
            Some(Open::Body | Open::Items) | None => match &self.key {
                Some(key) => self.expression(key.clone()),
                None if self.is_in_body() => {
                    let range = word_around(self.text, self.end, is_word);
                    let mut before = self.words.iter().filter(|word| word.end < self.end);
                    match before.next() {
                        None => Target::Key(Written { range, is_quoted: false }),
                        Some(_) => Target::Nothing,
                    }
                }
                None => Target::Nothing,
            },
        }
    }

    fn expression(&self, key: String) -> Target {
        let range = word_around(self.text, self.end, is_name);
        Target::Expression(key, Written { range, is_quoted: false })
    }
}

/// Returns the word of a here-document at the start of a text, and the length up to its content.
fn heredoc(rest: &str) -> Option<(&str, usize)> {
    let opening = rest.strip_prefix("<<")?;
    let opening = opening.strip_prefix('-').unwrap_or(opening);
    let (word, _) = opening.split_once('\n')?;
    let length = rest.find('\n')? + 1;
    let word = word.trim_end_matches('\r');
    (!word.is_empty() && word.chars().all(is_word)).then_some((word, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unfinished_text_declares_what_can_be_read() {
        let text = "variable \"env\" {\n  type = string\n}\nlocals {\n  zone = \"a\"\n  map = { inner = 1 }\n}\n\
                    class \"fast\" {\n  name = \"x-${var.env}\n}\nvolume \"class\" {\n  class = ";
        let found: Vec<_> =
            hcl_outline(text).declared.into_iter().map(|(kind, at)| (kind, &text[at])).collect();
        let expected = [
            (NameKind::Variable, "env"),
            (NameKind::Local, "zone"),
            (NameKind::Local, "map"),
            (NameKind::Class, "fast"),
        ];
        assert_eq!(found, expected);
    }
}
