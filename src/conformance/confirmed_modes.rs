//! Which access modes a plugin confirms for a volume that exists.
//!
//! Each mode is asked alone with ValidateVolumeCapabilities, which changes nothing. A mode counts as
//! confirmed only if the plugin repeats it (CSI, ValidateVolumeCapabilities). The volume context has to
//! be the volume's own. It comes from ControllerGetVolume, or from ListVolumes.

use std::collections::BTreeMap;

use super::probed_plugin::ProbedPlugin;
use nomad_csi_csi::{CallFailure, RawClient};
use nomad_csi_model::{AttachmentMode, Secrets};
use nomad_csi_ports::StatusCode;
use nomad_csi_proto::controller_service_capability::rpc::Type as ControllerRpc;
use nomad_csi_proto::volume_capability::access_mode::Mode;
use nomad_csi_proto::volume_capability::{AccessMode, AccessType, BlockVolume, MountVolume};
use nomad_csi_proto::{
    ControllerGetVolumeRequest, ListVolumesRequest, ValidateVolumeCapabilitiesRequest,
    VolumeCapability,
};

/// The plugin's answer for one mode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModeAnswer {
    /// The access mode, as CSI names it.
    pub access_mode: &'static str,
    /// The attachment mode.
    pub attachment_mode: AttachmentMode,
    /// Why the mode is not confirmed; `None` if it is.
    pub refusal: Option<String>,
}

/// Why the modes of a volume are unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModesUnknown {
    /// The plugin has no such volume.
    NoSuchVolume,
    /// The call failed.
    Failed(CallFailure),
}

const MODES: [Mode; 7] = [
    Mode::SingleNodeWriter,
    Mode::SingleNodeReaderOnly,
    Mode::MultiNodeReaderOnly,
    Mode::MultiNodeSingleWriter,
    Mode::MultiNodeMultiWriter,
    Mode::SingleNodeSingleWriter,
    Mode::SingleNodeMultiWriter,
];
/// A list with more pages than this is not searched to its end.
const MAX_PAGES: usize = 1000;

/// Asks for every access mode with every attachment mode.
///
/// # Errors
/// If the volume does not exist, or a call fails for another reason than the mode.
pub async fn confirmed_modes(
    client: &RawClient,
    plugin: &ProbedPlugin,
    volume_id: &str,
    secrets: &Secrets,
) -> Result<Vec<ModeAnswer>, ModesUnknown> {
    let context = volume_context(client, plugin, volume_id).await?;
    let mut answers = vec![];
    for attachment_mode in AttachmentMode::ALL {
        for mode in MODES {
            let capability = capability(mode, attachment_mode);
            let pairs = secrets.expose();
            let request = ValidateVolumeCapabilitiesRequest {
                volume_id: volume_id.to_owned(),
                volume_context: context.clone(),
                volume_capabilities: vec![capability.clone()],
                secrets: pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
                ..Default::default()
            };
            let refusal = match client.call(request).await {
                Ok(response) => match response.confirmed {
                    Some(confirmed) if confirmed.volume_capabilities.contains(&capability) => None,
                    Some(_) => Some("the confirmation does not repeat the mode".to_owned()),
                    None if response.message.is_empty() => Some("no reason is given".to_owned()),
                    None => Some(response.message),
                },
                Err(failure) => Some(refusal(failure)?),
            };
            answers.push(ModeAnswer { access_mode: mode.as_str_name(), attachment_mode, refusal });
        }
    }
    Ok(answers)
}

/// Returns the reason if the failure is about the mode.
fn refusal(failure: CallFailure) -> Result<String, ModesUnknown> {
    match failure.code() {
        Some(StatusCode::NotFound) => Err(ModesUnknown::NoSuchVolume),
        Some(
            StatusCode::InvalidArgument | StatusCode::FailedPrecondition | StatusCode::OutOfRange,
        ) => Ok(failure.to_string()),
        _ => Err(ModesUnknown::Failed(failure)),
    }
}

fn capability(mode: Mode, attachment_mode: AttachmentMode) -> VolumeCapability {
    let access_type = match attachment_mode {
        AttachmentMode::BlockDevice => AccessType::Block(BlockVolume {}),
        AttachmentMode::FileSystem => AccessType::Mount(MountVolume::default()),
    };
    VolumeCapability {
        access_mode: Some(AccessMode { mode: mode.into() }),
        access_type: Some(access_type),
    }
}

/// Returns the volume's context; empty if the plugin cannot show volumes.
async fn volume_context(
    client: &RawClient,
    plugin: &ProbedPlugin,
    volume_id: &str,
) -> Result<BTreeMap<String, String>, ModesUnknown> {
    if plugin.controller_has(ControllerRpc::GetVolume) {
        let volume_id = volume_id.to_owned();
        return match client.call(ControllerGetVolumeRequest { volume_id }).await {
            Ok(response) => Ok(response.volume.unwrap_or_default().volume_context),
            Err(failure) if failure.code() == Some(StatusCode::NotFound) => {
                Err(ModesUnknown::NoSuchVolume)
            }
            Err(failure) => Err(ModesUnknown::Failed(failure)),
        };
    }
    if !plugin.controller_has(ControllerRpc::ListVolumes) {
        return Ok(BTreeMap::new());
    }
    let mut starting_token = String::new();
    for _ in 0..MAX_PAGES {
        let request = ListVolumesRequest { max_entries: 0, starting_token };
        let page = client.call(request).await.map_err(ModesUnknown::Failed)?;
        let mut volumes = page.entries.into_iter().filter_map(|entry| entry.volume);
        if let Some(found) = volumes.find(|volume| volume.volume_id == volume_id) {
            return Ok(found.volume_context);
        }
        if page.next_token.is_empty() {
            return Err(ModesUnknown::NoSuchVolume);
        }
        starting_token = page.next_token;
    }
    Ok(BTreeMap::new())
}
