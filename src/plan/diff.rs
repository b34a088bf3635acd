//! Field by field: what an update changes of a volume, fit to be shown.
//!
//! Compared is the volume as it is with the volume as [`super::merge::merge`] makes it, so that
//! nothing is shown that the server would not do. Sizes are compared in bytes, capabilities and
//! topologies as sets, mount flags as sets and by presence where the server hides them
//! (`nomad-http-api` 10.1, item 5). Mount flags are never shown: they may hold passwords. Secrets
//! are not here at all: nobody can read the stored ones.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{Bytes, Capability, MountOptions, Topology, Volume};

/// A value as a plan may show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shown {
    /// There is none.
    Absent,
    /// A text.
    Text(String),
    /// A size.
    Size(Bytes),
    /// Keys and values.
    Map(BTreeMap<String, String>),
    /// Capabilities, sorted.
    Capabilities(BTreeSet<Capability>),
    /// Places, sorted.
    Topologies(BTreeSet<Topology>),
    /// There is one, and it is nobody's business.
    Hidden,
}

/// One field that changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Its key in a specification, dotted where it is nested: `mount_options.fs_type`.
    pub field: &'static str,
    /// What it is now.
    pub old: Shown,
    /// What it will be.
    pub new: Shown,
}

/// What differs between a volume and what an update makes of it.
pub fn diff(existing: &Volume, merged: &Volume) -> Vec<Change> {
    let fields = [
        // Only a server that puts the update in the volume's place changes these three.
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
        (
            "topology_request.required",
            required(existing),
            required(merged),
        ),
        (
            "topology_request.preferred",
            preferred(existing),
            preferred(merged),
        ),
        (
            "parameters",
            map(&existing.parameters),
            map(&merged.parameters),
        ),
        ("context", map(&existing.context), map(&merged.context)),
    ];
    let mut changes: Vec<Change> = fields
        .into_iter()
        .filter(|(_, old, new)| old != new)
        .map(|(field, old, new)| Change { field, old, new })
        .collect();
    changes.extend(mount_flags(
        existing.mount_options.as_ref(),
        merged.mount_options.as_ref(),
    ));
    changes
}

fn text(text: &str) -> Shown {
    optional_text(Some(text))
}

fn optional_text(text: Option<&str>) -> Shown {
    match text {
        Some(text) if !text.is_empty() => Shown::Text(text.to_owned()),
        Some(_) | None => Shown::Absent,
    }
}

pub(super) fn size(bytes: Bytes) -> Shown {
    if bytes.is_zero() {
        Shown::Absent
    } else {
        Shown::Size(bytes)
    }
}

fn capabilities(volume: &Volume) -> Shown {
    if volume.capabilities.is_empty() {
        return Shown::Absent;
    }
    Shown::Capabilities(volume.capabilities.iter().copied().collect())
}

fn fs_type(volume: &Volume) -> Shown {
    let options = volume.mount_options.as_ref();
    optional_text(options.map(|options| options.fs_type.as_str()))
}

fn required(volume: &Volume) -> Shown {
    topologies(
        volume
            .topology_request
            .as_ref()
            .map(|request| request.required.as_slice()),
    )
}

fn preferred(volume: &Volume) -> Shown {
    topologies(
        volume
            .topology_request
            .as_ref()
            .map(|request| request.preferred.as_slice()),
    )
}

pub(super) fn topologies(list: Option<&[Topology]>) -> Shown {
    match list {
        Some(list) if !list.is_empty() => Shown::Topologies(list.iter().cloned().collect()),
        Some(_) | None => Shown::Absent,
    }
}

pub(super) fn map(map: &BTreeMap<String, String>) -> Shown {
    if map.is_empty() {
        Shown::Absent
    } else {
        Shown::Map(map.clone())
    }
}

fn mount_flags(old: Option<&MountOptions>, new: Option<&MountOptions>) -> Option<Change> {
    let flags = |options: Option<&MountOptions>| -> BTreeSet<String> {
        options
            .map(|options| options.mount_flags.iter().cloned().collect())
            .unwrap_or_default()
    };
    let (before, after) = (flags(old), flags(new));
    let redacted = |options: Option<&MountOptions>| options.is_some_and(MountOptions::are_redacted);
    let same = if redacted(old) || redacted(new) {
        before.is_empty() == after.is_empty()
    } else {
        before == after
    };
    let shown = |flags: &BTreeSet<String>| {
        if flags.is_empty() {
            Shown::Absent
        } else {
            Shown::Hidden
        }
    };
    (!same).then(|| Change {
        field: "mount_options.mount_flags",
        old: shown(&before),
        new: shown(&after),
    })
}
