//! A volume request to a specification that reads back as the same request.
//!
//! HCL and JSON are written so that Nomad's own reader takes them for the same, too: `${` is escaped,
//! because the two versions of HCL disagree on it, and topologies in JSON have the one shape of which
//! Nomad loses nothing (`nomad-http-api` 5.6). What is not said is not written; a namespace always
//! is. A secret that is a reference stays one, and a hidden value that is `unknown` is written so. **Secrets that stand in the specification are written
//! in the clear**: whoever shows the text takes them out of the request before.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::syntax::Syntax;
use super::tree::UNKNOWN;
use crate::model::{Bytes, HiddenField, MountOptions, SecretRef, SetName, Topology, WantedRequest};

/// A volume to be written, with what a specification says beside the request.
#[derive(Clone, Debug)]
pub struct Written {
    /// What a server is sent.
    pub request: WantedRequest,
    /// Hidden values that nobody knows.
    pub unknown: BTreeSet<HiddenField>,
    /// Whether it is kept from being removed, if that is said.
    pub protect: Option<bool>,
    /// Sentences for whoever reads the file; JSON has no place for them.
    pub remarks: Vec<String>,
}

impl Written {
    /// What is sent, and nothing beside it.
    pub fn new(request: WantedRequest) -> Self {
        Self {
            request,
            unknown: BTreeSet::new(),
            protect: None,
            remarks: vec![],
        }
    }

    fn is_unknown(&self, field: HiddenField) -> bool {
        self.unknown.contains(&field)
    }
}

/// Writes one volume as a flat file.
pub fn encode(request: &WantedRequest, syntax: Syntax) -> String {
    encode_file(&Written::new(request.clone()), None, syntax)
}

/// Writes one volume as a flat file, with its set if it has one.
pub fn encode_file(volume: &Written, set: Option<&SetName>, syntax: Syntax) -> String {
    let flat = |places| {
        let mut fields = document(volume, places);
        if let (Some(set), Value::Object(fields)) = (set, &mut fields) {
            fields.insert("set".to_owned(), set.as_str().into());
        }
        fields
    };
    match syntax {
        Syntax::Hcl => {
            let mut out = Hcl::default();
            out.set(set);
            out.volume(volume, None);
            out.text
        }
        Syntax::Json => format!("{:#}\n", flat(json_places)),
        Syntax::Yaml => comments(&[volume]) + &yaml(&flat(yaml_places)),
    }
}

/// Writes any number of volumes into one file, each in a block.
pub fn encode_all(volumes: &[Written], set: Option<&SetName>, syntax: Syntax) -> String {
    let labels = labels(volumes);
    let all = |places: fn(&[Topology]) -> Value| {
        let blocks = labels.iter().zip(volumes);
        let blocks: Map<_, _> = blocks
            .map(|(label, volume)| (label.clone(), document(volume, places)))
            .collect();
        let mut file = Map::new();
        if let Some(set) = set {
            file.insert("set".to_owned(), set.as_str().into());
        }
        file.insert("volume".to_owned(), blocks.into());
        Value::from(file)
    };
    match syntax {
        Syntax::Hcl => {
            let mut out = Hcl::default();
            out.set(set);
            for (label, volume) in labels.iter().zip(volumes) {
                out.volume(volume, Some(label));
            }
            out.text.trim_start().to_owned()
        }
        Syntax::Json => format!("{:#}\n", all(json_places)),
        Syntax::Yaml => {
            let volumes: Vec<_> = volumes.iter().collect();
            comments(&volumes) + &yaml(&all(yaml_places))
        }
    }
}

/// What the volumes' blocks are called: their IDs, and where one is taken, the namespace before it.
fn labels(volumes: &[Written]) -> Vec<String> {
    let mut labels: Vec<String> = vec![];
    let mut taken = BTreeSet::new();
    for Written { request, .. } in volumes {
        let mut label = request.id.to_string();
        while !taken.insert(label.clone()) {
            label = format!("{}-{label}", request.namespace);
        }
        labels.push(label);
    }
    labels
}

fn comments(volumes: &[&Written]) -> String {
    let of = |volume: &&Written| {
        let key = volume.request.key();
        let line = move |remark: &String| format!("# {}\n", one_line(&format!("{key}: {remark}")));
        volume.remarks.iter().map(line).collect::<String>()
    };
    volumes.iter().map(of).collect()
}

/// A comment ends with its line.
fn one_line(text: &str) -> String {
    text.replace(
        |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{85}'),
        " ",
    )
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

fn document(volume: &Written, places: fn(&[Topology]) -> Value) -> Value {
    let request = &volume.request;
    let unknown = || json!({ UNKNOWN: true });
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
        if volume.is_unknown(HiddenField::MountFlags) {
            block.insert("mount_flags".to_owned(), unknown());
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
    if volume.is_unknown(HiddenField::Secrets) {
        document.insert("secrets".to_owned(), unknown());
    }
    if let Some(protect) = volume.protect {
        document.insert("protect".to_owned(), protect.into());
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

/// HCL being written.
#[derive(Default)]
struct Hcl {
    text: String,
    depth: usize,
    /// The depth at which blocks stand apart.
    paragraphs: usize,
}

impl Hcl {
    fn set(&mut self, set: Option<&SetName>) {
        if let Some(set) = set {
            self.attributes([("set", set.as_str())]);
            self.text.push('\n');
        }
    }

    /// A volume: in a block of that label, or as the file itself.
    fn volume(&mut self, volume: &Written, label: Option<&str>) {
        if label.is_some() && !self.text.is_empty() && !self.text.ends_with("\n\n") {
            self.text.push('\n');
        }
        for remark in &volume.remarks {
            self.line(&format!("# {}", one_line(remark)));
        }
        match label {
            None => self.fields(volume, None),
            Some(label) => {
                self.line(&format!("volume {} {{", quoted(label)));
                self.depth += 1;
                self.paragraphs = self.depth;
                self.fields(volume, Some(label));
                self.depth -= 1;
                self.line("}");
            }
        }
    }

    fn fields(&mut self, volume: &Written, label: Option<&str>) {
        let request = &volume.request;
        let texts = texts(request).into_iter();
        let texts: Vec<_> = texts
            .filter(|(key, text)| *key != "id" || Some(text.as_str()) != label)
            .map(|(key, text)| (key, quoted(&text)))
            .chain(
                volume
                    .protect
                    .map(|protect| ("protect", protect.to_string())),
            )
            .collect();
        self.values(texts.iter().map(|(key, text)| (*key, text.clone())));
        for capability in &request.capabilities {
            self.block("capability", |out| {
                out.attributes([
                    ("access_mode", capability.access_mode.as_str()),
                    ("attachment_mode", capability.attachment_mode.as_str()),
                ]);
            });
        }
        if let Some(options) = &request.mount_options {
            self.mount_options(options, volume.is_unknown(HiddenField::MountFlags));
        }
        if let Some(request) = &request.topology_request {
            self.block("topology_request", |out| {
                out.places("required", &request.required);
                out.places("preferred", &request.preferred);
            });
        }
        for (key, map) in maps(request) {
            self.block(key, |out| {
                out.values(map.into_iter().map(|(key, entry)| (key, entry.hcl())));
            });
        }
        if volume.is_unknown(HiddenField::Secrets) {
            self.text.push('\n');
            self.line(&format!("secrets = {UNKNOWN}"));
        }
    }

    fn mount_options(&mut self, options: &MountOptions, unknown_flags: bool) {
        self.block("mount_options", |out| {
            if !options.fs_type.is_empty() {
                out.attributes([("fs_type", options.fs_type.as_str())]);
            }
            if unknown_flags {
                out.line(&format!("mount_flags = {UNKNOWN}"));
            } else if !options.mount_flags.is_empty() {
                let flags = options.mount_flags.iter().map(|flag| quoted(flag));
                let flags: Vec<_> = flags.collect();
                out.line(&format!("mount_flags = [{}]", flags.join(", ")));
            }
        });
    }

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
        if self.depth == self.paragraphs {
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
