//! Tests of whole expressions.

use std::rc::Rc;

use super::budget::Budget;
use super::convert::parse_expression;
use super::embedded::parse_template;
use super::evaluate::{Scope, evaluate};
use super::functions::FUNCTIONS;
use super::names::Names;
use super::problem::Problem;
use super::value::{Kind, MapItems, Value};

/// Evaluates with `var.s`, which is a sensitive text, and `var.m`, a map.
pub(super) fn run(text: &str) -> Result<Value, Problem> {
    let mut names = Names::default();
    names.variable("s");
    names.variable("m");
    let expr = parse_expression(text, &mut names).map_err(|mut problems| problems.remove(0))?;
    evaluate_in(&expr)
}

fn evaluate_in(expr: &Rc<super::tree::Expr>) -> Result<Value, Problem> {
    let map = Value::map(MapItems::from([("size".into(), Value::integer(5))])).unwrap();
    let variables = [Some(Value::text("canary").marked(true)), Some(map)];
    let scope = Scope { variables: &variables, ..Scope::default() };
    evaluate(expr, &scope, &mut Budget::run())
}

#[test]
fn every_example_of_a_function_has_its_result() {
    assert_eq!(FUNCTIONS.len(), 26);
    for function in FUNCTIONS {
        let result = run(function.example).unwrap();
        assert_eq!(result, run(function.example_result).unwrap(), "{}", function.name);
    }
}

#[test]
fn problems_have_their_words_and_places() {
    for (text, part, message) in [
        ("foo", "foo", "unknown name `foo`"),
        ("count.foo", "foo", "`count` has `index` only"),
        ("uper(\"a\")", "uper", "unknown function `uper`"),
        ("element([1])", "element([1])", "`element` requires 2 arguments: a list and a number"),
        ("join([1], [2])", "[1]", "argument 1 of `join` is a list, not a text"),
        ("tonumber(\"ten\")", "\"ten\"", "cannot evaluate `tonumber`: `\"ten\"` is not a number"),
        ("tonumber(var.s)", "var.s", "cannot evaluate `tonumber`: the text is not a number"),
        ("var.m.sise", ".sise", "the map has no key `sise`"),
        ("[1, 2, 3][3]", "3", "index 3 is outside of the list, which has 3 items"),
        ("\"a\" * 2", "\"a\" * 2", "`*` does not apply to a text and a number"),
        ("\"a\" ? 1 : 2", "\"a\"", "the condition is a text, not `true` or `false`"),
        ("\"x${[1]}\"", "[1]", "a list cannot be part of a text"),
        ("5 % 0", "0", "cannot divide by zero"),
        ("[for var in [1] : 1]", "var", "`for` cannot use the name `var`"),
        ("var.m[*].a", "[*]", "a splat is not supported"),
    ] {
        let problem = run(text).unwrap_err();
        assert_eq!(problem.message, message, "{text}");
        let at = problem.at.start as usize..problem.at.end as usize;
        assert_eq!(&text[at.clone()], part, "{text}");
        if part == "3" {
            assert_eq!(at.start, 10, "the index, not the item");
        }
    }
}

#[test]
fn the_mark_follows_every_operation() {
    for text in [
        "\"x${var.s}\"",
        "upper(var.s)",
        "[var.s][0]",
        "{ a = var.s }.a",
        "var.s == \"a\"",
        "var.s == \"a\" ? 1 : 2",
        "[for x in [var.s] : x][0]",
        "{ for x in [var.s] : x => 1 }",
        "jsonencode([var.s])",
        "join(\",\", [var.s])",
        "length(var.s)",
    ] {
        assert!(run(text).unwrap().is_sensitive, "{text}");
    }
    assert!(!run("[var.s, 1][1]").unwrap().is_sensitive);
}

#[test]
fn hostile_expressions_end_with_a_problem() {
    for open in ["(", "[", "!", "-", "{a=", "\"${", "[for x in ", "f(", "x[", "1+", "a ? b : "] {
        let text = open.repeat((256 << 10) / open.len());
        assert!(parse_expression(&text, &mut Names::default()).is_err(), "{open}");
    }
    let chain = format!("var.a{}", ".b".repeat(100_000));
    assert!(parse_expression(&chain, &mut Names::default()).is_err());
    let text = "[for a in range(100000) : [for b in range(100000) : a * b]]";
    assert!(run(text).unwrap_err().code.as_str() == "spec/evaluation-limit");
}

#[test]
fn a_text_of_yaml_that_is_one_expression_keeps_its_type() {
    let mut names = Names::default();
    assert!(matches!(parse_template("plain", &mut names), Ok(None)));
    for (text, expected) in [
        ("${1 + 1}", Kind::Integer(2)),
        ("a${1}", Kind::Text("a1".into())),
        ("$${x}", Kind::Text("${x}".into())),
        ("%%{x}", Kind::Text("%{x}".into())),
    ] {
        let expr = parse_template(text, &mut names).unwrap().unwrap();
        assert_eq!(evaluate_in(&expr).unwrap().kind, expected, "{text}");
    }
    assert!(parse_template("a ${1 +}", &mut names).is_err());
}

#[test]
fn texts_of_hcl_are_read_as_in_hcl2() {
    for (text, expected) in [
        ("\"$${x}\"", "${x}"),
        ("\"\\u0024{x}\"", "${x}"),
        ("<<-E\n    a\n      ${1}\n    E", "a\n  1\n"),
    ] {
        assert_eq!(run(text).unwrap().kind, Kind::Text(expected.into()), "{text}");
    }
}
