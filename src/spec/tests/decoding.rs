//! Trees to volumes: forms, fields, shapes and refusals.

use super::harness::{hcl, json, messages, read, read_as, yaml};
use crate::defaults::Defaults;
use crate::language::GivenVariables;
use crate::parse::read as read_texts;
use crate::syntax::Syntax;
use crate::validate::validate;
use crate::volume_spec::Purpose;
use nomad_csi_model::diagnostic::{Diagnostics, SourceMap};
use nomad_csi_model::{CapacityRange, Topology, TopologyRequest};

fn ids(text: &str, syntax: Syntax) -> Vec<String> {
    let (specs, messages) = read_as(text, syntax);
    assert_eq!(messages, Vec::<String>::new(), "{text}");
    specs.iter().map(|spec| spec.key().to_string()).collect()
}

const FIELDS: &str = "type = \"csi\"\nplugin_id = \"p\"\ncapability {\naccess_mode = \"single-node-writer\"\nattachment_mode = \"file-system\"\n}\n";

#[test]
fn a_file_declares_any_number_of_volumes() {
    let two = format!(
        "volume \"a\" {{\n{FIELDS}}}\nvolume \"b\" {{\nsource = \"c\"\nnamespace = \"n\"\n{FIELDS}}}\n"
    );
    assert_eq!(ids(&two, Syntax::Hcl), ["a", "c (namespace n)"]);
    let fields = r#"{"type": "csi", "plugin_id": "p", "capability": {"access_mode": "single-node-writer", "attachment_mode": "file-system"}}"#;
    let two = format!(r#"{{"volume": {{"a": {fields}, "b": {fields}}}}}"#);
    assert_eq!(ids(&two, Syntax::Json), ["a", "b"]);
    assert_eq!(ids(&two, Syntax::Yaml), ["a", "b"]);
    let documents = format!("{}---\n{}---\n", yaml("name: x"), yaml("namespace: n"));
    assert_eq!(ids(&documents, Syntax::Yaml), ["a", "a (namespace n)"]);
}

#[test]
fn a_text_without_a_volume_is_an_error() {
    for (text, syntax) in [
        ("", Syntax::Hcl),
        ("# nothing\n", Syntax::Hcl),
        ("{}", Syntax::Json),
        ("{\"//\": \"nothing\"}", Syntax::Json),
        ("", Syntax::Yaml),
        ("---\n# nothing\n", Syntax::Yaml),
        ("volume: {}", Syntax::Yaml),
    ] {
        assert_eq!(messages(text, syntax), ["spec/no-volume 1:1"], "{text:?}");
    }
}

/// An invalid name does not count as a set.
#[test]
fn a_text_with_a_set_may_declare_no_volume() {
    for (text, syntax, sets) in [
        ("set = \"web\"", Syntax::Hcl, &["web"][..]),
        ("{\"set\": \"web\"}", Syntax::Json, &["web"]),
        ("set: web\nvolume: {}", Syntax::Yaml, &["web"]),
        ("set: web\n---\nset: other\n", Syntax::Yaml, &["web", "other"]),
    ] {
        let (mut sources, mut diagnostics) = (SourceMap::default(), Diagnostics::default());
        let source = sources.add("test", text);
        let defaults = Defaults::default();
        let texts = [(source, syntax)];
        let given = GivenVariables::default();
        let parsed = read_texts(&mut sources, &texts, &given, &defaults, &mut diagnostics);
        assert!(diagnostics.is_empty() && parsed.volumes.is_empty(), "{text}");
        let named: Vec<_> = parsed.sets.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(named, sets, "{text}");
    }
    assert_eq!(messages("set = \"a/b\"", Syntax::Hcl), ["spec/set-name 1:7 \"a/b\""]);
    assert_eq!(messages("set = \"web\"\nvolumes {}", Syntax::Hcl).len(), 1);
}

/// Each row is a mistake that Nomad would drop, lose or refuse.
const DROPPED: &[(&str, &[&str])] = &[
    ("acess_mode = 1", &["spec/unknown-field 1:1 acess_mode"]),
    ("access_mode = \"x\"", &["spec/unknown-field 1:1 access_mode"]),
    ("PluginID = \"x\"", &["spec/unknown-field 1:1 PluginID"]),
    ("Capacity = 99", &["spec/server-field 1:1 Capacity"]),
    ("schedulable = true", &["spec/server-field 1:1 schedulable"]),
    ("source = \"x\"", &["spec/unknown-field 1:1 source"]),
    ("per_alloc = true", &["spec/unknown-field 1:1 per_alloc"]),
    ("job \"x\" {}", &["spec/unknown-field 1:1 job"]),
    ("name = \"x\"\nname = \"y\"", &["spec/duplicate-field 2:1 name"]),
    ("name = \"x\"\nNAME = \"y\"", &["spec/duplicate-field 2:1 NAME"]),
    ("name = [\"x\"]", &["spec/wrong-type 1:8 [\"x\"]"]),
    ("name {}", &["spec/wrong-type 1:6 {}"]),
    ("name \"x\" {}", &["spec/unexpected-label 1:6 \"x\"", "spec/wrong-type 1:10 {}"]),
    ("capacity_min = true", &["spec/wrong-type 1:16 true"]),
    ("capacity_min = [1]", &["spec/wrong-type 1:16 [1]"]),
    ("capacity_min = \"-1\"", &["spec/invalid-size 1:16 \"-1\""]),
    ("capacity_min = \"10XB\"", &["spec/invalid-size 1:16 \"10XB\""]),
    ("capacity_min = \"8EiB\"", &["spec/invalid-size 1:16 \"8EiB\""]),
    ("capacity_min = 1e3", &["spec/invalid-size 1:16 1e3"]),
    ("capacity_min = \" \"", &["spec/invalid-size 1:16 \" \""]),
    (
        "capability \"x\" {\naccess_mode = \"single-node-writer\"\nattachment_mode = \"file-system\"\n}",
        &["spec/unexpected-label 1:12 \"x\""],
    ),
    ("capability {}", &["spec/missing-field 1:1 capability", "spec/missing-field 1:1 capability"]),
    (
        "capability { Access_Mode = \"x\" }",
        &[
            "spec/unknown-field 1:14 Access_Mode",
            "spec/unknown-access-mode 1:28 \"x\"",
            "spec/missing-field 1:1 capability",
        ],
    ),
    ("capability = 1", &["spec/wrong-type 1:14 1"]),
    ("mount_options {}\nmount_options {}", &["spec/duplicate-field 2:1 mount_options"]),
    ("mount_options { mount_flags = \"ro\" }", &["spec/wrong-type 1:31 ****"]),
    ("mount_options { flags = [] }", &["spec/unknown-field 1:17 flags"]),
    ("parameters { a = { b = 1 } }", &["spec/wrong-type 1:18 { b = 1 }"]),
    ("parameters { a = [1] }", &["spec/wrong-type 1:18 [1]"]),
    ("parameters { a = \"1\", a = \"2\" }", &["spec/duplicate-field 1:23 a"]),
    ("parameters { a = \"1\" }\nparameters { a = \"2\" }", &["spec/duplicate-field 2:14 a"]),
    ("parameters = \"x\"", &["spec/wrong-type 1:14 \"x\""]),
    ("parameters \"x\" {}", &["spec/unexpected-label 1:12 \"x\""]),
    ("topology_request { zone = \"a\" }", &["spec/unknown-field 1:20 zone"]),
    ("topology_request { required { topology {} } }", &["spec/empty-topology 1:31 topology"]),
    (
        "topology_request { required { topology { segments {} } } }",
        &["spec/empty-topology 1:42 segments"],
    ),
    (
        "topology_request { required { topology { zone = \"a\" } } }",
        &["spec/unknown-field 1:42 zone"],
    ),
    (
        "topology_request { required { topology \"x\" { segments { a = 1 } } } }",
        &["spec/unexpected-label 1:40 \"x\""],
    ),
    ("topology_request { required { zone = \"a\" } }", &["spec/unknown-field 1:31 zone"]),
    (
        "topology_request { preferred { topology { segments { a = 1, a = 2 } } } }",
        &["spec/duplicate-field 1:61 a"],
    ),
];

#[test]
fn fields_that_nomad_would_drop_are_refused() {
    for (lines, expected) in DROPPED {
        assert_eq!(&messages(&hcl(lines), Syntax::Hcl), expected, "{lines}");
    }
}

#[test]
fn missing_fields_are_reported_together() {
    assert_eq!(
        messages("name = \"x\"", Syntax::Hcl),
        [
            "spec/missing-field 1:1 name = \"x\"",
            "spec/missing-field 1:1 name = \"x\"",
            "spec/missing-field 1:1 name = \"x\"",
        ],
        "type, id, plugin_id; capabilities are a rule of validate"
    );
    assert_eq!(
        messages("volume \"a\" {\n  plugin_id = \"\"\n}", Syntax::Hcl),
        ["spec/missing-field 1:1 volume \"a\"", "spec/missing-field 2:15 \"\""]
    );
}

#[test]
fn suggestions_name_a_similar_field() {
    for (lines, expected) in [
        ("extrnal_id = \"x\"", "external_id"),
        ("externalId = \"x\"", "external_id"),
        ("RequestedCapabilities {}", "capability"),
        ("mount_option {}", "mount_options"),
        ("capability { acces_mode = 1 }", "access_mode"),
        ("mount_options { fstype = \"x\" }", "fs_type"),
        ("mount_options { flags = [] }", "mount_flags"),
        ("topology_request { require {} }", "required"),
        ("topology_request { required { topo {} } }", "topology"),
        ("topology_request { required { topology { zone {} } } }", "segments"),
    ] {
        let read = read(&hcl(lines), Syntax::Hcl);
        let first = read.diagnostics.iter().next().expect("an error");
        let replacement = first.replacement.as_ref().map(|replacement| replacement.text.as_str());
        assert_eq!(replacement, Some(expected), "{lines}: {first:?}");
    }
}

#[test]
fn the_help_names_the_block_of_a_misplaced_field() {
    for (lines, expected) in [
        ("access_mode = 1", "write `access_mode` under `capability`"),
        ("attachement_mode = 1", "write `attachment_mode` under `capability`"),
        ("fs_type = 1", "write `fs_type` under `mount_options`"),
    ] {
        let read = read(&hcl(lines), Syntax::Hcl);
        let first = read.diagnostics.iter().next().expect("an error");
        assert_eq!(first.help, [expected], "{lines}");
    }
}

#[test]
fn a_similar_field_that_is_not_possible_is_named_without_a_replacement() {
    for (lines, expected) in [
        ("pluginId = \"x\"", "no effect: `plugin_id` is given too"),
        (
            "RequestedCapabilities = 1",
            "no effect; `capability` is similar, and takes a block, repeatable",
        ),
        ("secret = \"x\"", "no effect; `secrets` is similar, and takes a map of texts"),
        ("read_onli = true", "no effect"),
        ("topology_request { required { topology { zone = 1 } } }", "expected `segments`"),
        ("topology_request { required { zone = 1 } }", "expected `topology` or `segments`"),
    ] {
        let read = read(&hcl(lines), Syntax::Hcl);
        let first = read.diagnostics.iter().next().expect("an error");
        assert_eq!(first.labels[0].text, expected, "{lines}: {first:?}");
        assert_eq!(first.replacement, None, "{lines}");
    }
}

/// The field is not reported as missing, and its value is checked.
#[test]
fn a_misspelt_key_is_read_as_a_similar_field() {
    let text = "id = \"a\"\ntyp = \"csi\"\nplugin = \"p\"\ncapabilty {\n  acess_mode = \"single-node-writer\"\n  attachment_mode = \"blok\"\n}\n";
    let expected = [
        "spec/unknown-field 2:1 typ",
        "spec/unknown-field 3:1 plugin",
        "spec/unknown-field 4:1 capabilty",
        "spec/unknown-field 5:3 acess_mode",
        "spec/unknown-attachment-mode 6:21 \"blok\"",
    ];
    assert_eq!(messages(text, Syntax::Hcl), expected);
    let both = hcl("plugn_id = [1]");
    assert_eq!(messages(&both, Syntax::Hcl), ["spec/unknown-field 1:1 plugn_id"]);
    let source = hcl("source = \"a\"").replace("id = \"a\"", "");
    assert_eq!(messages(&source, Syntax::Hcl), ["spec/unknown-field 1:1 source"]);
}

#[test]
fn a_file_without_volume_fields_reports_no_missing_fields() {
    for (text, syntax, expected, meant) in [
        ("volumes:\n  a: {type: csi}", Syntax::Yaml, "1:1 volumes", Some("volume")),
        (r#"{"volumes": [{"id": "a"}]}"#, Syntax::Json, r#"1:2 "volumes""#, None),
        ("resource { volume = 1 }", Syntax::Hcl, "1:1 resource", None),
        ("size = 1", Syntax::Hcl, "1:1 size", None),
    ] {
        assert_eq!(messages(text, syntax), [format!("spec/unknown-field {expected}")]);
        let read = read(text, syntax);
        let messages = read.diagnostics.iter().next().expect("an error");
        let replacement = messages.replacement.as_ref().map(|new| new.text.as_str());
        assert_eq!(replacement, meant, "{text}");
    }
}

#[test]
fn a_volume_without_a_name_is_reported_once() {
    let yaml = "volume:\n  - type: csi\n    id: a\n  - id: b\n    type: csi\n";
    let expected = ["spec/wrong-type 2:5 type", "spec/wrong-type 4:5 id"];
    assert_eq!(messages(yaml, Syntax::Yaml), expected);
    let hcl = format!("volume {{\n{FIELDS}}}");
    assert_eq!(messages(&hcl, Syntax::Hcl), ["spec/wrong-type 1:1 volume"]);
}

/// A comment is allowed wherever a key is.
#[test]
fn json_allows_comments_between_volumes() {
    let fields = json("\"name\": \"n\"");
    let text = format!("{{\"volume\": {{\"//\": \"comment\", \"x\": {fields}}}}}");
    assert_eq!(ids(&text, Syntax::Json), ["a"]);
}

/// One mistake is reported once: no rule checks an unreadable field.
#[test]
fn unreadable_fields_are_not_reported_as_missing() {
    let text = hcl("name = f()\n").replace("id = \"a\"", "id = [1]");
    let text = text.replace("plugin_id = \"p\"", "plugin_id = x");
    let read = read(&text, Syntax::Hcl);
    let mut diagnostics = read.diagnostics;
    validate(&read.specs, Purpose::Create, &mut diagnostics);
    let codes: Vec<_> = diagnostics.iter().map(|messages| messages.code.as_str()).collect();
    assert_eq!(codes, ["spec/expression", "spec/expression", "spec/wrong-type"]);
}

/// The template of Nomad up to 1.9 has `single-node-reader`, which is not a CSI access mode.
/// B84: a mode outside the known set is invalid in a specification.
#[test]
fn unknown_modes_are_refused_with_a_suggestion() {
    for (mode, expected) in [
        ("single-node-reader", Some("single-node-reader-only")),
        ("single-node-writter", Some("single-node-writer")),
        ("SINGLE_NODE_WRITER", Some("single-node-writer")),
        ("multi-node-reader", Some("multi-node-reader-only")),
        ("multi-node-multi-write", Some("multi-node-multi-writer")),
        ("single-node-single-writer", Some("single-node-writer")),
        ("ReadWriteOnce", Some("single-node-writer")),
        ("ReadWriteMany", Some("multi-node-multi-writer")),
        ("rox", Some("multi-node-reader-only")),
        ("whatever", None),
        ("''", None),
    ] {
        let text = format!(
            "id: a\ntype: csi\nplugin_id: p\ncapability: {{access_mode: {mode}, attachment_mode: file-system}}"
        );
        let read = read(&text, Syntax::Yaml);
        let messages: Vec<_> = read.diagnostics.iter().collect();
        assert_eq!(messages.len(), 1, "{mode}: {messages:?}");
        assert_eq!(messages[0].code.as_str(), "spec/unknown-access-mode");
        let replacement =
            messages[0].replacement.as_ref().map(|replacement| replacement.text.as_str());
        assert_eq!(replacement, expected, "{mode}");
        assert!(read.specs[0].request.capabilities.is_empty());
    }
    for (mode, expected) in [("filesystem", "\"file-system\""), ("block", "\"block-device\"")] {
        let text = format!(
            "id = \"a\" type = \"csi\" plugin_id = \"p\" capability {{ access_mode = \"single-node-writer\" attachment_mode = \"{mode}\" }}"
        );
        let read = read(&text, Syntax::Hcl);
        let first = read.diagnostics.iter().next().expect("an error");
        assert_eq!(first.code.as_str(), "spec/unknown-attachment-mode");
        assert_eq!(first.replacement.as_ref().map(|it| it.text.as_str()), Some(expected));
    }
}

#[test]
fn only_csi_volumes_are_accepted() {
    assert_eq!(messages(&hcl("").replace("\"csi\"", "\"CSI\""), Syntax::Hcl), Vec::<String>::new());
    let host = read(&hcl("wrong = 1").replace("\"csi\"", "\"Host\""), Syntax::Hcl);
    let messages: Vec<_> =
        host.diagnostics.iter().map(|messages| messages.message.as_str()).collect();
    assert_eq!(messages, ["host volumes are not supported: this program manages CSI volumes"]);
    assert!(host.specs.is_empty());
    let other = read(&hcl("").replace("\"csi\"", "\"cis\""), Syntax::Hcl);
    let first = other.diagnostics.iter().next().expect("an error");
    assert_eq!(first.message, "unknown volume type `cis`");
}

#[test]
fn the_two_forms_do_not_mix() {
    let text = format!("namespace = \"n\"\nvolume \"a\" {{\n{FIELDS}}}");
    assert_eq!(messages(&text, Syntax::Hcl), ["spec/mixed-forms 1:1 namespace"]);
    let twice = format!("volume \"a\" {{\n{FIELDS}}}\nvolume \"a\" {{\nsource = \"b\"\n{FIELDS}}}");
    assert_eq!(messages(&twice, Syntax::Hcl), ["spec/duplicate-field 9:1 volume \"a\""]);
    let labels = format!("volume \"a\" \"b\" {{\n{FIELDS}}}");
    assert_eq!(messages(&labels, Syntax::Hcl), ["spec/unexpected-label 1:12 \"b\""]);
    let both = format!("volume \"a\" {{\nid = \"x\"\nsource = \"y\"\n{FIELDS}}}");
    assert_eq!(messages(&both, Syntax::Hcl), ["spec/duplicate-field 3:1 source"]);
    assert_eq!(messages("volume:\n  a: 3", Syntax::Yaml), ["spec/wrong-type 2:3 a"]);
}

#[test]
fn nested_config_is_refused_with_a_correction() {
    let text = format!(
        "volume \"a\" {{\n  config {{\n    source    = \"data\"\n    # why\n    read_only = true\n  }}\n{FIELDS}}}"
    );
    let hcl = read(&text, Syntax::Hcl);
    let first = hcl.diagnostics.iter().next().expect("an error");
    assert_eq!(first.code.as_str(), "spec/nested-config");
    let replacement = first.replacement.as_ref().expect("corrected lines");
    assert_eq!(hcl.sources.location(replacement.span).line, 2);
    assert_eq!(replacement.text, "source    = \"data\"\n  # why\n  read_only = true");
    let mut fixed = text.clone();
    fixed.replace_range(replacement.span.range(), &replacement.text);
    assert_eq!(ids(&fixed, Syntax::Hcl), ["data"]);

    let text = "volume:\n  a:\n    type: csi\n    plugin_id: p\n    config:\n      source: data\n      name: n\n    capability: {access_mode: single-node-writer, attachment_mode: file-system}\n";
    let yaml = read(text, Syntax::Yaml);
    let first = yaml.diagnostics.iter().next().expect("an error");
    let replacement = first.replacement.as_ref().expect("corrected lines");
    let mut fixed = text.to_owned();
    fixed.replace_range(replacement.span.range(), &replacement.text);
    assert_eq!(ids(&fixed, Syntax::Yaml), ["data"]);

    let text = "volume:\n  a:\n    type: csi\n    plugin_id: p\n    config:\n      source: data\n      mount_options:\n        fs_type: ext4\n    capability: {access_mode: single-node-writer, attachment_mode: file-system}\n";
    let yaml = read(text, Syntax::Yaml);
    let first = yaml.diagnostics.iter().next().expect("an error");
    let replacement = first.replacement.as_ref().expect("corrected lines");
    let expected = "source: data\n    mount_options:\n      fs_type: ext4";
    assert_eq!(replacement.text, expected);

    let text = r#"{"volume": {"a": {"type": "csi", "plugin_id": "p", "config": {"source": "data"}, "capability": {"access_mode": "single-node-writer", "attachment_mode": "file-system"}}}}"#;
    let json = read(text, Syntax::Json);
    let first = json.diagnostics.iter().next().expect("an error");
    let replacement = first.replacement.as_ref().expect("corrected lines");
    let mut fixed = text.to_owned();
    fixed.replace_range(replacement.span.range(), &replacement.text);
    assert_eq!(ids(&fixed, Syntax::Json), ["data"]);
}

/// A correction quotes the file, so none is offered if it would quote a secret.
#[test]
fn nested_config_with_secrets_gets_no_correction() {
    let text = format!("volume \"a\" {{\nconfig {{ secrets {{ a = \"hunter2\" }} }}\n{FIELDS}}}");
    let read = read(&text, Syntax::Hcl);
    let first = read.diagnostics.iter().next().expect("an error");
    assert_eq!(first.code.as_str(), "spec/nested-config");
    assert_eq!(first.replacement, None);
}

/// Repeated maps are merged, and an empty block differs from a missing one.
#[test]
fn maps_and_blocks_mean_what_they_mean_to_nomad() {
    let text = hcl(
        "parameters { a = \"1\" }\nparameters = { b = 2 }\nsecrets {}\nmount_options {}\ntopology_request {}",
    );
    let (specs, messages) = read_as(&text, Syntax::Hcl);
    assert_eq!(messages, Vec::<String>::new());
    let request = &specs[0].request;
    let parameters: Vec<_> = request.parameters.iter().flatten().collect();
    assert_eq!(parameters.len(), 2);
    assert!(request.secrets.as_ref().is_some_and(nomad_csi_model::SecretRefs::is_empty));
    assert_eq!(request.mount_options, Some(nomad_csi_model::MountOptions::default()));
    assert_eq!(request.topology_request, Some(TopologyRequest::default()));
    assert_eq!(request.context, None);
    let (specs, _) = read_as(&hcl("capacity_min = \"\"\ncapacity_max = 010"), Syntax::Hcl);
    let capacity = specs[0].request.capacity;
    assert_eq!((capacity.min.get(), capacity.max.get()), (0, 10), "sizes are read as written");
    let (specs, _) = read_as(
        &hcl("mount_options { fs_type = 1.10 mount_flags = [1.10, true,] mount_flags = [\"x\"] }"),
        Syntax::Hcl,
    );
    let options = specs[0].request.mount_options.as_ref().expect("mount options are set");
    assert_eq!(options.fs_type, "1.10");
    assert_eq!(options.mount_flags, ["1.10", "true", "x"]);
    assert_eq!(specs[0].request.capacity, CapacityRange::default());
}

fn place(segments: &[(&str, &str)]) -> Topology {
    Topology { segments: segments.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect() }
}

/// No part of any shape is lost.
#[test]
fn topologies_are_complete_in_every_shape() {
    let (a, b) = (place(&[("zone", "a")]), place(&[("rack", "1.10"), ("zone", "b")]));
    let hcl_a = "topology { segments { zone = \"a\" } }";
    let hcl_b = "topology { segments { zone = \"b\", rack = 1.10 } }";
    let json_a = r#"{"segments": {"zone": "a"}}"#;
    let json_b = r#"{"segments": {"zone": "b", "rack": 1.10}}"#;
    let shapes = [
        (
            hcl(&format!(
                "topology_request {{ required {{ {hcl_a} {hcl_b} }} preferred {{ {hcl_a} }} }}"
            )),
            Syntax::Hcl,
        ),
        (
            hcl(&format!(
                "topology_request = {{ required = {{ {hcl_a} {hcl_b} }} preferred = {{ {hcl_a} }} }}"
            )),
            Syntax::Hcl,
        ),
        (
            hcl(&format!(
                "topology_request {{\nrequired {{ {hcl_a} }}\nrequired {{ {hcl_b} }}\npreferred {{ {hcl_a} }} }}"
            )),
            Syntax::Hcl,
        ),
        (
            hcl(&format!(
                "topology_request {{ required {{ {hcl_a} {hcl_b} }} }}\ntopology_request {{ preferred {{ {hcl_a} }} }}"
            )),
            Syntax::Hcl,
        ),
        (
            hcl(&format!(
                "topology_request {{ required {{ topology {{ segments {{ zone = \"a\" }}\nsegments {{ zone = \"b\" rack = 1.10 }} }} }} preferred {{ {hcl_a} }} }}"
            )),
            Syntax::Hcl,
        ),
        (
            json(&format!(
                r#""topology_request": {{"required": [{{"topology": [{json_a}, {json_b}]}}], "preferred": [{{"topology": {json_a}}}]}}"#
            )),
            Syntax::Json,
        ),
        (
            json(&format!(
                r#""topology_request": {{"required": [{{"topology": {json_a}}}, {{"topology": {json_b}}}], "preferred": {{"topology": {json_a}}}}}"#
            )),
            Syntax::Json,
        ),
        (
            json(&format!(
                r#""topology_request": {{"required": {{"topology": [{json_a}, {json_b}]}}, "preferred": [{json_a}]}}"#
            )),
            Syntax::Json,
        ),
        (
            json(&format!(
                r#""topology_request": {{"required": [{json_a}, {json_b}], "preferred": [{json_a}]}}"#
            )),
            Syntax::Json,
        ),
        (
            json(&format!(
                r#""topology_request": [{{"required": [{json_a}, {json_b}]}}, {{"preferred": [{json_a}]}}]"#
            )),
            Syntax::Json,
        ),
        (
            json(
                r#""topology_request": {"required": [{"topology": {"segments": [{"zone": "a"}, {"zone": "b", "rack": 1.10}]}}], "preferred": [{"segments": {"zone": "a"}}]}"#,
            ),
            Syntax::Json,
        ),
        (
            yaml(
                "topology_request:\n  required:\n    - segments: {zone: a}\n    - segments:\n        zone: b\n        rack: 1.10\n  preferred:\n    segments: {zone: a}",
            ),
            Syntax::Yaml,
        ),
    ];
    for (text, syntax) in shapes {
        let (specs, messages) = read_as(&text, syntax);
        assert_eq!(messages, Vec::<String>::new(), "{text}");
        let expected =
            TopologyRequest { required: vec![a.clone(), b.clone()], preferred: vec![a.clone()] };
        assert_eq!(specs[0].request.topology_request, Some(expected), "{text}");
    }
}

/// Extensions of JSON with which Nomad loses nothing give a warning.
#[test]
fn json_that_only_nomad_accepts_gives_a_warning() {
    let capability = r#"{"access_mode": "single-node-writer", "attachment_mode": "file-system"}"#;
    for text in [
        format!(r#"{{"id": "a", "type": "csi", "plugin_id": "p", "capability": [{capability},]}}"#),
        format!(r#"{{"id": "a", "type": "csi", "plugin_id": "p", "capability": {capability},}}"#),
        format!(
            r#"{{"id": "a", "type": "csi", "plugin_id": "p", "capability": {capability}, "secrets": {{"a": "1"}}, "secrets": {{"b": "2"}}}}"#
        ),
        format!(
            r#"{{"id": "a", "type": "csi", "plugin_id": "p", "capability": {capability}, "mount_options": {{"mount_flags": ["a" "b"]}}}}"#
        ),
    ] {
        let (specs, messages) = read_as(&text, Syntax::Json);
        assert_eq!(messages, ["?spec/lenient-json"], "{text}");
        assert_eq!(specs[0].request.capabilities.len(), 1, "{text}");
    }
    let twice = r#"{"id": "a", "id": "b", "type": "csi", "plugin_id": "p"}"#;
    assert_eq!(messages(twice, Syntax::Json), ["spec/duplicate-field 1:13 \"id\""]);
}

#[test]
fn all_errors_of_a_file_are_reported_together() {
    let text = "id = \"a\"\nnam = \"x\"\ncapacity_min = \"10XB\"\ncapability {\n  access_mode = \"rw\"\n  attachment_mode = \"disk\"\n}\nparameters { a = [] }\n";
    assert_eq!(
        messages(text, Syntax::Hcl),
        [
            "spec/unknown-field 2:1 nam",
            "spec/missing-field 1:1 id = \"a\"",
            "spec/missing-field 1:1 id = \"a\"",
            "spec/unknown-access-mode 5:17 \"rw\"",
            "spec/unknown-attachment-mode 6:21 \"disk\"",
            "spec/invalid-size 3:16 \"10XB\"",
            "spec/wrong-type 8:18 []",
        ]
    );
}
