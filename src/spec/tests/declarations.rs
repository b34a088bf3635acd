//! What the files of a run declare: its limits, its forms, and what a set or a class may be.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use super::language::{CAPABILITY, Given, ids, problems, problems_of, run, volumes};
use crate::syntax::Syntax;

fn volume(lines: &str) -> String {
    format!(
        "volume \"v\" {{\n type = \"csi\"\n plugin_id = \"p\"\n name = \"n\"\n{lines}\n{CAPABILITY}}}\n"
    )
}

/// A loaded machine takes several times as long as a free one, and quadratic work takes minutes.
const NO_QUADRATIC_WORK: Duration = Duration::from_secs(20);

#[test]
fn a_run_has_at_most_ten_thousand_declarations() {
    let declared = |count: usize| {
        let mut text = volume("");
        for number in 0..count {
            let _ = match number % 3 {
                0 => writeln!(text, "variable \"x{number}\" {{ default = 1 }}"),
                1 => writeln!(text, "class \"x{number}\" {{}}"),
                _ => writeln!(text, "locals {{ x{number} = 1 }}"),
            };
        }
        text
    };
    assert_eq!(problems(&declared(10_000)), Vec::<String>::new());
    assert_eq!(
        problems(&declared(10_002)),
        [
            "spec/evaluation-limit [class \"x10000\"] the files declare more than 10,000 variables, local values and classes"
        ]
    );
}

#[test]
fn ten_thousand_variables_with_values_and_undeclared_names_are_checked_in_linear_time() {
    let (mut text, mut values) = (volume(""), String::new());
    for number in 0..9_999 {
        let _ = writeln!(text, "variable \"declared_{number}\" {{ type = number }}");
        let _ = writeln!(values, "declared_{number} = {number}");
        let _ = writeln!(values, "q{number} = {number}");
    }
    let (files, variable_files) =
        ([(text.as_str(), Syntax::Hcl)], [(values.as_str(), Syntax::Hcl); 4]);
    let given = Given { files: &files, variable_files: &variable_files, ..Given::default() };
    let start = Instant::now();
    let ran = run(&given);
    assert!(start.elapsed() < NO_QUADRATIC_WORK, "{:?}", start.elapsed());
    assert!(!ran.diagnostics.has_errors());
    let warnings: Vec<_> = ran.diagnostics.iter().map(|one| one.message.as_str()).collect();
    assert_eq!(warnings.len(), 4, "{warnings:?}");
    assert!(warnings[0].ends_with(" and 9979 more"), "{}", warnings[0]);
}

#[test]
fn a_circle_of_ten_thousand_local_values_is_one_short_problem() {
    let mut text = volume("");
    text.push_str("locals {\n");
    for number in 0..10_000 {
        let _ = writeln!(text, " x{number} = local.x{}", (number + 1) % 10_000);
    }
    text.push_str("}\n");
    let start = Instant::now();
    let ran = run(&Given { files: &[(&text, Syntax::Hcl)], ..Given::default() });
    assert!(start.elapsed() < NO_QUADRATIC_WORK, "{:?}", start.elapsed());
    let found: Vec<_> = ran.diagnostics.iter().collect();
    assert_eq!(found.len(), 1);
    assert!(found[0].message.ends_with("`x19`, 9980 more, `x0`"), "{}", found[0].message);
    assert_eq!(found[0].labels.len(), 20);
}

/// Without a set, a plan would not see the volumes that the set has and the files do not.
#[test]
fn a_set_without_a_name_is_an_error() {
    let no_name = "spec/set-name [var.s] `set` is null, and names no set";
    let empty = "spec/set-name [var.s] invalid set name ``";
    for (default, expected) in [("null", no_name), ("\"\"", empty)] {
        let text = format!("set = var.s\nvariable \"s\" {{ default = {default} }}\n{}", volume(""));
        assert_eq!(problems(&text), [expected], "{default}");
    }
    let literal = format!("set = null\n{}", volume("count = 1"));
    assert_eq!(problems(&literal), ["spec/set-name [null] `set` is null, and names no set"]);
    let yaml = "set:\nid: a\nname: a\ntype: csi\nplugin_id: p\ncapability: [{access_mode: single-node-writer, attachment_mode: file-system}]\n";
    let found = problems_of(&Given { files: &[(yaml, Syntax::Yaml)], ..Given::default() });
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("spec/set-name "), "{found:?}");
    let conditional = format!(
        "set = var.s == \"x\" ? \"a\" : null\nvariable \"s\" {{ default = \"y\" }}\n{}",
        volume("")
    );
    assert!(problems(&conditional)[0].contains("`set` is null"));
}

#[test]
fn the_class_of_defaults_cannot_use_the_id_of_a_volume() {
    for name in ["key", "label", "id"] {
        let text = format!(
            "class \"v\" {{}}\ndefaults {{\n class = volume.{name}\n parameters {{ a = volume.{name} }}\n}}\n{}",
            volume("")
        );
        let expected = "spec/unknown-name [volume] `volume` is not available here: it is not known before the volume has its ID";
        assert_eq!(problems(&text), [expected], "{name}");
        for key in ["class", "id", "source", "enabled", "count", "for_each"] {
            let text = format!("class \"v\" {{}}\n{}", volume(&format!("{key} = volume.{name}")));
            let found = problems(&text);
            assert!(found.contains(&expected.to_owned()), "{key} {name}: {found:?}");
        }
    }
    let of_each = format!(
        "class \"c\" {{ plugin_id = \"of-class\" }}\ndefaults {{ class = each.value }}\n{}",
        volume("for_each = { a = \"c\" }").replace(" plugin_id = \"p\"\n", "")
    );
    assert_eq!(volumes(&of_each)[0].request.plugin_id.to_string(), "of-class");
    let without = of_each.replace("for_each = { a = \"c\" }", "");
    let expected = [
        "spec/unknown-name [each.value] `each` is not available here: the volume has no `for_each`",
    ];
    assert_eq!(problems(&without), expected);
}

#[test]
fn a_block_under_a_block_of_its_kind_is_one_with_a_label() {
    let nested = format!(
        "variable {{\n env {{\n type = string\n default = \"e\"\n}}\n sizes {{ type = map(object({{ min = string }})), default = {{ a = {{ min = \"1GiB\" }} }} }}\n}}\nclass {{ c {{ plugin_id = \"p-${{var.env}}\" }} }}\nlocals {{ s {{ min = var.sizes.a.min }} }}\nvolume {{ v {{\n type = \"csi\"\n class = \"c\"\n name = \"n\"\n capacity_min = local.s.min\n{CAPABILITY}}} }}\n"
    );
    let found = volumes(&nested);
    assert_eq!(ids(&found), ["v"]);
    assert_eq!(found[0].request.plugin_id.to_string(), "p-e");
    assert_eq!(found[0].request.capacity.min.to_string(), "1GiB");
    for (text, expected) in [
        (
            "variable { type = string }",
            "spec/wrong-type [variable] a variable under `variable` has no name",
        ),
        ("variable { env { type = strng } }", "spec/variable-type [strng] unknown type `strng`"),
        (
            "variable { a {} }\nvariable \"a\" {}",
            "spec/duplicate-declaration [variable \"a\"] variable `a` is declared twice",
        ),
        (
            "class { plugin_id = \"p\" }",
            "spec/wrong-type [class] a class under `class` has no name",
        ),
        ("locals \"x\" { a = 1 }", "spec/unexpected-label [\"x\"] `locals` cannot have a label"),
        (
            "variable { default { a = 1 } }",
            "spec/unknown-field [a] `a` is not a field of a variable",
        ),
        (
            "class { secrets { a = \"x\" } }",
            "spec/unknown-field [a] `a` is not a field of a volume",
        ),
    ] {
        let text = format!("{text}\n{}", volume(""));
        assert_eq!(problems(&text), [expected], "{text}");
    }
}
