//! Which operations may run at the same time: one per volume, a bounded number of calls per plugin.

use std::time::Duration;

use super::ports::VolumeLimits;
use crate::acquire::within;
use crate::error::ServerError;
use crate::keyed_limiter::{KeyedLimiter, KeyedPermit};
use crate::plugin_call_queue::CallClass;
use crate::plugin_call_queues::{CallPermit, PluginCallQueues};
use nomad_csi_model::{ExternalId, NamespacedId, PluginId, SnapshotId};

/// What only one operation at a time may change. Acquired in this order, which prevents deadlocks.
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

/// Admits operations. A clone shares the limits.
#[derive(Clone)]
pub(super) struct OperationLimiter {
    resources: KeyedLimiter<LockedResource>,
    calls: PluginCallQueues,
    timeout: Duration,
}

impl OperationLimiter {
    pub(super) fn new(limits: &VolumeLimits, calls: PluginCallQueues) -> Self {
        Self {
            resources: KeyedLimiter::new(limits.max_waiting),
            calls,
            timeout: limits.queue_timeout,
        }
    }

    /// Waits until no other operation has the resource.
    pub(super) async fn acquire(
        &self,
        resource: LockedResource,
    ) -> Result<KeyedPermit<LockedResource>, ServerError> {
        let name = resource.to_string();
        within(self.timeout, name, self.resources.acquire(resource)).await
    }

    /// Waits until no other operation has any of the resources.
    pub(super) async fn acquire_all(
        &self,
        mut resources: Vec<LockedResource>,
    ) -> Result<Vec<KeyedPermit<LockedResource>>, ServerError> {
        resources.sort();
        resources.dedup();
        let mut permits = vec![];
        for resource in resources {
            permits.push(self.acquire(resource).await?);
        }
        Ok(permits)
    }

    /// Waits until another call of that class may be sent to the plugin.
    pub(super) async fn acquire_call(
        &self,
        class: CallClass,
        plugin: &PluginId,
    ) -> Result<CallPermit, ServerError> {
        let name = format!("plugin {plugin}");
        within(self.timeout, name, self.calls.acquire(plugin, class)).await
    }
}
