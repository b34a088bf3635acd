//! Where volumes are staged and published on a node: the only place that spells these paths.
//!
//! ```text
//! ROOT/VOLUME/staging/volume.json                     which volume it is
//! ROOT/VOLUME/staging/mount                           CSI's staging_target_path
//! ROOT/VOLUME/targets/ALLOCATION/ALIAS/volume.json
//! ROOT/VOLUME/targets/ALLOCATION/ALIAS/mount          CSI's target_path
//! ```
//!
//! A volume has one staging path on a node, whatever it is registered as and used for (W48). Every ID is
//! one path segment: characters other than ASCII letters, digits, `-`, `_` and inner dots are escaped,
//! and a long one ends with its hash (W49). Different IDs have different segments, and no path leaves
//! its root. All of one volume is in one directory, which only its call lock changes. The root has two names where the plugin sees another file system than the agent.

use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::hex::hex;
use super::id::{AllocId, ExternalId, PluginId, VolumeAlias};

/// The longest segment; file systems allow 255 bytes.
const MAX_SEGMENT: usize = 128;
/// How much of a long ID remains readable before its hash.
const READABLE: usize = 48;

const STAGING: &str = "staging";
const TARGETS: &str = "targets";
const MOUNT: &str = "mount";
const RECORD: &str = "volume.json";

/// Why a path cannot be the root of a plugin's volumes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MountRootProblem {
    /// The path depends on the working directory.
    #[error("`{}` is not an absolute path", .0.display())]
    Relative(PathBuf),
    /// The path has a `.` or `..`.
    #[error("`{}` has a `.` or `..` segment", .0.display())]
    Dotted(PathBuf),
    /// CSI sends paths as text.
    #[error("`{}` is not valid UTF-8, as CSI requires", .0.display())]
    NotText(PathBuf),
}

/// The directory of a plugin's volumes on one node, by its two names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountRoot {
    host: PathBuf,
    plugin: PathBuf,
}

impl MountRoot {
    /// A root that the agent sees at `host` and the plugin at `plugin` (`stage_publish_base_dir`).
    ///
    /// # Errors
    /// If one of them is not absolute and plain.
    pub fn new(host: &Path, plugin: &Path) -> Result<Self, MountRootProblem> {
        Ok(Self { host: checked(host)?, plugin: checked(plugin)? })
    }

    /// The root of one plugin below `base`. The plugin sees it at `in_plugin`, or at the same path.
    ///
    /// # Errors
    /// If a path is not absolute and plain.
    pub fn of_plugin(
        base: &Path,
        plugin: &PluginId,
        in_plugin: Option<&Path>,
    ) -> Result<Self, MountRootProblem> {
        let host = base.join(segment(plugin.as_str()));
        Self::new(&host, in_plugin.unwrap_or(&host))
    }

    /// The root as the agent sees it.
    pub fn on_host(&self) -> &Path {
        &self.host
    }

    /// The directory of a volume, as the agent sees it.
    pub fn volume(&self, volume: &ExternalId) -> PathBuf {
        self.host.join(segment(volume.as_str()))
    }

    /// The path at which a volume is staged.
    pub fn staging(&self, volume: &ExternalId) -> StagingPath {
        let relative = Path::new(&segment(volume.as_str())).join(STAGING);
        StagingPath(self.place(&relative))
    }

    /// The path at which a volume is published for one allocation.
    pub fn target(&self, volume: &ExternalId, alloc: &AllocId, alias: &VolumeAlias) -> TargetPath {
        let relative = Path::new(&segment(volume.as_str()))
            .join(TARGETS)
            .join(segment(alloc.as_str()))
            .join(segment(alias.as_str()));
        TargetPath(self.place(&relative))
    }

    /// The directory of all targets of a volume, whose own directory the agent sees at `volume`: one
    /// directory for each allocation.
    pub fn targets_in(&self, volume: &Path) -> PathBuf {
        volume.join(TARGETS)
    }

    /// The staging path of the volume whose directory the agent sees at `volume`.
    pub fn staging_in(&self, volume: &Path) -> Option<StagingPath> {
        let relative = volume.strip_prefix(&self.host).ok()?;
        let is_one = relative.components().count() == 1 && is_plain(relative);
        is_one.then(|| StagingPath(self.place(&relative.join(STAGING))))
    }

    /// The target path whose directory the agent sees at `directory`.
    pub fn target_in(&self, directory: &Path) -> Option<TargetPath> {
        let relative = directory.strip_prefix(&self.host).ok()?;
        let is_target = relative.iter().nth(1) == Some(TARGETS.as_ref());
        let is_one = relative.components().count() == 4 && is_plain(relative);
        (is_one && is_target).then(|| TargetPath(self.place(relative)))
    }

    fn place(&self, relative: &Path) -> PathPair {
        debug_assert!(is_plain(relative), "{} leaves its root", relative.display());
        PathPair {
            host: self.host.join(relative).join(MOUNT),
            plugin: self.plugin.join(relative).join(MOUNT),
        }
    }
}

/// One mount point by its two names.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
struct PathPair {
    host: PathBuf,
    plugin: PathBuf,
}

impl PathPair {
    fn directory(&self) -> &Path {
        self.host.parent().unwrap_or(&self.host)
    }
}

/// Where a volume is staged on a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct StagingPath(PathPair);

/// Where a volume is published for one allocation.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TargetPath(PathPair);

macro_rules! paths {
    ($($name:ident)*) => {$(
        impl $name {
            /// The mount point as the agent sees it.
            pub fn on_host(&self) -> &Path {
                &self.0.host
            }

            /// The mount point as the plugin sees it.
            pub fn in_plugin(&self) -> &Path {
                &self.0.plugin
            }

            /// The agent's directory around the mount point.
            pub fn directory(&self) -> &Path {
                self.0.directory()
            }

            /// The file that names the volume.
            pub fn record(&self) -> PathBuf {
                self.directory().join(RECORD)
            }
        }
    )*};
}

paths! { StagingPath TargetPath }

/// Returns the file that names the volume whose staging or target is at this path on the host.
pub fn record_beside(mount_point: &Path) -> PathBuf {
    mount_point.with_file_name(RECORD)
}

fn checked(path: &Path) -> Result<PathBuf, MountRootProblem> {
    if !path.is_absolute() {
        return Err(MountRootProblem::Relative(path.to_owned()));
    }
    let Some(text) = path.to_str() else {
        return Err(MountRootProblem::NotText(path.to_owned()));
    };
    if text.split('/').any(|part| part == "." || part == "..") {
        return Err(MountRootProblem::Dotted(path.to_owned()));
    }
    Ok(path.to_owned())
}

fn is_plain(relative: &Path) -> bool {
    let mut parts = relative.components();
    parts.all(|part| matches!(part, Component::Normal(_)))
}

/// Returns the path segment of an ID. Different IDs have different segments. `%` starts an escaped byte and `~` a
/// hash, so neither occurs otherwise.
pub fn segment(id: &str) -> String {
    if id.is_empty() {
        return "%".to_owned();
    }
    let mut text = String::with_capacity(id.len());
    for (at, byte) in id.bytes().enumerate() {
        let is_plain = byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        if is_plain || byte == b'.' && at > 0 {
            text.push(char::from(byte));
        } else {
            text.push('%');
            text.extend(hex(&[byte]));
        }
    }
    if text.len() <= MAX_SEGMENT {
        return text;
    }
    text.truncate(READABLE);
    text.push('~');
    text.extend(hex(&Sha256::digest(id.as_bytes())));
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn root() -> MountRoot {
        MountRoot::new(Path::new("/host/csi"), Path::new("/local/csi")).unwrap()
    }

    /// W48: the usage is no part of the staging path, so one volume has one.
    #[test]
    fn a_path_has_two_names_and_a_record_beside_it() {
        let staging = root().staging(&"vol-1".into());
        assert_eq!(staging.on_host(), Path::new("/host/csi/vol-1/staging/mount"));
        assert_eq!(staging.in_plugin(), Path::new("/local/csi/vol-1/staging/mount"));
        assert_eq!(staging.record(), Path::new("/host/csi/vol-1/staging/volume.json"));
        let target = root().target(&"vol-1".into(), &"a1".into(), &"data".into());
        assert_eq!(target.on_host(), Path::new("/host/csi/vol-1/targets/a1/data/mount"));
        assert_eq!(target.in_plugin(), Path::new("/local/csi/vol-1/targets/a1/data/mount"));
        assert_eq!(root().staging_in(&root().volume(&"vol-1".into())), Some(staging));
        assert_eq!(root().target_in(target.directory()), Some(target));
    }

    /// W49: no ID leaves the root, and no two IDs share a path.
    #[test]
    fn every_id_is_one_segment_of_its_own() {
        let long = "x".repeat(4000);
        let longer = "x".repeat(4001);
        let mixed = format!("{}/a", "%".repeat(200));
        let ids = [
            "",
            "%",
            "%25",
            "%2e",
            ".",
            "..",
            "...",
            "a",
            "A",
            "a.b",
            ".a",
            "a/b",
            "a%2fb",
            "/",
            "//",
            "../../etc",
            "a\0b",
            "a\nb",
            "ä",
            "日本",
            "~",
            "a~b",
            &long,
            &longer,
            &mixed,
        ];
        let mut seen = BTreeSet::new();
        for id in ids {
            let staging = root().staging(&id.into());
            let relative = staging.on_host().strip_prefix("/host/csi").unwrap();
            assert_eq!(relative.components().count(), 3, "{id:?}: {staging:?}");
            assert!(is_plain(relative), "{id:?}: {staging:?}");
            let name = relative.iter().next().unwrap();
            assert!(name.len() <= MAX_SEGMENT, "{id:?}: {staging:?}");
            assert!(!name.to_str().unwrap().starts_with('.'), "{id:?}");
            assert!(seen.insert(name.to_owned()), "{id:?}: {staging:?}");
            let target = root().target(&id.into(), &id.into(), &id.into());
            assert!(target.on_host().starts_with(root().volume(&id.into())));
            assert_eq!(target.on_host().components().count(), 8, "{id:?}");
        }
    }

    #[test]
    fn a_root_is_absolute_and_plain() {
        let host = Path::new("/host");
        for (path, wrong) in [
            ("relative", MountRootProblem::Relative("relative".into())),
            ("/a/../b", MountRootProblem::Dotted("/a/../b".into())),
            ("/a/./b", MountRootProblem::Dotted("/a/./b".into())),
        ] {
            assert_eq!(MountRoot::new(Path::new(path), host), Err(wrong.clone()));
            assert_eq!(MountRoot::new(host, Path::new(path)), Err(wrong));
        }
    }

    #[test]
    fn only_the_directory_of_a_path_is_read_back() {
        for directory in ["/host/csi", "/host/csi/a/b", "/elsewhere/a"] {
            assert_eq!(root().staging_in(Path::new(directory)), None, "{directory}");
        }
        for directory in
            ["/host/csi/v/targets/a", "/host/csi/v/targets/a/b/c", "/host/csi/v/staging/a/b"]
        {
            assert_eq!(root().target_in(Path::new(directory)), None, "{directory}");
        }
    }
}
