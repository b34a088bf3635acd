//! Tasks on a machine in trouble: a full disk, and a mount whose server does not answer.

use std::os::fd::AsRawFd as _;

use nomad_csi_node::{DriverConfig, RunStatus};

use crate::agent_process::processes_with;
use crate::task_fixture::{
    TestRun, exec, exited, killed_by, mount, raw_exec, request, shell, unique_seconds,
};
use crate::task_root::{exec_request, run_command, run_isolated};
use crate::wait::{until_async, until_true};

/// Without the space that was kept for its end, the shim stays and tries again, because the status of the task would be lost
/// with it.
#[test]
fn a_full_disk_delays_the_end_of_a_run_and_loses_nothing() {
    run_isolated(
        "task_failures::a_full_disk_delays_the_end_of_a_run_and_loses_nothing",
        || async {
            let base = tempfile::tempdir().unwrap();
            let disk = base.path().join("disk");
            std::fs::create_dir(&disk).unwrap();
            let path = disk.to_str().unwrap();
            run_command(&["mount", "-t", "tmpfs", "-o", "size=256k,mode=0700", "tmpfs", path]);
            let run = TestRun::new(raw_exec(), &disk);
            let (go, seconds) = (base.path().join("go"), unique_seconds());
            let script = format!(
                "sleep {seconds} & while [ ! -e {} ]; do sleep 0.01; done; exit 7",
                go.display()
            );
            run.start(request(DriverConfig::RawExec(shell(&script)))).await;
            let filler = disk.join("filler");
            std::fs::remove_file(run.directory.join("state.reserve")).unwrap();
            assert!(std::fs::write(&filler, vec![0; 1 << 20]).is_err());
            std::fs::write(go, "").unwrap();
            until_true("the task to end", || processes_with(&["sleep", &seconds]).is_empty());
            let log = run.directory.join("shim.log");
            until_true("the shim to report it", || {
                // Creating a file takes no block, so its name is there and its content is not.
                std::fs::metadata(&log).is_ok()
            });
            let status = run.status().await;
            assert!(matches!(status, Some(RunStatus::Running { .. })), "{status:?}");
            let shim = run.shim();
            std::fs::remove_file(filler).unwrap();
            assert_eq!(run.wait().await, exited(7));
            assert!(!processes_with(&["task-process"]).contains(&shim));
            run.wait_until_gone();
            run_command(&["umount", path]);
        },
    );
}

/// A start that hangs in a mount can be stopped: here a file system in user space whose server never answers.
#[test]
fn a_stage_that_hangs_in_a_dead_mount_can_be_stopped() {
    run_isolated("task_failures::a_stage_that_hangs_in_a_dead_mount_can_be_stopped", || async {
        let base = tempfile::tempdir().unwrap();
        // Closed before the directory is removed, which would wait for an answer.
        let Ok(server) = std::fs::File::options().read(true).write(true).open("/dev/fuse") else {
            eprintln!("SKIPPED: it needs /dev/fuse");
            return;
        };
        let dead = base.path().join("dead");
        std::fs::create_dir(&dead).unwrap();
        let data = format!("fd={},rootmode=40000,user_id=0,group_id=0", server.as_raw_fd());
        let data = std::ffi::CString::new(data).unwrap();
        let flags = rustix::mount::MountFlags::empty();
        rustix::mount::mount("dead", &dead, "fuse", flags, data.as_c_str()).unwrap();

        let run = TestRun::new(exec(), base.path());
        let mounts = vec![mount(&dead.join("volume"), "/data")];
        let start = run.start(exec_request("true", mounts));
        let stop = async {
            let name = run.directory.to_str().unwrap();
            until_async("the stage", async || {
                let found = processes_with(&["task-process", "stage", name]);
                found.first().map(drop).ok_or_else(|| "none".to_owned())
            })
            .await;
            run.stop().await;
        };
        let (start, ()) = tokio::join!(start, stop);
        assert_eq!(start, nomad_csi_node::RunStart::Cancelled);
        assert_eq!(run.wait().await, killed_by(15));
        run.wait_until_gone();
        drop(server);
        run_command(&["umount", dead.to_str().unwrap()]);
    });
}
