//! Tests of every function: what it returns at its edges, and why it refuses.

use super::functions::FUNCTIONS;
use super::tests::run;
use super::value::{Kind, Value};

#[test]
fn functions_have_their_values_at_the_edges() {
    for (text, expected) in [
        ("format(\"%s %s %s\", \"a\", 1.5, true)", "\"a 1.5 true\""),
        ("format(\"%d%%\", 5)", "\"5%\""),
        ("format(\"%05d|%5d|%5s\", -7, -7, \"é\")", "\"-0007|   -7|    é\""),
        ("format(\"%f %012f\", 2, -1.5)", "\"2.000000 -0001.500000\""),
        ("format(\"%q\", \"a\\\"\\\\\\nb\")", "\"\\\"a\\\\\\\"\\\\\\\\\\\\nb\\\"\""),
        ("format(\"%s\", [\"a\", \"b\"][1])", "\"b\""),
        ("join(\",\", [])", "\"\""),
        ("join(\", \", [1, \"b\", 2.5])", "\"1, b, 2.5\""),
        ("split(\",\", \"\")", "[\"\"]"),
        ("split(\"--\", \"a--b--\")", "[\"a\", \"b\", \"\"]"),
        ("upper(\"straße\")", "\"STRASSE\""),
        ("lower(\"É\")", "\"é\""),
        ("replace(\"aaa\", \"aa\", \"b\")", "\"ba\""),
        ("replace(\"a.b\", \".\", \"\")", "\"ab\""),
        ("substr(\"éàü\", 1, 1)", "\"à\""),
        ("substr(\"éàü\", 1, -1)", "\"àü\""),
        ("substr(\"abc\", 5, 1)", "\"\""),
        ("substr(\"abc\", 1, 9)", "\"bc\""),
        ("substr(\"abc\", 1, 0)", "\"\""),
        ("matches(\"b\", \"abc\")", "true"),
        ("matches(\"^b\", \"abc\")", "false"),
        ("length(\"éa\")", "2"),
        ("length({ a = 1 })", "1"),
        ("length([])", "0"),
        ("keys({})", "[]"),
        ("lookup({ a = null }, \"a\", 1)", "null"),
        ("element([1, 2, 3], 7)", "2"),
        ("contains([[1], 2], [1])", "true"),
        ("contains([\"1\"], 1)", "false"),
        ("contains([], null)", "false"),
        (
            "merge({ a = { x = 1 }, b = 1 }, { a = { y = 2 }, c = null })",
            "{ a = { y = 2 }, b = 1, c = null }",
        ),
        ("merge([{ a = 1 }, { b = 2 }]...)", "{ a = 1, b = 2 }"),
        ("concat([1], [], [2, [3]])", "[1, 2, [3]]"),
        ("flatten([1, [], [[[2]]], { a = [3] }])", "[1, 2, { a = [3] }]"),
        ("distinct([1, 1.0, \"1\", [1], [1], null, null])", "[1, \"1\", [1], null]"),
        ("range(0)", "[]"),
        ("range(-2)", "[]"),
        ("range(2, 4)", "[2, 3]"),
        ("range(3, 1)", "[]"),
        ("length(range(100000))", "100000"),
        ("coalesce(null, \"\", 0)", "0"),
        ("coalesce([], \"a\")", "[]"),
        ("coalesce([null, \"b\"]...)", "\"b\""),
        ("tonumber(\"-1.5e3\")", "-1500"),
        ("tonumber(\"9223372036854775807\")", "9223372036854775807"),
        ("tostring(true)", "\"true\""),
        ("tostring(0.1)", "\"0.1\""),
        ("tostring(\"a\")", "\"a\""),
        ("min(2)", "2"),
        ("min(2.5, -1, 3)", "-1"),
        ("max(2.5, -1, 3)", "3"),
        ("max([1, 4, 2]...)", "4"),
        ("floor(-1.5)", "-2"),
        ("floor(3)", "3"),
        (
            "jsonencode(\"\\\"\\\\\\n\\t\\r\\u0001é\")",
            "\"\\\"\\\\\\\"\\\\\\\\\\\\n\\\\t\\\\r\\\\u0001é\\\"\"",
        ),
        ("jsonencode([null, true, false, 1, 0.5, {}, []])", "\"[null,true,false,1,0.5,{},[]]\""),
        ("jsonencode({ b = 1, a = \"x\" })", "\"{\\\"a\\\":\\\"x\\\",\\\"b\\\":1}\""),
        ("bytes(\"1.5kB\")", "1500"),
        ("bytes(\"10\")", "10"),
    ] {
        let value = run(text).map_err(|problem| problem.message);
        assert_eq!(value, Ok(run(expected).unwrap()), "{text}");
    }
}

#[test]
fn functions_say_why_they_have_no_result() {
    let mut seen = vec![];
    for (text, part, message) in [
        ("format(\"%s\")", "\"%s\"", "it has more verbs than values follow"),
        ("format(\"a\", 1)", "1", "it has no verb in the first argument"),
        ("format(\"%x\", 1)", "\"%x\"", "`%` starts none of `%s %d %f %q %%`"),
        ("format(\"100%\")", "\"100%\"", "`%` starts none of `%s %d %f %q %%`"),
        ("format(\"%5000s\", 1)", "\"%5000s\"", "the width of a verb is more than 1,000"),
        (
            "format(\"%99999999999999999999s\", 1)",
            "\"%99999999999999999999s\"",
            "the width of a verb is more than 1,000",
        ),
        ("format(\"%d\", \"a\")", "\"a\"", "`%d` takes a whole number, not a text"),
        ("format(\"%d\", 1.5)", "1.5", "`%d` takes a whole number, not 1.5"),
        ("format(\"%f\", true)", "true", "`%f` takes a number, not a boolean"),
        ("format(\"%q\", 1)", "1", "`%q` takes a text, not a number"),
        ("format(\"%s\", [1])", "[1]", "`%s` takes a text, a number or a boolean, not a list"),
        ("format(\"%s\", null)", "null", "`%s` takes a text, a number or a boolean, not null"),
        ("join(\"\", [null])", "[null]", "an item is null, not a text or a number"),
        ("join(\"\", [true])", "[true]", "an item is a boolean, not a text or a number"),
        ("split(\"\", \"a\")", "\"\"", "the separator is empty"),
        ("replace(\"a\", \"\", \"b\")", "\"\"", "the text to replace is empty"),
        ("substr(\"a\", -1, 1)", "-1", "the start -1 is negative"),
        ("substr(\"a\", 0, -2)", "-2", "the length is negative, and is not -1"),
        ("substr(\"a\", 0.5, 1)", "0.5", "0.5 is not a whole number"),
        ("matches(\"(\", \"a\")", "\"(\"", "the pattern is not a valid regular expression"),
        ("matches(\"(?=a)\", \"a\")", "\"(?=a)\"", "the pattern is not a valid regular expression"),
        (
            "matches(\"\\\\w{500}\", \"a\")",
            "\"\\\\w{500}\"",
            "the compiled pattern is larger than 1 MiB",
        ),
        ("element([], 0)", "[]", "the list is empty"),
        ("element([1], -1)", "-1", "the index -1 is negative"),
        ("element([1], 0.5)", "0.5", "0.5 is not a whole number"),
        ("range(100001)", "100001", "the list has more than 100,000 items"),
        (
            "range(-9223372036854775807, 9223372036854775807)",
            "9223372036854775807",
            "the list has more than 100,000 items",
        ),
        ("range(0.5)", "0.5", "0.5 is not a whole number"),
        ("coalesce(null, \"\")", "\"\"", "every argument is null or an empty text"),
        ("tonumber(\"\")", "\"\"", "`\"\"` is not a number"),
        ("tonumber(\"inf\")", "\"inf\"", "`\"inf\"` is not a number"),
        ("tonumber(\"1e999\")", "\"1e999\"", "`\"1e999\"` is not a number"),
        ("tonumber(\"0x10\")", "\"0x10\"", "`\"0x10\"` is not a number"),
        ("tostring(null)", "null", "null has no text"),
        ("tostring({})", "{}", "a map has no text"),
        (
            "bytes(\"1 Gibb\")",
            "\"1 Gibb\"",
            "`Gibb` is not a unit of size; use B, kB, MB, GB, TB, PB, EB or KiB, MiB, GiB, TiB, PiB, EiB",
        ),
        ("bytes(\"-1\")", "\"-1\"", "a size cannot be negative"),
    ] {
        let problem = run(text).unwrap_err();
        let name = &text[..text.find('(').unwrap()];
        assert_eq!(problem.message, format!("cannot evaluate `{name}`: {message}"), "{text}");
        assert_eq!(problem.code.as_str(), "spec/function-arguments", "{text}");
        assert_eq!(&text[problem.at.start as usize..problem.at.end as usize], part, "{text}");
        assert!(!problem.message.contains("not a text, not"), "{text}");
        seen.push(name);
    }
    for name in [
        "format", "join", "split", "replace", "substr", "matches", "element", "range", "coalesce",
        "tonumber", "tostring", "bytes",
    ] {
        assert!(seen.contains(&name), "{name}");
    }
}

/// A value of each type, and a value that each type of parameter does not take.
fn sample(kind: &str) -> &'static str {
    match kind {
        "text" => "\"a\"",
        "number" => "1",
        "list" => "[1]",
        "map" => "{}",
        _ => "null",
    }
}

#[test]
fn every_function_checks_the_number_and_the_types_of_its_arguments() {
    let mut checked = 0;
    for function in FUNCTIONS {
        let name = function.name;
        let parameters = function.parameters.split(", ").map(|one| {
            let (_, kind) = one.split_once(": ").unwrap_or((one, "any"));
            kind.trim_end_matches('…')
        });
        // `length` takes a text, a list or a map.
        let kinds: Vec<&str> =
            parameters.filter(|kind| *kind != "any" || name != "length").collect();
        let none = run(&format!("{name}()")).unwrap_err();
        assert_eq!(none.message, format!("`{name}` requires {}", function.requirement));
        assert_eq!(none.label, "0 arguments");
        if let Some(most) = function.most {
            let args = vec!["1"; most + 1].join(", ");
            let text = format!("{name}({args})");
            let many = run(&text).unwrap_err();
            assert_eq!(many.message, format!("`{name}` requires {}", function.requirement));
            assert_eq!(many.label, format!("{} arguments", most + 1));
            assert_eq!(many.at, 0..u32::try_from(text.len()).unwrap());
        }
        for (index, kind) in kinds.iter().enumerate() {
            if *kind == "any" || kind.starts_with("value") {
                continue;
            }
            let mut args: Vec<&str> = kinds.iter().map(|kind| sample(kind)).collect();
            args[index] = "true";
            let problem = run(&format!("{name}({})", args.join(", "))).unwrap_err();
            let start = format!("argument {} of `{name}` is a boolean, not a ", index + 1);
            assert!(problem.message.starts_with(&start), "{name}: {}", problem.message);
            assert_eq!(problem.code.as_str(), "spec/function-arguments");
            checked += 1;
        }
    }
    assert_eq!(checked, 33, "parameters with a type");
}

#[test]
fn no_function_takes_a_secret_or_unknown() {
    for function in FUNCTIONS {
        let name = function.name;
        let rest = vec!["1"; function.least.saturating_sub(1)].join(", ");
        for (value, code) in [("env(\"A\")", "spec/late-secret"), ("unknown", "spec/wrong-type")] {
            let text = format!("{name}({value}, {rest})").replace(", )", ")");
            let problem = run(&text).unwrap_err();
            assert_eq!(problem.code.as_str(), code, "{text}: {}", problem.message);
            assert_eq!(&text[problem.at.start as usize..problem.at.end as usize], value);
        }
    }
    for text in [
        "join(\",\", [env(\"A\")])",
        "jsonencode({ a = [env(\"A\")] })",
        "contains([env(\"A\")], 1)",
        "distinct([1, env(\"A\")])",
    ] {
        let problem = run(text).unwrap_err();
        assert_eq!(problem.code.as_str(), "spec/late-secret", "{text}: {}", problem.message);
        let unknown = run(&text.replace("env(\"A\")", "unknown")).unwrap_err();
        assert_eq!(unknown.code.as_str(), "spec/wrong-type", "{text}: {}", unknown.message);
    }
    // These move items without reading them.
    for text in [
        "merge({ a = env(\"A\") }).a",
        "concat([env(\"A\")])[0]",
        "flatten([[env(\"A\")]])[0]",
        "element([env(\"A\")], 0)",
        "lookup({ a = env(\"A\") }, \"a\", 1)",
    ] {
        assert!(matches!(run(text).unwrap().kind, Kind::Secret(_)), "{text}");
    }
}

#[test]
fn a_list_in_place_of_arguments_counts_when_it_is_evaluated() {
    for (text, message) in [
        ("min([]...)", "`min` requires one or more numbers"),
        ("element([[1], 0, 2]...)", "`element` requires 2 arguments: a list and a number"),
        ("max(1...)", "`...` takes a list, not a number"),
        ("upper(\"a\", \"b\", []...)", "`upper` requires 1 argument: a text"),
        ("max(1, [\"a\"]...)", "argument 2 of `max` is a text, not a number"),
    ] {
        assert_eq!(run(text).unwrap_err().message, message, "{text}");
    }
    assert_eq!(run("element([[1, 2], 1]...)"), Ok(Value::integer(2)));
    assert_eq!(run("upper([\"a\"]...)"), Ok(Value::text("A")));
}

#[test]
fn no_message_shows_a_sensitive_value() {
    for text in [
        "tonumber(var.s)",
        "bytes(var.s)",
        "format(var.s, 1)",
        "matches(\"(${var.s}\", \"a\")",
        "substr(var.s, -1, 1)",
        "split(\"\", var.s)",
        "var.m[var.s]",
        "{ (var.s) = 1 }.other",
        "{ for k in [var.s, var.s] : k => 1 }",
        "{ for k, v in { (var.s) = 1, b = 2 } : \"x\" => v }",
        "[1][length(var.s)]",
        "range(0, 100001 + length(var.s))",
        "element([1], 0 - length(var.s))",
        "format(\"%d\", length(var.s) / 4)",
        "tostring([var.s])",
    ] {
        let problem = run(text).unwrap_err();
        let shown = format!("{}|{}|{:?}", problem.message, problem.label, problem.help);
        for hidden in ["canary", "100007", "-6", "1.5", "\"6", " 6"] {
            assert!(!shown.contains(hidden), "{text}: {shown}");
        }
    }
}

#[test]
fn the_marks_of_arguments_follow_as_each_function_says() {
    for text in [
        "format(\"%s\", var.s)",
        "join(\",\", [var.s])",
        "split(\",\", var.s)",
        "lower(var.s)",
        "replace(var.s, \"a\", \"b\")",
        "replace(\"a\", \"a\", var.s)",
        "substr(var.s, 0, 1)",
        "matches(var.s, \"a\")",
        "matches(\"a\", var.s)",
        "length(var.s)",
        "keys({ (var.s) = 1 })",
        "lookup({}, var.s, 1)",
        "lookup({ a = 1 }, \"a\", var.s)",
        "lookup({ a = var.s }, \"a\", 1)",
        "element([1, 2], length(var.s))",
        "element([var.s], 0)",
        "contains([var.s], 1)",
        "contains([1], var.s)",
        "merge({ (var.s) = 1 }, {})",
        "concat(split(\",\", var.s), [1])",
        "flatten([split(\",\", var.s)])",
        "flatten([1, [[split(\",\", var.s)]]])",
        "flatten([[var.s]])[0]",
        "distinct([var.s])",
        "range(length(var.s))",
        "coalesce(var.s, 1)",
        "coalesce(null, 1, var.s)",
        "tonumber(replace(var.s, \"canary\", \"1\"))",
        "tostring(var.s)",
        "min(1, length(var.s))",
        "max(1, length(var.s))",
        "floor(length(var.s) / 4)",
        "jsonencode({ a = [var.s] })",
        "bytes(replace(var.s, \"canary\", \"1\"))",
        "min([length(var.s)]...)",
        "min(range(length(var.s))...)",
    ] {
        assert!(run(text).unwrap().is_sensitive, "{text}");
    }
    for text in [
        "length([var.s])",
        "keys({ a = var.s })",
        "element([1, var.s], 0)",
        "lookup({ a = 1, b = var.s }, \"a\", 2)",
        "merge({ a = var.s, b = 1 }).b",
        "concat([var.s], [1])[1]",
        "flatten([[var.s], 1])[1]",
        "flatten([[var.s], 1])",
    ] {
        assert!(!run(text).unwrap().is_sensitive, "{text}");
    }
}
