//! One table of cases per rule.

use super::*;
use crate::syntax::Syntax;
use crate::tests::harness::{hcl, read, yaml};

/// Returns the diagnostics of texts: `code` of an error, `?code` of a warning, with the field at
/// its position.
fn said_of(texts: &[String], purpose: Purpose) -> Vec<String> {
    let mut specs = vec![];
    let mut places = vec![];
    for text in texts {
        let read = read(text, if text.contains(" = ") { Syntax::Hcl } else { Syntax::Yaml });
        assert!(!read.diagnostics.has_errors(), "{:?}", read.diagnostics);
        specs.extend(read.specs);
        places.push(read.sources);
    }
    let mut diagnostics = Diagnostics::default();
    validate(&specs, purpose, &mut diagnostics);
    let word = |messages: &Diagnostic| match messages.severity {
        nomad_csi_model::diagnostic::Severity::Error => messages.code.to_string(),
        nomad_csi_model::diagnostic::Severity::Warning => format!("?{}", messages.code),
    };
    let place = |messages: &Diagnostic| {
        let at = places[0].location(messages.labels[0].span);
        format!("{}:{}", at.line, at.column)
    };
    diagnostics.iter().map(|messages| format!("{} {}", word(messages), place(messages))).collect()
}

fn messages(lines: &str, purpose: Purpose) -> Vec<String> {
    said_of(&[hcl(lines)], purpose)
}

/// Nomad's server does not check these (W23).
#[test]
fn impossible_specifications_are_errors() {
    let long = "x".repeat(129);
    for (lines, expected) in [
        ("name = \"n\"".to_owned(), vec![]),
        (String::new(), vec!["spec/name-required 2:1"]),
        (format!("name = \"{long}\""), vec!["spec/name-too-long 1:8"]),
        ("name = \"n\"\nnamespace = \"a b\"".into(), vec!["spec/namespace 2:13"]),
        ("name = \"n\"\nnamespace = \"*\"".into(), vec!["spec/namespace 2:13"]),
        ("name = \"n\"\ncapacity_min = \"2G\"\ncapacity_max = \"1GiB\"".into(), vec!["spec/min-above-max 2:16"]),
        ("name = \"n\"\ncapacity_min = \"1G\"\ncapacity_max = \"1GiB\"".into(), vec![]),
        ("name = \"n\"\ncapacity_min = \"1G\"".into(), vec![]),
        ("name = \"n\"\nsnapshot_id = \"s\"\nclone_id = \"c\"".into(), vec!["spec/two-content-sources 3:12"]),
        ("name = \"n\"\ncapability { access_mode = \"single-node-writer\" attachment_mode = \"file-system\" }".into(), vec!["spec/duplicate-capability 6:1"]),
    ] {
        assert_eq!(messages(&lines, Purpose::ByExternalId), expected, "{lines}");
    }
}

#[test]
fn ids_that_http_cannot_address_are_refused() {
    for (id, expected) in [
        ("a[0]", vec![]),
        ("a b", vec![]),
        ("a/b", vec!["spec/volume-id 1:5"]),
        ("..", vec!["spec/volume-id 1:5"]),
        (&"x".repeat(129), vec!["spec/volume-id 1:5"]),
    ] {
        let text = format!(
            "id: '{id}'\nname: n\ntype: csi\nplugin_id: p\ncapability: {{access_mode: single-node-writer, attachment_mode: file-system}}"
        );
        assert_eq!(said_of(&[text], Purpose::Create), expected, "{id}");
    }
}

/// Each capability of a list has its own position.
#[test]
fn a_duplicate_capability_shows_both_positions() {
    let one = "access_mode: single-node-writer\n    attachment_mode: file-system\n";
    let text = format!("id: a\nname: n\ntype: csi\nplugin_id: p\ncapability:\n  - {one}  - {one}");
    let expected = ["spec/duplicate-capability 8:5"];
    assert_eq!(said_of(&[text], Purpose::Create), expected);
}

#[test]
fn a_volume_needs_a_capability() {
    let flat = "id: a\nname: n\ntype: csi\nplugin_id: p\n";
    for capability in ["", "capability:", "capability: []"] {
        let text = format!("{flat}{capability}");
        assert_eq!(said_of(&[text], Purpose::Create), ["spec/no-capability 1:1"], "{capability}");
    }
}

#[test]
fn mount_options_are_for_file_systems() {
    let block = hcl("name = \"n\"\nmount_options { fs_type = \"ext4\" }")
        .replace("file-system", "block-device");
    assert_eq!(said_of(&[block], Purpose::Create), ["spec/block-mount-options 2:1"]);
    let empty = hcl("name = \"n\"\nmount_options {}").replace("file-system", "block-device");
    assert_eq!(said_of(&[empty], Purpose::Create), Vec::<String>::new());
    let both = "name = \"n\"\nmount_options { fs_type = \"ext4\" }\ncapability { access_mode = \"single-node-writer\" attachment_mode = \"block-device\" }";
    assert_eq!(messages(both, Purpose::Create), Vec::<String>::new());
}

#[test]
fn read_only_and_the_access_modes_must_agree() {
    for (read_only, modes, expected) in [
        ("true", ["single-node-writer", "multi-node-multi-writer"], vec!["spec/read-only 4:16"]),
        ("true", ["single-node-writer", "multi-node-reader-only"], vec![]),
        (
            "false",
            ["single-node-reader-only", "multi-node-reader-only"],
            vec!["spec/read-only 4:16"],
        ),
        ("false", ["single-node-reader-only", "multi-node-single-writer"], vec![]),
        ("~", ["single-node-reader-only", "multi-node-reader-only"], vec![]),
    ] {
        let [one, two] =
            modes.map(|mode| format!("{{access_mode: {mode}, attachment_mode: file-system}}"));
        let text = format!(
            "volume:\n  a:\n    name: n\n    read_only: {read_only}\n    type: csi\n    plugin_id: p\n    capability: [{one}, {two}]\n"
        );
        let expected: Vec<String> = expected.iter().map(ToString::to_string).collect();
        assert_eq!(said_of(&[text], Purpose::Create), expected, "{read_only} {modes:?}");
    }
}

/// Nomad accepts and ignores these.
#[test]
fn fields_without_effect_give_a_warning() {
    let context = "name = \"n\"\ncontext { a = \"b\" }";
    let external = "name = \"n\"\nexternal_id = \"e\"";
    let snapshot = "external_id = \"e\"\nsnapshot_id = \"s\"";
    let clone = "external_id = \"e\"\nclone_id = \"c\"";
    for (lines, purpose, expected) in [
        (context, Purpose::Create, vec!["?spec/context-on-create 2:1"]),
        (context, Purpose::ByExternalId, vec!["?spec/context-on-create 2:1"]),
        (context, Purpose::Register, vec!["?spec/register-without-external-id 3:6"]),
        (external, Purpose::Create, vec!["?spec/external-id-on-create 2:15"]),
        (external, Purpose::ByExternalId, vec![]),
        (external, Purpose::Register, vec![]),
        (snapshot, Purpose::Register, vec!["?spec/content-source-on-register 2:15"]),
        (clone, Purpose::ByExternalId, vec!["?spec/content-source-on-register 2:12"]),
    ] {
        assert_eq!(messages(lines, purpose), expected, "{lines} {purpose:?}");
    }
}

#[test]
fn a_creation_never_sends_a_context() {
    let read = read(&hcl("context { a = \"b\" }"), Syntax::Hcl);
    let spec = &read.specs[0];
    assert_eq!(spec.request_for(Purpose::ByExternalId).context, None);
    assert_eq!(spec.request_for(Purpose::Create).context, None);
    assert_eq!(spec.request_for(Purpose::Register).context, spec.request.context);
}

#[test]
fn a_volume_declared_in_two_files_is_an_error() {
    let files = |lines: [&str; 2]| lines.map(yaml);
    let distinct = |text: &str| format!("{text}\nname: {}", text.len());
    let twice = files(["name: x", "name: y"]);
    let (mut sources, mut specs) = (nomad_csi_model::diagnostic::SourceMap::default(), vec![]);
    let mut diagnostics = Diagnostics::default();
    for (at, text) in twice.iter().enumerate() {
        let source = sources.add(format!("{at}.yaml"), text.as_str());
        let defaults = crate::defaults::Defaults::default();
        specs.extend(crate::parse::parse(
            &mut sources,
            source,
            Syntax::Yaml,
            &defaults,
            &mut diagnostics,
        ));
    }
    validate(&specs, Purpose::Create, &mut diagnostics);
    let all: Vec<_> = diagnostics.iter().collect();
    assert_eq!(all.len(), 1);
    assert_eq!(all[0].code, Code::SpecDuplicateVolume);
    let names: Vec<_> = all[0].labels.iter().map(|label| sources.name(label.span.source)).collect();
    assert_eq!(names, ["1.yaml", "0.yaml"]);
    let other_namespace = [yaml("name: x"), yaml(&distinct("namespace: n"))];
    assert_eq!(said_of(&other_namespace, Purpose::Create), Vec::<String>::new());
}

/// On Nomad, a provider identifies a new volume by its name alone (W13).
#[test]
fn two_new_volumes_of_one_name_give_a_warning() {
    let same = [yaml("name: x"), yaml("name: x\nnamespace: n")];
    assert_eq!(said_of(&same, Purpose::Create), ["?spec/name-twice 1:7"]);
    assert_eq!(
        said_of(&same, Purpose::Register).len(),
        2,
        "registered ones are known by their IDs"
    );
    let other_plugin =
        [yaml("name: x"), yaml("name: x\nnamespace: n").replace("plugin_id: p", "plugin_id: q")];
    assert_eq!(said_of(&other_plugin, Purpose::Create), Vec::<String>::new());
}
