//! What all operations on volumes work with: ports, lanes, limits.

use std::sync::Arc;
use std::time::Duration;

use crate::model::{
    ExternalId, NamespacedId, PluginId, SealedSecrets, SecretOwner, Secrets, SnapshotId,
};
use crate::ports::{Clock, IdSource, PluginDirectory, Sealer};
use crate::server::cell::{CommitError, Expected, StateCell};
use crate::server::error::ServerError;
use crate::server::forward::{Forward, ForwardLimits};
use crate::server::lanes::{Lane, Lanes};
use crate::server::turn::turn;
use crate::state::{Event, EventKind, VolumeRecord};

/// The outside world, as far as volumes need it.
#[derive(Clone)]
pub struct VolumePorts {
    /// What is remembered.
    pub cell: StateCell,
    /// Where plugins are.
    pub directory: Arc<dyn PluginDirectory>,
    /// Seals secrets.
    pub sealer: Arc<dyn Sealer>,
    /// Wall time, for events.
    pub clock: Arc<dyn Clock>,
    /// Jitter.
    pub ids: Arc<dyn IdSource>,
}

/// How much at once, and how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VolumeLimits {
    /// For controller calls.
    pub forward: ForwardLimits,
    /// How long an operation waits for its turn.
    pub turn: Duration,
    /// How many may wait for one volume, and for one plugin.
    pub line: usize,
    /// Deletes, expansions and snapshots of one plugin at a time (W30: drivers rely on it).
    pub deletes: usize,
    /// Creates and validations of one plugin at a time.
    pub creates: usize,
    /// Lists of one plugin at a time.
    pub lists: usize,
    /// How often an update is merged again after the volume changed under it.
    pub merges: u32,
}

impl Default for VolumeLimits {
    fn default() -> Self {
        Self {
            forward: ForwardLimits::default(),
            turn: Duration::from_secs(120),
            line: 1024,
            deletes: 1,
            creates: 16,
            lists: 4,
            merges: 8,
        }
    }
}

/// What one operation at a time may work on. In this order, so that nobody waits in a circle.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Subject {
    /// A volume, whether it exists or not.
    Volume(NamespacedId),
    /// The provider's volume: it may be registered more than once (W13).
    External(PluginId, ExternalId),
    /// The provider's snapshot.
    Snapshot(PluginId, SnapshotId),
}

impl std::fmt::Display for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Volume(key) => write!(f, "volume {key}"),
            Self::External(plugin, id) => write!(f, "external volume {id} of plugin {plugin}"),
            Self::Snapshot(plugin, id) => write!(f, "snapshot {id} of plugin {plugin}"),
        }
    }
}

/// Ports, lanes and limits.
pub(super) struct Desk {
    pub(super) cell: StateCell,
    pub(super) forward: Forward,
    pub(super) limits: VolumeLimits,
    sealer: Arc<dyn Sealer>,
    clock: Arc<dyn Clock>,
    subjects: Lanes<Subject>,
    pub(super) deletes: Lanes<PluginId>,
    pub(super) creates: Lanes<PluginId>,
    pub(super) lists: Lanes<PluginId>,
}

impl Desk {
    pub(super) fn new(ports: VolumePorts, limits: VolumeLimits) -> Self {
        Self {
            cell: ports.cell,
            forward: Forward::new(ports.directory, ports.ids, limits.forward),
            sealer: ports.sealer,
            clock: ports.clock,
            subjects: Lanes::new(limits.line),
            deletes: Lanes::wide(limits.deletes, limits.line),
            creates: Lanes::wide(limits.creates, limits.line),
            lists: Lanes::wide(limits.lists, limits.line),
            limits,
        }
    }

    /// Waits for a turn on one subject.
    pub(super) async fn turn(&self, subject: Subject) -> Result<Lane<Subject>, ServerError> {
        let what = subject.to_string();
        turn(&self.subjects, subject, what, self.limits.turn).await
    }

    /// Waits for a turn on all of them.
    pub(super) async fn turns(
        &self,
        mut subjects: Vec<Subject>,
    ) -> Result<Vec<Lane<Subject>>, ServerError> {
        subjects.sort();
        subjects.dedup();
        let mut lanes = vec![];
        for subject in subjects {
            lanes.push(self.turn(subject).await?);
        }
        Ok(lanes)
    }

    /// Waits for a place among a plugin's calls.
    pub(super) async fn slot(
        &self,
        slots: &Lanes<PluginId>,
        plugin: &PluginId,
    ) -> Result<Lane<PluginId>, ServerError> {
        let what = format!("plugin {plugin}");
        turn(slots, plugin.clone(), what, self.limits.turn).await
    }

    pub(super) async fn commit(
        &self,
        expected: Expected,
        kind: EventKind,
    ) -> Result<u64, CommitError> {
        let event = Event::new(self.clock.now(), kind);
        self.cell.commit(expected, event).await
    }

    pub(super) fn seal(&self, key: &NamespacedId, secrets: &Secrets) -> SealedSecrets {
        self.sealer.seal(&key.into(), secrets)
    }

    pub(super) fn secrets_of(&self, record: &VolumeRecord) -> Result<Secrets, ServerError> {
        self.open(record.key(), &record.secrets)
    }

    pub(super) fn open(
        &self,
        volume: &NamespacedId,
        sealed: &SealedSecrets,
    ) -> Result<Secrets, ServerError> {
        let owner = SecretOwner::from(volume);
        let secrets = self.sealer.open(&owner, sealed);
        secrets.map_err(|error| ServerError::Secrets { owner, error })
    }
}

/// That record, unchanged since it was looked at.
pub(super) fn unchanged(record: &VolumeRecord) -> Expected {
    Expected::VolumeAt(record.key().clone(), record.modify_index)
}

/// What was decided on is no longer so: decide again.
pub(super) fn changed(key: &NamespacedId) -> ServerError {
    ServerError::Commit(CommitError::Conflict {
        volume: key.clone(),
        found: None,
    })
}
