//! Directories are removed whole, whatever is in them, and nothing outside them is touched.

use std::os::unix::fs::{PermissionsExt as _, symlink};

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use super::*;

#[path = "../../../tests/support/namespace.rs"]
#[expect(
    dead_code,
    clippy::print_stderr,
    reason = "it is shared with the tests of real processes, and says loudly what it skips"
)]
mod namespace;

fn data() -> (tempfile::TempDir, Data) {
    let directory = tempfile::tempdir().unwrap();
    let volumes = directory.path().join("volumes");
    std::fs::create_dir(&volumes).unwrap();
    let data = Data::open(&volumes).unwrap();
    (directory, data)
}

fn is_empty(path: &Path) -> bool {
    std::fs::read_dir(path).unwrap().next().is_none()
}

#[test]
fn a_volume_is_open_to_every_user_and_making_it_again_keeps_it() {
    let (_directory, data) = data();
    data.create("a").unwrap();
    std::fs::write(data.path_of("a").join("file"), "data").unwrap();
    data.create("a").unwrap();
    let mode = data.path_of("a").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o777);
    assert!(data.path_of("a").join("file").exists());
    assert!(data.exists("a").unwrap() && !data.exists("b").unwrap());
    assert!(data.room().unwrap().total_bytes > 0);
}

#[test]
fn only_an_empty_directory_is_undone() {
    let (_directory, data) = data();
    data.create("a").unwrap();
    std::fs::write(data.path_of("a").join("file"), "data").unwrap();
    assert!(data.remove_empty("a").is_err());
    std::fs::remove_file(data.path_of("a").join("file")).unwrap();
    data.remove_empty("a").unwrap();
    data.remove_empty("a").unwrap();
    assert!(is_empty(data.path()));
}

#[test]
fn a_removal_takes_everything_and_follows_no_link() {
    let (directory, data) = data();
    let outside = directory.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("precious"), "data").unwrap();
    data.create("a").unwrap();
    data.create("b").unwrap();
    let volume = data.path_of("a");
    for below in ["", "x", "x/y", "x/y/z"] {
        let folder = volume.join(below);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("file"), "data").unwrap();
        symlink(&outside, folder.join("link")).unwrap();
        symlink("/nowhere", folder.join("dangling")).unwrap();
        // Names that the removal itself uses.
        std::fs::create_dir_all(folder.join(".removed-0/.removed-1")).unwrap();
    }
    for number in 0..500 {
        std::fs::write(volume.join(format!("x/{number}")), "").unwrap();
    }
    std::os::unix::net::UnixListener::bind(volume.join("socket")).unwrap();
    let closed = std::fs::Permissions::from_mode(0o000);
    std::fs::set_permissions(volume.join("x/y"), closed.clone()).unwrap();
    std::fs::set_permissions(&volume, closed).unwrap();
    data.remove("a").unwrap();
    data.remove("a").unwrap();
    assert!(!volume.exists());
    assert!(data.path_of("b").exists());
    assert_eq!(std::fs::read(outside.join("precious")).unwrap(), b"data");
}

/// Deeper than a path may be long, and than files may be open at once.
#[test]
fn a_tree_of_any_depth_is_removed() {
    let (_directory, data) = data();
    data.create("a").unwrap();
    let mut at = data.open_volume("a").unwrap();
    for _ in 0..1100 {
        rustix::fs::mkdirat(&at, "directory", Mode::RWXU).unwrap();
        at = open_below(at.as_fd(), c"directory").unwrap();
    }
    data.remove("a").unwrap();
    assert!(is_empty(data.path()));
}

#[test]
fn a_removal_that_was_stopped_goes_on() {
    let (_directory, data) = data();
    data.create("a").unwrap();
    std::fs::write(data.path_of("a").join("file"), "data").unwrap();
    data.stop_removals();
    let stopped = data.remove("a").unwrap_err();
    assert_eq!(stopped.kind(), io::ErrorKind::Interrupted);
    let again = Data::open(data.path()).unwrap();
    again.remove("a").unwrap();
    assert!(is_empty(data.path()));
}

/// The guard itself: its caller looks at the mount table before, and a mount may come in between.
#[test]
fn a_removal_never_goes_into_a_mount() {
    let test = "hostpath::data::tests::a_removal_never_goes_into_a_mount";
    namespace::inside(test, || {
        for place in ["", "x", "x/y/z"] {
            let (_directory, data) = data();
            data.create("a").unwrap();
            let at = data.path_of("a").join(place);
            std::fs::create_dir_all(&at).unwrap();
            std::fs::write(at.join("below"), "").unwrap();
            mount("none", &at, "tmpfs", MountFlags::empty(), None).unwrap();
            std::fs::create_dir(at.join("folder")).unwrap();
            std::fs::write(at.join("folder/precious"), "data").unwrap();

            data.remove("a").unwrap_err();
            let mounted = mounted_below(data.path());
            let precious = mounted.join("folder/precious");
            assert_eq!(std::fs::read(precious).unwrap(), b"data", "{place:?}");

            unmount(&mounted, UnmountFlags::NOFOLLOW).unwrap();
            data.remove("a").unwrap();
            assert!(is_empty(data.path()), "{place:?}");
        }
    });
}

/// Both ways of opening: with `openat2`, and as it is done on a kernel that has none.
#[test]
fn no_directory_is_opened_that_is_a_mount_point() {
    let test = "hostpath::data::tests::no_directory_is_opened_that_is_a_mount_point";
    namespace::inside(test, || {
        let (_directory, data) = data();
        data.create("a").unwrap();
        let volume = data.open_volume("a").unwrap();
        let at = data.path_of("a").join("mounted");
        std::fs::create_dir(&at).unwrap();
        mount("none", &at, "tmpfs", MountFlags::empty(), None).unwrap();
        for open in [open_below, open_below_by_device] {
            assert_eq!(open(volume.as_fd(), c"mounted").err(), Some(Errno::XDEV));
        }
        unmount(&at, UnmountFlags::NOFOLLOW).unwrap();
        for open in [open_below, open_below_by_device] {
            open(volume.as_fd(), c"mounted").unwrap();
        }
    });
}

/// The one mount below: a removal may have moved the directory that it lies in.
fn mounted_below(path: &Path) -> PathBuf {
    let mounts = namespace::mounts().into_iter().map(PathBuf::from);
    let mut below = mounts.filter(|mount| mount.starts_with(path));
    let mounted = below.next().expect("it is still mounted");
    assert_eq!(below.next(), None);
    mounted
}
