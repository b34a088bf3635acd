//! The node's half of claims over the embedded plugin as a process, with real mounts. Each test ends
//! with the mount table that it found.

use std::io::{Read as _, Seek as _, SeekFrom, Write as _};

use nomad_csi_model::{AttachmentMode, TargetPath, Term};
use nomad_csi_ports::{HostError, NodeHost as _, SweepOutcome};

use crate::hostpath_fixture::{run_in_namespace, run_in_namespace_with_devices};
use crate::volume_host::{Host, PLUGIN, TASK, Volume};
use crate::wait::until_async;

const STEPS: [&str; 4] =
    ["NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume"];

/// Two allocations share a volume, and find the data again after everything was given back.
#[test]
fn a_volume_is_mounted_written_and_given_back() {
    let test = "volume_manager::a_volume_is_mounted_written_and_given_back";
    run_in_namespace(test, async {
        let directory = tempfile::tempdir().unwrap();
        let flags = ["--backing", "directory"];
        let host = Host::start(directory.path(), "session-1", &flags).await;
        let mut volume = host.create("db", 1 << 20).await;
        for round in 0..2 {
            let at = 10 * round;
            host.attach(at + 1, &mut volume).await;
            host.stage(at + 2, &volume).await.unwrap();
            let first = host.publish(at + 3, &volume, "a1").await.unwrap();
            let second = host.publish(at + 4, &volume, "a2").await.unwrap();
            let file = |path: &TargetPath| path.on_host().join("file");
            if round == 0 {
                std::fs::write(file(&first), "precious").unwrap();
            }
            let found = std::fs::read_to_string(file(&second)).unwrap();
            assert_eq!(found, "precious");
            host.unpublish(at + 5, &volume, "a1").await.unwrap();
            let in_use = host.unstage(at + 6, &volume).await.unwrap_err();
            assert!(matches!(in_use, HostError::InUse { .. }), "{in_use}");
            assert_eq!(std::fs::read_to_string(file(&second)).unwrap(), "precious");
            host.unpublish(at + 7, &volume, "a2").await.unwrap();
            host.unstage(at + 8, &volume).await.unwrap();
            host.detach(at + 9, &volume).await;
            host.check_nothing_left().await;
        }
        // Two mounts, two unmounts and the refused unstage, in each round.
        assert_eq!(host.events.0.lock().unwrap().len(), 10);
        host.stop().await;
    });
}

/// The plugin dies before and after the work of each step, and under a `kill -9` while a step hangs.
/// The same step succeeds with the next process.
#[test]
fn a_step_survives_the_death_of_the_plugin() {
    let test = "volume_manager::a_step_survives_the_death_of_the_plugin";
    run_in_namespace(test, async {
        for step in STEPS {
            for fault in ["crash:1", "crash-after:1", "hang:1"] {
                die_in_the_middle(step, fault).await;
            }
        }
    });
}

async fn die_in_the_middle(step: &str, fault: &str) {
    let what = format!("{step}, {fault}");
    let directory = tempfile::tempdir().unwrap();
    let fault_flag = format!("{step}:{fault}");
    let flags = ["--backing", "directory", "--fault", &fault_flag];
    let host = Host::start(directory.path(), "session-1", &flags).await;
    let mut volume = host.create("db", 1 << 20).await;
    host.attach(1, &mut volume).await;
    for earlier in STEPS.into_iter().take_while(|earlier| *earlier != step) {
        host.take(earlier, 2, &volume).await.unwrap();
    }
    let pid = host.plugin_pid();
    let met = if fault == "hang:1" {
        let hanging = host.take(step, 3, &volume);
        let kill = async {
            until_async("the step to run", async || {
                let instance = host.registry.running(&PLUGIN.into(), &TASK.into());
                match instance.map(|instance| instance.run.pending_calls()) {
                    Ok(1) => Ok(()),
                    other => Err(format!("{other:?} calls run")),
                }
            })
            .await;
            let busy = host.take("NodeUnstageVolume", 3, &volume).await;
            assert!(matches!(busy, Err(HostError::Busy { .. })), "{what}: {busy:?}");
            host.kill_plugin();
        };
        tokio::join!(hanging, kill).0
    } else {
        host.take(step, 3, &volume).await
    };
    let error = met.expect_err(&what);
    assert!(error.may_have_taken_effect(), "{what}: {error}");
    host.wait_for_next_plugin(pid).await;
    if fault == "hang:1" {
        // The count of hanging calls starts again with each process.
        host.stop().await;
        let host = Host::start(directory.path(), "session-2", &flags[..2]).await;
        finish(&host, step, &volume, &what).await;
        host.stop().await;
        return;
    }
    finish(&host, step, &volume, &what).await;
    host.stop().await;
}

/// Repeats the step and gives everything back.
async fn finish(host: &Host, step: &str, volume: &Volume, what: &str) {
    let repeated = host.take(step, 3, volume).await;
    repeated.unwrap_or_else(|error| panic!("{what}: {error}"));
    for undo in &STEPS[2..] {
        let undone = host.take(undo, 4, volume).await;
        undone.unwrap_or_else(|error| panic!("{what}, {undo}: {error}"));
    }
    host.detach(5, volume).await;
    host.check_nothing_left().await;
}

/// An agent is killed with volumes in use. The next one finds them and gives them back.
#[test]
fn the_next_agent_sweeps_what_was_left() {
    let test = "volume_manager::the_next_agent_sweeps_what_was_left";
    run_in_namespace(test, async {
        let directory = tempfile::tempdir().unwrap();
        let flags = ["--backing", "directory"];
        let host = Host::start(directory.path(), "session-1", &flags).await;
        let mut volumes = vec![];
        for name in ["a", "b"] {
            let mut volume = host.create(name, 1 << 20).await;
            host.attach(1, &mut volume).await;
            host.stage(2, &volume).await.unwrap();
            for alloc in ["a1", "a2"] {
                let alloc = format!("{alloc}-{name}");
                host.publish(3, &volume, &alloc).await.unwrap();
            }
            volumes.push(volume);
        }
        drop(host);

        let host = Host::start(directory.path(), "session-2", &flags).await;
        let left = host.manager.left_behind(Term::default()).await.unwrap();
        let mut expected: Vec<_> = volumes.iter().map(Volume::remote).collect();
        expected.sort();
        assert_eq!(left, expected);
        for volume in left {
            let sweep = |index| host.manager.sweep(host.order(index), volume.clone());
            assert_eq!(sweep(1).await, Ok(SweepOutcome::UndidSomething));
            assert_eq!(sweep(1).await, Ok(SweepOutcome::NothingLeft));
        }
        for volume in &volumes {
            host.detach(2, volume).await;
        }
        host.check_nothing_left().await;
        host.stop().await;
    });
}

/// A block device is published as a device, written, and swept.
#[test]
fn a_block_device_is_published_and_swept() {
    let test = "volume_manager::a_block_device_is_published_and_swept";
    run_in_namespace_with_devices(test, async {
        let directory = tempfile::tempdir().unwrap();
        let mut host = Host::start(directory.path(), "session-1", &[]).await;
        host.mode = AttachmentMode::BlockDevice;
        let mut volume = host.create("disk", 1 << 20).await;
        host.attach(1, &mut volume).await;
        host.stage(2, &volume).await.unwrap();
        let path = host.publish(3, &volume, "a1").await.unwrap();
        let options = std::fs::File::options().read(true).write(true).to_owned();
        let mut device = options.open(path.on_host()).unwrap();
        device.write_all(b"precious").unwrap();
        device.sync_all().unwrap();
        drop(device);
        host.unpublish(4, &volume, "a1").await.unwrap();
        let path = host.publish(5, &volume, "a2").await.unwrap();
        let mut device = options.open(path.on_host()).unwrap();
        let mut found = [0; 8];
        device.seek(SeekFrom::Start(0)).unwrap();
        device.read_exact(&mut found).unwrap();
        assert_eq!(&found, b"precious");
        drop((device, host));

        let host = Host::start(directory.path(), "session-2", &[]).await;
        let left = host.manager.left_behind(Term::default()).await;
        assert_eq!(left, Ok(vec![volume.remote()]));
        let sweep = |index| host.manager.sweep(host.order(index), volume.remote());
        assert_eq!(sweep(1).await, Ok(SweepOutcome::UndidSomething));
        assert_eq!(sweep(1).await, Ok(SweepOutcome::NothingLeft));
        host.detach(2, &volume).await;
        host.check_nothing_left().await;
        host.stop().await;
    });
}
