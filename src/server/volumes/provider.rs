//! The provider's own volumes and snapshots, registered or not.
//!
//! The agent records nothing of this; the provider's list is the truth. A snapshot's name is its
//! identity at the provider, so the same request sent again returns the same snapshot; every failure
//! reports whether that is needed. Lists and deletes use the secrets of the request alone. A new
//! snapshot uses the volume's secrets, overlaid by those of the request.

use std::collections::BTreeMap;

use tracing::info;

use super::health::{add_health, list_health};
use super::limiter::{LockedResource, OperationLimiter};
use super::listing_health::ListingHealth;
use super::plugin::VolumePlugin;
use super::store::VolumeStore;
use crate::candidates::Candidates;
use crate::early_reply::reply_early;
use crate::error::{
    CallTarget, ControllerOperation, PluginFailure, ResidualState, ServerError, SnapshotError,
    UnsupportedOperation,
};
use crate::forward::ControllerCaller;
use crate::forward_error::{ForwardError, ForwardOutcome};
use crate::plugin_call_queue::CallClass;
use crate::sealing::VolumeSealer;
use nomad_csi_claims::state::Phase;
use nomad_csi_model::{
    CapacityReport, ExternalVolume, NamespacedId, PluginId, Secrets, Snapshot, SnapshotId,
};
use nomad_csi_ports::{CreateSnapshot, ListSnapshots, Page, PageRequest};

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

/// Lists, creates and deletes what the provider has.
pub(super) struct ProviderAccess {
    pub(super) store: VolumeStore,
    pub(super) sealer: VolumeSealer,
    pub(super) limiter: OperationLimiter,
    pub(super) controller_caller: ControllerCaller,
    pub(super) listing_health: ListingHealth,
}

impl ProviderAccess {
    pub(super) async fn list_volumes(
        &self,
        plugin: &PluginId,
        page: PageRequest,
    ) -> Result<Page<ExternalVolume>, ServerError> {
        let facts = self.supporting_plugin(plugin, UnsupportedOperation::ListVolumes)?;
        let candidates =
            self.candidates(&facts, ControllerOperation::ListVolumes, &CallTarget::Volumes, "")?;
        let _permit = self.limiter.acquire_call(CallClass::List, plugin).await?;
        let rpc = ControllerOperation::ListVolumes.rpc();
        let answer = self.controller_caller.read(&candidates, rpc, |controller| {
            let page = page.clone();
            async move { controller.list_volumes(page).await }
        });
        let answer = answer.await;
        let mut answer = answer.map_err(|error| {
            failure(
                ControllerOperation::ListVolumes,
                CallTarget::Volumes,
                &page.starting_token,
                plugin,
                error,
            )
        })?;
        if facts.can(|controller| controller.list_volume_health) {
            let has_more = answer.next_token.is_some();
            let read = || list_health(&self.controller_caller, &candidates);
            let listed = self.listing_health.of_page(plugin, &page, has_more, read);
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

    pub(super) async fn list_snapshots(
        &self,
        plugin: &PluginId,
        page: PageRequest,
        secrets: Secrets,
    ) -> Result<Page<Snapshot>, ServerError> {
        let facts = self.supporting_plugin(plugin, UnsupportedOperation::ListSnapshots)?;
        let target = CallTarget::Snapshots;
        let candidates =
            self.candidates(&facts, ControllerOperation::ListSnapshots, &target, "")?;
        let request = ListSnapshots { page, secrets, ..ListSnapshots::default() };
        let _permit = self.limiter.acquire_call(CallClass::List, plugin).await?;
        let rpc = ControllerOperation::ListSnapshots.rpc();
        let answer = self.controller_caller.read(&candidates, rpc, |controller| {
            let request = request.clone();
            async move { controller.list_snapshots(request).await }
        });
        let token = &request.page.starting_token;
        let failed =
            |error| failure(ControllerOperation::ListSnapshots, target, token, plugin, error);
        answer.await.map_err(failed)
    }

    /// Creates each snapshot on its own. If some fail, the others stay: the error has the failures, and names
    /// those that were created.
    pub(super) async fn create_snapshots(
        &self,
        requests: Vec<SnapshotRequest>,
    ) -> Result<Vec<CreatedSnapshot>, ServerError> {
        let (mut snapshots, mut failures) = (vec![], vec![]);
        for request in requests {
            match self.create_snapshot(request).await {
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
        &self,
        request: SnapshotRequest,
    ) -> Result<CreatedSnapshot, ServerError> {
        let key = request.source.clone();
        let _volume = self.limiter.acquire(LockedResource::Volume(key.clone())).await?;
        let existing = self.store.view(&key);
        let existing = existing.ok_or_else(|| ServerError::NoSuchSource(key.clone()))?;
        let source = existing.volume();
        let plugin = source.plugin_id.clone();
        self.check_named_plugin(&request, &plugin)?;
        if existing.record.phase == Phase::Deleting {
            return Err(ServerError::BeingDeleted(key));
        }
        let facts = self.supporting_plugin(&plugin, UnsupportedOperation::CreateSnapshot);
        let facts = facts.map_err(|error| match error {
            ServerError::NoSuchPlugin(id) => SnapshotError::UnknownPlugin(id).into(),
            error => error,
        })?;
        check_name(&request.name)?;
        let external_id = source.remote_id();
        let external = LockedResource::External(plugin.clone(), external_id.clone());
        let _external = self.limiter.acquire(external).await?;
        let target =
            CallTarget::Snapshot { volume: Some(key.clone()), source: external_id.to_string() };
        let name = &request.name;
        let operation = ControllerOperation::CreateSnapshot;
        let candidates = self.candidates(&facts, operation, &target, name)?;
        let permit = self.limiter.acquire_call(CallClass::Change, &plugin).await?;
        let secrets = self.sealer.secrets_of(&existing.record)?;
        let message = CreateSnapshot {
            source: external_id,
            name: name.clone(),
            parameters: request.parameters,
            secrets: secrets.merged_with(&request.secrets),
        };
        let failed = |error| failure(operation, target.clone(), name, &plugin, error);
        let (rpc, to) = (operation.rpc(), (&candidates, &permit));
        let report = |error| reply_early(failed(error));
        let answer = self.controller_caller.change(to, rpc, report, |controller| {
            let message = message.clone();
            async move { controller.create_snapshot(message).await }
        });
        let snapshot = answer.await.map_err(failed)?;
        info!(volume.id = %key.id, volume.namespace = %key.namespace, snapshot.id = %snapshot.id,
            "snapshot created");
        Ok(CreatedSnapshot { snapshot, source: key, plugin: plugin.clone(), name: name.clone() })
    }

    /// Refuses a request that names another plugin than the volume's.
    fn check_named_plugin(
        &self,
        request: &SnapshotRequest,
        provider: &PluginId,
    ) -> Result<(), SnapshotError> {
        let Some(named) = request.plugin.as_ref().filter(|named| *named != provider) else {
            return Ok(());
        };
        if self.store.read(|state| VolumePlugin::read(state, named)).is_none() {
            return Err(SnapshotError::UnknownPlugin(named.clone()));
        }
        Err(SnapshotError::OtherPlugin {
            volume: request.source.clone(),
            provider: provider.clone(),
            named: named.clone(),
        })
    }

    pub(super) async fn delete_snapshot(
        &self,
        plugin: &PluginId,
        id: &SnapshotId,
        secrets: Secrets,
    ) -> Result<(), ServerError> {
        let facts = self.supporting_plugin(plugin, UnsupportedOperation::DeleteSnapshot)?;
        if id.as_str().is_empty() {
            return Err(SnapshotError::MissingId.into());
        }
        let resource = LockedResource::Snapshot(plugin.clone(), id.clone());
        let _resource = self.limiter.acquire(resource).await?;
        let operation = ControllerOperation::DeleteSnapshot;
        let target = CallTarget::Snapshot { volume: None, source: String::new() };
        let candidates = self.candidates(&facts, operation, &target, id.as_str())?;
        let permit = self.limiter.acquire_call(CallClass::Release, plugin).await?;
        let failed = |error| failure(operation, target.clone(), id.as_str(), plugin, error);
        let (rpc, to) = (operation.rpc(), (&candidates, &permit));
        let report = |error| reply_early(failed(error));
        let answer = self.controller_caller.change(to, rpc, report, |controller| {
            let (id, secrets) = (id.clone(), secrets.clone());
            async move { controller.delete_snapshot(id, secrets).await }
        });
        answer.await.map_err(failed)?;
        info!(plugin.id = %plugin, snapshot.id = %id, "snapshot deleted");
        Ok(())
    }

    /// The plugin, if it is known and supports the operation.
    fn supporting_plugin(
        &self,
        id: &PluginId,
        operation: UnsupportedOperation,
    ) -> Result<VolumePlugin, ServerError> {
        let facts = self.store.read(|state| VolumePlugin::read(state, id));
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

    fn candidates(
        &self,
        facts: &VolumePlugin,
        operation: ControllerOperation,
        target: &CallTarget,
        subject: &str,
    ) -> Result<Candidates, ServerError> {
        let failed =
            |error: ForwardError| failure(operation, target.clone(), subject, facts.id(), error);
        facts.candidates().map_err(|error| failed(error.into()))
    }
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

fn failure(
    operation: ControllerOperation,
    target: CallTarget,
    subject: &str,
    plugin: &PluginId,
    error: ForwardError,
) -> ServerError {
    let residual = match error.outcome() {
        ForwardOutcome::NoEffect => ResidualState::None,
        ForwardOutcome::Unknown => ResidualState::Unrecorded,
    };
    ServerError::Plugin(Box::new(PluginFailure {
        operation,
        target,
        subject: subject.to_owned(),
        plugin: plugin.clone(),
        error,
        residual,
        capacity: CapacityReport::default(),
    }))
}
