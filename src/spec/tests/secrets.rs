//! No output shows a secret: neither a message nor a source line of a label.

use proptest::prelude::*;

use super::harness::{ReadResult, hcl, json, read, yaml};
use crate::encode::encode;
use crate::syntax::Syntax;
use nomad_csi_model::diagnostic::Span;
use nomad_csi_model::{
    AccessMode, AttachmentMode, Capability, CapacityRange, MountOptions, Namespace, PluginId,
    SecretRefs, Secrets, UnresolvedRequest, VolumeId,
};

const CANARY: &str = "hunter2";

/// Returns everything that a renderer may show: messages, and the source lines of all positions.
fn shown(read: &ReadResult) -> Vec<String> {
    let lines = |span: Span| {
        let text = read.sources.redacted_text(span.source);
        let range = span.range();
        let start = text[..range.start].rfind('\n').map_or(0, |at| at + 1);
        let end = text[range.end..].find('\n').map_or(text.len(), |at| range.end + at);
        text[start..end].to_owned()
    };
    let mut shown = vec![];
    for diagnostic in &read.diagnostics {
        shown.push(diagnostic.message.clone());
        shown.extend(diagnostic.block.clone());
        shown.extend(diagnostic.help.iter().chain(&diagnostic.notes).cloned());
        for label in &diagnostic.labels {
            shown.push(label.text.clone());
            shown.push(lines(label.span));
        }
        if let Some(replacement) = &diagnostic.replacement {
            shown.extend([replacement.text.clone(), lines(replacement.span)]);
        }
    }
    shown
}

fn leaks(text: &str, syntax: Syntax) -> Option<String> {
    let read = read(text, syntax);
    shown(&read).into_iter().find(|shown| shown.contains(CANARY))
}

/// Any name of another tool may be that of a secret, so every value is hidden.
#[test]
fn source_lines_of_files_of_other_tools_show_no_value() {
    let volume = json("\"secrets\": {\"$env\": \"X\"}");
    for (text, syntax) in [
        ("module \"db\" { db_pass = \"hunter2\" }".to_owned(), Syntax::Hcl),
        (format!("module \"db\" {{ db_pass = \"hunter2\" }}\n{}", hcl("")), Syntax::Hcl),
        ("module \"db\" { db_pass = f(\"hunter2\") }\nvolume \"a\" {\n}".to_owned(), Syntax::Hcl),
        ("variable \"p\" { default = \"hunter2\" } provider \"nomad\" { p = \"hunter2\" }".to_owned(), Syntax::Hcl),
        ("resource \"nomad_csi_volume\" \"a\" { parameters = { l = [{ db_pass = \"hunter2\" }] } }".to_owned(), Syntax::Hcl),
        (r#"{"resource":{"x":{"y":{"z":1}}},"variable":{"p":{"default":"hunter2","sensitive":true}}}"#.to_owned(), Syntax::Json),
        (r#"{"module":{"a":{"b":"hunter2"}},"module":{"a":{"b":"hunter2"}},"locals":{"x":["hunter2"]}}"#.to_owned(), Syntax::Json),
        (volume.replacen('{', r#"{"module":{"a":{"b":"hunter2"}},"#, 1).replace('\n', ""), Syntax::Json),
        (r#"{"terraform_version":"1","resources":[{"db_pass":"hunter2"}]}"#.to_owned(), Syntax::Json),
        (r#"{"Volumes":[{"ID":"a","PluginID":"p","Parameters":{"db_pass":"hunter2"}}]}"#.to_owned(), Syntax::Json),
        (r#"[{"ID":"a","PluginID":"p","Parameters":{"db_pass":"hunter2"}}]"#.to_owned(), Syntax::Json),
        ("{ID: a, PluginID: p, Parameters: {db_pass: hunter2}}".to_owned(), Syntax::Yaml),
        ("- {ID: a, PluginID: p, Parameters: {db_pass: hunter2}}".to_owned(), Syntax::Yaml),
        ("{module: {db: {db_pass: hunter2}}}".to_owned(), Syntax::Yaml),
        ("{module: {db: {db_pass: hunter2}}}\n---\n{locals: {a: hunter2}}".to_owned(), Syntax::Yaml),
    ] {
        let read = read(&text, syntax);
        let codes: Vec<_> = read.diagnostics.iter().map(|one| one.code.as_str()).collect();
        assert!(codes.contains(&"spec/other-form"), "{text}: {codes:?}");
        let found = shown(&read).into_iter().find(|shown| shown.contains(CANARY));
        assert_eq!(found, None, "{text}");
    }
}

#[test]
fn source_lines_hide_secrets() {
    for (text, syntax) in [
        (hcl("secrets { a = \"hunter2\" wrong = [\"hunter2\"] }"), Syntax::Hcl),
        (hcl("secrets { a = \"hunter2\" a = \"hunter2\" }"), Syntax::Hcl),
        (
            hcl("secrets { pin = 0077 }\nsecrets \"hunter2-label\" {}")
                .replace("hunter2-label", "label"),
            Syntax::Hcl,
        ),
        (hcl("secret { a = \"hunter2\" }"), Syntax::Hcl),
        (hcl("Secrets = \"hunter2\""), Syntax::Hcl),
        (hcl("mystery { a = \"hunter2\" }"), Syntax::Hcl),
        (hcl("secrets { a = f(\"hunter2\") b = \"${hunter2}\" }"), Syntax::Hcl),
        (hcl("mount_options { mount_flags = \"password=hunter2\" }"), Syntax::Hcl),
        (hcl("mount_options { mount_flags = [\"password=hunter2\", [1]] }"), Syntax::Hcl),
        (hcl("mount_options { mountflags = [\"password=hunter2\"] }"), Syntax::Hcl),
        (hcl("secrets { a = <<EOF\nhunter2\nEOF\n b = [] }"), Syntax::Hcl),
        (hcl("secrets { a = vault(\"hunter2\") b = env(\"hunter2\", \"hunter2\") }"), Syntax::Hcl),
        (hcl("secrets { a = env(\"X${hunter2}\") b { env = \"hunter2\" } }"), Syntax::Hcl),
        (hcl("secrets { a = \"hunter2"), Syntax::Hcl),
        (hcl("secrets { a = \"x\\qhunter2\" }"), Syntax::Hcl),
        (hcl("secrets { \"hunter2\" }"), Syntax::Hcl),
        (hcl("secrets { hunter2 }"), Syntax::Hcl),
        (hcl("secrets { a = hunter2 hunter2 }"), Syntax::Hcl),
        (hcl("secrets { a: \"hunter2\" }"), Syntax::Hcl),
        (hcl("secrets {\na = \"}\"\nb = hunter2 x\n}"), Syntax::Hcl),
        (hcl("secrets {\na = <<EOF\nid = hunter2\nEOF\nb = \"hunter2\n}"), Syntax::Hcl),
        (json(r#""secrets": {"a": "hunter2", "b": ["hunter2"]}"#), Syntax::Json),
        (json(r#""secrets": {"a": "hunter2" "b": "hunter2"}"#), Syntax::Json),
        (json(r#""secrets": ["hunter2"]"#), Syntax::Json),
        (
            json(r#""secrets": {"a": {"env": "X", "b": "hunter2"}, "c": {"vault": "hunter2"}}"#),
            Syntax::Json,
        ),
        (json(r#""secrets": {"a": {"env": ["hunter2"]}, "env": {"x": "hunter2"}}"#), Syntax::Json),
        (json(r#""mount_options": {"mount_flags": ["hunter2",]}"#), Syntax::Json),
        (yaml("secrets:\n  a: hunter2\n  b: [hunter2]"), Syntax::Yaml),
        (yaml("secrets:\n  a: *hunter2"), Syntax::Yaml),
        (yaml("secrets:\n  a: hunter2\n   b: hunter2"), Syntax::Yaml),
        (yaml("secrets:\n  a: @hunter2"), Syntax::Yaml),
        (yaml("secrets: [hunter2"), Syntax::Yaml),
        (yaml("mount_options:\n  mount_flags:\n  - hunter2\n  -hunter2: x: y"), Syntax::Yaml),
        (yaml("x: &a hunter2\nsecrets: {a: *a, a: *a}"), Syntax::Yaml),
    ] {
        let result = read(&text, syntax);
        assert!(!result.diagnostics.is_empty(), "no diagnostic for {text}");
        assert_eq!(leaks(&text, syntax), None, "{text}");
    }
}

#[test]
fn other_lines_stay_readable() {
    let text = hcl("secrets {\n  a = \"hunter2\"\n}\nname = = 3\ncontext { b = \"seen\" }");
    let read = read(&text, Syntax::Hcl);
    let source = read.diagnostics.iter().next().expect("an error").labels[0].span.source;
    let shown = read.sources.redacted_text(source);
    assert!(shown.contains("name = = 3\ncontext { b = \"seen\" }"), "{shown}");
    assert!(!shown.contains(CANARY));
}

/// In a text without secrets, a plain value under an unknown key is no secret.
#[test]
fn values_of_unknown_keys_are_hidden_only_where_secrets_may_be() {
    for (text, syntax, is_shown) in [
        (hcl("colour = \"hunter2\""), Syntax::Hcl, true),
        (yaml("colour: hunter2"), Syntax::Yaml, true),
        (hcl("db_pass = \"hunter2\""), Syntax::Hcl, false),
        (hcl("colour = [\"hunter2\"]"), Syntax::Hcl, false),
        (hcl("colour { a = \"hunter2\" }"), Syntax::Hcl, false),
        (yaml("secrets:\n  a: b\ncolour: hunter2"), Syntax::Yaml, false),
        (yaml("secrets:\ncolour: hunter2"), Syntax::Yaml, false),
    ] {
        assert_eq!(leaks(&text, syntax).is_some(), is_shown, "{text}");
    }
}

/// A secret that begins with `#` and has no quotes is a comment.
#[test]
fn comments_at_secrets_are_hidden() {
    for text in [
        "secrets:\n  a: #hunter2\n",
        "secrets:\n  a: b #hunter2\n  c: [1]\n",
        "secrets: #hunter2\ncolour: red\n",
        "secrets:\n  a: b\n  # hunter2\n  c: [1]\n",
        "mount_options:\n  mount_flags: # hunter2\n  colour: red\n",
    ] {
        assert_eq!(leaks(&yaml(text), Syntax::Yaml), None, "{text}");
    }
    for text in [
        "secrets {\n  a = [1] # hunter2\n}\n",
        "secrets { // hunter2\n a = [1]\n}\n",
        "secrets {\n  a = [1] /* hunter2\n hunter2 */ b = [1]\n}\n",
    ] {
        assert_eq!(leaks(&hcl(text), Syntax::Hcl), None, "{text}");
    }
}

#[test]
fn debug_output_contains_no_secret() {
    let read = read(
        &hcl("secrets { a = \"hunter2\" }\nmount_options { mount_flags = [\"hunter2\"] }"),
        Syntax::Hcl,
    );
    let debug = format!("{:?} {:?} {:?}", read.specs, read.sources, read.diagnostics);
    assert!(!debug.contains(CANARY), "{debug}");
}

fn with_canaries() -> UnresolvedRequest {
    let secrets = [("userKey", "hunter2-}key{"), ("other", "line\nhunter2 = \"x\"\nhunter2: [")];
    UnresolvedRequest {
        namespace: Namespace::default(),
        id: VolumeId::new("database"),
        name: Some("database".into()),
        external_id: None,
        plugin_id: PluginId::new("hostpath"),
        capabilities: vec![Capability {
            access_mode: AccessMode::SingleNodeWriter,
            attachment_mode: AttachmentMode::FileSystem,
        }],
        capacity: CapacityRange::default(),
        topology_request: None,
        clone_id: None,
        snapshot_id: None,
        mount_options: Some(MountOptions {
            fs_type: "cifs".into(),
            mount_flags: vec!["password=hunter2".into(), "hunter2".into()],
        }),
        secrets: Some(SecretRefs::from(&Secrets::from_iter(secrets))),
        parameters: Some([("type".to_owned(), "gp3".to_owned())].into()),
        context: None,
        share: false,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn damaged_files_show_no_secret(
        syntax in proptest::sample::select(&Syntax::ALL),
        at in any::<proptest::sample::Index>(),
        length in 0..4_usize,
        fragment in proptest::sample::select(&["", "", "\"", "'", "{", "}", "[", "]", "=", ":", "\n", " ", "x", "<<E\n", "/*", "#", "\\", ",", "- ", "*"]),
    ) {
        let text = encode(&with_canaries(), syntax);
        let start = at.index(text.len());
        let end = (start + length).min(text.len());
        let damaged = format!("{}{fragment}{}", &text[..start], &text[end..]);
        prop_assert_eq!(leaks(&damaged, syntax), None, "{}", damaged);
    }
}
