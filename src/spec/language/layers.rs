//! The fields of a volume, over those of its class, over those of its file's `defaults`.
//!
//! The nearest layer that has a field gives it. `parameters`, `context`, `secrets` and `mount_options` are merged key by
//! key. `null` means that the field or the key is absent, whatever the layers below say; an empty map means that it is
//! empty. A field that a nearer layer gives is not evaluated in the layers below.

use std::collections::BTreeSet;

use crate::schema::{self, Field, Kind};
use crate::tree::{Entry, Object, ScalarKind, Value};
use crate::words::UNKNOWN;

/// Returns the entries of a volume that has these layers, the nearest one first. Keys that no volume has are kept from the
/// first layer only. `evaluate` returns the entries that an entry stands for.
pub(super) fn layered<'t, 'a: 't>(
    layers: &[&'t Object<'a>],
    is_field: impl Fn(&Entry<'_>) -> bool,
    mut evaluate: impl FnMut(&'t Entry<'a>) -> Vec<Entry<'a>>,
) -> Vec<Entry<'a>> {
    let mut entries = vec![];
    if let Some(first) = layers.first() {
        let unknown = first
            .entries
            .iter()
            .filter(|entry| is_field(entry) && schema::volume_field(&entry.key.text).is_none());
        entries.extend(unknown.flat_map(&mut evaluate));
    }
    for field in schema::VOLUME {
        // What only one volume can have is reported in a class, and never inherited.
        let is_own = schema::NOT_INHERITABLE.contains(&field.key);
        let layers = if is_own { layers.get(..1).unwrap_or_default() } else { layers };
        entries.extend(field_of(layers, field, &is_field, &mut evaluate));
    }
    entries
}

/// Returns the entries of one field.
fn field_of<'t, 'a: 't>(
    layers: &[&'t Object<'a>],
    field: &'static Field,
    is_field: &impl Fn(&Entry<'_>) -> bool,
    evaluate: &mut impl FnMut(&'t Entry<'a>) -> Vec<Entry<'a>>,
) -> Vec<Entry<'a>> {
    let Some((own, below)) = layers.split_first() else {
        return vec![];
    };
    let is_of_field =
        |entry: &&Entry<'_>| is_field(entry) && field.key.eq_ignore_ascii_case(&entry.key.text);
    let mut written = own.entries.iter().filter(is_of_field).peekable();
    if written.peek().is_none() {
        return field_of(below, field, is_field, evaluate);
    }
    let mut entries: Vec<Entry<'a>> = written.flat_map(&mut *evaluate).collect();
    let is_null = |entry: &Entry<'_>| matches!(entry.value.value, Value::Null);
    if field.key == schema::REQUIRED && entries.iter().all(is_null) {
        // It is reported as missing at its `null`.
        return entries;
    }
    entries.retain(|entry| !is_null(entry));
    let is_merged =
        field.kind == Kind::TextMap || field.kind == Kind::Block && field.key == "mount_options";
    let is_unknown = field.key == "secrets" && entries.iter().any(is_unknown);
    if !is_merged || is_unknown || entries.is_empty() || !entries.iter().all(has_pairs) {
        return entries;
    }
    let inherited = field_of(below, field, is_field, evaluate);
    with_pairs(entries, &inherited)
}

/// Returns whether an entry is a map with keys.
fn has_pairs(entry: &Entry<'_>) -> bool {
    matches!(&entry.value.value, Value::Object(object) if !object.entries.is_empty())
}

/// Returns whether an entry is `unknown`, or `{unknown: true}`.
fn is_unknown(entry: &Entry<'_>) -> bool {
    match &entry.value.value {
        Value::Unknown => true,
        Value::Object(object) => match &object.entries[..] {
            [only] => {
                let is_true = matches!(&only.value.value, Value::Scalar(scalar) if scalar.kind == ScalarKind::Boolean && scalar.text == "true");
                only.key.text == UNKNOWN && is_true
            }
            _ => false,
        },
        Value::Null
        | Value::Invalid
        | Value::Scalar(_)
        | Value::Reference(_)
        | Value::Expression(_)
        | Value::List(_) => false,
    }
}

/// Adds the inherited pairs whose keys the entries do not have. A key that is null is removed if something is inherited
/// under it.
fn with_pairs<'a>(mut entries: Vec<Entry<'a>>, inherited: &[Entry<'a>]) -> Vec<Entry<'a>> {
    let below: Vec<&Entry<'a>> = inherited
        .iter()
        .filter_map(|entry| match &entry.value.value {
            Value::Object(object) => Some(&object.entries),
            Value::Null
            | Value::Invalid
            | Value::Scalar(_)
            | Value::Reference(_)
            | Value::Unknown
            | Value::Expression(_)
            | Value::List(_) => None,
        })
        .flatten()
        .collect();
    let inherited_keys: BTreeSet<&str> = below.iter().map(|pair| &*pair.key.text).collect();
    let own_keys: BTreeSet<String> = entries.iter().flat_map(keys).collect();
    let added: Vec<Entry<'a>> = below
        .iter()
        .filter(|pair| !own_keys.contains(&*pair.key.text))
        .map(|pair| (*pair).clone())
        .collect();
    for entry in &mut entries {
        if let Value::Object(object) = &mut entry.value.value {
            object.entries.retain(|pair| {
                let is_below = inherited_keys.contains(&*pair.key.text);
                !(is_below && matches!(pair.value.value, Value::Null))
            });
        }
    }
    if let Some(Value::Object(object)) = entries.first_mut().map(|entry| &mut entry.value.value) {
        object.entries.extend(added);
    }
    entries
}

fn keys(entry: &Entry<'_>) -> Vec<String> {
    match &entry.value.value {
        Value::Object(object) => {
            object.entries.iter().map(|pair| pair.key.text.to_string()).collect()
        }
        Value::Null
        | Value::Invalid
        | Value::Scalar(_)
        | Value::Reference(_)
        | Value::Unknown
        | Value::Expression(_)
        | Value::List(_) => vec![],
    }
}
