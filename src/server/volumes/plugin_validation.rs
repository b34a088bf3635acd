//! Asks a plugin whether its volume can be used as a registration says.

use super::deps::VolumeDeps;
use super::plugin::VolumePlugin;
use crate::error::{CallDescription, ControllerOperation, ResidualState, ServerError};
use crate::plugin_call_queue::CallClass;
use nomad_csi_claims::state::{ControllerCall, ControllerEffect};
use nomad_csi_model::{RemoteVolume, Secrets, Volume};
use nomad_csi_ports::{Rpc, ValidateVolume};

/// Validates the volume's capabilities at the plugin. A plugin without a controller has no such call.
///
/// # Errors
/// If the plugin refuses them, or cannot be asked.
pub(super) async fn validate_at_plugin(
    deps: &VolumeDeps,
    volume: &Volume,
    secrets: &Secrets,
    plugin: &VolumePlugin,
) -> Result<(), ServerError> {
    if !plugin.needs_controller() {
        return Ok(());
    }
    let (operation, id) = (ControllerOperation::Validate, volume.remote_id());
    let call = CallDescription::of_volume(operation, volume.key(), &id, plugin.id());
    let none = ResidualState::None;
    let remote = RemoteVolume { plugin_id: volume.plugin_id.clone(), external_id: id.clone() };
    let effect = ControllerEffect::Unrecorded;
    let bound = ControllerCall::OfVolume { volume: remote.clone(), effect };
    let class = (CallClass::Create, &bound);
    let calls = deps.admit_for(class, plugin, &call, none.clone()).await?;
    let request = ValidateVolume {
        external_id: id,
        capabilities: volume.capabilities.clone(),
        mount_options: volume.mount_options.clone().unwrap_or_default(),
        parameters: volume.parameters.clone(),
        context: deps.sealer.open_context(&remote, &volume.context)?,
        secrets: secrets.clone(),
    };
    let answer = calls.read(Rpc::ValidateVolumeCapabilities, |controller| {
        let request = request.clone();
        async move { controller.validate_volume(request).await }
    });
    Ok(answer.await.map_err(|error| call.failed(error, none))?)
}
