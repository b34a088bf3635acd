//! A removal removes the whole directory, and touches nothing outside it.

use std::os::unix::fs::{PermissionsExt as _, symlink};

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use super::*;

use nomad_csi_testing::namespace;

fn data() -> (tempfile::TempDir, DataDir) {
    let directory = tempfile::tempdir().unwrap();
    let volumes = directory.path().join("volumes");
    std::fs::create_dir(&volumes).unwrap();
    let data = DataDir::open(&volumes).unwrap();
    (directory, data)
}

fn is_empty(path: &Path) -> bool {
    std::fs::read_dir(path).unwrap().next().is_none()
}

#[test]
fn a_volume_is_open_to_every_user_and_creating_it_again_keeps_it() {
    let (_directory, data) = data();
    data.create("a").unwrap();
    std::fs::write(data.path_of("a").join("file"), "data").unwrap();
    data.create("a").unwrap();
    let mode = data.path_of("a").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o777);
    assert!(data.path_of("a").join("file").exists());
    assert!(data.exists("a").unwrap() && !data.exists("b").unwrap());
    assert!(data.space().unwrap().total_bytes > 0);
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
fn a_removal_removes_everything_and_follows_no_link() {
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
        // The removal itself uses these names.
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

/// The tree is deeper than a path can be long and than files can be open.
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
fn an_interrupted_removal_can_continue() {
    let (_directory, data) = data();
    data.create("a").unwrap();
    std::fs::write(data.path_of("a").join("file"), "data").unwrap();
    data.stop_removals();
    let stopped = data.remove("a").unwrap_err();
    assert_eq!(stopped.kind(), io::ErrorKind::Interrupted);
    let again = DataDir::open(data.path()).unwrap();
    again.remove("a").unwrap();
    assert!(is_empty(data.path()));
}

/// The last safeguard: something may be mounted after the caller has checked the mount table.
#[test]
fn a_removal_never_goes_into_a_mount() {
    let test = "data::tests::a_removal_never_goes_into_a_mount";
    namespace::run_in_mount_namespace(test, || {
        for below in ["", "x", "x/y/z"] {
            let (_directory, data) = data();
            data.create("a").unwrap();
            let at = data.path_of("a").join(below);
            std::fs::create_dir_all(&at).unwrap();
            std::fs::write(at.join("below"), "").unwrap();
            mount("none", &at, "tmpfs", MountFlags::empty(), None).unwrap();
            std::fs::create_dir(at.join("folder")).unwrap();
            std::fs::write(at.join("folder/precious"), "data").unwrap();

            data.remove("a").unwrap_err();
            let mounted = mounted_below(data.path());
            let precious = mounted.join("folder/precious");
            assert_eq!(std::fs::read(precious).unwrap(), b"data", "{below:?}");

            unmount(&mounted, UnmountFlags::NOFOLLOW).unwrap();
            data.remove("a").unwrap();
            assert!(is_empty(data.path()), "{below:?}");
        }
    });
}

#[test]
fn no_directory_is_opened_that_is_a_mount_point() {
    let test = "data::tests::no_directory_is_opened_that_is_a_mount_point";
    namespace::run_in_mount_namespace(test, || {
        let (_directory, data) = data();
        data.create("a").unwrap();
        let volume = data.open_volume("a").unwrap();
        let at = data.path_of("a").join("mounted");
        std::fs::create_dir(&at).unwrap();
        mount("none", &at, "tmpfs", MountFlags::empty(), None).unwrap();
        let opened = open_below(volume.as_fd(), c"mounted");
        assert_eq!(opened.err(), Some(Errno::XDEV));
        unmount(&at, UnmountFlags::NOFOLLOW).unwrap();
        open_below(volume.as_fd(), c"mounted").unwrap();
    });
}

/// Returns the only mount below `path`. A removal may have moved its directory.
fn mounted_below(path: &Path) -> PathBuf {
    let mounts = namespace::mounts().into_iter().map(PathBuf::from);
    let mut below = mounts.filter(|mount| mount.starts_with(path));
    let mounted = below.next().expect("the file system is still mounted");
    assert_eq!(below.next(), None);
    mounted
}
