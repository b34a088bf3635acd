//! Texts of job files: a node replaces some `${…}` when a task starts, and the rest has to be
//! evaluated before.
//!
//! Nomad evaluates variables (`var.x`), locals, functions and operators when it reads a file. It
//! keeps every other reference, such as `${NOMAD_ALLOC_INDEX}` or `${node.unique.name}`, as text.
//! This program evaluates nothing, so it refuses the first kind and keeps the second.

use std::borrow::Cow;
use std::ops::Range;

use hcl_edit::Span as _;
use hcl_edit::expr::{Expression, Traversal, TraversalOperator};
use hcl_edit::template::Element;

/// Why a text of a job file has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TextProblem {
    /// A part has to be evaluated.
    NeedsEvaluation {
        /// Its kind: "a function call".
        what: &'static str,
        /// Its position in the text.
        range: Range<usize>,
    },
    /// It is not a template of HCL.
    Malformed {
        /// The `${` or `%{` that starts nothing valid, to its `}` or the end of its line.
        range: Range<usize>,
    },
}

/// Returns the value of a text: `$${` is `${`, and references of the running task stay as written.
///
/// # Errors
/// Returns every part of the text that has to be evaluated, and every `${` that starts no expression.
pub(crate) fn runtime_text(text: &str) -> Result<Cow<'_, str>, Vec<TextProblem>> {
    if !text.contains("${") && !text.contains("%{") {
        return Ok(Cow::Borrowed(text));
    }
    let Ok(template) = hcl_edit::parser::parse_template(text) else {
        return Err(problems(text));
    };
    let mut value = String::with_capacity(text.len());
    let mut problems = vec![];
    for element in &template {
        let range = element.span().unwrap_or(0..text.len());
        match element {
            Element::Literal(literal) => {
                value.push_str(&literal.replace("$${", "${").replace("%%{", "%{"));
            }
            Element::Interpolation(inner) => match evaluated_part(&inner.expr) {
                None => value.push_str(text.get(range).unwrap_or_default()),
                Some(what) => problems.push(TextProblem::NeedsEvaluation { what, range }),
            },
            Element::Directive(_) => {
                let what = "a directive";
                problems.push(TextProblem::NeedsEvaluation { what, range });
            }
        }
    }
    if problems.is_empty() { Ok(Cow::Owned(value)) } else { Err(problems) }
}

/// Limit of the parts of one text that are reported.
const MOST_PARTS: usize = 20;

/// Returns the problems of a text that is no template as a whole.
fn problems(text: &str) -> Vec<TextProblem> {
    let mut found = vec![];
    for part in Parts::new(text) {
        match part {
            Err(range) => found.push(TextProblem::Malformed { range }),
            Ok(range) => {
                let part = text.get(range.clone()).unwrap_or_default();
                let of_part = hcl_edit::parser::parse_template(part);
                let what = of_part.ok().and_then(|template| match template.as_single_element() {
                    Some(Element::Interpolation(inner)) => evaluated_part(&inner.expr),
                    Some(Element::Directive(_)) => Some("a directive"),
                    Some(Element::Literal(_)) | None => None,
                });
                found.extend(what.map(|what| TextProblem::NeedsEvaluation { what, range }));
            }
        }
        if found.len() == MOST_PARTS {
            break;
        }
    }
    if found.is_empty() {
        found.push(TextProblem::Malformed { range: 0..text.len() });
    }
    found
}

/// Returns each `${` or `%{` that starts no expression and no directive, to its `}` or the end of its line.
pub(super) fn malformed_parts(text: &str) -> impl Iterator<Item = Range<usize>> {
    Parts::new(text).filter_map(Result::err).take(MOST_PARTS)
}

/// Returns the first `${` or `%{` that starts no expression and no directive, to its `}` or the end of its line.
pub(super) fn malformed_part(text: &str) -> Option<Range<usize>> {
    Parts::new(text).find_map(Result::err)
}

/// The places of a text at which `${` or `%{` starts: an expression or a directive, or, as an error, neither.
struct Parts<'t> {
    text: &'t str,
    at: usize,
    brace: Next,
    line_end: Next,
}

impl<'t> Parts<'t> {
    fn new(text: &'t str) -> Self {
        Self { text, at: 0, brace: Next::of('}'), line_end: Next::of('\n') }
    }
}

/// The next place of a character, which is kept until it is passed: no part of the text is searched for each place before it.
struct Next {
    character: char,
    found: Option<usize>,
}

impl Next {
    const fn of(character: char) -> Self {
        Self { character, found: None }
    }

    /// Returns the first place of the character from an offset on, or the length of the text. No offset is below an earlier
    /// one.
    fn place_from(&mut self, text: &str, at: usize) -> usize {
        match self.found {
            Some(found) if found >= at => found,
            Some(_) | None => {
                let rest = text.get(at..).unwrap_or_default();
                let found = rest.find(self.character).map_or(text.len(), |length| at + length);
                self.found = Some(found);
                found
            }
        }
    }
}

impl Iterator for Parts<'_> {
    type Item = Result<Range<usize>, Range<usize>>;

    fn next(&mut self) -> Option<Self::Item> {
        let bytes = self.text.as_bytes();
        while let Some(next) = bytes.get(self.at..)?.iter().position(|b| matches!(b, b'$' | b'%')) {
            let at = self.at + next;
            let sigil = bytes[at];
            let run = bytes[at..].iter().take_while(|b| **b == sigil).count();
            let start = at + run - 1;
            self.at = at + run;
            if bytes.get(self.at) != Some(&b'{') || run > 1 {
                continue;
            }
            let line = self.line_end.place_from(self.text, start) - start;
            let brace = self.brace.place_from(self.text, start) - start;
            let part = part_end(&self.text[start..], brace, line);
            let (Ok(length) | Err(length)) = part;
            self.at = start + length.max(2);
            let range = start..start + length;
            return Some(if part.is_ok() { Ok(range) } else { Err(range) });
        }
        None
    }
}

/// How many `}` may belong to one expression, so that the time does not grow with the text.
const MOST_BRACES: usize = 16;

/// Returns the length of the expression or directive at the start of a text; as an error, that of what is
/// neither. The text has its first `}` and its first line break at these offsets, or at its end if there is none.
fn part_end(text: &str, brace: usize, line: usize) -> Result<usize, usize> {
    let first = line.min(brace + 1);
    let is_directive = |inner: &str| {
        let inner = inner.trim_start_matches('~').trim_start();
        let word = inner.split(|c: char| !c.is_alphabetic()).next();
        matches!(word, Some("if" | "else" | "endif" | "for" | "endfor"))
    };
    if text.starts_with('%') && is_directive(&text[2..]) {
        return Ok(first);
    }
    let ends = text.get(brace..).unwrap_or_default().match_indices('}').take(MOST_BRACES);
    let is_whole = |end: &usize| hcl_edit::parser::parse_template(&text[..*end]).is_ok();
    let found = ends.map(|(at, _)| brace + at + 1).find(is_whole);
    found.ok_or(first)
}

/// Returns what has to be evaluated in an expression; `None` for a reference of the running task.
pub(super) fn evaluated_part(expression: &Expression) -> Option<&'static str> {
    match expression {
        Expression::Variable(name) => root_part(name.as_str()),
        Expression::Traversal(reference) => reference_part(reference),
        Expression::Parenthesis(inner) => evaluated_part(inner.inner()),
        Expression::FuncCall(_) => Some("a function call"),
        Expression::Conditional(_) => Some("a condition"),
        Expression::ForExpr(_) => Some("a `for` expression"),
        Expression::BinaryOp(_) | Expression::UnaryOp(_) => Some("an operator"),
        Expression::Null(_)
        | Expression::Bool(_)
        | Expression::Number(_)
        | Expression::String(_)
        | Expression::Array(_)
        | Expression::Object(_)
        | Expression::StringTemplate(_)
        | Expression::HeredocTemplate(_) => Some("a value in `${…}`"),
    }
}

fn reference_part(reference: &Traversal) -> Option<&'static str> {
    let Expression::Variable(root) = &reference.expr else {
        return Some("a reference into an expression");
    };
    let is_plain = |operator: &TraversalOperator| match operator {
        TraversalOperator::GetAttr(_) | TraversalOperator::LegacyIndex(_) => true,
        TraversalOperator::Index(Expression::String(_) | Expression::Number(_)) => true,
        TraversalOperator::Index(_)
        | TraversalOperator::AttrSplat(_)
        | TraversalOperator::FullSplat(_) => false,
    };
    if !reference.operators.iter().all(|operator| is_plain(operator.value())) {
        return Some("a reference with an expression");
    }
    root_part(root.as_str())
}

fn root_part(root: &str) -> Option<&'static str> {
    match root {
        "var" => Some("a variable"),
        "local" => Some("a local value"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_of_the_running_task_stay_as_written() {
        for text in [
            "plain",
            "${NOMAD_ALLOC_INDEX}",
            "a-${ node.unique.name }-b",
            "${attr.kernel.name}${meta.a-b}",
            "${attr[\"x.y\"]} ${env[\"HOME\"]}",
            "100% $HOME {x}",
        ] {
            assert_eq!(runtime_text(text).as_deref(), Ok(text), "{text}");
        }
        assert_eq!(runtime_text("$${HOME} %%{x}").as_deref(), Ok("${HOME} %{x}"));
    }

    #[test]
    fn what_has_to_be_evaluated_is_refused() {
        for (text, expected) in [
            ("a ${var.x}", "a variable"),
            ("${local.x}", "a local value"),
            ("${upper(\"x\")}", "a function call"),
            ("${a + 1}", "an operator"),
            ("${!a}", "an operator"),
            ("${a ? b : c}", "a condition"),
            ("${var.x[0]}", "a variable"),
            ("${node[var.x]}", "a reference with an expression"),
            ("%{ if a }b%{ endif }", "a directive"),
            ("${\"x\"}", "a value in `${…}`"),
        ] {
            match runtime_text(text).as_ref().map_err(|found| &found[..]) {
                Err([TextProblem::NeedsEvaluation { what, range }]) => {
                    assert_eq!(*what, expected, "{text}");
                    assert!(text[range.clone()].contains('{'), "{text}");
                }
                other => panic!("{text}: {other:?}"),
            }
        }
    }

    #[test]
    fn what_starts_nothing_valid_has_its_place() {
        for (text, expected) in [
            ("${HOME:-x}", "${HOME:-x}"),
            ("a\nb ${HOME:-x} c\nd", "${HOME:-x}"),
            ("${1", "${1"),
            ("${}", "${}"),
            ("${a} ${#b[@]} $c", "${#b[@]}"),
            ("${a[@]}", "${a[@]}"),
            ("%{[@metadata][x]}", "%{[@metadata][x]}"),
            ("curl -w \"%{http_code}\" x", "%{http_code}"),
            ("$${A:-b} %%{x}\n%{+YYYY}", "%{+YYYY}"),
            ("${a[\"}\"]} ${x\ny }", "${x"),
            ("ä ${é", "${é"),
        ] {
            match runtime_text(text).as_ref().map_err(|found| &found[..]) {
                Err([TextProblem::Malformed { range }]) => {
                    assert_eq!(&text[range.clone()], expected, "{text}");
                }
                other => panic!("{text}: {other:?}"),
            }
        }
    }

    #[test]
    fn every_part_of_a_text_is_reported() {
        for (text, expected) in [
            ("${var.a}:${local.b}", vec!["${var.a}", "${local.b}"]),
            (
                "${var.a} ${NOMAD_IP} %{if x}y%{endif} ${upper(z)}",
                vec!["${var.a}", "%{if x}y%{endif}", "${upper(z)}"],
            ),
            (
                "${A:-x} ${var.b} %{code}\n${B:-y}",
                vec!["${A:-x}", "${var.b}", "%{code}", "${B:-y}"],
            ),
            ("$${var.a} ${var.a} ${x", vec!["${var.a}", "${x"]),
        ] {
            let found = runtime_text(text).expect_err(text);
            let places = found.iter().map(|one| match one {
                TextProblem::NeedsEvaluation { range, .. } | TextProblem::Malformed { range } => {
                    &text[range.clone()]
                }
            });
            assert_eq!(places.collect::<Vec<_>>(), expected, "{text}");
        }
        let many = "${a:-b} ".repeat(100_000);
        assert_eq!(runtime_text(&many).expect_err("no references").len(), MOST_PARTS);
    }
}
