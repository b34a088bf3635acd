//! What functions take from the budget, and that hostile arguments end within it.

use std::time::{Duration, Instant};

use super::budget::Budget;
use super::embedded::parse_template;
use super::evaluate::{Scope, evaluate};
use super::names::Names;
use super::problem::Problem;
use super::tests::run;
use super::value::{MapItems, Value};

/// Evaluates `${…}` with a variable `x` in the budget of a volume. Returns also the steps that it takes.
fn spent(text: &str, x: Value, budget: &mut Budget) -> (Result<Value, Problem>, u64) {
    let mut names = Names::default();
    names.variable("x");
    let expr = parse_template(&format!("${{{text}}}"), &mut names).unwrap().unwrap();
    let before = budget.steps_left();
    let variables = [Some(x)];
    let scope = Scope { variables: &variables, ..Scope::default() };
    let value = evaluate(&expr, &scope, budget);
    (value, before - budget.steps_left())
}

fn refused(text: &str, x: Value) -> String {
    let (value, _) = spent(text, x, &mut Budget::run().start_volume());
    value.map_err(|problem| problem.message).expect_err(text)
}

fn list(count: usize, item: &Value) -> Value {
    Value::list(vec![item.clone(); count]).unwrap()
}

#[test]
fn what_a_function_makes_is_taken_from_the_budget() {
    const VALUES: &str = "the volume makes more than 10,000 values";
    const TEXTS: &str = "the texts of the volume are larger than 256 KiB";
    let items = list(6_000, &Value::NULL);
    assert_eq!(refused("concat(var.x, var.x)", items), VALUES);
    let map: MapItems =
        (0..10_001).map(|number| (format!("{number}").into(), Value::NULL)).collect();
    assert_eq!(refused("keys(var.x)", Value::map(map).unwrap()), VALUES);
    assert_eq!(refused("split(\",\", var.x)", Value::text(",".repeat(10_001))), VALUES);
    let long = Value::text("x".repeat(200 << 10));
    assert_eq!(refused("jsonencode([var.x, var.x])", long.clone()), TEXTS);
    assert_eq!(refused("jsonencode({ (var.x) = var.x })", long), TEXTS);
    let mut budget = Budget::run();
    let (_, steps) = spent("jsonencode(var.x)", list(1_000, &Value::NULL), &mut budget);
    assert!(steps >= 1_000, "{steps}");
}

#[test]
fn a_pattern_takes_steps_once_for_compiling_and_for_each_searched_byte() {
    let mut budget = Budget::run();
    let (value, first) = spent("matches(\"^a+$\", var.x)", Value::text("a"), &mut budget);
    assert_eq!(value, Ok(Value::boolean(true)));
    assert!(first >= 4_096, "{first}");
    let (_, again) = spent("matches(\"^a+$\", var.x)", Value::text("a"), &mut budget);
    assert!(again < 100, "{again}");
    let subject = Value::text("a".repeat(1_000));
    let (_, long) = spent("matches(\"^a+$\", var.x)", subject, &mut budget);
    assert!(long >= 4_000, "{long}");
}

#[test]
fn large_patterns_are_refused() {
    let problem = |pattern: &str| {
        let (value, steps) =
            spent("matches(var.x, \"aaaa\")", Value::text(pattern), &mut Budget::run());
        assert!(steps < 1_000_000, "{pattern}: {steps}");
        value.map_err(|problem| problem.message).expect_err(pattern)
    };
    let long = format!("^{}$", "a".repeat(1_023));
    assert_eq!(problem(&long), "cannot evaluate `matches`: the pattern is longer than 1 KiB");
    for pattern in [
        "\\w{1000}",
        "((a{50}){50}){50}",
        "(\\pL{100}){100}",
        "(.{1,500}){1,500}",
        "(?i)(é{200}){200}",
    ] {
        assert_eq!(
            problem(pattern),
            "cannot evaluate `matches`: the compiled pattern is larger than 1 MiB",
            "{pattern}"
        );
    }
}

/// The time is that of an unoptimised test on a loaded machine: the limit is for work that never ends.
#[test]
fn patterns_and_literals_end_in_time() {
    const LIMIT: Duration = Duration::from_secs(60);
    let start = Instant::now();
    let problem = run(
        "[for i in range(100000) : matches(\"(a?){30}a{30}${i}\", \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\")]",
    );
    let message = problem.map_err(|problem| problem.message);
    assert_eq!(message, Err("the evaluation takes more than 20,000,000 steps".to_owned()));
    assert!(start.elapsed() < LIMIT, "{:?}", start.elapsed());
    let mut map = String::from("{");
    for number in 0_u32.. {
        if map.len() > (256 << 10) - 60 {
            break;
        }
        map.extend(["k", &number.to_string(), "=0,"]);
    }
    map.push('}');
    let start = Instant::now();
    let length = run(&format!("length({map}) > 10000"));
    assert_eq!(length, Ok(Value::boolean(true)));
    assert!(start.elapsed() < LIMIT, "{:?}", start.elapsed());
}

#[test]
fn results_and_refusals_at_the_edges() {
    for (text, expected) in [
        ("replace(\"a-a-a\", \"-\", \"_\")", "\"a_a_a\""),
        ("format(\"%05s\", \"a\")", "\"    a\""),
        ("1 <= 1", "true"),
        ("1 >= 1", "true"),
        ("1 < 1", "false"),
        ("1 > 1", "false"),
    ] {
        assert_eq!(run(text), Ok(run(expected).unwrap()), "{text}");
    }
    for text in ["inf", "-inf", "nan", "infinity", "1e999", "0x10", "1_000", ""] {
        let message = run(&format!("tonumber(\"{text}\")")).unwrap_err().message;
        assert!(message.ends_with("is not a number"), "{text}: {message}");
    }
    let long = run(&format!("bytes(\"{}\")", "9x".repeat(60))).unwrap_err().message;
    assert_eq!(long, "cannot evaluate `bytes`: the text is not a size");
}
