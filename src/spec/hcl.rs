//! Reads HCL to a tree. This is the only file that uses hcl-edit.
//!
//! [`super::hcl1`] reads the structure of a file. This file adds the expressions of HCL2. Literals,
//! lists, objects and parentheses have values. A call with one text, such as `env("X")`, is a
//! secret reference, and the word `unknown` is an unknown hidden value. Any other call, variable or
//! operator is refused.
//!
//! Where HCL1 and HCL2 read a text differently, Nomad's reading applies to a file that uses no
//! feature of HCL2, with a warning.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;

use hcl_edit::Span as _;
use hcl_edit::expr::{Expression, FuncCall, Object as HclObject, ObjectKey, UnaryOperator};

use super::expression::convert;
use super::expression::equal_keys;
use super::expression::names::Names;
use super::expression::place::TextPlace;
use super::expression::tree::Expr;
use super::hcl1::{self, HclVersion, ParsedHcl};
use super::interpolation::{evaluated_part, malformed_parts};
use super::parse_error::ParseError;
use super::tree::{
    Node, Object, PlacedExpression, ReferenceSource, ScalarKind, SecretReference, SpannedText,
    Value,
};
use super::words::UNKNOWN;
use nomad_csi_model::diagnostic::{
    Code, Diagnostic, Diagnostics, SourceId, SourceMap, Span, closest_match,
};

/// The kinds of expressions that a file may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dialect {
    /// References to secrets, and `unknown`.
    Specification,
    /// Every expression, which is evaluated later.
    Language,
    /// References that a node replaces when a task starts.
    Job,
    /// Nothing: a file of variables has literal values.
    Variables,
}

/// Reads a job file to a tree. Texts keep their `${…}`: [`super::interpolation`] evaluates them.
/// The positions of refused expressions are in `diagnostics`.
pub(super) fn parse_job<'a>(
    text: &'a str,
    source: SourceId,
    diagnostics: &mut Diagnostics,
) -> Result<Object<'a>, ParseError> {
    let parsed = job(text, source)?;
    diagnostics.extend(parsed.diagnostics);
    Ok(parsed.body)
}

fn job(text: &str, source: SourceId) -> Result<ParsedHcl<'_>, ParseError> {
    hcl1::parse(text, source, HclVersion::Hcl1, |range| {
        expression(text, source, range, Dialect::Job)
    })
}

/// A file with the places of its expressions.
pub(super) struct PlacedHcl<'a> {
    pub(super) body: Object<'a>,
    /// In ascending order. None is in another one.
    pub(super) expressions: Vec<Range<usize>>,
}

/// Reads a specification, or a job if it cannot be one, whatever its expressions mean.
pub(super) fn parse_placed<'a>(
    text: &'a str,
    source: SourceId,
    is_of_language: impl FnOnce(&Object<'a>) -> bool,
) -> Result<PlacedHcl<'a>, ParseError> {
    let parsed = specification(text, source, is_of_language, &mut Names::default())
        .or_else(|problem| job(text, source).map_err(|_| problem))?;
    Ok(PlacedHcl { body: parsed.body, expressions: parsed.expressions })
}

/// Returns what only HCL1 accepts in a file. Nomad reads volume files as HCL1, and job files as HCL2.
pub(super) fn not_hcl2(text: &str) -> Option<ParseError> {
    let error = hcl_edit::parser::parse_body(text).err()?;
    let range = character(text, error.location().offset());
    let message = "a job file is HCL2, which does not accept this";
    let problem = ParseError::syntax(range, message).label(expected(error.message()));
    Some(
        problem
            .help("write one argument per line, without quotes around its name and without commas"),
    )
}

/// Limit of the references that are none which are reported of a file.
const MOST_MALFORMED: usize = 20;

/// Returns what starts as a reference and is none in all texts of a file, also in parts that are not read.
pub(super) fn malformed_references(text: &str) -> Vec<ParseError> {
    let found = malformed_in_texts(text);
    found.into_iter().map(|(_, part)| malformed(text, part)).collect()
}

/// Returns what starts as a reference and is none in quoted texts and here-documents, each with the start of its text. What
/// follows a here-document without an end is its content.
fn malformed_in_texts(text: &str) -> Vec<(usize, Range<usize>)> {
    let bytes = text.as_bytes();
    let (mut at, mut found) = (0, vec![]);
    while at < bytes.len() && found.len() < MOST_MALFORMED {
        let Some(end) = hcl1::skipped_end(text, at) else {
            if hcl1::is_open_heredoc(text, at) {
                break;
            }
            at += 1;
            continue;
        };
        let end = end.max(at + 1).min(text.len());
        // Comments may have anything.
        if matches!(bytes[at], b'"' | b'<')
            && let Some(written) = text.get(at..end)
        {
            let parts = malformed_parts(written);
            found.extend(parts.map(|part| (at, at + part.start..at + part.end)));
        }
        at = end;
    }
    found
}

/// Returns a problem with what starts as a reference and is none.
pub(crate) fn malformed_reference(part: &str, span: Span) -> Diagnostic {
    let (message, help) = malformed_words(part);
    let problem = Diagnostic::error(Code::JobExpression, message);
    problem.label(span, "not a reference").help(help)
}

/// Returns whether a text is an expression if these parts of it are literal.
fn is_valid_without(text: &str, parts: &[(usize, Range<usize>)]) -> bool {
    let mut literal = String::with_capacity(text.len() + parts.len());
    let mut at = 0;
    for (_, part) in parts {
        literal.push_str(text.get(at..part.start).unwrap_or_default());
        literal.push(if text[part.start..].starts_with('%') { '%' } else { '$' });
        at = part.start;
    }
    literal.push_str(text.get(at..).unwrap_or_default());
    hcl_edit::parser::parse_expr(&literal).is_ok()
}

/// Returns whether a text that does not parse is likely to be one of the language.
fn has_block_of_language(text: &str) -> bool {
    const BLOCKS: [&str; 5] = ["volume", "class", "defaults", "variable", "locals"];
    text.lines().any(|line| {
        let word = line.split([' ', '\t', '{', '"']).next().unwrap_or_default();
        BLOCKS.contains(&word) && line.trim_end().ends_with(['{', '}'])
    })
}

/// Returns the error of a part of a text that starts as a reference and is none.
fn malformed(text: &str, part: Range<usize>) -> ParseError {
    let (message, help) = malformed_words(&text[part.clone()]);
    let problem = ParseError::syntax(part, message).label("not a reference").help(help);
    ParseError { is_of_reference: true, ..problem }
}

fn malformed_words(part: &str) -> (&'static str, &'static str) {
    match part.starts_with('%') {
        true => ("`%{` starts no valid directive", "write `%%{` for a literal `%{`"),
        false => ("`${` starts no valid reference", "write `$${` for a literal `${`"),
    }
}

/// Returns what the HCL2 parser expected.
fn expected(message: &str) -> String {
    let (_, expected) = message.split_once(';').unwrap_or(("", message));
    expected.trim().to_owned()
}

/// Reads a file without expressions to a tree.
pub(super) fn parse<'a>(
    text: &'a str,
    source: SourceId,
    diagnostics: &mut Diagnostics,
) -> Result<Object<'a>, ParseError> {
    parse_specification(text, source, |_| false, &mut Names::default(), diagnostics)
}

/// Reads a file to a tree. A file for which `is_of_language` holds keeps its expressions, with slots of `names`.
pub(super) fn parse_specification<'a>(
    text: &'a str,
    source: SourceId,
    is_of_language: impl FnOnce(&Object<'a>) -> bool,
    names: &mut Names,
    diagnostics: &mut Diagnostics,
) -> Result<Object<'a>, ParseError> {
    let parsed = specification(text, source, is_of_language, names)?;
    for template in parsed.templates {
        diagnostics.push(literal_template(template));
    }
    diagnostics.extend(parsed.diagnostics);
    Ok(parsed.body)
}

fn specification<'a>(
    text: &'a str,
    source: SourceId,
    is_of_language: impl FnOnce(&Object<'a>) -> bool,
    names: &mut Names,
) -> Result<ParsedHcl<'a>, ParseError> {
    let parsed = read(text, source, HclVersion::Hcl1)?;
    let is_literal =
        parsed.diagnostics.is_empty() && parsed.templates.is_empty() && !parsed.has_octal;
    if !is_literal && is_of_language(&parsed.body) {
        return language(text, source, names);
    }
    if parsed.uses_expressions && (parsed.has_octal || !parsed.templates.is_empty()) {
        return read(text, source, HclVersion::Hcl2);
    }
    Ok(parsed)
}

/// Reads a file of the language. A type constraint is kept as text, because its words are no names.
fn language<'a>(
    text: &'a str,
    source: SourceId,
    names: &mut Names,
) -> Result<ParsedHcl<'a>, ParseError> {
    let mut shared = HashMap::new();
    let mut parsed = hcl1::parse(text, source, HclVersion::Language, |range| {
        let expressions = Expressions { names, shared: &mut shared };
        language_expression(text, source, range, expressions)
    })?;
    let mut types = vec![];
    type_constraints(&parsed.body, &mut types);
    types.sort_unstable();
    let is_of_type = |problem: &Diagnostic| {
        let place = problem.labels.first().map(|label| label.span);
        place.is_some_and(|place| {
            let after = types.partition_point(|span| span.start <= place.start);
            let before = after.checked_sub(1).and_then(|at| types.get(at));
            before.is_some_and(|span| span.contains(place))
        })
    };
    let problems = std::mem::take(&mut parsed.diagnostics).into_iter();
    let mut kept = Diagnostics::default();
    problems.filter(|problem| !is_of_type(problem)).for_each(|problem| kept.push(problem));
    parsed.diagnostics = kept;
    Ok(parsed)
}

/// Adds the positions of the types of variables, in `variable "NAME" { … }` and in `variable { NAME { … } }`.
fn type_constraints(document: &Object<'_>, types: &mut Vec<Span>) {
    for block in document.entries.iter().filter(|entry| entry.key.text == "variable") {
        let Value::Object(fields) = &block.value.value else {
            continue;
        };
        add_types(fields, types);
        for named in fields.entries.iter().filter(|_| block.labels.is_empty()) {
            if let Value::Object(fields) = &named.value.value {
                add_types(fields, types);
            }
        }
    }
}

fn add_types(fields: &Object<'_>, types: &mut Vec<Span>) {
    let fields = fields.entries.iter().filter(|field| field.key.text == "type");
    types.extend(fields.map(|field| field.value.span));
}

fn read(text: &str, source: SourceId, meaning: HclVersion) -> Result<ParsedHcl<'_>, ParseError> {
    hcl1::parse(text, source, meaning, |range| {
        expression(text, source, range, Dialect::Specification)
    })
}

/// Reads a file of variables. Its texts are literal, also with `${`, which is a warning.
pub(super) fn parse_variables<'a>(
    text: &'a str,
    source: SourceId,
    diagnostics: &mut Diagnostics,
) -> Result<Object<'a>, ParseError> {
    let parsed = hcl1::parse(text, source, HclVersion::Variables, |range| {
        expression(text, source, range, Dialect::Variables)
    })?;
    for template in parsed.templates {
        diagnostics.push(
            Diagnostic::warning(
                Code::SpecLiteralTemplate,
                "`${…}` and `%{…}` are not evaluated in a file of variables",
            )
            .label(template, "a text")
            .help("use `locals` in a specification for values that are made of others"),
        );
    }
    diagnostics.extend(parsed.diagnostics);
    Ok(parsed.body)
}

fn literal_template(span: Span) -> Diagnostic {
    Diagnostic::warning(
        Code::SpecLiteralTemplate,
        "`${…}` and `%{…}` are not evaluated: Nomad sends them unchanged",
    )
    .label(span, "sent literally")
    .help("write the value itself, or write `\\u0024{` for a literal `${`")
}

/// What expressions of one file share.
struct Expressions<'n, 't> {
    names: &'n mut Names,
    /// The trees of the texts of expressions.
    shared: &'n mut HashMap<&'t str, Rc<Expr>>,
}

/// Reads a range of the text as one expression of the language.
fn language_expression<'t>(
    text: &'t str,
    source: SourceId,
    range: Range<usize>,
    expressions: Expressions<'_, 't>,
) -> Result<hcl1::Expression<'static>, ParseError> {
    let written = &text[range.clone()];
    if let Some(root) = expressions.shared.get(written) {
        let span = SourceMap::span(source, range);
        let root = Rc::clone(root);
        let placed = PlacedExpression { root, place: TextPlace::Exact(span), written: None };
        return Ok((Node { value: Value::Expression(placed), span }, Diagnostics::default()));
    }
    let parsed = parse_expression(text, &range, Dialect::Language)?;
    let mut reader = HclReader {
        source,
        dialect: Dialect::Language,
        text: written,
        range,
        diagnostics: Diagnostics::default(),
        expressions: Some(expressions),
    };
    let node = reader.node(&parsed);
    Ok((node, reader.diagnostics))
}

fn parse_expression(
    text: &str,
    range: &Range<usize>,
    dialect: Dialect,
) -> Result<Expression, ParseError> {
    let written = &text[range.clone()];
    hcl_edit::parser::parse_expr(written).map_err(|error| {
        let offset = error.location().offset();
        if error.message().contains("redefined") {
            let start = written.len() - written[offset..].trim_start().len();
            let (key, first) = equal_keys::places(written, start);
            let in_file = |part: Range<usize>| range.start + part.start..range.start + part.end;
            return ParseError {
                code: Code::SpecDuplicateField,
                first: first.map(in_file),
                ..ParseError::syntax(in_file(key), "the map has a key twice").label("repeated here")
            };
        }
        // Of what is wrong in a text, the parser gives any place before: another one may be the cause.
        let parts = malformed_in_texts(written);
        let is_cause = |start: usize| start <= offset || is_valid_without(written, &parts);
        if let Some((_, part)) = parts.first().filter(|(start, _)| is_cause(*start)).cloned() {
            let part = range.start + part.start..range.start + part.end;
            let problem = malformed(text, part);
            // HCL1 has no `$${`, and a flat file has a meaning in it.
            let is_flat = dialect == Dialect::Specification
                && problem.message.contains("${")
                && !has_block_of_language(text);
            return if is_flat {
                problem.help("write `\\u0024{` for a literal `${`")
            } else {
                problem
            };
        }
        let at = (range.start + offset).min(range.end);
        ParseError::syntax(character(text, at), "expected a value or an expression")
            .help("put text in double quotes")
    })
}

/// Reads a range of the text as one expression.
fn expression(
    text: &str,
    source: SourceId,
    range: Range<usize>,
    dialect: Dialect,
) -> Result<hcl1::Expression<'static>, ParseError> {
    let parsed = parse_expression(text, &range, dialect)?;
    let mut reader = HclReader {
        source,
        dialect,
        text: &text[range.clone()],
        range,
        diagnostics: Diagnostics::default(),
        expressions: None,
    };
    let node = reader.node(&parsed);
    Ok((node, reader.diagnostics))
}

/// Returns the range of the character at an offset.
fn character(text: &str, offset: usize) -> Range<usize> {
    let mut at = offset.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    let end = text[at..].chars().next().map_or(at, |c| at + c.len_utf8());
    at..end
}

/// Turns one parsed expression into a node.
struct HclReader<'n, 't> {
    source: SourceId,
    dialect: Dialect,
    /// The text of the expression.
    text: &'t str,
    range: Range<usize>,
    diagnostics: Diagnostics,
    /// What keeps the expressions of the language.
    expressions: Option<Expressions<'n, 't>>,
}

impl HclReader<'_, '_> {
    fn span(&self, inner: Option<Range<usize>>) -> Span {
        let range = inner.map_or(self.range.clone(), |inner| {
            self.range.start + inner.start..self.range.start + inner.end
        });
        SourceMap::span(self.source, range)
    }

    fn node(&mut self, expression: &Expression) -> Node<'static> {
        let span = self.span(expression.span());
        let scalar = |kind, text: String| Node::scalar(kind, text, span);
        if let Some(text) = self.runtime_text(expression) {
            return scalar(ScalarKind::Text, text);
        }
        match expression {
            Expression::Null(_) => Node { value: Value::Null, span },
            Expression::Bool(value) => scalar(ScalarKind::Boolean, value.value().to_string()),
            Expression::Number(value) => scalar(ScalarKind::Number, value.value().to_string()),
            Expression::String(value) => scalar(ScalarKind::Text, value.value().clone()),
            Expression::Array(items) => Node {
                value: Value::List(items.iter().map(|item| self.node(item)).collect()),
                span,
            },
            Expression::Object(object)
                if self.is_evaluated(expression) && !has_plain_keys(object) =>
            {
                self.placed(span)
            }
            Expression::Object(object) => Node::object(self.object(object), span),
            Expression::Parenthesis(inner) => self.node(inner.inner()),
            other if self.is_evaluated(other) => self.placed(span),
            Expression::UnaryOp(operation) => match (operation.operator.value(), &operation.expr) {
                (UnaryOperator::Neg, Expression::Number(number)) => {
                    scalar(ScalarKind::Number, format!("-{}", number.value()))
                }
                _ => self.refuse(span, "an operator"),
            },
            Expression::HeredocTemplate(heredoc) => {
                let literal = heredoc.template.as_single_element().is_none_or(|element| {
                    matches!(element, hcl_edit::template::Element::Literal(_))
                });
                if literal && heredoc.template.iter().count() <= 1 {
                    scalar(ScalarKind::Text, heredoc_text(heredoc))
                } else {
                    self.refuse(span, "a template")
                }
            }
            Expression::StringTemplate(_) => self.refuse(span, "a template"),
            Expression::FuncCall(call) => self.call(call, span),
            Expression::Variable(word)
                if word.as_str() == UNKNOWN
                    && !matches!(self.dialect, Dialect::Job | Dialect::Variables) =>
            {
                Node { value: Value::Unknown, span }
            }
            Expression::Variable(_) => self.bare_word(span),
            Expression::Traversal(_) => match self.dialect {
                Dialect::Specification | Dialect::Language | Dialect::Variables => {
                    self.refuse(span, "a reference")
                }
                Dialect::Job => {
                    let what = evaluated_part(expression).unwrap_or("a reference");
                    self.refuse(span, what)
                }
            },
            Expression::Conditional(_) => self.refuse(span, "a condition"),
            Expression::BinaryOp(_) => self.refuse(span, "an operator"),
            Expression::ForExpr(_) => self.refuse(span, "a `for` expression"),
        }
    }

    /// Returns the text of a reference or of a template that a node replaces, in a job file. A bare
    /// word is no reference, but a text that lacks its quotes.
    fn runtime_text(&self, expression: &Expression) -> Option<String> {
        if self.dialect != Dialect::Job {
            return None;
        }
        let written = self.text.get(expression.span()?)?;
        match expression {
            Expression::Traversal(_) if evaluated_part(expression).is_none() => {
                Some(format!("${{{written}}}"))
            }
            Expression::String(_) | Expression::StringTemplate(_) => {
                let inner = written.strip_prefix('"')?.strip_suffix('"')?;
                hcl1::unquote(inner, 0).ok().map(Cow::into_owned)
            }
            _ => None,
        }
    }

    /// Returns whether an expression has no literal value, and its file evaluates it.
    fn is_evaluated(&self, expression: &Expression) -> bool {
        let is_literal = match expression {
            Expression::Null(_)
            | Expression::Bool(_)
            | Expression::Number(_)
            | Expression::String(_)
            | Expression::Array(_)
            | Expression::Parenthesis(_) => true,
            Expression::Variable(word) => word.as_str() == UNKNOWN,
            Expression::HeredocTemplate(heredoc) => {
                heredoc
                    .template
                    .iter()
                    .all(|element| matches!(element, hcl_edit::template::Element::Literal(_)))
                    && heredoc.template.iter().count() <= 1
            }
            Expression::FuncCall(call) => is_plain_reference(call),
            Expression::Object(_)
            | Expression::UnaryOp(_)
            | Expression::StringTemplate(_)
            | Expression::Traversal(_)
            | Expression::Conditional(_)
            | Expression::BinaryOp(_)
            | Expression::ForExpr(_) => false,
        };
        self.expressions.is_some() && !is_literal
    }

    /// Returns the expression of a part of the text, which is evaluated later.
    fn placed(&mut self, span: Span) -> Node<'static> {
        let start = span.range().start.saturating_sub(self.range.start);
        let end = span.range().end.saturating_sub(self.range.start);
        let (Some(written), Some(expressions)) =
            (self.text.get(start..end), self.expressions.as_mut())
        else {
            return Node::invalid(span);
        };
        let place = TextPlace::Exact(span);
        let root = match expressions.shared.get(written) {
            Some(root) => Rc::clone(root),
            None => match convert::parse_expression(written, expressions.names) {
                Ok(root) => {
                    expressions.shared.insert(written, Rc::clone(&root));
                    root
                }
                Err(problems) => {
                    let problems = problems.into_iter().map(|one| one.into_diagnostic(place));
                    problems.for_each(|problem| self.diagnostics.push(problem));
                    return Node::invalid(span);
                }
            },
        };
        Node { value: Value::Expression(PlacedExpression { root, place, written: None }), span }
    }

    fn object(&mut self, object: &HclObject) -> Object<'static> {
        let mut read = Object::default();
        for (key, value) in object {
            let value = self.node(value.expr());
            let (text, inner) = match key {
                ObjectKey::Ident(key) => (key.as_str().to_owned(), key.span()),
                ObjectKey::Expression(Expression::String(key)) => (key.value().clone(), key.span()),
                ObjectKey::Expression(other) => {
                    let span = self.span(other.span());
                    self.refuse(span, "an expression as a key");
                    continue;
                }
            };
            let span = self.span(inner);
            let text = text.into();
            read.push(SpannedText { text, span }, vec![], value);
        }
        read
    }

    /// Reads a secret reference: `env("NAME")` or `file("PATH")`. `decode` checks whether the field
    /// allows one.
    fn call(&mut self, call: &FuncCall, span: Span) -> Node<'static> {
        if self.dialect == Dialect::Job {
            return self.refuse(span, "a function call");
        }
        if self.dialect == Dialect::Variables {
            return self.refuse(span, "a function call");
        }
        let name = call.name.name.as_str();
        let source = ReferenceSource::parse(name).filter(|_| !call.name.is_namespaced());
        let Some(source) = source else {
            return self.refuse_call(name, span);
        };
        let texts = call.args.iter().map(|argument| match argument {
            Expression::String(text) => Some(text.value().clone().into()),
            _ => None,
        });
        let texts: Option<Vec<Cow<'static, str>>> = texts.collect();
        let count = source.argument_count();
        let is_complete = |texts: &Vec<_>| texts.len() == count && !call.args.expand_final();
        if let Some(arguments) = texts.filter(is_complete) {
            let reference = SecretReference { source, arguments, place: None };
            return Node { value: Value::Reference(reference), span };
        }
        let (texts, example) = match count {
            1 => ("one text", "\"…\""),
            _ => ("two texts", "\"…\", \"…\""),
        };
        let message = format!("`{name}` requires {texts} in double quotes, without `${{…}}`");
        let diagnostic = Diagnostic::error(Code::SpecExpression, message);
        self.diagnostics.push(diagnostic.label(span, format!("write `{name}({example})`")));
        Node::invalid(span)
    }

    fn refuse_call(&mut self, name: &str, span: Span) -> Node<'static> {
        let message = match ReferenceSource::is_planned(name) {
            true => format!("`{name}` is not supported yet as a source of secrets"),
            false => "cannot evaluate a function call: expressions are not supported".to_owned(),
        };
        let near = closest_match(name, ReferenceSource::ALL.map(ReferenceSource::as_str));
        let label = near.map_or_else(
            || "expected a value".to_owned(),
            |near| format!("did you mean `{near}`?"),
        );
        self.diagnostics.push(
            Diagnostic::error(Code::SpecExpression, message)
                .label(span, label)
                .help("use `env(\"NAME\")`, `file(\"PATH\")` or `nomad_var(\"PATH\", \"KEY\")`, for secrets only")
                .help(BLOCK_HELP),
        );
        Node::invalid(span)
    }

    fn bare_word(&mut self, span: Span) -> Node<'static> {
        let code = match self.dialect {
            Dialect::Specification | Dialect::Language | Dialect::Variables => Code::SpecExpression,
            Dialect::Job => Code::JobExpression,
        };
        let message = match self.dialect {
            Dialect::Variables => "this value in a file of variables is no literal",
            Dialect::Specification | Dialect::Language | Dialect::Job => {
                "cannot evaluate a variable: expressions are not supported"
            }
        };
        self.diagnostics.push(
            Diagnostic::error(code, message)
                .label(span, "a variable, or text without quotes")
                .help("put text in double quotes"),
        );
        Node::invalid(span)
    }

    fn refuse(&mut self, span: Span, what: &str) -> Node<'static> {
        self.diagnostics.push(match self.dialect {
            Dialect::Specification | Dialect::Language => Diagnostic::error(
                Code::SpecExpression,
                format!("cannot evaluate {what}: expressions are not supported"),
            )
            .label(span, "expected a value")
            .help(BLOCK_HELP),
            Dialect::Variables => {
                let message =
                    format!("cannot evaluate {what}: a file of variables has literal values only");
                Diagnostic::error(Code::SpecExpression, message)
                    .label(span, "expected a literal value")
                    .help("write the value itself, or make it of others with `locals` in a specification")
            }
            Dialect::Job => unevaluated(what, span),
        });
        Node::invalid(span)
    }
}

/// What to do about an expression in a flat file.
const BLOCK_HELP: &str =
    "write the volume as a block, in which expressions are evaluated: `volume \"NAME\" { … }`";

/// Returns the error of a part of a job file that Nomad would evaluate.
pub(crate) fn unevaluated(what: &str, span: Span) -> Diagnostic {
    let message = format!("cannot evaluate {what}: expressions are not supported in job files");
    Diagnostic::error(Code::JobExpression, message)
        .label(span, "expected a value")
        .help(RENDER_HELP)
}

/// What to do about a job file with expressions: its JSON has their values.
const RENDER_HELP: &str = "write the value itself, or render the file: `nomad job run -output FILE` prints JSON that is read here";

/// Returns whether a call is a reference to a secret whose arguments are texts.
fn is_plain_reference(call: &FuncCall) -> bool {
    let source = ReferenceSource::parse(call.name.name.as_str());
    let is_text = |argument: &Expression| matches!(argument, Expression::String(_));
    source.is_some_and(|source| source.argument_count() == call.args.len())
        && !call.name.is_namespaced()
        && !call.args.expand_final()
        && call.args.iter().all(is_text)
}

/// Returns whether the keys of an object are written as words or texts.
fn has_plain_keys(object: &HclObject) -> bool {
    object.iter().all(|(key, _)| match key {
        ObjectKey::Ident(_) | ObjectKey::Expression(Expression::String(_)) => true,
        ObjectKey::Expression(_) => false,
    })
}

fn heredoc_text(heredoc: &hcl_edit::template::HeredocTemplate) -> String {
    let literals = heredoc.template.iter().filter_map(|element| match element {
        hcl_edit::template::Element::Literal(text) => Some(text.value().as_str()),
        _ => None,
    });
    literals.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Everything that is valid HCL2 is read as a literal or refused as an expression, but is never
    /// a syntax error. Neighbouring items do not matter.
    #[test]
    fn valid_hcl2_is_no_syntax_error() {
        for item in [
            "a = f(x, [1,\n  2], { b: \"}\" })",
            "a = f(<<EOF\n  text }\nEOF\n  , 1)",
            "a = f(\"${g(\"}\")}\")",
            "a = \"x ${b ? \"y\" : \"z\"} }\"",
            "a = (1 +\n  2)",
            "a = x ? 1 : 2",
            "a = !x && y || z",
            "a = -x",
            "a = 1 - 2 # comment",
            "a = 1 / 2 // comment",
            "a = x.y[0].z[*].w",
            "a = [1, 2][0]",
            "a = {\n  b = 1\n  c: 2\n  (d) = 3\n  \"e\" = [4]\n}",
            "a = {b = 1, c = 2}",
            "a = [for k, v in m : k if v]",
            "a = {for k in m : k => k...}",
            "a = [\n  1, # one\n  2, // two\n]",
            "a = <<EOF\n${x}\nEOF",
            "a = <<-EOF\n    x\n  EOF",
            "a = null",
            "a = 1.5e3",
            "a = \"\\u00e4$${x}\"",
            "a = provider::f(1)",
            "a label \"other\" {\n  b = 1\n}",
            "a {}",
            "a { b = c }",
            "/* c */ a = 1 /* d */",
        ] {
            let text = format!("{item}\nnext = \"x\"\n");
            let parsed = read(&text, source(), HclVersion::Hcl1);
            assert!(hcl_edit::parser::parse_body(&text).is_ok(), "not HCL2: {item}");
            let keys = parsed.map(|parsed| parsed.body.entries.len());
            assert_eq!(keys, Ok(2), "{item}");
        }
    }

    fn source() -> SourceId {
        SourceMap::default().add("test", "")
    }
}
