//! References to secrets: a relative path starts at the file in which the reference is written, wherever it is used.

use std::path::{Path, PathBuf};

use crate::defaults::Defaults;
use crate::language::GivenVariables;
use crate::parse::read;
use crate::syntax::Syntax;
use nomad_csi_model::diagnostic::{Diagnostics, SourceMap};
use nomad_csi_model::{SecretRef, SecretRefs};

/// Returns the secrets of the volumes of files: `key directory/path`, or the messages of the problems.
fn secrets(files: &[(&str, &str)]) -> Result<Vec<String>, Vec<String>> {
    let (mut sources, mut diagnostics) = (SourceMap::default(), Diagnostics::default());
    let texts: Vec<_> = files
        .iter()
        .map(|(name, text)| {
            let syntax = Syntax::from_path(Path::new(name)).expect("a known extension");
            (sources.add(*name, *text), syntax)
        })
        .collect();
    let given = GivenVariables::default();
    let parsed = read(&mut sources, &texts, &given, &Defaults::default(), &mut diagnostics);
    if !diagnostics.is_empty() {
        return Err(diagnostics.iter().map(|one| one.message.clone()).collect());
    }
    let mut found = vec![];
    for spec in &parsed.volumes {
        for (key, secret) in spec.request.secrets.iter().flat_map(SecretRefs::iter) {
            let SecretRef::File(path) = secret else { panic!("{key} is {secret:?}") };
            let name = PathBuf::from(sources.name(spec.secret_span(key).source));
            found.push(format!("{key} {}", name.with_file_name(path).display()));
        }
    }
    Ok(found)
}

const FIELDS: &str = "type = \"csi\"\n plugin_id = \"p\"\n name = \"n\"\n capability {\n access_mode = \"single-node-writer\"\n attachment_mode = \"file-system\"\n}\n";

#[test]
fn a_path_of_a_local_value_starts_at_its_file_in_every_use() {
    let shared = "locals {\n one = file(\"k\")\n made = file(\"${local.word}\")\n word = \"k\"\n map = { a = file(\"k\"), b = { c = file(\"k\") } }\n list = [file(\"k\")]\n chosen = true ? file(\"k\") : env(\"X\")\n again = local.one\n}\n";
    for use_ in [
        "local.one",
        "local.made",
        "local.map.a",
        "local.map[\"a\"]",
        "local.list[0]",
        "local.chosen",
        "local.again",
        "true ? local.one : null",
        "lookup(local.map, \"a\", null)",
        "lookup(local.map, \"b\", {}).c",
        "element(local.list, 0)",
        "concat([], local.list)[0]",
        "flatten([local.list])[0]",
        "merge({ z = 1 }, local.map).a",
        "[for x in local.list : x][0]",
        "{ for k, v in local.map : k => v }.a",
    ] {
        let volume =
            format!("volume \"v\" {{\n secrets {{ s = {use_}, own = file(\"k\") }}\n{FIELDS}}}\n");
        let found = secrets(&[("shared/c.hcl", shared), ("team/v.hcl", &volume)]);
        let expected = Ok(vec!["own team/k".to_owned(), "s shared/k".to_owned()]);
        assert_eq!(found, expected, "{use_}");
    }
    let whole = format!("volume \"v\" {{\n secrets = local.all\n{FIELDS}}}\n");
    let all = "locals { all = { a = file(\"k\") } }";
    let found = secrets(&[("shared/c.hcl", all), ("team/v.hcl", &whole)]);
    assert_eq!(found, Ok(vec!["a shared/k".to_owned()]));
}

#[test]
fn a_path_of_a_layer_starts_at_the_file_of_the_layer_or_of_its_local_value() {
    let locals = "locals { key = file(\"k\") }";
    let class = "class \"c\" {\n secrets { class = file(\"k\"), local = local.key, made = file(\"${\"k\"}\") }\n}\n";
    let team = format!(
        "defaults {{\n class = \"c\"\n secrets {{ default = file(\"k\"), chosen = true ? local.key : null }}\n}}\nvolume \"v\" {{\n for_each = {{ a = 1 }}\n secrets {{ own = each.key == \"a\" ? file(\"k\") : local.key }}\n{}}}\n",
        FIELDS.replace(" name = \"n\"\n", "")
    );
    let expected = ["chosen l/k", "class c/k", "default t/k", "local l/k", "made c/k", "own t/k"];
    let found = secrets(&[("l/l.hcl", locals), ("c/c.hcl", class), ("t/v.hcl", &team)]);
    assert_eq!(found, Ok(expected.map(str::to_owned).to_vec()));
}

#[test]
fn a_path_in_yaml_and_json_starts_at_its_file_and_a_computed_map_is_no_reference() {
    let fields = "type: csi, plugin_id: p, name: n, capability: [{access_mode: single-node-writer, attachment_mode: file-system}]";
    let volume = |secret: &str| format!("volume: {{v: {{{fields}, secrets: {{s: {secret}}}}}}}\n");
    let call = "{\"locals\": {\"key\": \"${file(\\\"k\\\")}\"}}";
    let found = secrets(&[("j/l.json", call), ("y/v.yaml", &volume("'${local.key}'"))]);
    assert_eq!(found, Ok(vec!["s j/k".to_owned()]));
    for own in ["{file: k}", "{file: '${\"k\"}'}", "'${file(\"k\")}'"] {
        let found = secrets(&[("j/l.json", call), ("y/v.yaml", &volume(own))]);
        assert_eq!(found, Ok(vec!["s y/k".to_owned()]), "{own}");
    }
    let object = "locals: {key: {file: k}}";
    let found = secrets(&[("l/l.yaml", object), ("y/v.yaml", &volume("'${local.key}'"))]);
    let message =
        "a map of an expression cannot name a file: its path starts at no known directory";
    assert_eq!(found, Err(vec![message.to_owned()]));
}
