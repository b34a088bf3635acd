//! Orphans: volumes that a provider has and no registration names.
//!
//! A server's list of a provider's volumes does not show which are registered. So it is joined with the
//! registered volumes of all namespaces **and all plugins**, by external ID: two plugins can serve one
//! provider. A token that cannot see all namespaces cannot know what is an orphan.
//!
//! Nomad deletes registered volumes only, so a deletion has two steps. The orphan is registered under a
//! name made from its plugin and external ID, and that registration is deleted with its data. A second
//! run finds the name and continues. Right before each step, registrations and claims are checked again.

use sha2::{Digest as _, Sha256};

use super::until_sent::CONFIRMATION_PAUSES;
use super::volume_list::list_all_volumes;
use crate::ports::{ApiError, VolumeApi};
use nomad_csi_model::diagnostic::{Code, Diagnostic};
use nomad_csi_model::{
    ExternalId, ExternalVolume, NamespacedId, PluginId, Secrets, Volume, VolumeId, VolumeRequest,
    VolumeSummary, hex,
};
use nomad_csi_plan::{ClaimDrops, Removal, removal_problems};

/// The volumes of a provider, and the registered ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inventory {
    /// The provider's volumes, in the order of its list.
    pub listed: Vec<ListedVolume>,
    /// Volumes that are registered with the plugin and that the provider does not list.
    pub missing: Vec<VolumeSummary>,
}

/// A volume that a provider lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedVolume {
    /// The provider's description.
    pub volume: ExternalVolume,
    /// All registrations of the volume, at any plugin. Several share its data.
    pub registered: Vec<VolumeSummary>,
    /// The registration that an unfinished deletion made.
    pub deletion: Option<VolumeSummary>,
}

impl ListedVolume {
    /// Returns whether the volume has no registration, except one for its deletion.
    pub fn is_orphan(&self) -> bool {
        self.registered.is_empty()
    }

    /// Returns the size for people.
    pub fn size_text(&self) -> String {
        match self.volume.capacity {
            size if size.is_zero() => "unknown".to_owned(),
            size => size.binary(),
        }
    }
}

impl Inventory {
    /// Joins a plugin's list with the registered volumes of all namespaces and plugins.
    pub fn new(
        plugin: &PluginId,
        listed: Vec<ExternalVolume>,
        registered: &[VolumeSummary],
    ) -> Self {
        let of = |volume: ExternalVolume| {
            let id = volume.external_id.as_str();
            let temporary = deletion_name(plugin, &volume.external_id);
            let same = registered.iter().filter(|one| one.remote_id() == id);
            let (deletion, registered): (Vec<_>, Vec<_>) =
                same.cloned().partition(|one| one.id == temporary);
            ListedVolume { volume, registered, deletion: deletion.into_iter().next() }
        };
        let listed: Vec<ListedVolume> = listed.into_iter().map(of).collect();
        let is_listed = |id: &str| {
            let mut all = listed.iter();
            all.any(|one| one.volume.external_id.as_str() == id)
        };
        let of_plugin = registered.iter().filter(|one| one.plugin_id == *plugin);
        let missing = of_plugin.filter(|one| !is_listed(one.remote_id()));
        Self { missing: missing.cloned().collect(), listed }
    }

    /// Returns the volumes that are not registered.
    pub fn orphans(&self) -> impl Iterator<Item = &ListedVolume> {
        self.listed.iter().filter(|listed| listed.is_orphan())
    }

    /// Returns the volume of an external ID.
    pub fn find(&self, id: &str) -> Option<&ListedVolume> {
        let mut listed = self.listed.iter();
        listed.find(|listed| listed.volume.external_id.as_str() == id)
    }
}

/// Returns the ID of the registration that deletes an external volume. It is always the same for one
/// external ID at one plugin, so a second run finds it.
pub(super) fn deletion_name(plugin: &PluginId, id: &ExternalId) -> VolumeId {
    let mut hash = Sha256::new();
    hash.update(plugin.as_str());
    hash.update([0]);
    hash.update(id.as_str());
    let hash = hash.finalize();
    let digits: String = hex(&hash[..10]).collect();
    VolumeId::new(format!("nomad-csi-deleting-{digits}"))
}

/// Registers an orphan, unless the same registration exists. Returns the server's warnings.
///
/// # Errors
/// If another registration has the volume, the server refuses, or the outcome is unknown.
pub(super) async fn register_orphan(
    api: &dyn VolumeApi,
    request: &VolumeRequest,
) -> Result<Vec<String>, Diagnostic> {
    let key = request.key();
    let remote = request.external_id.as_ref();
    let remote = remote.map_or(request.id.as_str(), ExternalId::as_str);
    let all = list_all_volumes(api).await;
    let all = all.map_err(|error| error.diagnostic())?;
    let mut same = all.iter().filter(|one| one.remote_id() == remote);
    if let Some(other) = same.find(|one| (&one.namespace, &one.id) != (&key.namespace, &key.id)) {
        return Err(already_registered(remote, other));
    }
    match api.read_volume(&key).await {
        Ok(Some(existing)) if is_registration(&existing.value, request) => return Ok(vec![]),
        Ok(Some(existing)) => return Err(id_taken(&existing.value, remote)),
        Ok(None) => {}
        Err(error) => return Err(error.diagnostic()),
    }
    match api.register_volume(request).await {
        Ok(reply) => Ok(reply.warnings),
        Err(error) if error.code == Code::ApiOutcomeUnknown => {
            let is_done =
                |now: Option<&Volume>| now.is_some_and(|now| is_registration(now, request));
            if is_confirmed(api, &key, is_done).await {
                return Ok(vec![]);
            }
            Err(error
                .diagnostic()
                .help("run the same command again; it does not register a volume twice"))
        }
        Err(error) => Err(error.diagnostic()),
    }
}

/// Returns whether the volume meets a condition within seven seconds after a lost reply.
async fn is_confirmed(
    api: &dyn VolumeApi,
    key: &NamespacedId,
    condition: impl Fn(Option<&Volume>) -> bool,
) -> bool {
    for pause in CONFIRMATION_PAUSES {
        tokio::time::sleep(pause).await;
        let found = api.read_volume(key).await;
        if found.is_ok_and(|found| condition(found.as_ref().map(|reading| &reading.value))) {
            return true;
        }
    }
    false
}

fn is_registration(existing: &Volume, request: &VolumeRequest) -> bool {
    existing.plugin_id == request.plugin_id && existing.external_id == request.external_id
}

fn already_registered(remote: &str, other: &VolumeSummary) -> Diagnostic {
    let message = format!("volume `{remote}` of the provider is not an orphan: it is registered");
    Diagnostic::error(Code::OrphanRegistered, message)
        .note(format!(
            "volume `{}` in namespace `{}` of plugin `{}` has this external ID",
            other.id, other.namespace, other.plugin_id
        ))
        .note("two registrations of one volume share its data; deleting one destroys the data of both")
}

fn id_taken(existing: &Volume, remote: &str) -> Diagnostic {
    let message = format!(
        "cannot register volume `{remote}` of the provider as `{}`: the ID is in use",
        existing.key()
    );
    Diagnostic::error(Code::OrphanRegistered, message)
        .note(format!(
            "volume `{}` has plugin `{}` and external ID `{}`",
            existing.key(),
            existing.plugin_id,
            existing.remote_id()
        ))
        .help("choose another ID with `--adopt ID=EXTERNAL_ID`")
}

/// How the deletion of an orphan ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum OrphanDeletion {
    /// The data and the registration for the deletion are gone.
    Deleted,
    /// Another registration or a claim prevents it. The data is untouched, and the registration for
    /// the deletion is removed if possible.
    Refused(Vec<Diagnostic>),
    /// The orphan is registered and not deleted. The next run continues.
    Incomplete(Diagnostic),
}

/// Deletes an orphan that was registered for it. Checks registrations and claims right before.
pub(super) async fn delete_orphan(
    api: &dyn VolumeApi,
    key: &NamespacedId,
    secrets: &Secrets,
) -> OrphanDeletion {
    match deletion_problems(api, key).await {
        Ok(None) => return OrphanDeletion::Deleted,
        Ok(Some(problems)) if problems.is_empty() => {}
        Ok(Some(problems)) => {
            // The registration has no purpose any more. The data stays.
            let removed = api.deregister_volume(key, false).await;
            let left = removed.err().map(|error| {
                error.diagnostic().help(format!(
                    "run `nomad-csi volume deregister {}` to remove the registration that was made for the deletion; the data stays",
                    key.command_words()
                ))
            });
            return OrphanDeletion::Refused(problems.into_iter().chain(left).collect());
        }
        Err(error) => return incomplete(key, error.diagnostic()),
    }
    match api.delete_volume(key, secrets).await {
        Ok(()) => OrphanDeletion::Deleted,
        Err(error) if error.code == Code::VolumeNotFound => OrphanDeletion::Deleted,
        Err(error) if error.code == Code::ApiOutcomeUnknown => {
            if is_confirmed(api, key, |found| found.is_none()).await {
                return OrphanDeletion::Deleted;
            }
            incomplete(key, error.diagnostic())
        }
        Err(error) => incomplete(key, error.diagnostic()),
    }
}

/// Returns what prevents the deletion; `None` if the volume is gone.
async fn deletion_problems(
    api: &dyn VolumeApi,
    key: &NamespacedId,
) -> Result<Option<Vec<Diagnostic>>, ApiError> {
    let others = list_all_volumes(api).await?;
    let volume = api.read_volume(key).await?.map(|reading| reading.value);
    Ok(volume.map(|volume| {
        let mut problems =
            removal_problems(&volume, Removal::Delete, &others, &ClaimDrops::default());
        let remote = volume.remote_id();
        let elsewhere = others.iter().find(|other| {
            other.plugin_id != volume.plugin_id && other.remote_id() == remote.as_str()
        });
        problems.extend(elsewhere.map(|other| already_registered(remote.as_str(), other)));
        problems
    }))
}

fn incomplete(key: &NamespacedId, problem: Diagnostic) -> OrphanDeletion {
    let problem = problem
        .note(format!(
            "the orphan is registered as volume `{}` in namespace `{}` for its deletion, and may still have its data",
            key.id, key.namespace
        ))
        .help("run the same command again to continue the deletion")
        .help(format!(
            "to keep the data, run `nomad-csi volume deregister {}`",
            key.command_words()
        ));
    OrphanDeletion::Incomplete(problem)
}

#[cfg(test)]
mod tests;
