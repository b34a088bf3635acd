//! Tests with real mounts run in a mount namespace of their own, so that nothing of them is left on
//! the machine however they end.
//!
//! The test's body runs in a second process of the test binary, started by `unshare`: as root in a
//! mount namespace, otherwise in a user namespace too, where the kernel allows that. Where it cannot
//! be had the test is skipped, loudly; with `NOMAD_CSI_REQUIRE_MOUNTS=1` it fails.

use std::process::Command;

/// Set in the second process.
const INSIDE: &str = "NOMAD_CSI_TEST_INSIDE";
/// Makes a skip a failure.
const REQUIRED: &str = "NOMAD_CSI_REQUIRE_MOUNTS";

/// Runs the body of the test of that full name (`hostpath::some_test`) inside, and checks that it
/// leaves the mount table as it found it.
pub(crate) fn inside(test: &str, body: impl FnOnce()) {
    if std::env::var_os(INSIDE).is_some() {
        let before = mounts();
        body();
        assert_eq!(mounts(), before, "the mount table is as it was");
        return;
    }
    if !can_unshare() {
        let required = std::env::var_os(REQUIRED).is_some_and(|value| value == "1");
        assert!(
            !required,
            "{test} needs a mount namespace, which this machine does not allow"
        );
        eprintln!("SKIPPED {test}: it needs a mount namespace, which this machine does not allow");
        return;
    }
    let program = std::env::current_exe().expect("the test binary has a path");
    let status = unshare()
        .arg(program)
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(INSIDE, "1")
        .status()
        .expect("unshare runs");
    assert!(
        status.success(),
        "{test} failed inside its namespace: {status}"
    );
}

fn unshare() -> Command {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private"]);
    if !rustix::process::geteuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    command
}

fn can_unshare() -> bool {
    let tried = unshare().arg("true").output();
    tried.is_ok_and(|output| output.status.success())
}

/// Whether this process may become any user, which root of a user namespace may not.
pub(crate) fn has_all_users() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    rustix::process::geteuid().is_root() && map.split_whitespace().eq(["0", "0", "4294967295"])
}

/// Where things are mounted, in the order in which they were.
pub(crate) fn mounts() -> Vec<String> {
    let table = std::fs::read_to_string("/proc/self/mountinfo").expect("the table can be read");
    let target = |line: &str| line.split(' ').nth(4).expect("a target").to_owned();
    table.lines().map(target).collect()
}
