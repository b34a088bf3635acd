//! Compares what was mounted for a volume with what is there now. Pure.
//!
//! Another mount that certainly shows the same files is as good as the one that is recorded. A record of an earlier agent
//! says nothing: what is mounted then counts, and a bare directory never does.

use std::path::Path;

use nomad_csi_ports::{MountEntry, SourceIdentity};

/// Returns why a recorded source is lost, as far as the mount table tells; `None` if it is there.
pub(super) fn loss_in_table(
    recorded: &SourceIdentity,
    mount: &Path,
    found: Option<&MountEntry>,
) -> Option<String> {
    let expected = recorded.mount.as_ref()?;
    let reason = match found.map(MountEntry::identity) {
        None => NOTHING,
        Some(found) if expected.is(&found) || expected.shows_same_files(&found) => return None,
        Some(_) => ANOTHER,
    };
    Some(lost(mount, reason))
}

const NOTHING: &str = "nothing is mounted there";
const ANOTHER: &str = "another mount is there";

/// Returns the reason for people.
pub(super) fn lost(mount: &Path, reason: &str) -> String {
    let mount = mount.display();
    format!("the volume is no longer mounted at `{mount}`: {reason}")
}

/// How what is recorded compares with what is there.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Comparison<'a> {
    /// The same.
    Same(&'a SourceIdentity),
    /// Another mount of the same files, or the first that is recorded.
    Replaced(&'a SourceIdentity),
    /// Not the volume, for this reason.
    Lost(&'static str),
}

/// Compares a record, and what it says, with what is there.
pub(super) fn compare<'a>(
    recorded: Option<Option<&SourceIdentity>>,
    found: Option<&'a SourceIdentity>,
) -> Comparison<'a> {
    let Some(found) = found.filter(|found| found.is_volume()) else {
        return Comparison::Lost(NOTHING);
    };
    match recorded {
        None => Comparison::Lost("no file beside it names the volume"),
        Some(None) => Comparison::Replaced(found),
        Some(Some(recorded)) if recorded.is(found) => Comparison::Same(found),
        Some(Some(recorded)) => match (&recorded.mount, &found.mount) {
            (Some(before), Some(now)) if before.shows_same_files(now) => {
                Comparison::Replaced(found)
            }
            _ => Comparison::Lost(ANOTHER),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nomad_csi_ports::MountIdentity;

    fn mount(id: u64, unique_id: Option<u64>, device: &str, source: &str) -> SourceIdentity {
        SourceIdentity {
            mount: Some(MountIdentity {
                id,
                unique_id,
                device: device.to_owned(),
                root: "/".into(),
                source: source.to_owned(),
                boot_id: None,
            }),
            device_node: None,
        }
    }

    fn device(number: &str) -> SourceIdentity {
        SourceIdentity { mount: None, device_node: Some(number.to_owned()) }
    }

    /// A number that the kernel gave again does not make another file system the recorded one.
    #[test]
    fn only_the_recorded_mount_or_one_of_the_same_files_is_the_volume() {
        let disk = mount(5, Some(50), "8:1", "/dev/sda1");
        let net = mount(5, Some(50), "0:40", "fuse");
        let bare = SourceIdentity::default();
        for (recorded, found, expected) in [
            (&disk, &disk, "same"),
            (&disk, &mount(5, None, "8:1", "/dev/sda1"), "same"),
            (&disk, &mount(6, Some(60), "8:1", "/dev/sda1"), "replaced"),
            (&disk, &mount(5, Some(50), "8:2", "/dev/sda2"), "lost"),
            (&disk, &mount(9, Some(90), "0:40", "tmpfs"), "lost"),
            (&disk, &bare, "lost"),
            (&net, &net, "same"),
            (&net, &mount(5, Some(51), "0:40", "fuse"), "lost"),
            (&net, &mount(6, None, "0:40", "fuse"), "lost"),
            (&device("8:1"), &device("8:1"), "same"),
            (&device("8:1"), &device("8:2"), "lost"),
            (&device("8:1"), &bare, "lost"),
        ] {
            let compared = match compare(Some(Some(recorded)), Some(found)) {
                Comparison::Same(_) => "same",
                Comparison::Replaced(_) => "replaced",
                Comparison::Lost(_) => "lost",
            };
            assert_eq!(compared, expected, "{recorded:?} {found:?}");
        }
    }

    #[test]
    fn without_a_recorded_source_only_a_volume_counts() {
        let disk = mount(5, None, "8:1", "/dev/sda1");
        let replaced = Comparison::Replaced(&disk);
        assert_eq!(compare(Some(None), Some(&disk)), replaced);
        for (recorded, found) in [
            (Some(None), Some(&SourceIdentity::default())),
            (Some(None), None),
            (None, Some(&disk)),
            (Some(Some(&disk)), None),
        ] {
            let compared = compare(recorded, found);
            assert!(matches!(compared, Comparison::Lost(_)), "{compared:?}");
        }
    }
}
