//! Runs tests with real mounts in their own mount namespace, so no mount survives the test.
//!
//! The test body runs in a second process of the test binary, started by `unshare`. As root it gets a
//! mount namespace, otherwise a user namespace too, if the kernel allows it. If neither is possible
//! the test is skipped with a message; with `NOMAD_CSI_REQUIRE_MOUNTS=1` it fails.
//!
//! Only the test's own mounts count: those below its directory for temporary files, and those that were not there
//! when it began. The namespace begins with copies of the machine's mounts, which other programs still change: the
//! kernel detaches a copy when its directory is removed, and shows another path when one is renamed.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

/// Marks the second process.
const INSIDE: &str = "NOMAD_CSI_TEST_INSIDE";
/// Turns a skip into a failure.
const REQUIRED: &str = "NOMAD_CSI_REQUIRE_MOUNTS";
/// The mounts that the namespace began with.
static COPIES: OnceLock<BTreeSet<MountName>> = OnceLock::new();

/// The ID and the device of a mount, which it keeps while others move its directory. An ID is used again after a mount is
/// gone.
type MountName = (String, String);

/// Runs the body of the test with this full name (`hostpath::some_test`) in the namespace, with a directory of its
/// own for temporary files, and checks that the body leaves no mount.
pub fn run_in_mount_namespace(test: &str, body: impl FnOnce()) {
    if is_inside() {
        let copies = COPIES.set(names(&table()));
        assert_eq!(copies, Ok(()), "one process runs one test");
        body();
        assert_eq!(mounts(), [""; 0], "the test left mounts");
        return;
    }
    if !can_unshare() {
        let required = std::env::var_os(REQUIRED).is_some_and(|value| value == "1");
        assert!(!required, "{test} needs a mount namespace, which this machine does not allow");
        eprintln!("SKIPPED {test}: it needs a mount namespace, which this machine does not allow");
        return;
    }
    let program = std::env::current_exe().expect("cannot find the test binary");
    // A short name: the path of a socket has 107 bytes.
    let directory = tempfile::Builder::new().prefix("t").tempdir();
    let directory = directory.expect("cannot create a directory");
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(directory.path(), open).expect("cannot open the directory to tasks");
    let output = unshare()
        .arg(program)
        .args(["--exact", test, "--include-ignored"])
        .args(["--nocapture", "--test-threads=1"])
        .env(INSIDE, "1")
        .env("TMPDIR", directory.path())
        .output()
        .expect("cannot run unshare");
    // A test that failed, or killed its agent for good, leaves sealed directories. Without `chattr` there are none.
    let mut unseal = Command::new("chattr");
    let unsealed = unseal.args(["-R", "-f", "-i"]).arg(directory.path()).output();
    drop(unsealed);
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

/// Returns whether this is the second process.
pub fn is_inside() -> bool {
    std::env::var_os(INSIDE).is_some()
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

/// Returns whether this process has all user IDs, which root in a user namespace does not have.
pub fn has_all_users() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    rustix::process::geteuid().is_root() && map.split_whitespace().eq(["0", "0", "4294967295"])
}

/// Returns the mount points in the order of mounting: in a namespace those of the test, otherwise all.
pub fn mounts() -> Vec<String> {
    let none = BTreeSet::new();
    own_mounts(&table(), COPIES.get().unwrap_or(&none), &std::env::temp_dir())
}

fn table() -> String {
    std::fs::read_to_string("/proc/self/mountinfo").expect("cannot read mountinfo")
}

/// Splits a line of the table into the name of its mount and its mount point.
fn parse(line: &str) -> (MountName, &str) {
    let mut fields = line.split(' ');
    let mut next = |at| fields.nth(at).expect("a line of mountinfo");
    let (id, device, target) = (next(0), next(1), next(1));
    ((id.to_owned(), device.to_owned()), target)
}

fn names(table: &str) -> BTreeSet<MountName> {
    table.lines().map(|line| parse(line).0).collect()
}

/// Returns the mount points below `directory`, and those of mounts that are no copies.
fn own_mounts(table: &str, copies: &BTreeSet<MountName>, directory: &Path) -> Vec<String> {
    let parsed = table.lines().map(parse);
    let own = parsed.filter(|(name, target)| {
        Path::new(target).starts_with(directory) || !copies.contains(name)
    });
    own.map(|(_, target)| target.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "\
20 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw
31 20 0:40 / /tmp/other/a rw,relatime - tmpfs none rw
32 20 0:41 / /tmp/other/b rw,relatime - tmpfs none rw
";

    fn own(after: &str) -> Vec<String> {
        own_mounts(after, &names(BEFORE), Path::new("/tmp/own"))
    }

    #[test]
    fn what_others_move_or_detach_is_not_of_the_test() {
        assert_eq!(own(BEFORE), [""; 0]);
        let after = "\
20 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw
32 20 0:41 / /tmp/renamed/b rw,relatime - tmpfs none rw
";
        assert_eq!(own(after), [""; 0]);
    }

    #[test]
    fn a_new_mount_is_of_the_test_wherever_it_is() {
        for target in ["/tmp/own/data", "/tmp/other/a", "/opt", "/tmp/owner"] {
            let after = format!("{BEFORE}33 20 8:1 /x {target} rw,relatime - ext4 /dev/sda1 rw\n");
            assert_eq!(own(&after), [target]);
        }
    }

    /// A copy that others removed gave its ID and its device to a mount of the test.
    #[test]
    fn below_the_directory_of_the_test_a_used_name_is_a_mount_of_the_test() {
        let after = BEFORE.replace("/tmp/other/a", "/tmp/own/data");
        assert_eq!(own(&after), ["/tmp/own/data"]);
    }
}
