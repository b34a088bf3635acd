//! Other users of the machine: what they planted or own is not used, and what the agent creates is not
//! open to them. The tests with two users need root and are skipped otherwise.

use std::ffi::OsStr;
use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::agent_process::{AgentProcess, PROGRAM, program};
use crate::plugin_process::KilledOnDrop;
use crate::volumes::create;
use crate::wait::until_true;

const STRANGER: u32 = 61_234;

/// A directory that every user can enter, as `/srv` is.
fn public_directory() -> tempfile::TempDir {
    let base = tempfile::tempdir().unwrap();
    set_mode(base.path(), 0o755);
    base
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        eprintln!("skipped: two users are needed, so run as root");
    }
    is_root
}

fn directory(base: &Path, name: &str, mode: u32) -> PathBuf {
    let path = base.join(name);
    std::fs::create_dir(&path).unwrap();
    set_mode(&path, mode);
    path
}

fn agent(data: &Path) -> Command {
    let mut command = program(["agent", "--dev", "--http", "127.0.0.1:0"]);
    command.arg("--data-dir").arg(data);
    command
}

fn embedded(data: &Path) -> Command {
    let mut command = program(["volume", "status"]);
    command.arg(format!("--embedded={}", data.display()));
    command
}

/// The message of a command that must fail.
fn refused(mut command: Command) -> String {
    let Output { status, stderr, .. } = command.output().unwrap();
    let message = String::from_utf8(stderr).unwrap();
    assert_eq!(status.code(), Some(1), "{message}");
    message
}

fn assert_says(message: &str, expected: &[&str]) {
    for part in expected {
        assert!(message.contains(part), "{part:?} is not in: {message}");
    }
}

#[test]
fn a_planted_link_is_neither_followed_nor_truncated() {
    let base = public_directory();
    let precious = base.path().join("precious");
    std::fs::write(&precious, "precious").unwrap();
    for name in ["agent.lock", "journal.redb", "secrets.key"] {
        let data = directory(base.path(), &format!("data-{name}"), 0o700);
        symlink(&precious, data.join(name)).unwrap();
        let message = refused(agent(&data));
        assert_says(
            &message,
            &["file/not-private", name, "is a symbolic link that belongs to user ID"],
        );
        assert_eq!(std::fs::read(&precious).unwrap(), b"precious", "{name}");
    }
}

#[test]
fn a_planted_directory_link_is_not_followed() {
    let base = public_directory();
    let elsewhere = directory(base.path(), "elsewhere", 0o700);
    for name in ["plugins", "run"] {
        let data = directory(base.path(), &format!("data-{name}"), 0o700);
        symlink(&elsewhere, data.join(name)).unwrap();
        for command in [agent(&data), embedded(&data)] {
            let message = refused(command);
            assert_says(&message, &["file/not-private", name, "is a symbolic link"]);
        }
        let entries = std::fs::read_dir(&elsewhere).unwrap();
        assert_eq!(entries.count(), 0, "something was created behind the link");
    }
}

#[test]
fn a_directory_that_others_can_write_to_is_refused() {
    let base = public_directory();
    let own = rustix::process::geteuid().as_raw();
    for mode in [0o770, 0o707, 0o1777] {
        let data = directory(base.path(), &format!("{mode:o}"), mode);
        for command in [agent(&data), embedded(&data)] {
            let message = refused(command);
            let found =
                format!("is writable by other users (owner: user ID {own}, mode {mode:04o})");
            assert_says(&message, &[&found, &format!("chmod go-w {}", data.display())]);
        }
        assert_eq!(std::fs::read_dir(&data).unwrap().count(), 0);
    }
}

#[test]
fn root_does_not_use_a_directory_of_another_user() {
    if !is_root() {
        return;
    }
    let base = public_directory();
    let data = directory(base.path(), "theirs", 0o700);
    chown(&data, Some(STRANGER), Some(STRANGER)).unwrap();
    let mut plugin = program(["plugin", "serve", "--state-dir"]);
    plugin.arg(&data).arg("--endpoint");
    plugin.arg(format!("unix://{}", base.path().join("s").display()));
    for command in [agent(&data), embedded(&data), plugin] {
        let message = refused(command);
        let found = "belongs to user ID 61234 (mode 0700), and this process runs as user ID 0";
        assert_says(&message, &[found, &format!("chown 0 {}", data.display())]);
    }
    assert_eq!(std::fs::read_dir(&data).unwrap().count(), 0);
}

/// The modes of everything below a directory, except the content of volumes.
fn modes(directory: &Path, found: &mut Vec<(PathBuf, bool, u32)>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let metadata = std::fs::symlink_metadata(&path).unwrap();
        found.push((path.clone(), metadata.is_dir(), metadata.mode() & 0o7777));
        if metadata.is_dir() && !path.ends_with("volumes") {
            modes(&path, found);
        }
    }
}

fn with_umask(umask: &str, command: &Command) -> Command {
    let mut shell = Command::new("/bin/sh");
    shell.env_clear().stdin(Stdio::null());
    shell.args(["-c", &format!("umask {umask}; exec \"$@\""), "sh", PROGRAM]);
    shell.args(command.get_args());
    shell
}

#[test]
fn everything_is_private_whatever_the_umask() {
    for umask in ["0", "0777", "0277"] {
        let base = public_directory();
        let data = base.path().join("new/data");
        let mut command = with_umask(umask, &agent(&data));
        if is_root() {
            // Root can use what has no permissions, so another user must start the agent.
            chown(base.path(), Some(STRANGER), Some(STRANGER)).unwrap();
            command.uid(STRANGER).gid(STRANGER);
        }
        let agent = AgentProcess::run(command);
        create(&agent.address, "db").unwrap().json();
        let mut found = vec![];
        modes(base.path(), &mut found);
        assert!(found.len() > 10, "{found:?}");
        for (path, is_directory, mode) in found {
            let expected = if is_directory { 0o700 } else { 0o600 };
            assert_eq!(mode, expected, "umask {umask}: {}", path.display());
        }
        assert!(agent.stop().success());
    }
}

/// A process of a stranger, killed when it is dropped.
struct Stranger(KilledOnDrop);

impl Stranger {
    fn run(program: impl AsRef<OsStr>, arguments: &[&OsStr]) -> Self {
        let mut command = Command::new(program);
        command.env_clear().args(arguments).stdin(Stdio::piped());
        command.uid(STRANGER).gid(STRANGER).current_dir("/");
        Self(KilledOnDrop(command.spawn().unwrap()))
    }
}

#[test]
fn a_lock_held_by_a_stranger_is_named() {
    if !is_root() {
        return;
    }
    let base = public_directory();
    let data = directory(base.path(), "data", 0o755);
    let lock = data.join("agent.lock");
    std::fs::write(&lock, "").unwrap();
    set_mode(&lock, 0o644);
    // `cat` keeps the lock until its input ends.
    let stranger = Stranger::run("flock", &[lock.as_ref(), "cat".as_ref()]);
    let file = std::fs::File::open(&lock).unwrap();
    until_true("the lock of the stranger", || {
        let is_free = file.try_lock().is_ok();
        if is_free {
            file.unlock().unwrap();
        }
        !is_free
    });
    let message = refused(agent(&data));
    let holder = format!("process {} of user ID {STRANGER} holds the lock", stranger.0.0.id());
    assert_says(&message, &["data/in-use", &holder, "chmod go-rwx"]);
}

/// An agent of a stranger, whose socket is recorded in the lock of a directory of this user.
#[test]
fn nothing_is_sent_to_a_socket_of_a_stranger() {
    if !is_root() {
        return;
    }
    let base = public_directory();
    let theirs = directory(base.path(), "theirs", 0o700);
    chown(&theirs, Some(STRANGER), Some(STRANGER)).unwrap();
    let mut command = agent(&theirs.join("data"));
    command.uid(STRANGER).gid(STRANGER);
    let trap = AgentProcess::run(command);

    let data = directory(base.path(), "data", 0o700);
    let lock = std::fs::File::create_new(data.join("agent.lock")).unwrap();
    lock.lock().unwrap();
    let record = serde_json::json!({"pid": trap.pid(), "socket": trap.socket, "started_at": 0});
    std::fs::write(data.join("agent.lock"), record.to_string()).unwrap();
    let message = refused(embedded(&data));
    assert_says(&message, &["file/not-private", "belongs to user ID 61234", "nothing was sent"]);

    // The file alone says nothing about who listens.
    for path in [&trap.socket, trap.socket.parent().unwrap()] {
        chown(path, Some(0), Some(0)).unwrap();
    }
    let message = refused(embedded(&data));
    assert_says(&message, &["is answered by a process of user ID 61234", "nothing was sent"]);
    let requests = trap.log().into_iter().filter(|line| line.contains("answered"));
    assert_eq!(requests.count(), 0);
}

#[test]
fn a_plugin_refuses_a_directory_where_its_socket_could_be_replaced() {
    let base = public_directory();
    let open = directory(base.path(), "open", 0o777);
    let state = base.path().join("state");
    let mut plugin = program(["plugin", "serve", "--state-dir"]);
    plugin.arg(&state).arg("--endpoint");
    plugin.arg(format!("unix://{}/s", open.display()));
    let message = refused(plugin);
    assert_says(&message, &["is writable by other users", "mode 0777"]);
}

#[test]
fn a_planted_catalogue_is_not_followed() {
    let base = public_directory();
    let precious = base.path().join("precious");
    std::fs::write(&precious, "precious").unwrap();
    let state = directory(base.path(), "state", 0o700);
    symlink(&precious, state.join("catalog.redb")).unwrap();
    let mut plugin = program(["plugin", "serve", "--state-dir"]);
    plugin.arg(&state).arg("--endpoint");
    plugin.arg(format!("unix://{}/s", base.path().display()));
    assert_says(&refused(plugin), &["catalog.redb", "is a symbolic link"]);
    assert_eq!(std::fs::read(&precious).unwrap(), b"precious");
}
