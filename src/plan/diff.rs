//! The changes of an update, field by field, ready to be printed.
//!
//! The diff compares the existing volume with the result of [`super::merge::merge`], so it shows only
//! what the server would change. Sizes compare in bytes; capabilities, topologies and mount flags
//! compare as sets. Where the server hides mount flags, only their presence compares. Mount flags
//! are never printed, because they may contain passwords. Stored secrets cannot be read, so they are
//! not part of a diff.

use std::collections::{BTreeMap, BTreeSet};

use nomad_csi_model::{Bytes, Capability, MountOptions, Topology, Volume};

/// The value of a field as a plan may print it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldValue {
    /// No value.
    Absent,
    /// A string.
    Text(String),
    /// A size.
    Size(Bytes),
    /// A map of strings.
    Map(BTreeMap<String, String>),
    /// Capabilities, sorted.
    Capabilities(BTreeSet<Capability>),
    /// Topologies, sorted.
    Topologies(BTreeSet<Topology>),
    /// A value that is never printed.
    Hidden,
}

/// One field that changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Its key in a specification, with dots where it is nested: `mount_options.fs_type`.
    pub field: &'static str,
    /// The current value.
    pub old: FieldValue,
    /// The value after the update.
    pub new: FieldValue,
}

/// Returns the fields in which an update changes a volume.
pub fn diff(existing: &Volume, merged: &Volume) -> Vec<Change> {
    let fields = [
        // Only a server that overwrites the volume with the update changes these three fields.
        ("name", text(&existing.name), text(&merged.name)),
        (
            "clone_id",
            optional_text(existing.clone_id.as_deref()),
            optional_text(merged.clone_id.as_deref()),
        ),
        (
            "snapshot_id",
            optional_text(existing.snapshot_id.as_deref()),
            optional_text(merged.snapshot_id.as_deref()),
        ),
        (
            "capacity_min",
            size(existing.requested_capacity.min),
            size(merged.requested_capacity.min),
        ),
        (
            "capacity_max",
            size(existing.requested_capacity.max),
            size(merged.requested_capacity.max),
        ),
        ("capability", capabilities(existing), capabilities(merged)),
        ("mount_options.fs_type", fs_type(existing), fs_type(merged)),
        ("topology_request.required", required(existing), required(merged)),
        ("topology_request.preferred", preferred(existing), preferred(merged)),
        ("parameters", map(&existing.parameters), map(&merged.parameters)),
        ("context", map(&existing.context), map(&merged.context)),
    ];
    let mut changes: Vec<Change> = fields
        .into_iter()
        .filter(|(_, old, new)| old != new)
        .map(|(field, old, new)| Change { field, old, new })
        .collect();
    changes.extend(mount_flags(existing.mount_options.as_ref(), merged.mount_options.as_ref()));
    changes
}

fn text(text: &str) -> FieldValue {
    optional_text(Some(text))
}

fn optional_text(text: Option<&str>) -> FieldValue {
    match text {
        Some(text) if !text.is_empty() => FieldValue::Text(text.to_owned()),
        Some(_) | None => FieldValue::Absent,
    }
}

pub(super) fn size(bytes: Bytes) -> FieldValue {
    if bytes.is_zero() { FieldValue::Absent } else { FieldValue::Size(bytes) }
}

fn capabilities(volume: &Volume) -> FieldValue {
    if volume.capabilities.is_empty() {
        return FieldValue::Absent;
    }
    FieldValue::Capabilities(volume.capabilities.iter().copied().collect())
}

fn fs_type(volume: &Volume) -> FieldValue {
    let options = volume.mount_options.as_ref();
    optional_text(options.map(|options| options.fs_type.as_str()))
}

fn required(volume: &Volume) -> FieldValue {
    topologies(volume.topology_request.as_ref().map(|request| request.required.as_slice()))
}

fn preferred(volume: &Volume) -> FieldValue {
    topologies(volume.topology_request.as_ref().map(|request| request.preferred.as_slice()))
}

pub(super) fn topologies(list: Option<&[Topology]>) -> FieldValue {
    match list {
        Some(list) if !list.is_empty() => FieldValue::Topologies(list.iter().cloned().collect()),
        Some(_) | None => FieldValue::Absent,
    }
}

pub(super) fn map(map: &BTreeMap<String, String>) -> FieldValue {
    if map.is_empty() { FieldValue::Absent } else { FieldValue::Map(map.clone()) }
}

fn mount_flags(old: Option<&MountOptions>, new: Option<&MountOptions>) -> Option<Change> {
    let flags = |options: Option<&MountOptions>| -> BTreeSet<String> {
        options.map(|options| options.mount_flags.iter().cloned().collect()).unwrap_or_default()
    };
    let (before, after) = (flags(old), flags(new));
    let redacted = |options: Option<&MountOptions>| options.is_some_and(MountOptions::are_redacted);
    let same = if redacted(old) || redacted(new) {
        before.is_empty() == after.is_empty()
    } else {
        before == after
    };
    let shown = |flags: &BTreeSet<String>| {
        if flags.is_empty() { FieldValue::Absent } else { FieldValue::Hidden }
    };
    (!same).then(|| Change {
        field: "mount_options.mount_flags",
        old: shown(&before),
        new: shown(&after),
    })
}
