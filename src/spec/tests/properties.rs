//! Properties of every text and of every request.

use std::collections::{BTreeMap, BTreeSet};

use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::harness::read_as;
use crate::conversion::convert;
use crate::encode::{WritableSpec, encode, encode_all, encode_file, literal, yaml};
use crate::hcl::parse as parse_hcl;
use crate::json::parse as parse_json;
use crate::syntax::Syntax;
use crate::tree::{self, Node, Object, SpannedText};
use crate::volume_spec::VolumeSpec;
use crate::yaml::parse as parse_yaml;
use nomad_csi_model::diagnostic::{Diagnostics, SourceMap};
use nomad_csi_model::{
    AccessMode, AttachmentMode, Bytes, Capability, CapacityRange, ExternalId, HiddenField,
    MountOptions, Namespace, PluginId, Secret, SecretRef, SecretRefs, SetName, Topology,
    TopologyRequest, UnresolvedRequest, VolumeId,
};

/// Texts with a special meaning in some syntax.
const NASTY: &[&str] = &[
    "",
    "no",
    "~",
    "null",
    "true",
    "012",
    "1.10",
    "1e3",
    "0x1F",
    "<<",
    "#",
    "- a",
    "a: b",
    "${x}",
    "%{if}",
    "$${x}",
    "${",
    "}",
    "\"",
    "'",
    "\\",
    "\\n",
    "a\nb",
    " a ",
    "\t",
    "\u{0}",
    "\u{7f}",
    "\u{85}",
    "\u{2028}",
    "\u{feff}x",
    "日本",
    "🦀",
    "*a",
    "&a",
    "!a",
    "@",
    "`",
    "%",
    "|",
    ">",
    "EOF",
    "<<EOF",
    "/*",
    "//",
    "=",
    "[",
    "{",
    ",",
    "?",
    "---",
    "...",
    "\r",
    "\r\n",
    "\u{e123}",
    "1:30",
];

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        proptest::sample::select(NASTY).prop_map(str::to_owned),
        "[a-z0-9._/-]{1,12}",
        "\\PC{0,8}",
        vec(any::<char>(), 0..6).prop_map(|chars| chars.into_iter().collect()),
    ]
}

fn non_empty_text() -> impl Strategy<Value = String> {
    any_text().prop_filter("empty text counts as unset", |text| !text.is_empty())
}

fn text_map() -> impl Strategy<Value = BTreeMap<String, String>> {
    btree_map(any_text(), any_text(), 0..4)
}

fn secret() -> impl Strategy<Value = SecretRef> {
    let argument = || {
        non_empty_text().prop_filter("not a variable or a path", |text| !text.contains(['\0', '=']))
    };
    prop_oneof![
        any_text().prop_map(|value| SecretRef::Literal(Secret::new(value))),
        argument().prop_map(SecretRef::Env),
        argument().prop_map(SecretRef::File),
        (argument(), argument()).prop_map(|(path, key)| SecretRef::NomadVar { path, key }),
    ]
}

fn topologies() -> impl Strategy<Value = Vec<Topology>> {
    let place = btree_map(any_text(), any_text(), 1..3);
    vec(place.prop_map(|segments| Topology { segments }), 0..3)
}

fn capability() -> impl Strategy<Value = Capability> {
    let access = proptest::sample::select(&AccessMode::ALL);
    let attachment = proptest::sample::select(&AttachmentMode::ALL);
    (access, attachment)
        .prop_map(|(access_mode, attachment_mode)| Capability { access_mode, attachment_mode })
}

fn size() -> impl Strategy<Value = Bytes> {
    let bytes = prop_oneof![Just(0), 1..4096_u64, any::<u64>().prop_map(|bytes| bytes >> 1)];
    bytes.prop_map(|bytes| Bytes::new(bytes).unwrap())
}

prop_compose! {
    fn request()(
        id in non_empty_text(),
        namespace in non_empty_text(),
        names in (option::of(non_empty_text()), option::of(non_empty_text())),
        plugin_id in non_empty_text(),
        sources in (option::of(non_empty_text()), option::of(non_empty_text())),
        capabilities in vec(capability(), 0..4),
        sizes in (size(), size()),
        topology in option::of((topologies(), topologies())),
        mount in option::of((any_text(), vec(any_text(), 0..3))),
        secrets in option::of(btree_map(any_text(), secret(), 0..4)),
        maps in (option::of(text_map()), option::of(text_map())),
    ) -> UnresolvedRequest {
        UnresolvedRequest {
            namespace: Namespace::new(namespace),
            id: VolumeId::new(id),
            name: names.0,
            external_id: names.1.map(ExternalId::new),
            plugin_id: PluginId::new(plugin_id),
            capabilities,
            capacity: CapacityRange { min: sizes.0, max: sizes.1 },
            topology_request: topology
                .map(|(required, preferred)| TopologyRequest { required, preferred }),
            clone_id: sources.0,
            snapshot_id: sources.1,
            mount_options: mount
                .map(|(fs_type, mount_flags)| MountOptions { fs_type, mount_flags }),
            secrets: secrets.map(SecretRefs::from_iter),
            parameters: maps.0,
            context: maps.1,
            share: false,
        }
    }
}

prop_compose! {
    /// A volume with the fields that are not part of the request.
    fn writable_spec()(
        mut request in request(),
        secrets in any::<bool>(),
        flags in any::<bool>(),
        protect in option::of(any::<bool>()),
        read_only in option::of(any::<bool>()),
        ignore in vec(proptest::sample::select(vec!["parameters", "mount_options.fs_type", "context"]), 0..3),
        comments in vec(any_text(), 0..2),
    ) -> WritableSpec {
        let mut unknown = BTreeSet::new();
        if secrets {
            request.secrets = None;
            unknown.insert(HiddenField::Secrets);
        }
        if flags {
            request.mount_options.get_or_insert_default().mount_flags.clear();
            unknown.insert(HiddenField::MountFlags);
        }
        let ignore: BTreeSet<&str> = ignore.into_iter().collect();
        let ignore = ignore.into_iter().map(str::to_owned).collect();
        WritableSpec { unknown, protect, read_only, ignore, comments, ..WritableSpec::new(request) }
    }
}

/// Fragments of all three syntaxes, complete and incomplete.
const FRAGMENTS: &[&str] = &[
    "id",
    "volume",
    "secrets",
    "topology_request",
    "required",
    "capability",
    "=",
    ":",
    "{",
    "}",
    "[",
    "]",
    "(",
    ")",
    ",",
    "\n",
    " ",
    "  ",
    "\t",
    "\"",
    "'",
    "\\",
    "${",
    "%{",
    "<<EOF\n",
    "EOF\n",
    "<<-E",
    "#",
    "//",
    "/*",
    "*/",
    "- ",
    "&a ",
    "*a",
    "<<",
    "!!str ",
    "---\n",
    "|",
    ">",
    "true",
    "null",
    "0",
    "010",
    "0x",
    "1e",
    "-",
    ".",
    "1.5",
    "日",
    "🦀",
    "\r\n",
    "\u{0}",
    "\u{feff}",
    "x",
];

fn random_fragments() -> impl Strategy<Value = String> {
    vec(proptest::sample::select(FRAGMENTS), 0..60).prop_map(|fragments| fragments.concat())
}

/// Writes several volumes into one file, in the order of [`Syntax::ALL`].
fn volumes_file(requests: &[UnresolvedRequest]) -> [String; 3] {
    let mut hcl = String::new();
    let mut volumes = vec![];
    for (at, request) in requests.iter().enumerate() {
        let fields = encode(request, Syntax::Hcl);
        hcl.extend([&format!("volume \"v{at}\" {{\n"), &fields, "}\n"]);
        let fields: Value = serde_json::from_str(&encode(request, Syntax::Json)).unwrap();
        volumes.push(json!({ format!("v{at}"): fields }));
    }
    let set = json!({ "volume": volumes });
    [hcl, yaml(&set), set.to_string()]
}

/// Converts what only HCL has to the form of YAML and JSON: labels to keys, references to objects.
fn as_data(mut object: Object<'_>) -> Object<'_> {
    for entry in &mut object.entries {
        let span = entry.value.span;
        for label in entry.labels.drain(..).rev() {
            let inner = std::mem::replace(&mut entry.value, Node::invalid(span));
            let mut outer = Object::default();
            outer.push(label, vec![], inner);
            entry.value = Node::object(outer, span);
        }
        let value = std::mem::replace(&mut entry.value.value, tree::Value::Null);
        entry.value.value = match value {
            tree::Value::Object(inner) => tree::Value::Object(as_data(inner)),
            tree::Value::Reference(reference) => {
                let mut outer = Object::default();
                let text = reference.source.as_str().into();
                let arguments = reference.arguments.into_iter();
                let mut texts: Vec<_> = arguments.map(|text| Node::text(text, span)).collect();
                let argument = match texts.len() {
                    1 => texts.remove(0),
                    _ => Node { value: tree::Value::List(texts), span },
                };
                outer.push(SpannedText { text, span }, vec![], argument);
                tree::Value::Object(outer)
            }
            other => other,
        };
    }
    object
}

/// Requests in files of any syntax, flat or in blocks.
fn check_conversion(request: &UnresolvedRequest, is_flat: bool) -> Result<(), TestCaseError> {
    for syntax in Syntax::ALL {
        let text = match is_flat {
            true => encode(request, syntax),
            false => encode_all(&[WritableSpec::new(request.clone())], None, syntax),
        };
        let (before, messages) = read_as(&text, syntax);
        if messages.iter().any(|message| !message.starts_with('?')) {
            continue;
        }
        for to in Syntax::ALL.into_iter().filter(|to| *to != syntax) {
            let (mut sources, mut problems) = (SourceMap::default(), Diagnostics::default());
            let source = sources.add("file", text.as_str());
            let converted = convert(&mut sources, source, syntax, to, &mut problems);
            let why: Vec<_> = problems.iter().map(|one| one.message.clone()).collect();
            prop_assert!(converted.is_some(), "{syntax} to {to}: {why:?}\n{text}");
            let converted = converted.map(|converted| converted.text).unwrap_or_default();
            let (after, _) = read_as(&converted, to);
            let requests = |specs: &[VolumeSpec]| {
                specs.iter().map(|spec| spec.request.clone()).collect::<Vec<_>>()
            };
            prop_assert_eq!(requests(&after), requests(&before), "{}\n{}", text, converted);
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn a_converted_file_declares_the_same_volumes(request in request(), is_flat in any::<bool>()) {
        // In JSON, a block of this name is a comment, which the conversion refuses.
        prop_assume!(is_flat || request.id.as_str() != "//");
        check_conversion(&request, is_flat)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn encoded_requests_read_back_as_the_same(request in request()) {
        for syntax in Syntax::ALL {
            let text = encode(&request, syntax);
            let (specs, messages) = read_as(&text, syntax);
            prop_assert_eq!(&messages, &Vec::<String>::new(), "{}", text);
            prop_assert_eq!(specs.len(), 1);
            prop_assert_eq!(&specs[0].request, &request, "{}", text);
        }
    }

    /// Includes the fields that are not sent: unknown values, `protect` and `set`.
    #[test]
    fn written_files_read_back_as_the_same(
        mut volumes in vec(writable_spec(), 1..4),
    ) {
        for (at, volume) in volumes.iter_mut().enumerate() {
            volume.request.id = VolumeId::new(format!("v{}", at / 2));
            volume.request.namespace = Namespace::new(format!("n{at}"));
        }
        // Nomad has this field in blocks only.
        volumes[0].read_only = None;
        let set = SetName::parse("web").unwrap();
        for syntax in Syntax::ALL {
            let one = (encode_file(&volumes[0], Some(&set), syntax), &volumes[..1]);
            let all = (encode_all(&volumes, Some(&set), syntax), &volumes[..]);
            for (text, expected) in [one, all] {
                let (specs, messages) = read_as(&text, syntax);
                prop_assert!(messages.is_empty(), "{messages:?} of {text}");
                let read: Vec<_> = specs
                    .iter()
                    .map(|spec| {
                        (&spec.request, &spec.unknown, spec.protect, spec.read_only, &spec.ignore)
                    })
                    .collect();
                let expected: Vec<_> = expected
                    .iter()
                    .map(|of| (&of.request, &of.unknown, of.protect, of.read_only, &of.ignore))
                    .collect();
                prop_assert_eq!(read, expected, "{}", text);
                let sets = specs.iter().filter_map(|spec| spec.set.as_ref());
                prop_assert!(sets.clone().count() > 0 && sets.clone().all(|(name, _)| *name == set));
            }
        }
    }

    /// A labelled block in HCL equals a key in a list in YAML and JSON.
    #[test]
    fn the_three_syntaxes_give_one_tree(requests in vec(request(), 1..4)) {
        let (mut sources, mut messages) = (SourceMap::default(), Diagnostics::default());
        let source = sources.add("test", "");
        let [hcl, yaml_text, json] = volumes_file(&requests);
        let desired = parse_json(&json, source, &mut messages);
        let blocks = parse_hcl(&hcl, source, &mut messages).map(as_data);
        let documents = parse_yaml(&yaml_text, source, &mut messages);
        prop_assert_eq!(&blocks, &desired, "{}", hcl);
        prop_assert_eq!(documents.as_deref(), desired.as_ref().map(std::slice::from_ref), "{}", yaml_text);
        prop_assert!(messages.is_empty(), "{}", json);
        let escaped = literal(serde_json::from_str(&json).unwrap());
        for (text, syntax) in [hcl, yaml(&escaped), escaped.to_string()].iter().zip(Syntax::ALL) {
            let (specs, messages) = read_as(text, syntax);
            prop_assert!(messages.is_empty(), "{:?} of {}", messages, text);
            let read: Vec<_> = specs.into_iter().map(|spec| spec.request).collect();
            prop_assert_eq!(&read, &requests, "{}", text);
        }
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in prop_oneof![random_fragments(), "\\PC*"]) {
        for syntax in Syntax::ALL {
            read_as(&text, syntax);
        }
    }

    #[test]
    fn no_damage_to_a_specification_makes_the_reader_panic(
        request in request(),
        at in any::<proptest::sample::Index>(),
        length in 0..12_usize,
        fragment in proptest::sample::select(FRAGMENTS),
    ) {
        for syntax in Syntax::ALL {
            let text = encode(&request, syntax);
            let chars: Vec<char> = text.chars().collect();
            let start = at.index(chars.len());
            let end = (start + length).min(chars.len());
            let damaged: String =
                chars[..start].iter().copied().chain(fragment.chars()).chain(chars[end..].iter().copied()).collect();
            read_as(&damaged, syntax);
        }
    }
}
