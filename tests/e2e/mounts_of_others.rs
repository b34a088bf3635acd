//! Tests with real mounts beside other programs, which mount, unmount and remove directories in the meantime.

use std::process::Command;

use rustix::process::getppid;

use nomad_csi_testing::namespace::{has_all_users, is_inside, mounts, run_in_mount_namespace};

fn run(words: &[&str]) {
    let status = Command::new(words[0]).args(&words[1..]).status();
    assert!(status.unwrap().success(), "{words:?}");
}

/// Directories of another program, two of them with mounts. Dropping it unmounts what a failed test left.
struct OtherProgram(tempfile::TempDir);

/// The name of its directory, which the process in the namespace finds by its parent.
fn prefix(process: u32) -> String {
    format!("of-others-{process}-")
}

impl OtherProgram {
    fn start() -> Self {
        let prefix = prefix(std::process::id());
        let base = tempfile::Builder::new().prefix(&prefix).tempdir().unwrap();
        for name in ["removed", "moved/at"] {
            let at = base.path().join(name);
            std::fs::create_dir_all(&at).unwrap();
            run(&["mount", "-t", "tmpfs", "none", at.to_str().unwrap()]);
        }
        Self(base)
    }
}

impl Drop for OtherProgram {
    fn drop(&mut self) {
        for name in ["removed", "moved/at"] {
            let unmount = Command::new("umount").arg(self.0.path().join(name)).output();
            let _was_unmounted_before = unmount.is_ok();
        }
    }
}

/// The mount points of the other program that this process sees.
fn copies(prefix: &str) -> Vec<String> {
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let targets = table.lines().map(|line| line.split(' ').nth(4).unwrap());
    let copies = targets.filter(|target| target.contains(prefix));
    copies.map(ToOwned::to_owned).collect()
}

#[test]
fn what_others_unmount_remove_and_rename_is_no_mount_of_the_test() {
    let test = "mounts_of_others::what_others_unmount_remove_and_rename_is_no_mount_of_the_test";
    if !has_all_users() {
        eprintln!("SKIPPED {test}: it needs root");
        return;
    }
    let _other = (!is_inside()).then(OtherProgram::start);
    run_in_mount_namespace(test, || {
        let parent = getppid().unwrap().as_raw_nonzero().get();
        let prefix = prefix(parent.unsigned_abs());
        let before = copies(&prefix);
        let [removed, moved] = before.as_slice() else {
            panic!("{before:?}");
        };
        assert_eq!(mounts(), [""; 0]);
        let base = removed.strip_suffix("/removed").unwrap();
        let script =
            format!("umount {removed} {moved} && rmdir {removed} && mv {base}/moved {base}/new");
        let namespace = format!("--mount=/proc/{parent}/ns/mnt");
        run(&["nsenter", &namespace, "sh", "-c", &script]);
        assert_eq!(copies(&prefix), [format!("{base}/new/at")], "the kernel detached one");
        assert_eq!(mounts(), [""; 0]);
        let own = tempfile::tempdir().unwrap();
        let own = own.path().to_str().unwrap();
        run(&["mount", "-t", "tmpfs", "none", own]);
        assert_eq!(mounts(), [own]);
        run(&["umount", own]);
        assert_eq!(mounts(), [""; 0]);
    });
}
