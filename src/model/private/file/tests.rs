use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::os::unix::net::UnixListener;

use super::*;
use crate::private::directory::own_user;
use crate::private::problem::{NotPrivate, Problem};

fn problem(result: io::Result<File>) -> Problem {
    let error = result.unwrap_err();
    NotPrivate::find(&error).expect("not a refusal").problem.clone()
}

type Open = fn(&Path) -> io::Result<File>;

const OPENINGS: [(&str, Open); 3] = [
    ("open_existing", open_existing),
    ("open_or_create", open_or_create),
    ("open_to_read", open_to_read),
];

/// A planted link must neither truncate nor reveal its target.
#[test]
fn a_link_is_not_followed_whoever_planted_it() {
    let base = tempfile::tempdir().unwrap();
    let target = base.path().join("precious");
    std::fs::write(&target, "precious").unwrap();
    let link = base.path().join("agent.lock");
    symlink(&target, &link).unwrap();
    for (name, open) in OPENINGS {
        let owner = own_user();
        assert_eq!(problem(open(&link)), Problem::Link { owner }, "{name}");
    }
    assert!(create_new(&link).is_err());
    assert_eq!(std::fs::read(&target).unwrap(), b"precious");
    let dangling = base.path().join("dangling");
    symlink(base.path().join("new"), &dangling).unwrap();
    assert!(open_or_create(&dangling).is_err() && create_new(&dangling).is_err());
    assert!(!base.path().join("new").exists(), "nothing is created");
}

#[test]
fn a_file_of_another_user_is_refused() {
    if own_user() != 0 {
        return;
    }
    let base = tempfile::tempdir().unwrap();
    let path = base.path().join("file");
    std::fs::write(&path, "").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
    chown(&path, Some(61_234), None).unwrap();
    let expected = Problem::Foreign { owner: 61_234, mode: 0o666, own: 0 };
    for (name, open) in OPENINGS {
        assert_eq!(problem(open(&path)), expected, "{name}");
    }
}

#[test]
fn a_file_of_this_user_becomes_private_when_it_is_opened_for_writing() {
    let base = tempfile::tempdir().unwrap();
    let path = base.path().join("file");
    std::fs::write(&path, "kept").unwrap();
    let set = |mode| {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let mode = || std::fs::metadata(&path).unwrap().mode() & 0o777;
    for open in [open_existing, open_or_create] {
        set(0o664);
        open(&path).unwrap();
        assert_eq!(mode(), 0o600);
    }
    set(0o640);
    open_to_read(&path).unwrap();
    assert_eq!(mode(), 0o640);
    assert_eq!(std::fs::read(&path).unwrap(), b"kept");
}

#[test]
fn what_is_no_regular_file_is_refused_and_does_not_block() {
    let base = tempfile::tempdir().unwrap();
    let pipe = base.path().join("pipe");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, mode).unwrap();
    for (name, open) in OPENINGS {
        let found = problem(open(&pipe));
        assert!(matches!(found, Problem::WrongKind { .. }), "{name}: {found}");
    }
    let socket = base.path().join("socket");
    let _listening = UnixListener::bind(&socket).unwrap();
    assert!(open_existing(&socket).is_err());
    assert!(open_existing(&base.path().join("gone")).is_err());
}

#[test]
fn new_files_are_private() {
    let base = tempfile::tempdir().unwrap();
    let path = base.path().join("new");
    for file in [
        create_new(&path).unwrap(),
        open_or_create(&base.path().join("other")).unwrap(),
        temporary_in(base.path()).unwrap().into_file(),
    ] {
        assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o600);
    }
    assert!(create_new(&path).is_err(), "the file exists");
}
