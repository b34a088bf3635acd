//! Register: a volume that the provider has becomes known, or its registration is updated.
//!
//! `csi-orchestration` 2.3. All volumes of a request are decided, the plugin's word included, before
//! the first is written. Of a new one only what a user may say is stored (W22, B08). A volume of the
//! provider may be registered twice, with a warning (W13), but not while it is being deleted.

use std::collections::BTreeSet;

use tracing::info;

use super::check::{Purpose, check, warnings};
use super::desk::{Desk, Subject, changed};
use super::expand::{Growing, expansion_warnings};
use super::plugin::PluginFacts;
use super::service::{Submitted, WriteOutcome};
use super::update::{Updated, Write};
use crate::model::{ExternalId, NamespacedId, PluginId, Volume, VolumeRequest};
use crate::server::cell::{CommitError, Expected};
use crate::server::error::{ServerError, UpdateRequest};
use crate::state::{EventKind, Phase, Provided, VolumeRecord, sharing, volume};

const ON: UpdateRequest = UpdateRequest::Register;

impl Desk {
    pub(super) async fn register(
        &self,
        volumes: Vec<Submitted>,
    ) -> Result<WriteOutcome, ServerError> {
        if volumes.is_empty() {
            return Err(ServerError::MissingDefinition);
        }
        no_twins(&volumes)?;
        let subjects = volumes.iter().flat_map(|one| subjects(&one.request));
        let _turns = self.turns(subjects.collect()).await?;
        for _ in 0..self.limits.merges {
            let writes = self.decide_all(&volumes).await?;
            match self.write_all(writes).await {
                Ok(()) => return Ok(self.registered(&volumes)),
                Err(ServerError::Commit(CommitError::Conflict { .. } | CommitError::Misfit(_))) => {
                }
                Err(error) => return Err(error),
            }
        }
        Err(ServerError::KeepsChanging(volumes[0].request.key()))
    }

    async fn decide_all(&self, volumes: &[Submitted]) -> Result<Vec<Write>, ServerError> {
        let mut writes = vec![];
        for one in volumes {
            let write = self.decide(one).await;
            let write = write.map_err(|error| error.of(&one.request.key(), volumes.len()))?;
            writes.extend(write);
        }
        Ok(writes)
    }

    /// What is to be written for one volume; `None` if it is as it should be.
    async fn decide(&self, submitted: &Submitted) -> Result<Option<Write>, ServerError> {
        let request = &submitted.request;
        let key = request.key();
        let exists = self.cell.read(|state| volume(state, &key).is_some());
        check(submitted, Purpose { on: ON, exists })?;
        self.settle_if_creating(&key, request.secrets.as_ref())
            .await?;
        let (existing, plugin) = self.cell.read(|state| {
            (
                volume(state, &key),
                PluginFacts::look(state, &request.plugin_id),
            )
        });
        let plugin = plugin.ok_or_else(|| ServerError::UnknownPlugin(request.plugin_id.clone()))?;
        plugin.check()?;
        let updated = match &existing {
            None => self.new_registration(request, &plugin)?,
            Some(view) if view.record.phase == Phase::Deleting => {
                return Err(ServerError::BeingDeleted(key));
            }
            Some(view) => self.update(view, request, &plugin, ON)?,
        };
        self.validate(&updated.volume, &updated.secrets, &plugin)
            .await?;
        Ok(updated.write)
    }

    fn new_registration(
        &self,
        request: &VolumeRequest,
        plugin: &PluginFacts,
    ) -> Result<Updated, ServerError> {
        let volume = registered_volume(request, plugin);
        self.not_being_deleted(&volume)?;
        let secrets = request.secrets.clone().unwrap_or_default();
        let write = Write {
            expected: Expected::VolumeAbsent(volume.key()),
            growth: None,
            event: Some(EventKind::VolumeRegistered {
                definition: Box::new(self.definition(request)),
                provided: Box::new(Provided::from(&volume)),
                secrets: self.seal(&volume.key(), &secrets),
            }),
        };
        Ok(Updated {
            volume,
            secrets,
            write: Some(write),
        })
    }

    fn not_being_deleted(&self, volume: &Volume) -> Result<(), ServerError> {
        let external_id = volume.remote_id();
        let is_deleting = |record: &VolumeRecord| record.phase == Phase::Deleting;
        let other = self.cell.read(|state| {
            let keys = sharing(state, &volume.plugin_id, &external_id);
            keys.into_iter()
                .find(|key| state.record(key).is_some_and(|record| is_deleting(record)))
        });
        match other {
            None => Ok(()),
            Some(other) => Err(ServerError::SourceBeingDeleted {
                volume: volume.key(),
                external_id,
                other,
            }),
        }
    }

    /// Nothing is written while anything has to grow: what has grown is decided again, with all
    /// others, until nothing has to.
    async fn write_all(&self, writes: Vec<Write>) -> Result<(), ServerError> {
        let growing = writes.iter().filter_map(|write| write.growth.as_ref());
        let mut grown = None;
        for growth in growing {
            if self.grow(growth).await? == Growing::Settled {
                grown = Some(&growth.key);
            }
        }
        if let Some(key) = grown {
            return Err(changed(key));
        }
        for Write {
            expected, event, ..
        } in writes
        {
            let Some(event) = event else { continue };
            let (volume, what) = (event.volume().cloned(), event.name());
            let index = self.commit(expected, event).await?;
            if let Some(NamespacedId { namespace, id }) = volume {
                info!(volume.id = %id, volume.namespace = %namespace, index, "{what}");
            }
        }
        Ok(())
    }

    fn registered(&self, volumes: &[Submitted]) -> WriteOutcome {
        self.cell.read(|state| {
            let views = volumes
                .iter()
                .filter_map(|one| volume(state, &one.request.key()));
            let mut outcome = WriteOutcome {
                index: state.index(),
                volumes: views.collect(),
                warnings: volumes
                    .iter()
                    .flat_map(|one| warnings(&one.request, ON))
                    .collect(),
            };
            let shared = outcome.volumes.iter().filter_map(|view| {
                let external_id = view.record.remote_id()?;
                let plugin = &view.record.definition.plugin_id;
                shared_warning(
                    view.record.key(),
                    &external_id,
                    &sharing(state, plugin, &external_id),
                )
            });
            let pending = outcome.volumes.iter();
            let pending = pending.flat_map(|view| expansion_warnings(&view.record));
            let more: Vec<_> = shared.chain(pending).collect();
            outcome.warnings.extend(more);
            outcome
        })
    }
}

/// What a registration occupies: the volume, and the provider's volume that it will name.
fn subjects(request: &VolumeRequest) -> [Subject; 2] {
    let id = || ExternalId::new(request.id.as_str());
    let external_id = request.external_id.clone().unwrap_or_else(id);
    let plugin: PluginId = request.plugin_id.clone();
    [
        Subject::Volume(request.key()),
        Subject::External(plugin, external_id),
    ]
}

fn no_twins(volumes: &[Submitted]) -> Result<(), ServerError> {
    let mut seen = BTreeSet::new();
    for one in volumes {
        let key = one.request.key();
        if !seen.insert(key.clone()) {
            return Err(ServerError::Invalid {
                volume: key.id,
                problems: vec!["it stands in the request twice".into()],
            });
        }
    }
    Ok(())
}

/// A new volume out of what a user may say, and of nothing else (W22): not claimed, of no known
/// size, and where its request says.
fn registered_volume(request: &VolumeRequest, plugin: &PluginFacts) -> Volume {
    let (provider, provider_version) = plugin.provider();
    let topologies = request.topology_request.as_ref();
    Volume {
        namespace: request.namespace.clone(),
        id: request.id.clone(),
        name: request.name.clone().unwrap_or_default(),
        external_id: request.external_id.clone(),
        plugin_id: request.plugin_id.clone(),
        provider: provider.to_owned(),
        provider_version: provider_version.to_owned(),
        capabilities: request.capabilities.clone(),
        requested_capacity: request.capacity,
        capacity: Default::default(),
        topologies: topologies
            .map(|request| request.required.clone())
            .unwrap_or_default(),
        topology_request: request.topology_request.clone(),
        clone_id: request.clone_id.clone(),
        snapshot_id: request.snapshot_id.clone(),
        mount_options: request.mount_options.clone(),
        parameters: request.parameters.clone().unwrap_or_default(),
        context: request.context.clone().unwrap_or_default(),
        access_mode: None,
        attachment_mode: None,
        read_allocs: Default::default(),
        write_allocs: Default::default(),
        allocs: vec![],
        schedulable: false,
        controller_required: plugin.needs_controller(),
        controllers: Default::default(),
        nodes: Default::default(),
        create_index: 0,
        modify_index: 0,
        create_time: 0,
        modify_time: 0,
    }
}

/// W13: two registrations of one volume are allowed, and dangerous.
pub(super) fn shared_warning(
    key: &NamespacedId,
    external_id: &ExternalId,
    sharing: &[NamespacedId],
) -> Option<String> {
    let others: Vec<_> = sharing
        .iter()
        .filter(|other| *other != key)
        .map(ToString::to_string)
        .collect();
    (!others.is_empty()).then(|| {
        format!(
            "volume {key}: the provider's volume {external_id} is also registered as {}; claims do not see each other, and neither can be deleted while the other is registered",
            others.join(", ")
        )
    })
}
