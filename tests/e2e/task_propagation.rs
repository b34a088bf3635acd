//! Mounts that travel between the host and tasks: a plugin mounts volumes for others.

use std::path::Path;

use nomad_csi_model::PropagationMode;
use nomad_csi_node::mounts::share_directory;
use nomad_csi_node::{DriverConfig, RunRequest, TaskMount};

use crate::task_fixture::{TestRun, exec, exited, killed_by, mount, request, shell};
use crate::task_root::{DeviceVolume, exec_request, run_command, run_isolated};
use crate::wait::until_true;
use nomad_csi_testing::namespace::mounts;

fn travelling(source: &Path, propagation: PropagationMode) -> TaskMount {
    TaskMount { propagation, ..mount(source, source.to_str().unwrap()) }
}

/// A plugin whose directory is bidirectional, at the same path as on the host.
fn plugin(directory: &Path, script: &str) -> RunRequest {
    RunRequest {
        mounts: vec![travelling(directory, PropagationMode::Bidirectional)],
        ..request(DriverConfig::ExecPlugin(shell(script)))
    }
}

fn shared(base: &Path) -> std::path::PathBuf {
    let directory = base.join("csi");
    std::fs::create_dir(&directory).unwrap();
    share_directory(&directory).unwrap();
    share_directory(&directory).unwrap();
    let path = directory.to_str().unwrap();
    let found = mounts().iter().filter(|mount| *mount == path).count();
    assert_eq!(found, 1, "sharing twice is sharing once");
    directory
}

#[test]
fn mounts_of_a_plugin_reach_the_host_and_mounts_of_the_host_the_plugin() {
    run_isolated(
        "task_propagation::mounts_of_a_plugin_reach_the_host_and_mounts_of_the_host_the_plugin",
        || async {
            let base = tempfile::tempdir().unwrap();
            let directory = shared(base.path());
            let path = directory.display();
            let script = format!(
                "mkdir {path}/own {path}/host && mount -t tmpfs tmpfs {path}/own && touch {path}/own/file \
                 && echo mounted; while [ ! -e {path}/host/file ]; do sleep 0.01; done; echo seen; \
                 while [ -e {path}/host/file ]; do sleep 0.01; done; echo gone; sleep 1000"
            );
            let run = TestRun::new(exec(), base.path());
            run.start(plugin(&directory, &script)).await;
            run.wait_for_line("mounted").await;
            assert!(directory.join("own/file").exists(), "the host sees it");
            let host = directory.join("host");
            run_command(&["mount", "-t", "tmpfs", "tmpfs", host.to_str().unwrap()]);
            std::fs::write(host.join("file"), "").unwrap();
            run.wait_for_line("seen").await;
            run_command(&["umount", host.to_str().unwrap()]);
            run.wait_for_line("gone").await;
            run.stop().await;
            assert_eq!(run.wait().await, killed_by(15));
            let own = directory.join("own");
            assert!(own.join("file").exists(), "mounts outlive their plugin");

            // The next plugin finds the mount of its predecessor, and removes it from the host as well.
            let next = TestRun::new(exec(), base.path());
            let script = format!("umount {}", own.display());
            assert_eq!(next.end_of(plugin(&directory, &script)).await, exited(0));
            assert!(!own.join("file").exists());
            run_command(&["umount", directory.to_str().unwrap()]);
        },
    );
}

#[test]
fn a_task_receives_mounts_of_the_host_if_it_is_meant_to() {
    run_isolated(
        "task_propagation::a_task_receives_mounts_of_the_host_if_it_is_meant_to",
        || async {
            let base = tempfile::tempdir().unwrap();
            let directory = shared(base.path());
            let inner = directory.join("inner");
            std::fs::create_dir(&inner).unwrap();
            let path = inner.display();
            let run = TestRun::new(exec(), base.path());
            let script = format!(
                "echo ready; while [ ! -e {path}/file ]; do sleep 0.01; done; \
                 test -e {path}/file && ! test -e /private/inner/file"
            );
            let mounts = vec![
                travelling(&directory, PropagationMode::HostToTask),
                mount(&directory, "/private"),
            ];
            run.start(exec_request(&script, mounts)).await;
            run.wait_for_line("ready").await;
            run_command(&["mount", "-t", "tmpfs", "tmpfs", inner.to_str().unwrap()]);
            std::fs::write(inner.join("file"), "").unwrap();
            assert_eq!(run.wait().await, exited(0));
            run_command(&["umount", inner.to_str().unwrap()]);
            run_command(&["umount", directory.to_str().unwrap()]);
        },
    );
}

/// A plugin stages a device in its own namespace, a task uses it, and the device is free when both are done.
#[test]
fn a_volume_of_a_plugin_is_used_by_a_task_and_free_afterwards() {
    run_isolated(
        "task_propagation::a_volume_of_a_plugin_is_used_by_a_task_and_free_afterwards",
        || async {
            let base = tempfile::tempdir().unwrap();
            let directory = shared(base.path());
            let volume = DeviceVolume::create(base.path());
            run_command(&["umount", volume.path()]);
            let target = directory.join("target");
            std::fs::create_dir(&target).unwrap();
            let (device, path) = (&volume.device, target.display());
            let run = TestRun::new(exec(), base.path());
            let script = format!(
                "mount {device} {path} && echo staged; while [ ! -e {path}/used ]; do sleep 0.01; done; \
                 while ! umount {path}; do sleep 0.01; done"
            );
            run.start(plugin(&directory, &script)).await;
            run.wait_for_line("staged").await;
            let consumer = TestRun::new(exec(), base.path());
            let mounts = vec![mount(&target, "/data")];
            let end = consumer.end_of(exec_request("touch /data/used", mounts));
            assert_eq!(end.await, exited(0));
            assert_eq!(run.wait().await, exited(0), "the plugin unmounted it");
            let is_mounted = || mounts_of(device).contains(&target.display().to_string());
            until_true("the host to lose the mount", || !is_mounted());
            run_command(&["mount", device, volume.path()]);
            volume.release();
            run_command(&["umount", directory.to_str().unwrap()]);
        },
    );
}

fn mounts_of(device: &str) -> Vec<String> {
    let table = std::fs::read_to_string("/proc/self/mounts").unwrap();
    let lines = table.lines().filter(|line| line.starts_with(device));
    lines.filter_map(|line| line.split(' ').nth(1)).map(ToOwned::to_owned).collect()
}
