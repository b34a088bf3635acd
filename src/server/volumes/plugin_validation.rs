//! Asks a plugin whether its volume can be used as a registration says.

use super::limiter::OperationLimiter;
use super::plugin::VolumePlugin;
use crate::error::{CallTarget, ControllerOperation, PluginFailure, ResidualState, ServerError};
use crate::forward::ControllerCaller;
use crate::plugin_call_queue::CallClass;
use crate::sealing::VolumeSealer;
use nomad_csi_model::{CapacityReport, RemoteVolume, Secrets, Volume};
use nomad_csi_ports::ValidateVolume;

/// Asks plugins about volumes.
pub(super) struct VolumeValidator<'a> {
    pub(super) limiter: &'a OperationLimiter,
    pub(super) controller_caller: &'a ControllerCaller,
    pub(super) sealer: &'a VolumeSealer,
}

impl VolumeValidator<'_> {
    /// Validates the volume's capabilities at the plugin. A plugin without a controller has no such call.
    ///
    /// # Errors
    /// If the plugin refuses them, or cannot be asked.
    pub(super) async fn validate(
        &self,
        volume: &Volume,
        secrets: &Secrets,
        plugin: &VolumePlugin,
    ) -> Result<(), ServerError> {
        if !plugin.needs_controller() {
            return Ok(());
        }
        let operation = ControllerOperation::Validate;
        let failed = |error| {
            ServerError::Plugin(Box::new(PluginFailure {
                operation,
                target: CallTarget::Volume(volume.key()),
                subject: volume.remote_id().to_string(),
                plugin: plugin.id().clone(),
                error,
                residual: ResidualState::None,
                capacity: CapacityReport::default(),
            }))
        };
        let candidates = plugin.candidates().map_err(|error| failed(error.into()))?;
        let class = CallClass::Create;
        let _permit = self.limiter.acquire_call(class, plugin.id()).await?;
        let remote =
            RemoteVolume { plugin_id: volume.plugin_id.clone(), external_id: volume.remote_id() };
        let request = ValidateVolume {
            external_id: volume.remote_id(),
            capabilities: volume.capabilities.clone(),
            mount_options: volume.mount_options.clone().unwrap_or_default(),
            parameters: volume.parameters.clone(),
            context: self.sealer.open_context(&remote, &volume.context)?,
            secrets: secrets.clone(),
        };
        let rpc = operation.rpc();
        let answer = self.controller_caller.read(&candidates, rpc, |controller| {
            let request = request.clone();
            async move { controller.validate_volume(request).await }
        });
        answer.await.map_err(failed)
    }
}
