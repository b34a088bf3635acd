use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::expression::{Condition, Expression, Filter, Pattern, Test};
use super::selector::Selector;

fn item() -> Map<String, Value> {
    let item = json!({
        "ID": "db-0",
        "Name": "db",
        "Namespace": "default",
        "CloneID": "",
        "PluginID": "ebs0",
        "Schedulable": true,
        "CurrentReaders": 3,
        "ModifyIndex": u64::MAX,
        "Parameters": {"type": "gp3", "dot.ted": "yes", "7": "seven"},
        "Context": {},
        "WriteAllocs": {"a1": null},
        "Topologies": [{"Segments": {"zone": "z1"}}],
        "Tags": ["x", "y", 5, true],
        "RequestedTopologies": null,
    });
    item.as_object().cloned().unwrap_or_default()
}

/// The result for the item, or the message.
fn tested(text: &str) -> Result<bool, String> {
    let filter = Filter::parse(text).map_err(|problem| problem.to_string())?;
    let tested = filter.matches(&item());
    tested.map_err(|problem| problem.to_string())
}

const EXPRESSIONS: [(&str, bool); 78] = [
    (r#"ID == "db-0""#, true),
    (r#"ID=="db-0""#, true),
    (r#"ID == "db-1""#, false),
    (r#"ID != "db-1""#, true),
    (r#"ID!="db-0""#, false),
    ("ID == `db-0`", true),
    ("PluginID == ebs0", true),
    ("PluginID == ebs1", false),
    ("  PluginID\t==\n ebs0  ", true),
    ("Name == db.x", false),
    ("Schedulable == true", true),
    ("Schedulable == T", true),
    ("Schedulable == 0", false),
    (r#"Schedulable != "false""#, true),
    ("CurrentReaders == 3", true),
    ("CurrentReaders != 3", false),
    (r#"CurrentReaders == "3""#, true),
    ("CurrentReaders == -3", false),
    ("ModifyIndex == 18446744073709551615", true),
    ("CloneID is empty", true),
    ("CloneID is not empty", false),
    ("ID is empty", false),
    ("ID is not empty", true),
    ("Context is empty", true),
    ("Parameters is not empty", true),
    ("Topologies is empty", false),
    ("RequestedTopologies is empty", true),
    ("RequestedTopologies == x", false),
    ("RequestedTopologies.Required is empty", true),
    ("Parameters.type == gp3", true),
    (r#"Parameters["type"] == "gp3""#, true),
    ("Parameters[ `type` ] == gp3", true),
    (r#"Parameters["dot.ted"] == "yes""#, true),
    ("Parameters.7 == seven", true),
    ("Parameters.missing == gp3", false),
    ("Parameters.missing != gp3", true),
    ("Parameters.missing is empty", true),
    ("Parameters.missing is not empty", false),
    ("Parameters.missing matches x", false),
    ("Parameters.missing not matches x", true),
    ("x in Parameters.missing", false),
    ("x not in Parameters.missing", true),
    ("type in Parameters", true),
    (r#""type" in Parameters"#, true),
    (r#""missing" in Parameters"#, false),
    (r#""missing" not in Parameters"#, true),
    ("Parameters contains type", true),
    ("Parameters not contains type", false),
    ("a1 in WriteAllocs", true),
    (r#"Topologies.0.Segments.zone == "z1""#, true),
    (r#"Topologies.1.Segments.zone == "z1""#, false),
    ("x in Tags", true),
    ("z in Tags", false),
    ("5 in Tags", true),
    ("Tags contains true", true),
    ("Tags not contains z", true),
    (r#""b-" in ID"#, true),
    (r#"ID contains "b-0""#, true),
    (r#"ID not contains "b-0""#, false),
    (r#"ID matches "^db""#, true),
    (r#"ID matches "b""#, true),
    (r#"ID matches "^b""#, false),
    (r"ID matches `^db-\d$`", true),
    (r#"ID matches "^db-\\d$""#, true),
    (r#"ID not matches "^db""#, false),
    (r#"ID matches "(?i)^DB""#, true),
    ("not ID == x", true),
    ("not (ID == x)", true),
    ("not not ID == x", false),
    ("ID == x or Name == db", true),
    ("ID == x and Name == db", false),
    ("Name == db and Namespace == default and Schedulable == true", true),
    // `and` binds more tightly than `or`.
    ("Name == db or ID == x and ID == y", true),
    ("(Name == db or ID == x) and ID == y", false),
    ("not Name == db or Name == db", true),
    ("not (Name == db or Name == db)", false),
    ("((Name == db))", true),
    // The second condition is not tested, because the first one decides.
    ("Name == db or Missing == x", true),
];

#[test]
fn expressions_have_the_results_of_go_bexpr() {
    for (text, expected) in EXPRESSIONS {
        assert_eq!(tested(text), Ok(expected), "{text}");
    }
}

#[test]
fn a_written_expression_is_read_as_the_same() {
    for (text, _) in EXPRESSIONS {
        let filter = Filter::parse(text).unwrap();
        let written = filter.to_string();
        assert_eq!(Filter::parse(&written), Ok(filter), "{text} -> {written}");
    }
}

/// Expressions that cannot be read, with their errors.
const ERRORS: &[(&str, &str)] = &[
    ("", "at character 1: expected a field, a value, `not` or `(`, found the end"),
    ("   ", "at character 4: expected a field, a value, `not` or `(`, found the end"),
    (
        "ID",
        "at character 3: expected `==`, `!=`, `in`, `contains`, `matches`, `is empty`, or `not` and one of them, found the end",
    ),
    (
        "ID = x",
        "at character 4: expected `==`, `!=`, `in`, `contains`, `matches`, `is empty`, or `not` and one of them, found `=`",
    ),
    (
        "ID like x",
        "at character 4: expected `==`, `!=`, `in`, `contains`, `matches`, `is empty`, or `not` and one of them, found `like`",
    ),
    ("ID not like x", "at character 8: expected `in`, `contains` or `matches`, found `like`"),
    ("ID is nil", "at character 7: expected `empty` or `not empty`, found `nil`"),
    (
        "ID ==",
        "at character 6: expected a value: a text in quotes, a number or a name, found the end",
    ),
    ("ID == db-0", "at character 9: expected `and`, `or` or the end, found `-`"),
    ("ID == 5a", "at character 7: expected a number, or a text in quotes, found `5a`"),
    ("ID == 1.2.3", "at character 7: expected a number, or a text in quotes, found `1`"),
    (r#"ID == "db"#, "at character 10: expected a closing `\"`, found the end"),
    ("ID == `db", "at character 10: expected a closing backquote, found the end"),
    (r#"ID == "\d""#, "at character 9: expected `\"`, `\\`, `n`, `r` or `t` after `\\`, found `d`"),
    (r#""db" == ID"#, "at character 6: expected `in` or `not in` after a value, found `=`"),
    ("(ID == x", "at character 9: expected `and`, `or` or `)`, found the end"),
    ("ID == x)", "at character 8: expected `and`, `or` or the end, found `)`"),
    ("ID == x && ID == y", "at character 9: expected `and`, `or` or the end, found `&`"),
    ("ID == x and", "at character 12: expected a field, a value, `not` or `(`, found the end"),
    ("Parameters. == x", "at character 12: expected a name or a number after `.`, found ` `"),
    ("Parameters[type] == x", "at character 12: expected a text in quotes, found `type`"),
    (r#"Parameters["type" == x"#, "at character 19: expected `]`, found `=`"),
    ("äöü == x", "at character 1: expected a field, a value, `not` or `(`, found `ä`"),
    (r#"ID == "ä" ö"#, "at character 11: expected `and`, `or` or the end, found `ö`"),
    (r#"ID matches "(""#, "at character 12: the regular expression is not valid: unclosed group"),
    (
        r#"ID matches "\\w{900}{900}""#,
        "at character 12: the regular expression is not valid: the pattern is too large",
    ),
];

#[test]
fn errors_name_the_place_and_what_was_expected() {
    for (text, expected) in ERRORS {
        assert_eq!(tested(text), Err((*expected).to_owned()), "{text}");
    }
}

#[test]
fn values_that_cannot_be_tested_are_errors() {
    for (text, expected) in [
        (
            "Schedulabel == true",
            "`Schedulabel` is not a field of a list item; did you mean `Schedulable`?",
        ),
        ("Foo is empty", "`Foo` is not a field of a list item"),
        ("Secrets.key == x", "`Secrets` is not a field of a list item"),
        (
            "Schedulable == yes",
            "`Schedulable` is a boolean, which the condition `Schedulable == \"yes\"` cannot test",
        ),
        (
            "CurrentReaders == many",
            "`CurrentReaders` is a number, which the condition `CurrentReaders == \"many\"` cannot test",
        ),
        (
            "CurrentReaders is empty",
            "`CurrentReaders` is a number, which the condition `CurrentReaders is empty` cannot test",
        ),
        (
            "CurrentReaders matches 3",
            "`CurrentReaders` is a number, which the condition `CurrentReaders matches \"3\"` cannot test",
        ),
        (
            "Parameters == x",
            "`Parameters` is a map, which the condition `Parameters == \"x\"` cannot test",
        ),
        (
            "Tags matches x",
            "`Tags` is a list, which the condition `Tags matches \"x\"` cannot test",
        ),
    ] {
        assert_eq!(tested(text), Err(expected.to_owned()), "{text}");
    }
}

#[test]
fn length_depth_and_patterns_are_limited() {
    let long = format!("ID == \"{}\"", "x".repeat(Filter::LENGTH));
    assert!(tested(&long).unwrap_err().contains("the limit is 4096"));
    let nested = |depth: usize| format!("{}ID == x{}", "(".repeat(depth), ")".repeat(depth));
    assert_eq!(tested(&nested(Filter::DEPTH)), Ok(false));
    let deep = "at character 34: more than 32 nested parentheses and `not`";
    assert_eq!(tested(&nested(Filter::DEPTH + 1)), Err(deep.to_owned()));
    assert!(tested(&"not ".repeat(1000)).is_err());
    let patterns = |count: usize| vec!["ID matches x"; count].join(" or ");
    assert_eq!(tested(&patterns(Filter::PATTERNS)), Ok(false));
    assert!(tested(&patterns(Filter::PATTERNS + 1)).is_err());
}

/// A pattern that takes exponential time in a backtracking engine is linear here.
#[test]
fn a_pattern_takes_no_longer_on_a_hostile_text() {
    let filter = Filter::parse("ID matches `^(a+)+$`").unwrap();
    let mut item = item();
    item.insert("ID".into(), format!("{}b", "a".repeat(100_000)).into());
    assert_eq!(filter.matches(&item), Ok(false));
}

fn conditions() -> impl Strategy<Value = Expression> {
    let inside = prop::collection::vec(any::<String>(), 0..3);
    let selectors = ("[A-Za-z][A-Za-z0-9_/]{0,8}", inside);
    // A field of this name is read as the word.
    let selectors = selectors.prop_filter("`not` starts an expression", |(field, inside)| {
        field != "not" || !inside.is_empty()
    });
    let selectors = selectors.prop_map(|(field, inside)| Selector::new(field, inside));
    let tests = prop_oneof![
        any::<String>().prop_map(Test::Equals),
        any::<String>().prop_map(Test::Contains),
        Just(Test::IsEmpty),
        "[a-z`\"]{0,5}".prop_map(|text| Test::Matches(Pattern::new(&text).unwrap())),
    ];
    (selectors, tests, any::<bool>()).prop_map(|(selector, test, is_negated)| {
        Expression::Condition(Condition { selector, test, is_negated })
    })
}

fn expressions() -> impl Strategy<Value = Expression> {
    conditions().prop_recursive(4, 12, 3, |part| {
        let parts = || prop::collection::vec(part.clone(), 2..4);
        prop_oneof![
            part.clone().prop_map(|part| Expression::Not(Box::new(part))),
            parts().prop_map(Expression::All),
            parts().prop_map(Expression::Any),
        ]
    })
}

proptest! {
    #[test]
    fn every_expression_is_written_so_that_it_is_read_again(expression in expressions()) {
        let filter = Filter(expression);
        let written = filter.to_string();
        prop_assert_eq!(Filter::parse(&written), Ok(filter), "{}", written);
    }

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,80}") {
        if let Ok(filter) = Filter::parse(&text) {
            prop_assert_eq!(Filter::parse(&filter.to_string()), Ok(filter));
        }
    }
}
