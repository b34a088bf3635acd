//! The JSON Schema of specifications in YAML and JSON, for editors: made of the tables of [`super::schema`].
//!
//! It knows the published spelling of every key; Nomad also reads other spellings at the top level. A flat file has the fields of
//! one volume. In a file with blocks, a text with `${` can stand for any value, and `null` for a key that is absent. What depends
//! on several fields is left to `validate`.

use serde_json::{Map, Value, json};

use super::schema::{
    BLOCK_WORDS, CAPABILITY, DEFAULT_CLASS_DOC, FILE, Field, FieldPlacement, INSTANCE_WORDS, Kind,
    MOUNT_OPTIONS, TOPOLOGY_REQUEST, VARIABLE_WORDS, VOLUME,
};
use nomad_csi_model::{AccessMode, AttachmentMode};

/// The version of the schema. It changes when a file that fits the schema does not fit the next one.
pub const SCHEMA_VERSION: u32 = 1;

/// The fields that belong to one volume, and not to a class or to defaults.
const OF_ONE_VOLUME: [&str; 3] = ["id", "source", "external_id"];

/// Returns the schema as JSON text.
pub fn specification_schema() -> String {
    let definitions = json!({
        "flat": flat(),
        "blocks": blocks(),
        "volume": object(volume_block()),
        "class": object(layer()),
        "defaults": object(with(layer(), [("class", described(text(), DEFAULT_CLASS_DOC))])),
        "variable": variable(),
        "template": {"type": "string", "pattern": "\\$\\{"},
        "map": {"type": "object", "additionalProperties": scalar_or_null()},
        "reference": reference(),
        "unknown": object(with(Map::new(), [("unknown", json!({"const": true}))])),
    });
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Specification of CSI volumes",
        "description": format!("Version {SCHEMA_VERSION}, for YAML and JSON. `validate` checks more."),
        "type": "object",
        "oneOf": [{"$ref": "#/$defs/flat"}, {"$ref": "#/$defs/blocks"}],
        "$defs": definitions,
    });
    let mut written = serde_json::to_string_pretty(&schema).unwrap_or_default();
    written.push('\n');
    written
}

/// The form in which a field is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Nomad's flat file.
    Flat,
    /// A block, whose values may be expressions.
    Block,
}

/// The top-level keys that declare nothing.
const EXTENSIONS: &str = "^x-";

/// Allows the keys of a file that declare nothing.
fn with_extensions(mut file: Value) -> Value {
    file["patternProperties"] = json!({EXTENSIONS: true});
    file
}

fn flat() -> Value {
    let own = VOLUME.iter().filter(|field| field.place == FieldPlacement::Anywhere);
    let properties = fields(FILE.iter().chain(own), Form::Flat);
    let required: Vec<&str> = required(VOLUME).collect();
    let mut flat = with_extensions(object(properties));
    let names_only_a_set = json!({
        "properties": {"set": true, "//": true},
        "patternProperties": {EXTENSIONS: true},
        "additionalProperties": false,
    });
    if let Some(flat) = flat.as_object_mut() {
        flat.insert("if".to_owned(), names_only_a_set);
        flat.insert("else".to_owned(), json!({"required": required}));
    }
    flat
}

fn blocks() -> Value {
    let map_of = |item: &str| {
        let map = json!({
            "type": "object",
            "properties": {"//": true},
            "additionalProperties": {"$ref": format!("#/$defs/{item}")},
        });
        json!({"anyOf": [map, {"type": "array", "items": map}]})
    };
    let variables = json!({
        "type": "object",
        "propertyNames": {"pattern": "^([A-Za-z_][A-Za-z0-9_]*|//)$"},
        "properties": {"//": true},
        "additionalProperties": {"$ref": "#/$defs/variable"},
    });
    let words = [
        ("volume", map_of("volume")),
        ("class", map_of("class")),
        ("defaults", json!({"$ref": "#/$defs/defaults"})),
        ("variable", variables),
        ("locals", json!({"type": "object"})),
    ];
    let words = words.map(|(word, value)| (word, described(value, doc_of(&BLOCK_WORDS, word))));
    let required: Vec<Value> = words.iter().map(|(word, _)| json!({"required": [word]})).collect();
    let mut blocks = with_extensions(object(with(fields(FILE.iter(), Form::Block), words)));
    if let Some(blocks) = blocks.as_object_mut() {
        blocks.insert("anyOf".to_owned(), required.into());
    }
    blocks
}

fn volume_block() -> Map<String, Value> {
    let instances = [
        ("class", nullable(text())),
        ("enabled", value_or_template(boolean())),
        ("count", value_or_template(json!({"type": "integer", "minimum": 0, "maximum": 100_000}))),
        ("for_each", value_or_template(json!({"type": ["object", "array"]}))),
    ];
    let instances =
        instances.map(|(word, value)| (word, described(value, doc_of(&INSTANCE_WORDS, word))));
    with(fields(VOLUME.iter(), Form::Block), instances)
}

/// The fields of a class and of defaults.
fn layer() -> Map<String, Value> {
    let inherited = VOLUME.iter().filter(|field| !OF_ONE_VOLUME.contains(&field.key));
    fields(inherited, Form::Block)
}

fn variable() -> Value {
    let validation = object(with(
        Map::new(),
        [("condition", value_or_template(boolean())), ("error_message", text())],
    ));
    let validations = json!({"anyOf": [validation, {"type": "array", "items": validation}]});
    object(with(
        Map::new(),
        [
            ("type", described(text(), doc_of(&VARIABLE_WORDS, "type"))),
            ("description", text()),
            ("default", described(json!(true), doc_of(&VARIABLE_WORDS, "default"))),
            ("sensitive", described(boolean(), doc_of(&VARIABLE_WORDS, "sensitive"))),
            ("validation", validations),
        ],
    ))
}

fn reference() -> Value {
    let sources = [
        ("env", json!({"type": "string"})),
        ("file", json!({"type": "string"})),
        ("nomad_var", json!({"type": "array", "items": {"type": "string"}})),
        ("vault", json!({"type": "array", "items": {"type": "string"}})),
        ("exec", json!({"type": "array", "items": {"type": "string"}})),
    ];
    let mut reference = object(with(Map::new(), sources));
    if let Some(reference) = reference.as_object_mut() {
        reference.insert("minProperties".to_owned(), 1.into());
        reference.insert("maxProperties".to_owned(), 1.into());
    }
    reference
}

fn fields<'f>(fields: impl Iterator<Item = &'f Field>, form: Form) -> Map<String, Value> {
    let of = |field: &Field| {
        let plain = field_value(field, form);
        let value = match form {
            Form::Flat => nullable(plain),
            Form::Block if field.kind == Kind::Text => nullable(plain),
            Form::Block => nullable(value_or_template(plain)),
        };
        let default = if field.default == "required" {
            "Required.".to_owned()
        } else {
            format!("Default: {}.", field.default)
        };
        (field.key.to_owned(), described(value, &format!("{} {default}", field.doc)))
    };
    fields.map(of).collect()
}

fn field_value(field: &Field, form: Form) -> Value {
    match (field.key, field.kind) {
        ("type", _) => json!({"type": "string", "pattern": "^[Cc][Ss][Ii]$|\\$\\{"}),
        ("access_mode", _) => words(AccessMode::ALL.map(AccessMode::as_str).as_slice(), form),
        ("attachment_mode", _) => {
            words(AttachmentMode::ALL.map(AttachmentMode::as_str).as_slice(), form)
        }
        ("capability", _) => block(CAPABILITY, form, true),
        ("mount_options", _) => block(MOUNT_OPTIONS, form, false),
        ("topology_request", _) => block(TOPOLOGY_REQUEST, form, false),
        ("required" | "preferred", _) => topologies(form),
        ("secrets", _) => secrets(),
        ("mount_flags", _) => json!({"anyOf": [text_list(), {"$ref": "#/$defs/unknown"}]}),
        (_, Kind::Text) => text(),
        (_, Kind::Size) => json!({"type": ["string", "number"]}),
        (_, Kind::Boolean) => boolean(),
        (_, Kind::TextList) => text_list(),
        (_, Kind::TextMap) => once_or_repeated(&json!({"$ref": "#/$defs/map"})),
        (_, Kind::Block | Kind::Blocks) => json!({"type": ["object", "array"]}),
    }
}

/// A text of a list, or with an expression in a block.
fn words(words: &[&str], form: Form) -> Value {
    match form {
        Form::Flat => json!({"enum": words}),
        Form::Block => json!({"anyOf": [{"enum": words}, {"$ref": "#/$defs/template"}]}),
    }
}

fn block(rows: &[Field], form: Form, has_required: bool) -> Value {
    let mut inner = object(fields(rows.iter(), form));
    if let Some(inner) = inner.as_object_mut().filter(|_| has_required) {
        inner.insert("required".to_owned(), required(rows).collect());
    }
    once_or_repeated(&inner)
}

fn required(rows: &[Field]) -> impl Iterator<Item = &'static str> {
    let required = rows.iter().filter(|field| field.default == "required");
    required.map(|field| field.key)
}

fn topologies(form: Form) -> Value {
    let map = once_or_repeated(&json!({"$ref": "#/$defs/map"}));
    let segments = match form {
        Form::Flat => map,
        Form::Block => value_or_template(map),
    };
    let topology = object(with(Map::new(), [("segments", segments.clone())]));
    let either =
        with(Map::new(), [("segments", segments), ("topology", once_or_repeated(&topology))]);
    once_or_repeated(&object(either))
}

fn secrets() -> Value {
    let value = json!({"anyOf": [scalar_or_null(), {"$ref": "#/$defs/reference"}]});
    let map = json!({"type": "object", "additionalProperties": value});
    json!({"anyOf": [once_or_repeated(&map), {"$ref": "#/$defs/unknown"}]})
}

/// An object with these keys, and a comment in JSON.
fn object(properties: Map<String, Value>) -> Value {
    let properties = with(properties, [("//", json!(true))]);
    json!({"type": "object", "properties": properties, "unevaluatedProperties": false})
}

fn with<const N: usize>(
    mut properties: Map<String, Value>,
    more: [(&str, Value); N],
) -> Map<String, Value> {
    properties.extend(more.map(|(key, value)| (key.to_owned(), value)));
    properties
}

/// Returns the documentation of a key of a table.
fn doc_of(words: &[(&str, &'static str)], key: &str) -> &'static str {
    words.iter().find(|(word, _)| *word == key).map_or("", |(_, doc)| doc)
}

fn described(mut value: Value, description: &str) -> Value {
    match value.as_object_mut() {
        Some(object) => {
            object.insert("description".to_owned(), description.into());
            value
        }
        None => json!({"description": description}),
    }
}

fn once_or_repeated(block: &Value) -> Value {
    json!({"anyOf": [block, {"type": "array", "items": block}]})
}

fn value_or_template(value: Value) -> Value {
    let alternatives = vec![value, json!({"$ref": "#/$defs/template"})];
    json!({"anyOf": alternatives})
}

fn nullable(value: Value) -> Value {
    let alternatives = vec![value, json!({"type": "null"})];
    json!({"anyOf": alternatives})
}

fn text() -> Value {
    json!({"type": ["string", "number", "boolean"]})
}

fn scalar_or_null() -> Value {
    json!({"type": ["string", "number", "boolean", "null"]})
}

fn boolean() -> Value {
    json!({"type": "boolean"})
}

fn text_list() -> Value {
    json!({"type": "array", "items": {"type": ["string", "number", "boolean"]}})
}
