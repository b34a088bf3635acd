//! Runs tests with real mounts in their own mount namespace, so no mount survives the test.
//!
//! The test body runs in a second process of the test binary, started by `unshare`. As root it gets a
//! mount namespace, otherwise a user namespace too, if the kernel allows it. If neither is possible
//! the test is skipped with a message; with `NOMAD_CSI_REQUIRE_MOUNTS=1` it fails.

use std::process::Command;

/// Marks the second process.
const INSIDE: &str = "NOMAD_CSI_TEST_INSIDE";
/// Turns a skip into a failure.
const REQUIRED: &str = "NOMAD_CSI_REQUIRE_MOUNTS";

/// Runs the body of the test with this full name (`hostpath::some_test`) in the namespace, and checks
/// that the body leaves the mount table unchanged.
pub(crate) fn run_in_mount_namespace(test: &str, body: impl FnOnce()) {
    if std::env::var_os(INSIDE).is_some() {
        let before = mounts();
        body();
        assert_eq!(mounts(), before, "the test changed the mount table");
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
    let program = std::env::current_exe().expect("cannot find the test binary");
    let output = unshare()
        .arg(program)
        .args(["--exact", test, "--include-ignored"])
        .args(["--nocapture", "--test-threads=1"])
        .env(INSIDE, "1")
        .output()
        .expect("cannot run unshare");
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(
        output.status.success(),
        "{test} failed inside its namespace: {}\n{text}",
        output.status
    );
    // A name that no test has would run nothing, and succeed.
    assert!(text.contains("1 passed"), "{test} did not run:\n{text}");
    eprint!("{text}");
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

/// Whether this process has all user IDs, which root in a user namespace does not have.
pub(crate) fn has_all_users() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    rustix::process::geteuid().is_root() && map.split_whitespace().eq(["0", "0", "4294967295"])
}

/// Returns the mount points in the order of mounting.
pub(crate) fn mounts() -> Vec<String> {
    let table = std::fs::read_to_string("/proc/self/mountinfo").expect("cannot read mountinfo");
    let target = |line: &str| {
        line.split(' ')
            .nth(4)
            .expect("mountinfo without a target")
            .to_owned()
    };
    table.lines().map(target).collect()
}
