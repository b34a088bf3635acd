//! HCL text to a tree; the only file that knows hcl-edit.
//!
//! The structure of a file is read by [`super::hcl1`]; here is what HCL2 adds to it: expressions. Only
//! those that say their value outright are understood (literals, lists, objects with colons,
//! parentheses), a call with one text, `env("X")`, which says where a secret is, and the word `unknown`
//! for a value that nobody knows; any other call, a variable or an operator is refused in words, each where it stands.
//!
//! Where one text means two things, Nomad's meaning wins in a file that uses nothing of HCL2, with a
//! warning (`dependencies` decisions, `nomad-http-api` 5.1).

use std::ops::Range;

use hcl_edit::Span as _;
use hcl_edit::expr::{Expression, FuncCall, Object as HclObject, ObjectKey, UnaryOperator};

use super::hcl1::{self, Meaning, Parsed};
use super::problem::Problem;
use super::tree::{Node, Object, Reference, ReferenceSource, ScalarKind, UNKNOWN, Value, Word};
use crate::diagnostic::{Code, Diagnostic, Diagnostics, SourceId, SourceMap, Span, nearest};

/// Reads a file; what cannot be read is said, and then there is no tree.
pub(super) fn parse<'a>(
    text: &'a str,
    source: SourceId,
    diagnostics: &mut Diagnostics,
) -> Result<Object<'a>, Problem> {
    let mut parsed = read(text, source, Meaning::Nomad)?;
    if parsed.uses_expressions && (parsed.has_octal || !parsed.templates.is_empty()) {
        parsed = read(text, source, Meaning::Hcl2)?;
    }
    for template in parsed.templates {
        diagnostics.push(literal_template(template));
    }
    parsed
        .diagnostics
        .into_iter()
        .for_each(|said| diagnostics.push(said));
    Ok(parsed.body)
}

fn read(text: &str, source: SourceId, meaning: Meaning) -> Result<Parsed<'_>, Problem> {
    hcl1::parse(text, source, meaning, |range| {
        expression(text, source, range)
    })
}

fn literal_template(span: Span) -> Diagnostic {
    Diagnostic::warning(
        Code::SpecLiteralTemplate,
        "`${…}` and `%{…}` are sent as they stand, as Nomad does; HCL2 would evaluate them",
    )
    .label(span, "this text is taken literally")
    .help("write the value itself where a value was meant; write `\\u0024{` for a literal `${`, which both languages read alike")
}

/// Reads a range of the text as one expression.
fn expression(
    text: &str,
    source: SourceId,
    range: Range<usize>,
) -> Result<hcl1::Expression<'static>, Problem> {
    let parsed = hcl_edit::parser::parse_expr(&text[range.clone()]).map_err(|error| {
        let mut at = (range.start + error.location().offset()).min(range.end);
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        let end = text[at..].chars().next().map_or(at, |c| at + c.len_utf8());
        Problem::syntax(at..end, "this is neither a value nor an expression")
            .help("text needs double quotes")
    })?;
    let mut reader = Reader {
        source,
        range,
        diagnostics: vec![],
    };
    let node = reader.node(&parsed);
    Ok((node, reader.diagnostics))
}

/// Turns one parsed expression into a node.
struct Reader {
    source: SourceId,
    range: Range<usize>,
    diagnostics: Vec<Diagnostic>,
}

impl Reader {
    fn span(&self, inner: Option<Range<usize>>) -> Span {
        let range = inner.map_or(self.range.clone(), |inner| {
            self.range.start + inner.start..self.range.start + inner.end
        });
        SourceMap::span(self.source, range)
    }

    fn node(&mut self, expression: &Expression) -> Node<'static> {
        let span = self.span(expression.span());
        let scalar = |kind, text: String| Node::scalar(kind, text, span);
        match expression {
            Expression::Null(_) => Node {
                value: Value::Null,
                span,
            },
            Expression::Bool(value) => scalar(ScalarKind::Boolean, value.value().to_string()),
            Expression::Number(value) => scalar(ScalarKind::Number, value.value().to_string()),
            Expression::String(value) => scalar(ScalarKind::Text, value.value().clone()),
            Expression::Array(items) => Node {
                value: Value::List(items.iter().map(|item| self.node(item)).collect()),
                span,
            },
            Expression::Object(object) => Node::object(self.object(object), span),
            Expression::Parenthesis(inner) => self.node(inner.inner()),
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
            Expression::Variable(word) if word.as_str() == UNKNOWN => Node {
                value: Value::Unknown,
                span,
            },
            Expression::Variable(_) => self.bare_word(span),
            Expression::Traversal(_) => self.refuse(span, "a reference"),
            Expression::Conditional(_) => self.refuse(span, "a condition"),
            Expression::BinaryOp(_) => self.refuse(span, "an operator"),
            Expression::ForExpr(_) => self.refuse(span, "a `for` expression"),
        }
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
            read.push(Word { text, span }, vec![], value);
        }
        read
    }

    /// `env("NAME")` and `file("PATH")` say where a secret is; whether one may stand there is
    /// decided by `decode`.
    fn call(&mut self, call: &FuncCall, span: Span) -> Node<'static> {
        let name = call.name.name.as_str();
        let source = ReferenceSource::parse(name).filter(|_| !call.name.is_namespaced());
        let argument = match (call.args.get(0), call.args.len(), call.args.expand_final()) {
            (Some(Expression::String(argument)), 1, false) => Some(argument.value()),
            _ => None,
        };
        match (source, argument) {
            (Some(source), Some(argument)) => {
                let argument = argument.clone().into();
                Node {
                    value: Value::Reference(Reference { source, argument }),
                    span,
                }
            }
            (Some(_), None) => {
                let message =
                    format!("`{name}` takes one text, in double quotes and without a template");
                let said = Diagnostic::error(Code::SpecExpression, message);
                self.diagnostics
                    .push(said.label(span, format!("write `{name}(\"…\")`")));
                Node::broken(span)
            }
            (None, _) => self.refuse_call(name, span),
        }
    }

    fn refuse_call(&mut self, name: &str, span: Span) -> Node<'static> {
        let message =
            "a function call stands where a value is needed, and expressions are not evaluated";
        let near = nearest(name, ReferenceSource::ALL.map(ReferenceSource::as_str));
        let label = near.map_or_else(
            || "a function call is not evaluated".to_owned(),
            |near| format!("did you mean `{near}`?"),
        );
        self.diagnostics.push(
            Diagnostic::error(Code::SpecExpression, message)
                .label(span, label)
                .help("only a secret may be a call: `env(\"NAME\")` or `file(\"PATH\")`"),
        );
        Node::broken(span)
    }

    fn bare_word(&mut self, span: Span) -> Node<'static> {
        self.diagnostics.push(
            Diagnostic::error(
                Code::SpecExpression,
                "a word without quotes is a variable, and variables are not evaluated",
            )
            .label(span, "a variable, or a text without its quotes")
            .help("if it is text, write it in double quotes"),
        );
        Node::broken(span)
    }

    fn refuse(&mut self, span: Span, what: &str) -> Node<'static> {
        self.diagnostics.push(
            Diagnostic::error(
                Code::SpecExpression,
                format!("{what} stands where a value is needed, and expressions are not evaluated"),
            )
            .label(span, format!("{what} is not evaluated")),
        );
        Node::broken(span)
    }
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

    /// Whatever HCL2's own reader takes is read here too: as literals, or refused in words, but never
    /// as a syntax error, and never differently for standing beside other items.
    #[test]
    fn what_hcl2_reads_is_no_syntax_error() {
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
            let ours = read(&text, source(), Meaning::Nomad);
            assert!(
                hcl_edit::parser::parse_body(&text).is_ok(),
                "not HCL2: {item}"
            );
            let keys = ours.map(|parsed| parsed.body.entries.len());
            assert_eq!(keys, Ok(2), "{item}");
        }
    }

    fn source() -> SourceId {
        SourceMap::default().add("test", "")
    }
}
