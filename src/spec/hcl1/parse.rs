//! Tokens to a tree, by HCL1's grammar.

use std::ops::Range;

use super::extent::expression_end;
use super::text;
use super::token::{self, Kind, Scanner, Token};
use crate::diagnostic::{Diagnostic, SourceId, SourceMap, Span};
use crate::spec::problem::Problem;
use crate::spec::tree::{MAX_DEPTH, Node, Object, ScalarKind, Value, Word};

/// Which language decides what `"${x}"` and `010` say, which both can read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::spec) enum Meaning {
    /// Literal text, and octal.
    Nomad,
    /// Whatever the caller's expressions say.
    Hcl2,
}

/// What an expression said, and what is to be said of it.
pub(in crate::spec) type Expression<'a> = (Node<'a>, Vec<Diagnostic>);

/// A file, read.
pub(in crate::spec) struct Parsed<'a> {
    pub(in crate::spec) body: Object<'a>,
    /// Whether an expression was needed anywhere: the file is more than HCL1.
    pub(in crate::spec) uses_expressions: bool,
    /// Texts with `${` or `%{` in them, which HCL2 would evaluate.
    pub(in crate::spec) templates: Vec<Span>,
    /// Whether a number starts with a zero, which HCL2 would read as decimal.
    pub(in crate::spec) has_octal: bool,
    /// What the expressions gave rise to.
    pub(in crate::spec) diagnostics: Vec<Diagnostic>,
}

/// Reads a whole file. `expressions` reads what is no value in HCL1: a range of the text that should
/// be one expression; it gives a [`Problem`] if it is none.
pub(in crate::spec) fn parse<'a>(
    text: &'a str,
    source: SourceId,
    meaning: Meaning,
    expressions: impl FnMut(Range<usize>) -> Result<Expression<'a>, Problem>,
) -> Result<Parsed<'a>, Problem> {
    let mut parser = Parser {
        scanner: Scanner { text, at: 0 },
        source,
        meaning,
        depth: 0,
        budget: READ_OVER * text.len(),
        expressions,
        found: Parsed {
            body: Object::default(),
            uses_expressions: false,
            templates: vec![],
            has_octal: false,
            diagnostics: vec![],
        },
    };
    parser.found.body = parser.items(None)?;
    Ok(parser.found)
}

/// How often a file may be read over in search of expressions: every level of nesting may try anew.
const READ_OVER: usize = 8;

struct Parser<'a, E> {
    scanner: Scanner<'a>,
    source: SourceId,
    meaning: Meaning,
    depth: usize,
    /// How many bytes may still be read as expressions.
    budget: usize,
    expressions: E,
    found: Parsed<'a>,
}

impl<'a, E> Parser<'a, E>
where
    E: FnMut(Range<usize>) -> Result<Expression<'a>, Problem>,
{
    fn peek(&mut self) -> Result<Token, Problem> {
        let at = self.scanner.at;
        let token = self.scanner.next();
        self.scanner.at = at;
        token
    }

    fn span(&self, range: Range<usize>) -> Span {
        SourceMap::span(self.source, range)
    }

    /// The items of a body, up to its closing brace (which is consumed) or the end of the file.
    fn items(&mut self, open: Option<Token>) -> Result<Object<'a>, Problem> {
        let mut object = Object::default();
        loop {
            let token = self.scanner.next()?;
            match (token.kind, open) {
                (Kind::End, None) | (Kind::CloseBrace, Some(_)) => return Ok(object),
                (Kind::End, Some(open)) => return Err(never_closed(open, "brace")),
                (Kind::CloseBrace, None) => {
                    return Err(Problem::syntax(token.range(), "this brace closes nothing"));
                }
                _ => self.item(token, &mut object)?,
            }
            let after = self.scanner.at;
            if self.scanner.next()?.kind != Kind::Comma {
                self.scanner.at = after;
            }
        }
    }

    /// One item: `key = value`, `key { … }`, `key "label" { … }`.
    fn item(&mut self, first: Token, object: &mut Object<'a>) -> Result<(), Problem> {
        let mut words = vec![self.word(first, &[])?];
        loop {
            let token = self.scanner.next()?;
            let value = match token.kind {
                Kind::Assign if words.len() > 1 => return Err(no_value(&words)),
                Kind::Assign => self.value(false)?,
                Kind::OpenBrace => self.object(token)?,
                _ => {
                    let word = self.word(token, &words)?;
                    words.push(word);
                    continue;
                }
            };
            let labels = words.split_off(1);
            if let Some(key) = words.pop() {
                object.push(key, labels, value);
            }
            return Ok(());
        }
    }

    /// A key or a label; `before` are those that came before it.
    fn word(&self, token: Token, before: &[Word<'a>]) -> Result<Word<'a>, Problem> {
        let text = &self.scanner.text[token.range()];
        let text = match token.kind {
            Kind::Identifier => text.into(),
            Kind::Text => text::unquote(&text[1..text.len() - 1], token.start + 1)?,
            kind => return Err(no_word(kind, token, before)),
        };
        let span = self.span(token.range());
        Ok(Word { text, span })
    }

    /// A value; where HCL1 has none, the expression that stands there.
    fn value(&mut self, in_list: bool) -> Result<Node<'a>, Problem> {
        let start = self.peek()?.start;
        let depth = self.depth;
        let (said, seen) = (self.found.diagnostics.len(), self.found.templates.len());
        let problem = match self.plain_value(in_list) {
            Ok(node) if !self.operator_follows(in_list) => return Ok(node),
            Ok(_) => None,
            Err(problem) => Some(problem),
        };
        if let Some(problem) = problem.as_ref().filter(|problem| problem.certain) {
            return Err(problem.clone());
        }
        let end = expression_end(self.scanner.text, start, in_list);
        if end - start > self.budget {
            return Err(problem.unwrap_or_else(|| too_long(start..end)));
        }
        self.budget -= end - start;
        self.depth = depth;
        self.found.diagnostics.truncate(said);
        self.found.templates.truncate(seen);
        match (self.expressions)(start..end) {
            Ok((node, diagnostics)) => {
                self.found.diagnostics.extend(diagnostics);
                self.found.uses_expressions = true;
                self.scanner.at = end;
                Ok(node)
            }
            Err(other) => Err(match problem {
                Some(problem) if problem.range.start >= other.range.start => problem,
                _ => other,
            }),
        }
    }

    /// A value as HCL1 knows it.
    fn plain_value(&mut self, in_list: bool) -> Result<Node<'a>, Problem> {
        let token = self.scanner.next()?;
        let written = &self.scanner.text[token.range()];
        let span = self.span(token.range());
        let hcl2 = self.meaning == Meaning::Hcl2;
        match token.kind {
            Kind::Text | Kind::Heredoc if is_template(written) && hcl2 => {
                Err(Problem::syntax(token.range(), "a template"))
            }
            Kind::Text | Kind::Heredoc => {
                if is_template(written) {
                    self.found.templates.push(span);
                }
                let text = match token.kind {
                    Kind::Text => text::unquote(&written[1..written.len() - 1], token.start + 1)?,
                    _ => {
                        let parts = token::heredoc(self.scanner.text, token.start)?;
                        text::heredoc(self.scanner.text, &parts)
                    }
                };
                Ok(Node::text(text, span))
            }
            Kind::Number => {
                let octal = written.trim_start_matches('-').starts_with('0') && written.len() > 1;
                if octal && hcl2 {
                    return Err(Problem::syntax(token.range(), "a number of HCL2"));
                }
                self.found.has_octal |= octal;
                Ok(Node::scalar(ScalarKind::Number, written, span))
            }
            Kind::Boolean => Ok(Node::scalar(ScalarKind::Boolean, written, span)),
            Kind::OpenBrace => self.object(token),
            Kind::OpenBracket => self.list(token),
            Kind::Other('\'') => Err(only_double_quotes(token)),
            _ => {
                let place = if in_list { "in a list" } else { "after `=`" };
                let message = format!("there is no value {place}");
                Err(Problem::syntax(token.range(), message))
            }
        }
    }

    fn object(&mut self, open: Token) -> Result<Node<'a>, Problem> {
        self.enter(open)?;
        let object = self.items(Some(open))?;
        self.depth -= 1;
        let span = self.span(open.start..self.scanner.at);
        Ok(Node::object(object, span))
    }

    fn list(&mut self, open: Token) -> Result<Node<'a>, Problem> {
        self.enter(open)?;
        let mut items = vec![];
        let mut comma_needed = false;
        loop {
            let token = self.peek()?;
            match token.kind {
                Kind::CloseBracket => break,
                Kind::Comma => {
                    self.scanner.next()?;
                    comma_needed = false;
                    continue;
                }
                Kind::End => return Err(never_closed(open, "bracket")),
                _ if comma_needed => {
                    let message = "the values of a list are separated by commas";
                    return Err(Problem::syntax(token.range(), message));
                }
                _ => items.push(self.value(true)?),
            }
            comma_needed = true;
        }
        self.scanner.next()?;
        self.depth -= 1;
        let span = self.span(open.start..self.scanner.at);
        Ok(Node {
            value: Value::List(items),
            span,
        })
    }

    fn enter(&mut self, open: Token) -> Result<(), Problem> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Problem::too_deep(open.range()));
        }
        Ok(())
    }

    /// Whether the value just read goes on with an operator of HCL2.
    fn operator_follows(&self, in_list: bool) -> bool {
        let rest = self.scanner.text[self.scanner.at..].trim_start_matches([' ', '\t']);
        let mut chars = rest.chars();
        let (first, second) = (chars.next(), chars.next());
        match first {
            Some('+' | '-' | '*' | '%' | '>' | '!' | '?' | '&' | '|' | '(' | '.') => true,
            Some('[') => !in_list,
            Some('/') => !matches!(second, Some('/' | '*')),
            Some('=') => second == Some('='),
            Some('<') => second != Some('<'),
            _ => false,
        }
    }
}

/// Whether HCL2 would evaluate something in it.
fn is_template(written: &str) -> bool {
    written.contains("${") || written.contains("%{")
}

fn too_long(range: Range<usize>) -> Problem {
    Problem::syntax(range, "this expression is too long to be read")
}

fn never_closed(open: Token, what: &str) -> Problem {
    Problem::syntax(open.range(), format!("this {what} is never closed")).certain()
}

fn only_double_quotes(token: Token) -> Problem {
    Problem::syntax(token.range(), "HCL knows double quotes only")
}

fn no_value(words: &[Word<'_>]) -> Problem {
    let range = words.first().map_or(0..0, |word| word.span.range());
    Problem::syntax(range, "this key is followed by neither `=` nor `{`")
}

fn no_word(kind: Kind, token: Token, before: &[Word<'_>]) -> Problem {
    match (kind, before) {
        (Kind::Other(':'), [_, ..]) => Problem::syntax(
            token.range(),
            "a key is followed by `:`, and HCL writes `=`",
        ),
        (_, [_, ..]) => no_value(before),
        (Kind::Other('\''), []) => only_double_quotes(token),
        (_, []) => Problem::syntax(token.range(), "a key should stand here"),
    }
}
