//! What the fake plugin keeps: volumes, snapshots, stagings and targets of one node.
//!
//! A world, not a script of answers: it follows CSI 1.12 (sections of `csi-spec`). What is merely
//! refused (a name that is taken, a volume that is not there) is a [`Refusal`]. What the
//! specification forbids the orchestrator to send at all is refused *and* kept as a wrong, which
//! fails the test: publish before stage, a second staging path, unstage or delete below a target,
//! a context that is not the volume's, missing secrets, an RPC that was never advertised.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::settings::Settings;
use crate::model::{
    AccessMode, Bytes, Capability, CapacityRange, Condition, ControllerCapabilities, ExternalId,
    MountOptions, NodeCapabilities, Secrets, SnapshotId, TopologyRequest,
};
use crate::ports::plugin::{
    CreateVolume, CreatedVolume, PublishVolume, Rpc, StageVolume, StatusCode, ValidateVolume,
    VolumeSource,
};

/// An answer that is not success.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// gRPC's code.
    pub code: StatusCode,
    /// The plugin's words.
    pub message: String,
}

pub(super) fn refuse<T>(code: StatusCode, message: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal {
        code,
        message: message.into(),
    })
}

/// A volume of the world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FakeVolume {
    /// `fake-1`, `fake-2` and so on; or as it was added.
    pub external_id: ExternalId,
    /// The name it was created under; `None` if it was there before.
    pub name: Option<String>,
    /// Handed back on every call about it.
    pub context: BTreeMap<String, String>,
    /// Its size.
    pub capacity: Bytes,
    /// How it is, for a plugin that says so.
    pub condition: Condition,
    pub(super) wanted: Wanted,
}

/// A snapshot of the world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FakeSnapshot {
    /// `snap-1`, `snap-2` and so on; or as it was added.
    pub id: SnapshotId,
    /// The name it was created under.
    pub name: String,
    /// The volume that it was cut from.
    pub source: ExternalId,
    /// That volume's size at that time.
    pub size: Bytes,
    /// When it was cut, seconds since the epoch.
    pub cut_at: u64,
}

/// What one name stands for: a second create of the name has to ask for the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    capacity: CapacityRange,
    capabilities: BTreeSet<Capability>,
    mount_options: MountOptions,
    parameters: BTreeMap<String, String>,
    pub(super) source: Option<VolumeSource>,
    topology: TopologyRequest,
}

/// Where a volume is staged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FakeStaging {
    /// The only staging path on this node.
    pub path: PathBuf,
    /// What for.
    pub capability: Capability,
    /// With which options.
    pub mount_options: MountOptions,
}

/// How a volume is published at one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FakeTarget {
    /// What for.
    pub capability: Capability,
    /// With which options.
    pub mount_options: MountOptions,
    /// Whether it cannot be written through.
    pub read_only: bool,
}

/// The plugin's memory.
#[derive(Debug, Default)]
pub struct World {
    /// What the plugin says of itself.
    pub settings: Settings,
    pub(super) volumes: BTreeMap<ExternalId, FakeVolume>,
    pub(super) snapshots: BTreeMap<SnapshotId, FakeSnapshot>,
    pub(super) stagings: BTreeMap<ExternalId, FakeStaging>,
    pub(super) targets: BTreeMap<(ExternalId, PathBuf), FakeTarget>,
    pub(super) wrongs: Vec<String>,
    created: u64,
    pub(super) cut: u64,
}

impl World {
    pub(super) fn new(settings: Settings) -> Self {
        Self {
            settings,
            ..Self::default()
        }
    }

    /// Keeps it as the orchestrator's fault, and refuses.
    ///
    /// # Errors
    /// Always: the refusal.
    pub fn wrong<T>(
        &mut self,
        rpc: Rpc,
        code: StatusCode,
        what: impl std::fmt::Display,
    ) -> Result<T, Refusal> {
        self.wrongs.push(format!("{rpc}: {what}"));
        refuse(code, what.to_string())
    }

    /// Adds a volume that nobody created here, as an operator finds one.
    pub(super) fn add(&mut self, external_id: ExternalId, context: BTreeMap<String, String>) {
        let volume = FakeVolume {
            external_id: external_id.clone(),
            name: None,
            context,
            capacity: self.settings.default_capacity,
            condition: Condition::default(),
            wanted: Wanted::default(),
        };
        self.volumes.insert(external_id, volume);
    }

    /// CSI 5.2.
    ///
    /// # Errors
    /// As the specification says, or with a wrong.
    pub fn create(&mut self, request: &CreateVolume) -> Result<CreatedVolume, Refusal> {
        let rpc = Rpc::CreateVolume;
        self.advertised(rpc, self.controller().create_delete_volume)?;
        self.carries_secrets(rpc, &request.secrets)?;
        self.well_formed(request)?;
        let wanted = Wanted::from(request);
        let same_name = |volume: &&FakeVolume| volume.name.as_ref() == Some(&request.name);
        if let Some(existing) = self.volumes.values().find(same_name) {
            if existing.wanted == wanted {
                return Ok(created(existing));
            }
            let message = format!("the name {} is taken by another volume", request.name);
            return refuse(StatusCode::AlreadyExists, message);
        }
        if let Some(VolumeSource::Volume(id)) = &request.source
            && !self.volumes.contains_key(&ExternalId::new(id.as_str()))
        {
            return refuse(StatusCode::NotFound, format!("no source volume {id}"));
        }
        if let Some(VolumeSource::Snapshot(id)) = &request.source
            && !self.snapshots.contains_key(&SnapshotId::new(id.as_str()))
        {
            return refuse(StatusCode::NotFound, format!("no snapshot {id}"));
        }
        self.created += 1;
        let external_id = ExternalId::new(format!("fake-{}", self.created));
        let capacity = if request.capacity.is_unset() {
            self.settings.default_capacity
        } else {
            request.capacity.min.max(Bytes::ZERO)
        };
        let volume = FakeVolume {
            external_id: external_id.clone(),
            name: Some(request.name.clone()),
            context: [("made-by".to_owned(), external_id.to_string())].into(),
            capacity,
            condition: Condition::default(),
            wanted,
        };
        let answer = created(&volume);
        self.volumes.insert(external_id, volume);
        Ok(answer)
    }

    /// What section 3.3 and 5.2 demand of a CreateVolume, whatever the plugin can do.
    fn well_formed(&mut self, request: &CreateVolume) -> Result<(), Refusal> {
        let (min, max) = (request.capacity.min, request.capacity.max);
        let forbidden = |c: char| c.is_control() && !matches!(c, '\t' | '\n' | '\r');
        let wrong = if request.name.is_empty() {
            "the name is empty"
        } else if request.name.len() > 128 {
            "the name has more than 128 bytes"
        } else if request.name.chars().any(forbidden) {
            "the name has control characters"
        } else if request.capabilities.is_empty() {
            "there is no capability"
        } else if !max.is_zero() && min > max {
            "the least size is above the greatest"
        } else if request.topology.as_ref().is_some_and(|topology| {
            !topology.is_empty() && !self.settings.plugin.volume_accessibility_constraints
        }) {
            "a topology for a plugin without VOLUME_ACCESSIBILITY_CONSTRAINTS"
        } else if request.source.is_some() && !self.takes(request.source.as_ref()) {
            "a source that the plugin does not advertise"
        } else {
            return Ok(());
        };
        self.wrong(Rpc::CreateVolume, StatusCode::InvalidArgument, wrong)
    }

    fn takes(&self, source: Option<&VolumeSource>) -> bool {
        let can = self.controller();
        match source {
            None => true,
            Some(VolumeSource::Volume(_)) => can.clone_volume,
            Some(VolumeSource::Snapshot(_)) => can.create_delete_snapshot,
        }
    }

    /// CSI 5.3: what is not there is deleted.
    ///
    /// # Errors
    /// As the specification says, or with a wrong.
    pub fn delete(&mut self, id: &ExternalId, secrets: &Secrets) -> Result<(), Refusal> {
        let rpc = Rpc::DeleteVolume;
        self.advertised(rpc, self.controller().create_delete_volume)?;
        self.carries_secrets(rpc, secrets)?;
        self.has_id(rpc, id)?;
        if self.stagings.contains_key(id) || self.is_published(id) {
            let what = format!("{id} is still staged or published");
            return self.wrong(rpc, StatusCode::FailedPrecondition, what);
        }
        match self.volumes.remove(id) {
            None if self.settings.unknown_is_not_found => unknown(id),
            None | Some(_) => Ok(()),
        }
    }

    /// CSI 5.6. A context that is not the volume's may come from a person who registers, so it is
    /// refused and no wrong.
    ///
    /// # Errors
    /// As the specification says, or with a wrong.
    pub fn validate(&mut self, request: &ValidateVolume) -> Result<(), Refusal> {
        let rpc = Rpc::ValidateVolumeCapabilities;
        self.advertised(rpc, self.settings.controller.is_some())?;
        self.carries_secrets(rpc, &request.secrets)?;
        self.has_id(rpc, &request.external_id)?;
        if request.capabilities.is_empty() {
            return self.wrong(rpc, StatusCode::InvalidArgument, "there is no capability");
        }
        match self.volumes.get(&request.external_id) {
            None => unknown(&request.external_id),
            Some(volume) if volume.context != request.context => refuse(
                StatusCode::InvalidArgument,
                format!("that is not the context of {}", request.external_id),
            ),
            Some(_) => Ok(()),
        }
    }

    /// CSI 5.16: one staging path per volume on a node.
    ///
    /// # Errors
    /// As the specification says, or with a wrong.
    pub fn stage(&mut self, request: &StageVolume) -> Result<(), Refusal> {
        let rpc = Rpc::NodeStageVolume;
        self.advertised(rpc, self.node().stage_unstage_volume)?;
        self.carries_secrets(rpc, &request.secrets)?;
        self.has_id(rpc, &request.external_id)?;
        self.is_absolute(rpc, &request.staging_path)?;
        self.own_context(rpc, &request.external_id, &request.context)?;
        let wanted = FakeStaging {
            path: request.staging_path.clone(),
            capability: request.capability,
            mount_options: request.mount_options.clone(),
        };
        match self.stagings.get(&request.external_id) {
            Some(staging) if staging.path != wanted.path => {
                let what = format!(
                    "{} is staged at {} already",
                    request.external_id,
                    staging.path.display()
                );
                self.wrong(rpc, StatusCode::FailedPrecondition, what)
            }
            Some(staging) if *staging != wanted => refuse(
                StatusCode::AlreadyExists,
                format!("{} is staged for another use", request.external_id),
            ),
            Some(_) => Ok(()),
            None => {
                self.stagings.insert(request.external_id.clone(), wanted);
                Ok(())
            }
        }
    }

    /// CSI 5.17, and 4.2: after every unpublish.
    ///
    /// # Errors
    /// As the specification says, or with a wrong.
    pub fn unstage(&mut self, id: &ExternalId, path: &Path) -> Result<(), Refusal> {
        let rpc = Rpc::NodeUnstageVolume;
        self.advertised(rpc, self.node().stage_unstage_volume)?;
        self.has_id(rpc, id)?;
        self.is_absolute(rpc, path)?;
        if self.settings.unknown_is_not_found && !self.volumes.contains_key(id) {
            return unknown(id);
        }
        if self
            .stagings
            .get(id)
            .is_none_or(|staging| staging.path != path)
        {
            return Ok(());
        }
        if self.is_published(id) {
            let what = format!("{id} is still published");
            return self.wrong(rpc, StatusCode::FailedPrecondition, what);
        }
        self.stagings.remove(id);
        Ok(())
    }

    /// CSI 5.18 with its table.
    ///
    /// # Errors
    /// As the specification says, or with a wrong.
    pub fn publish(&mut self, request: &PublishVolume) -> Result<(), Refusal> {
        let rpc = Rpc::NodePublishVolume;
        let id = &request.external_id;
        self.advertised(rpc, self.settings.node.is_some())?;
        self.carries_secrets(rpc, &request.secrets)?;
        self.has_id(rpc, id)?;
        self.is_absolute(rpc, &request.target_path)?;
        self.own_context(rpc, id, &request.context)?;
        self.is_staged_for(request)?;
        let wanted = FakeTarget {
            capability: request.capability,
            mount_options: request.mount_options.clone(),
            read_only: request.read_only,
        };
        let key = (id.clone(), request.target_path.clone());
        match self.targets.get(&key) {
            Some(target) if *target == wanted => return Ok(()),
            Some(_) => {
                let message = format!("{id} is published there for another use");
                return refuse(StatusCode::AlreadyExists, message);
            }
            None => {}
        }
        let one_target = matches!(
            request.capability.access_mode,
            AccessMode::SingleNodeWriter | AccessMode::SingleNodeReaderOnly
        );
        if one_target && self.is_published(id) {
            let message = format!("{id} is published at another path");
            return refuse(StatusCode::FailedPrecondition, message);
        }
        self.targets.insert(key, wanted);
        Ok(())
    }

    fn is_staged_for(&mut self, request: &PublishVolume) -> Result<(), Refusal> {
        let rpc = Rpc::NodePublishVolume;
        if !self.node().stage_unstage_volume {
            return Ok(());
        }
        let staging = self.stagings.get(&request.external_id);
        let what = match (staging, &request.staging_path) {
            (None, _) => format!("{} is not staged", request.external_id),
            (Some(_), None) => "the staging path is missing".to_owned(),
            (Some(staging), Some(path)) if staging.path != *path => {
                format!("{} is staged elsewhere", request.external_id)
            }
            (Some(_), Some(_)) => return Ok(()),
        };
        self.wrong(rpc, StatusCode::FailedPrecondition, what)
    }

    /// CSI 5.19: what is not published is unpublished.
    ///
    /// # Errors
    /// As the specification says, or with a wrong.
    pub fn unpublish(&mut self, id: &ExternalId, path: &Path) -> Result<(), Refusal> {
        let rpc = Rpc::NodeUnpublishVolume;
        self.advertised(rpc, self.settings.node.is_some())?;
        self.has_id(rpc, id)?;
        self.is_absolute(rpc, path)?;
        if self.settings.unknown_is_not_found && !self.volumes.contains_key(id) {
            return unknown(id);
        }
        self.targets.remove(&(id.clone(), path.to_owned()));
        Ok(())
    }

    fn is_published(&self, id: &ExternalId) -> bool {
        self.targets.keys().any(|(volume, _)| volume == id)
    }

    pub(super) fn controller(&self) -> ControllerCapabilities {
        self.settings.controller.unwrap_or_default()
    }

    fn node(&self) -> NodeCapabilities {
        self.settings.node.unwrap_or_default()
    }

    pub(super) fn advertised(&mut self, rpc: Rpc, is_there: bool) -> Result<(), Refusal> {
        if is_there {
            return Ok(());
        }
        self.wrong(rpc, StatusCode::Unimplemented, "it was never advertised")
    }

    pub(super) fn carries_secrets(&mut self, rpc: Rpc, secrets: &Secrets) -> Result<(), Refusal> {
        if self.settings.secrets.is_empty() || self.settings.secrets == *secrets {
            return Ok(());
        }
        self.wrong(rpc, StatusCode::Unauthenticated, "secrets are missing")
    }

    pub(super) fn has_id(&mut self, rpc: Rpc, id: &ExternalId) -> Result<(), Refusal> {
        if !id.as_str().is_empty() {
            return Ok(());
        }
        self.wrong(rpc, StatusCode::InvalidArgument, "the volume ID is empty")
    }

    fn is_absolute(&mut self, rpc: Rpc, path: &Path) -> Result<(), Refusal> {
        if path.is_absolute() {
            return Ok(());
        }
        let what = format!("the path {} is not absolute", path.display());
        self.wrong(rpc, StatusCode::InvalidArgument, what)
    }

    fn own_context(
        &mut self,
        rpc: Rpc,
        id: &ExternalId,
        context: &BTreeMap<String, String>,
    ) -> Result<(), Refusal> {
        match self.volumes.get(id) {
            None => unknown(id),
            Some(volume) if volume.context == *context => Ok(()),
            Some(_) => {
                let what = format!("that is not the context of {id}");
                self.wrong(rpc, StatusCode::InvalidArgument, what)
            }
        }
    }
}

impl From<&CreateVolume> for Wanted {
    fn from(request: &CreateVolume) -> Self {
        Self {
            capacity: request.capacity,
            capabilities: request.capabilities.iter().copied().collect(),
            mount_options: request.mount_options.clone(),
            parameters: request.parameters.clone(),
            source: request.source.clone(),
            topology: request.topology.clone().unwrap_or_default(),
        }
    }
}

fn created(volume: &FakeVolume) -> CreatedVolume {
    CreatedVolume {
        external_id: volume.external_id.clone(),
        capacity: volume.capacity,
        context: volume.context.clone(),
        topologies: vec![],
    }
}

pub(super) fn unknown<T>(id: &ExternalId) -> Result<T, Refusal> {
    refuse(StatusCode::NotFound, format!("no volume {id}"))
}
