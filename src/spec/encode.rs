//! A volume request to a specification that reads back as the same request.
//!
//! HCL and JSON are written so that Nomad's own reader takes them for the same, too: `${` is escaped,
//! because the two versions of HCL disagree on it, and topologies in JSON have the one shape of which
//! Nomad loses nothing (`nomad-http-api` 5.6). What is not said is not written; a namespace always
//! is. A secret that is a reference stays one. **Secrets that stand in the specification are written
//! in the clear**: whoever shows the text takes them out of the request before.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::syntax::Syntax;
use crate::model::{Bytes, SecretRef, Topology, WantedRequest};

/// Writes one volume as a flat file.
pub fn encode(request: &WantedRequest, syntax: Syntax) -> String {
    match syntax {
        Syntax::Hcl => hcl(request),
        Syntax::Json => format!("{:#}\n", document(request, json_places)),
        Syntax::Yaml => yaml(&document(request, yaml_places)),
    }
}

/// The fields that are one text, in the order in which people read them.
fn texts(request: &WantedRequest) -> Vec<(&'static str, String)> {
    let size = |size: Bytes| (!size.is_zero()).then(|| size.to_string());
    let fields = [
        ("id", Some(request.id.to_string())),
        ("namespace", Some(request.namespace.to_string())),
        ("name", request.name.clone()),
        ("type", Some("csi".to_owned())),
        ("plugin_id", Some(request.plugin_id.to_string())),
        (
            "external_id",
            request.external_id.as_ref().map(ToString::to_string),
        ),
        ("snapshot_id", request.snapshot_id.clone()),
        ("clone_id", request.clone_id.clone()),
        ("capacity_min", size(request.capacity.min)),
        ("capacity_max", size(request.capacity.max)),
    ];
    let said = |(key, text): (&'static str, Option<String>)| text.map(|text| (key, text));
    fields.into_iter().filter_map(said).collect()
}

/// What stands under a key of a map.
#[derive(Clone, Copy)]
enum Entry<'r> {
    Text(&'r str),
    /// A reference: its source and what that is asked for.
    Reference(&'static str, &'r str),
}

impl<'r> From<&'r SecretRef> for Entry<'r> {
    fn from(reference: &'r SecretRef) -> Self {
        match reference {
            SecretRef::Literal(value) => Self::Text(value),
            SecretRef::Env(name) => Self::Reference("env", name),
            SecretRef::File(path) => Self::Reference("file", path),
        }
    }
}

impl Entry<'_> {
    fn json(self) -> Value {
        match self {
            Self::Text(text) => text.into(),
            Self::Reference(source, argument) => json!({ source: argument }),
        }
    }

    fn hcl(self) -> String {
        match self {
            Self::Text(text) => quoted(text),
            Self::Reference(source, argument) => format!("{source}({})", quoted(argument)),
        }
    }
}

/// The fields that are keys with texts, or with references.
fn maps(request: &WantedRequest) -> Vec<(&'static str, BTreeMap<&str, Entry<'_>>)> {
    let secrets = request.secrets.as_ref().map(|secrets| {
        let pairs = secrets.iter().map(|(key, from)| (key, Entry::from(from)));
        pairs.collect()
    });
    let [parameters, context] = [&request.parameters, &request.context].map(|map| {
        let pairs = map
            .as_ref()?
            .iter()
            .map(|(key, value)| (key.as_str(), Entry::Text(value)));
        Some(pairs.collect())
    });
    let fields = [
        ("secrets", secrets),
        ("parameters", parameters),
        ("context", context),
    ];
    fields
        .into_iter()
        .filter_map(|(key, map)| map.map(|map| (key, map)))
        .collect()
}

fn document(request: &WantedRequest, places: fn(&[Topology]) -> Value) -> Value {
    let mut document = Map::new();
    for (key, text) in texts(request) {
        document.insert(key.to_owned(), text.into());
    }
    let capabilities = request.capabilities.iter().map(|capability| {
        json!({
            "access_mode": capability.access_mode.as_str(),
            "attachment_mode": capability.attachment_mode.as_str(),
        })
    });
    if !request.capabilities.is_empty() {
        document.insert("capability".to_owned(), capabilities.collect());
    }
    if let Some(options) = &request.mount_options {
        let mut block = Map::new();
        if !options.fs_type.is_empty() {
            block.insert("fs_type".to_owned(), options.fs_type.clone().into());
        }
        if !options.mount_flags.is_empty() {
            block.insert("mount_flags".to_owned(), options.mount_flags.clone().into());
        }
        document.insert("mount_options".to_owned(), block.into());
    }
    if let Some(request) = &request.topology_request {
        let mut block = Map::new();
        for (key, topologies) in [
            ("required", &request.required),
            ("preferred", &request.preferred),
        ] {
            if !topologies.is_empty() {
                block.insert(key.to_owned(), places(topologies));
            }
        }
        document.insert("topology_request".to_owned(), block.into());
    }
    for (key, map) in maps(request) {
        let pairs = map.into_iter();
        let object: Map<_, _> = pairs
            .map(|(key, entry)| (key.to_owned(), entry.json()))
            .collect();
        document.insert(key.to_owned(), object.into());
    }
    document.into()
}

fn json_places(topologies: &[Topology]) -> Value {
    json!([{ "topology": yaml_places(topologies) }])
}

fn yaml_places(topologies: &[Topology]) -> Value {
    let places = topologies
        .iter()
        .map(|topology| json!({ "segments": topology.segments }));
    places.collect()
}

/// YAML of a document. A value of texts, lists and objects always has one.
pub(super) fn yaml(document: &Value) -> String {
    serde_yaml::to_string(document).unwrap_or_else(|_| format!("{document:#}\n"))
}

fn hcl(request: &WantedRequest) -> String {
    let mut out = Hcl::default();
    let texts = texts(request);
    out.attributes(texts.iter().map(|(key, text)| (*key, text.as_str())));
    for capability in &request.capabilities {
        out.block("capability", |out| {
            out.attributes([
                ("access_mode", capability.access_mode.as_str()),
                ("attachment_mode", capability.attachment_mode.as_str()),
            ]);
        });
    }
    if let Some(options) = &request.mount_options {
        out.block("mount_options", |out| {
            if !options.fs_type.is_empty() {
                out.attributes([("fs_type", options.fs_type.as_str())]);
            }
            if !options.mount_flags.is_empty() {
                let flags: Vec<_> = options
                    .mount_flags
                    .iter()
                    .map(|flag| quoted(flag))
                    .collect();
                out.line(&format!("mount_flags = [{}]", flags.join(", ")));
            }
        });
    }
    if let Some(request) = &request.topology_request {
        out.block("topology_request", |out| {
            out.places("required", &request.required);
            out.places("preferred", &request.preferred);
        });
    }
    for (key, map) in maps(request) {
        out.block(key, |out| {
            out.values(map.into_iter().map(|(key, entry)| (key, entry.hcl())));
        });
    }
    out.text
}

/// HCL being written.
#[derive(Default)]
struct Hcl {
    text: String,
    depth: usize,
}

impl Hcl {
    fn line(&mut self, line: &str) {
        let indent = "  ".repeat(self.depth);
        self.text.extend([&indent, line, "\n"]);
    }

    fn attributes<'t>(&mut self, pairs: impl IntoIterator<Item = (&'t str, &'t str)>) {
        self.values(pairs.into_iter().map(|(key, text)| (key, quoted(text))));
    }

    fn values<'t>(&mut self, pairs: impl IntoIterator<Item = (&'t str, String)>) {
        let pairs: Vec<_> = pairs
            .into_iter()
            .map(|(k, value)| (key(k), value))
            .collect();
        let width = pairs
            .iter()
            .map(|(key, _)| key.chars().count())
            .max()
            .unwrap_or_default();
        for (key, value) in pairs {
            self.line(&format!("{key:<width$} = {value}"));
        }
    }

    fn block(&mut self, name: &str, inside: impl FnOnce(&mut Self)) {
        if self.depth == 0 {
            self.text.push('\n');
        }
        self.line(&format!("{name} {{"));
        self.depth += 1;
        inside(self);
        self.depth -= 1;
        self.line("}");
    }

    fn places(&mut self, name: &str, topologies: &[Topology]) {
        if topologies.is_empty() {
            return;
        }
        self.block(name, |out| {
            for topology in topologies {
                out.block("topology", |out| {
                    out.block("segments", |out| {
                        let segments = topology.segments.iter();
                        out.attributes(segments.map(|(key, value)| (key.as_str(), value.as_str())));
                    });
                });
            }
        });
    }
}

/// A key, in quotes where it needs them.
fn key(text: &str) -> String {
    let starts = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if starts && text.chars().all(plain) && !matches!(text, "true" | "false" | "null") {
        text.to_owned()
    } else {
        quoted(text)
    }
}

/// A text in quotes that both versions of HCL read alike.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let opens = matches!(c, '$' | '%') && chars.peek() == Some(&'{');
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            // U+E123 is reserved in Nomad's reader.
            c if c < ' ' || opens || c == '\u{e123}' => {
                out.extend(["\\u".to_owned(), format!("{:04x}", u32::from(c))]);
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
