//! The volume that a plan makes: its request as text and as JSON.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use nomad_csi_model::{Bytes, FieldRef, Topology, UnresolvedRequest, VolumeField};

/// Fields that a line of text names by other words than their key.
const PHRASES: [(VolumeField, &str); 8] = [
    (VolumeField::PluginId, "plugin"),
    (VolumeField::ExternalId, "external ID"),
    (VolumeField::SnapshotId, "copied from snapshot"),
    (VolumeField::CloneId, "copied from volume"),
    (VolumeField::FsType, "file system"),
    (VolumeField::MountFlags, "mount flags"),
    (VolumeField::Required, "one of the topologies"),
    (VolumeField::Preferred, "preferably in"),
];

/// Fields that JSON names by other words than their key.
const JSON_KEYS: [(VolumeField, &str); 3] = [
    (VolumeField::Capability, "capabilities"),
    (VolumeField::FsType, "fs_type"),
    (VolumeField::MountFlags, "mount_flags"),
];

fn word(words: &[(VolumeField, &'static str)], field: VolumeField) -> &'static str {
    let word = words.iter().find(|(of, _)| *of == field);
    word.map_or(field.key(), |(_, word)| *word)
}

/// Returns the fields in the order of a plan: the source of a copy comes after its size.
fn fields() -> impl Iterator<Item = VolumeField> {
    const SOURCES: &[VolumeField] = &[VolumeField::SnapshotId, VolumeField::CloneId];
    let others = VolumeField::ALL.into_iter().filter(|field| !SOURCES.contains(field));
    others.flat_map(|field| {
        let after = if field == VolumeField::CapacityMax { SOURCES } else { &[] };
        std::iter::once(field).chain(after.iter().copied())
    })
}

/// Returns the contents of a request, one line each. Secrets and mount flags never appear. The line above has the name of
/// the volume.
pub(super) fn desired(request: &UnresolvedRequest) -> Vec<String> {
    let lines = |field: VolumeField| -> Vec<String> {
        let phrase = word(&PHRASES, field);
        match request.field(field) {
            None => vec![],
            Some(value) if value.is_empty() => vec![],
            Some(FieldRef::Text(text)) => vec![format!("{phrase} {text}")],
            Some(FieldRef::Size(bytes)) => size_line(request, field, bytes).into_iter().collect(),
            Some(FieldRef::Capabilities(list)) => list.iter().map(ToString::to_string).collect(),
            Some(FieldRef::MountFlags(_)) => vec![format!("{phrase} (not shown)")],
            Some(FieldRef::Topologies(list)) => {
                let list: Vec<String> = list.iter().map(|one| format!("({one})")).collect();
                vec![format!("{phrase} {}", list.join(" "))]
            }
            Some(FieldRef::Map(map)) => vec![format!("{phrase} {{{}}}", pairs(map))],
        }
    };
    fields().filter(|field| *field != VolumeField::Name).flat_map(lines).collect()
}

/// Returns the line of a size. A minimum and a maximum have one line.
fn size_line(request: &UnresolvedRequest, field: VolumeField, bytes: Bytes) -> Option<String> {
    let (min, max) = (request.capacity.min, request.capacity.max);
    let is_range = !min.is_zero() && !max.is_zero();
    let bytes = size(bytes);
    if field == VolumeField::CapacityMin && is_range {
        Some(format!("from {bytes} to {}", size(max)))
    } else if field == VolumeField::CapacityMin {
        Some(format!("at least {bytes}"))
    } else if field == VolumeField::CapacityMax {
        (!is_range).then(|| format!("at most {bytes}"))
    } else {
        Some(format!("{} {bytes}", field.key()))
    }
}

/// Returns the same as JSON.
pub(super) fn desired_json(request: &UnresolvedRequest) -> Value {
    let mut document = Map::new();
    for field in fields().filter(|field| *field != VolumeField::Preferred) {
        let value = request.field(field).map(json);
        let (key, value) = if field == VolumeField::Required {
            ("topology_request", topologies(request))
        } else {
            let is_map = matches!(field, VolumeField::Parameters | VolumeField::Context);
            (word(&JSON_KEYS, field), value.or_else(|| is_map.then(|| json!({}))))
        };
        document.insert(key.to_owned(), value.unwrap_or_default());
    }
    document.into()
}

/// Returns both lists of topologies; `None` without a request.
fn topologies(request: &UnresolvedRequest) -> Option<Value> {
    let required = request.field(VolumeField::Required).map(json)?;
    let preferred = request.field(VolumeField::Preferred).map(json)?;
    Some(json!({"required": required, "preferred": preferred}))
}

fn json(value: FieldRef<'_>) -> Value {
    let segments = |topology: &Topology| json!(topology.segments);
    match value {
        FieldRef::Text("") => Value::Null,
        FieldRef::Text(text) => json!(text),
        FieldRef::Size(size) => json!(size.get()),
        FieldRef::Capabilities(list) => json!(list),
        FieldRef::MountFlags([]) => Value::Null,
        FieldRef::MountFlags(_) => json!({"hidden": true}),
        FieldRef::Topologies(list) => list.iter().map(segments).collect(),
        FieldRef::Map(map) => json!(map),
    }
}

/// Returns a size with its exact bytes.
pub(super) fn size(bytes: Bytes) -> String {
    format!("{bytes} ({} bytes)", bytes.get())
}

/// Returns the pairs of a map.
pub(super) fn pairs(map: &BTreeMap<String, String>) -> String {
    let pairs: Vec<_> = map.iter().map(|(key, value)| format!("{key}={value:?}")).collect();
    pairs.join(", ")
}
