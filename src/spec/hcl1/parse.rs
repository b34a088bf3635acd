//! Parses tokens to a tree, by HCL1's grammar.

use std::ops::Range;

use super::expression_end::expression_end;
use super::text;
use super::token::{self, Kind, Scanner, Token};
use crate::parse_error::ParseError;
use crate::tree::{MAX_DEPTH, Node, Object, ScalarKind, SpannedText, Value, ValueBudget};
use nomad_csi_model::diagnostic::{Diagnostics, SourceId, SourceMap, Span};

/// The version of HCL that decides the meaning of `"${x}"` and `010`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HclVersion {
    /// Literal text, and octal.
    Hcl1,
    /// An expression, and decimal.
    Hcl2,
    /// As [`Self::Hcl2`], and here-documents lose their indentation as in HCL2.
    Language,
    /// As [`Self::Language`], and `"${x}"` is literal text.
    Variables,
}

/// The value of an expression, with its diagnostics.
pub(crate) type Expression<'a> = (Node<'a>, Diagnostics);

/// A parsed file.
pub(crate) struct ParsedHcl<'a> {
    pub(crate) body: Object<'a>,
    /// True if the file has expressions, so it is not plain HCL1.
    pub(crate) uses_expressions: bool,
    /// The places of the expressions, in ascending order. None is in another one.
    pub(crate) expressions: Vec<Range<usize>>,
    /// Texts with `${` or `%{`, which HCL2 would evaluate.
    pub(crate) templates: Vec<Span>,
    /// True if a number starts with zero, which HCL2 reads as decimal.
    pub(crate) has_octal: bool,
    /// Diagnostics of the expressions, which are errors.
    pub(crate) diagnostics: Diagnostics,
}

/// Parses a whole file. `expressions` reads a range of the text that is not an HCL1 value as an
/// expression.
pub(crate) fn parse<'a>(
    text: &'a str,
    source: SourceId,
    meaning: HclVersion,
    expressions: impl FnMut(Range<usize>) -> Result<Expression<'a>, ParseError>,
) -> Result<ParsedHcl<'a>, ParseError> {
    let mut parser = Parser {
        scanner: Scanner::new(text),
        source,
        meaning,
        depth: 0,
        budget: MAX_REREADS * text.len(),
        values: ValueBudget::default(),
        expressions,
        found: ParsedHcl {
            body: Object::default(),
            uses_expressions: false,
            expressions: vec![],
            templates: vec![],
            has_octal: false,
            diagnostics: Diagnostics::default(),
        },
    };
    parser.found.body = parser.items(None)?;
    Ok(parser.found)
}

/// Limit of the bytes read as expressions, in multiples of the file: every nesting level may try
/// again.
const MAX_REREADS: usize = 8;

/// Limit of the bytes of one expression. The tree of an expression is a hundred times as large.
const MAX_EXPRESSION: usize = 256 << 10;

struct Parser<'a, E> {
    scanner: Scanner<'a>,
    source: SourceId,
    meaning: HclVersion,
    depth: usize,
    /// The number of bytes that may still be read as expressions.
    budget: usize,
    values: ValueBudget,
    expressions: E,
    found: ParsedHcl<'a>,
}

impl<'a, E> Parser<'a, E>
where
    E: FnMut(Range<usize>) -> Result<Expression<'a>, ParseError>,
{
    fn peek(&mut self) -> Result<Token, ParseError> {
        let at = self.scanner.at;
        let token = self.scanner.next();
        self.scanner.at = at;
        match token {
            // HCL2 may read the text otherwise.
            Err(problem) if problem.is_of_quote && !problem.is_conclusive => {
                let Range { start, end } = problem.range;
                Ok(Token { kind: Kind::Other('"'), start, end })
            }
            token => token,
        }
    }

    fn span(&self, range: Range<usize>) -> Span {
        SourceMap::span(self.source, range)
    }

    /// Parses the items of a body, up to and including its closing brace, or to the end of the
    /// file.
    fn items(&mut self, open: Option<Token>) -> Result<Object<'a>, ParseError> {
        let mut object = Object::default();
        loop {
            let token = self.scanner.next()?;
            match (token.kind, open) {
                (Kind::End, None) | (Kind::CloseBrace, Some(_)) => return Ok(object),
                (Kind::End, Some(open)) => return Err(never_closed(open, "brace")),
                (Kind::CloseBrace, None) => {
                    return Err(ParseError::syntax(token.range(), "unexpected closing brace"));
                }
                _ => self.item(token, &mut object)?,
            }
            let after = self.scanner.at;
            if self.scanner.next()?.kind != Kind::Comma {
                self.scanner.at = after;
            }
        }
    }

    /// Parses one item: `key = value`, `key { … }`, `key "label" { … }`.
    fn item(&mut self, first: Token, object: &mut Object<'a>) -> Result<(), ParseError> {
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

    fn count(&mut self, values: usize, range: Range<usize>) -> Result<(), ParseError> {
        let counted = self.values.take(values);
        counted.ok_or_else(|| ParseError::too_many_values(range))
    }

    /// Parses a key or a label; `before` contains the preceding ones.
    fn word(
        &mut self,
        token: Token,
        before: &[SpannedText<'a>],
    ) -> Result<SpannedText<'a>, ParseError> {
        self.count(1, token.range())?;
        let text = &self.scanner.text[token.range()];
        let text = match token.kind {
            Kind::Identifier => text.into(),
            Kind::Text => text::unquote(&text[1..text.len() - 1], token.start + 1)?,
            kind => return Err(no_word(kind, token, before)),
        };
        let span = self.span(token.range());
        Ok(SpannedText { text, span })
    }

    /// Parses a value, or an HCL2 expression where HCL1 has no value.
    fn value(&mut self, in_list: bool) -> Result<Node<'a>, ParseError> {
        let start = self.peek()?.start;
        let depth = self.depth;
        let (length, template_count) =
            (self.found.diagnostics.length(), self.found.templates.len());
        let expression_count = self.found.expressions.len();
        let problem = match self.plain_value(in_list) {
            Ok(node) if !self.operator_follows(in_list) => return Ok(node),
            Ok(_) => None,
            Err(problem) => Some(problem),
        };
        if let Some(problem) = problem.as_ref().filter(|problem| problem.is_conclusive) {
            return Err(problem.clone());
        }
        let end = expression_end(self.scanner.text, start, in_list);
        if end - start > self.budget.min(MAX_EXPRESSION) {
            return Err(problem.unwrap_or_else(|| too_long(start..end)));
        }
        self.budget -= end - start;
        self.depth = depth;
        self.found.diagnostics.truncate(length);
        self.found.templates.truncate(template_count);
        self.found.expressions.truncate(expression_count);
        match (self.expressions)(start..end) {
            Ok((node, diagnostics)) => {
                self.count(2 * node.size_and_depth().0, start..start)?;
                self.found.diagnostics.extend(diagnostics);
                self.found.uses_expressions = true;
                self.found.expressions.push(start..end);
                self.scanner.at = end;
                Ok(node)
            }
            Err(other) => Err(match problem {
                Some(problem)
                    if problem.range.start >= other.range.start
                        || problem.is_of_quote && !other.is_of_reference =>
                {
                    problem
                }
                _ => other,
            }),
        }
    }

    /// Parses an HCL1 value.
    fn plain_value(&mut self, in_list: bool) -> Result<Node<'a>, ParseError> {
        let token = self.scanner.next()?;
        self.count(1, token.range())?;
        let written = &self.scanner.text[token.range()];
        let span = self.span(token.range());
        let hcl2 = self.meaning != HclVersion::Hcl1;
        match token.kind {
            Kind::Heredoc
                if self.meaning == HclVersion::Language
                    || self.meaning == HclVersion::Variables && !is_template(written) =>
            {
                Err(ParseError::syntax(token.range(), "a here-document of HCL2"))
            }
            Kind::Text | Kind::Heredoc
                if is_template(written) && hcl2 && self.meaning != HclVersion::Variables =>
            {
                Err(ParseError::syntax(token.range(), "a template"))
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
                    return Err(ParseError::syntax(token.range(), "a number of HCL2"));
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
                let message = format!("expected a value {place}");
                Err(ParseError::syntax(token.range(), message))
            }
        }
    }

    fn object(&mut self, open: Token) -> Result<Node<'a>, ParseError> {
        self.enter(open)?;
        let object = self.items(Some(open))?;
        self.depth -= 1;
        let span = self.span(open.start..self.scanner.at);
        Ok(Node::object(object, span))
    }

    fn list(&mut self, open: Token) -> Result<Node<'a>, ParseError> {
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
                    let message = "expected a comma between the values of a list";
                    return Err(ParseError::syntax(token.range(), message));
                }
                _ => items.push(self.value(true)?),
            }
            comma_needed = true;
        }
        self.scanner.next()?;
        self.depth -= 1;
        let span = self.span(open.start..self.scanner.at);
        Ok(Node { value: Value::List(items), span })
    }

    fn enter(&mut self, open: Token) -> Result<(), ParseError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(ParseError::too_deep(open.range()));
        }
        Ok(())
    }

    /// Returns whether an HCL2 operator follows the value.
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

/// Returns whether HCL2 would evaluate a part of the text.
fn is_template(written: &str) -> bool {
    written.contains("${") || written.contains("%{")
}

fn too_long(range: Range<usize>) -> ParseError {
    ParseError::syntax(range, "this expression is too long")
}

fn never_closed(open: Token, what: &str) -> ParseError {
    ParseError::syntax(open.range(), format!("this {what} is not closed")).certain()
}

fn only_double_quotes(token: Token) -> ParseError {
    ParseError::syntax(token.range(), "HCL requires double quotes")
}

fn no_value(words: &[SpannedText<'_>]) -> ParseError {
    let range = words.first().map_or(0..0, |word| word.span.range());
    ParseError::syntax(range, "expected `=` or `{` after the key")
}

fn no_word(kind: Kind, token: Token, before: &[SpannedText<'_>]) -> ParseError {
    match (kind, before) {
        (Kind::Other(':'), [_, ..]) => {
            ParseError::syntax(token.range(), "expected `=` after the key: HCL does not use `:`")
        }
        (_, [_, ..]) => no_value(before),
        (Kind::Other('\''), []) => only_double_quotes(token),
        (_, []) => ParseError::syntax(token.range(), "expected a key"),
    }
}
