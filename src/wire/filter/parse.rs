//! The reader of filter expressions.
//!
//! `not` binds more tightly than `and`, and `and` more tightly than `or`. The depth is counted, so the
//! recursion is bounded.

use super::expression::{Condition, Expression, Filter, Pattern, Test};
use super::problem::FilterProblem;
use super::selector::{Selector, is_name_character};

type Result<T> = std::result::Result<T, FilterProblem>;

const OPERATOR: &str =
    "`==`, `!=`, `in`, `contains`, `matches`, `is empty`, or `not` and one of them";
const VALUE: &str = "a value: a text in quotes, a number or a name";
const SELECTOR: &str = "a field";

impl Filter {
    /// The longest expression, in bytes.
    pub const LENGTH: usize = 4096;
    /// The deepest nesting of parentheses and `not`.
    pub const DEPTH: usize = 32;
    /// The most patterns in one expression.
    pub const PATTERNS: usize = 16;

    /// Reads an expression.
    ///
    /// # Errors
    /// If it is malformed or exceeds a limit: where, and what was expected.
    pub fn parse(text: &str) -> Result<Self> {
        if text.len() > Self::LENGTH {
            return Err(FilterProblem::TooLong { length: text.len(), limit: Self::LENGTH });
        }
        let mut reader = FilterReader { text, rest: text, patterns: 0 };
        let expression = reader.any(0)?;
        if reader.rest.is_empty() {
            return Ok(Self(expression));
        }
        Err(reader.unexpected("`and`, `or` or the end"))
    }
}

struct FilterReader<'a> {
    text: &'a str,
    rest: &'a str,
    patterns: usize,
}

impl<'a> FilterReader<'a> {
    fn any(&mut self, depth: usize) -> Result<Expression> {
        let mut parts = vec![self.all(depth)?];
        while self.takes_word("or") {
            parts.push(self.all(depth)?);
        }
        Ok(single(&mut parts).unwrap_or(Expression::Any(parts)))
    }

    fn all(&mut self, depth: usize) -> Result<Expression> {
        let mut parts = vec![self.part(depth)?];
        while self.takes_word("and") {
            parts.push(self.part(depth)?);
        }
        Ok(single(&mut parts).unwrap_or(Expression::All(parts)))
    }

    /// Reads a condition, or an expression after `not` or in parentheses.
    fn part(&mut self, depth: usize) -> Result<Expression> {
        self.skip_space();
        if depth > Filter::DEPTH {
            return Err(FilterProblem::TooDeep { at: self.place(), limit: Filter::DEPTH });
        }
        if self.takes_word("not") {
            return Ok(Expression::Not(Box::new(self.part(depth + 1)?)));
        }
        if !self.takes("(") {
            return Ok(Expression::Condition(self.condition()?));
        }
        let expression = self.any(depth + 1)?;
        self.skip_space();
        if self.takes(")") {
            return Ok(expression);
        }
        Err(self.unexpected("`and`, `or` or `)`"))
    }

    fn condition(&mut self) -> Result<Condition> {
        if self.rest.starts_with(['"', '`', '-']) || self.rest.starts_with(is_digit) {
            let value = self.value()?;
            let is_negated = self.takes_word("not");
            if !self.takes_word("in") {
                return Err(self.unexpected("`in` or `not in` after a value"));
            }
            return self.contains(value, is_negated);
        }
        let selector = self.selector("a field, a value, `not` or `(`")?;
        self.skip_space();
        let (selector, test, is_negated) = if self.takes("==") {
            (selector, Test::Equals(self.value()?), false)
        } else if self.takes("!=") {
            (selector, Test::Equals(self.value()?), true)
        } else if self.takes_word("is") {
            let is_negated = self.takes_word("not");
            if !self.takes_word("empty") {
                return Err(self.unexpected("`empty` or `not empty`"));
            }
            (selector, Test::IsEmpty, is_negated)
        } else {
            let is_negated = self.takes_word("not");
            if self.takes_word("in") {
                return self.contains(selector.into_value(), is_negated);
            }
            let test = if self.takes_word("contains") {
                Test::Contains(self.value()?)
            } else if self.takes_word("matches") {
                Test::Matches(self.pattern()?)
            } else if is_negated {
                return Err(self.unexpected("`in`, `contains` or `matches`"));
            } else {
                return Err(self.unexpected(OPERATOR));
            };
            (selector, test, is_negated)
        };
        Ok(Condition { selector, test, is_negated })
    }

    /// Reads the field of a condition whose value comes first.
    fn contains(&mut self, value: String, is_negated: bool) -> Result<Condition> {
        self.skip_space();
        let before = self.rest;
        let selector = self.selector(SELECTOR)?;
        // As in every other place, this is the word.
        if selector.parts() == Some(("not", &[])) {
            self.rest = before;
            return Err(self.unexpected(SELECTOR));
        }
        Ok(Condition { selector, test: Test::Contains(value), is_negated })
    }

    fn selector(&mut self, expected: &'static str) -> Result<Selector> {
        let field = self.name(expected)?;
        let mut inside = vec![];
        loop {
            if self.takes(".") {
                let index = self.take_while(is_digit);
                inside.push(match index {
                    "" => self.name("a name or a number after `.`")?,
                    index => index.to_owned(),
                });
            } else if self.takes("[") {
                self.skip_space();
                inside.push(self.quoted("a text in quotes")?);
                self.skip_space();
                if !self.takes("]") {
                    return Err(self.unexpected("`]`"));
                }
            } else {
                return Ok(Selector::new(field, inside));
            }
        }
    }

    fn name(&mut self, expected: &'static str) -> Result<String> {
        if !self.rest.starts_with(|first: char| first.is_ascii_alphabetic()) {
            return Err(self.unexpected(expected));
        }
        Ok(self.take_while(is_name_character).to_owned())
    }

    fn value(&mut self) -> Result<String> {
        self.skip_space();
        if self.rest.starts_with(['"', '`']) {
            self.quoted(VALUE)
        } else if self.rest.starts_with('-') || self.rest.starts_with(is_digit) {
            self.number()
        } else {
            self.selector(VALUE).map(Selector::into_value)
        }
    }

    fn number(&mut self) -> Result<String> {
        let start = self.rest;
        self.takes("-");
        let digits = self.take_while(|character| is_digit(character) || character == '.');
        let is_number = digits.parse::<f64>().is_ok() && !digits.starts_with('.');
        let is_complete =
            self.rest.is_empty() || self.rest.starts_with([' ', '\t', '\r', '\n', ')']);
        if is_number && is_complete {
            return Ok(start[..start.len() - self.rest.len()].to_owned());
        }
        self.rest = start;
        Err(self.unexpected("a number, or a text in quotes"))
    }

    fn pattern(&mut self) -> Result<Pattern> {
        self.skip_space();
        let at = self.place();
        let text = self.value()?;
        self.patterns += 1;
        if self.patterns > Filter::PATTERNS {
            return Err(FilterProblem::TooManyPatterns { at, limit: Filter::PATTERNS });
        }
        Pattern::new(&text).map_err(|reason| FilterProblem::Pattern { at, reason })
    }

    /// Reads a text in quotes or backquotes. Backquotes have no escapes.
    fn quoted(&mut self, expected: &'static str) -> Result<String> {
        if self.takes("`") {
            let Some((text, rest)) = self.rest.split_once('`') else {
                self.rest = "";
                return Err(self.unexpected("a closing backquote"));
            };
            self.rest = rest;
            return Ok(text.to_owned());
        }
        if !self.takes("\"") {
            return Err(self.unexpected(expected));
        }
        let mut text = String::new();
        loop {
            let before = self.rest;
            match self.take_character() {
                Some('"') => return Ok(text),
                Some('\\') => text.push(self.escape()?),
                Some('\n') | None => {
                    self.rest = before;
                    return Err(self.unexpected("a closing `\"`"));
                }
                Some(other) => text.push(other),
            }
        }
    }

    fn escape(&mut self) -> Result<char> {
        let before = self.rest;
        match self.take_character() {
            Some(escaped @ ('"' | '\\')) => Ok(escaped),
            Some('n') => Ok('\n'),
            Some('r') => Ok('\r'),
            Some('t') => Ok('\t'),
            Some(_) | None => {
                self.rest = before;
                Err(self.unexpected("`\"`, `\\`, `n`, `r` or `t` after `\\`"))
            }
        }
    }

    fn skip_space(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\r', '\n']);
    }

    fn takes(&mut self, symbol: &str) -> bool {
        let Some(rest) = self.rest.strip_prefix(symbol) else {
            return false;
        };
        self.rest = rest;
        true
    }

    /// Skips space and takes the word, if it is the next one.
    fn takes_word(&mut self, word: &str) -> bool {
        self.skip_space();
        let Some(rest) = self.rest.strip_prefix(word) else {
            return false;
        };
        if rest.starts_with(is_name_character) || rest.starts_with(['.', '[']) {
            return false;
        }
        self.rest = rest;
        true
    }

    fn take_character(&mut self) -> Option<char> {
        let mut characters = self.rest.chars();
        let first = characters.next();
        self.rest = characters.as_str();
        first
    }

    fn take_while(&mut self, is_selected: fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|character| !is_selected(character));
        let (taken, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest;
        taken
    }

    /// The number of the next character.
    fn place(&self) -> usize {
        let before = self.text.len() - self.rest.len();
        self.text[..before].chars().count() + 1
    }

    fn unexpected(&self, expected: &'static str) -> FilterProblem {
        FilterProblem::Unexpected { at: self.place(), expected, found: found(self.rest) }
    }
}

/// The next word or character, for a message.
fn found(rest: &str) -> String {
    let Some(first) = rest.chars().next() else {
        return "the end".to_owned();
    };
    if !is_name_character(first) {
        return format!("`{}`", first.escape_debug());
    }
    let word = rest.split(|character| !is_name_character(character)).next();
    let word: String = word.unwrap_or_default().chars().take(40).collect();
    format!("`{word}`")
}

fn is_digit(character: char) -> bool {
    character.is_ascii_digit()
}

fn single(parts: &mut Vec<Expression>) -> Option<Expression> {
    if parts.len() > 1 {
        return None;
    }
    parts.pop()
}
