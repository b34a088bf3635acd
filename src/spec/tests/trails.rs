//! The way to the place of a problem: the volume, its class, and where the values of variables come from.

use super::language::{CAPABILITY, Given, run};
use crate::syntax::Syntax;

/// Returns the trails of the problems: each step with its place as `text line:column`.
fn trails(given: &Given<'_>) -> Vec<Vec<String>> {
    let ran = run(given);
    let step = |step: &nomad_csi_model::diagnostic::TrailStep| match step.span {
        None => step.text.clone(),
        Some(span) => {
            let at = ran.sources.location(span);
            format!("{} {}:{}", step.text, at.line, at.column)
        }
    };
    ran.diagnostics.iter().map(|one| one.trail.iter().map(step).collect()).collect()
}

fn text(declarations: &str, lines: &str) -> String {
    format!(
        "{declarations}\nvolume \"v\" {{\n {lines}\n type = \"csi\"\n plugin_id = \"p\"\n{CAPABILITY}}}\n"
    )
}

#[test]
fn a_mistake_in_a_value_of_a_variable_names_where_it_comes_from() {
    let size = text("variable \"x\" { default = \"1Gab\" }", "name = \"n\"\n capacity_min = var.x");
    let files = [(size.as_str(), Syntax::Hcl)];
    let given = Given { files: &files, ..Given::default() };
    let of = |given: &Given<'_>| trails(given).concat();
    assert_eq!(of(&given), ["`var.x` has its value from its default at 1:26"]);
    let environment = Given { environment: &[("x", "2Gab")], ..given.clone() };
    assert_eq!(of(&environment), ["`var.x` has its value from NOMAD_CSI_VAR_x"]);
    let variable_files = [("y = 1\nx = \"3Gab\"", Syntax::Hcl)];
    let file = Given { variable_files: &variable_files, ..given.clone() };
    assert!(of(&file).contains(&"`var.x` has its value from `--var-file` 2:5".to_owned()));
    let argument = Given { arguments: &[("x", "4Gab")], ..given.clone() };
    assert_eq!(of(&argument), ["`var.x` has its value from `--var`"]);
}

#[test]
fn a_trail_leads_through_local_values_classes_and_items_of_for_each() {
    let one = |text: &str| {
        let found = trails(&Given { files: &[(text, Syntax::Hcl)], ..Given::default() });
        assert_eq!(found.len(), 1, "{found:?}");
        found.concat()
    };
    let x = "variable \"x\" { default = \"1Gab\" }";
    let local = text(
        &format!("{x}\nlocals {{\n b = local.a\n a = \"${{var.x}}\"\n}}"),
        "name = \"n\"\n capacity_min = local.b",
    );
    assert_eq!(one(&local), ["`var.x` has its value from its default at 1:26"]);
    let class = text(
        &format!("{x}\nclass \"c\" {{ capacity_min = var.x }}"),
        "name = \"n\"\n class = \"c\"",
    );
    assert_eq!(
        one(&class),
        [
            "in volume `v`",
            "from class `c`, which the volume takes at 5:10",
            "`var.x` has its value from its default at 1:26"
        ]
    );
    let each = text(
        "variable \"x\" { default = { eu = { size = \"1Gab\" } } }",
        "for_each = var.x\n capacity_min = each.value.size",
    );
    assert_eq!(
        one(&each),
        [
            "in volume `v-eu`, from `for_each` at 3:2",
            "`var.x` has its value from its default at 1:26"
        ]
    );
    let count = text("variable \"x\" { default = 2.5 }", "count = var.x");
    assert_eq!(one(&count), ["`var.x` has its value from its default at 1:26"]);
    let enabled = text("variable \"x\" { default = \"no\" }", "name = \"n\"\n enabled = var.x");
    assert_eq!(one(&enabled), ["`var.x` has its value from its default at 1:26"]);
    let set = text("set = var.x\nvariable \"x\" { default = \"a b\" }", "name = \"n\"");
    assert_eq!(one(&set), ["`var.x` has its value from its default at 2:26"]);
    let three = text(
        &["x", "y", "z"]
            .map(|name| format!("variable \"{name}\" {{ default = \"q\" }}\n"))
            .concat(),
        "name = \"n\"\n capacity_min = \"${var.x}${var.y}${var.z}\"",
    );
    assert_eq!(one(&three).len(), 2);
    let literal = text(x, "name = var.x\n capacity_min = \"1Gab\"");
    assert_eq!(one(&literal), Vec::<String>::new());
}

#[test]
fn no_sensitive_value_is_in_a_trail() {
    let text = text(
        "variable \"x\" {\n sensitive = true\n default = \"hunter2\"\n}",
        "name = \"n\"\n capacity_min = var.x",
    );
    let given = Given { files: &[(&text, Syntax::Hcl)], ..Given::default() };
    assert_eq!(trails(&given).concat(), ["`var.x` has its value from its default at 3:12"]);
    assert!(!format!("{:?}", run(&given).diagnostics).contains("hunter2"));
}

/// An aliased value has the position of its anchor.
#[test]
fn the_content_of_a_class_through_an_anchor_has_the_place_of_the_anchor() {
    let volume = "volume:\n  v:\n    class: c\n    name: n\n    type: csi\n    plugin_id: p\n    capability: [{access_mode: single-node-writer, attachment_mode: file-system}]\n";
    let shared = "volume:\n  w: &w\n    name: n\n    type: csi\n    plugin_id: p\n    capacity_min: 1Gab\n    capability: [{access_mode: single-node-writer, attachment_mode: file-system}]\n";
    let step = "from class `c`, which the volume takes at";
    for class in
        ["c: *w", "c:\n    <<: *w", "c: {<<: *w}", "c: {<<: [*w]}", "c: {capacity_min: *s}"]
    {
        let shared = match class.contains("*s") {
            true => shared.replace("&w", "").replace("1Gab", "&s 1Gab"),
            false => shared.to_owned(),
        };
        let classes = format!("{shared}class:\n  {class}\n");
        let files = [(classes.as_str(), Syntax::Yaml), (volume, Syntax::Yaml)];
        let ran = run(&Given { files: &files, ..Given::default() });
        let sizes: Vec<_> =
            ran.diagnostics.iter().filter(|one| one.code.as_str() == "spec/invalid-size").collect();
        let places: Vec<_> = sizes
            .iter()
            .flat_map(|one| &one.labels)
            .map(|label| ran.sources.redacted_snippet(label.span))
            .collect();
        assert!(
            !places.is_empty() && places.iter().all(|place| place == "1Gab"),
            "{class}: {places:?}"
        );
        let trails: Vec<String> = sizes
            .iter()
            .flat_map(|one| &one.trail)
            .map(|step| {
                format!("{} {:?}", step.text, step.span.map(|span| ran.sources.location(span).line))
            })
            .collect();
        assert_eq!(trails, ["in volume `v` None".to_owned(), format!("{step} Some(3)")], "{class}");
    }
}
