//! Files of other tools: one error says what they are, and the specification that it shows is a valid one.

use super::harness::{self, ReadResult};
use crate::syntax::Syntax;
use crate::validate::validate;
use crate::volume_spec::Purpose;
use nomad_csi_model::diagnostic::Diagnostic;

/// Returns the problems of a text.
fn problems(text: &str, syntax: Syntax) -> (Vec<Diagnostic>, ReadResult) {
    let read = harness::read(text, syntax);
    (read.diagnostics.iter().cloned().collect(), read)
}

/// Returns the problems of a specification that a message shows.
fn problems_of_shown(problem: &Diagnostic, syntax: Syntax) -> Vec<String> {
    let block = problem.block.as_deref().expect("a specification to copy");
    let (_, shown) = block.split_once(":\n").expect("an introduction");
    let ReadResult { specs, mut diagnostics, .. } = harness::read(shown, syntax);
    validate(&specs, Purpose::ByExternalId, &mut diagnostics);
    assert!(!specs.is_empty(), "{shown}");
    diagnostics.iter().map(|one| one.message.clone()).collect()
}

const STORED: &str = r#""AccessMode": "", "Allocations": [], "Capacity": 1073741824, "CreateIndex": 7, "Context": null,"#;

const REQUESTED: &str = r#""ID": "mysql", "Name": "mysql", "Namespace": "default", "PluginID": "hostpath",
 "RequestedCapacityMin": 1073741824, "Parameters": {"pool": "nvme", "adminKey": "hunter2"}, "Secrets": {"k": "hunter3"},
 "RequestedCapabilities": [{"AccessMode": "single-node-writer", "AttachmentMode": "file-system"}],
 "MountOptions": {"FSType": "ext4", "MountFlags": ["hunter4"]}"#;

#[test]
fn a_volume_of_the_api_is_one_error_with_a_specification_to_copy() {
    for (text, syntax, place) in [
        (format!("{{\n  \"Volumes\": [\n{{{REQUESTED}}}]}}"), Syntax::Json, "\"Volumes\""),
        (format!("{{\"Volumes\": [{{{REQUESTED}}}, {{{}}}]}}", REQUESTED.replace("mysql", "redis")), Syntax::Json, "\"Volumes\""),
        (format!("{{\"Volume\": {{{REQUESTED}}}}}"), Syntax::Json, "\"Volume\""),
        (format!("{{\"volume\": {{{REQUESTED}}}}}"), Syntax::Json, "\"volume\""),
        (format!("{{\"Volumes\": [{{{STORED} {REQUESTED}}}]}}"), Syntax::Json, "\"Volumes\""),
        (format!("{{{REQUESTED}}}"), Syntax::Json, "\"PluginID\""),
        (format!("{{{STORED} {REQUESTED}}}"), Syntax::Json, "\"PluginID\""),
        (format!("[{{{STORED} {REQUESTED}}}]"), Syntax::Json, "PluginID"),
        (format!("[{{{STORED} {REQUESTED}}}]"), Syntax::Hcl, "PluginID"),
        ("{\"Volumes\": [{\"ID\": \"a\"}]}".to_owned(), Syntax::Json, "\"Volumes\""),
        ("{\"Volumes\": []}".to_owned(), Syntax::Json, "\"Volumes\""),
        (format!("{{{REQUESTED}}}"), Syntax::Hcl, "\"PluginID\""),
        ("Volumes:\n- ID: a\n  PluginID: p\n".to_owned(), Syntax::Yaml, "Volumes"),
        ("ID: a\nName: a\nPluginID: p\nRequestedCapabilities:\n- AccessMode: single-node-writer\n".to_owned(), Syntax::Yaml, "PluginID"),
        ("- ID: a\n  PluginID: p\n".to_owned(), Syntax::Yaml, "PluginID"),
        ("ID = \"a\"\nPluginID = \"p\"\nRequestedCapabilities {\n AccessMode = \"single-node-writer\"\n}\n".to_owned(), Syntax::Hcl, "PluginID"),
        ("Volumes = [{\n ID = \"a\"\n PluginID = \"p\"\n}]\n".to_owned(), Syntax::Hcl, "Volumes"),
    ] {
        let (found, _) = problems(&text, syntax);
        let [problem] = &found[..] else { panic!("{text}: {found:?}") };
        assert_eq!(problem.code.as_str(), "spec/other-form", "{text}");
        let span = problem.labels[0].span;
        let expected = text.find(place).map(|at| at..at + place.len());
        assert_eq!(Some(span.range()), expected, "{text}");
        let shown = if text.starts_with('[') || syntax == Syntax::Hcl && text.starts_with('{') {
            Syntax::Json
        } else {
            syntax
        };
        assert_eq!(problems_of_shown(problem, shown), Vec::<String>::new(), "{text}");
        let all = format!("{problem:?}");
        assert!(!all.contains("hunter"), "{all}");
        assert!(problem.help[0].contains("nomad-csi import ID"), "{all}");
        let is_whole = text.contains("\"nvme\"") && !text.starts_with('[');
        assert_eq!(all.contains("nvme") && all.contains("mysql"), is_whole, "{all}");
        assert_eq!(all.contains("returns it"), text.contains("CreateIndex"), "{all}");
    }
}

#[test]
fn a_specification_with_keys_of_the_api_is_still_one() {
    let text =
        harness::hcl("PluginId = \"p\"\nExternalID = \"e\"").replace("plugin_id = \"p\"\n", "");
    let (found, _) = problems(&text, Syntax::Hcl);
    let codes: Vec<_> = found.iter().map(|one| one.code.as_str()).collect();
    assert_eq!(codes, ["spec/unknown-field", "spec/unknown-field"], "{found:?}");
    for text in ["ID = \"a\"\n", "Capacity = 5\n", "Volumes = 5\n"] {
        let (found, _) = problems(text, Syntax::Hcl);
        assert!(found.iter().all(|one| one.code.as_str() != "spec/other-form"), "{text}");
    }
}

#[test]
fn only_a_list_with_keys_of_the_api_is_one_of_volumes() {
    for (text, expected) in [
        ("- ID: a\n  PluginID: p\n", "spec/other-form"),
        ("---\n- ID: a\n  PluginID: p\n", "spec/other-form"),
        ("-\n  Name: \"a#b\" # c\n  PluginID : p\n", "spec/other-form"),
        ("---\nid: a\n# MountOptions: see the documentation\nname: {\n", "spec/syntax"),
        ("---\nid: a\nname: { # MountOptions: none\n", "spec/syntax"),
        ("--- {\nPluginID: p\n", "spec/syntax"),
        ("- id: a\n  # MountOptions: none\n  name: {\n", "spec/syntax"),
        ("-x: {\nPluginID: p\n", "spec/syntax"),
    ] {
        let (found, _) = problems(text, Syntax::Yaml);
        assert_eq!(found[0].code.as_str(), expected, "{text}");
    }
}

const RESOURCE: &str = "resource \"nomad_csi_volume\" \"mysql\" {\n  plugin_id    = \"hostpath\"\n  volume_id    = \"mysql_volume\"\n  name         = \"mysql_volume\"\n  capacity_min = \"10GiB\"\n  capability {\n    access_mode     = \"single-node-writer\"\n    attachment_mode = \"file-system\"\n  }\n  lifecycle {\n    prevent_destroy = true\n  }\n}\n";

#[test]
fn a_resource_of_terraform_is_one_error_with_a_specification_to_copy() {
    let with = |from: &str, to: &str| RESOURCE.replace(from, to);
    for (text, is_translated) in [
        (RESOURCE.to_owned(), true),
        (with("\"nomad_csi_volume\"", "\"nomad_volume\""), true),
        (with("\"nomad_csi_volume\"", "\"nomad_csi_volume_registration\""), true),
        (with("\"hostpath\"", "var.plugin"), false),
        (with("volume_id    =", "volume_idx   ="), false),
        (with("\"hostpath\"", "data.nomad_plugin.ebs.plugin_id"), false),
        (with("plugin_id    =", "for_each = toset([\"a\"])\n  plugin_id    ="), true),
        (with("lifecycle {", "secrets = { k = \"hunter2\" }\n  lifecycle {"), true),
        (with("lifecycle {", "depends_on = [data.nomad_plugin.ebs]\n  lifecycle {"), true),
        (
            format!(
                "provider \"nomad\" {{}}\nvariable \"x\" {{}}\n{RESOURCE}\noutput \"id\" {{\n value = 1\n}}\n"
            ),
            true,
        ),
        (format!("{RESOURCE}{}", RESOURCE.replace("mysql", "redis")), true),
        (with("capability {", "dynamic \"capability\" {"), false),
    ] {
        let (found, read) = problems(&text, Syntax::Hcl);
        let [problem] = &found[..] else { panic!("{text}: {found:?}") };
        assert_eq!(problem.code.as_str(), "spec/other-form", "{text}");
        let snippet = read.sources.redacted_snippet(problem.labels[0].span);
        assert!(snippet.starts_with("resource \"nomad_"), "{snippet}");
        assert_eq!(problems_of_shown(problem, Syntax::Hcl), Vec::<String>::new(), "{text}");
        let block = problem.block.as_deref().unwrap();
        assert_eq!(block.contains("mysql_volume"), is_translated, "{text}\n{block}");
        assert!(!block.contains("hunter"), "{block}");
        assert!(problem.help[0].contains("import --from-tfstate FILE"), "{problem:?}");
    }
    let json = r#"{"resource": {"nomad_csi_volume": {"mysql": {"plugin_id": "hostpath", "volume_id": "v", "capability": [{"access_mode": "single-node-writer", "attachment_mode": "file-system"}]}}}}"#;
    let (found, _) = problems(json, Syntax::Json);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(problems_of_shown(&found[0], Syntax::Json), Vec::<String>::new());
    let state = r#"{"version": 4, "terraform_version": "1.9.0", "resources": []}"#;
    let (found, _) = problems(state, Syntax::Json);
    assert!(found.len() == 1 && found[0].help[0].contains("--from-tfstate"), "{found:?}");
}

#[test]
fn other_blocks_of_terraform_say_what_takes_their_place() {
    for (block, help) in [
        ("provider \"nomad\" {\n address = \"x\"\n}\n", "NOMAD_ADDR"),
        ("terraform {\n required_version = \"1\"\n}\n", "NOMAD_ADDR"),
        ("module \"a\" {\n source = \"./a\"\n}\n", "class"),
        ("output \"a\" {\n value = 1\n}\n", "render"),
        ("data \"nomad_plugin\" \"ebs\" {\n plugin_id = \"a\"\n}\n", "plugin_id"),
        ("resource \"nomad_job\" \"a\" {\n jobspec = file(\"x\")\n}\n", "volumes only"),
        ("moved {\n from = a\n to = b\n}\n", "source"),
        ("import {\n id = \"a\"\n to = b\n}\n", "import ID"),
        ("removed {\n from = a\n}\n", "forget"),
        ("check \"a\" {\n}\n", "validation"),
    ] {
        let alone = problems(block, Syntax::Hcl).0;
        let volume =
            format!("{block}volume \"a\" {{\n{}}}\n", harness::hcl("").replace("id = \"a\"\n", ""));
        let beside = problems(&volume, Syntax::Hcl).0;
        for found in [&alone, &beside] {
            let of_form: Vec<_> =
                found.iter().filter(|one| one.code.as_str() == "spec/other-form").collect();
            assert!(of_form.len() == 1 && of_form[0].help[0].contains(help), "{block}: {found:?}");
        }
        assert_eq!(alone.len(), 1, "{alone:?}");
    }
}

#[test]
fn arguments_of_terraform_in_a_volume_say_what_takes_their_place() {
    for (line, help) in [
        ("lifecycle {\n prevent_destroy = true\n}", "protect = true"),
        ("depends_on = [\"a\"]", "remove it"),
        ("provider = \"nomad\"", "NOMAD_ADDR"),
        ("deregister_on_destroy = true", "--prune"),
        ("timeouts {\n create = \"5m\"\n}", "remove it"),
    ] {
        let block =
            format!("volume \"a\" {{\n{}}}\n", harness::hcl(line).replace("id = \"a\"\n", ""));
        for text in [harness::hcl(line), block] {
            let found = problems(&text, Syntax::Hcl).0;
            let helps: Vec<_> = found.iter().flat_map(|one| &one.help).collect();
            assert!(found.len() == 1 && helps[0].contains(help), "{text}: {found:?}");
        }
    }
    // What the help about `lifecycle` says is valid.
    let text = harness::hcl("protect = true\nignore = [\"context\"]");
    assert_eq!(problems(&text, Syntax::Hcl).0, vec![]);
}

/// Every key of a volume, misspelt, with every kind of value: the text after the replacement has no unknown key.
#[test]
fn a_suggested_key_is_possible_where_it_is_suggested() {
    let values = [
        "= \"x\"",
        "= 5",
        "= true",
        "= [\"x\"]",
        "{\n a = \"x\"\n}",
        "= [{ a = \"x\" }]",
        "= []",
        "{}",
    ];
    let mut suggestions = 0;
    for field in crate::schema::VOLUME {
        let key = field.key;
        let misspelt = [
            format!("{key}s"),
            key.replacen('_', "", 1) + "x",
            format!("{}{}", &key[..1], &key[2..]),
            key.to_uppercase().replace('_', "-"),
            format!("{key}_{key}"),
        ];
        for word in misspelt {
            for value in values {
                let line = format!("{word} {value}");
                let block = |name: &str, line: &str| {
                    format!("{name} {{\n{}}}\n", harness::hcl(line).replace("id = \"a\"\n", ""))
                };
                let class =
                    format!("{}volume \"v\" {{ class = \"a\" }}\n", block("class \"a\"", &line));
                for text in [harness::hcl(&line), block("volume \"a\"", &line), class] {
                    suggestions += usize::from(check_suggestion(&text));
                }
            }
        }
    }
    assert!(suggestions > 200, "{suggestions}");
}

fn check_suggestion(text: &str) -> bool {
    let before = problems(text, Syntax::Hcl).0;
    let mut found = false;
    for problem in before.iter().filter(|one| one.code.as_str() == "spec/unknown-field") {
        let Some(replacement) = &problem.replacement else { continue };
        let range = replacement.span.range();
        let replaced =
            format!("{}{}{}", &text[..range.start], replacement.text, &text[range.end..]);
        let after = problems(&replaced, Syntax::Hcl).0;
        let is_worse = |one: &&Diagnostic| {
            let place = one.labels.first().map(|label| label.span.range());
            let is_here = place.is_some_and(|place| {
                place.start >= range.start && place.start <= range.start + replacement.text.len()
            });
            let wrong = [
                "spec/unknown-field",
                "spec/duplicate-field",
                "spec/not-inheritable",
                "spec/other-form",
                "spec/unexpected-label",
            ];
            is_here && wrong.contains(&one.code.as_str())
                || is_here && one.message.contains("not a ") && one.message.contains(" is ")
        };
        let wrong: Vec<_> = after.iter().filter(is_worse).collect();
        assert_eq!(wrong, Vec::<&Diagnostic>::new(), "{text}\n{replaced}");
        found = true;
    }
    found
}

#[test]
fn what_resembles_volume_leads_to_volumes_with_names() {
    let fields = harness::hcl("name = \"a\"").replace("id = \"a\"\n", "");
    for (text, is_replaced) in [
        (format!("volumes \"a\" {{\n{fields}}}\n"), true),
        (format!("Volume_s {{\n a {{\n{fields}}}\n}}\n"), true),
        (format!("volumes {{\n{fields}}}\n"), false),
        (format!("volumes = [{{\n{fields}}}, {{\n{fields}}}]\n"), false),
    ] {
        let found = problems(&text, Syntax::Hcl).0;
        assert_eq!(found.len(), 1, "{text}: {found:?}");
        assert_eq!(found[0].replacement.is_some(), is_replaced, "{text}");
        if let Some(replacement) = &found[0].replacement {
            let range = replacement.span.range();
            let replaced =
                format!("{}{}{}", &text[..range.start], replacement.text, &text[range.end..]);
            assert_eq!(problems(&replaced, Syntax::Hcl).0, vec![], "{replaced}");
        } else {
            assert!(
                found[0].help[0].contains("under its name") || found[0].help[0].contains("NAME")
            );
        }
    }
}

/// What Terraform writes in a `volume` block, and what the help has in its place: the help leads to a valid volume.
#[test]
fn expressions_of_terraform_in_a_volume_say_what_takes_their_place() {
    let volume = |lines: &str| {
        let fields = harness::hcl("name = \"a\"").replace("id = \"a\"\n", "");
        format!(
            "locals {{\n l = [{{ n = \"x\" }}]\n m = \"single-node-reader-only\"\n}}\nvolume \"a\" {{\n{fields}{lines}\n}}\n"
        )
    };
    for (line, help, instead) in [
        (
            "for_each = toset([\"a\", \"b\"])",
            "`for_each = [\"a\", \"b\"]`",
            "for_each = [\"a\", \"b\"]",
        ),
        (
            "parameters = { a = local.l[*].n }",
            "[for x in LIST : x.NAME]",
            "parameters = { a = join(\",\", [for x in local.l : x.n]) }",
        ),
        ("parameters = { a = data.x.y.id }", "var.NAME", "parameters = { a = \"id\" }"),
        ("parameters = { a = module.x.id }", "var.NAME", "parameters = { a = \"id\" }"),
        ("parameters = { a = nomad_csi_volume.x.id }", "var.NAME", "parameters = { a = \"id\" }"),
        ("parameters = { a = terraform.workspace }", "var.NAME", "parameters = { a = \"id\" }"),
        ("parameters = { a = self.id }", "volume.id", "parameters = { a = volume.id }"),
        (
            "parameters = { a = templatefile(\"x.tpl\", {}) }",
            "--var-file",
            "parameters = {\n a = <<EOF\nx ${volume.id}\nEOF\n}",
        ),
        ("parameters = jsondecode(file(\"x.json\"))", "--var-file", "parameters = { a = \"id\" }"),
        (
            "parameters = { a = \"%{ if true }b%{ endif }\" }",
            "CONDITION ? A : B",
            "parameters = { a = \"${true ? \"b\" : \"\"}\" }",
        ),
        (
            "parameters = { a = \"%{ for x in local.l }b%{ endfor }\" }",
            "join(",
            "parameters = { a = \"${join(\"\", [for x in local.l : x.n])}\" }",
        ),
        (
            "dynamic \"capability\" {\n for_each = [local.m]\n content {}\n}",
            "capability = [for x in LIST",
            "",
        ),
    ] {
        let found = problems(&volume(line), Syntax::Hcl).0;
        let helps: Vec<_> = found.iter().flat_map(|one| &one.help).collect();
        assert!(
            !found.is_empty() && helps.iter().any(|one| one.contains(help)),
            "{line}: {found:#?}"
        );
        let found = problems(&volume(instead), Syntax::Hcl).0;
        assert_eq!(found, vec![], "{instead}");
    }
    let listed = "volume \"a\" {\n type = \"csi\"\n name = \"a\"\n plugin_id = \"p\"\n capability = [for x in [\"single-node-writer\"] : { access_mode = x, attachment_mode = \"file-system\" }]\n}\n";
    assert_eq!(problems(listed, Syntax::Hcl).0, vec![]);
}

#[test]
fn expressions_of_a_flat_file_lead_to_a_block() {
    for line in [
        "name = var.x",
        "name = local.x",
        "name = each.value",
        "name = upper(\"x\")",
        "name = toset([\"a\"])",
        "name = templatefile(\"x\", {})",
        "name = true ? \"a\" : \"b\"",
        "name = local.l[*].id",
        "name = \"a\" == \"b\"",
    ] {
        let found = problems(&harness::hcl(line), Syntax::Hcl).0;
        let helps: Vec<_> = found.iter().flat_map(|one| &one.help).collect();
        assert_eq!(found.len(), 1, "{line}: {found:#?}");
        assert!(
            helps.iter().any(|one| one.contains("`volume \"NAME\" { … }`")),
            "{line}: {helps:?}"
        );
    }
    let block = format!(
        "variable \"x\" {{ default = \"n\" }}\nvolume \"NAME\" {{\n{}}}\n",
        harness::hcl("name = var.x").replace("id = \"a\"\n", "")
    );
    assert_eq!(problems(&block, Syntax::Hcl).0, vec![]);
}
