//! Requests as this plugin takes them: complete, within CSI's limits, and of what it can do.
//!
//! Everything that can be said against a request without looking at the world is said here, before
//! anything is looked up (csi-sanity asks in that order; `csi-sanity` 5.5), and as INVALID_ARGUMENT
//! (`csi-spec` 3.2, 3.3). Secrets are not looked at: this plugin has no use for any, and an
//! orchestrator may send one map to every call (3.7).

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path};

use super::catalog::{Source, Wanted};
use super::error::Invalid;
use super::size::Range;
use super::usage::{NotUsable, Usage};
use crate::csi::proto;

/// The general limit for a text, in bytes.
const LONGEST_TEXT: usize = 128;
/// The general limit for a map, in bytes.
const LARGEST_MAP: usize = 4096;
/// Linux' limit for a path, in bytes.
const LONGEST_PATH: usize = 4095;

/// A CreateVolume.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Create {
    pub(super) name: String,
    pub(super) wanted: Wanted,
    pub(super) place: Option<proto::TopologyRequirement>,
}

impl Create {
    pub(super) fn parse(request: &proto::CreateVolumeRequest) -> Result<Self, Invalid> {
        let name = volume_name(&request.name)?;
        let usages = usages(&request.volume_capabilities)?;
        let range = capacity(request.capacity_range.as_ref())?;
        small_map("parameters", &request.parameters)?;
        small_map("mutable_parameters", &request.mutable_parameters)?;
        small_map("secrets", &request.secrets)?;
        Ok(Self {
            name,
            place: request
                .accessibility_requirements
                .clone()
                .filter(|asked| !asked.requisite.is_empty() || !asked.preferred.is_empty()),
            wanted: Wanted {
                required_bytes: range.required,
                limit_bytes: range.limit,
                usages,
                parameters: request.parameters.clone(),
                mutable: request.mutable_parameters.clone(),
                source: source(request.volume_content_source.as_ref())?,
            },
        })
    }

    /// The sizes that it allows.
    pub(super) fn range(&self) -> Range {
        Range {
            required: self.wanted.required_bytes,
            limit: self.wanted.limit_bytes,
        }
    }
}

/// What a new volume is to begin with.
fn source(source: Option<&proto::VolumeContentSource>) -> Result<Option<Source>, Invalid> {
    use proto::volume_content_source::Type;
    let Some(source) = source else {
        return Ok(None);
    };
    match &source.r#type {
        None => Invalid::because("volume_content_source is neither a snapshot nor a volume"),
        Some(Type::Snapshot(snapshot)) => Ok(Some(Source::Snapshot(id(
            "snapshot",
            &snapshot.snapshot_id,
        )?))),
        Some(Type::Volume(volume)) => Ok(Some(Source::Volume(volume_id(&volume.volume_id)?))),
    }
}

/// A NodeStageVolume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StageRequest {
    pub(super) volume_id: String,
    pub(super) staging_path: String,
    pub(super) usage: Usage,
}

impl StageRequest {
    pub(super) fn parse(request: &proto::NodeStageVolumeRequest) -> Result<Self, Invalid> {
        let volume_id = volume_id(&request.volume_id)?;
        let staging_path = absolute("staging_target_path", &request.staging_target_path)?;
        let usage = usage(request.volume_capability.as_ref())?;
        no_context(&request.volume_context)?;
        small_map("secrets", &request.secrets)?;
        Ok(Self {
            volume_id,
            staging_path,
            usage,
        })
    }
}

/// A NodePublishVolume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PublishRequest {
    pub(super) volume_id: String,
    /// Empty if the caller left it out, which is not a wrong argument but a missing step (5.18).
    pub(super) staging_path: String,
    pub(super) target_path: String,
    pub(super) usage: Usage,
    pub(super) read_only: bool,
}

impl PublishRequest {
    pub(super) fn parse(request: &proto::NodePublishVolumeRequest) -> Result<Self, Invalid> {
        let volume_id = volume_id(&request.volume_id)?;
        let target_path = absolute("target_path", &request.target_path)?;
        let usage = usage(request.volume_capability.as_ref())?;
        let staging_path = if request.staging_target_path.is_empty() {
            String::new()
        } else {
            absolute("staging_target_path", &request.staging_target_path)?
        };
        no_context(&request.volume_context)?;
        small_map("secrets", &request.secrets)?;
        Ok(Self {
            volume_id,
            staging_path,
            target_path,
            usage,
            read_only: request.readonly,
        })
    }
}

/// A volume's ID: any text that could be one. Whether there is such a volume is the catalogue's to
/// say, and no path is made of it.
pub(super) fn volume_id(text: &str) -> Result<String, Invalid> {
    id("volume", text)
}

/// The ID of a `what`: any text that could be one.
pub(super) fn id(what: &str, text: &str) -> Result<String, Invalid> {
    if text.is_empty() {
        return Invalid::because(format!("the {what} ID is missing"));
    }
    if text.len() > LONGEST_TEXT {
        return Invalid::because(format!(
            "the {what} ID has {} bytes, and CSI allows {LONGEST_TEXT}",
            text.len()
        ));
    }
    Ok(text.to_owned())
}

fn volume_name(text: &str) -> Result<String, Invalid> {
    name("volume", text)
}

/// The name of a `what`: at most 128 bytes, any Unicode without control characters but tab, LF, CR.
pub(super) fn name(what: &str, text: &str) -> Result<String, Invalid> {
    let is_forbidden = |c: &char| c.is_control() && !matches!(c, '\t' | '\n' | '\r');
    if text.is_empty() {
        return Invalid::because(format!("the {what}'s name is missing"));
    }
    if text.len() > LONGEST_TEXT {
        return Invalid::because(format!(
            "the {what}'s name has {} bytes, and CSI allows {LONGEST_TEXT}",
            text.len()
        ));
    }
    if let Some(found) = text.chars().find(is_forbidden) {
        return Invalid::because(format!(
            "the {what}'s name has the control character {found:?}"
        ));
    }
    Ok(text.to_owned())
}

/// The capabilities of a volume: at least one.
pub(super) fn usages(capabilities: &[proto::VolumeCapability]) -> Result<BTreeSet<Usage>, Invalid> {
    if capabilities.is_empty() {
        return Invalid::because("the volume's capabilities are missing");
    }
    let parsed = capabilities.iter().map(Usage::parse);
    let usages: Result<_, NotUsable> = parsed.collect();
    usages.map_err(|reason| Invalid(reason.into_message()))
}

pub(super) fn usage(capability: Option<&proto::VolumeCapability>) -> Result<Usage, Invalid> {
    let Some(capability) = capability else {
        return Invalid::because("the volume's capability is missing");
    };
    Usage::parse(capability).map_err(|reason| Invalid(reason.into_message()))
}

/// Required and limit bytes. A range without either says nothing, as older orchestrators send it
/// (GH-11238).
pub(super) fn capacity(range: Option<&proto::CapacityRange>) -> Result<Range, Invalid> {
    let Some(range) = range else {
        return Ok(Range::default());
    };
    let bytes = |name: &str, value: i64| {
        u64::try_from(value).map_err(|_| Invalid(format!("{name} is negative: {value}")))
    };
    let required = bytes("required_bytes", range.required_bytes)?;
    let limit = bytes("limit_bytes", range.limit_bytes)?;
    if limit != 0 && required > limit {
        return Invalid::because(format!(
            "required_bytes {required} is above limit_bytes {limit}"
        ));
    }
    Ok(Range { required, limit })
}

/// Parameters where there are none: passing one over would hide a mistake.
pub(super) fn no_parameters(
    what: &str,
    parameters: &BTreeMap<String, String>,
) -> Result<(), Invalid> {
    let Some(key) = parameters.keys().next() else {
        return Ok(());
    };
    Invalid::because(format!(
        "this plugin has no {what}, so {key:?} would have no effect; remove it"
    ))
}

/// This plugin's volumes have no context, and each call has to carry the volume's own.
pub(super) fn no_context(context: &BTreeMap<String, String>) -> Result<(), Invalid> {
    let Some(key) = context.keys().next() else {
        return Ok(());
    };
    Invalid::because(format!(
        "volumes of this plugin have no context, so {key:?} is not the volume's; remove it"
    ))
}

pub(super) fn small_map(what: &str, map: &BTreeMap<String, String>) -> Result<(), Invalid> {
    let bytes: usize = map.iter().map(|(key, value)| key.len() + value.len()).sum();
    if bytes > LARGEST_MAP {
        return Invalid::because(format!(
            "{what} has {bytes} bytes, and CSI allows {LARGEST_MAP}"
        ));
    }
    Ok(())
}

/// A path that says where it is by itself: absolute, without `..`, of a length that Linux takes.
pub(super) fn absolute(what: &str, text: &str) -> Result<String, Invalid> {
    if text.is_empty() {
        return Invalid::because(format!("{what} is missing"));
    }
    if text.len() > LONGEST_PATH {
        return Invalid::because(format!(
            "{what} has {} bytes, and Linux allows {LONGEST_PATH}",
            text.len()
        ));
    }
    let path = Path::new(text);
    let is_plain = path
        .components()
        .all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    if !path.is_absolute() || !is_plain || text.contains('\0') || path.parent().is_none() {
        return Invalid::because(format!(
            "{what} {text:?} has to be an absolute path without `..`"
        ));
    }
    // `/a//b/` and `/a/b` are one place.
    Ok(path
        .components()
        .collect::<std::path::PathBuf>()
        .to_string_lossy()
        .into_owned())
}
