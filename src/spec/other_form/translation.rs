//! Writes volumes of another tool as specifications, as far as they can be read.
//!
//! The words of the other tool become the keys of a specification, and the result is decoded and validated as any
//! other: what does not hold is not shown. Nothing that may be a secret is taken over.

use crate::decode::{Document, decode};
use crate::defaults::Defaults;
use crate::encode::{WritableSpec, encode_all};
use crate::mask;
use crate::schema::{self, Field};
use crate::syntax::Syntax;
use crate::tree::{Entry, Node, Object, SpannedText, Value};
use crate::validate::validate;
use crate::volume_spec::{Purpose, VolumeSpec};
use nomad_csi_model::diagnostic::{Diagnostics, SourceId, Span};

/// Limit of the volumes that are shown.
const MOST: usize = 3;

/// Limit of the bytes of the text that is shown.
const LONGEST: usize = 4 << 10;

/// The volume that is shown if none of the file can be: the author replaces its words.
const EXAMPLE: &str = r#"{"id": "NAME", "name": "NAME", "type": "csi", "plugin_id": "PLUGIN", "capacity_min": "1GiB",
"capability": [{"access_mode": "single-node-writer", "attachment_mode": "file-system"}]}"#;

/// Returns the specifications of some volumes in a syntax, or that of an example.
///
/// `key_of` returns the key of a specification for a word of the other tool, in a table of fields.
pub(super) fn written(
    volumes: &[&Object<'_>],
    syntax: Syntax,
    key_of: fn(&'static [Field], &str) -> Option<&'static str>,
) -> String {
    let specs: Option<Vec<VolumeSpec>> =
        volumes.iter().take(MOST).map(|volume| translated(volume, key_of)).collect();
    let text = specs.and_then(|specs| text_of(&specs, syntax));
    let text = text.filter(|text| text.len() <= LONGEST);
    text.unwrap_or_else(|| example(syntax)).trim_end().to_owned()
}

/// Returns the specification of an example.
pub(super) fn example(syntax: Syntax) -> String {
    let source = nomad_csi_model::diagnostic::SourceMap::default().add("", "");
    let parsed = crate::json::parse(EXAMPLE, source, &mut Diagnostics::default());
    let spec = parsed.ok().and_then(|object| decoded(&object, source));
    spec.and_then(|spec| text_of(&[spec], syntax)).unwrap_or_default()
}

/// Returns the text of volumes, if nothing is wrong with them.
fn text_of(specs: &[VolumeSpec], syntax: Syntax) -> Option<String> {
    let mut problems = Diagnostics::default();
    validate(specs, Purpose::ByExternalId, &mut problems);
    let is_valid = problems.is_empty() && !specs.is_empty();
    let writable = || specs.iter().map(WritableSpec::without_values).collect::<Vec<_>>();
    is_valid.then(|| encode_all(&writable(), None, syntax))
}

fn translated(
    volume: &Object<'_>,
    key_of: fn(&'static [Field], &str) -> Option<&'static str>,
) -> Option<VolumeSpec> {
    let place = volume.entries.first()?.key.span;
    let mut object = fields(volume, schema::VOLUME, key_of);
    if object.entries.iter().any(|entry| !is_literal(&entry.value)) {
        return None;
    }
    let has = |object: &Object<'_>, key: &str| {
        object.entries.iter().any(|entry| entry.key.text == key && !is_empty(&entry.value))
    };
    object.entries.retain(|entry| {
        !matches!(&*entry.key.text, "type" | "topology_request" | "read_only" | "source")
            && !is_empty(&entry.value)
    });
    let text = |text: &'static str| Node::text(text, place);
    object.push(SpannedText { text: "type".into(), span: place }, vec![], text("csi"));
    if !has(&object, "name") && !has(&object, "external_id") {
        let id = object.entries.iter().find(|entry| entry.key.text == "id")?.value.clone();
        object.push(SpannedText { text: "name".into(), span: place }, vec![], id);
    }
    decoded(&object, place.source)
}

/// Returns whether a value has no part that would have to be evaluated.
fn is_literal(node: &Node<'_>) -> bool {
    match &node.value {
        Value::Null | Value::Scalar(_) => true,
        Value::Invalid | Value::Reference(_) | Value::Unknown | Value::Expression(_) => false,
        Value::List(items) => items.iter().all(is_literal),
        Value::Object(object) => object.entries.iter().all(|entry| is_literal(&entry.value)),
    }
}

/// Returns whether a value says nothing.
fn is_empty(node: &Node<'_>) -> bool {
    match &node.value {
        Value::Null => true,
        Value::Scalar(scalar) => scalar.text.is_empty() || scalar.text == "0",
        Value::List(items) => items.is_empty(),
        Value::Object(object) => object.entries.is_empty(),
        Value::Invalid | Value::Reference(_) | Value::Unknown | Value::Expression(_) => false,
    }
}

/// Returns the entries that are fields of a table, under the keys of the table.
fn fields<'a>(
    object: &Object<'a>,
    table: &'static [Field],
    key_of: fn(&'static [Field], &str) -> Option<&'static str>,
) -> Object<'a> {
    let mut translated = Object::default();
    for entry in &object.entries {
        let Some(key) = key_of(table, &entry.key.text) else {
            continue;
        };
        if mask::is_sensitive(key) || mask::is_sensitive(&entry.key.text) {
            continue;
        }
        let inner = match key {
            "capability" => Some(schema::CAPABILITY),
            "mount_options" => Some(schema::MOUNT_OPTIONS),
            _ => None,
        };
        let value = match (&entry.value.value, inner) {
            (Value::Object(object), Some(table)) => {
                Node::object(fields(object, table, key_of), entry.value.span)
            }
            (
                Value::Null
                | Value::Invalid
                | Value::Scalar(_)
                | Value::Reference(_)
                | Value::Unknown
                | Value::Expression(_)
                | Value::List(_)
                | Value::Object(_),
                Some(_) | None,
            ) => without_secrets(&entry.value),
        };
        let text = key.into();
        let key = SpannedText { text, span: entry.key.span };
        translated.entries.push(Entry { key, labels: vec![], value, list: entry.list });
    }
    translated
}

/// Returns a value without the keys that look like secrets, also in the maps of a list.
fn without_secrets<'a>(node: &Node<'a>) -> Node<'a> {
    match &node.value {
        Value::Object(object) => {
            let is_plain = |entry: &&Entry<'a>| !mask::may_name_secret(&entry.key.text);
            let mut plain = Object::default();
            plain.entries.extend(object.entries.iter().filter(is_plain).map(|entry| Entry {
                key: entry.key.clone(),
                labels: entry.labels.clone(),
                value: without_secrets(&entry.value),
                list: entry.list,
            }));
            Node::object(plain, node.span)
        }
        Value::List(items) => {
            let items = items.iter().map(without_secrets).collect();
            Node { value: Value::List(items), span: node.span }
        }
        Value::Null
        | Value::Invalid
        | Value::Scalar(_)
        | Value::Reference(_)
        | Value::Unknown
        | Value::Expression(_) => node.clone(),
    }
}

/// Returns the volume of an object, if nothing is wrong with it.
fn decoded(object: &Object<'_>, source: SourceId) -> Option<VolumeSpec> {
    let defaults = Defaults::default();
    let document = Document {
        text: "",
        source,
        syntax: Syntax::Json,
        defaults: &defaults,
        has_secrets: false,
    };
    let mut problems = Diagnostics::default();
    let decoded = decode(std::slice::from_ref(object), &document, &mut problems);
    let mut specs = decoded.volumes.into_iter();
    specs.next().filter(|_| problems.is_empty())
}

/// Returns the position of a key among the entries of an object.
pub(super) fn key_span(object: &Object<'_>, is_key: impl Fn(&str) -> bool) -> Option<Span> {
    let mut keys = object.entries.iter().map(|entry| &entry.key);
    keys.find(|key| is_key(&key.text)).map(|key| key.span)
}
