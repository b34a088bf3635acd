//! Finds the mounts of a volume in the mount table. Pure.
//!
//! The root of a bind mount is the path of the bound directory inside its file system. So the
//! mounts of a volume have the same device and a root at or below the volume's directory. Mounts
//! inside the volume have a target below that directory.

use std::path::{Path, PathBuf};

use nomad_csi_ports::MountEntry;

/// A path inside a file system, with the file system's device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MountSource {
    device: String,
    root: PathBuf,
}

impl MountSource {
    /// Locates `path` (absolute, without symbolic links); `None` if the table has no root mount.
    pub(crate) fn of(path: &Path, mounts: &[MountEntry]) -> Option<Self> {
        // Of several mounts at one target the last is on top, which `max_by_key` returns.
        let over = mounts
            .iter()
            .filter(|mount| path.starts_with(&mount.target))
            .max_by_key(|mount| mount.target.components().count())?;
        let rest = path.strip_prefix(&over.target).ok()?;
        Some(Self { device: over.device.clone(), root: over.root.join(rest) })
    }

    /// Returns whether `mount` shows exactly this path.
    pub(crate) fn is_exposed_by(&self, mount: &MountEntry) -> bool {
        mount.device == self.device && mount.root == self.root
    }

    /// Returns whether `mount` shows this path or a part of it.
    fn is_partly_exposed_by(&self, mount: &MountEntry) -> bool {
        mount.device == self.device && mount.root.starts_with(&self.root)
    }
}

/// Returns the first mount of, or inside, the directory at `path`. While one exists, nothing there
/// may be removed.
pub fn first_mount_using<'a>(path: &Path, mounts: &'a [MountEntry]) -> Option<&'a MountEntry> {
    let source = MountSource::of(path, mounts)?;
    mounts.iter().find(|mount| source.is_partly_exposed_by(mount) || mount.target.starts_with(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nomad_csi_ports::MountFlags;

    fn mount(device: &str, root: &str, target: &str) -> MountEntry {
        MountEntry {
            id: 1,
            target: target.into(),
            root: root.into(),
            device: device.to_owned(),
            source: "x".to_owned(),
            flags: MountFlags::default(),
        }
    }

    #[test]
    fn a_bind_mount_shows_its_source() {
        let mounts = [
            mount("8:1", "/", "/"),
            mount("8:2", "/@data", "/var/lib"),
            mount("8:2", "/@data/state/volumes/a", "/staging"),
            mount("8:2", "/@data/state/volumes/ab", "/other"),
            mount("8:1", "/@data/state/volumes/a", "/foreign"),
        ];
        let source = MountSource::of(Path::new("/var/lib/state/volumes/a"), &mounts).unwrap();
        let exposing: Vec<_> = mounts
            .iter()
            .filter(|mount| source.is_exposed_by(mount))
            .map(|mount| mount.target.to_str().unwrap())
            .collect();
        assert_eq!(exposing, ["/staging"]);
    }

    #[test]
    fn a_mount_of_a_volume_or_inside_it_is_a_use() {
        let root = mount("8:1", "/", "/");
        let path = Path::new("/state/a");
        let used = |extra: MountEntry| {
            let mounts = [root.clone(), extra];
            first_mount_using(path, &mounts).map(|mount| mount.target.clone())
        };
        for (extra, expected) in [
            (mount("8:1", "/state/a", "/t"), Some("/t")),
            (mount("8:1", "/state/a/sub", "/t"), Some("/t")),
            (mount("9:9", "/", "/state/a/in"), Some("/state/a/in")),
            (mount("9:9", "/", "/state/a"), Some("/state/a")),
            (mount("8:1", "/state/ab", "/t"), None),
            (mount("8:1", "/state", "/t"), None),
            (mount("9:9", "/state/a", "/t"), None),
        ] {
            assert_eq!(used(extra.clone()), expected.map(PathBuf::from), "{extra:?}");
        }
    }

    #[test]
    fn the_topmost_of_stacked_mounts_counts() {
        let mounts =
            [mount("8:1", "/", "/"), mount("8:2", "/", "/data"), mount("8:3", "/", "/data")];
        let source = MountSource::of(Path::new("/data/v"), &mounts).unwrap();
        assert_eq!(source.device, "8:3");
    }
}
