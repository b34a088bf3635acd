use std::os::unix::fs::{chown, symlink};

use super::*;

/// A user other than the one who runs the tests.
const STRANGER: u32 = 61_234;

fn problem(result: io::Result<impl std::fmt::Debug>) -> Problem {
    let error = result.unwrap_err();
    NotPrivate::find(&error).expect("not a refusal").problem.clone()
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Only root can give files away; the other tests still run for everybody.
fn is_root() -> bool {
    own_user() == 0
}

#[test]
fn a_new_directory_and_its_parents_are_private() {
    let base = tempfile::tempdir().unwrap();
    let path = base.path().join("a/b/c");
    assert_eq!(create_directory(&path).unwrap(), path.canonicalize().unwrap());
    for part in ["a", "a/b", "a/b/c"] {
        assert_eq!(mode(&base.path().join(part)), 0o700, "{part}");
    }
    create_directory(&path).unwrap();
    create_subdirectory(&path.join("d")).unwrap();
    create_subdirectory(&path.join("d")).unwrap();
    assert_eq!(mode(&path.join("d")), 0o700);
}

#[test]
fn a_directory_that_others_can_write_to_is_refused_and_one_that_they_can_read_is_not() {
    let base = tempfile::tempdir().unwrap();
    let owner = own_user();
    for (bits, is_allowed) in [
        (0o700, true),
        (0o755, true),
        (0o750, true),
        (0o770, false),
        (0o702, false),
        (0o720, false),
        (0o1777, false),
    ] {
        let path = base.path().join(format!("{bits:o}"));
        std::fs::create_dir(&path).unwrap();
        set_mode(&path, bits);
        let (direct, inside) = (create_directory(&path), create_subdirectory(&path));
        if is_allowed {
            assert!(direct.is_ok() && inside.is_ok(), "{bits:o}");
            assert_eq!(mode(&path), bits, "the mode stays");
        } else {
            let expected = Problem::Writable { owner, mode: bits };
            assert_eq!(problem(direct), expected);
            assert_eq!(problem(inside), expected);
        }
    }
}

#[test]
fn a_directory_below_one_that_everybody_can_write_to_is_used() {
    let base = tempfile::tempdir().unwrap();
    set_mode(base.path(), 0o1777);
    assert!(create_directory(&base.path().join("data")).is_ok());
}

#[test]
fn a_directory_of_another_user_is_refused_also_for_root() {
    if !is_root() {
        return;
    }
    let base = tempfile::tempdir().unwrap();
    let path = base.path().join("theirs");
    std::fs::create_dir(&path).unwrap();
    set_mode(&path, 0o755);
    chown(&path, Some(STRANGER), None).unwrap();
    let expected = Problem::Foreign { owner: STRANGER, mode: 0o755, own: 0 };
    assert_eq!(problem(create_directory(&path)), expected);
    assert_eq!(problem(create_subdirectory(&path)), expected);
}

#[test]
fn a_link_inside_is_refused_and_one_to_the_directory_only_of_a_stranger() {
    let base = tempfile::tempdir().unwrap();
    let real = base.path().join("real");
    std::fs::create_dir(&real).unwrap();
    set_mode(&real, 0o700);
    let link = base.path().join("link");
    symlink(&real, &link).unwrap();
    assert_eq!(create_directory(&link).unwrap(), real.canonicalize().unwrap());
    let owner = own_user();
    assert_eq!(problem(create_subdirectory(&link)), Problem::Link { owner });
    if is_root() {
        std::os::unix::fs::lchown(&link, Some(STRANGER), None).unwrap();
        let owner = STRANGER;
        assert_eq!(problem(create_directory(&link)), Problem::Link { owner });
    }
}

#[test]
fn a_dangling_link_and_a_file_are_no_directories() {
    let base = tempfile::tempdir().unwrap();
    let link = base.path().join("dangling");
    symlink(base.path().join("nowhere"), &link).unwrap();
    let owner = own_user();
    assert_eq!(problem(create_subdirectory(&link)), Problem::Link { owner });
    assert!(!base.path().join("nowhere").exists(), "nothing is created");
    let file = base.path().join("file");
    std::fs::write(&file, "").unwrap();
    assert!(matches!(
        problem(create_subdirectory(&file)),
        Problem::WrongKind { expected: "directory", .. }
    ));
}
