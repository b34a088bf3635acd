//! Writes volume requests as specifications that read back as the same requests.
//!
//! Nomad's own reader gives HCL and JSON the same meaning. `${` is escaped as `\u0024{` in HCL, because
//! HCL1 and HCL2 disagree on `$${`, and as `$${` in blocks of YAML and JSON. Topologies in JSON have the one shape of which Nomad loses
//! nothing. Unset fields are left out, except the namespace. A secret reference stays a reference,
//! and an unknown hidden value is written as `unknown`. **Literal secrets are written in clear
//! text**, unless [`WritableSpec::hides_values`] is set: then they and mount flags are the word `sensitive`, which no
//! reader accepts, so that nothing can be applied with a placeholder.
//!
//! HCL is formatted by hcl-rs. This module adds what hcl-rs has no form for: comments, aligned
//! attributes, and strings that HCL1 and HCL2 read alike.

use std::collections::{BTreeMap, BTreeSet};

use hcl::Identifier;
use hcl::expr::{Expression, FuncCall, TemplateExpr, Variable};
use hcl::format::{Format as _, Formatter};
use hcl::structure::{Attribute, Block, Body, Structure};
use serde_json::{Map, Value, json};

use super::schema::{self, Kind};
use super::syntax::Syntax;
use super::volume_spec::VolumeSpec;
use super::words::{SENSITIVE, UNKNOWN};
use nomad_csi_model::{
    FieldRef, HiddenField, MountOptions, SecretRef, SetName, Topology, UnresolvedRequest,
    VolumeField, escape_json, escape_json_for_yaml, is_invisible,
};

/// A volume to write, with the fields of a specification that are not part of the request.
#[derive(Clone, Debug)]
pub struct WritableSpec {
    /// The request to the server.
    pub request: UnresolvedRequest,
    /// Hidden values that are unknown.
    pub unknown: BTreeSet<HiddenField>,
    /// The `protect` field, if set.
    pub protect: Option<bool>,
    /// The `read_only` field, if set.
    pub read_only: Option<bool>,
    /// The `ignore` field.
    pub ignore: Vec<String>,
    /// True if secrets with values and mount flags are written as `sensitive`.
    pub hides_values: bool,
    /// Comments above the volume. JSON has none.
    pub comments: Vec<String>,
}

impl WritableSpec {
    /// Returns a specification of the request alone.
    pub fn new(request: UnresolvedRequest) -> Self {
        Self {
            request,
            unknown: BTreeSet::new(),
            protect: None,
            read_only: None,
            ignore: vec![],
            hides_values: false,
            comments: vec![],
        }
    }

    /// Returns a volume as its file declares it, without what may be secret.
    pub fn without_values(spec: &VolumeSpec) -> Self {
        Self {
            request: spec.request.clone(),
            unknown: spec.unknown.clone(),
            protect: spec.protect,
            read_only: spec.read_only,
            ignore: spec.ignore.clone(),
            hides_values: true,
            comments: vec![],
        }
    }

    /// Returns the fields of yes or no that are not part of the request.
    fn switches(&self) -> impl Iterator<Item = (&'static str, bool)> {
        let fields = [("read_only", self.read_only), ("protect", self.protect)];
        fields.into_iter().filter_map(|(key, value)| Some((key, value?)))
    }

    fn is_unknown(&self, field: HiddenField) -> bool {
        self.unknown.contains(&field)
    }
}

/// Writes one volume as a flat file.
pub fn encode(request: &UnresolvedRequest, syntax: Syntax) -> String {
    encode_file(&WritableSpec::new(request.clone()), None, syntax)
}

/// Writes one volume as a flat file, with its set if it has one. `read_only` is a field of blocks only.
pub fn encode_file(volume: &WritableSpec, set: Option<&SetName>, syntax: Syntax) -> String {
    let flat = |topologies| {
        let mut fields = document(volume, topologies);
        if let (Some(set), Value::Object(fields)) = (set, &mut fields) {
            fields.insert("set".to_owned(), set.as_str().into());
        }
        fields
    };
    match syntax {
        Syntax::Hcl => hcl_set(set) + &hcl_volume(volume, None),
        Syntax::Json => escape_json(&format!("{:#}\n", flat(json_topologies))),
        Syntax::Yaml => comments(&[volume]) + &yaml(&flat(yaml_topologies)),
    }
}

/// Writes any number of volumes into one file, each in a block.
pub fn encode_all(volumes: &[WritableSpec], set: Option<&SetName>, syntax: Syntax) -> String {
    let labels = labels(volumes);
    let all = |topologies: fn(&[Topology]) -> Value| {
        let blocks = labels.iter().zip(volumes);
        let blocks: Map<_, _> = blocks
            .map(|(label, volume)| (label.clone(), literal(document(volume, topologies))))
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
            let blocks: Vec<_> = labels
                .iter()
                .zip(volumes)
                .map(|(label, volume)| hcl_volume(volume, Some(label)))
                .collect();
            hcl_set(set) + &blocks.join("\n")
        }
        Syntax::Json => escape_json(&format!("{:#}\n", all(json_topologies))),
        Syntax::Yaml => {
            let volumes: Vec<_> = volumes.iter().collect();
            comments(&volumes) + &yaml(&all(yaml_topologies))
        }
    }
}

/// Returns a value of a block of YAML or JSON, whose texts are templates, so that it is read as it is.
pub(super) fn literal(value: Value) -> Value {
    match value {
        Value::String(text) => literal_text(&text).into(),
        Value::Array(items) => items.into_iter().map(literal).collect(),
        Value::Object(object) => {
            let pairs = object.into_iter().map(|(key, value)| (key, literal(value)));
            Value::Object(pairs.collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value,
    }
}

/// Escapes `${` and `%{`. A longer run of `$` before the brace is an expression, because it has no escape.
pub(super) fn literal_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['$', '%']) {
        let (before, run) = rest.split_at(at);
        out.push_str(before);
        let sigil = if run.starts_with('$') { '$' } else { '%' };
        let length = run.chars().take_while(|c| *c == sigil).count();
        let (sigils, after) = run.split_at(length);
        match (after.starts_with('{'), length) {
            (false, _) => out.push_str(sigils),
            (true, 1) => out.extend([sigil, sigil]),
            (true, _) => out.extend(["${\"", sigils, "\"}"]),
        }
        rest = after;
    }
    out.push_str(rest);
    out
}

/// Returns the labels of the volumes' blocks: IDs, with the namespace as a prefix if an ID repeats.
fn labels(volumes: &[WritableSpec]) -> Vec<String> {
    let mut labels: Vec<String> = vec![];
    let mut taken = BTreeSet::new();
    for WritableSpec { request, .. } in volumes {
        let mut label = request.id.to_string();
        while !taken.insert(label.clone()) {
            label = format!("{}-{label}", request.namespace);
        }
        labels.push(label);
    }
    labels
}

fn comments(volumes: &[&WritableSpec]) -> String {
    let of = |volume: &&WritableSpec| {
        let key = volume.request.key();
        let line = move |remark: &String| format!("# {}\n", one_line(&format!("{key}: {remark}")));
        volume.comments.iter().map(line).collect::<String>()
    };
    volumes.iter().map(of).collect()
}

/// Replaces control characters and line breaks, which would end a comment.
pub(super) fn one_line(text: &str) -> String {
    text.replace(is_invisible, " ")
}

/// Returns the fields with one text each, in the order of their documentation.
fn texts(request: &UnresolvedRequest) -> impl Iterator<Item = (&'static str, String)> {
    schema::VOLUME.iter().filter_map(|row| {
        let text = match row.key {
            "id" => request.id.to_string(),
            "namespace" => request.namespace.to_string(),
            "type" => "csi".to_owned(),
            key => match request.field(VolumeField::of_key(key)?)? {
                FieldRef::Text(text) => text.to_owned(),
                FieldRef::Size(size) => size.to_string(),
                FieldRef::Capabilities(_)
                | FieldRef::MountFlags(_)
                | FieldRef::Topologies(_)
                | FieldRef::Map(_) => return None,
            },
        };
        Some((row.key, text))
    })
}

/// A value of a map.
#[derive(Clone, Copy)]
enum MapValue<'r> {
    Text(&'r str),
    /// A secret reference: its source and argument.
    Reference(&'static str, &'r str),
    /// An item of a Nomad variable: its path and key.
    NomadVar(&'r str, &'r str),
    /// A value that is not shown.
    Hidden,
}

impl<'r> From<&'r SecretRef> for MapValue<'r> {
    fn from(reference: &'r SecretRef) -> Self {
        match reference {
            SecretRef::Literal(value) | SecretRef::Evaluated(value) => Self::Text(value),
            SecretRef::Env(name) => Self::Reference("env", name),
            SecretRef::File(path) => Self::Reference("file", path),
            SecretRef::NomadVar { path, key } => Self::NomadVar(path, key),
        }
    }
}

impl MapValue<'_> {
    fn json(self) -> Value {
        match self {
            Self::Text(text) => text.into(),
            Self::Reference(source, argument) => json!({ source: argument }),
            Self::NomadVar(path, key) => json!({ "nomad_var": [path, key] }),
            Self::Hidden => json!({ SENSITIVE: true }),
        }
    }

    fn hcl(self) -> Expression {
        match self {
            Self::Text(text) => string(text),
            Self::Reference(source, argument) => {
                FuncCall::builder(source).arg(string(argument)).build().into()
            }
            Self::NomadVar(path, key) => {
                FuncCall::builder("nomad_var").arg(string(path)).arg(string(key)).build().into()
            }
            Self::Hidden => word(SENSITIVE),
        }
    }
}

/// Returns the fields that are maps of texts or of secret references.
fn maps(
    volume: &WritableSpec,
) -> impl Iterator<Item = (&'static str, BTreeMap<&str, MapValue<'_>>)> {
    let request = &volume.request;
    let secret = |reference| match MapValue::from(reference) {
        MapValue::Text(_) if volume.hides_values => MapValue::Hidden,
        shown => shown,
    };
    schema::VOLUME.iter().filter(|row| row.kind == Kind::TextMap).filter_map(move |row| {
        let map = match row.key {
            "secrets" => {
                let secrets = request.secrets.as_ref()?.iter();
                secrets.map(|(key, reference)| (key, secret(reference))).collect()
            }
            key => match request.field(VolumeField::of_key(key)?)? {
                FieldRef::Map(map) => {
                    map.iter().map(|(key, value)| (key.as_str(), MapValue::Text(value))).collect()
                }
                FieldRef::Text(_)
                | FieldRef::Size(_)
                | FieldRef::Capabilities(_)
                | FieldRef::MountFlags(_)
                | FieldRef::Topologies(_) => return None,
            },
        };
        Some((row.key, map))
    })
}

fn document(volume: &WritableSpec, encode_topologies: fn(&[Topology]) -> Value) -> Value {
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
            let flags = match volume.hides_values {
                true => json!({ SENSITIVE: true }),
                false => options.mount_flags.clone().into(),
            };
            block.insert("mount_flags".to_owned(), flags);
        }
        if volume.is_unknown(HiddenField::MountFlags) {
            block.insert("mount_flags".to_owned(), unknown());
        }
        document.insert("mount_options".to_owned(), block.into());
    }
    if let Some(request) = &request.topology_request {
        let mut block = Map::new();
        for (key, topologies) in
            [("required", &request.required), ("preferred", &request.preferred)]
        {
            if !topologies.is_empty() {
                block.insert(key.to_owned(), encode_topologies(topologies));
            }
        }
        document.insert("topology_request".to_owned(), block.into());
    }
    for (key, map) in maps(volume) {
        let pairs = map.into_iter();
        let object: Map<_, _> = pairs.map(|(key, entry)| (key.to_owned(), entry.json())).collect();
        document.insert(key.to_owned(), object.into());
    }
    if volume.is_unknown(HiddenField::Secrets) {
        document.insert("secrets".to_owned(), unknown());
    }
    for (key, value) in volume.switches() {
        document.insert(key.to_owned(), value.into());
    }
    if !volume.ignore.is_empty() {
        document.insert("ignore".to_owned(), volume.ignore.clone().into());
    }
    document.into()
}

pub(super) fn json_topologies(topologies: &[Topology]) -> Value {
    json!([{ "topology": yaml_topologies(topologies) }])
}

pub(super) fn yaml_topologies(topologies: &[Topology]) -> Value {
    let segments = topologies.iter().map(|topology| json!({ "segments": topology.segments }));
    segments.collect()
}

/// Returns a document as YAML. Texts, lists and objects always have a YAML form.
pub(super) fn yaml(document: &Value) -> String {
    let is_shown = |c: char| c == '\n' || !is_invisible(c);
    match serde_yaml::to_string(document) {
        Ok(text) if text.chars().all(is_shown) => text,
        // JSON is YAML, and can escape every character.
        Ok(_) | Err(_) => escape_json_for_yaml(&format!("{document:#}\n")),
    }
}

/// Returns a document of texts, lists of texts, objects and lists of objects as HCL: attributes, and blocks
/// after them.
pub(super) fn hcl(fields: &Map<String, Value>) -> String {
    format_body(structures(fields))
}

fn structures(fields: &Map<String, Value>) -> Vec<Structure> {
    let mut single = vec![];
    let mut blocks = vec![];
    for (key, value) in fields {
        match value {
            Value::Object(inner) => blocks.push(block(key, structures(inner))),
            Value::Array(items) if items.iter().all(Value::is_object) => {
                let bodies = items.iter().filter_map(Value::as_object);
                blocks.extend(bodies.map(|inner| block(key, structures(inner))));
            }
            Value::Array(items) => {
                let texts = items.iter().filter_map(Value::as_str).map(string);
                single.push((key.as_str(), Expression::Array(texts.collect())));
            }
            Value::String(text) => single.push((key, string(text))),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    let mut body = attributes(single);
    body.extend(blocks);
    body
}

/// Returns fields as YAML that can stand beside other fields. The keys are plain words.
pub(super) fn yaml_fields(fields: &Map<String, Value>) -> String {
    let field = |(key, value): (&String, &Value)| {
        let text = yaml(&json!({ key: value }));
        match text.starts_with('{') {
            true => escape_json_for_yaml(&format!("{key}: {value}\n")),
            false => text,
        }
    };
    fields.iter().map(field).collect()
}

/// Returns the `set` attribute at the top of a file.
fn hcl_set(set: Option<&SetName>) -> String {
    set.map_or_else(String::new, |set| {
        format_body(attributes([("set", string(set.as_str()))])) + "\n"
    })
}

/// Returns a volume as a block with that label, or as a flat file, with its comments above.
fn hcl_volume(volume: &WritableSpec, label: Option<&str>) -> String {
    let comments = volume.comments.iter();
    let comments: String = comments.map(|comment| format!("# {}\n", one_line(comment))).collect();
    // Blank lines separate the structures of a volume, but not those within its blocks.
    let paragraphs: Vec<_> = hcl_fields(volume, label).into_iter().map(format_body).collect();
    let fields = paragraphs.join("\n");
    match label {
        None => comments + &fields,
        Some(label) => format!("{comments}volume {} {{\n{}}}\n", quoted(label), indented(&fields)),
    }
}

/// Returns the fields of a volume, grouped into paragraphs.
fn hcl_fields(volume: &WritableSpec, label: Option<&str>) -> Vec<Vec<Structure>> {
    let request = &volume.request;
    let ignored = volume.ignore.iter().map(|field| string(field));
    let ignored =
        (!volume.ignore.is_empty()).then(|| ("ignore", Expression::Array(ignored.collect())));
    let single = texts(request)
        .filter(|(key, text)| *key != "id" || Some(text.as_str()) != label)
        .map(|(key, text)| (key, string(&text)))
        .chain(volume.switches().map(|(key, value)| (key, value.into())))
        .chain(ignored);
    let mut blocks = vec![];
    for capability in &request.capabilities {
        let modes = attributes([
            ("access_mode", string(capability.access_mode.as_str())),
            ("attachment_mode", string(capability.attachment_mode.as_str())),
        ]);
        blocks.push(block("capability", modes));
    }
    if let Some(options) = &request.mount_options {
        blocks.push(hcl_mount_options(options, volume));
    }
    if let Some(request) = &request.topology_request {
        let required = hcl_topologies("required", &request.required);
        let preferred = hcl_topologies("preferred", &request.preferred);
        let inner = required.into_iter().chain(preferred).collect();
        blocks.push(block("topology_request", inner));
    }
    for (key, map) in maps(volume) {
        let values = map.into_iter().map(|(key, value)| (key, value.hcl()));
        blocks.push(block(key, attributes(values)));
    }
    let mut paragraphs = vec![attributes(single)];
    paragraphs.extend(blocks.into_iter().map(|block| vec![block]));
    if volume.is_unknown(HiddenField::Secrets) {
        paragraphs.push(attributes([("secrets", word(UNKNOWN))]));
    }
    paragraphs
}

fn hcl_mount_options(options: &MountOptions, volume: &WritableSpec) -> Structure {
    let fs_type = (!options.fs_type.is_empty()).then(|| string(&options.fs_type));
    let flags = match options.mount_flags.as_slice() {
        _ if volume.is_unknown(HiddenField::MountFlags) => Some(word(UNKNOWN)),
        [] => None,
        _ if volume.hides_values => Some(word(SENSITIVE)),
        flags => Some(Expression::Array(flags.iter().map(|flag| string(flag)).collect())),
    };
    let fields = [("fs_type", fs_type), ("mount_flags", flags)];
    let fields = fields.into_iter().filter_map(|(key, value)| Some((key, value?)));
    block("mount_options", attributes(fields))
}

fn hcl_topologies(name: &str, topologies: &[Topology]) -> Option<Structure> {
    let topology = |topology: &Topology| {
        let segments = topology.segments.iter();
        let segments = segments.map(|(key, value)| (key.as_str(), string(value)));
        block("topology", vec![block("segments", attributes(segments))])
    };
    (!topologies.is_empty()).then(|| block(name, topologies.iter().map(topology).collect()))
}

fn block(name: &str, body: Vec<Structure>) -> Structure {
    Block::builder(name).add_structures(body).build().into()
}

/// Returns attributes with aligned values. hcl-rs aligns nothing, so the keys are padded.
fn attributes<'t>(pairs: impl IntoIterator<Item = (&'t str, Expression)>) -> Vec<Structure> {
    let pairs: Vec<_> = pairs.into_iter().map(|(text, value)| (key(text), value)).collect();
    let lengths = pairs.iter().map(|(key, _)| key.chars().count());
    let width = lengths.max().unwrap_or_default();
    let attribute = |(key, value)| {
        let padded = Identifier::unchecked(format!("{key:<width$}"));
        Attribute::new(padded, value).into()
    };
    pairs.into_iter().map(attribute).collect()
}

/// Returns a word without quotes.
fn word(word: &'static str) -> Expression {
    Variable::unchecked(word).into()
}

/// Returns a string literal with this module's escapes, which hcl-rs writes unchanged.
fn string(text: &str) -> Expression {
    Expression::from(TemplateExpr::QuotedString(escaped(text)))
}

/// Formats structures without blank lines. Writing to memory cannot fail.
fn format_body(structures: Vec<Structure>) -> String {
    let formatter = Formatter::builder().dense(true).compact_arrays(true);
    let text = Body::from(structures).format_string(&mut formatter.build_vec());
    open_empty_blocks(&text.unwrap_or_default())
}

/// Puts the brace of an empty block on its own line, as in other blocks: hcl-rs writes `name {  }`.
fn open_empty_blocks(text: &str) -> String {
    let line = |line: &str| match line.split_once(" {") {
        Some((name, rest)) if rest.trim_matches(' ') == "}\n" && !name.contains('"') => {
            format!("{name} {{\n{rest}")
        }
        _ => line.to_owned(),
    };
    text.split_inclusive('\n').map(line).collect()
}

/// Indents every line that is not empty.
fn indented(text: &str) -> String {
    let line = |line: &str| match line {
        "\n" => line.to_owned(),
        line => format!("  {line}"),
    };
    text.split_inclusive('\n').map(line).collect()
}

/// Returns a key, in quotes if necessary. HCL1 allows quoted keys, HCL2 does not.
pub(super) fn key(text: &str) -> String {
    let starts = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if starts && text.chars().all(plain) && !matches!(text, "true" | "false" | "null") {
        text.to_owned()
    } else {
        quoted(text)
    }
}

pub(super) fn quoted(text: &str) -> String {
    format!("\"{}\"", escaped(text))
}

/// Escapes a text so that HCL1 and HCL2 read it alike. hcl-rs would write `${` as `$${`, which HCL1
/// takes literally.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
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
            c if c > '\u{ffff}' && is_invisible(c) => {
                out.extend(["\\U".to_owned(), format!("{:08x}", u32::from(c))]);
            }
            c if is_invisible(c) || opens || c == '\u{e123}' => {
                out.extend(["\\u".to_owned(), format!("{:04x}", u32::from(c))]);
            }
            c => out.push(c),
        }
    }
    out
}
