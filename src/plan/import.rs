//! What exists, as specifications: what `import` writes.
//!
//! The rule is that a plan made at once is empty (`users` 3, "Import that round-trips honestly"): a
//! specification says what the server shows, in the server's words, and of what the server hides that
//! it is `unknown`, so that nothing is lost by an update either. A volume that the provider knows by
//! an ID of its own is written with that ID: whoever applies the file where the volume is gone
//! registers it again, and never makes an empty one in its place.
//!
//! What is not as it should be is not mended, only marked: values that are hidden, an external ID that
//! several volumes share, one that the provider does not list, claims of allocations that have ended.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{
    AllocId, ExternalId, HiddenField, MountOptions, NamespacedId, PluginId, TopologyRequest,
    Volume, VolumeSummary, WantedRequest,
};
use crate::spec::Written;

/// What is known beside the volume itself.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// All volumes that can be seen, in all namespaces.
    pub registered: Vec<VolumeSummary>,
    /// What providers list, of each plugin that could be asked.
    pub provided: BTreeMap<PluginId, BTreeSet<ExternalId>>,
}

/// A volume as a specification.
#[derive(Clone, Debug)]
pub struct Imported {
    /// What is written.
    pub written: Written,
    /// What is not as it should be; nothing if it is written exactly as it is.
    pub marks: Vec<Mark>,
    /// Its modify index as it was read.
    pub modify_index: u64,
}

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mark {
    /// It has mount flags, and nobody can read them.
    Redacted,
    /// These volumes have the same external ID at the same plugin (GH-13266).
    Shared(Vec<NamespacedId>),
    /// The provider does not list it.
    Orphan,
    /// These allocations claim it, and have ended or are not known any more.
    Stuck(Vec<AllocId>),
    /// It may be used in no way that there is a word for.
    Unusable,
}

impl Mark {
    /// Its word in a summary.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Redacted => "redacted",
            Self::Shared(_) => "shared external ID",
            Self::Orphan => "orphan",
            Self::Stuck(_) => "stuck",
            Self::Unusable => "no capability",
        }
    }

    fn remark(&self) -> String {
        match self {
            Self::Redacted => {
                "the server hides the mount flags: until they are given, no update is sent"
                    .to_owned()
            }
            Self::Shared(others) => {
                let others: Vec<_> = others.iter().map(ToString::to_string).collect();
                format!(
                    "the same external ID as {}: whoever deletes one deletes the data of all",
                    others.join(", ")
                )
            }
            Self::Orphan => {
                "the provider does not list the external ID: the data may be gone".to_owned()
            }
            Self::Stuck(allocs) => {
                let allocs: Vec<_> = allocs.iter().map(ToString::to_string).collect();
                format!(
                    "claimed by allocations that have ended or are not known: {}",
                    allocs.join(", ")
                )
            }
            Self::Unusable => "the server names no way to use it that is known here".to_owned(),
        }
    }
}

/// Writes a volume down.
pub fn import(volume: &Volume, surroundings: &Surroundings) -> Imported {
    let mut unknown = BTreeSet::from([HiddenField::Secrets]);
    let options = volume.mount_options.as_ref();
    let redacted = options.is_some_and(MountOptions::are_redacted);
    if redacted {
        unknown.insert(HiddenField::MountFlags);
    }
    let shared = shared(volume, &surroundings.registered);
    let stuck = stuck(volume);
    let provided = surroundings.provided.get(&volume.plugin_id);
    let listed = provided.is_none_or(|provided| provided.contains(&volume.remote_id()));
    let marks: Vec<Mark> = [
        redacted.then_some(Mark::Redacted),
        (!shared.is_empty()).then_some(Mark::Shared(shared)),
        (!listed).then_some(Mark::Orphan),
        (!stuck.is_empty()).then_some(Mark::Stuck(stuck)),
        volume.capabilities.is_empty().then_some(Mark::Unusable),
    ]
    .into_iter()
    .flatten()
    .collect();
    let secrets = "no server shows secrets: give them, or write `secrets {}` if there are none";
    let origin = origin(volume);
    let remarks = marks.iter().map(Mark::remark).chain(origin);
    Imported {
        written: Written {
            request: request(volume),
            unknown,
            protect: Some(true),
            remarks: remarks.chain([secrets.to_owned()]).collect(),
        },
        marks,
        modify_index: volume.modify_index,
    }
}

fn request(volume: &Volume) -> WantedRequest {
    let options = volume.mount_options.clone().map(|options| MountOptions {
        mount_flags: if options.are_redacted() {
            vec![]
        } else {
            options.mount_flags.clone()
        },
        ..options
    });
    let redacted = volume.mount_options.as_ref();
    let redacted = redacted.is_some_and(MountOptions::are_redacted);
    let places = volume.topology_request.as_ref();
    let has_places =
        |request: &&TopologyRequest| !request.required.is_empty() || !request.preferred.is_empty();
    let pairs = |map: &BTreeMap<String, String>| (!map.is_empty()).then(|| map.clone());
    let registers = volume.external_id.is_some();
    WantedRequest {
        namespace: volume.namespace.clone(),
        id: volume.id.clone(),
        name: (!volume.name.is_empty()).then(|| volume.name.clone()),
        external_id: volume.external_id.clone(),
        plugin_id: volume.plugin_id.clone(),
        capabilities: volume.capabilities.clone(),
        capacity: volume.requested_capacity,
        topology_request: places.filter(has_places).cloned(),
        clone_id: volume.clone_id.clone().filter(|_| !registers),
        snapshot_id: volume.snapshot_id.clone().filter(|_| !registers),
        mount_options: options.filter(|options| redacted || !options.is_empty()),
        secrets: None,
        parameters: pairs(&volume.parameters),
        context: pairs(&volume.context).filter(|_| registers),
    }
}

/// What a registration could not say without a warning: it would copy nothing.
fn origin(volume: &Volume) -> Option<String> {
    let registers = volume.external_id.is_some();
    let text = |what: &str, id: &Option<String>| {
        let id = id.as_ref().filter(|_| registers)?;
        Some(format!("it was made from {what} {id}"))
    };
    text("snapshot", &volume.snapshot_id).or_else(|| text("volume", &volume.clone_id))
}

/// Deleting one of them deletes the data of all.
fn shared(volume: &Volume, registered: &[VolumeSummary]) -> Vec<NamespacedId> {
    let remote = |other: &VolumeSummary| {
        let of_id = || ExternalId::new(other.id.as_str());
        other.external_id.clone().unwrap_or_else(of_id)
    };
    let others = registered
        .iter()
        .filter(|other| other.plugin_id == volume.plugin_id && remote(other) == volume.remote_id());
    let keys = others.map(|other| NamespacedId::new(other.namespace.clone(), other.id.clone()));
    keys.filter(|key| *key != volume.key()).collect()
}

/// Claims that nobody will end any more by himself.
fn stuck(volume: &Volume) -> Vec<AllocId> {
    let ended = |id: &&AllocId| {
        let known = volume.allocs.iter().find(|alloc| alloc.id == **id);
        known.is_none_or(|alloc| alloc.client.is_terminal())
    };
    volume.claimants().filter(ended).cloned().collect()
}

#[cfg(test)]
mod tests;
