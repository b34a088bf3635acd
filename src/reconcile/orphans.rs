//! What a provider has and nobody registered: found, registered, or deleted.
//!
//! A server lists what a provider has and does not say what of that is registered (`users` 57), so the
//! two lists are joined here, by the provider's ID of a volume (B35), over all namespaces **and all
//! plugins**: two plugins may stand for one provider, and what one of them lists may be registered with
//! the other. Whoever cannot see all namespaces does not know what is an orphan, and deletes none.
//!
//! Nomad deletes registered volumes only, so a deletion has two steps: the volume is registered under
//! a name that is made of its plugin and its external ID, and that registration is deleted with its
//! data. If a run is cut short between the two, the next one finds the name and goes on with the second
//! step; `volume deregister` takes the registration away and leaves the data. Right before each step
//! it is asked again whether somebody else has registered the volume or uses it.

use sha2::{Digest as _, Sha256};

use super::change::LOOKS;
use crate::diagnostic::{Code, Diagnostic};
use crate::model::{
    ExternalId, ExternalVolume, Namespace, NamespacedId, PluginId, Secrets, Volume, VolumeId,
    VolumeRequest, VolumeSummary, hex,
};
use crate::plan::{Removal, removal_problems};
use crate::ports::{ApiError, VolumeApi, VolumeQuery};

/// What a provider has, beside what is registered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inventory {
    /// The provider's volumes, in its list's order.
    pub listed: Vec<Listed>,
    /// Volumes registered with this plugin that the provider does not list.
    pub missing: Vec<VolumeSummary>,
}

/// One of the provider's volumes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// As the provider lists it.
    pub volume: ExternalVolume,
    /// Everybody who registered it, whatever the plugin; more than one share its data.
    pub registered: Vec<VolumeSummary>,
    /// A deletion that was begun: the registration that was made for it.
    pub deletion: Option<VolumeSummary>,
}

impl Listed {
    /// Whether nobody registered it, but for a deletion.
    pub fn is_orphan(&self) -> bool {
        self.registered.is_empty()
    }
}

impl Inventory {
    /// Volumes that nobody registered.
    pub fn orphans(&self) -> impl Iterator<Item = &Listed> {
        self.listed.iter().filter(|listed| listed.is_orphan())
    }

    /// The volume of that external ID.
    pub fn find(&self, id: &str) -> Option<&Listed> {
        let mut listed = self.listed.iter();
        listed.find(|listed| listed.volume.external_id.as_str() == id)
    }
}

/// What the provider knows a registered volume by: its external ID, or its own if it has none (B35).
fn remote_id(volume: &VolumeSummary) -> &str {
    let external = volume.external_id.as_ref();
    external.map_or(volume.id.as_str(), ExternalId::as_str)
}

/// Joins a plugin's list with everything that is registered anywhere.
pub fn join(
    plugin: &PluginId,
    listed: Vec<ExternalVolume>,
    registered: &[VolumeSummary],
) -> Inventory {
    let of = |volume: ExternalVolume| {
        let id = volume.external_id.as_str();
        let temporary = deletion_name(plugin, &volume.external_id);
        let same = registered.iter().filter(|one| remote_id(one) == id);
        let (deletion, registered): (Vec<_>, Vec<_>) =
            same.cloned().partition(|one| one.id == temporary);
        Listed {
            volume,
            registered,
            deletion: deletion.into_iter().next(),
        }
    };
    let listed: Vec<Listed> = listed.into_iter().map(of).collect();
    let is_listed = |id: &str| {
        let mut all = listed.iter();
        all.any(|one| one.volume.external_id.as_str() == id)
    };
    let of_plugin = registered.iter().filter(|one| one.plugin_id == *plugin);
    let missing = of_plugin.filter(|one| !is_listed(remote_id(one)));
    Inventory {
        missing: missing.cloned().collect(),
        listed,
    }
}

/// What a volume is registered as while it is deleted. Of one external ID at one plugin it is always
/// the same, so that a second run finds what the first one began.
pub fn deletion_name(plugin: &PluginId, id: &ExternalId) -> VolumeId {
    let mut hash = Sha256::new();
    hash.update(plugin.as_str());
    hash.update([0]);
    hash.update(id.as_str());
    let hash = hash.finalize();
    let digits: String = hex(&hash[..10]).collect();
    VolumeId::new(format!("nomad-csi-deleting-{digits}"))
}

/// Everything that is registered, wherever it can be seen.
///
/// # Errors
/// If the server cannot be read.
pub async fn registered_anywhere(api: &dyn VolumeApi) -> Result<Vec<VolumeSummary>, ApiError> {
    let everywhere = VolumeQuery {
        namespace: Namespace::new(Namespace::ALL),
        prefix: None,
        plugin: None,
    };
    let listed = api.list_volumes(&everywhere).await?;
    Ok(listed.into_iter().map(|reading| reading.value).collect())
}

/// Registers a volume that the provider has, unless it is registered so already or under any other
/// name. The server's warnings.
///
/// # Errors
/// If it is registered otherwise, the server says no, or nobody knows what it did.
pub async fn adopt(
    api: &dyn VolumeApi,
    request: &VolumeRequest,
) -> Result<Vec<String>, Diagnostic> {
    let key = request.key();
    let remote = request.external_id.as_ref();
    let remote = remote.map_or(request.id.as_str(), ExternalId::as_str);
    let all = registered_anywhere(api).await;
    let all = all.map_err(|error| error.diagnostic())?;
    let mut same = all.iter().filter(|one| remote_id(one) == remote);
    if let Some(other) = same.find(|one| (&one.namespace, &one.id) != (&key.namespace, &key.id)) {
        return Err(registered_already(remote, other));
    }
    match api.read_volume(&key).await {
        Ok(Some(there)) if is_of(&there.value, request) => return Ok(vec![]),
        Ok(Some(there)) => return Err(name_taken(&there.value, remote)),
        Ok(None) => {}
        Err(error) => return Err(error.diagnostic()),
    }
    match api.register_volume(request).await {
        Ok(written) => Ok(written.warnings),
        Err(error) if error.code == Code::ApiOutcomeUnknown => {
            let is_there = |found: Option<&Volume>| found.is_some_and(|now| is_of(now, request));
            if is_seen(api, &key, is_there).await {
                return Ok(vec![]);
            }
            Err(error.diagnostic().help(
                "run the same command again: what is registered already is not registered twice",
            ))
        }
        Err(error) => Err(error.diagnostic()),
    }
}

/// Whether the volume is found so within some seconds after an answer was lost.
async fn is_seen(
    api: &dyn VolumeApi,
    key: &NamespacedId,
    so: impl Fn(Option<&Volume>) -> bool,
) -> bool {
    for pause in LOOKS {
        tokio::time::sleep(pause).await;
        let found = api.read_volume(key).await;
        if found.is_ok_and(|found| so(found.as_ref().map(|reading| &reading.value))) {
            return true;
        }
    }
    false
}

fn is_of(there: &Volume, request: &VolumeRequest) -> bool {
    there.plugin_id == request.plugin_id && there.external_id == request.external_id
}

fn registered_already(remote: &str, other: &VolumeSummary) -> Diagnostic {
    let message = format!("the provider's volume {remote} is no orphan: it is registered");
    Diagnostic::error(Code::OrphanRegistered, message)
        .note(format!(
            "volume {} in namespace {} of plugin {} has it",
            other.id, other.namespace, other.plugin_id
        ))
        .help("two registrations of one volume share its data, and deleting one takes it from the other")
}

fn name_taken(there: &Volume, remote: &str) -> Diagnostic {
    let message = format!(
        "the provider's volume {remote} cannot be registered as {}: that is another volume",
        there.key()
    );
    Diagnostic::error(Code::OrphanRegistered, message)
        .note(format!(
            "volume {} is of plugin {}, external ID {}",
            there.key(),
            there.plugin_id,
            there.remote_id()
        ))
        .help("choose another ID: `--adopt ID=EXTERNAL_ID`")
}

/// How the deletion of an orphan ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deleted {
    /// The data and the registration that was made for it are gone.
    Done,
    /// Somebody else registered the volume meanwhile or uses it: the data is untouched, and the
    /// registration that was made is gone again if it could be removed.
    Spared(Vec<Diagnostic>),
    /// It was registered, and not deleted; the next run goes on there.
    HalfDone(Diagnostic),
}

/// Deletes what was registered for it: the second step. Whether anybody else has the volume is asked
/// of what is there now.
pub async fn delete(api: &dyn VolumeApi, key: &NamespacedId, secrets: &Secrets) -> Deleted {
    match in_the_way(api, key).await {
        Ok(None) => return Deleted::Done,
        Ok(Some(problems)) if problems.is_empty() => {}
        Ok(Some(problems)) => {
            // What it was made for does not come, and the data stays.
            let removed = api.deregister_volume(key, false).await;
            let kept = removed.err().map(|error| {
                error.diagnostic().help(format!(
                    "`nomad-csi volume deregister {} --namespace {}` takes the registration away that was made for the deletion; the data stays",
                    key.id, key.namespace
                ))
            });
            return Deleted::Spared(problems.into_iter().chain(kept).collect());
        }
        Err(error) => return half_done(key, error.diagnostic()),
    }
    match api.delete_volume(key, secrets).await {
        Ok(()) => Deleted::Done,
        Err(error) if error.code == Code::VolumeNotFound => Deleted::Done,
        Err(error) if error.code == Code::ApiOutcomeUnknown => {
            if is_seen(api, key, |found| found.is_none()).await {
                return Deleted::Done;
            }
            half_done(key, error.diagnostic())
        }
        Err(error) => half_done(key, error.diagnostic()),
    }
}

/// What stands against the deletion; `None` if the volume is gone.
async fn in_the_way(
    api: &dyn VolumeApi,
    key: &NamespacedId,
) -> Result<Option<Vec<Diagnostic>>, ApiError> {
    let others = registered_anywhere(api).await?;
    let volume = api.read_volume(key).await?.map(|reading| reading.value);
    Ok(volume.map(|volume| {
        let mut problems = removal_problems(&volume, Removal::Delete, &others);
        let remote = volume.remote_id();
        let elsewhere = others.iter().find(|other| {
            other.plugin_id != volume.plugin_id && remote_id(other) == remote.as_str()
        });
        problems.extend(elsewhere.map(|other| registered_already(remote.as_str(), other)));
        problems
    }))
}

fn half_done(key: &NamespacedId, problem: Diagnostic) -> Deleted {
    let problem = problem
        .note(format!(
            "for its deletion it was registered as volume {} in namespace {}; its data was not seen to be deleted",
            key.id, key.namespace
        ))
        .help("run the same command again: it goes on with the deletion")
        .help(format!(
            "or keep the data: `nomad-csi volume deregister {} --namespace {}`",
            key.id, key.namespace
        ));
    Deleted::HalfDone(problem)
}

#[cfg(test)]
mod tests;
