//! Tests of the static check: every name, wherever it is written.

use super::convert::parse_expression;
use super::embedded::parse_template;
use super::names::{Allowed, Availability, Names, Reference, check, references};
use super::problem::Problem;

const HERE: Availability<'_> = Availability::Available;

/// Declares `var.env`, `var.zone` and `local.zones`.
fn names() -> Names {
    let mut names = Names::default();
    names.variable("env");
    names.variable("zone");
    names.local("zones");
    names
}

fn allowed(names: &Names) -> Allowed<'_> {
    Allowed {
        names,
        declared_variables: &[true, true],
        declared_locals: &[true],
        var: HERE,
        local: HERE,
        each: HERE,
        count: HERE,
        volume: HERE,
    }
}

fn checked(text: &str, narrow: impl Fn(&mut Allowed<'_>)) -> Vec<Problem> {
    let mut names = names();
    let expr = match parse_expression(text, &mut names) {
        Ok(expr) => expr,
        Err(problems) => return problems,
    };
    let mut allowed = allowed(&names);
    narrow(&mut allowed);
    check(&expr, &allowed)
}

fn part<'t>(text: &'t str, problem: &Problem) -> &'t str {
    &text[problem.at.start as usize..problem.at.end as usize]
}

#[test]
fn unknown_names_are_found_with_a_suggestion() {
    for (text, at, message, label) in [
        ("\"ceph-${var.envv}\"", "envv", "unknown variable `envv`", "did you mean `env`?"),
        ("var.other", "other", "unknown variable `other`", "not declared"),
        ("var.zones", "zones", "unknown variable `zones`", "did you mean `zone`?"),
        ("local.zoness[0]", "zoness", "unknown local value `zoness`", "did you mean `zones`?"),
        ("local.env", "env", "unknown local value `env`", "not declared"),
        ("true || var.envv", "envv", "unknown variable `envv`", "did you mean `env`?"),
        ("false ? var.envv : 1", "envv", "unknown variable `envv`", "did you mean `env`?"),
        ("foo", "foo", "unknown name `foo`", "a name, or text without quotes"),
        ("foo.bar", "foo", "unknown name `foo`", "a name, or text without quotes"),
        ("var", "var", "unknown name `var`", "write `var.NAME`"),
        ("var[0]", "var", "unknown name `var`", "write `var.NAME`"),
        ("local", "local", "unknown name `local`", "write `local.NAME`"),
        ("each", "each", "unknown name `each`", "write `each.key` or `each.value`"),
        ("count", "count", "unknown name `count`", "write `count.index`"),
        (
            "volume",
            "volume",
            "unknown name `volume`",
            "write `volume.id`, `volume.key` or `volume.label`",
        ),
        ("unknown.a", "unknown", "unknown name `unknown`", "a name, or text without quotes"),
        ("each.val", "val", "`each` has `key` and `value`", "no such name"),
        ("count.indx", "indx", "`count` has `index` only", "no such name"),
        ("volume.name", "name", "`volume` has `id`, `key` and `label`", "no such name"),
        ("[for x in [1] : y]", "y", "unknown name `y`", "a name, or text without quotes"),
        ("[for x in x : 1]", "x", "unknown name `x`", "a name, or text without quotes"),
    ] {
        let problems = checked(text, |_| {});
        assert_eq!(problems.len(), 1, "{text}: {problems:?}");
        let problem = &problems[0];
        assert_eq!((&*problem.message, &*problem.label), (message, label), "{text}");
        assert_eq!(part(text, problem), at, "{text}");
        assert_eq!(problem.code.as_str(), "spec/unknown-name", "{text}");
    }
    let problem = checked("var.envv", |_| {}).remove(0);
    let note = "variables are declared by `variable` blocks in the files of this run";
    assert_eq!(problem.note.as_deref(), Some(note));
    let problem = checked("local.a", |_| {}).remove(0);
    let note = "local values are declared by `locals` blocks in the files of this run";
    assert_eq!(problem.note.as_deref(), Some(note));
}

#[test]
fn names_that_are_not_available_say_why() {
    type Narrow = fn(&mut Allowed<'_>, Availability<'static>);
    let roots: [(&str, &str, Narrow); 7] = [
        ("var.env", "var", |allowed, why| allowed.var = why),
        ("local.zones", "local", |allowed, why| allowed.local = why),
        ("each.key", "each", |allowed, why| allowed.each = why),
        ("each.value.size", "each", |allowed, why| allowed.each = why),
        ("count.index", "count", |allowed, why| allowed.count = why),
        ("volume.id", "volume", |allowed, why| allowed.volume = why),
        ("volume.label", "volume", |allowed, why| allowed.volume = why),
    ];
    for (name, root, narrow) in roots {
        let text = format!("[1, true ? 2 : {name}]");
        assert_eq!(checked(&text, |_| {}), [], "{name}");
        let why = "volume `pg` has no `for_each`";
        let problems = checked(&text, |allowed| narrow(allowed, Availability::Missing(why)));
        assert_eq!(problems.len(), 1, "{name}");
        let message = format!("`{root}` is not available here: volume `pg` has no `for_each`");
        assert_eq!(problems[0].message, message);
        assert_eq!(part(&text, &problems[0]), root);
        assert_eq!(problems[0].label, "not available");
    }
}

#[test]
fn everything_that_is_wrong_with_an_expression_is_reported_at_once() {
    let text = "[foo, uper(1), upper(), var.m[*].a, { a = count.x }, [for each in [1] : bar]]";
    let problems = parse_expression(text, &mut names()).unwrap_err();
    let messages: Vec<&str> = problems.iter().map(|problem| &*problem.message).collect();
    assert_eq!(
        messages,
        [
            "unknown name `foo`",
            "unknown function `uper`",
            "`upper` requires 1 argument: a text",
            "a splat is not supported",
            "`count` has `index` only",
            "`for` cannot use the name `each`",
            "unknown name `bar`",
        ]
    );
    let problems = checked("[var.a, local.b, var.env, var.c]", |_| {});
    assert_eq!(problems.len(), 3, "{problems:?}");
}

#[test]
fn unknown_functions_have_a_suggestion_of_their_own() {
    for (name, label) in [
        ("uper", "did you mean `upper`?"),
        ("can", "not a function"),
        ("regex", "not a function"),
        ("toset", "a list works"),
        ("tolist", "a list works"),
        ("tomap", "a map works"),
        ("templatefile", "no file is read"),
        ("valt", "no such function"),
        ("nomadvar", "did you mean `nomad_var`?"),
        ("cidrsubnet", "not a function here"),
        ("quux", "no such function"),
    ] {
        let text = format!("1 + {name}(\"a\")");
        let problem = parse_expression(&text, &mut names()).unwrap_err().remove(0);
        assert_eq!(problem.message, format!("unknown function `{name}`"));
        assert_eq!((&*problem.label, part(&text, &problem)), (label, name));
        assert_eq!(problem.code.as_str(), "spec/unknown-function");
    }
    for name in ["timestamp", "uuid", "plantimestamp", "bcrypt"] {
        let text = format!("{name}()");
        let problem = parse_expression(&text, &mut names()).unwrap_err().remove(0);
        let message = format!("`{name}` is not a function here: every plan would show a change");
        assert_eq!(problem.message, message);
        assert_eq!(problem.help.as_deref(), Some("give the value as a variable"));
        assert_eq!(part(&text, &problem), name);
    }
    let problem = parse_expression("provider::a::b(1)", &mut names()).unwrap_err().remove(0);
    assert_eq!(problem.message, "unknown function `provider::a::b`");
    assert_eq!(part("provider::a::b(1)", &problem), "provider::a::b");
}

#[test]
fn references_are_found_in_every_part_of_an_expression() {
    for text in [
        "NAME",
        "[NAME]",
        "{ a = NAME }",
        "{ (NAME) = 1 }",
        "\"x${NAME}\"",
        "NAME.a",
        "NAME[0]",
        "[1][NAME]",
        "NAME ? 1 : 2",
        "true ? NAME : 1",
        "true ? 1 : NAME",
        "!NAME",
        "-NAME",
        "NAME + 1",
        "1 && NAME",
        "upper(NAME)",
        "max([NAME]...)",
        "vault(\"a\", NAME)",
        "exec([NAME])",
        "[for x in NAME : x]",
        "[for x in [1] : NAME]",
        "[for x in [1] : x if NAME]",
        "{ for x in [1] : NAME => x }",
        "(NAME)",
        "\"${NAME}\"",
        "<<E\n${NAME}\nE",
    ] {
        for (name, reference) in
            [("var.zone", Reference::Variable(1)), ("local.zones", Reference::Local(0))]
        {
            let text = text.replace("NAME", name);
            let expr = parse_expression(&text, &mut names()).unwrap();
            let found: Vec<_> = references(&expr).collect();
            assert_eq!(found.len(), 1, "{text}");
            let (found, at) = found[0].clone();
            assert_eq!(found, reference, "{text}");
            assert_eq!(&text[at.start as usize..at.end as usize], name, "{text}");
        }
    }
    let mut names = names();
    let expr = parse_expression("[var.zone, local.new, var.zone, 1]", &mut names).unwrap();
    let found: Vec<_> = references(&expr).map(|(reference, _)| reference).collect();
    assert_eq!(found, [Reference::Variable(1), Reference::Local(1), Reference::Variable(1)]);
    assert_eq!((names.local_name(1), names.local_count()), ("new", 2));
    assert_eq!((names.variable_name(1), names.variable_count()), ("zone", 2));
    assert_eq!(names.variable_name(9), "");
}

#[test]
fn names_of_for_are_not_those_of_others() {
    for (text, at, label) in [
        ("[for unknown in [1] : 1]", "unknown", "a reserved name"),
        ("[for volume, v in [1] : 1]", "volume", "a reserved name"),
        ("[for x in [1] : [for x in [2] : x]]", "x", "this name is already used by a `for`"),
        ("[for x, x in [1] : 1]", "x", "this name is already used by a `for`"),
    ] {
        let problems = checked(text, |_| {});
        assert_eq!(problems.len(), 1, "{text}: {problems:?}");
        assert_eq!(problems[0].message, format!("`for` cannot use the name `{at}`"));
        assert_eq!((part(text, &problems[0]), &*problems[0].label), (at, label));
        assert_eq!(problems[0].code.as_str(), "spec/expression");
    }
    // The name ends with its `for`.
    assert_eq!(checked("[[for x in [1] : x], [for x in [2] : x]]", |_| {}), []);
    assert_eq!(checked("[[for x in [1] : x], x]", |_| {})[0].message, "unknown name `x`");
}

#[test]
fn what_the_language_does_not_have_is_refused_with_an_alternative() {
    for (text, at, message, help) in [
        ("var.m.*.a", ".*", "a splat is not supported", "write `[for x in LIST : x.NAME]`"),
        ("var.m[*]", "[*]", "a splat is not supported", "write `[for x in LIST : x.NAME]`"),
        (
            "\"a %{ if true }b%{ endif }\"",
            "%{ if true }b%{ endif }",
            "a `%{…}` directive is not supported",
            "write `${CONDITION ? A : B}` or `${join(\"\", [for x in LIST : x])}`, or `%%{` for a literal `%{`",
        ),
        (
            "{ for x in [1] : \"a\" => x... }",
            "...",
            "grouping with `...` is not supported in `for`",
            "use keys that differ",
        ),
        ("\"a\" b", "b", "expected a value or an expression", "put text in double quotes"),
    ] {
        let problem = parse_expression(text, &mut names()).unwrap_err().remove(0);
        assert_eq!((&*problem.message, problem.help.as_deref()), (message, Some(help)), "{text}");
        assert_eq!(part(text, &problem), at, "{text}");
    }
}

#[test]
fn problems_in_texts_of_yaml_and_json_have_their_positions() {
    for (text, at, message) in [
        ("é ${var.envv} ${1}", "envv", "unknown variable `envv`"),
        ("${foo}", "foo", "unknown name `foo`"),
        ("a ${1} ${ uper(\"x\") }", "uper", "unknown function `uper`"),
        ("a ${1 +} b", "${1 +}", "`${` starts no valid expression"),
        ("a ${", "${", "`${` starts no valid expression"),
        ("$${a} ${b", "${b", "`${` starts no valid expression"),
        (
            "%{ if true }a%{ endif }",
            "%{ if true }a%{ endif }",
            "a `%{…}` directive is not supported",
        ),
        ("a %{x} b", "%{x}", "`%{` starts no valid directive"),
    ] {
        let mut names = names();
        let problem = match parse_template(text, &mut names) {
            Ok(expr) => check(&expr.unwrap(), &allowed(&names)).remove(0),
            Err(mut problems) => problems.remove(0),
        };
        assert_eq!(problem.message, message, "{text}");
        assert_eq!(part(text, &problem), at, "{text}");
    }
    let long = format!("${{\"{}\"}}", "x".repeat(256 << 10));
    let problem = parse_template(&long, &mut names()).unwrap_err().remove(0);
    assert_eq!(problem.message, "this expression is too long");
}
