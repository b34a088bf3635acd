//! Tests of whole expressions.

use std::rc::Rc;

use super::budget::Budget;
use super::convert::parse_expression;
use super::embedded::parse_template;
use super::evaluate::{Scope, evaluate};
use super::functions::FUNCTIONS;
use super::names::Names;
use super::problem::Problem;
use super::value::{Kind, MapItems, SecretSource, Value};

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

#[test]
fn the_marks_of_whole_numbers_and_conditions_are_kept() {
    for text in [
        "!(var.s == \"a\")",
        "-length(var.s)",
        "length(var.s) + 1",
        "1 - length(var.s)",
        "1 < length(var.s)",
        "var.s == \"canary\" && true",
        "true && var.s == \"canary\"",
        "var.s == \"a\" && true",
        "var.s == \"canary\" || false",
        "[1, 2][length(var.s) - 5]",
        "{ a = 1, canary = 2 }[var.s]",
        "{ (var.s) = 1 }",
        "{ (var.s) = 1 }.canary",
        "split(\",\", var.s)[0]",
        "[for x in split(\",\", var.s) : 1]",
        "[for i, x in split(\",\", var.s) : i][0]",
        "[for x in [1] : x if var.s == \"a\"]",
        "[for k, v in { (var.s) = 1 } : k][0]",
        "{ for x in [1] : var.s => x }",
        "env(var.s)",
        "exec([var.s])",
        "[var.s] == [1]",
        "[1] == [var.s]",
        "var.s != \"a\"",
        "<<E\n${var.s}\nE",
    ] {
        assert!(run(text).unwrap().is_sensitive, "{text}");
    }
    for text in ["{ a = var.s, b = 1 }.b", "true ? 1 : var.s", "[for x in [1, var.s] : x][0]"] {
        assert!(!run(text).unwrap().is_sensitive, "{text}");
    }
}

#[test]
fn a_secret_can_be_moved_but_not_read() {
    for text in [
        "vault(\"kv/ceph/${1 + 1}\", \"key\")",
        "true ? vault(\"kv/ceph/2\", \"key\") : 1",
        "[vault(\"kv/ceph/2\", \"key\")][0]",
        "{ a = vault(\"kv/ceph/2\", \"key\") }.a",
        "[for x in [vault(\"kv/ceph/2\", \"key\")] : x][0]",
        "\"${vault(\"kv/ceph/2\", \"key\")}\"",
    ] {
        let Kind::Secret(secret) = run(text).unwrap().kind else { panic!("{text}") };
        assert_eq!(secret.source, SecretSource::Vault);
        assert_eq!(secret.arguments, ["kv/ceph/2".into(), Rc::from("key")], "{text}");
    }
    let Kind::Secret(secret) = run("exec([\"pass\", \"show\"])").unwrap().kind else { panic!() };
    assert_eq!((secret.source, secret.arguments.len()), (SecretSource::Exec, 2));
    for (name, arguments) in [("env", 1), ("file", 1), ("nomad_var", 2)] {
        let text = format!("{name}({})", vec!["\"a\""; arguments].join(", "));
        let Kind::Secret(secret) = run(&text).unwrap().kind else { panic!("{text}") };
        assert_eq!((secret.source.as_str(), secret.arguments.len()), (name, arguments));
    }
    for (text, message) in [
        ("\"x${env(\"A\")}\"", "`env(…)` cannot be part of a text"),
        ("env(\"A\") + 1", "`env(…)` cannot be a side of `+`"),
        ("1 < env(\"A\")", "`env(…)` cannot be a side of `<`"),
        ("env(\"A\") == 1", "`env(…)` cannot be a side of `==`"),
        ("[env(\"A\")] != [1]", "`env(…)` cannot be a side of `!=`"),
        ("env(\"A\") && true", "`env(…)` cannot be a side of `&&`"),
        ("true || env(\"A\") ? env(\"A\") && true : 1", "`env(…)` cannot be a side of `&&`"),
        ("!env(\"A\")", "`env(…)` cannot be a side of `!`"),
        ("-env(\"A\")", "`env(…)` cannot be a side of `-`"),
        ("env(\"A\") ? 1 : 2", "`env(…)` cannot be a condition"),
        ("{ (env(\"A\")) = 1 }", "`env(…)` cannot be a key"),
        ("{ for x in [1] : env(\"A\") => x }", "`env(…)` cannot be a key"),
        ("env(\"A\").b", "`env(…)` has no items"),
        ("env(\"A\")[0]", "`env(…)` has no items"),
        ("[1][env(\"A\")]", "`env(…)` cannot be an index"),
        ("[for x in env(\"A\") : x]", "`env(…)` has no items for `for`"),
        ("upper(env(\"A\"))", "`env(…)` cannot be an argument of `upper`"),
        ("file(env(\"A\"))", "`env(…)` cannot be an argument of `file`"),
        ("jsonencode([env(\"A\")])", "`env(…)` cannot be part of an argument of `jsonencode`"),
    ] {
        let problem = run(text).unwrap_err();
        let expected = format!("{message}: it is read when the volume is sent");
        assert_eq!(problem.message, expected, "{text}");
        assert_eq!(problem.code.as_str(), "spec/late-secret", "{text}");
        assert_eq!(problem.label, "a reference to a secret");
    }
    let text = "\"x${vault(\"a\", \"b\")}\"";
    let at = run(text).unwrap_err().at;
    assert_eq!(&text[at.start as usize..at.end as usize], "vault(\"a\", \"b\")");
}

#[test]
fn unknown_can_be_moved_but_not_read() {
    for text in ["unknown", "true ? unknown : 1", "[unknown][0]", "{ a = unknown }.a"] {
        assert_eq!(run(text).unwrap().kind, Kind::Unknown, "{text}");
    }
    for (text, message) in [
        ("\"x${unknown}\"", "`unknown` cannot be part of a text"),
        ("unknown == 1", "`unknown` cannot be a side of `==`"),
        ("[unknown] == [1]", "`==` does not apply to a list and a list"),
        ("unknown + 1", "`unknown` cannot be a side of `+`"),
        ("unknown.a", "unknown name `unknown`"),
        ("[unknown][0].a", "`unknown` has no items"),
        ("unknown ? 1 : 2", "the condition is `unknown`, not `true` or `false`"),
        ("[for x in unknown : 1]", "`for` takes a list or a map, not `unknown`"),
        ("env(unknown)", "`unknown` cannot be an argument of `env`"),
    ] {
        assert_eq!(run(text).unwrap_err().message, message, "{text}");
    }
}

#[test]
fn sources_check_their_arguments() {
    for (text, part, message) in [
        ("env()", "env()", "`env` requires 1 argument: a text"),
        ("file(\"a\", \"b\")", "file(\"a\", \"b\")", "`file` requires 1 argument: a text"),
        ("vault(\"a\")", "vault(\"a\")", "`vault` requires 2 arguments: two texts"),
        ("nomad_var(\"a\")", "nomad_var(\"a\")", "`nomad_var` requires 2 arguments: two texts"),
        (
            "vault([\"a\", \"b\"]...)",
            "vault([\"a\", \"b\"]...)",
            "`vault` requires 2 arguments: two texts",
        ),
        ("exec(\"a\", \"b\")", "exec(\"a\", \"b\")", "`exec` requires 1 argument: a list of texts"),
        ("env(1)", "1", "argument 1 of `env` is a number, not a text"),
        ("vault(\"a\", null)", "null", "argument 2 of `vault` is null, not a text"),
        ("exec(\"a\")", "\"a\"", "argument 1 of `exec` is a text, not a list of texts"),
        ("exec([])", "[]", "argument 1 of `exec` is an empty list, not a list of texts"),
        (
            "exec([\"a\", 1])",
            "[\"a\", 1]",
            "argument 1 of `exec` is a list with a number, not a list of texts",
        ),
        (
            "exec([env(\"A\")])",
            "[env(\"A\")]",
            "argument 1 of `exec` is a list with a reference to a secret, not a list of texts",
        ),
    ] {
        let problem = run(text).unwrap_err();
        assert_eq!(problem.message, message, "{text}");
        assert_eq!(problem.code.as_str(), "spec/function-arguments", "{text}");
        assert_eq!(&text[problem.at.start as usize..problem.at.end as usize], part);
    }
}

#[test]
fn the_right_side_is_evaluated_only_if_needed() {
    for (text, expected) in [
        ("false && 5 % 0 == 1", false),
        ("true || 5 % 0 == 1", true),
        ("false && env(\"A\")", false),
        ("true ? true : 5 % 0", true),
        ("false ? 5 % 0 : false", false),
        ("length([]) > 0 && [][0] == 1", false),
        ("true && false", false),
        ("false || true", true),
        ("true && true", true),
        ("false || false", false),
    ] {
        assert_eq!(run(text), Ok(Value::boolean(expected)), "{text}");
    }
    for text in ["true && 5 % 0 == 1", "false || 5 % 0 == 1", "false && foo", "1 && true"] {
        assert!(run(text).is_err(), "{text}");
    }
    assert_eq!(
        run("true && 1").unwrap_err().message,
        "`&&` does not apply to a boolean and a number"
    );
}

#[test]
fn numbers_are_exact_or_refused() {
    for (text, expected) in [
        ("10 / 2", Kind::Integer(5)),
        ("7 / 2", Kind::Float(3.5)),
        ("-7 % 3", Kind::Integer(-1)),
        ("-9223372036854775808 % -1", Kind::Integer(0)),
        ("7.5 % 2", Kind::Float(1.5)),
        ("0.5 + 0.5", Kind::Integer(1)),
        ("9007199254740993 - 1", Kind::Integer(9_007_199_254_740_992)),
        ("-9223372036854775808", Kind::Integer(i64::MIN)),
        ("010", Kind::Integer(10)),
        ("1e3", Kind::Integer(1000)),
        ("9223372036854775807 == 9223372036854775806", Kind::Bool(false)),
        ("1 == 1.0", Kind::Bool(true)),
        ("0.1 + 0.2 == 0.3", Kind::Bool(false)),
        ("9223372036854775807 < 9223372036854775808", Kind::Bool(true)),
        ("9223372036854775807 >= 1e19", Kind::Bool(false)),
        ("-1e19 < -9223372036854775808", Kind::Bool(true)),
        ("-9223372036854775808 <= -1e19", Kind::Bool(false)),
        ("2 > 2.5", Kind::Bool(false)),
        ("\"1\" == 1", Kind::Bool(false)),
        ("null == false", Kind::Bool(false)),
        ("{ a = [1, null] } == { a = [1, null] }", Kind::Bool(true)),
        ("{ a = 1 } == { b = 1 }", Kind::Bool(false)),
        ("[1, 2] == [1, 3]", Kind::Bool(false)),
        ("[1] == [1, 2]", Kind::Bool(false)),
        ("{ a = 1 } != { a = 2 }", Kind::Bool(true)),
    ] {
        assert_eq!(run(text).map(|value| value.kind), Ok(expected), "{text}");
    }
    for (text, part, message) in [
        ("9223372036854775807 + 1", "9223372036854775807 + 1", "the result is too large"),
        ("-9223372036854775807 - 2", "-9223372036854775807 - 2", "the result is too large"),
        ("4611686018427387904 * 2", "4611686018427387904 * 2", "the result is too large"),
        ("-9223372036854775808 / -1", "-9223372036854775808 / -1", "the result is too large"),
        ("1e300 * 1e300", "1e300 * 1e300", "the result is too large"),
        ("9223372036854775809", "9223372036854775809", "the number is too large"),
        ("1 / (2 - 2)", "2 - 2", "cannot divide by zero"),
        ("1.5 % 0.0", "0.0", "cannot divide by zero"),
    ] {
        let problem = run(text).unwrap_err();
        assert_eq!(problem.message, message, "{text}");
        assert_eq!(problem.code.as_str(), "spec/arithmetic", "{text}");
        assert_eq!(&text[problem.at.start as usize..problem.at.end as usize], part, "{text}");
    }
}

#[test]
fn values_of_a_wrong_type_are_named() {
    for (text, part, message) in [
        ("null + 1", "null + 1", "`+` does not apply to null and a number"),
        ("[1] < [2]", "[1] < [2]", "`<` does not apply to a list and a list"),
        ("\"a\" < \"b\"", "\"a\" < \"b\"", "`<` does not apply to a text and a text"),
        ("!1", "!1", "`!` does not apply to a number"),
        ("-\"a\"", "-\"a\"", "`-` does not apply to a text"),
        ("{ ([1]) = 1 }", "[1]", "a key is a list, not a text"),
        ("\"x${null}\"", "null", "null cannot be part of a text"),
        ("var.m[0]", "0", "the key is a number, not a text"),
        ("[1][\"a\"]", "\"a\"", "the index is a text, not a number"),
        ("[1][0.5]", "0.5", "the index is not a whole number"),
        ("[1].a", ".a", "a list has no key `a`"),
        ("\"x\".a.b", ".a", "a text has no key `a`"),
        ("1[0]", "0", "a number has no items"),
        ("[for x in 1 : x]", "1", "`for` takes a list or a map, not a number"),
        ("[for x in [1] : x if 1]", "1", "the condition is a number, not `true` or `false`"),
    ] {
        let problem = run(text).unwrap_err();
        assert_eq!(problem.message, message, "{text}");
        assert_eq!(problem.code.as_str(), "spec/wrong-type", "{text}");
        let at = problem.at.start as usize..problem.at.end as usize;
        assert!(&text[at.clone()] == part, "{text}: {}", &text[at]);
    }
}

#[test]
fn missing_items_have_a_suggestion() {
    for (text, message, label) in [
        ("var.m.sise", "the map has no key `sise`", "did you mean `size`?"),
        ("var.m[\"sise\"]", "the map has no key `sise`", "did you mean `size`?"),
        ("var.m.other", "the map has no key `other`", "no such key"),
        ("[][0]", "index 0 is outside of the list, which has 0 items", "no such item"),
        ("[1][1]", "index 1 is outside of the list, which has 1 item", "no such item"),
        ("[1][-1]", "index -1 is outside of the list, which has 1 item", "no such item"),
        ("[1].1", "index 1 is outside of the list, which has 1 item", "no such item"),
        ("{ canary2 = 1 }[var.s]", "the map has no such key", "no such key"),
        ("{ (var.s) = 1 }.canari", "the map has no key `canari`", "no such key"),
    ] {
        let problem = run(text).unwrap_err();
        assert_eq!((&*problem.message, &*problem.label), (message, label), "{text}");
        assert_eq!(problem.code.as_str(), "spec/no-such-item", "{text}");
    }
    let long = format!("{{ {0}a = 1 }}.{0}b", "x".repeat(50_000));
    let problem = run(&long).unwrap_err();
    assert!(problem.message.len() < 100 && problem.label == "no such key", "{problem:?}");
}

#[test]
fn the_keys_of_for_differ() {
    let text = "{ for x in [1, 2] : \"eu\" => x }";
    let problem = run(text).unwrap_err();
    assert_eq!(problem.message, "two items of `for` have the key `eu`");
    assert_eq!(problem.code.as_str(), "spec/duplicate-field");
    assert_eq!(&text[problem.at.start as usize..problem.at.end as usize], "\"eu\"");
    let problem = run("{ for x in [1, 2] : var.s => x }").unwrap_err();
    assert_eq!(problem.message, "two items of `for` have the same key");
    let problem = run("{ a = 1, a = 2 }").unwrap_err();
    assert_eq!((&*problem.message, problem.at), ("the map has a key twice", 9..10));
    assert_eq!(problem.code.as_str(), "spec/duplicate-field");
    // The last one would be the value in HCL 2, without a word.
    let problem = run("{ a = 1, (\"a\") = 2 }.a").unwrap_err();
    assert_eq!(&*problem.message, "the map has the key `a` twice");
}

#[test]
fn for_has_its_own_names_in_order() {
    for (text, expected) in [
        ("[for i, x in [5, 6] : i + x]", "[5, 7]"),
        ("[for k, v in { b = 2, a = 1 } : \"${k}${v}\"]", "[\"a1\", \"b2\"]"),
        ("[for v in { b = 2, a = 1 } : v]", "[1, 2]"),
        ("{ for i, x in [\"a\", \"b\"] : x => i if x != \"a\" }", "{ b = 1 }"),
        ("[for a, b in [7] : [for c, d in [8] : [a, b, c, d]]]", "[[[0, 7, 0, 8]]]"),
        ("[for a in [1, 2] : [for b in [a, 3] : a * b]]", "[[1, 3], [4, 6]]"),
        ("[for x in [[1, 2]] : x[1]]", "[2]"),
        ("[for x in [{ a = 1 }] : x.a]", "[1]"),
        ("[for x in [1] : x if false]", "[]"),
        ("{ for x in [1, true] : x => x }", "{ \"1\" = 1, \"true\" = true }"),
    ] {
        assert_eq!(run(text), Ok(run(expected).unwrap()), "{text}");
    }
}

#[test]
fn white_space_beside_an_expression_can_be_removed() {
    for (text, expected) in [
        ("\"a ${~ 1 ~} b\"", "a1b"),
        ("\"a ${~ 1 } b\"", "a1 b"),
        ("\"a ${ 1 ~} b\"", "a 1b"),
        ("\"a \\n ${~ 1 ~}\\n \\n b\"", "a1b"),
        ("\" ${~ 1 ~} ${~ 2 ~} \"", "12"),
        // Each line of a here-document is a text of its own.
        ("<<E\na\n  ${~ 1 ~}  \n  b\nE", "a\n1  b\n"),
        ("<<E\na  ${~ 1 }\nE", "a1\n"),
        ("<<-E\n    a\n\n      ${\"x\"}\n    E", "a\n\n  x\n"),
        ("<<E\n\\n \"$${x}\" %%{y}\nE", "\\n \"${x}\" %{y}\n"),
        ("\"%%{x} \\\\ \\t \\\" \\u00e9\"", "%{x} \\ \t \" é"),
    ] {
        let value = run(text).map_err(|problem| problem.message);
        assert_eq!(value.map(|value| value.kind), Ok(Kind::Text(expected.into())), "{text}");
    }
    let mut names = Names::default();
    let expr = parse_template("a\n  ${~ 1 ~}  \n  b \\n", &mut names).unwrap().unwrap();
    assert_eq!(evaluate_in(&expr).unwrap().kind, Kind::Text("a\n1  b \\n".into()));
    // With spaces around, it is a text.
    let expr = parse_template(" ${~ 1 ~} ", &mut names).unwrap().unwrap();
    assert_eq!(evaluate_in(&expr).unwrap().kind, Kind::Text("1".into()));
}

#[test]
fn a_name_without_a_value_is_a_problem() {
    let mut names = Names::default();
    let no_value = "the name has no value";
    let no_each = "`each` is not available here: the volume has no `for_each`";
    for (text, message) in [
        ("var.x", no_value),
        ("local.x", no_value),
        ("each.key", no_each),
        ("each.value", no_each),
        ("count.index", "`count` is not available here: the volume has no `count`"),
        ("volume.id", no_value),
    ] {
        let expr = parse_expression(text, &mut names).unwrap();
        let problem = evaluate(&expr, &Scope::default(), &mut Budget::run()).unwrap_err();
        assert_eq!(problem.message, message, "{text}");
    }
}

/// Evaluates local values in order, as the caller does.
fn run_locals(lines: impl Iterator<Item = String>) -> Result<(), Problem> {
    let mut names = Names::default();
    let mut budget = Budget::run();
    let mut locals: Vec<Option<Value>> = vec![];
    for line in lines {
        let (name, text) = line.split_once(" = ").unwrap();
        let slot = names.local(name) as usize;
        let expr = parse_expression(text, &mut names).unwrap();
        locals.resize(locals.len().max(slot + 1), None);
        let scope = Scope { locals: &locals, ..Scope::default() };
        let value = evaluate(&expr, &scope, &mut budget)?;
        locals[slot] = Some(value);
    }
    Ok(())
}

#[test]
fn hostile_values_end_within_their_limits() {
    let chain = |first: &str, count: usize, next: &dyn Fn(usize) -> String| {
        let rest = (1..count).map(|i| format!("a{i} = {}", next(i - 1)));
        let lines: Vec<String> = [format!("a0 = {first}")].into_iter().chain(rest).collect();
        lines
    };
    let double =
        chain("\"xxxxxxxxxxxxxxxx\"", 60, &|i| format!("\"${{local.a{i}}}${{local.a{i}}}\""));
    let levels = chain("[1]", 200_000, &|i| format!("[local.a{i}]"));
    let mut print = chain("[1, 2]", 30, &|i| format!("[local.a{i}, local.a{i}]"));
    let mut flatten = print.clone();
    let mut equal = print.clone();
    print.push("x = jsonencode(local.a29)".to_owned());
    flatten.push("x = flatten(local.a29)".to_owned());
    equal.extend(
        print.iter().filter(|line| line.starts_with('a')).map(|line| line.replace('a', "b")),
    );
    equal.iter_mut().for_each(|line| *line = line.replace("locbl", "local"));
    equal.push("x = local.a29 == local.b29".to_owned());
    let merge = vec![
        "m = { for i in range(5000) : \"k${i}\" => i }".to_owned(),
        "x = [for i in range(100000) : merge(local.m, { a = i })]".to_owned(),
    ];
    let repeated = vec!["x = [for i in range(100000) : replace(\"aaaaaaaaaaaaaaaa\", \"a\", \"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\")]".to_owned()];
    for (lines, message) in [
        (double, "the texts of variables and local values are larger than 32 MiB"),
        (levels, "a value has more than 64 levels of lists and maps"),
        (print, "the texts of variables and local values are larger than 32 MiB"),
        (flatten, "variables and local values make more than 1,000,000 values"),
        (equal, "the evaluation takes more than 20,000,000 steps"),
        (merge, "variables and local values make more than 1,000,000 values"),
        (repeated, "the texts of variables and local values are larger than 32 MiB"),
    ] {
        let problem = run_locals(lines.into_iter()).unwrap_err();
        assert_eq!(problem.message, message);
        assert_eq!(problem.code.as_str(), "spec/evaluation-limit");
    }
}

#[test]
fn a_map_with_a_key_twice_is_refused_with_both_places() {
    for (text, first, repeated, message) in [
        ("{ a = 1, a = 2 }", 2..3, 9..10, "the map has a key twice"),
        ("{ a = 1, \"a\" = 2 }", 2..3, 9..12, "the map has the key `a` twice"),
        ("{ \"1\" = 1, (1) = 2 }", 2..5, 12..13, "the map has the key `1` twice"),
        ("merge({ b = 1, a = 1, \"a\" = 2 }, {})", 15..16, 22..25, "the map has the key `a` twice"),
        ("{ (upper(\"a\")) = 1, A = 2 }", 3..13, 20..21, "the map has the key `A` twice"),
        ("{ A = 1, (upper(\"a\")) = 2 }", 2..3, 10..20, "the map has the key `A` twice"),
        ("{ (var.s) = 1, canary = 2 }", 3..8, 15..21, "the map has a key twice"),
        ("{ x = { a = 1, \"a\" = 2 }, a = 3 }", 8..9, 15..18, "the map has the key `a` twice"),
    ] {
        let problem = run(text).unwrap_err();
        let range = |at: &std::ops::Range<u32>| at.start as usize..at.end as usize;
        assert_eq!(problem.message, message, "{text}");
        assert_eq!(range(&problem.at), repeated, "{text}");
        let other = problem.first.as_ref().map(range);
        assert_eq!(other, Some(first), "{text}");
    }
    for text in ["{ a = 1, b = 2 }", "{ a = { a = 1 } }", "{ (\"a\") = 1, b = 1 }"] {
        assert!(run(text).is_ok(), "{text}");
    }
}
