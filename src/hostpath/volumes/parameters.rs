//! The plugin's own volume parameters. Pure.
//!
//! The parameter `backing` is `image` or `directory`. The mutable parameters `direct_io` (`true` or
//! `false`) and `read_ahead_kib` (0 to 65536) apply to volumes that are files. Unknown names and
//! values are refused: ignoring one would hide a mistake.

use std::collections::BTreeMap;

use crate::catalog::{Backing, Content};
use crate::error::InvalidArgument;
use crate::profile::DefaultBacking;
use crate::volume_capability::VolumeCapability;

use nomad_csi_ports::{BlockStorageFeatures, DeviceTuning, FileSystem};

/// The part of a request that decides the format of a new volume.
pub(crate) struct ContentRequest<'a> {
    pub(crate) capabilities: &'a [VolumeCapability],
    pub(crate) parameters: &'a BTreeMap<String, String>,
    /// True if the request has a size.
    pub(crate) has_size: bool,
    /// The format of the source, if the volume is a copy.
    pub(crate) source: Option<Content>,
}

/// Chooses the format of a new volume, except its size.
pub(crate) fn choose(
    request: &ContentRequest<'_>,
    choice: DefaultBacking,
    features: &BlockStorageFeatures,
) -> Result<Content, InvalidArgument> {
    let content = match request.source {
        Some(source) => source,
        None => choose_empty(request, choice, features)?,
    };
    let requested = backing(request.parameters)?;
    if let Some(requested) = requested.filter(|requested| *requested != content.backing) {
        return InvalidArgument::err(match (content.backing, requested) {
            (Backing::Block, _) => {
                "a block device is always stored in a file: remove the parameter backing".to_owned()
            }
            (_, requested) => format!(
                "the source is {}: a copy of it cannot be {}",
                describe(content.backing),
                describe(requested)
            ),
        });
    }
    match request.capabilities.iter().find_map(|capability| content.incompatibility(capability)) {
        Some(incompatibility) => InvalidArgument::err(incompatibility),
        None => Ok(content),
    }
}

/// Chooses the format of an empty volume.
fn choose_empty(
    request: &ContentRequest<'_>,
    choice: DefaultBacking,
    features: &BlockStorageFeatures,
) -> Result<Content, InvalidArgument> {
    let plain = |backing| Content { backing, ..Content::default() };
    let blocks = request.capabilities.iter().filter(|capability| capability.is_block).count();
    if blocks > 0 {
        if blocks < request.capabilities.len() {
            return InvalidArgument::err(
                "a volume is either a file system or a block device: use one attachment mode",
            );
        }
        return match &features.loop_devices_unavailable {
            Some(reason) => InvalidArgument::err(format!(
                "block devices are not available: {reason}; use the attachment mode file-system"
            )),
            None => Ok(plain(Backing::Block)),
        };
    }
    let no_image = match &features.loop_devices_unavailable {
        Some(reason) => Some(reason.clone()),
        None if features.file_systems.is_empty() => {
            Some("none of mkfs.ext4, mkfs.xfs and mkfs.btrfs is installed".to_owned())
        }
        None => None,
    };
    let is_image = match (backing(request.parameters)?, choice) {
        (Some(requested), _) => requested == Backing::Image,
        (None, DefaultBacking::Image) => true,
        (None, DefaultBacking::Directory) => false,
        (None, DefaultBacking::Auto) => {
            let is_formatted = |capability: &VolumeCapability| {
                capability.file_system.is_some() || !capability.options.is_empty()
            };
            no_image.is_none()
                && (request.has_size || request.capabilities.iter().any(is_formatted))
        }
    };
    if !is_image {
        return Ok(plain(Backing::Directory));
    }
    if let Some(reason) = no_image {
        return InvalidArgument::err(format!(
            "volumes with a size are not available: {reason}; use the parameter backing = \"directory\""
        ));
    }
    Ok(Content {
        file_system: Some(file_system(request.capabilities, features)?),
        ..plain(Backing::Image)
    })
}

fn file_system(
    capabilities: &[VolumeCapability],
    features: &BlockStorageFeatures,
) -> Result<FileSystem, InvalidArgument> {
    let mut requested = capabilities.iter().filter_map(|capability| capability.file_system);
    let Some(first) = requested.next() else {
        let usual = features.file_systems.first();
        return usual.copied().ok_or_else(|| {
            InvalidArgument("no file system can be created on this machine".to_owned())
        });
    };
    if requested.any(|other| other != first) {
        return InvalidArgument::err("a volume has one file system: use one fs_type");
    }
    if !features.file_systems.contains(&first) {
        let names: Vec<_> = features.file_systems.iter().map(|kind| kind.name()).collect();
        return InvalidArgument::err(format!(
            "fs_type {:?} is not available: its tools are not installed, or the kernel does not support it; available: {}",
            first.name(),
            names.join(" and ")
        ));
    }
    Ok(first)
}

/// Checks the names of all parameters, and the value of `backing`.
pub(crate) fn check_known(parameters: &BTreeMap<String, String>) -> Result<(), InvalidArgument> {
    backing(parameters).map(drop)
}

/// Returns the parameter `backing` after checking all names.
fn backing(parameters: &BTreeMap<String, String>) -> Result<Option<Backing>, InvalidArgument> {
    for key in parameters.keys() {
        if key != "backing" && !MUTABLE_PARAMETERS.contains(&key.as_str()) {
            return InvalidArgument::err(format!(
                "parameter {key:?} is unknown: this plugin has backing, {}",
                MUTABLE_PARAMETERS.join(" and ")
            ));
        }
    }
    match parameters.get("backing").map(String::as_str) {
        None => Ok(None),
        Some("image") => Ok(Some(Backing::Image)),
        Some("directory") => Ok(Some(Backing::Directory)),
        Some(other) => {
            InvalidArgument::err(format!("parameter backing is {other:?}: use image or directory"))
        }
    }
}

const fn describe(backing: Backing) -> &'static str {
    match backing {
        Backing::Directory => "a directory",
        Backing::Image => "an image with a file system",
        Backing::Block => "a block device",
    }
}

/// The names of the mutable parameters.
const MUTABLE_PARAMETERS: [&str; 2] = ["direct_io", "read_ahead_kib"];
const MAX_READ_AHEAD_KIB: u32 = 65_536;

/// Returns the mutable parameters of a new volume. `mutable` overrides `parameters`.
pub(crate) fn merged(
    parameters: &BTreeMap<String, String>,
    mutable: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let named = parameters.iter().filter(|(key, _)| MUTABLE_PARAMETERS.contains(&key.as_str()));
    named.chain(mutable).map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// Converts mutable parameters to settings of the volume's device.
pub(crate) fn tuning(
    mutable: &BTreeMap<String, String>,
    backing: Backing,
) -> Result<DeviceTuning, InvalidArgument> {
    let mut tuning = DeviceTuning::default();
    for (key, value) in mutable {
        let wrong = |may: &str| InvalidArgument(format!("parameter {key} is {value:?}: use {may}"));
        match key.as_str() {
            "direct_io" => {
                tuning.direct_io = Some(value.parse().map_err(|_| wrong("true or false"))?);
            }
            "read_ahead_kib" => {
                let kib = value.parse().ok();
                let kib = kib.filter(|kib| *kib <= MAX_READ_AHEAD_KIB);
                tuning.read_ahead_kib = Some(kib.ok_or_else(|| wrong("0 to 65536"))?);
            }
            _ => {
                return InvalidArgument::err(format!(
                    "mutable parameter {key:?} is unknown: this plugin has {}",
                    MUTABLE_PARAMETERS.join(" and ")
                ));
            }
        }
        if backing == Backing::Directory {
            return InvalidArgument::err(format!(
                "the volume is a directory without a device, so {key} does not apply"
            ));
        }
    }
    Ok(tuning)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volume_capability::AccessMode;

    fn features(no_loop_devices: bool, file_systems: &[FileSystem]) -> BlockStorageFeatures {
        BlockStorageFeatures {
            loop_devices_unavailable: no_loop_devices.then(|| "no loop devices".to_owned()),
            file_systems: file_systems.to_vec(),
            offline_growth_only: vec![],
        }
    }

    fn plain() -> VolumeCapability {
        VolumeCapability::plain(AccessMode::SingleNodeWriter)
    }

    fn block() -> VolumeCapability {
        VolumeCapability { is_block: true, ..plain() }
    }

    fn xfs() -> VolumeCapability {
        VolumeCapability { file_system: Some(FileSystem::Xfs), ..plain() }
    }

    fn chosen(
        capabilities: &[VolumeCapability],
        backing: Option<&str>,
        choice: DefaultBacking,
        features: &BlockStorageFeatures,
    ) -> Result<(Backing, Option<FileSystem>), String> {
        let parameters = backing.map(|value| ("backing".to_owned(), value.to_owned()));
        let parameters = BTreeMap::from_iter(parameters);
        let request =
            ContentRequest { capabilities, parameters: &parameters, has_size: true, source: None };
        let content = choose(&request, choice, features).map_err(|error| error.0)?;
        Ok((content.backing, content.file_system))
    }

    #[test]
    fn a_volume_is_an_image_where_possible_unless_requested_otherwise() {
        use DefaultBacking::{Auto, Directory, Image};
        let all = features(false, &FileSystem::ALL);
        let none = features(true, &FileSystem::ALL);
        let bare = features(false, &[]);
        let directory = Ok((Backing::Directory, None));
        let ext4 = Ok((Backing::Image, Some(FileSystem::Ext4)));
        for (capabilities, backing, choice, features, expected) in [
            (vec![plain()], None, Auto, &all, ext4.clone()),
            (vec![plain()], None, Auto, &none, directory.clone()),
            (vec![plain()], None, Auto, &bare, directory.clone()),
            (vec![plain()], None, Directory, &all, directory.clone()),
            (vec![plain()], Some("image"), Directory, &all, ext4),
            (vec![plain()], Some("directory"), Image, &all, directory),
            (vec![xfs(), plain()], None, Auto, &all, Ok((Backing::Image, Some(FileSystem::Xfs)))),
            (vec![block()], None, Directory, &all, Ok((Backing::Block, None))),
        ] {
            assert_eq!(
                chosen(&capabilities, backing, choice, features),
                expected,
                "{capabilities:?}"
            );
        }
        let ext4_only = features(false, &[FileSystem::Ext4]);
        for (capabilities, backing, choice, features, reason) in [
            (vec![plain()], Some("image"), Auto, &none, "no loop devices"),
            (vec![plain()], None, Image, &bare, "mkfs.ext4"),
            (vec![block()], None, Auto, &none, "no loop devices"),
            (vec![block(), plain()], None, Auto, &all, "either a file system or a block device"),
            (vec![block()], Some("directory"), Auto, &all, "remove the parameter"),
            (vec![xfs()], None, Auto, &ext4_only, "available: ext4"),
            (vec![xfs()], None, Auto, &none, "remove fs_type"),
            (vec![plain()], Some("tape"), Auto, &all, "image or directory"),
        ] {
            let refused = chosen(&capabilities, backing, choice, features).unwrap_err();
            assert!(refused.contains(reason), "{refused}: {reason}");
        }
    }

    #[test]
    fn a_size_that_was_not_requested_is_not_enforced() {
        let all = features(false, &FileSystem::ALL);
        let none = BTreeMap::new();
        for (capabilities, choice, expected) in [
            (vec![plain()], DefaultBacking::Auto, Backing::Directory),
            (vec![plain()], DefaultBacking::Image, Backing::Image),
            (vec![xfs()], DefaultBacking::Auto, Backing::Image),
            (vec![block()], DefaultBacking::Auto, Backing::Block),
        ] {
            let request = ContentRequest {
                capabilities: &capabilities,
                parameters: &none,
                has_size: false,
                source: None,
            };
            assert_eq!(choose(&request, choice, &all).unwrap().backing, expected);
        }
    }

    #[test]
    fn mutable_parameters_are_checked_by_name_and_value() {
        let of = |key: &str, value: &str, backing| {
            let map = [(key.to_owned(), value.to_owned())].into();
            tuning(&map, backing).map_err(|error| error.0)
        };
        let direct = of("direct_io", "false", Backing::Image).unwrap();
        assert_eq!(direct.direct_io, Some(false));
        let ahead = of("read_ahead_kib", "256", Backing::Block).unwrap();
        assert_eq!(ahead.read_ahead_kib, Some(256));
        for (key, value, backing, reason) in [
            ("XXX_FakeKey", "x", Backing::Image, "mutable parameter"),
            ("direct_io", "yes", Backing::Image, "true or false"),
            ("read_ahead_kib", "70000", Backing::Image, "0 to 65536"),
            ("direct_io", "true", Backing::Directory, "without a device"),
        ] {
            let refused = of(key, value, backing).unwrap_err();
            assert!(refused.contains(reason), "{refused}");
        }
    }
}
