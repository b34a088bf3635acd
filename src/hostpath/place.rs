//! Which mounts show a volume: answered from the mount table. Pure.
//!
//! A bind mount of a directory shows that directory's path inside its file system as its root. So
//! the mounts of a volume are those of the same device whose root is the volume's directory or lies
//! below it, wherever they are and whoever made them; and what is mounted *in* the volume has a
//! target below its directory.

use std::path::{Path, PathBuf};

use crate::ports::MountEntry;

/// A place inside a file system: its device, and the path inside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    device: String,
    root: PathBuf,
}

impl Place {
    /// Where `path` (absolute, without symbolic links) is; `None` if the table has no root.
    pub(super) fn of(path: &Path, mounts: &[MountEntry]) -> Option<Self> {
        // Of mounts at one target the last is on top, which `max_by_key` picks.
        let over = mounts
            .iter()
            .filter(|mount| path.starts_with(&mount.target))
            .max_by_key(|mount| mount.target.components().count())?;
        let rest = path.strip_prefix(&over.target).ok()?;
        Some(Self {
            device: over.device.clone(),
            root: over.root.join(rest),
        })
    }

    /// Whether `mount` shows exactly this place.
    pub(super) fn is_shown_by(&self, mount: &MountEntry) -> bool {
        mount.device == self.device && mount.root == self.root
    }

    /// Whether `mount` shows this place or a part of it.
    fn is_partly_shown_by(&self, mount: &MountEntry) -> bool {
        mount.device == self.device && mount.root.starts_with(&self.root)
    }
}

/// The first mount of or in the directory at `path`, wherever it is, if there is any: while there is
/// one, nothing there is removed.
pub fn first_use<'a>(path: &Path, mounts: &'a [MountEntry]) -> Option<&'a MountEntry> {
    let place = Place::of(path, mounts)?;
    mounts
        .iter()
        .find(|mount| place.is_partly_shown_by(mount) || mount.target.starts_with(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::MountFlags;

    fn mount(device: &str, root: &str, target: &str) -> MountEntry {
        MountEntry {
            target: target.into(),
            root: root.into(),
            device: device.to_owned(),
            source: "x".to_owned(),
            flags: MountFlags::default(),
        }
    }

    #[test]
    fn a_bind_mount_shows_the_place_it_was_made_of() {
        let mounts = [
            mount("8:1", "/", "/"),
            mount("8:2", "/@data", "/var/lib"),
            mount("8:2", "/@data/state/volumes/a", "/staging"),
            mount("8:2", "/@data/state/volumes/ab", "/other"),
            mount("8:1", "/@data/state/volumes/a", "/foreign"),
        ];
        let place = Place::of(Path::new("/var/lib/state/volumes/a"), &mounts).unwrap();
        let shown: Vec<_> = mounts
            .iter()
            .filter(|mount| place.is_shown_by(mount))
            .map(|mount| mount.target.to_str().unwrap())
            .collect();
        assert_eq!(shown, ["/staging"]);
    }

    #[test]
    fn what_is_mounted_of_a_volume_or_in_it_is_a_use() {
        let root = mount("8:1", "/", "/");
        let path = Path::new("/state/a");
        let used = |extra: MountEntry| {
            let mounts = [root.clone(), extra];
            first_use(path, &mounts).map(|mount| mount.target.clone())
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
            assert_eq!(
                used(extra.clone()),
                expected.map(PathBuf::from),
                "{extra:?}"
            );
        }
    }

    #[test]
    fn the_topmost_of_stacked_mounts_counts() {
        let mounts = [
            mount("8:1", "/", "/"),
            mount("8:2", "/", "/data"),
            mount("8:3", "/", "/data"),
        ];
        let place = Place::of(Path::new("/data/v"), &mounts).unwrap();
        assert_eq!(place.device, "8:3");
    }
}
