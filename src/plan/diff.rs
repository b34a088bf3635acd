//! The fields of volumes and requests ready to be printed, and the changes of an update, field by field.
//!
//! The diff compares the existing volume with the result of [`super::merge::merge`], so it shows only
//! what the server would change. Sizes compare in bytes; capabilities, topologies and mount flags
//! compare as sets. Where the server hides mount flags, only their presence compares. Mount flags
//! are never printed, because they may contain passwords. Stored secrets cannot be read, so they are
//! not part of a diff.

use std::collections::{BTreeMap, BTreeSet};

use nomad_csi_model::{
    Bytes, Capability, FieldRef, MountOptions, Topology, Volume, VolumeField, VolumeRequest,
};

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

impl From<FieldRef<'_>> for FieldValue {
    fn from(value: FieldRef<'_>) -> Self {
        match value {
            empty if empty.is_empty() => Self::Absent,
            FieldRef::Text(text) => Self::Text(text.to_owned()),
            FieldRef::Size(size) => Self::Size(size),
            FieldRef::Capabilities(list) => Self::Capabilities(list.iter().copied().collect()),
            FieldRef::MountFlags(_) => Self::Hidden,
            FieldRef::Topologies(list) => Self::Topologies(list.iter().cloned().collect()),
            FieldRef::Map(map) => Self::Map(map.clone()),
        }
    }
}

/// Returns every field that a server shows, including absent ones.
pub(super) fn volume_fields(volume: &Volume) -> impl Iterator<Item = (&'static str, FieldValue)> {
    let fields = VolumeField::ALL.into_iter();
    fields.map(|field| (field.key(), volume.field(field).into()))
}

/// Returns the fields that a request specifies. Its secrets are not among them.
pub(super) fn request_fields<S>(
    request: &VolumeRequest<S>,
) -> impl Iterator<Item = (&'static str, FieldValue)> {
    let fields = VolumeField::ALL.into_iter();
    fields.filter_map(|field| Some((field.key(), request.field(field)?.into())))
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
    let fields = VolumeField::ALL.into_iter().filter(|field| *field != VolumeField::MountFlags);
    let changes = fields.map(|field| Change {
        field: field.key(),
        old: existing.field(field).into(),
        new: merged.field(field).into(),
    });
    let mut changes: Vec<Change> = changes.filter(|change| change.old != change.new).collect();
    changes.extend(mount_flags(existing.mount_options.as_ref(), merged.mount_options.as_ref()));
    changes
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
        field: VolumeField::MountFlags.key(),
        old: shown(&before),
        new: shown(&after),
    })
}
