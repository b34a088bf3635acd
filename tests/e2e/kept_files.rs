//! A process outside of the tasks keeps files of a volume open: the volume is not given to the next writer before they are
//! closed.

use std::fs::File;

use crate::fenced_nodes::{stubborn, writing};
use crate::hostpath_fixture::run_in_namespace_with_devices;
use crate::job_machine::{Machine, WRITER, volume};
use crate::wait::until;

/// A machine whose claim of volume `data` waits for a file that this process keeps open. What a task passes on is not bound
/// to its namespaces: the file is opened through the task's root, which gives the same file of the same mount as a
/// descriptor that is sent over a socket.
fn with_kept_file() -> (Machine, File) {
    let machine = Machine::new();
    machine.create_sized_volume("data", WRITER, "file-system", 32 << 20);
    machine.run(&stubborn(&machine, "a", "data", 1));
    writing(&machine, "a");
    // A process of the task may end between the two looks.
    let file = until("the file of a task to be open", || {
        let tasks = machine.tasks();
        let opened = tasks.iter().find_map(|pid| {
            let path = format!("/proc/{pid}/root/data/lines");
            File::options().append(true).open(path).ok()
        });
        opened.ok_or_else(|| format!("{tasks:?}"))
    });
    machine.stop("a");
    machine.wait_for("a", "complete", 1);
    let own = format!("PID {}", std::process::id());
    until("the claim to name the process", || {
        let claims = machine.claims();
        let problem = |claim: &serde_json::Value| claim["Problem"]["Error"].to_string();
        let is_meant =
            |text: &String| text.contains("still has files of volume") && text.contains(&own);
        match claims.iter().map(problem).any(|text| is_meant(&text)) {
            true => Ok(()),
            false => Err(format!("{claims:#?}")),
        }
    });
    (machine, file)
}

#[test]
fn a_volume_is_released_when_its_last_file_is_closed() {
    let test = "kept_files::a_volume_is_released_when_its_last_file_is_closed";
    run_in_namespace_with_devices(test, async {
        let (machine, file) = with_kept_file();
        machine.run(&machine.job("b", "batch", &volume("data", WRITER), "wc -l < /data/lines"));
        let waits = until("the next writer to wait", || {
            let claims = machine.claims();
            let own = claims.iter().find(|claim| claim["FailedAttempts"] != 0);
            own.cloned().ok_or_else(|| format!("{claims:#?}"))
        });
        assert_ne!(waits["State"], "published", "{waits:#}");
        assert!(machine.allocs("b").iter().all(|alloc| alloc["ClientStatus"] != "complete"));
        drop(file);
        machine.wait_for("b", "complete", 1);
        machine.end();
    });
}

/// No process lives through a reboot, and the device may be another disk then, which something else uses.
#[test]
fn a_device_of_an_earlier_boot_keeps_no_volume() {
    let test = "kept_files::a_device_of_an_earlier_boot_keeps_no_volume";
    run_in_namespace_with_devices(test, async {
        let (machine, file) = with_kept_file();
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
        let earlier = "00000000-0000-4000-8000-000000000000";
        let mut records = vec![machine.data().join("mounts")];
        let mut changed = 0;
        while let Some(path) = records.pop() {
            if path.is_dir() {
                let entries = std::fs::read_dir(&path).unwrap();
                records.extend(entries.map(|entry| entry.unwrap().path()));
            } else if path.ends_with("volume.json") {
                let record = std::fs::read_to_string(&path).unwrap();
                changed += record.matches(boot.trim()).count();
                std::fs::write(&path, record.replace(boot.trim(), earlier)).unwrap();
            }
        }
        assert!(changed > 0, "no record names the boot");
        until("the release", || match machine.claims() {
            claims if claims.is_empty() => Ok(()),
            claims => Err(format!("{claims:#?}")),
        });
        drop(file);
        machine.end();
    });
}
