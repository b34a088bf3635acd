//! [`ControllerHost`] over the controllers that run on this machine.
//!
//! Attach and detach take the controller call lock of their volume, which deletes, expansions and snapshots
//! take too. The request names the instance; no other one is called.

use std::sync::Arc;

use async_trait::async_trait;

use super::registry::{Registry, RunningInstance};
use super::volume_call_locks::{
    CallLockKey, CallLockPermit, PluginCalls, PluginProcess, VolumeCallLocks,
};
use nomad_csi_model::{ControllerCapabilities, PluginId, PublishContext, RemoteVolume};
use nomad_csi_ports::{
    CallOrder, Controller, ControllerHost, ControllerPublishRequest, ControllerPublishVolume,
    ControllerUnpublishRequest, ControllerUnpublishVolume, HostError, HostOperation,
};

/// The controllers of this machine.
#[derive(Clone)]
pub struct LocalControllerHost {
    registry: Arc<Registry>,
}

/// A controller that may be called under a call lock.
struct Callee {
    permit: CallLockPermit,
    process: PluginProcess,
    controller: Arc<dyn Controller>,
    capabilities: ControllerCapabilities,
}

impl LocalControllerHost {
    /// A host of what the registry knows.
    pub fn new(registry: Arc<Registry>) -> Self {
        Self { registry }
    }

    fn call_locks(&self) -> &VolumeCallLocks {
        self.registry.call_locks()
    }

    fn admit(
        &self,
        order: &CallOrder,
        volume: &RemoteVolume,
        operation: HostOperation,
    ) -> Result<Callee, HostError> {
        let permit =
            self.call_locks().admit(CallLockKey::Controller(volume.clone()), order, operation)?;
        let plugin = &volume.plugin_id;
        let RunningInstance { connection, controller, run, .. } =
            self.registry.running(plugin, &order.instance)?;
        let unsupported = |plugin: &PluginId, what: &'static str| HostError::Unsupported {
            plugin: plugin.clone(),
            what: what.into(),
        };
        let capabilities = controller.ok_or_else(|| unsupported(plugin, "CONTROLLER_SERVICE"))?;
        if !capabilities.publish_unpublish_volume {
            return Err(unsupported(plugin, "PUBLISH_UNPUBLISH_VOLUME"));
        }
        Ok(Callee {
            permit,
            process: PluginProcess { plugin: plugin.clone(), alloc: order.instance.clone(), run },
            controller: connection.controller,
            capabilities,
        })
    }
}

#[async_trait]
impl ControllerHost for LocalControllerHost {
    async fn publish(
        &self,
        order: CallOrder,
        request: ControllerPublishRequest,
    ) -> Result<PublishContext, HostError> {
        let callee = self.admit(&order, &request.volume, HostOperation::Attach)?;
        let message = ControllerPublishVolume {
            external_id: request.volume.external_id,
            node_id: request.node,
            capability: request.usage.capability,
            mount_options: request.usage.mount_options,
            // CSI: false unless the plugin advertises it (W26).
            read_only: request.read_only && callee.capabilities.publish_readonly,
            secrets: request.secrets,
            context: request.volume_context,
        };
        let controller = callee.controller;
        let work = |calls: PluginCalls| async move {
            let call = controller.controller_publish_volume(message);
            calls.send(call).await
        };
        self.call_locks().run(callee.permit, callee.process, work).await
    }

    async fn unpublish(
        &self,
        order: CallOrder,
        request: ControllerUnpublishRequest,
    ) -> Result<(), HostError> {
        let callee = self.admit(&order, &request.volume, HostOperation::Detach)?;
        let message = ControllerUnpublishVolume {
            external_id: request.volume.external_id,
            node_id: request.node,
            secrets: request.secrets,
        };
        let controller = callee.controller;
        let work = |calls: PluginCalls| async move {
            let call = controller.controller_unpublish_volume(message);
            calls.send(call).await
        };
        self.call_locks().run(callee.permit, callee.process, work).await
    }
}

#[cfg(test)]
mod tests;
