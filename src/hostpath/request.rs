//! Validates requests before the plugin looks anything up.
//!
//! A request that is incomplete, exceeds CSI's size limits or asks for an unknown feature fails
//! with INVALID_ARGUMENT. csi-sanity requires this order: arguments first, existence second.
//! Secrets are ignored: this plugin needs none, and an orchestrator may send one map with every
//! call.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path};

use super::catalog::{ContentSource, RequestedVolume};
use super::error::InvalidArgument;
use super::size::SizeRange;
use super::volume_capability::{CapabilityError, VolumeCapability};

use nomad_csi_proto as proto;

/// CSI's default limit for a string, in bytes.
const MAX_STRING_BYTES: usize = 128;
/// CSI's default limit for a map, in bytes.
const MAX_MAP_BYTES: usize = 4096;
/// Linux's limit for a path, in bytes.
const MAX_PATH_BYTES: usize = 4095;

/// A valid CreateVolume request.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct CreateRequest {
    pub(super) name: String,
    pub(super) requested: RequestedVolume,
    pub(super) topology: Option<proto::TopologyRequirement>,
}

impl CreateRequest {
    pub(super) fn parse(request: &proto::CreateVolumeRequest) -> Result<Self, InvalidArgument> {
        let name = volume_name(&request.name)?;
        let capabilities = volume_capabilities(&request.volume_capabilities)?;
        let range = capacity(request.capacity_range.as_ref())?;
        small_map("parameters", &request.parameters)?;
        small_map("mutable_parameters", &request.mutable_parameters)?;
        small_map("secrets", &request.secrets)?;
        Ok(Self {
            name,
            topology: request.accessibility_requirements.clone().filter(|requirement| {
                !requirement.requisite.is_empty() || !requirement.preferred.is_empty()
            }),
            requested: RequestedVolume {
                required_bytes: range.required,
                limit_bytes: range.limit,
                capabilities,
                parameters: request.parameters.clone(),
                mutable: request.mutable_parameters.clone(),
                source: source(request.volume_content_source.as_ref())?,
            },
        })
    }

    /// The sizes that the request allows.
    pub(super) fn range(&self) -> SizeRange {
        SizeRange { required: self.requested.required_bytes, limit: self.requested.limit_bytes }
    }
}

/// Parses the content source of a new volume.
fn source(
    source: Option<&proto::VolumeContentSource>,
) -> Result<Option<ContentSource>, InvalidArgument> {
    use proto::volume_content_source::Type;
    let Some(source) = source else {
        return Ok(None);
    };
    match &source.r#type {
        None => InvalidArgument::err("volume_content_source is neither a snapshot nor a volume"),
        Some(Type::Snapshot(snapshot)) => {
            Ok(Some(ContentSource::Snapshot(id("snapshot", &snapshot.snapshot_id)?)))
        }
        Some(Type::Volume(volume)) => {
            Ok(Some(ContentSource::Volume(volume_id(&volume.volume_id)?)))
        }
    }
}

/// A valid NodeStageVolume request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StageCall {
    pub(super) volume_id: String,
    pub(super) staging_path: String,
    pub(super) capability: VolumeCapability,
}

impl StageCall {
    pub(super) fn parse(request: &proto::NodeStageVolumeRequest) -> Result<Self, InvalidArgument> {
        let volume_id = volume_id(&request.volume_id)?;
        let staging_path = absolute("staging_target_path", &request.staging_target_path)?;
        let capability = volume_capability(request.volume_capability.as_ref())?;
        no_context(&request.volume_context)?;
        small_map("secrets", &request.secrets)?;
        Ok(Self { volume_id, staging_path, capability })
    }
}

/// A valid NodePublishVolume request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PublishRequest {
    pub(super) volume_id: String,
    /// Empty if the caller omits it. CSI defines that as a missing step (FAILED_PRECONDITION), not
    /// as a wrong argument.
    pub(super) staging_path: String,
    pub(super) target_path: String,
    pub(super) capability: VolumeCapability,
    pub(super) read_only: bool,
}

impl PublishRequest {
    pub(super) fn parse(
        request: &proto::NodePublishVolumeRequest,
    ) -> Result<Self, InvalidArgument> {
        let volume_id = volume_id(&request.volume_id)?;
        let target_path = absolute("target_path", &request.target_path)?;
        let capability = volume_capability(request.volume_capability.as_ref())?;
        let staging_path = if request.staging_target_path.is_empty() {
            String::new()
        } else {
            absolute("staging_target_path", &request.staging_target_path)?
        };
        no_context(&request.volume_context)?;
        small_map("secrets", &request.secrets)?;
        Ok(Self { volume_id, staging_path, target_path, capability, read_only: request.readonly })
    }
}

/// Validates a volume ID. Any text may be one; the plugin never builds a path from it.
pub(super) fn volume_id(text: &str) -> Result<String, InvalidArgument> {
    id("volume", text)
}

/// Validates the ID of a `what`.
pub(super) fn id(what: &str, text: &str) -> Result<String, InvalidArgument> {
    if text.is_empty() {
        return InvalidArgument::err(format!("the {what} ID is missing"));
    }
    if text.len() > MAX_STRING_BYTES {
        return InvalidArgument::err(format!(
            "the {what} ID has {} bytes, and CSI allows {MAX_STRING_BYTES}",
            text.len()
        ));
    }
    Ok(text.to_owned())
}

fn volume_name(text: &str) -> Result<String, InvalidArgument> {
    name("volume", text)
}

/// Validates the name of a `what`: at most 128 bytes of Unicode, without control characters except
/// tab, LF and CR.
pub(super) fn name(what: &str, text: &str) -> Result<String, InvalidArgument> {
    let is_forbidden = |c: &char| c.is_control() && !matches!(c, '\t' | '\n' | '\r');
    if text.is_empty() {
        return InvalidArgument::err(format!("the {what} name is missing"));
    }
    if text.len() > MAX_STRING_BYTES {
        return InvalidArgument::err(format!(
            "the {what} name has {} bytes, and CSI allows {MAX_STRING_BYTES}",
            text.len()
        ));
    }
    if let Some(found) = text.chars().find(is_forbidden) {
        return InvalidArgument::err(format!(
            "the {what} name contains the control character {found:?}"
        ));
    }
    Ok(text.to_owned())
}

/// Parses the capabilities of a volume. At least one is required.
pub(super) fn volume_capabilities(
    capabilities: &[proto::VolumeCapability],
) -> Result<BTreeSet<VolumeCapability>, InvalidArgument> {
    if capabilities.is_empty() {
        return InvalidArgument::err("volume_capabilities are missing");
    }
    let parsed = capabilities.iter().map(VolumeCapability::parse);
    let capabilities: Result<_, CapabilityError> = parsed.collect();
    capabilities.map_err(|reason| InvalidArgument(reason.into_message()))
}

pub(super) fn volume_capability(
    capability: Option<&proto::VolumeCapability>,
) -> Result<VolumeCapability, InvalidArgument> {
    let Some(capability) = capability else {
        return InvalidArgument::err("volume_capability is missing");
    };
    VolumeCapability::parse(capability).map_err(|reason| InvalidArgument(reason.into_message()))
}

/// Parses required and limit bytes. An empty range has no effect: older orchestrators send it
/// (Nomad issue 11238).
pub(super) fn capacity(range: Option<&proto::CapacityRange>) -> Result<SizeRange, InvalidArgument> {
    let Some(range) = range else {
        return Ok(SizeRange::default());
    };
    let bytes = |name: &str, value: i64| {
        u64::try_from(value).map_err(|_| InvalidArgument(format!("{name} is negative: {value}")))
    };
    let required = bytes("required_bytes", range.required_bytes)?;
    let limit = bytes("limit_bytes", range.limit_bytes)?;
    if limit != 0 && required > limit {
        return InvalidArgument::err(format!(
            "required_bytes {required} is above limit_bytes {limit}"
        ));
    }
    Ok(SizeRange { required, limit })
}

/// Refuses parameters where the plugin has none. Ignoring one would hide a mistake.
pub(super) fn no_parameters(
    what: &str,
    parameters: &BTreeMap<String, String>,
) -> Result<(), InvalidArgument> {
    let Some(key) = parameters.keys().next() else {
        return Ok(());
    };
    InvalidArgument::err(format!("this plugin has no {what}, so {key:?} has no effect; remove it"))
}

/// Refuses a volume context. This plugin's volumes have none, and callers must pass the volume's
/// own.
pub(super) fn no_context(context: &BTreeMap<String, String>) -> Result<(), InvalidArgument> {
    let Some(key) = context.keys().next() else {
        return Ok(());
    };
    InvalidArgument::err(format!(
        "volumes of this plugin have no context, so {key:?} is not valid; remove it"
    ))
}

pub(super) fn small_map(what: &str, map: &BTreeMap<String, String>) -> Result<(), InvalidArgument> {
    let bytes: usize = map.iter().map(|(key, value)| key.len() + value.len()).sum();
    if bytes > MAX_MAP_BYTES {
        return InvalidArgument::err(format!(
            "{what} has {bytes} bytes, and CSI allows {MAX_MAP_BYTES}"
        ));
    }
    Ok(())
}

/// Validates a path: absolute, without `..`, no longer than Linux allows.
pub(super) fn absolute(what: &str, text: &str) -> Result<String, InvalidArgument> {
    if text.is_empty() {
        return InvalidArgument::err(format!("{what} is missing"));
    }
    if text.len() > MAX_PATH_BYTES {
        return InvalidArgument::err(format!(
            "{what} has {} bytes, and Linux allows {MAX_PATH_BYTES}",
            text.len()
        ));
    }
    let path = Path::new(text);
    let is_plain =
        path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    if !path.is_absolute() || !is_plain || text.contains('\0') || path.parent().is_none() {
        return InvalidArgument::err(format!(
            "{what} {text:?} must be an absolute path without `..`"
        ));
    }
    // `/a//b/` and `/a/b` are the same path.
    Ok(path.components().collect::<std::path::PathBuf>().to_string_lossy().into_owned())
}
