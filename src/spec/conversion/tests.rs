//! Conversions of examples and of generated files: what is read before and after is the same.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::convert;
use crate::defaults::Defaults;
use crate::language::GivenVariables;
use crate::parse::read;
use crate::syntax::Syntax;
use crate::volume_spec::VolumeSpec;
use nomad_csi_model::Secret;
use nomad_csi_model::diagnostic::{Diagnostics, SourceMap};

/// Converts a text; the errors are messages.
fn converted(text: &str, syntax: Syntax, to: Syntax) -> Result<String, String> {
    let (mut sources, mut diagnostics) = (SourceMap::default(), Diagnostics::default());
    let source = sources.add("file", text);
    let converted = convert(&mut sources, source, syntax, to, &mut diagnostics);
    let message = || diagnostics.iter().map(|one| one.message.clone()).collect::<Vec<_>>();
    converted.map(|converted| converted.text).ok_or_else(|| message().join("; "))
}

/// What a volume is, without positions.
fn meaning(spec: &VolumeSpec) -> String {
    format!(
        "{:?} {} {:?} {:?} {:?} {:?} {:?}",
        spec.request,
        spec.namespace_given,
        spec.read_only,
        spec.protect,
        spec.ignore,
        spec.unknown,
        spec.set.as_ref().map(|(set, _)| set)
    )
}

/// Reads texts as one run, and returns the volumes with the codes of errors.
fn volumes(texts: &[(&str, Syntax)]) -> Vec<String> {
    let (mut sources, mut diagnostics) = (SourceMap::default(), Diagnostics::default());
    let texts: Vec<_> =
        texts.iter().map(|(text, syntax)| (sources.add("file", *text), *syntax)).collect();
    let environment = [("ceph_key", "hush"), ("env", "prod")];
    let environment = environment
        .map(|(name, value)| (name.to_owned(), Secret::new(value.to_owned())))
        .into_iter()
        .collect();
    let given = GivenVariables { environment, ..GivenVariables::default() };
    let parsed = read(&mut sources, &texts, &given, &Defaults::default(), &mut diagnostics);
    let mut found: Vec<String> = parsed.volumes.iter().map(meaning).collect();
    found.extend(parsed.sets.iter().map(|(set, _)| format!("set {set}")));
    let errors = diagnostics
        .iter()
        .filter(|one| one.severity == nomad_csi_model::diagnostic::Severity::Error);
    found.extend(errors.map(|one| format!("{}: {}", one.code, one.message)));
    found
}

/// Converts a text to both other syntaxes, and each result back to all.
fn check(text: &str, syntax: Syntax) {
    let expected = volumes(&[(text, syntax)]);
    for to in Syntax::ALL.into_iter().filter(|to| *to != syntax) {
        let result =
            converted(text, syntax, to).unwrap_or_else(|why| panic!("{to}: {why}\n{text}"));
        assert_eq!(volumes(&[(&result, to)]), expected, "{to}:\n{text}\n{result}");
        for back in Syntax::ALL.into_iter().filter(|back| *back != to) {
            let again = converted(&result, to, back)
                .unwrap_or_else(|why| panic!("{to} to {back}: {why}\n{result}"));
            assert_eq!(volumes(&[(&again, back)]), expected, "{to} to {back}:\n{result}\n{again}");
        }
    }
}

const LANGUAGE: &str = r#"# The classes of all teams.
set = "payments-${var.env}"

// One of three.
variable "env" {
  type        = string
  description = "dev, test or prod"
  validation {
    condition     = contains(["dev", "test", "prod"], var.env)
    error_message = "expected dev, test or prod"
  }
}
variable "shards" {
  type    = map(object({ size = string, class = optional(string, "fast") }))
  default = { eu = { size = "1GiB" }, "u s" = { size = "2GiB", class = "fast" } }
}
variable "ceph_key" {
  type      = string
  sensitive = true
}
locals {
  zones = ["eu-1a", "eu-1b"] # in this order
  rules = [{ a = 1 }]
  none  = []
  text  = "a \"quoted\" $${literal} \\ ${upper("x\"y")}"
}
class "fast" {
  plugin_id = "ceph-${var.env}"
  name      = "${var.env}-${volume.key}"
  parameters {
    pool = "nvme"
    // How it is formatted.
    imageFeatures = "layering"
  }
  secrets {
    userID  = "nomad"
    userKey = var.env == "prod" ? env("CEPH_${upper(var.env)}") : var.ceph_key
    other   = env("OTHER")
    item    = nomad_var("a/b", "c")
  }
}
defaults {
  type  = "csi"
  class = "fast"
  capability {
    access_mode     = "single-node-writer"
    attachment_mode = "file-system"
  }
}
volume "pg" {
  count        = 3
  capacity_min = "10GiB"
  topology_request {
    required {
      topology {
        segments {
          zone = element(local.zones, count.index)
        }
      }
      topology {
        segments { zone = "b" }
      }
    }
  }
}
volume "shard" {
  for_each     = var.shards
  source       = "s-${replace(each.key, " ", "-")}"
  class        = each.value.class
  capacity_min = each.value.size
  parameters { imageFeatures = null }
  capability = [for m in ["single-node-reader-only", "single-node-writer"] : { access_mode = m, attachment_mode = "file-system" }]
}
volume "audit" {
  enabled      = var.env == "prod"
  capacity_min = bytes("1TiB") * 2
  secrets      = unknown
  context {
    note = <<-EOT
      two
        lines of ${var.env}
    EOT
  }
}
"#;

#[test]
fn the_language_is_converted_with_all_of_its_constructs() {
    let before = volumes(&[(LANGUAGE, Syntax::Hcl)]);
    assert_eq!(before.len(), 7, "{before:#?}");
    check(LANGUAGE, Syntax::Hcl);
}

#[test]
fn comments_stay_where_the_syntax_has_room() {
    let yaml = converted(LANGUAGE, Syntax::Hcl, Syntax::Yaml).unwrap();
    for line in [
        "# The classes of all teams.\nset:",
        "  # One of three.\n  env:",
        "  # in this order\n  zones:",
        "      # How it is formatted.\n      imageFeatures:",
    ] {
        assert!(yaml.contains(line), "{line}\n{yaml}");
    }
    let json = converted(LANGUAGE, Syntax::Hcl, Syntax::Json).unwrap();
    let read: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(read["class"]["fast"]["//"], "How it is formatted.");
    assert_eq!(read["locals"]["//"], "in this order");
    assert_eq!(read["//"], serde_json::json!(["The classes of all teams.", "One of three."]));
    let hcl = converted(&json, Syntax::Json, Syntax::Hcl).unwrap();
    assert!(hcl.contains("# in this order\n"), "{hcl}");
    let hcl = converted(&yaml, Syntax::Yaml, Syntax::Hcl).unwrap();
    assert!(hcl.contains("# One of three.\nvariable \"env\" {\n"), "{hcl}");
    assert!(hcl.contains("    # How it is formatted.\n    imageFeatures"), "{hcl}");
}

#[test]
fn an_expression_is_a_template_and_back() {
    let text = "volume:\n  a:\n    plugin_id: ${var.p}\n    name: x-${upper(\"y\")}-$${z}\n";
    let hcl = converted(text, Syntax::Yaml, Syntax::Hcl).unwrap();
    assert!(hcl.contains("plugin_id = var.p\n"), "{hcl}");
    assert!(hcl.contains("name      = \"x-${upper(\"y\")}-\\u0024{z}\"\n"), "{hcl}");
    let json = converted(&hcl, Syntax::Hcl, Syntax::Json).unwrap();
    assert!(json.contains(r#""plugin_id": "${var.p}""#), "{json}");
    assert!(json.contains(r#""name": "x-${upper(\"y\")}-$${z}""#), "{json}");
}

#[test]
fn a_reference_with_an_expression_is_a_call() {
    let text = "variable:\n  p: {default: X}\nvolume:\n  a:\n    plugin_id: p\n    type: csi\n    capability: {access_mode: single-node-writer, attachment_mode: file-system}\n    secrets: {k: {env: 'A_${var.p}'}, o: {nomad_var: [a/b, c]}}\n";
    check(text, Syntax::Yaml);
    let hcl = converted(text, Syntax::Yaml, Syntax::Hcl).unwrap();
    assert!(hcl.contains("k = env(\"A_${var.p}\")\n"), "{hcl}");
    assert!(hcl.contains("o = nomad_var(\"a/b\", \"c\")\n"), "{hcl}");
}

/// Nomad reads nothing else without a loss.
#[test]
fn topologies_get_the_shape_that_every_reader_accepts() {
    let text = "id: a\ntype: csi\nplugin_id: p\ncapability: {access_mode: single-node-writer, attachment_mode: file-system}\n\
                topology_request: {required: [{segments: {z: a}}, {segments: {z: b}}]}\n";
    check(text, Syntax::Yaml);
    let hcl = converted(text, Syntax::Yaml, Syntax::Hcl).unwrap();
    assert_eq!(hcl.matches("required {").count(), 1, "{hcl}");
    assert_eq!(hcl.matches("topology {").count(), 2, "{hcl}");
    let json = converted(text, Syntax::Yaml, Syntax::Json).unwrap();
    let read: serde_json::Value = serde_json::from_str(&json).unwrap();
    let topologies = &read["topology_request"][0]["required"][0]["topology"];
    assert_eq!(topologies[1], serde_json::json!({"segments": {"z": "b"}}));
}

#[test]
fn references_to_files_are_noticed() {
    for (value, expected) in
        [("file(\"a\")", true), ("env(\"A\")", false), ("var.x == 1 ? file(\"a\") : \"b\"", true)]
    {
        let text = format!(
            "volume \"a\" {{\n  plugin_id = \"p\"\n  secrets {{\n    k = {value}\n  }}\n}}\n"
        );
        let (mut sources, mut problems) = (SourceMap::default(), Diagnostics::default());
        let source = sources.add("file", text.as_str());
        let found = convert(&mut sources, source, Syntax::Hcl, Syntax::Yaml, &mut problems);
        assert_eq!(found.map(|found| found.names_files), Some(expected), "{value}");
    }
}

#[test]
fn what_has_no_form_is_refused_in_words() {
    let volume = "plugin_id: p\nid: a\ntype: csi\n";
    for (text, syntax, to, expected) in [
        (
            format!("{volume}---\n{volume}"),
            Syntax::Yaml,
            Syntax::Hcl,
            "it has 2 documents, and HCL holds one",
        ),
        (volume.to_owned(), Syntax::Yaml, Syntax::Yaml, "it is YAML already"),
        (format!("{volume}name:\n"), Syntax::Yaml, Syntax::Json, "a key without a value"),
        (
            "job \"a\" {\n}\n".to_owned(),
            Syntax::Hcl,
            Syntax::Yaml,
            "not a specification of volumes",
        ),
        (
            "env = \"prod\"\n".to_owned(),
            Syntax::Hcl,
            Syntax::Json,
            "not a specification of volumes",
        ),
        (String::new(), Syntax::Yaml, Syntax::Json, "not a specification of volumes"),
        ("volume \"a\" {\n".to_owned(), Syntax::Hcl, Syntax::Yaml, ""),
        (
            "volume \"a\" {\n  name = nonsense(1)\n}\n".to_owned(),
            Syntax::Hcl,
            Syntax::Yaml,
            "nonsense",
        ),
        (
            "capability \"x\" {\n}\nplugin_id = \"p\"\n".to_owned(),
            Syntax::Hcl,
            Syntax::Yaml,
            "a label",
        ),
        (
            "volume \"a\" {\n  name = \"x\"\n  name = \"y\"\n}\n".to_owned(),
            Syntax::Hcl,
            Syntax::Yaml,
            "written twice",
        ),
        (
            "volume \"//\" {\n  plugin_id = \"p\"\n}\n".to_owned(),
            Syntax::Hcl,
            Syntax::Json,
            "JSON would not read the same",
        ),
    ] {
        let why = converted(&text, syntax, to).expect_err(&text);
        assert!(why.contains(expected), "{text}: {why}");
    }
}

fn spec_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            spec_files(&path, found);
        } else if !name.contains(".nomad.")
            && !name.contains(".vars.")
            && Syntax::from_path(&path).is_some()
        {
            found.push(path);
        }
    }
}

#[test]
fn every_example_is_converted() {
    let mut files = vec![];
    spec_files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../specs"), &mut files);
    assert!(files.len() > 8, "{files:?}");
    for file in files {
        let syntax = Syntax::from_path(&file).unwrap();
        check(&std::fs::read_to_string(&file).unwrap(), syntax);
    }
}

/// An expression, as HCL writes it, for a field with a text.
fn expression() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("var.env".to_owned()),
        Just("local.name".to_owned()),
        Just("upper(\"a\\\"b\")".to_owned()),
        Just("var.env == \"prod\" ? \"x\" : \"y\"".to_owned()),
        Just("join(\"-\", [for z in local.zones : z if z != \"b\"])".to_owned()),
        Just("tostring(2 + 3 * -1)".to_owned()),
        "[a-zA-Z0-9 ä🦀#:'/\\[\\]{}%$&*!|>-]{0,10}"
            .prop_filter("no template", |text| !text.contains("${") && !text.contains("%{"))
            .prop_map(|text| format!("\"{text}\"")),
        Just("\"a-${var.env}-$${b}-${\"c\"}\\n\\t\\\"\"".to_owned()),
        Just("\"a${\"$\"}${var.env}%${\"$$\"}{b}\"".to_owned()),
        Just("<<-E\n    # no comment ${var.env}\n      b\n  E\n".to_owned()),
    ]
}

fn comment() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        Just("  # a note: \"x\"\n".to_owned()),
        Just("\n  // other\n".to_owned())
    ]
}

/// A field and its key.
fn field() -> impl Strategy<Value = (&'static str, String)> {
    let assigned = |key: &'static str| {
        (comment(), expression())
            .prop_map(move |(comment, value)| (key, format!("{comment}  {key} = {value}\n")))
    };
    let fixed = |key: &'static str, text: &str| Just((key, text.to_owned()));
    prop_oneof![
        assigned("name"),
        assigned("clone_id"),
        (comment(), expression(), expression()).prop_map(|(comment, one, other)| {
            let fields = format!("a = {one}\n    \"b c\" = {other}\n    n = 7\n    t = true\n");
            ("parameters", format!("{comment}  parameters {{\n    {fields}  }}\n"))
        }),
        expression().prop_map(|value| {
            ("secrets", format!("  secrets {{\n    k = {value}\n    e = env(\"E\")\n  }}\n"))
        }),
        fixed(
            "mount_options",
            "  mount_options {\n    fs_type = \"ext4\"\n    mount_flags = [\"a\", \"${var.env}\"]\n  }\n",
        ),
        fixed(
            "topology_request",
            "  topology_request {\n    preferred {\n      topology {\n        segments { z = \"a\" }\n      }\n    }\n  }\n",
        ),
        fixed("capacity_min", "  capacity_min = \"${1 + 1}GiB\"\n"),
        fixed("protect", "  protect = true\n  ignore = [\"context\"]\n"),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_generated_file_is_converted(
        volumes in prop::collection::vec(prop::collection::vec(field(), 0..4), 1..4),
        count in 0..3usize,
    ) {
        let mut text = "variable \"env\" {\n  type = string\n}\nlocals {\n  name = \"n\"\n  zones = [\"a\", \"b\"]\n}\n".to_owned();
        for (at, fields) in volumes.iter().enumerate() {
            let _ = write!(text, "volume \"v{at}\" {{\n  plugin_id = \"p\"\n  type = \"csi\"\n");
            if at == 0 && count > 0 {
                let _ = writeln!(text, "  count = {count}");
            }
            text.push_str("  capability {\n    access_mode = \"single-node-writer\"\n    attachment_mode = \"file-system\"\n  }\n");
            let fields: BTreeMap<_, _> = fields.iter().cloned().collect();
            fields.values().for_each(|field| text.push_str(field));
            text.push_str("}\n");
        }
        check(&text, Syntax::Hcl);
    }
}
