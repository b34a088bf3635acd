//! Finds what may be secret in a text that does not parse, to hide it.
//!
//! Everything from a sensitive word to the earliest possible end of its block is hidden: all brackets
//! and here-documents are closed, and a line with at most the word's indentation starts with a field
//! of a volume. That hides too much rather than too little, because the syntax error may make the
//! block look closed. Blocks that overlap are one block, which ends where all of them have ended, so
//! every line is read once.

use std::ops::Range;

use super::mask::may_be_sensitive;
use super::schema;
use super::syntax::Syntax;

/// Returns the ranges to hide, in ascending order.
pub(super) fn possible_secrets(text: &str, syntax: Syntax) -> Vec<Range<usize>> {
    let mut hidden = vec![];
    let mut open: Option<HiddenBlock<'_>> = None;
    let mut line_start = 0;
    for line in text.split_inclusive('\n') {
        if let Some(block) = open.take_if(|block| block.ends_before(line, syntax)) {
            hidden.push(block.start..line_start);
        }
        let words = sensitive_words(line);
        match (&mut open, words.first()) {
            (Some(block), _) => block.line(line, &words),
            (None, Some(first)) => {
                let mut block = HiddenBlock::new(line_start + first, line);
                block.words(line, &words);
                open = Some(block);
            }
            (None, None) => {}
        }
        line_start += line.len();
    }
    hidden.extend(open.map(|block| block.start..text.len()));
    hidden
}

/// Limit of sensitive words in one line, and of here-documents in each other. Beyond it, everything
/// to the end of the text is hidden.
const MANY: usize = 8;

/// Returns the ends of the sensitive words of a line, of at most one more than [`MANY`].
fn sensitive_words(line: &str) -> Vec<usize> {
    let mut found = vec![];
    let mut at = 0;
    while let Some(start) = line[at..].find(is_word).map(|start| at + start) {
        let length = line[start..].find(|c| !is_word(c));
        at = length.map_or(line.len(), |length| start + length);
        if may_be_sensitive(&line[start..at]) {
            found.push(at);
            if found.len() > MANY {
                break;
            }
        }
    }
    found
}

/// One or more blocks that overlap.
struct HiddenBlock<'a> {
    start: usize,
    /// The least indentation of their sensitive words.
    indent: usize,
    /// No fewer brackets than any of them has open.
    brackets: usize,
    /// The closing words of open here-documents.
    here_documents: Vec<&'a str>,
    /// True if an open here-document contains a sensitive word.
    has_inner_word: bool,
    is_endless: bool,
}

impl<'a> HiddenBlock<'a> {
    fn new(start: usize, line: &str) -> Self {
        Self {
            start,
            indent: indentation(line),
            brackets: 0,
            here_documents: vec![],
            has_inner_word: false,
            is_endless: false,
        }
    }

    fn ends_before(&self, line: &str, syntax: Syntax) -> bool {
        !self.is_endless
            && self.here_documents.is_empty()
            && self.brackets == 0
            && indentation(line) <= self.indent
            && starts_with_key(line, syntax)
    }

    /// Reads a line, and its sensitive words by their ends.
    fn line(&mut self, line: &'a str, words: &[usize]) {
        let was_inside = !self.here_documents.is_empty();
        self.here_documents.retain(|word| *word != line.trim());
        let is_inside = !self.here_documents.is_empty();
        self.has_inner_word = is_inside && (self.has_inner_word || !words.is_empty());
        match (was_inside, is_inside) {
            (false, _) => {
                self.brackets = brackets(self.brackets, line);
                self.here_document(line);
            }
            // A word inside counts brackets that are text to a word before the here-document.
            (true, true) if self.has_inner_word => {
                self.brackets = self.brackets.max(brackets(self.brackets, line));
                self.here_document(line);
            }
            (true, _) => {}
        }
        self.words(line, words);
    }

    /// Starts a block at each sensitive word of a line.
    fn words(&mut self, line: &'a str, ends: &[usize]) {
        self.is_endless |= ends.len() > MANY;
        if ends.is_empty() || self.is_endless {
            return;
        }
        self.indent = self.indent.min(indentation(line));
        for end in ends {
            let rest = &line[*end..];
            let rest = rest.strip_prefix(['"', '\'']).unwrap_or(rest);
            self.brackets = self.brackets.max(brackets(0, rest));
            self.here_document(rest);
        }
    }

    /// Opens the here-document that a line starts.
    fn here_document(&mut self, line: &'a str) {
        let word = here_document(line).filter(|word| !self.here_documents.contains(word));
        if let Some(word) = word {
            self.is_endless |= self.here_documents.len() >= MANY;
            self.here_documents.push(word);
        }
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.')
}

fn indentation(line: &str) -> usize {
    line.len() - line.trim_start_matches([' ', '\t']).len()
}

/// Returns the number of open brackets after a line. Brackets in quotes do not count; an open quote
/// extends to the end of the line.
fn brackets(mut open: usize, line: &str) -> usize {
    let mut quote = None;
    let mut escaped = false;
    for c in line.chars() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if quote == Some(c) => quote = None,
            _ if quote.is_some() => {}
            '"' | '\'' => quote = Some(c),
            '{' | '[' | '(' => open += 1,
            '}' | ']' | ')' => open = open.saturating_sub(1),
            _ => {}
        }
    }
    open
}

/// Returns the closing word of the here-document that a line opens.
fn here_document(line: &str) -> Option<&str> {
    let (_, after) = line.rsplit_once("<<")?;
    let word = after.trim_start_matches('-').trim();
    (!word.is_empty() && word.chars().all(is_word)).then_some(word)
}

/// Returns whether a line starts with a field of a volume: `key =` or `key {`, `key:`, `"key":`.
fn starts_with_key(line: &str, syntax: Syntax) -> bool {
    let line = line.trim();
    let bare = line.trim_start_matches(['"', '\'']);
    let length = bare.find(|c| !is_word(c)).unwrap_or(bare.len());
    let rest = bare[length..].trim_start_matches(['"', '\'']).trim_start();
    let follows = match syntax {
        Syntax::Hcl => rest == "{" || rest.strip_prefix('=').is_some_and(|value| !value.is_empty()),
        Syntax::Yaml => rest == ":" || rest.starts_with(": "),
        Syntax::Json => line.starts_with('"') && rest.starts_with(':'),
    };
    let key = &bare[..length];
    follows && (key == "volume" || schema::volume_field(key).is_some())
}

#[cfg(test)]
mod tests;
