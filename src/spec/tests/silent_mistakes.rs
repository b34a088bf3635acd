//! Mistakes in the language that are easily misunderstood: what is silent elsewhere, and what needs the right words.

use super::language::{CAPABILITY, Given, problems, problems_of};
use crate::syntax::Syntax;

fn volume(fields: &str) -> String {
    format!(
        "volume \"a\" {{\n type = \"csi\"\n name = \"a\"\n plugin_id = \"p\"\n {CAPABILITY} {fields}\n}}\n"
    )
}

fn number(written: &str, text: &str) -> String {
    format!("?spec/number-as-text [{written}] the number `{written}` is `{text}` in a text")
}

#[test]
fn a_number_that_a_text_shows_otherwise_is_a_warning_at_the_number() {
    let all_uses = volume("parameters { v = \"${var.v}\" }");
    for (declaration, expected) in [
        ("variable \"v\" { default = 1.10 }", vec![number("1.10", "1.1")]),
        ("variable \"v\" {\n type = any\n default = 1.0\n}", vec![number("1.0", "1")]),
        ("variable \"v\" { default = 12e4 }", vec![number("12e4", "120000")]),
        ("variable \"v\" {\n type = number\n default = 1.10\n}", vec![]),
        ("variable \"v\" { default = 1.1 }", vec![]),
        ("variable \"v\" { default = \"1.10\" }", vec![]),
        ("variable \"v\" { default = 10 }", vec![]),
    ] {
        let text = format!("{declaration}\n{all_uses}");
        assert_eq!(problems(&text), expected, "{declaration}");
    }
    for (declaration, expected) in [
        ("locals { v = 2.50 }", vec![number("2.50", "2.5")]),
        ("locals {\n v = [\"x\", 2.50][1]\n}", vec![number("2.50", "2.5")]),
        ("locals {\n m = { v = 1.10, w = 3 }\n v = local.m.v\n}", vec![number("1.10", "1.1")]),
        ("locals { v = merge({ v = 1.10 }, {}).v }", vec![number("1.10", "1.1")]),
        ("locals { v = true ? 1.10 : 2.0 }", vec![number("1.10", "1.1"), number("2.0", "2")]),
        ("locals { v = -1.10 }", vec![number("-1.10", "-1.1")]),
        ("locals { v = 4 * 1.50 }", vec![]),
        ("locals { v = max(1.50, 2) }", vec![]),
        ("locals { v = 2 > 1.50 ? 1 : 2 }", vec![]),
        ("locals { v = [1, 2][1 - 1.0] }", vec![]),
    ] {
        let text = format!("{declaration}\n{}", volume("parameters { v = \"${local.v}\" }"));
        assert_eq!(problems(&text), expected, "{declaration}");
    }
    let text = volume("parameters = merge({ v = 1.10 }, { w = format(\"%s\", 3.0) })");
    assert_eq!(problems(&text), [number("1.10", "1.1"), number("3.0", "3")]);
}

#[test]
fn a_type_decides_whether_a_number_in_a_variable_is_meant() {
    for (kind, value, expected) in [
        ("list(number)", "[1.10]", vec![]),
        ("list(any)", "[1.10]", vec![number("1.10", "1.1")]),
        ("map(number)", "{ a = 1.10 }", vec![]),
        ("object({ a = number, b = any })", "{ a = 1.10, b = 2.0 }", vec![number("2.0", "2")]),
        ("list(object({ a = number }))", "[{ a = 1.10 }, { a = 2.0 }]", vec![]),
        ("list(object({ a = any }))", "[{ a = 1.10 }]", vec![number("1.10", "1.1")]),
    ] {
        let declared = format!("variable \"v\" {{\n type = {kind}\n default = {value}\n}}\n");
        let text = format!("{declared}{}", volume("parameters { v = \"${length(var.v)}\" }"));
        assert_eq!(problems(&text), expected, "{kind}");
        let required = format!("variable \"v\" {{\n type = {kind}\n}}\n");
        let text = format!("{required}{}", volume("parameters { v = \"${length(var.v)}\" }"));
        let file = format!("v = {value}\n");
        let given = Given {
            files: &[(&text, Syntax::Hcl)],
            variable_files: &[(&file, Syntax::Hcl)],
            ..Given::default()
        };
        // A file of variables has no text of the run, so the number is shown as its scalar is.
        assert_eq!(problems_of(&given).len(), expected.len(), "{kind}");
    }
}

#[test]
fn no_warning_of_a_number_shows_a_sensitive_value() {
    let text = format!(
        "variable \"pin\" {{\n sensitive = true\n type = any\n default = 1.10\n}}\nlocals {{ api_token = 2.50 }}\n{}",
        volume("secrets { a = \"${var.pin}\" }")
    );
    let found = problems(&text);
    assert_eq!(found.len(), 2, "{found:?}");
    for problem in found {
        assert!(!problem.contains("1.1") && !problem.contains("2.5"), "{problem}");
    }
    for fields in [
        "parameters {\n password = \"${1.10}\"\n}",
        "parameters = { password = \"x${1.10}\" }",
        "mount_options {\n fs_type = \"ext4\"\n mount_flags = [\"${1.10}\"]\n}",
        "secrets = { a = { b = [\"${1.10}\"] } }",
    ] {
        let found = problems(&volume(fields));
        let of_numbers: Vec<_> =
            found.iter().filter(|one| one.contains("number-as-text")).collect();
        assert_eq!(of_numbers.len(), 1, "{found:?}");
        assert!(!of_numbers[0].contains("1.1"), "{found:?}");
    }
}

#[test]
fn expressions_of_a_flat_document_beside_the_language_are_a_warning() {
    let block = "volume:\n  b:\n    type: csi\n    name: b\n    plugin_id: \"${var.p}\"\n    capability:\n      access_mode: single-node-writer\n      attachment_mode: file-system\n";
    let variable = "variable:\n  p:\n    default: hostpath\n";
    let flat = |plugin: &str, more: &str| {
        format!(
            "id: a\ntype: csi\nname: a\nplugin_id: {plugin}\ncapability:\n  access_mode: single-node-writer\n  attachment_mode: file-system\n{more}"
        )
    };
    let one = |shown: &str| {
        vec![format!("?spec/literal-template [{shown}] a text of a flat document is not evaluated")]
    };
    for (flat, expected) in [
        (flat("\"${var.p}\"", ""), one("\"${var.p}\"")),
        (flat("var.p", ""), one("var.p")),
        (flat("p", "parameters:\n  a: x-${local.y}\n"), one("x-${local.y}")),
        (
            flat("p", "parameters:\n  a: \"%{ if true }b%{ endif }\"\n"),
            one("\"%{ if true }b%{ endif }\""),
        ),
        (
            flat("var.p", "parameters:\n  b: each.key\n"),
            vec![
                "?spec/literal-template [var.p] 2 texts of a flat document are not evaluated"
                    .to_owned(),
            ],
        ),
        (flat("p", "parameters:\n  a: var.\n  b: variable\n  c: 100%\n"), vec![]),
    ] {
        for text in [
            format!("{flat}---\n{block}---\n{variable}"),
            format!("{variable}---\n{flat}---\n{block}"),
        ] {
            let given = Given { files: &[(&text, Syntax::Yaml)], ..Given::default() };
            assert_eq!(problems_of(&given), expected, "{text}");
        }
    }
}

#[test]
fn a_key_twice_in_a_map_of_a_file_is_an_error_with_both_places() {
    for (text, message) in [
        ("locals { m = { a = 1, a = 2 } }", "the map has the key `a` twice"),
        ("locals { m = { a = 1, \"a\" = 2 } }", "the map has the key `a` twice"),
        ("locals { m = merge({ a = 1, a = 2 }, {}) }", "the map has a key twice"),
        ("locals { m = merge({ a = 1, \"a\" = 2 }, {}) }", "the map has the key `a` twice"),
        (
            "variable \"x\" {}\nlocals { m = { (var.x) = 1, (\"${var.x}\") = 2 } }",
            "the map has the key `k` twice",
        ),
        ("locals {\n m = {\n  a = 1\n  b = 2\n  a = 3\n }\n}", "the map has the key `a` twice"),
    ] {
        let text = format!("{text}\n{}", volume("parameters { n = \"${length(local.m)}\" }"));
        let ran = super::language::run(&Given {
            files: &[(&text, Syntax::Hcl)],
            arguments: if text.contains("variable") { &[("x", "k")] } else { &[] },
            ..Given::default()
        });
        let found: Vec<_> = ran.diagnostics.iter().collect();
        assert_eq!(found.len(), 1, "{text}: {found:?}");
        assert_eq!(found[0].message, message, "{text}");
        let labels: Vec<_> = found[0].labels.iter().map(|label| label.text.as_str()).collect();
        assert_eq!(labels, ["repeated here", "first here"], "{text}");
        assert!(found[0].labels[1].span.start < found[0].labels[0].span.start, "{text}");
    }
}

/// A text with escapes is not written as it is read, so its parts are searched.
#[test]
fn a_key_twice_in_a_map_of_a_text_with_escapes_has_both_places() {
    for (text, syntax, message, repeated, first) in [
        (
            r#"{"locals":{"m":"\t${jsonencode({ (7) = 1, (9 - 2) = 2 })}"}}"#,
            Syntax::Json,
            "the map has the key `7` twice",
            "9 - 2",
            "7",
        ),
        (
            r#"{"locals":{"m":"\t${jsonencode({ k = 1, k = 2 })}"}}"#,
            Syntax::Json,
            "the map has a key twice",
            "k",
            "k",
        ),
        (
            "locals:\n  m: >\n    a\n    ${jsonencode({ (7) = 1,\n    (9 - 2) = 2 })}\n",
            Syntax::Yaml,
            "the map has the key `7` twice",
            "9 - 2",
            "7",
        ),
    ] {
        let given = Given { files: &[(text, syntax)], ..Given::default() };
        let ran = super::language::run(&given);
        let found: Vec<_> = ran.diagnostics.iter().collect();
        assert_eq!(found.len(), 1, "{text}: {found:?}");
        assert_eq!(found[0].message, message, "{text}");
        let labels = found[0].labels.iter();
        let labels: Vec<_> =
            labels.map(|label| (&*label.text, &text[label.span.range()])).collect();
        assert_eq!(labels, [("repeated here", repeated), ("first here", first)], "{text}");
        assert!(found[0].labels[1].span.start < found[0].labels[0].span.start, "{text}");
    }
}

#[test]
fn a_mistake_in_a_local_value_is_the_only_problem() {
    for (local, message) in [
        ("nope(\"a\")", "unknown function `nope`"),
        ("foo", "unknown name `foo`"),
        ("upper(1, 2)", "`upper` requires 1 argument: a text"),
    ] {
        let text = format!("locals {{ x = {local} }}\n{}", volume("parameters { a = local.x }"));
        let found = problems(&text);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].ends_with(message), "{found:?}");
    }
}

/// Returns the problems of a text with a file of variables: the place, the message, and what to do.
fn with_file(text: &str, file: &str, syntax: Syntax) -> Vec<(String, String, Vec<String>)> {
    let ran = super::language::run(&Given {
        files: &[(text, Syntax::Hcl)],
        variable_files: &[(file, syntax)],
        ..Given::default()
    });
    let shown = |one: &nomad_csi_model::diagnostic::Diagnostic| {
        let at = one.labels.first().map(|label| ran.sources.location(label.span));
        let at = at.map_or_else(String::new, |at| format!("{}:{}", at.line, at.column));
        (at, one.message.clone(), one.help.clone())
    };
    ran.diagnostics.iter().map(shown).collect()
}

#[test]
fn a_file_of_variables_has_literal_values_and_says_so_once() {
    let text =
        format!("variable \"v\" {{\n type = string\n}}\n{}", volume("parameters { v = var.v }"));
    for (file, at, message, help) in [
        ("v = p\n", "1:5", "this value in a file of variables is no literal", "double quotes"),
        (
            "v = var.x\n",
            "1:5",
            "cannot evaluate a reference: a file of variables has literal values only",
            "`locals`",
        ),
        (
            "v = upper(\"x\")\n",
            "1:5",
            "cannot evaluate a function call: a file of variables has literal values only",
            "`locals`",
        ),
        (
            "v = env(\"X\")\n",
            "1:5",
            "cannot evaluate a function call: a file of variables has literal values only",
            "`locals`",
        ),
        (
            "v = true ? \"a\" : \"b\"\n",
            "1:5",
            "cannot evaluate a condition: a file of variables has literal values only",
            "`locals`",
        ),
        ("v = \"a\" +\n", "1:8", "expected a value or an expression", "double quotes"),
        (
            "v = \"a\"\nvariable \"v\" {\n default = 1\n}\n",
            "2:1",
            "a file of variables cannot have a `variable` block: it only gives values",
            "NAME = VALUE",
        ),
        (
            "v = \"a\"\nlocals {\n x = 1\n}\n",
            "2:1",
            "a file of variables cannot have a `locals` block: it only gives values",
            "specification",
        ),
    ] {
        let found = with_file(&text, file, Syntax::Hcl);
        let [(place, said, helps)] = &found[..] else { panic!("{file}: {found:?}") };
        assert_eq!((place.as_str(), said.as_str()), (at, message), "{file}");
        assert!(helps.iter().any(|one| one.contains(help)), "{file}: {helps:?}");
    }
    let found = with_file(&text, "v = 5\n", Syntax::Hcl);
    assert_eq!(found[0].1, "variable `v` requires a text, and its value is a number");
    let found = with_file(&text, "v = null\n", Syntax::Hcl);
    assert_eq!(found[0].1, "variable `v` is null, and its default is not");
    let found = with_file(&text, "v = \"a-${var.x}\"\n", Syntax::Hcl);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].1, "`${…}` and `%{…}` are not evaluated in a file of variables");
    assert_eq!(
        with_file(&text, "{\"v\": \"a\"}\n", Syntax::Hcl),
        vec![],
        "JSON in a file without its extension"
    );
}

#[test]
fn a_here_document_in_a_file_of_variables_is_read_as_in_a_specification() {
    for here in [
        "<<EOF\n  a\n   b\nEOF\n",
        "<<-EOF\n    a\n      b\n    EOF\n",
        "<<-EOF\n    a\n      b\nEOF\n",
    ] {
        let text = format!(
            "variable \"v\" {{\n type = string\n}}\nlocals {{\n v = {here}}}\n{}",
            volume("parameters { same = \"${var.v == local.v}\" }")
        );
        let file = format!("v = {here}");
        let ran = super::language::run(&Given {
            files: &[(&text, Syntax::Hcl)],
            variable_files: &[(&file, Syntax::Hcl)],
            ..Given::default()
        });
        let parameters = ran.parsed.volumes[0].request.parameters.clone();
        assert!(format!("{parameters:?}").contains("\"1\""), "{here}: {parameters:?}");
    }
}

#[test]
fn a_key_of_a_value_without_keys_names_the_kind_of_the_value() {
    for (expression, marked, message, help) in [
        ("var.s.b", ".b", "a text has no key `b`", "remove the key"),
        ("var.n.b", ".b", "a number has no key `b`", "remove the key"),
        ("var.l.b", ".b", "a list has no key `b`", "[for x in LIST : x.b]"),
        ("var.s ? 1 : 2", "var.s", "the condition is a text, not `true` or `false`", "type = bool"),
        ("var.z ? 1 : 2", "var.z", "the condition is null, not `true` or `false`", "x != null"),
        ("var.n ? 1 : 2", "var.n", "the condition is a number, not `true` or `false`", "x > 0"),
    ] {
        let text = format!(
            "variable \"s\" {{ default = \"true\" }}\nvariable \"n\" {{ default = 1 }}\nvariable \"l\" {{ default = [\"x\"] }}\nvariable \"z\" {{ default = null }}\n{}",
            volume(&format!("parameters {{ v = {expression} }}"))
        );
        let ran =
            super::language::run(&Given { files: &[(&text, Syntax::Hcl)], ..Given::default() });
        let found: Vec<_> = ran.diagnostics.iter().collect();
        assert_eq!(found.len(), 1, "{expression}: {found:?}");
        assert_eq!(found[0].message, message, "{expression}");
        assert_eq!(ran.sources.redacted_snippet(found[0].labels[0].span), marked, "{expression}");
        assert!(found[0].help[0].contains(help), "{expression}: {:?}", found[0].help);
    }
}

#[test]
fn a_null_that_removes_the_plugin_of_a_class_is_marked() {
    let text = format!(
        "variable \"p\" {{ default = null }}\nclass \"c\" {{ plugin_id = \"q\" }}\n{}",
        volume("class = \"c\"").replace("plugin_id = \"p\"", "plugin_id = PLUGIN")
    );
    for value in ["null", "var.p"] {
        let found = problems(&text.replace("PLUGIN", value));
        assert_eq!(
            found,
            ["spec/missing-field [plugin_id] `plugin_id` is missing: it is null"],
            "{value}"
        );
    }
    assert_eq!(problems(&text.replace(" plugin_id = PLUGIN\n", "")), Vec::<String>::new());
}
