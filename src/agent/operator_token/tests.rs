use std::os::unix::fs::PermissionsExt as _;

use super::super::config::DataDirSetting;
use super::super::directory::DataDir;
use super::*;

fn dirs(base: &Path) -> AgentDirs {
    let data = DataDirSetting::Persistent(base.join("data"));
    AgentDirs::create_dirs(DataDir::prepare(&data).unwrap(), None).unwrap()
}

fn runtime(base: &Path) -> PathBuf {
    let runtime = base.join("runtime");
    create_subdirectory(&runtime).unwrap();
    runtime
}

fn names(runtime: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(runtime.join(OPERATOR_TOKEN_DIRECTORY));
    let entries = entries.into_iter().flatten().flatten();
    let mut names: Vec<_> = entries
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

const LOOPBACK: &str = "127.0.0.1:4646";

/// A script that has read the token goes on after the agent was started again, until the file is removed.
#[test]
fn the_token_is_private_and_stays_until_its_file_is_removed() {
    let base = tempfile::tempdir().unwrap();
    let (dirs, runtime) = (dirs(base.path()), runtime(base.path()));
    let addresses = [LOOPBACK.parse().unwrap()];
    let mut seen = vec![];
    for start in 0..4 {
        if start == 2 {
            std::fs::remove_file(dirs.operator_token()).unwrap();
        }
        let files = OperatorTokenFiles::create(&dirs, Some(&runtime), &addresses).unwrap();
        let path = dirs.operator_token();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.trim_end().len(), 2 * BYTES);
        let copy = runtime
            .join(OPERATOR_TOKEN_DIRECTORY)
            .join("127.0.0.1:4646.token");
        assert_eq!(std::fs::read_to_string(&copy).unwrap(), text.trim_end());
        for path in [&path, &copy] {
            let mode = std::fs::metadata(path).unwrap().permissions().mode();
            assert_eq!(mode & 0o7777, 0o600, "{}", path.display());
        }
        let shown = format!("{files:?}");
        assert!(!shown.contains(text.trim_end()), "{shown}");
        let found = File::open(&copy).unwrap();
        assert!(found.try_lock_shared().is_err(), "the agent lives");
        files.remove();
        found.try_lock_shared().unwrap();
        assert_eq!(names(&runtime), [] as [&str; 0]);
        seen.push(text);
    }
    assert_eq!(seen[0], seen[1]);
    assert_ne!(seen[1], seen[2], "the file was removed");
    assert_eq!(seen[2], seen[3]);
}

/// What others could have read or written is not the operator's token any more.
#[test]
fn a_token_that_others_could_have_read_or_made_is_replaced() {
    let base = tempfile::tempdir().unwrap();
    let dirs = dirs(base.path());
    let addresses = [LOOPBACK.parse().unwrap()];
    let path = dirs.operator_token();
    let create = || OperatorTokenFiles::create(&dirs, None, &addresses);
    let token = || std::fs::read_to_string(&path).unwrap();
    let is_private = || std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777 == 0o600;
    for mode in [0o644, 0o660, 0o604, 0o601] {
        create().unwrap();
        let before = token();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        create().unwrap();
        assert!(token() != before && is_private(), "{mode:o}");
    }
    let long = "a".repeat(2 * BYTES + 1);
    for damaged in [
        "",
        "\n",
        "short\n",
        &long,
        &"x".repeat(2 * BYTES),
        "\u{e4}\n",
    ] {
        std::fs::write(&path, damaged).unwrap();
        create().unwrap();
        let made = token();
        assert_eq!(made.trim_end().len(), 2 * BYTES, "{damaged}");
        assert!(made.trim_end() != damaged.trim_end() && is_private());
    }
    let whole = token();
    std::fs::write(&path, whole.trim_end()).unwrap();
    create().unwrap();
    assert_eq!(
        token().trim_end(),
        whole.trim_end(),
        "an editor dropped the line end"
    );
    let elsewhere = base.path().join("elsewhere");
    std::fs::rename(&path, &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
    let refused = format!("{:?}", create().unwrap_err());
    assert!(refused.contains("operator.token"), "{refused}");
}

#[test]
fn only_addresses_that_loopback_reaches_have_a_file() {
    let base = tempfile::tempdir().unwrap();
    let (dirs, runtime) = (dirs(base.path()), runtime(base.path()));
    for (addresses, expected) in [
        (vec!["127.0.0.1:1"], vec!["127.0.0.1:1.token"]),
        (vec!["192.0.2.1:1"], vec![]),
        (
            vec!["[::]:1", "0.0.0.0:1"],
            vec!["0.0.0.0:1.token", "[::]:1.token"],
        ),
    ] {
        let addresses: Vec<_> = addresses.iter().map(|text| text.parse().unwrap()).collect();
        let files = OperatorTokenFiles::create(&dirs, Some(&runtime), &addresses).unwrap();
        assert_eq!(names(&runtime), expected);
        assert!(files.access().token.is_some());
        files.remove();
    }
    let files = OperatorTokenFiles::create(&dirs, Some(&runtime), &[]).unwrap();
    assert!(files.access().token.is_none(), "no client needs one");
}

#[test]
fn a_runtime_directory_of_others_is_not_used() {
    let base = tempfile::tempdir().unwrap();
    let (dirs, runtime) = (dirs(base.path()), runtime(base.path()));
    let directory = runtime.join(OPERATOR_TOKEN_DIRECTORY);
    std::fs::create_dir(&directory).unwrap();
    let addresses = [LOOPBACK.parse().unwrap()];
    for mode in [0o777, 0o755, 0o710] {
        std::fs::set_permissions(&directory, std::fs::Permissions::from_mode(mode)).unwrap();
        let files = OperatorTokenFiles::create(&dirs, Some(&runtime), &addresses).unwrap();
        assert_eq!(names(&runtime), [] as [&str; 0], "{mode:o}");
        assert!(files.access().token.is_some());
    }
}

#[test]
fn the_file_of_another_agent_stays() {
    let base = tempfile::tempdir().unwrap();
    let (dirs, runtime) = (dirs(base.path()), runtime(base.path()));
    let addresses = [LOOPBACK.parse().unwrap()];
    let first = OperatorTokenFiles::create(&dirs, Some(&runtime), &addresses).unwrap();
    let second = OperatorTokenFiles::create(&dirs, Some(&runtime), &addresses).unwrap();
    first.remove();
    assert_eq!(names(&runtime), ["127.0.0.1:4646.token"]);
    second.remove();
    assert_eq!(names(&runtime), [] as [&str; 0]);
}
