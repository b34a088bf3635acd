//! Measures the time of the limits; run in release with `--ignored --nocapture`.

#![expect(clippy::print_stdout, reason = "the measures are the result")]

use std::time::{Duration, Instant};

use super::budget::Budget;
use super::convert::parse_expression;
use super::evaluate::{Scope, VolumeNames, evaluate};
use super::names::Names;
use super::tests::run;
use super::value::{MapItems, Value};

fn timed<T>(what: &str, at_most: Duration, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = work();
    let took = start.elapsed();
    println!("{what}: {took:?}");
    assert!(took < at_most, "{what} took {took:?}");
    result
}

#[test]
#[ignore = "measures time in release"]
fn all_steps_of_a_run_take_less_than_two_seconds() {
    for (what, text) in [
        (
            "nested for",
            "[for a in range(100000) : 1 if [for b in range(9) : 1 if a * b + 1 < 0] == [1]]",
        ),
        ("comparisons", "[for a in range(100000) : 1 if contains(range(9), -a)]"),
        ("distinct", "distinct(range(20000))"),
        (
            "texts",
            "[for a in range(100000) : 1 if \"${a}x\" == \"x${a}\" || upper(\"x${a}y\") == \"\"]",
        ),
        ("one pattern", "[for a in range(100000) : matches(\"^[a-z]+[0-9]?$\", \"abcdef\")]"),
        ("many patterns", "[for a in range(100000) : matches(\"^[a-z]+${a}$\", \"a\")]"),
        ("many patterns of words", "[for a in range(100000) : matches(\"\\\\w${a}\", \"a\")]"),
        (
            "many patterns of 1 MiB",
            "[for a in range(100000) : matches(\"(?i)\\\\w{7}${a}\", \"a\")]",
        ),
        ("a pattern too large", "matches(\"(?i)\\\\w{500}\", \"a\")"),
        (
            "searches",
            "[for a in range(100000) : matches(\"(a+)+b|c.*d.*e\", replace(\"xxxxxxxxxx\", \"x\", \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa${a}\"))]",
        ),
        (
            "searches without a table",
            "[for a in range(100000) : matches(\"[ab]*a[ab]{9}c\", join(\"\", [for b in range(9) : (a + b * b * 7) % 3 == 0 ? \"a\" : \"b\"]))]",
        ),
        (
            "large searches without a table",
            "[for a in range(100000) : matches(\"[ab]*a[ab]{900}c\", join(\"\", [for b in range(2000) : (a + b * b * 7) % 3 == 0 ? \"a\" : \"b\"]))]",
        ),
        ("missing keys", "{ for i in range(100000) : \"${i}\" => i }.zz"),
        ("merge", "[for a in range(100000) : merge({ for i in range(9) : i => 1 }, { a = a })]"),
    ] {
        let result = timed(what, Duration::from_secs(2), || run(text));
        println!("  {}", result.map_or_else(|problem| problem.message, |_| "a value".to_owned()));
    }
}

#[test]
#[ignore = "measures time in release"]
fn seven_expressions_of_ten_thousand_instances_are_fast() {
    let mut names = Names::default();
    let exprs = [
        "\"ceph-${var.env}\"",
        "\"${var.env}-${volume.key}\"",
        "element(local.zones, count.index)",
        "var.env == \"prod\" ? \"10GiB\" : \"1GiB\"",
        "bytes(\"1GiB\") * (1 + count.index % 3)",
        "{ pool = \"nvme\", zone = element(local.zones, count.index), owner = upper(var.env) }",
        "[for zone in local.zones : { segments = { zone = zone } } if zone != \"eu-1b\"]",
    ]
    .map(|text| parse_expression(text, &mut names).unwrap());
    let variables = [Some(Value::text("prod"))];
    let zones = ["eu-1a", "eu-1b", "eu-1c"].map(Value::text);
    let locals = [Some(Value::list(zones).unwrap())];
    let mut run = Budget::run();
    let mut kept = MapItems::new();
    timed("10,000 instances", Duration::from_millis(100), || {
        for index in 0..10_000 {
            let key = format!("pg-{index}");
            let volume = VolumeNames {
                label: "pg".into(),
                key: key.as_str().into(),
                id: format!("pg[{index}]").into(),
            };
            let scope = Scope {
                variables: &variables,
                locals: &locals,
                each: None,
                count_index: Some(index),
                volume: Some(&volume),
                place: None,
            };
            let mut budget = run.start_volume();
            for expr in &exprs {
                let value = evaluate(expr, &scope, &mut budget).unwrap();
                kept.insert("last".into(), value);
            }
            run.end_volume(&budget);
        }
    });
    println!("steps: {}", 20_000_000 - run.steps_left());
}
