//! The language: variables, local values, classes, defaults and generated volumes.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::harness::code;
use crate::defaults::Defaults;
use crate::encode_values::encode_values;
use crate::language::GivenVariables;
use crate::parse::{Parsed, read};
use crate::syntax::Syntax;
use crate::validate::validate;
use crate::volume_spec::{Purpose, VolumeSpec};
use nomad_csi_model::diagnostic::{Diagnostics, SourceMap};
use nomad_csi_model::{Secret, SecretRef};

/// Texts of one run, with values of variables.
#[derive(Clone, Default)]
pub(super) struct Given<'t> {
    pub(super) files: &'t [(&'t str, Syntax)],
    pub(super) arguments: &'t [(&'t str, &'t str)],
    pub(super) environment: &'t [(&'t str, &'t str)],
    pub(super) variable_files: &'t [(&'t str, Syntax)],
    pub(super) declared_elsewhere: &'t [&'t str],
}

pub(super) struct Ran {
    pub(super) parsed: Parsed,
    pub(super) diagnostics: Diagnostics,
    pub(super) sources: SourceMap,
}

pub(super) fn run(given: &Given<'_>) -> Ran {
    let (mut sources, mut diagnostics) = (SourceMap::default(), Diagnostics::default());
    let mut add = |(text, syntax): &(&str, Syntax)| (sources.add("file", *text), *syntax);
    let texts: Vec<_> = given.files.iter().map(&mut add).collect();
    let files: Vec<_> = given.variable_files.iter().map(&mut add).collect();
    let secret = |text: &str| Secret::new(text.to_owned());
    let variables = GivenVariables {
        environment: given
            .environment
            .iter()
            .map(|(name, value)| ((*name).to_owned(), secret(value)))
            .collect(),
        files,
        arguments: given
            .arguments
            .iter()
            .map(|(name, value)| ((*name).to_owned(), secret(value)))
            .collect(),
        declared_elsewhere: Arc::new(
            given.declared_elsewhere.iter().map(ToString::to_string).collect(),
        ),
    };
    let defaults = Defaults::default();
    let parsed = read(&mut sources, &texts, &variables, &defaults, &mut diagnostics);
    validate(&parsed.volumes, Purpose::ByExternalId, &mut diagnostics);
    diagnostics.sort();
    Ran { parsed, diagnostics, sources }
}

/// Returns the volumes of one HCL text that has no problem.
pub(super) fn volumes(text: &str) -> Vec<VolumeSpec> {
    let ran = run(&Given { files: &[(text, Syntax::Hcl)], ..Given::default() });
    let problems: Vec<_> = ran.diagnostics.iter().map(|one| one.message.clone()).collect();
    assert_eq!(problems, Vec::<String>::new(), "{text}");
    ran.parsed.volumes
}

/// Returns the problems of one HCL text: `code text-at-the-place message`.
pub(super) fn problems(text: &str) -> Vec<String> {
    problems_of(&Given { files: &[(text, Syntax::Hcl)], ..Given::default() })
}

pub(super) fn problems_of(given: &Given<'_>) -> Vec<String> {
    let ran = run(given);
    let shown = |one: &nomad_csi_model::diagnostic::Diagnostic| {
        let place = one.labels.first().map(|label| ran.sources.redacted_snippet(label.span));
        format!("{} [{}] {}", code(one), place.unwrap_or_default(), one.message)
    };
    ran.diagnostics.iter().map(shown).collect()
}

pub(super) const CAPABILITY: &str =
    "capability {\n access_mode = \"single-node-writer\"\n attachment_mode = \"file-system\"\n}\n";

pub(super) fn ids(specs: &[VolumeSpec]) -> Vec<&str> {
    specs.iter().map(|spec| spec.request.id.as_str()).collect()
}

const CLASSES_HCL: &str = r#"
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
  default = {}
}
variable "ceph_key" {
  type      = string
  sensitive = true
}
locals {
  zones = ["eu-1a", "eu-1b", "eu-1c"]
}
class "fast" {
  plugin_id  = "ceph-${var.env}"
  name       = "${var.env}-${volume.key}"
  parameters { pool = "nvme", imageFeatures = "layering" }
  secrets {
    userID  = env("CEPH_USER")
    userKey = var.env == "prod" ? nomad_var("ceph/${var.env}", "key") : var.ceph_key
  }
}
"#;

const VOLUMES_HCL: &str = r#"
set = "payments-${var.env}"
defaults {
  type  = "csi"
  class = "fast"
  capability {
    access_mode     = "single-node-writer"
    attachment_mode = "file-system"
  }
}
volume "pg" {
  count            = 3
  capacity_min     = "10GiB"
  topology_request = { required = [{ segments = { zone = element(local.zones, count.index) } }] }
}
volume "shard" {
  for_each     = var.shards
  class        = each.value.class
  capacity_min = each.value.size
  parameters { imageFeatures = null }
}
volume "audit" {
  enabled      = var.env == "prod"
  capacity_min = bytes("1TiB") * 2
}
"#;

const ALL_YAML: &str = r#"
set: payments-${var.env}
variable:
  env:
    type: string
    validation: [{condition: '${contains(["dev", "test", "prod"], var.env)}', error_message: "expected dev, test or prod"}]
  shards: {type: 'map(object({ size = string, class = optional(string, "fast") }))', default: {}}
  ceph_key: {type: string, sensitive: true}
locals:
  zones: [eu-1a, eu-1b, eu-1c]
class:
  fast:
    plugin_id: ceph-${var.env}
    name: ${var.env}-${volume.key}
    parameters: {pool: nvme, imageFeatures: layering}
    secrets:
      userID: {env: CEPH_USER}
      userKey: '${var.env == "prod" ? nomad_var("ceph/${var.env}", "key") : var.ceph_key}'
defaults:
  type: csi
  class: fast
  capability: [{access_mode: single-node-writer, attachment_mode: file-system}]
volume:
  pg:
    count: 3
    capacity_min: 10GiB
    topology_request: {required: [{segments: {zone: '${element(local.zones, count.index)}'}}]}
  shard:
    for_each: ${var.shards}
    class: ${each.value.class}
    capacity_min: ${each.value.size}
    parameters: {imageFeatures: null}
  audit: {enabled: '${var.env == "prod"}', capacity_min: '${bytes("1TiB") * 2}'}
"#;

const SHARDS: &str = "{ eu = { size = \"5GiB\" }, us = { size = \"6GiB\" } }";

/// Returns the requests with their sets, without positions.
fn content(specs: &[VolumeSpec]) -> Vec<String> {
    let shown = |spec: &VolumeSpec| {
        let set = spec.set.as_ref().map(|(name, _)| name.as_str());
        format!("{set:?} {:?}", spec.request)
    };
    specs.iter().map(shown).collect()
}

#[test]
fn the_same_fleet_in_two_syntaxes_and_any_order_of_files() {
    let arguments = [("env", "dev"), ("shards", SHARDS)];
    let environment = [("ceph_key", "hunter2")];
    let of = |files: &[(&str, Syntax)]| {
        let given =
            Given { files, arguments: &arguments, environment: &environment, ..Given::default() };
        let ran = run(&given);
        assert_eq!(problems_of(&given), Vec::<String>::new());
        ran.parsed.volumes
    };
    let hcl = of(&[(CLASSES_HCL, Syntax::Hcl), (VOLUMES_HCL, Syntax::Hcl)]);
    assert_eq!(ids(&hcl), ["pg[0]", "pg[1]", "pg[2]", "shard-eu", "shard-us"]);
    let names: Vec<_> =
        hcl.iter().map(|spec| spec.request.name.clone().unwrap_or_default()).collect();
    assert_eq!(names, ["dev-pg-0", "dev-pg-1", "dev-pg-2", "dev-shard-eu", "dev-shard-us"]);
    let zone =
        hcl[1].request.topology_request.as_ref().map(|request| format!("{:?}", request.required));
    assert!(zone.is_some_and(|zone| zone.contains("eu-1b")));
    let parameters = hcl[3].request.parameters.clone().unwrap_or_default();
    assert_eq!(parameters, BTreeMap::from([("pool".to_owned(), "nvme".to_owned())]));
    assert_eq!(hcl[3].request.capacity.min.to_string(), "5GiB");
    let secrets = hcl[0].request.secrets.clone().expect("the class has secrets");
    let kinds: Vec<_> = secrets.iter().map(|(key, from)| (key.to_owned(), from.clone())).collect();
    assert!(matches!(&kinds[1].1, SecretRef::Evaluated(value) if value.as_str() == "hunter2"));
    assert_eq!(
        content(&of(&[(VOLUMES_HCL, Syntax::Hcl), (CLASSES_HCL, Syntax::Hcl)])),
        content(&hcl)
    );
    assert_eq!(content(&of(&[(ALL_YAML, Syntax::Yaml)])), content(&hcl));
}

#[test]
fn an_environment_decides_what_exists_and_where_secrets_are() {
    let files = [(CLASSES_HCL, Syntax::Hcl), (VOLUMES_HCL, Syntax::Hcl)];
    let given = Given {
        files: &files,
        variable_files: &[("env = \"prod\"\nceph_key = \"x\"\n", Syntax::Hcl)],
        ..Given::default()
    };
    let ran = run(&given);
    assert_eq!(problems_of(&given), Vec::<String>::new());
    assert_eq!(ids(&ran.parsed.volumes), ["pg[0]", "pg[1]", "pg[2]", "audit"]);
    let audit = &ran.parsed.volumes[3].request;
    assert_eq!(audit.capacity.min.to_string(), "2TiB");
    let shown = format!("{:?}", audit.secrets);
    assert!(shown.contains("nomad_var(\"ceph/prod\", \"key\")"), "{shown}");
    assert_eq!(ran.parsed.empty.len(), 1);
    assert_eq!(ran.parsed.empty[0].reason, "`for_each` of `shard` is empty");
}

#[test]
fn the_last_and_nearest_value_of_a_variable_applies() {
    let text = format!(
        "variable \"x\" {{ default = \"default\" }}\nvolume \"a\" {{\n type = \"csi\"\n plugin_id = var.x\n name = \"n\"\n{CAPABILITY}}}\n"
    );
    let files = [(text.as_str(), Syntax::Hcl)];
    let plugin = |given: Given<'_>| {
        let ran = run(&Given { files: &files, ..given });
        assert!(!ran.diagnostics.has_errors());
        ran.parsed.volumes[0].request.plugin_id.to_string()
    };
    let environment = [("x", "environment")];
    let variable_files = [("x = \"first\"", Syntax::Hcl), ("x: second", Syntax::Yaml)];
    let arguments = [("x", "one"), ("x", "two")];
    assert_eq!(plugin(Given::default()), "default");
    assert_eq!(plugin(Given { environment: &[("x", "")], ..Given::default() }), "default");
    assert_eq!(plugin(Given { environment: &environment, ..Given::default() }), "environment");
    let files_too =
        Given { environment: &environment, variable_files: &variable_files, ..Given::default() };
    assert_eq!(plugin(files_too.clone()), "second");
    assert_eq!(plugin(Given { arguments: &arguments, ..files_too }), "two");
}

/// Each layer that has a field gives it, and null means absent.
#[test]
fn layers_win_by_their_nearness_and_null_means_absent() {
    let of = |volume: &str| {
        let text = format!(
            "defaults {{\n type = \"csi\"\n class = \"c\"\n parameters {{ a = \"defaults\", d = \"defaults\" }}\n context = {{ k = \"v\" }}\n{CAPABILITY}}}\nclass \"c\" {{\n plugin_id = \"of-class\"\n capacity_min = \"1GiB\"\n parameters {{ a = \"class\", b = \"class\" }}\n mount_options {{\n fs_type = \"ext4\"\n mount_flags = [\"noatime\"]\n}}\n}}\nvolume \"v\" {{\n name = \"n\"\n external_id = \"e\"\n{volume}\n}}\n"
        );
        volumes(&text).remove(0).request
    };
    let map = |pairs: &[(&str, &str)]| {
        Some(
            pairs
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                .collect::<BTreeMap<_, _>>(),
        )
    };
    let plain = of("");
    assert_eq!(plain.plugin_id.to_string(), "of-class");
    assert_eq!(plain.parameters, map(&[("a", "class"), ("b", "class"), ("d", "defaults")]));
    let own = of(
        "parameters { a = \"own\", b = null }\nplugin_id = \"own\"\ncapacity_min = null\nmount_options { fs_type = \"xfs\" }",
    );
    assert_eq!(own.parameters, map(&[("a", "own"), ("d", "defaults")]));
    assert_eq!(own.plugin_id.to_string(), "own");
    assert!(own.capacity.min.is_zero());
    let options = own.mount_options.expect("the class has mount options");
    assert_eq!(
        (options.fs_type.as_str(), options.mount_flags.as_slice()),
        ("xfs", &["noatime".to_owned()][..])
    );
    assert_eq!(of("parameters = {}").parameters, map(&[]));
    assert_eq!(of("parameters = null").parameters, None);
    assert_eq!(
        of("class = null\nplugin_id = \"p\"").parameters,
        map(&[("a", "defaults"), ("d", "defaults")])
    );
    let two = of(
        "capability {\n access_mode = \"multi-node-reader-only\"\n attachment_mode = \"file-system\"\n}",
    );
    assert_eq!(two.capabilities.len(), 1);
}

#[test]
fn a_computed_null_is_an_absent_key() {
    let text = format!(
        "locals {{ none = null }}\nvolume \"v\" {{\n type = \"csi\"\n plugin_id = \"p\"\n name = \"n\"\n capacity_min = local.none\n parameters {{ a = local.none, b = \"1\" }}\n{CAPABILITY}}}\n"
    );
    let request = volumes(&text).remove(0).request;
    assert!(request.capacity.min.is_zero());
    assert_eq!(
        request.parameters.map(|map| map.into_keys().collect::<Vec<_>>()),
        Some(vec!["b".to_owned()])
    );
}

#[test]
fn lists_of_objects_are_values_and_blocks() {
    let text = "locals {\n modes = [{ a = \"single-node-writer\" }, { a = \"multi-node-reader-only\" }]\n one = [{ a = \"x\" }]\n}\nvolume \"v\" {\n type = \"csi\"\n plugin_id = \"p${length(local.one)}\"\n name = \"n\"\n capability = [for m in local.modes : { access_mode = m.a, attachment_mode = \"file-system\" }]\n}\n";
    let request = volumes(text).remove(0).request;
    assert_eq!(request.capabilities.len(), 2);
    assert_eq!(request.plugin_id.to_string(), "p1");
}

/// Instances have the position of their block in common, so more tells them apart.
#[test]
fn instances_with_one_id_are_duplicates() {
    let text = format!(
        "volume \"pg\" {{\n count = 3\n source = \"same\"\n type = \"csi\"\n plugin_id = \"p\"\n{CAPABILITY}}}\n"
    );
    let found = problems(&text);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("spec/duplicate-volume"), "{found:?}");
}

#[test]
fn one_mistake_of_many_volumes_is_one_problem() {
    let text = "class \"c\" {\n type = \"csi\"\n plugin_id = \"p\"\n capability {\n access_mode = \"single-node-writter\"\n attachment_mode = \"file-system\"\n}\n}\nvolume \"pg\" {\n count = 1000\n class = \"c\"\n capacity_min = \"x${count.index}\"\n}\n";
    let ran = run(&Given { files: &[(text, Syntax::Hcl)], ..Given::default() });
    let codes: Vec<_> = ran.diagnostics.iter().map(code).collect();
    assert_eq!(
        codes.iter().filter(|code| *code == "spec/unknown-access-mode").count(),
        1,
        "{codes:?}"
    );
    assert_eq!(codes.iter().filter(|code| *code == "spec/invalid-size").count(), 3, "{codes:?}");
    let mode = ran
        .diagnostics
        .iter()
        .find(|one| one.code.as_str() == "spec/unknown-access-mode")
        .expect("it is there");
    let trail: Vec<_> = mode.trail.iter().map(|step| step.text.as_str()).collect();
    assert_eq!(
        trail,
        [
            "in volume `pg[0]` and 999 more of this block, from `count` at",
            "from class `c`, which the volume takes at"
        ]
    );
}

#[test]
fn what_is_wrong_with_declarations_is_reported_at_its_place() {
    let volume = format!(
        "volume \"v\" {{\n type = \"csi\"\n plugin_id = \"p\"\n name = \"n\"\n{CAPABILITY}}}\n"
    );
    for (text, expected) in [
        (
            "class \"a\" {}\nclass \"a\" {}\n",
            "spec/duplicate-declaration [class \"a\"] class `a` is declared twice",
        ),
        (
            "variable \"a\" {}\nvariable \"a\" {}\n",
            "spec/duplicate-declaration [variable \"a\"] variable `a` is declared twice",
        ),
        (
            "locals { a = 1 }\nlocals { a = 2 }\n",
            "spec/duplicate-declaration [a] local value `a` is declared twice",
        ),
        (
            "locals {\n a = local.b\n b = local.a\n}\n",
            "spec/declaration-cycle [a] local value `a` depends on itself: `a`, `b`, `a`",
        ),
        (
            "class \"a\" { external_id = \"x\" }\n",
            "spec/not-inheritable [external_id] `external_id` belongs in a `volume` block: a class would give it to several volumes",
        ),
        (
            "class \"a\" { class = \"b\" }\n",
            "spec/not-inheritable [class] a class cannot take a class",
        ),
        (
            "class \"a\" { nane = \"b\" }\n",
            "spec/unknown-field [nane] `nane` is not a field of a volume",
        ),
        (
            "class \"a\" { capacity_min = \"1Gigs\" }\n",
            "spec/invalid-size [\"1Gigs\"] invalid size in `capacity_min`: `Gigs` is not a unit of size; use B, kB, MB, GB, TB, PB, EB or KiB, MiB, GiB, TiB, PiB, EiB",
        ),
        ("variable \"a\" { type = strng }\n", "spec/variable-type [strng] unknown type `strng`"),
        (
            "variable \"a\" {\n type = number\n default = \"x\"\n}\n",
            "spec/variable-type [\"x\"] variable `a` requires a number, and its value is a text",
        ),
        (
            "variable \"a-b\" {}\n",
            "spec/syntax [\"a-b\"] invalid name of a variable `a-b`: it has letters, digits and `_`, and starts with no digit",
        ),
        ("locals { a = var.nope }\n", "spec/unknown-name [nope] unknown variable `nope`"),
        (
            "locals { a = each.key }\n",
            "spec/unknown-name [each] `each` is not available here: it belongs in the fields of a volume",
        ),
        (
            "variable \"a\" {}\nlocals { b = var.a }\n",
            "spec/unset-variable [var.a] variable `a` has no value",
        ),
        (
            "variable \"a\" {\n default = \"x\"\n validation {\n condition = var.a == \"y\"\n error_message = \"expected y\"\n}\n}\n",
            "spec/variable-invalid [\"x\"] variable `a` is invalid: expected y",
        ),
        ("name = \"x\"\n", "spec/mixed-forms [name] `name` is outside the `volume` blocks"),
    ] {
        let text = format!("{text}{volume}");
        assert_eq!(problems(&text), [expected], "{text}");
    }
}

#[test]
fn what_is_wrong_with_instances_is_reported_at_its_place() {
    for (keys, expected) in [
        ("count = 2.5", "spec/instances [2.5] `count` is 2.5, not a whole number of volumes"),
        ("count = -1", "spec/instances [-1] `count` is -1, not a whole number of volumes"),
        (
            "count = \"3\"",
            "spec/instances [\"3\"] `count` is a text, not a whole number of volumes",
        ),
        (
            "count = 100001",
            "spec/too-many-volumes [100001] `count` declares more than 100000 volumes",
        ),
        (
            "count = 1\n for_each = {}",
            "spec/instances [for_each] `count` and `for_each` cannot be used together",
        ),
        (
            "for_each = [{ a = 1 }]",
            "spec/instances [[{ a = 1 }]] `for_each` is a list of maps: volumes need stable names",
        ),
        (
            "for_each = [\"a\", \"a\"]",
            "spec/instances [[\"a\", \"a\"]] `for_each` of `v` has `a` twice",
        ),
        ("for_each = [1]", "spec/instances [[1]] `for_each` has a number in its list"),
        (
            "for_each = \"a\"",
            "spec/instances [\"a\"] `for_each` is a text, not a map or a list of texts",
        ),
        ("class = \"fats\"", "spec/unknown-class [\"fats\"] unknown class `fats`"),
        (
            "enabled = \"yes\"",
            "spec/wrong-type [\"yes\"] `enabled` is a text, not `true` or `false`",
        ),
        (
            "count = var.s",
            "spec/sensitive-value [var.s] `count` has a sensitive value: its keys become volume IDs",
        ),
        (
            "parameters { a = var.s }",
            "spec/sensitive-value [var.s] `parameters` has a sensitive value, which plans would show",
        ),
        (
            "parameters { a = env(\"X\") }",
            "spec/wrong-type [env(\"X\")] `a` is a reference to a secret, not a text",
        ),
        (
            "parameters { a = each.key }",
            "spec/unknown-name [each] `each` is not available here: volume `v` has no `for_each`",
        ),
        (
            "capacity_min = upper(1)",
            "spec/function-arguments [1] argument 1 of `upper` is a number, not a text",
        ),
    ] {
        let text = format!(
            "variable \"s\" {{\n default = \"hunter2\"\n sensitive = true\n}}\nclass \"fast\" {{}}\nvolume \"v\" {{\n type = \"csi\"\n plugin_id = \"p\"\n name = \"n\"\n {keys}\n{CAPABILITY}}}\n"
        );
        assert_eq!(problems(&text), [expected], "{text}");
    }
}

#[test]
fn a_flat_file_and_literal_blocks_keep_their_meaning() {
    let flat =
        format!("id = \"a\"\ntype = \"csi\"\nplugin_id = \"p\"\nname = \"${{x}}\"\n{CAPABILITY}");
    assert_eq!(
        problems(&flat),
        [
            "?spec/literal-template [\"${x}\"] `${…}` and `%{…}` are not evaluated: Nomad sends them unchanged"
        ]
    );
    let block = format!(
        "volume \"a\" {{\n type = \"csi\"\n plugin_id = \"p\"\n name = \"$${{x}}\"\n{CAPABILITY}}}\n"
    );
    assert_eq!(volumes(&block)[0].request.name.as_deref(), Some("${x}"));
    let flat_count = format!("count = 3\n{flat}");
    assert!(
        problems(&flat_count).iter().any(|one| one.contains("`count` has no effect here")),
        "{:?}",
        problems(&flat_count)
    );
}

#[test]
fn no_sensitive_value_is_shown() {
    let text = format!(
        "variable \"s\" {{\n type = string\n sensitive = true\n default = \"hunter2\"\n}}\nvolume \"v\" {{\n type = \"csi\"\n plugin_id = \"p\"\n name = \"n\"\n secrets {{ a = \"x-${{var.s}}\", b = var.s }}\n{CAPABILITY}}}\n"
    );
    let files = [(text.as_str(), Syntax::Hcl)];
    let variable_files = [("s = \"hunter3\"", Syntax::Hcl)];
    let ran = run(&Given { files: &files, variable_files: &variable_files, ..Given::default() });
    assert!(ran.diagnostics.is_empty(), "{:?}", ran.diagnostics);
    let shown = format!("{:?}", ran.parsed);
    assert!(!shown.contains("hunter"), "{shown}");
    let (mut sources, mut diagnostics) = (SourceMap::default(), Diagnostics::default());
    let source = sources.add("a", text.as_str());
    let file = sources.add("b", "s = \"hunter3\"");
    let given = GivenVariables { files: vec![(file, Syntax::Hcl)], ..GivenVariables::default() };
    read(&mut sources, &[(source, Syntax::Hcl)], &given, &Defaults::default(), &mut diagnostics);
    for source in [source, file] {
        assert!(
            !sources.redacted_text(source).contains("hunter"),
            "{}",
            sources.redacted_text(source)
        );
    }
}

#[test]
fn a_flat_document_beside_one_of_the_language_stays_and_sets_are_of_their_documents() {
    let fields = "type: csi\n    plugin_id: p\n    capability: [{access_mode: single-node-writer, attachment_mode: file-system}]";
    let flat = format!("id: a\nname: a\n{}\n", fields.replace("    ", ""));
    let text = format!(
        "{flat}---\nset: team\nvolume:\n  b:\n    name: b\n    enabled: true\n    {fields}\n"
    );
    let ran = run(&Given { files: &[(&text, Syntax::Yaml)], ..Given::default() });
    assert!(!ran.diagnostics.has_errors(), "{:?}", ran.diagnostics);
    let sets: Vec<_> = ran
        .parsed
        .volumes
        .iter()
        .map(|spec| (spec.request.id.as_str(), spec.set.as_ref().map(|(name, _)| name.as_str())))
        .collect();
    assert_eq!(sets, [("a", None), ("b", Some("team"))]);
    let two = text.replacen("id: a", "set: other\nid: a", 1);
    let ran = run(&Given { files: &[(&two, Syntax::Yaml)], ..Given::default() });
    let sets: Vec<_> = ran.parsed.sets.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(sets, ["team", "other"]);
}

#[test]
fn a_sensitive_value_is_refused_wherever_it_would_be_shown() {
    for (keys, place) in [
        ("class = var.s", "var.s"),
        ("enabled = var.s == \"a\"", "var.s == \"a\""),
        ("mount_options { fs_type = var.s }", "var.s"),
        ("secrets { a = env(var.s) }", "env(var.s)"),
        ("secrets = { (var.s) = \"x\" }", "*****************"),
        ("source = var.s", "var.s"),
        ("ignore = [var.s]", "var.s"),
    ] {
        let text = format!(
            "variable \"s\" {{\n default = \"hunter2\"\n sensitive = true\n}}\nvolume \"v\" {{\n type = \"csi\"\n plugin_id = \"p\"\n name = \"n\"\n {keys}\n{CAPABILITY}}}\n"
        );
        let found = problems(&text);
        let expected = format!("spec/sensitive-value [{place}]");
        assert!(found.iter().any(|one| one.starts_with(&expected)), "{keys}: {found:?}");
        assert!(!found.iter().any(|one| one.contains("hunter2")), "{found:?}");
    }
    let allowed = format!(
        "variable \"s\" {{\n default = \"hunter2\"\n sensitive = true\n}}\nvolume \"v\" {{\n type = \"csi\"\n plugin_id = \"p\"\n name = \"n\"\n mount_options {{\n fs_type = \"ext4\"\n mount_flags = [\"password=${{var.s}}\"]\n}}\n{CAPABILITY}}}\n"
    );
    assert_eq!(
        volumes(&allowed)[0]
            .request
            .mount_options
            .as_ref()
            .map(|options| options.mount_flags.len()),
        Some(1)
    );
}

/// A file of variables serves several commands, and not each of them reads the files that declare its names.
#[test]
fn a_value_of_a_name_without_a_declaration_is_hidden() {
    let volume = format!(
        "variable \"env\" {{ default = \"x\" }}\nvolume \"v\" {{\n type = \"csi\"\n plugin_id = var.env\n name = \"n\"\n{CAPABILITY}}}\n"
    );
    for file in ["ceph_key = \"hunter2\"", "ceph_kye = { hunter2 = \"hunter2\" }"] {
        let text = format!("{file}\nenv = \"shown\"\n");
        let (mut sources, mut diagnostics) = (SourceMap::default(), Diagnostics::default());
        let source = sources.add("a", volume.as_str());
        let values = sources.add("b", text.as_str());
        let given =
            GivenVariables { files: vec![(values, Syntax::Hcl)], ..GivenVariables::default() };
        read(
            &mut sources,
            &[(source, Syntax::Hcl)],
            &given,
            &Defaults::default(),
            &mut diagnostics,
        );
        let shown = sources.redacted_text(values);
        assert!(!shown.contains("hunter2") && shown.contains("shown"), "{shown}");
        assert!(!format!("{diagnostics:?}").contains("hunter2"));
    }
}

#[test]
fn a_default_that_is_a_list_of_objects_is_a_list() {
    let text = format!(
        "variable \"x\" {{ default = [{{ name = \"a\", size = \"1\" }}] }}\nvolume \"v\" {{\n count = length(var.x)\n type = \"csi\"\n plugin_id = \"p\"\n{CAPABILITY}}}\n"
    );
    assert_eq!(ids(&volumes(&text)), ["v[0]"]);
    let two = text.replace("}] }", "}, { name = \"b\" }] }");
    assert_eq!(ids(&volumes(&two)), ["v[0]", "v[1]"]);
}

#[test]
fn literals_of_instances_and_calls_in_literals_are_limited() {
    let long = "x".repeat(300 << 10);
    let text = format!(
        "volume \"a\" {{\n count = 3\n type = \"csi\"\n plugin_id = \"p\"\n parameters {{ k = \"{long}\" }}\n{CAPABILITY}}}\n"
    );
    let found = problems(&text);
    assert!(found.iter().all(|one| one.starts_with("spec/evaluation-limit")), "{:?}", found.len());
    assert!(!found.is_empty());
    let call = format!(
        "variable \"n\" {{ type = number }}\nvolume \"a\" {{\n count = var.n\n type = \"csi\"\n plugin_id = \"p\"\n{CAPABILITY}}}\n"
    );
    let files = [(call.as_str(), Syntax::Hcl)];
    let found = problems_of(&Given {
        files: &files,
        arguments: &[("n", "length([1, 2])")],
        ..Given::default()
    });
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("spec/variable-type"), "{found:?}");
}

#[test]
fn a_validation_that_cannot_be_checked_is_an_error() {
    let of = |validation: &str| {
        let text = format!(
            "variable \"b\" {{}}\nvariable \"a\" {{\n default = \"x\"\n validation {{\n {validation}\n}}\n}}\nvolume \"v\" {{\n type = \"csi\"\n plugin_id = var.a\n name = \"n\"\n{CAPABILITY}}}\n"
        );
        problems(&text)
    };
    assert!(of("conditon = false").iter().any(|one| one.starts_with("spec/missing-field")));
    assert_eq!(
        of("condition = var.b == \"x\""),
        ["spec/unset-variable [var.b] variable `b` has no value"]
    );
}

#[test]
fn a_computed_map_with_null_has_no_such_key() {
    let text = "{\"locals\": {\"p\": {\"b\": \"1\"}}, \"volume\": {\"v\": {\"type\": \"csi\", \"plugin_id\": \"p\", \"name\": \"n\", \"parameters\": \"${merge(local.p, {a = null})}\", \"capability\": [{\"access_mode\": \"single-node-writer\", \"attachment_mode\": \"file-system\"}]}}}";
    let ran = run(&Given { files: &[(text, Syntax::Json)], ..Given::default() });
    assert!(ran.diagnostics.is_empty(), "{:?}", ran.diagnostics);
    let parameters = ran.parsed.volumes[0].request.parameters.clone().unwrap_or_default();
    assert_eq!(parameters.into_keys().collect::<Vec<_>>(), ["b"]);
}

/// What is misspelt may be `sensitive`, so its block shows no value.
#[test]
fn labels_and_keys_are_no_templates() {
    let volume = format!("type = \"csi\"\nplugin_id = \"p\"\nname = \"n\"\n{CAPABILITY}");
    let variable = "variable \"env\" { default = \"dev\" }\n";
    for (text, place) in [
        (format!("volume \"pg-${{var.env}}\" {{\n{volume}}}\n"), "pg-${var.env}"),
        (format!("class \"c-${{var.env}}\" {{}}\nvolume \"a\" {{\n{volume}}}\n"), "c-${var.env}"),
        (
            format!("volume \"a\" {{\n{volume}parameters = {{ \"${{var.env}}-x\" = 1 }}\n}}\n"),
            "${var.env}-x",
        ),
        (
            format!(
                "locals {{\nm = {{ \"${{upper(var.env)}}\" = 1 }}\n}}\nvolume \"a\" {{\n{volume}}}\n"
            ),
            "${upper(var.env)}",
        ),
    ] {
        let found = problems(&format!("{variable}{text}"));
        let is_refused = |one: &String| one.starts_with("spec/expression") && one.contains(place);
        assert!(found.iter().any(is_refused), "{text}: {found:?}");
    }
    let literal =
        format!("{variable}volume \"a\" {{\n{volume}parameters = {{ \"${{x}}\" = \"y\" }}\n}}\n");
    assert_eq!(problems(&literal), Vec::<String>::new());
}

#[test]
fn a_message_of_a_secret_has_no_value() {
    let volume = format!("type = \"csi\"\nplugin_id = \"p\"\nname = \"n\"\n{CAPABILITY}");
    for field in [
        "secrets { x = tonumber(\"canary\") }",
        "secrets { x = bytes(\"canary\") }",
        "secrets { x = {a = 1}[\"canary\"] }",
        "secrets = { for x in [\"canary\", \"canary\"] : x => 1 }",
        "secrets { x = tonumber(var.tok) }",
        "mount_options { mount_flags = [bytes(\"canary\")] }",
    ] {
        let text = format!(
            "variable \"tok\" {{ default = \"canary\" }}\nvolume \"a\" {{\n{volume}{field}\n}}\n"
        );
        let ran = run(&Given { files: &[(&text, Syntax::Hcl)], ..Given::default() });
        assert!(ran.diagnostics.has_errors(), "{field}");
        for problem in &ran.diagnostics {
            let shown = [&problem.help, &problem.notes].into_iter().flatten();
            let labels = problem.labels.iter().map(|label| &label.text);
            for text in shown.chain(labels).chain([&problem.message]) {
                assert!(!text.contains("canary"), "{field}: {text}");
            }
        }
    }
}

#[test]
fn volumes_of_one_block_have_names_of_their_own() {
    let volume = format!("type = \"csi\"\nplugin_id = \"p\"\nname = \"n\"\n{CAPABILITY}");
    let found = problems(&format!("volume \"a\" {{\ncount = 2\n{volume}}}\n"));
    assert!(found.iter().any(|one| one.starts_with("spec/name-twice")), "{found:?}");
}

#[test]
fn a_variable_with_an_unknown_key_shows_no_value() {
    let text = format!(
        "variable \"a\" {{\n sensitve = true\n default = \"hunter2\"\n}}\nvolume \"v\" {{\n type = \"csi\"\n plugin_id = \"p\"\n name = \"n\"\n{CAPABILITY}}}\n"
    );
    let ran = run(&Given { files: &[(&text, Syntax::Hcl)], ..Given::default() });
    let codes: Vec<_> = ran.diagnostics.iter().map(code).collect();
    assert_eq!(codes, ["spec/unknown-field"]);
    let source = ran.diagnostics.iter().next().expect("one problem").labels[0].span.source;
    assert!(!ran.sources.redacted_text(source).contains("hunter2"));
}

#[test]
fn a_text_that_only_names_a_set_may_do_so_with_an_expression() {
    let variable = "variable \"env\" {\n  type = string\n  default = \"dev\"\n}\n";
    let set_of = |text: &str, syntax: Syntax| {
        let files = [(variable, Syntax::Hcl), (text, syntax)];
        let ran = run(&Given { files: &files, ..Given::default() });
        let problems: Vec<_> = ran.diagnostics.iter().map(code).collect();
        assert_eq!(problems, Vec::<String>::new());
        ran.parsed.sets.iter().map(|(name, _)| name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(set_of("set = \"team-${var.env}\"\n", Syntax::Hcl), ["team-dev"]);
    assert_eq!(set_of("set: team-${var.env}\n", Syntax::Yaml), ["team-dev"]);
    assert_eq!(set_of("{\"set\": \"team-${var.env}\"}", Syntax::Json), ["team-dev"]);
    assert_eq!(set_of("set = \"team\"\n", Syntax::Hcl), ["team"]);
}

#[test]
fn a_value_for_a_variable_of_another_run_is_not_reported() {
    let files = [("variable \"sizes\" {\n  type = string\n  default = \"\"\n}\n", Syntax::Hcl)];
    let given = Given {
        files: &files,
        arguments: &[("size", "1"), ("other", "2")],
        environment: &[("size", "1")],
        variable_files: &[("size = \"1\"\nother = \"2\"\n", Syntax::Hcl)],
        ..Given::default()
    };
    let problems = |given: &Given<'_>| run(given).diagnostics.iter().map(code).collect::<Vec<_>>();
    let undeclared = "spec/undeclared-variable";
    let warning = format!("?{undeclared}");
    assert_eq!(problems(&given), [undeclared, undeclared, undeclared, &warning]);
    let elsewhere = Given { declared_elsewhere: &["size", "other"], ..given };
    assert_eq!(problems(&elsewhere), Vec::<String>::new());
}

#[test]
fn the_values_of_a_run_give_the_same_run_again() {
    let text = r#"
variable "text" {
  type = string
}
variable "number" {
  type    = number
  default = 1.5
}
variable "yes" {
  default = true
}
variable "nothing" {
  type    = string
  default = null
}
variable "list" {
  type    = list(object({ size = string, zones = optional(list(string), ["a"]) }))
  default = []
}
variable "map" {
  default = { "a.b" = "x", empty = {}, list = [] }
}
variable "tuple" {
  type = any
}
volume "v" {
  name       = "n"
  type       = "csi"
  plugin_id  = "p"
  parameters = {
    all = jsonencode([var.text, var.number, var.yes, var.nothing, var.list, var.map, var.tuple])
  }
  capability {
    access_mode     = "single-node-writer"
    attachment_mode = "file-system"
  }
}
"#;
    let files = [(text, Syntax::Hcl)];
    let variables =
        "text: \"$${a} ${b} \\\"ü\\\"\\n%{c}\"\nlist: [{size: 1GiB}, {size: \"2\", zones: []}]\n";
    let given = Given {
        files: &files,
        variable_files: &[(variables, Syntax::Yaml)],
        arguments: &[("tuple", "[1, \"1\", null, { a = [{}] }, 9223372036854775807, 0.5]")],
        environment: &[("number", "-7")],
        ..Given::default()
    };
    let first = run(&given);
    let problems: Vec<_> = first.diagnostics.iter().map(code).collect();
    assert_eq!(problems, Vec::<String>::new());
    let values = &first.parsed.variables;
    let sources: Vec<_> = values.iter().map(|one| format!("{} {}", one.name, one.from)).collect();
    assert_eq!(
        sources,
        [
            "list `--var-file`",
            "map its default",
            "nothing its default",
            "number NOMAD_CSI_VAR_number",
            "text `--var-file`",
            "tuple `--var`",
            "yes its default",
        ]
    );
    let request = |ran: &Ran| format!("{:?}", ran.parsed.volumes[0].request);
    let shown: Vec<_> = values.iter().map(|one| one.value.clone()).collect();
    for syntax in [Syntax::Hcl, Syntax::Yaml, Syntax::Json] {
        let written = encode_values(values, &first.sources, syntax);
        let variable_files = [(written.as_str(), syntax)];
        let again =
            run(&Given { files: &files, variable_files: &variable_files, ..Given::default() });
        let problems: Vec<_> = again.diagnostics.iter().map(code).collect();
        assert_eq!(problems, Vec::<String>::new(), "{written}");
        assert_eq!(request(&again), request(&first), "{written}");
        let same: Vec<_> = again.parsed.variables.iter().map(|one| one.value.clone()).collect();
        assert_eq!(same, shown, "{written}");
    }
}

#[test]
fn values_that_may_be_secret_are_not_among_those_of_a_run() {
    let text = r#"
variable "marked" {
  type      = string
  sensitive = true
  default   = "canary"
}
variable "db_password" {
  default = "canary"
}
variable "map" {
  default = { inner = [{ api_token = "canary" }] }
}
variable "plain" {
  default = "shown"
}
variable "direct" {
  default = "canary"
}
variable "through" {
  default = { pw = "canary" }
}
variable "flag" {
  default = "canary"
}
variable "merged" {
  default = "canary"
}
variable "each" {
  default = { a = { key = "canary" } }
}
locals {
  first  = var.through.pw
  second = "x-${local.first}"
}
volume "v" {
  enabled = var.plain == "x"
  secrets {
    direct = var.direct
    local  = local.second
  }
  mount_options = { mount_flags = [var.flag] }
}
volume "x" {
  enabled       = false
  mount_options = merge({ fs_type = "ext4" }, { mount_flags = [var.merged] })
}
volume "w" {
  for_each = var.each
  enabled  = false
  secrets  = { key = each.value.key }
}
"#;
    let ran = run(&Given { files: &[(text, Syntax::Hcl)], ..Given::default() });
    let values: Vec<_> =
        ran.parsed.variables.iter().map(|one| (one.name.as_str(), one.value.as_deref())).collect();
    assert_eq!(
        values,
        [
            ("db_password", None),
            ("direct", None),
            ("each", None),
            ("flag", None),
            ("map", None),
            ("marked", None),
            ("merged", None),
            ("plain", Some("\"shown\"")),
            ("through", None),
        ]
    );
}

#[test]
fn a_top_level_key_with_x_declares_nothing_in_yaml_and_json() {
    let fields = "type: csi\n  plugin_id: p\n  capability: [{access_mode: single-node-writer, attachment_mode: file-system}]";
    let flat = format!("x-common: &common\n  {fields}\nid: a\nname: a\n<<: *common\n");
    let blocks = format!(
        "x-common: &common\n  {fields}\nx-list: [1, \"${{a}}\"]\nvariable:\n  name: {{default: n}}\nvolume:\n  a:\n    <<: *common\n    name: ${{var.name}}\n"
    );
    let json = r#"{"x-note": {"secrets": {"a": "b"}}, "volume": {"a": {"name": "a", "type": "csi", "plugin_id": "p",
        "capability": [{"access_mode": "single-node-writer", "attachment_mode": "file-system"}]}}}"#;
    for (text, syntax) in
        [(flat.as_str(), Syntax::Yaml), (&blocks, Syntax::Yaml), (json, Syntax::Json)]
    {
        let ran = run(&Given { files: &[(text, syntax)], ..Given::default() });
        let problems: Vec<_> = ran.diagnostics.iter().map(code).collect();
        assert_eq!(problems, Vec::<String>::new(), "{text}");
        let [volume] = ran.parsed.volumes.as_slice() else {
            panic!("{text}");
        };
        assert_eq!(volume.request.plugin_id.as_str(), "p", "{text}");
    }
    let hcl = "x-note = \"a\"\nid = \"a\"\ntype = \"csi\"\nplugin_id = \"p\"\n";
    let ran = run(&Given { files: &[(hcl, Syntax::Hcl)], ..Given::default() });
    assert!(ran.diagnostics.iter().any(|one| one.message.contains("x-note")));
    let inner = "volume:\n  a:\n    x-note: 1\n";
    let ran = run(&Given { files: &[(inner, Syntax::Yaml)], ..Given::default() });
    assert!(ran.diagnostics.iter().any(|one| one.message.contains("x-note")));
}
