//! The provider's own volumes and snapshots, registered or not.
//!
//! The agent records nothing of this; the provider's list is the truth. A snapshot's name is its
//! identity at the provider, so the same request sent again returns the same snapshot; every failure
//! reports whether that is needed. Lists and deletes use the secrets of the request alone. A new
//! snapshot uses the volume's secrets, overlaid by those of the request.
//!
//! While the outcome of another controller call of the volume is not known, its snapshots are taken by the same
//! instance (rule 4 of the claims machine). A snapshot itself binds nothing, because it is not on record: after CreateSnapshot without a known
//! outcome, the next call of the volume may go to another instance, also to delete the volume. A snapshot changes
//! nothing of its volume, so at worst the snapshot is missing or of a later moment. DeleteSnapshot goes to any instance: the
//! agent does not know its volume.

use std::collections::BTreeMap;

use async_trait::async_trait;
use tracing::info;

use super::deps::VolumeDeps;
use super::health::{add_health, list_health};
use super::plugin::VolumePlugin;
use super::resource_locks::LockedResource;
use crate::early_reply::EarlyReply;
use crate::error::{
    CallDescription, CallTarget, ControllerOperation, PluginFailure, ResidualState, ServerError,
    SnapshotError, UnsupportedOperation,
};
use crate::forward::{AnyInstance, CallableInstances};
use crate::forward_error::{ForwardError, ForwardOutcome};
use crate::plugin_call_queue::CallClass;
use nomad_csi_claims::state::{ControllerCall, ControllerEffect, Phase, may_be_called};
use nomad_csi_model::{
    AllocId, ExternalVolume, NamespacedId, PluginId, RemoteVolume, Secrets, Snapshot, SnapshotId,
};
use nomad_csi_ports::{CreateSnapshot, ListSnapshots, Page, PageRequest, Rpc};

/// A snapshot to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotRequest {
    /// The volume to snapshot.
    pub source: NamespacedId,
    /// The snapshot's name, which is its identity at the provider.
    pub name: String,
    /// The plugin that the request names, which must be the volume's.
    pub plugin: Option<PluginId>,
    /// Opaque parameters of the provider.
    pub parameters: BTreeMap<String, String>,
    /// Secrets that overlay the volume's.
    pub secrets: Secrets,
}

/// A snapshot that was created, with what it was created from (W57).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreatedSnapshot {
    /// The snapshot.
    pub snapshot: Snapshot,
    /// The volume.
    pub source: NamespacedId,
    /// The plugin.
    pub plugin: PluginId,
    /// The snapshot's name.
    pub name: String,
}

/// Lists a page of the volumes of a provider, with their health if the plugin lists that.
pub(super) async fn list_volumes(
    deps: &VolumeDeps,
    plugin: &PluginId,
    page: PageRequest,
) -> Result<Page<ExternalVolume>, ServerError> {
    let facts = supporting_plugin(deps, plugin, UnsupportedOperation::ListVolumes)?;
    let call = CallDescription {
        operation: ControllerOperation::ListVolumes,
        target: CallTarget::Volumes,
        subject: page.starting_token.clone(),
        plugin: plugin.clone(),
    };
    let calls = deps.admit(CallClass::List, &facts, &call, ResidualState::None).await?;
    let answer = calls.read(Rpc::ListVolumes, |controller| {
        let page = page.clone();
        async move { controller.list_volumes(page).await }
    });
    let mut answer = answer.await.map_err(|error| failure(&call, error))?;
    if facts.can(|controller| controller.list_volume_health) {
        let has_more = answer.next_token.is_some();
        let read = || list_health(&calls);
        let listed = deps.listing_health.of_page(plugin, &page, has_more, read);
        if let Some(listed) = listed.await {
            add_health(&mut answer.entries, &listed);
        }
    }
    // Without LIST_VOLUMES_PUBLISHED_NODES the field has no meaning (CSI 1.12, ListVolumes).
    if !facts.can(|controller| controller.list_volumes_published_nodes) {
        for volume in &mut answer.entries {
            volume.published_nodes.clear();
        }
    }
    Ok(answer)
}

/// Lists a page of the snapshots of a provider.
pub(super) async fn list_snapshots(
    deps: &VolumeDeps,
    plugin: &PluginId,
    page: PageRequest,
    secrets: Secrets,
) -> Result<Page<Snapshot>, ServerError> {
    let facts = supporting_plugin(deps, plugin, UnsupportedOperation::ListSnapshots)?;
    let call = CallDescription {
        operation: ControllerOperation::ListSnapshots,
        target: CallTarget::Snapshots,
        subject: page.starting_token.clone(),
        plugin: plugin.clone(),
    };
    let request = ListSnapshots { page, secrets, ..ListSnapshots::default() };
    let calls = deps.admit(CallClass::List, &facts, &call, ResidualState::None).await?;
    let answer = calls.read(Rpc::ListSnapshots, |controller| {
        let request = request.clone();
        async move { controller.list_snapshots(request).await }
    });
    Ok(answer.await.map_err(|error| failure(&call, error))?)
}

/// Creates each snapshot on its own. If some fail, the others stay: the error has the failures, and names
/// those that were created.
pub(super) async fn create_snapshots(
    deps: &VolumeDeps,
    reply: &EarlyReply,
    requests: Vec<SnapshotRequest>,
) -> Result<Vec<CreatedSnapshot>, ServerError> {
    let (mut snapshots, mut failures) = (vec![], vec![]);
    for request in requests {
        match create_snapshot(deps, reply, request).await {
            Ok(snapshot) => snapshots.push(snapshot),
            Err(error) => failures.push(error),
        }
    }
    match (failures.is_empty(), snapshots.is_empty()) {
        (true, _) => Ok(snapshots),
        (false, true) => Err(ServerError::Multiple(failures)),
        (false, false) => Err(ServerError::PartlyCreated {
            created: snapshots.iter().map(creation_text).collect(),
            failures,
        }),
    }
}

async fn create_snapshot(
    deps: &VolumeDeps,
    reply: &EarlyReply,
    request: SnapshotRequest,
) -> Result<CreatedSnapshot, ServerError> {
    let key = request.source.clone();
    let _volume = deps.locks.acquire_volume(&key).await?;
    let existing = deps.store.view(&key);
    let existing = existing.ok_or_else(|| ServerError::NoSuchSource(key.clone()))?;
    let source = existing.volume();
    let plugin = source.plugin_id.clone();
    check_named_plugin(deps, &request, &plugin)?;
    if existing.record.phase == Phase::Deleting {
        return Err(ServerError::BeingDeleted(key));
    }
    let facts = supporting_plugin(deps, &plugin, UnsupportedOperation::CreateSnapshot);
    let facts = facts.map_err(|error| match error {
        ServerError::NoSuchPlugin(id) => SnapshotError::UnknownPlugin(id).into(),
        error => error,
    })?;
    check_name(&request.name)?;
    let external_id = source.remote_id();
    let _external = deps.locks.acquire_external(&plugin, &external_id).await?;
    let name = request.name;
    let call = CallDescription {
        operation: ControllerOperation::CreateSnapshot,
        target: CallTarget::Snapshot { volume: Some(key.clone()), source: external_id.to_string() },
        subject: name.clone(),
        plugin: plugin.clone(),
    };
    let volume = RemoteVolume { plugin_id: plugin.clone(), external_id: external_id.clone() };
    let bound = ControllerCall::OfVolume { volume, effect: ControllerEffect::Unrecorded };
    let class = (CallClass::Change, &bound);
    let calls = deps.admit_for(class, &facts, &call, ResidualState::None).await?;
    let secrets = deps.sealer.secrets_of(&existing.record)?;
    let message = CreateSnapshot {
        source: external_id,
        name: name.clone(),
        parameters: request.parameters,
        secrets: secrets.merged_with(&request.secrets),
    };
    let report = |error| reply.send(failure(&call, error));
    let callable = BoundCall { deps, call: &bound };
    let answer = calls.change((Rpc::CreateSnapshot, &callable), report, |controller| {
        let message = message.clone();
        async move { controller.create_snapshot(message).await }
    });
    let snapshot = answer.await.map_err(|error| failure(&call, error))?;
    info!(volume.id = %key.id, volume.namespace = %key.namespace, snapshot.id = %snapshot.id,
        "snapshot created");
    Ok(CreatedSnapshot { snapshot, source: key, plugin, name })
}

/// A call that no record names: it goes only where no open call of the volume forbids it.
struct BoundCall<'a> {
    deps: &'a VolumeDeps,
    call: &'a ControllerCall,
}

#[async_trait]
impl CallableInstances for BoundCall<'_> {
    async fn may_call(&self, instance: &AllocId) -> bool {
        self.deps.store.read(|state| may_be_called(state, self.call, instance))
    }
}

/// Refuses a request that names another plugin than the volume's.
fn check_named_plugin(
    deps: &VolumeDeps,
    request: &SnapshotRequest,
    provider: &PluginId,
) -> Result<(), SnapshotError> {
    let Some(named) = request.plugin.as_ref().filter(|named| *named != provider) else {
        return Ok(());
    };
    if deps.store.read(|state| VolumePlugin::read(state, named)).is_none() {
        return Err(SnapshotError::UnknownPlugin(named.clone()));
    }
    Err(SnapshotError::OtherPlugin {
        volume: request.source.clone(),
        provider: provider.clone(),
        named: named.clone(),
    })
}

/// Deletes a snapshot at the provider.
pub(super) async fn delete_snapshot(
    deps: &VolumeDeps,
    reply: &EarlyReply,
    plugin: &PluginId,
    id: &SnapshotId,
    secrets: Secrets,
) -> Result<(), ServerError> {
    let facts = supporting_plugin(deps, plugin, UnsupportedOperation::DeleteSnapshot)?;
    if id.as_str().is_empty() {
        return Err(SnapshotError::MissingId.into());
    }
    let resource = LockedResource::Snapshot(plugin.clone(), id.clone());
    let _resource = deps.locks.acquire(resource).await?;
    let call = CallDescription {
        operation: ControllerOperation::DeleteSnapshot,
        target: CallTarget::Snapshot { volume: None, source: String::new() },
        subject: id.to_string(),
        plugin: plugin.clone(),
    };
    let calls = deps.admit(CallClass::Release, &facts, &call, ResidualState::None).await?;
    let report = |error| reply.send(failure(&call, error));
    let answer = calls.change((Rpc::DeleteSnapshot, &AnyInstance), report, |controller| {
        let (id, secrets) = (id.clone(), secrets.clone());
        async move { controller.delete_snapshot(id, secrets).await }
    });
    answer.await.map_err(|error| failure(&call, error))?;
    info!(plugin.id = %plugin, snapshot.id = %id, "snapshot deleted");
    Ok(())
}

/// The plugin, if it is known and supports the operation.
fn supporting_plugin(
    deps: &VolumeDeps,
    id: &PluginId,
    operation: UnsupportedOperation,
) -> Result<VolumePlugin, ServerError> {
    let facts = deps.store.read(|state| VolumePlugin::read(state, id));
    let facts = facts.ok_or_else(|| ServerError::NoSuchPlugin(id.clone()))?;
    let can = facts.can(|controller| match operation {
        UnsupportedOperation::ListVolumes => controller.list_volumes,
        UnsupportedOperation::ListSnapshots => controller.list_snapshots,
        UnsupportedOperation::CreateSnapshot | UnsupportedOperation::DeleteSnapshot => {
            controller.create_delete_snapshot
        }
        UnsupportedOperation::ModifyVolume => controller.modify_volume,
    });
    if can {
        return Ok(facts);
    }
    let plugin = id.clone();
    Err(ServerError::NotSupported { plugin, operation })
}

fn creation_text(created: &CreatedSnapshot) -> String {
    let volume = created.source.quoted();
    format!(
        "snapshot `{}` of volume {volume} was created as `{}`",
        created.name, created.snapshot.id
    )
}

/// Checks a name against CSI's limits on strings (CSI 1.12, Size Limits).
fn check_name(name: &str) -> Result<(), SnapshotError> {
    let forbidden = |c: char| c.is_control() && !matches!(c, '\t' | '\n' | '\r');
    if name.is_empty() {
        Err(SnapshotError::MissingName)
    } else if name.len() > 128 {
        Err(SnapshotError::Name("it is longer than the 128 bytes that CSI allows"))
    } else if name.chars().any(forbidden) {
        Err(SnapshotError::Name("it contains control characters"))
    } else {
        Ok(())
    }
}

/// Returns the failure of a call that is not recorded.
fn failure(call: &CallDescription, error: ForwardError) -> PluginFailure {
    let residual = match error.outcome() {
        ForwardOutcome::NoEffect => ResidualState::None,
        ForwardOutcome::Unknown => ResidualState::Unrecorded,
    };
    call.failed(error, residual)
}
