//! What can be said of a volume beyond CSI's own fields, and what becomes of it. Pure.
//!
//! Parameters: `backing` (`image` or `directory`). Mutable parameters: `direct_io` (`true` or
//! `false`) and `read_ahead_kib` (0 to 65536), of volumes that are files. A name or value that is
//! not known is refused: passing it over would hide a mistake.

use std::collections::BTreeMap;

use super::catalog::{Backing, Content};
use super::error::Invalid;
use super::usage::Usage;
use crate::ports::{FileSystem, Offers, Tuning};

/// What volumes with a file system are, if nothing is said of one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum BackingChoice {
    /// Images where loop devices can be had and a size or a file system is asked for, directories
    /// otherwise: a size that nobody asked for is not enforced.
    #[default]
    Auto,
    /// Images, with an enforced size.
    Image,
    /// Directories, which promise no size.
    Directory,
}

impl BackingChoice {
    /// The one of that name.
    pub(super) fn parse(name: &str) -> Option<Self> {
        match name {
            "auto" => Some(Self::Auto),
            "image" => Some(Self::Image),
            "directory" => Some(Self::Directory),
            _ => None,
        }
    }
}

/// What is said of a new volume's data.
pub(super) struct Said<'a> {
    pub(super) usages: &'a [Usage],
    pub(super) parameters: &'a BTreeMap<String, String>,
    /// Whether a size is asked for.
    pub(super) has_size: bool,
    /// What it is to begin with.
    pub(super) source: Option<Content>,
}

/// What a new volume's data is to be; its size is decided elsewhere.
pub(super) fn choose(
    said: &Said<'_>,
    choice: BackingChoice,
    offers: &Offers,
) -> Result<Content, Invalid> {
    let content = match said.source {
        Some(source) => source,
        None => begin(said, choice, offers)?,
    };
    let asked = backing(said.parameters)?;
    if let Some(asked) = asked.filter(|asked| *asked != content.backing) {
        return Invalid::because(match (content.backing, asked) {
            (Backing::Block, _) => {
                "a block device is always backed by a file: leave out the parameter backing"
                    .to_owned()
            }
            (_, asked) => format!(
                "what it is to begin with is {}: a copy of it cannot be {}",
                name(content.backing),
                name(asked)
            ),
        });
    }
    match said.usages.iter().find_map(|usage| usage.misfit(&content)) {
        Some(misfit) => Invalid::because(misfit),
        None => Ok(content),
    }
}

/// An empty volume.
fn begin(said: &Said<'_>, choice: BackingChoice, offers: &Offers) -> Result<Content, Invalid> {
    let plain = |backing| Content {
        backing,
        ..Content::default()
    };
    let blocks = said.usages.iter().filter(|usage| usage.is_block).count();
    if blocks > 0 {
        if blocks < said.usages.len() {
            return Invalid::because(
                "a volume is a file system or a block device, not both: ask for one attachment mode",
            );
        }
        return match &offers.no_loop_devices {
            Some(reason) => Invalid::because(format!(
                "block devices cannot be had here: {reason}; use the attachment mode file-system"
            )),
            None => Ok(plain(Backing::Block)),
        };
    }
    let no_image = match &offers.no_loop_devices {
        Some(reason) => Some(reason.clone()),
        None if offers.file_systems.is_empty() => {
            Some("none of mkfs.ext4, mkfs.xfs and mkfs.btrfs is installed".to_owned())
        }
        None => None,
    };
    let is_image = match (backing(said.parameters)?, choice) {
        (Some(asked), _) => asked == Backing::Image,
        (None, BackingChoice::Image) => true,
        (None, BackingChoice::Directory) => false,
        (None, BackingChoice::Auto) => {
            let is_formatted =
                |usage: &Usage| usage.file_system.is_some() || !usage.options.is_empty();
            no_image.is_none() && (said.has_size || said.usages.iter().any(is_formatted))
        }
    };
    if !is_image {
        return Ok(plain(Backing::Directory));
    }
    if let Some(reason) = no_image {
        return Invalid::because(format!(
            "volumes with a size cannot be had here: {reason}; use the parameter backing = \"directory\""
        ));
    }
    Ok(Content {
        file_system: Some(file_system(said.usages, offers)?),
        ..plain(Backing::Image)
    })
}

fn file_system(usages: &[Usage], offers: &Offers) -> Result<FileSystem, Invalid> {
    let mut asked = usages.iter().filter_map(|usage| usage.file_system);
    let Some(first) = asked.next() else {
        let usual = offers.file_systems.first();
        return usual
            .copied()
            .ok_or_else(|| Invalid("no file system can be made here".to_owned()));
    };
    if asked.any(|other| other != first) {
        return Invalid::because("a volume has one file system: ask for one fs_type");
    }
    if !offers.file_systems.contains(&first) {
        let names: Vec<_> = offers.file_systems.iter().map(|kind| kind.name()).collect();
        return Invalid::because(format!(
            "fs_type {:?} cannot be had here: its programs are not installed, or the kernel does not know it; there is {}",
            first.name(),
            names.join(" and ")
        ));
    }
    Ok(first)
}

/// Whether all names are known, and the value of `backing`.
pub(super) fn known(parameters: &BTreeMap<String, String>) -> Result<(), Invalid> {
    backing(parameters).map(drop)
}

/// The parameter `backing`, after all names were looked at.
fn backing(parameters: &BTreeMap<String, String>) -> Result<Option<Backing>, Invalid> {
    for key in parameters.keys() {
        if key != "backing" && !MUTABLE.contains(&key.as_str()) {
            return Invalid::because(format!(
                "this plugin has no parameter {key:?}: it knows backing, {}",
                MUTABLE.join(" and ")
            ));
        }
    }
    match parameters.get("backing").map(String::as_str) {
        None => Ok(None),
        Some("image") => Ok(Some(Backing::Image)),
        Some("directory") => Ok(Some(Backing::Directory)),
        Some(other) => Invalid::because(format!(
            "the parameter backing is {other:?}; it can be image or directory"
        )),
    }
}

const fn name(backing: Backing) -> &'static str {
    match backing {
        Backing::Directory => "a directory",
        Backing::Image => "an image with a file system",
        Backing::Block => "a block device",
    }
}

/// The names of parameters that can be changed.
const MUTABLE: [&str; 2] = ["direct_io", "read_ahead_kib"];
const MOST_READ_AHEAD_KIB: u32 = 65_536;

/// The mutable parameters of a creation: what `parameters` say, overruled by `mutable`.
pub(super) fn merged(
    parameters: &BTreeMap<String, String>,
    mutable: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let named = parameters
        .iter()
        .filter(|(key, _)| MUTABLE.contains(&key.as_str()));
    named
        .chain(mutable)
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

/// What mutable parameters mean for a volume's device.
pub(super) fn tuning(
    mutable: &BTreeMap<String, String>,
    backing: Backing,
) -> Result<Tuning, Invalid> {
    let mut tuning = Tuning::default();
    for (key, value) in mutable {
        let wrong =
            |may: &str| Invalid(format!("the parameter {key} is {value:?}; it can be {may}"));
        match key.as_str() {
            "direct_io" => {
                tuning.direct_io = Some(value.parse().map_err(|_| wrong("true or false"))?);
            }
            "read_ahead_kib" => {
                let kib = value.parse().ok();
                let kib = kib.filter(|kib| *kib <= MOST_READ_AHEAD_KIB);
                tuning.read_ahead_kib = Some(kib.ok_or_else(|| wrong("0 to 65536"))?);
            }
            _ => {
                return Invalid::because(format!(
                    "this plugin has no mutable parameter {key:?}: it knows {}",
                    MUTABLE.join(" and ")
                ));
            }
        }
        if backing == Backing::Directory {
            return Invalid::because(format!(
                "the volume is a directory and has no device that {key} could be for"
            ));
        }
    }
    Ok(tuning)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hostpath::usage::AccessMode;

    fn offers(no_loop_devices: bool, file_systems: &[FileSystem]) -> Offers {
        Offers {
            no_loop_devices: no_loop_devices.then(|| "there are none".to_owned()),
            file_systems: file_systems.to_vec(),
            grow_unmounted: vec![],
        }
    }

    fn usage() -> Usage {
        Usage::plain(AccessMode::SingleNodeWriter)
    }

    fn block() -> Usage {
        Usage {
            is_block: true,
            ..usage()
        }
    }

    fn xfs() -> Usage {
        Usage {
            file_system: Some(FileSystem::Xfs),
            ..usage()
        }
    }

    fn chosen(
        usages: &[Usage],
        backing: Option<&str>,
        choice: BackingChoice,
        offers: &Offers,
    ) -> Result<(Backing, Option<FileSystem>), String> {
        let parameters = backing.map(|value| ("backing".to_owned(), value.to_owned()));
        let parameters = BTreeMap::from_iter(parameters);
        let said = Said {
            usages,
            parameters: &parameters,
            has_size: true,
            source: None,
        };
        let content = choose(&said, choice, offers).map_err(|error| error.0)?;
        Ok((content.backing, content.file_system))
    }

    #[test]
    fn a_volume_is_an_image_where_it_can_be_and_nobody_says_otherwise() {
        use BackingChoice::{Auto, Directory, Image};
        let all = offers(false, &FileSystem::ALL);
        let none = offers(true, &FileSystem::ALL);
        let bare = offers(false, &[]);
        let directory = Ok((Backing::Directory, None));
        let ext4 = Ok((Backing::Image, Some(FileSystem::Ext4)));
        for (usages, backing, choice, offers, expected) in [
            (vec![usage()], None, Auto, &all, ext4.clone()),
            (vec![usage()], None, Auto, &none, directory.clone()),
            (vec![usage()], None, Auto, &bare, directory.clone()),
            (vec![usage()], None, Directory, &all, directory.clone()),
            (vec![usage()], Some("image"), Directory, &all, ext4),
            (vec![usage()], Some("directory"), Image, &all, directory),
            (
                vec![xfs(), usage()],
                None,
                Auto,
                &all,
                Ok((Backing::Image, Some(FileSystem::Xfs))),
            ),
            (
                vec![block()],
                None,
                Directory,
                &all,
                Ok((Backing::Block, None)),
            ),
        ] {
            assert_eq!(
                chosen(&usages, backing, choice, offers),
                expected,
                "{usages:?}"
            );
        }
        let ext4_only = offers(false, &[FileSystem::Ext4]);
        for (usages, backing, choice, offers, said) in [
            (vec![usage()], Some("image"), Auto, &none, "there are none"),
            (vec![usage()], None, Image, &bare, "mkfs.ext4"),
            (vec![block()], None, Auto, &none, "there are none"),
            (vec![block(), usage()], None, Auto, &all, "not both"),
            (
                vec![block()],
                Some("directory"),
                Auto,
                &all,
                "leave out the parameter",
            ),
            (vec![xfs()], None, Auto, &ext4_only, "there is ext4"),
            (vec![xfs()], None, Auto, &none, "leave fs_type out"),
            (
                vec![usage()],
                Some("tape"),
                Auto,
                &all,
                "image or directory",
            ),
        ] {
            let refused = chosen(&usages, backing, choice, offers).unwrap_err();
            assert!(refused.contains(said), "{refused}: {said}");
        }
    }

    #[test]
    fn a_size_that_nobody_asked_for_is_not_enforced() {
        let all = offers(false, &FileSystem::ALL);
        let none = BTreeMap::new();
        for (usages, choice, expected) in [
            (vec![usage()], BackingChoice::Auto, Backing::Directory),
            (vec![usage()], BackingChoice::Image, Backing::Image),
            (vec![xfs()], BackingChoice::Auto, Backing::Image),
            (vec![block()], BackingChoice::Auto, Backing::Block),
        ] {
            let said = Said {
                usages: &usages,
                parameters: &none,
                has_size: false,
                source: None,
            };
            assert_eq!(choose(&said, choice, &all).unwrap().backing, expected);
        }
    }

    #[test]
    fn mutable_parameters_are_known_by_name_and_value() {
        let of = |key: &str, value: &str, backing| {
            let map = [(key.to_owned(), value.to_owned())].into();
            tuning(&map, backing).map_err(|error| error.0)
        };
        let direct = of("direct_io", "false", Backing::Image).unwrap();
        assert_eq!(direct.direct_io, Some(false));
        let ahead = of("read_ahead_kib", "256", Backing::Block).unwrap();
        assert_eq!(ahead.read_ahead_kib, Some(256));
        for (key, value, backing, said) in [
            ("XXX_FakeKey", "x", Backing::Image, "no mutable parameter"),
            ("direct_io", "yes", Backing::Image, "true or false"),
            ("read_ahead_kib", "70000", Backing::Image, "0 to 65536"),
            ("direct_io", "true", Backing::Directory, "no device"),
        ] {
            let refused = of(key, value, backing).unwrap_err();
            assert!(refused.contains(said), "{refused}");
        }
    }
}
