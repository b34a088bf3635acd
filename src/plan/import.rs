//! Writes an existing volume as a specification, for `import`.
//!
//! A plan of the imported files is empty. A specification has what the server shows, and marks what
//! the server hides as `unknown`, so that no update clears it. It includes the external ID, so that
//! applying the file after the volume is gone registers the data again and never creates an empty
//! volume in its place.
//!
//! Import reports problems and does not repair them.

use std::collections::{BTreeMap, BTreeSet};

use super::ledger::DataIdentity;
use nomad_csi_model::{
    AllocId, ExternalId, HiddenField, MountOptions, NamespacedId, PluginId, UnresolvedRequest,
    Volume, VolumeSummary,
};
use nomad_csi_spec::WritableSpec;

/// The other volumes on the server and at the providers.
#[derive(Clone, Debug, Default)]
pub struct ImportContext {
    /// All visible volumes, in all namespaces.
    pub registered: Vec<VolumeSummary>,
    /// The volumes that each provider lists, for the plugins that can list volumes.
    pub provided: BTreeMap<PluginId, BTreeSet<ExternalId>>,
}

/// A volume as a specification.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The specification.
    pub written: WritableSpec,
    /// The problems of the volume.
    pub issues: Vec<ImportIssue>,
    /// When its specification had last changed as it was read.
    pub spec_index: u64,
    /// Its data when it was read.
    pub data: DataIdentity,
}

/// A problem of an imported volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImportIssue {
    /// The server hides its mount flags.
    RedactedMountFlags,
    /// These volumes have the same external ID at the same plugin (GH-13266).
    SharedExternalId(Vec<NamespacedId>),
    /// The provider does not list its external ID.
    NotInProvider,
    /// These allocations claim it and have ended or are unknown to the server.
    StuckClaims(Vec<AllocId>),
    /// It has no capability that this program knows.
    NoCapability,
}

impl ImportIssue {
    /// Its name in a summary.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::RedactedMountFlags => "redacted",
            Self::SharedExternalId(_) => "shared external ID",
            Self::NotInProvider => "orphan",
            Self::StuckClaims(_) => "stuck",
            Self::NoCapability => "no capability",
        }
    }

    fn comment(&self) -> String {
        match self {
            Self::RedactedMountFlags => {
                "the server hides the mount flags; set them here before the volume can be updated"
                    .to_owned()
            }
            Self::SharedExternalId(others) => {
                let others: Vec<_> = others.iter().map(ToString::to_string).collect();
                format!(
                    "same external ID as {}; deleting one volume deletes the data of all",
                    others.join(", ")
                )
            }
            Self::NotInProvider => {
                "the provider does not list the external ID; the data may be gone".to_owned()
            }
            Self::StuckClaims(allocs) => {
                let allocs: Vec<_> = allocs.iter().map(ToString::to_string).collect();
                format!(
                    "claimed by allocations that have ended or are unknown to the server: {}",
                    allocs.join(", ")
                )
            }
            Self::NoCapability => {
                "the server reports no capability that this program knows".to_owned()
            }
        }
    }
}

/// Returns the specification of an existing volume.
pub fn import_volume(volume: &Volume, context: &ImportContext) -> Imported {
    let mut unknown = BTreeSet::from([HiddenField::Secrets]);
    let options = volume.mount_options.as_ref();
    let redacted = options.is_some_and(MountOptions::are_redacted);
    if redacted {
        unknown.insert(HiddenField::MountFlags);
    }
    let shared = shared(volume, &context.registered);
    let stuck = stuck(volume);
    let provided = context.provided.get(&volume.plugin_id);
    let listed = provided.is_none_or(|provided| provided.contains(&volume.remote_id()));
    let issues: Vec<ImportIssue> = [
        redacted.then_some(ImportIssue::RedactedMountFlags),
        (!shared.is_empty()).then_some(ImportIssue::SharedExternalId(shared)),
        (!listed).then_some(ImportIssue::NotInProvider),
        (!stuck.is_empty()).then_some(ImportIssue::StuckClaims(stuck)),
        volume.capabilities.is_empty().then_some(ImportIssue::NoCapability),
    ]
    .into_iter()
    .flatten()
    .collect();
    let secrets = "servers do not show secrets: set them, or write `secrets {}` if there are none";
    let origin = origin(volume);
    let remarks = issues.iter().map(ImportIssue::comment).chain(origin);
    Imported {
        written: WritableSpec {
            unknown,
            protect: Some(true),
            comments: remarks.chain([secrets.to_owned()]).collect(),
            ..WritableSpec::new(request(volume))
        },
        issues,
        spec_index: volume.spec_index,
        data: DataIdentity::of(volume),
    }
}

/// Returns what a file says of the volume. The data of a registered volume is not copied, so its sources are left out.
fn request(volume: &Volume) -> UnresolvedRequest {
    let shown = UnresolvedRequest::of_volume(volume);
    let registers = volume.external_id.is_some();
    let topology_request = shown.topology_request.filter(|request| !request.is_empty());
    let mount_options = shown.mount_options.filter(|options| !options.is_empty());
    let mount_options = mount_options.map(MountOptions::without_redacted_flags);
    UnresolvedRequest {
        topology_request,
        clone_id: shown.clone_id.filter(|_| !registers),
        snapshot_id: shown.snapshot_id.filter(|_| !registers),
        mount_options,
        context: shown.context.filter(|_| registers),
        ..shown
    }
}

/// Returns the origin of a registered volume as a comment, since registering copies nothing.
fn origin(volume: &Volume) -> Option<String> {
    let registers = volume.external_id.is_some();
    let text = |what: &str, id: &Option<String>| {
        let id = id.as_ref().filter(|_| registers)?;
        Some(format!("created from {what} {id}"))
    };
    text("snapshot", &volume.snapshot_id).or_else(|| text("volume", &volume.clone_id))
}

/// Returns the volumes with the same external ID; deleting one deletes the data of all.
fn shared(volume: &Volume, registered: &[VolumeSummary]) -> Vec<NamespacedId> {
    let remote = volume.remote_id();
    let others = registered.iter().filter(|other| {
        other.plugin_id == volume.plugin_id && other.remote_id() == remote.as_str()
    });
    let keys = others.map(VolumeSummary::key);
    keys.filter(|key| *key != volume.key()).collect()
}

/// Returns the claims that no client will release.
fn stuck(volume: &Volume) -> Vec<AllocId> {
    let ended = |id: &&AllocId| {
        let known = volume.allocs.iter().find(|alloc| alloc.id == **id);
        known.is_none_or(|alloc| alloc.client.has_ended())
    };
    volume.claiming_allocs().filter(ended).cloned().collect()
}

#[cfg(test)]
mod tests;
