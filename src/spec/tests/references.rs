//! Secret references, and the fields of this program.

use super::harness::{hcl, json, messages, read_as, yaml};
use crate::schema;
use crate::syntax::Syntax;
use nomad_csi_model::{HiddenField, SecretRef, SetName};

fn secrets(text: &str, syntax: Syntax) -> Vec<(String, String)> {
    let (specs, messages) = read_as(text, syntax);
    assert_eq!(messages, Vec::<String>::new(), "{text}");
    let secrets = specs[0].request.secrets.as_ref().expect("secrets are set");
    let shown = |from: &SecretRef| match from {
        SecretRef::Literal(value) | SecretRef::Evaluated(value) => value.to_string(),
        SecretRef::Env(_) | SecretRef::File(_) | SecretRef::NomadVar { .. } => format!("{from:?}"),
    };
    let pairs = secrets.iter();
    pairs.map(|(key, from)| (key.to_owned(), shown(from))).collect()
}

#[test]
fn a_reference_means_the_same_in_every_syntax() {
    let expected = [
        ("a", "env(\"A_B\")"),
        ("b", "file(\"keys/b.key\")"),
        ("c", "env"),
        ("d", "nomad_var(\"ebs/keys\", \"token\")"),
    ];
    let expected = expected.map(|(key, value)| (key.to_owned(), value.to_owned()));
    for (text, syntax) in [
        (
            hcl(
                "secrets {\n  a = env(\"A_B\")\n  b = file(\"keys/b.key\")\n  c = \"env\"\n  d = nomad_var(\"ebs/keys\", \"token\")\n}",
            ),
            Syntax::Hcl,
        ),
        (
            hcl(
                "secrets = { a = env(\"A_B\"), b: file(\"keys/b.key\"), c = \"env\", d = nomad_var(\"ebs/keys\", \"token\") }",
            ),
            Syntax::Hcl,
        ),
        (
            hcl(
                "secrets { a = ( env ( \"A_B\" , ) ) }\nsecrets {\n b = file(\"keys/b.key\")\n c = \"env\"\n d = nomad_var(\"ebs/keys\", \"token\") }",
            ),
            Syntax::Hcl,
        ),
        (
            yaml(
                "secrets:\n  a: {env: A_B}\n  b:\n    file: keys/b.key\n  c: env\n  d: {nomad_var: [ebs/keys, token]}",
            ),
            Syntax::Yaml,
        ),
        (
            json(
                r#""secrets": {"a": {"env": "A_B"}, "b": {"file": "keys/b.key"}, "c": "env", "d": {"nomad_var": ["ebs/keys", "token"]}}"#,
            ),
            Syntax::Json,
        ),
    ] {
        assert_eq!(secrets(&text, syntax), expected, "{text}");
    }
}

#[test]
fn invalid_references_are_refused_with_their_positions() {
    for (line, syntax, expected) in [
        ("secrets { a = vault(\"x\") }", Syntax::Hcl, "spec/expression 1:15 **********"),
        ("secrets { a = env(\"X\", \"y\") }", Syntax::Hcl, "spec/expression 1:15 *************"),
        ("secrets { a = nomad_var(\"x\") }", Syntax::Hcl, "spec/expression 1:15 **************"),
        (
            "secrets { a = nomad_var(\"x\", \"\") }",
            Syntax::Hcl,
            "spec/secret-reference 1:15 nomad_var(\"x\", \"\")",
        ),
        ("secrets: {a: {nomad_var: x}}", Syntax::Yaml, "spec/wrong-type 1:15 nomad_var"),
        ("secrets { a = env(b) }", Syntax::Hcl, "spec/expression 1:15 ******"),
        ("secrets { a = env(\"${b}\") }", Syntax::Hcl, "spec/expression 1:15 ***********"),
        ("secrets { a = x::env(\"X\") }", Syntax::Hcl, "spec/expression 1:15 ***********"),
        ("secrets { a = env(\"\") }", Syntax::Hcl, "spec/secret-reference 1:15 env(\"\")"),
        ("secrets { a = env(\"A=B\") }", Syntax::Hcl, "spec/secret-reference 1:15 env(\"A=B\")"),
        ("secrets { a { env = \"X\" } }", Syntax::Hcl, "spec/wrong-type 1:11 a"),
        ("secrets { a = [env(\"X\")] }", Syntax::Hcl, "spec/wrong-type 1:11 a"),
        ("secrets = env(\"X\")", Syntax::Hcl, "spec/wrong-type 1:11 env(\"X\")"),
        ("parameters { a = env(\"X\") }", Syntax::Hcl, "spec/wrong-type 1:18 env(\"X\")"),
        ("name = file(\"x\")", Syntax::Hcl, "spec/wrong-type 1:8 file(\"x\")"),
        ("capacity_min = env(\"X\")", Syntax::Hcl, "spec/wrong-type 1:16 env(\"X\")"),
        (
            "mount_options { mount_flags = [env(\"X\")] }",
            Syntax::Hcl,
            "spec/wrong-type 1:32 env(\"X\")",
        ),
        ("secrets: {a: {vault: x}}", Syntax::Yaml, "spec/secret-reference 1:15 vault"),
        ("secrets: {a: {env: X, file: y}}", Syntax::Yaml, "spec/wrong-type 1:11 a"),
        ("secrets: {a: {env: 7}}", Syntax::Yaml, "spec/wrong-type 1:15 env"),
        ("secrets: {a: {}}", Syntax::Yaml, "spec/wrong-type 1:11 a"),
        ("parameters: {a: {env: X}}", Syntax::Yaml, "spec/wrong-type 1:17 {env: X}"),
    ] {
        let text = match syntax {
            Syntax::Hcl => hcl(line),
            Syntax::Yaml => yaml(line),
            Syntax::Json => json(line),
        };
        assert_eq!(messages(&text, syntax), [expected], "{line}");
    }
}

#[test]
fn every_secret_has_a_position() {
    let text = "id: a\ntype: csi\nplugin_id: p\nsecrets:\n  x: {env: X}\n  y: y\n";
    let (specs, _) = read_as(text, Syntax::Yaml);
    let shown = |key: &str| &text[specs[0].secret_span(key).range()];
    assert_eq!(shown("x"), "{env: X}");
    assert_eq!(shown("y"), "y");
    assert_eq!(shown("z"), "secrets");
}

#[test]
fn fields_of_this_program_are_read_in_both_forms() {
    let flat = hcl("set = \"team-a\"\nprotect = true\nignore = [\"context\", \"mount_options\"]");
    let body = "type = \"csi\"\nplugin_id = \"p\"\ncapability {\n access_mode = \"single-node-writer\"\n attachment_mode = \"file-system\"\n}";
    let blocks = format!(
        "set = \"team-a\"\nvolume \"a\" {{\n{body}\nprotect = true\nignore = [\"context\", \"mount_options\"]\n}}\nvolume \"b\" {{\n{body}\n}}\n"
    );
    for text in [&flat, &blocks] {
        let (specs, messages) = read_as(text, Syntax::Hcl);
        assert_eq!(messages, Vec::<String>::new(), "{text}");
        assert_eq!(specs[0].protect, Some(true));
        assert_eq!(specs[0].ignore, ["context", "mount_options"]);
        assert!(specs[0].ignores("mount_options.fs_type") && specs[0].ignores("context"));
        assert!(!specs[0].ignores("mount_optionsx") && !specs[0].ignores("name"));
        for spec in &specs {
            let set = spec.set.as_ref().map(|(name, _)| name);
            assert_eq!(set, Some(&SetName::parse("team-a").unwrap()));
        }
        if let Some(other) = specs.get(1) {
            assert_eq!((other.protect, other.ignore.len()), (None, 0));
        }
    }
}

#[test]
fn fields_of_this_program_are_checked() {
    for (line, expected) in [
        ("set = \"a/b\"", "spec/set-name 1:7 \"a/b\""),
        ("set = \"-a\"", "spec/set-name 1:7 \"-a\""),
        ("set = [\"a\"]", "spec/wrong-type 1:7 [\"a\"]"),
        ("protect = \"yes\"", "spec/wrong-type 1:11 \"yes\""),
        ("ignore = \"context\"", "spec/wrong-type 1:10 \"context\""),
        ("ignore = [\"contxt\"]", "spec/unknown-field 1:11 \"contxt\""),
        ("ignore = [\"id\"]", "spec/unknown-field 1:11 \"id\""),
        ("volume \"x\" { set = \"a\" }", "spec/mixed-forms 2:1 id"),
    ] {
        assert_eq!(messages(&hcl(line), Syntax::Hcl)[0], expected, "{line}");
    }
    let inside = "volume \"a\" {\n type = \"csi\"\n plugin_id = \"p\"\n set = \"s\"\n}\n";
    assert_eq!(messages(inside, Syntax::Hcl), ["spec/unknown-field 4:2 set"]);
}

/// The fields of this program differ from Nomad's keys and API names in any case, so no Nomad file
/// changes its meaning.
#[test]
fn fields_of_this_program_are_not_nomads() {
    let own_keys = ["set", "protect", "ignore"];
    let nomads = schema::VOLUME
        .iter()
        .filter(|field| !own_keys.contains(&field.key))
        .flat_map(|field| [field.key, field.api])
        .chain(schema::SERVER_FIELDS.iter().copied());
    for name in nomads {
        assert!(own_keys.iter().all(|own| !own.eq_ignore_ascii_case(name)), "{name}");
    }
    let own = schema::VOLUME.iter().chain(schema::FILE);
    let own = own.filter(|field| own_keys.contains(&field.key));
    assert!(own.clone().count() == 3 && own.into_iter().all(|field| field.api.is_empty()));
}

/// An unknown hidden value is not set.
#[test]
fn unknown_means_the_same_in_every_syntax() {
    use HiddenField::{MountFlags, Secrets};
    for (text, syntax, expected) in [
        (hcl("secrets = unknown"), Syntax::Hcl, &[Secrets][..]),
        (
            hcl("mount_options {\n fs_type = \"ext4\"\n mount_flags = unknown\n}"),
            Syntax::Hcl,
            &[MountFlags],
        ),
        (yaml("secrets: {unknown: true}"), Syntax::Yaml, &[Secrets]),
        (
            yaml("mount_options:\n  fs_type: ext4\n  mount_flags:\n    unknown: true"),
            Syntax::Yaml,
            &[MountFlags],
        ),
        (json(r#""secrets": {"unknown": true}"#), Syntax::Json, &[Secrets]),
        (
            json(r#""mount_options": {"fs_type": "ext4", "mount_flags": {"unknown": true}}"#),
            Syntax::Json,
            &[MountFlags],
        ),
    ] {
        let (specs, messages) = read_as(&text, syntax);
        assert_eq!(messages, Vec::<String>::new(), "{text}");
        assert!(specs[0].unknown.iter().eq(expected), "{text}");
        assert_eq!(specs[0].request.secrets, None, "{text}");
        let options = specs[0].request.mount_options.as_ref();
        let is_empty = options.is_none_or(|options| options.mount_flags.is_empty());
        assert!(is_empty, "{text}");
    }
}

/// A secret may be named `unknown` if its value is not `true` or other secrets exist.
#[test]
fn a_secret_can_be_named_unknown() {
    for (text, syntax) in [
        (hcl("secrets { unknown = true }"), Syntax::Hcl),
        (hcl("secrets { unknown = \"true\" }"), Syntax::Hcl),
        (yaml("secrets: {unknown: \"true\"}"), Syntax::Yaml),
        (yaml("secrets: {unknown: true, other: x}"), Syntax::Yaml),
        (json(r#""secrets": {"unknown": "true"}"#), Syntax::Json),
    ] {
        let (specs, messages) = read_as(&text, syntax);
        let errors = messages.iter().filter(|one| !one.starts_with('?'));
        assert_eq!(errors.count(), 0, "{text}: {messages:?}");
        assert!(specs[0].unknown.is_empty(), "{text}");
        let keys = specs[0].request.secrets.as_ref();
        assert!(keys.is_some_and(|secrets| !secrets.is_empty()), "{text}");
    }
}

#[test]
fn visible_fields_cannot_be_unknown() {
    for (text, syntax, expected) in [
        (hcl("parameters = unknown"), Syntax::Hcl, "spec/wrong-type"),
        (hcl("capacity_min = unknown"), Syntax::Hcl, "spec/wrong-type"),
        (hcl("secrets { a = unknown }"), Syntax::Hcl, "spec/wrong-type"),
        (hcl("secrets = unknwn"), Syntax::Hcl, "spec/expression"),
        (hcl("secrets = unknown\nsecrets { a = \"b\" }"), Syntax::Hcl, "spec/duplicate-field"),
        (hcl("mount_options { mount_flags = [unknown] }"), Syntax::Hcl, "spec/wrong-type"),
    ] {
        let messages = messages(&text, syntax);
        assert!(messages.iter().any(|one| one.starts_with(expected)), "{text}: {messages:?}");
    }
}
