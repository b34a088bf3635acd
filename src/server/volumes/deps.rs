//! [`VolumeDeps`]: the parts that all operations on volumes share.

use super::limits::VolumeLimits;
use super::listing_health::ListingHealth;
use super::plugin::VolumePlugin;
use super::resource_locks::ResourceLocks;
use super::store::VolumeStore;
use crate::error::{CallDescription, ResidualState, ServerError};
use crate::forward::{ControllerCaller, PermittedCalls};
use crate::plugin_call_queue::CallClass;
use crate::ports::ServerPorts;
use crate::sealing::VolumeSealer;
use nomad_csi_claims::state::{ControllerCall, VolumeRecord, bound_controller, provider_name};
use nomad_csi_model::{AllocId, NamespacedId};
use tracing::Span;

/// Records, secrets, locks and controllers of volumes.
pub(super) struct VolumeDeps {
    pub(super) store: VolumeStore,
    pub(super) sealer: VolumeSealer,
    pub(super) locks: ResourceLocks,
    pub(super) controllers: ControllerCaller,
    pub(super) listing_health: ListingHealth,
}

impl VolumeDeps {
    pub(super) fn new(ports: ServerPorts, limits: &VolumeLimits) -> Self {
        let ServerPorts { cell, sealer, clock, ids, calls, .. } = ports;
        let timeout = limits.queue_timeout;
        Self {
            store: VolumeStore::new(cell, clock, limits.conflict_retries),
            sealer: VolumeSealer::new(sealer),
            locks: ResourceLocks::new(limits.max_waiting, timeout),
            controllers: ControllerCaller::new(calls, ids, limits.forward, timeout),
            listing_health: ListingHealth::default(),
        }
    }

    /// Returns the state that a failure leaves while an intent is on record.
    pub(super) fn pending(&self, record: &VolumeRecord) -> ResidualState {
        let provider_name = self.store.read(|state| provider_name(state, record));
        ResidualState::PendingIntent { provider_name }
    }

    /// Finds the plugin's usable controllers for a call that is for no volume, and waits until it may be sent.
    ///
    /// # Errors
    /// If no controller is usable, which leaves `residual`, or the call waits too long.
    pub(super) async fn admit(
        &self,
        class: CallClass,
        plugin: &VolumePlugin,
        call: &CallDescription,
        residual: ResidualState,
    ) -> Result<PermittedCalls, ServerError> {
        let candidates = plugin.candidates(None).map_err(|error| call.failed(error, residual))?;
        self.controllers.admit(class, candidates).await
    }

    /// As [`Self::admit`], for a call that goes to the controller that its volume is bound to.
    pub(super) async fn admit_for(
        &self,
        (class, bound): (CallClass, &ControllerCall),
        plugin: &VolumePlugin,
        call: &CallDescription,
        residual: ResidualState,
    ) -> Result<PermittedCalls, ServerError> {
        let instance = || self.store.read(|state| bound_controller(state, bound).cloned());
        let candidates = |plugin: &VolumePlugin, instance: Option<&AllocId>| {
            let candidates = plugin.candidates(instance);
            candidates.map_err(|error| ServerError::from(call.failed(error, residual.clone())))
        };
        let before = instance();
        let calls = self.controllers.admit(class, candidates(plugin, before.as_ref())?).await?;
        let now = instance();
        if now == before {
            return Ok(calls);
        }
        // It took time: another call has bound the volume.
        let plugin = self.store.plugin(plugin.id())?;
        Ok(calls.to(candidates(&plugin, now.as_ref())?))
    }
}

/// Returns a span of the work on one volume, in the current one. All its log lines carry it.
pub(super) fn volume_span(key: &NamespacedId) -> Span {
    tracing::error_span!("volume", volume.namespace = %key.namespace, volume.id = %key.id)
}
