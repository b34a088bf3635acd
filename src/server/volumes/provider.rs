//! What a provider is asked about what it has: its volumes and its snapshots, registered or not, and
//! new snapshots (`nomad-http-api` 3.9, 3.10; `csi-orchestration` 2.11).
//!
//! Nothing of this is remembered: the provider's list is the truth. A snapshot's name is its identity
//! for the provider, so whoever does not know what came of a request sends it again and gets the same
//! snapshot; every failure says whether that is needed. Secrets of a list and of a deletion are the
//! request's alone; those of a new snapshot are the volume's, overlaid by the request's.

use std::collections::BTreeMap;

use tracing::info;

use super::desk::{Desk, Subject};
use super::plugin::PluginFacts;
use crate::model::{ExternalVolume, NamespacedId, PluginId, Secrets, Snapshot, SnapshotId};
use crate::ports::{CreateSnapshot, ListSnapshots, Page, PageRequest};
use crate::server::error::{
    Aftermath, NotSupported, Object, Operation, PluginFailure, ServerError, SnapshotError,
};
use crate::server::forward::{Candidates, ForwardError, Outcome};
use crate::state::{Phase, volume};

/// A snapshot that somebody wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotRequest {
    /// Of which volume.
    pub source: NamespacedId,
    /// The provider makes one of each name.
    pub name: String,
    /// Who is to make it; the volume's own plugin if that is not said.
    pub plugin: Option<PluginId>,
    /// Opaque, the provider's.
    pub parameters: BTreeMap<String, String>,
    /// Overlay the volume's own.
    pub secrets: Secrets,
}

impl Desk {
    pub(super) async fn list_external(
        &self,
        plugin: &PluginId,
        page: PageRequest,
    ) -> Result<Page<ExternalVolume>, ServerError> {
        let facts = self.able(plugin, NotSupported::ListVolumes)?;
        let candidates = self.candidates(&facts, Operation::ListVolumes, &Object::Volumes, "")?;
        let _slot = self.slot(&self.lists, plugin).await?;
        let rpc = Operation::ListVolumes.rpc();
        let answer = self.forward.call(&candidates, rpc, |controller| {
            let page = page.clone();
            async move { controller.list_volumes(page).await }
        });
        let answer = answer.await;
        let mut answer = answer.map_err(|error| {
            failure(
                Operation::ListVolumes,
                Object::Volumes,
                &page.token,
                plugin,
                error,
            )
        })?;
        // Without the capability it says nothing (`csi-spec` 2.3, VolumeStatus).
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
        let facts = self.able(plugin, NotSupported::ListSnapshots)?;
        let object = Object::Snapshots;
        let candidates = self.candidates(&facts, Operation::ListSnapshots, &object, "")?;
        let request = ListSnapshots {
            page,
            secrets,
            ..ListSnapshots::default()
        };
        let _slot = self.slot(&self.lists, plugin).await?;
        let rpc = Operation::ListSnapshots.rpc();
        let answer = self.forward.call(&candidates, rpc, |controller| {
            let request = request.clone();
            async move { controller.list_snapshots(request).await }
        });
        let token = &request.page.token;
        let failed = |error| failure(Operation::ListSnapshots, object, token, plugin, error);
        answer.await.map_err(failed)
    }

    /// Each for itself: those that succeeded stay if others fail; the answer then is the failures.
    pub(super) async fn create_snapshots(
        &self,
        requests: Vec<SnapshotRequest>,
    ) -> Result<Vec<Snapshot>, ServerError> {
        let (mut snapshots, mut failures) = (vec![], vec![]);
        for request in requests {
            match self.create_snapshot(request).await {
                Ok(snapshot) => snapshots.push(snapshot),
                Err(error) => failures.push(error),
            }
        }
        if failures.is_empty() {
            Ok(snapshots)
        } else {
            Err(ServerError::Several(failures))
        }
    }

    async fn create_snapshot(&self, request: SnapshotRequest) -> Result<Snapshot, ServerError> {
        let key = request.source.clone();
        let _turn = self.turn(Subject::Volume(key.clone())).await?;
        let existing = self.cell.read(|state| volume(state, &key));
        let existing = existing.ok_or_else(|| ServerError::NoSuchSource(key.clone()))?;
        let source = existing.volume();
        let plugin = source.plugin_id.clone();
        self.is_of(&request, &plugin)?;
        if existing.record.phase == Phase::Deleting {
            return Err(ServerError::BeingDeleted(key));
        }
        let facts = self.able(&plugin, NotSupported::CreateSnapshot);
        let facts = facts.map_err(|error| match error {
            ServerError::NoSuchPlugin(id) => SnapshotError::UnknownPlugin(id).into(),
            error => error,
        })?;
        check_name(&request.name)?;
        let external_id = source.remote_id();
        let _external = self
            .turn(Subject::External(plugin.clone(), external_id.clone()))
            .await?;
        let object = Object::Snapshot {
            volume: Some(key.clone()),
            source: external_id.to_string(),
        };
        let name = &request.name;
        let operation = Operation::CreateSnapshot;
        let candidates = self.candidates(&facts, operation, &object, name)?;
        let _slot = self.slot(&self.deletes, &plugin).await?;
        let secrets = self.secrets_of(&existing.record)?;
        let message = CreateSnapshot {
            source: external_id,
            name: name.clone(),
            parameters: request.parameters,
            secrets: secrets.overlaid_by(&request.secrets),
        };
        let answer = self
            .forward
            .call(&candidates, operation.rpc(), |controller| {
                let message = message.clone();
                async move { controller.create_snapshot(message).await }
            });
        let failed = |error| failure(operation, object, name, &plugin, error);
        let snapshot = answer.await.map_err(failed)?;
        info!(volume.id = %key.id, volume.namespace = %key.namespace, snapshot.id = %snapshot.id,
            "snapshot created");
        Ok(snapshot)
    }

    /// Whether the plugin that the request names, if it names one, is the volume's.
    fn is_of(&self, request: &SnapshotRequest, provider: &PluginId) -> Result<(), SnapshotError> {
        let Some(named) = request.plugin.as_ref().filter(|named| *named != provider) else {
            return Ok(());
        };
        if self
            .cell
            .read(|state| PluginFacts::look(state, named))
            .is_none()
        {
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
        let facts = self.able(plugin, NotSupported::DeleteSnapshot)?;
        if id.as_str().is_empty() {
            return Err(SnapshotError::MissingId.into());
        }
        let _turn = self
            .turn(Subject::Snapshot(plugin.clone(), id.clone()))
            .await?;
        let operation = Operation::DeleteSnapshot;
        let object = Object::Snapshot {
            volume: None,
            source: String::new(),
        };
        let candidates = self.candidates(&facts, operation, &object, id.as_str())?;
        let _slot = self.slot(&self.deletes, plugin).await?;
        let answer = self
            .forward
            .call(&candidates, operation.rpc(), |controller| {
                let (id, secrets) = (id.clone(), secrets.clone());
                async move { controller.delete_snapshot(id, secrets).await }
            });
        let failed = |error| failure(operation, object, id.as_str(), plugin, error);
        answer.await.map_err(failed)?;
        info!(plugin.id = %plugin, snapshot.id = %id, "snapshot deleted");
        Ok(())
    }

    /// The plugin, if it is known and can do that.
    fn able(&self, id: &PluginId, what: NotSupported) -> Result<PluginFacts, ServerError> {
        let facts = self.cell.read(|state| PluginFacts::look(state, id));
        let facts = facts.ok_or_else(|| ServerError::NoSuchPlugin(id.clone()))?;
        let can = facts.can(|controller| match what {
            NotSupported::ListVolumes => controller.list_volumes,
            NotSupported::ListSnapshots => controller.list_snapshots,
            NotSupported::CreateSnapshot | NotSupported::DeleteSnapshot => {
                controller.create_delete_snapshot
            }
        });
        if can {
            return Ok(facts);
        }
        let plugin = id.clone();
        Err(ServerError::NotSupported { plugin, what })
    }

    fn candidates(
        &self,
        facts: &PluginFacts,
        operation: Operation,
        object: &Object,
        subject: &str,
    ) -> Result<Candidates, ServerError> {
        let failed =
            |error: ForwardError| failure(operation, object.clone(), subject, facts.id(), error);
        facts.candidates().map_err(|error| failed(error.into()))
    }
}

/// What CSI takes for a name (`csi-spec` 3.3, 5.11).
fn check_name(name: &str) -> Result<(), SnapshotError> {
    let forbidden = |c: char| c.is_control() && !matches!(c, '\t' | '\n' | '\r');
    if name.is_empty() {
        Err(SnapshotError::MissingName)
    } else if name.len() > 128 {
        Err(SnapshotError::Name(
            "it has more than the 128 bytes that CSI allows",
        ))
    } else if name.chars().any(forbidden) {
        Err(SnapshotError::Name("it has control characters"))
    } else {
        Ok(())
    }
}

fn failure(
    operation: Operation,
    object: Object,
    subject: &str,
    plugin: &PluginId,
    error: ForwardError,
) -> ServerError {
    let aftermath = match error.outcome() {
        Outcome::Nothing => Aftermath::Nothing,
        Outcome::Unknown => Aftermath::Unrecorded,
    };
    ServerError::Plugin(Box::new(PluginFailure {
        operation,
        object,
        subject: subject.to_owned(),
        plugin: plugin.clone(),
        error,
        aftermath,
    }))
}
