//! Locks of resources that only one operation at a time may change.

use std::time::Duration;

use crate::acquire::within;
use crate::error::ServerError;
use crate::keyed_locks::{KeyedGuard, KeyedLocks};
use nomad_csi_model::{ExternalId, NamespacedId, PluginId, SnapshotId};

/// A resource that only one operation at a time may change. Locked in this order, which prevents deadlocks.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum LockedResource {
    /// A volume, which need not exist.
    Volume(NamespacedId),
    /// The provider's volume, which may be registered more than once.
    External(PluginId, ExternalId),
    /// The provider's snapshot.
    Snapshot(PluginId, SnapshotId),
}

impl std::fmt::Display for LockedResource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Volume(key) => write!(f, "volume {}", key.quoted()),
            Self::External(plugin, id) => write!(f, "external volume `{id}` of plugin `{plugin}`"),
            Self::Snapshot(plugin, id) => write!(f, "snapshot `{id}` of plugin `{plugin}`"),
        }
    }
}

/// The locks of volumes and of what providers have.
pub(super) struct ResourceLocks {
    locks: KeyedLocks<LockedResource>,
    timeout: Duration,
}

impl ResourceLocks {
    pub(super) fn new(max_waiting: usize, timeout: Duration) -> Self {
        Self { locks: KeyedLocks::new(max_waiting), timeout }
    }

    /// Waits until no other operation has the lock.
    pub(super) async fn acquire(
        &self,
        resource: LockedResource,
    ) -> Result<KeyedGuard<LockedResource>, ServerError> {
        let name = resource.to_string();
        within(self.timeout, name, self.locks.acquire(resource)).await
    }

    /// Waits until no other operation has the lock of the volume, which need not exist.
    pub(super) async fn acquire_volume(
        &self,
        key: &NamespacedId,
    ) -> Result<KeyedGuard<LockedResource>, ServerError> {
        self.acquire(LockedResource::Volume(key.clone())).await
    }

    /// Waits until no other operation has the lock of the provider's volume.
    pub(super) async fn acquire_external(
        &self,
        plugin: &PluginId,
        id: &ExternalId,
    ) -> Result<KeyedGuard<LockedResource>, ServerError> {
        self.acquire(LockedResource::External(plugin.clone(), id.clone())).await
    }

    /// Waits until no other operation has any of the locks.
    pub(super) async fn acquire_all(
        &self,
        mut resources: Vec<LockedResource>,
    ) -> Result<Vec<KeyedGuard<LockedResource>>, ServerError> {
        resources.sort();
        resources.dedup();
        let mut guards = vec![];
        for resource in resources {
            guards.push(self.acquire(resource).await?);
        }
        Ok(guards)
    }
}
