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
    let mut names: Vec<_> = entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

const LOOPBACK: &str = "127.0.0.1:4646";

#[test]
fn every_start_has_a_private_token_of_its_own() {
    let base = tempfile::tempdir().unwrap();
    let (dirs, runtime) = (dirs(base.path()), runtime(base.path()));
    let addresses = [LOOPBACK.parse().unwrap()];
    let mut seen = vec![];
    for _ in 0..2 {
        let files = OperatorTokenFiles::create(&dirs, Some(&runtime), &addresses).unwrap();
        let path = dirs.operator_token();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.trim_end().len(), 2 * BYTES);
        assert!(!seen.contains(&text), "the token of an earlier start");
        let copy = runtime.join(OPERATOR_TOKEN_DIRECTORY).join("127.0.0.1:4646.token");
        let copied = std::fs::read_to_string(&copy).unwrap();
        let network = std::fs::read_link("/proc/self/ns/net").unwrap();
        assert_eq!(copied, format!("{text}{}\n", network.display()));
        for path in [&path, &copy] {
            let mode = std::fs::metadata(path).unwrap().permissions().mode();
            assert_eq!(mode & 0o7777, 0o600, "{}", path.display());
        }
        let shown = format!("{files:?}");
        assert!(!shown.contains(text.trim_end()), "{shown}");
        let found = File::open(&copy).unwrap();
        assert!(found.try_lock_shared().is_err(), "the agent lives");
        files.end();
        found.try_lock_shared().unwrap();
        assert_eq!(names(&runtime), [] as [&str; 0]);
        seen.push(text);
    }
}

#[test]
fn only_addresses_that_loopback_reaches_have_a_file() {
    let base = tempfile::tempdir().unwrap();
    let (dirs, runtime) = (dirs(base.path()), runtime(base.path()));
    for (addresses, expected) in [
        (vec!["127.0.0.1:1"], vec!["127.0.0.1:1.token"]),
        (vec!["192.0.2.1:1"], vec![]),
        (vec!["[::]:1", "0.0.0.0:1"], vec!["0.0.0.0:1.token", "[::]:1.token"]),
    ] {
        let addresses: Vec<_> = addresses.iter().map(|text| text.parse().unwrap()).collect();
        let files = OperatorTokenFiles::create(&dirs, Some(&runtime), &addresses).unwrap();
        assert_eq!(names(&runtime), expected);
        assert!(files.access().token.is_some());
        files.end();
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
    first.end();
    assert_eq!(names(&runtime), ["127.0.0.1:4646.token"]);
    second.end();
    assert_eq!(names(&runtime), [] as [&str; 0]);
}
