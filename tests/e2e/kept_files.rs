//! A process outside of the tasks keeps files of a volume open: the volume is not given to the next writer before they are
//! closed.

use std::fs::File;

use crate::fenced_nodes::{stubborn, writing};
use crate::hostpath_fixture::run_in_namespace_with_devices;
use crate::job_machine::{Machine, WRITER, volume};
use crate::wait::until;

/// What a task passes on is not bound to its namespaces. The test opens the file through the task's root, which gives it the
/// same file of the same mount as a descriptor that is sent over a socket.
#[test]
fn a_volume_is_released_when_its_last_file_is_closed() {
    let test = "kept_files::a_volume_is_released_when_its_last_file_is_closed";
    run_in_namespace_with_devices(test, async {
        let machine = Machine::new();
        machine.create_sized_volume("data", WRITER, "file-system", 32 << 20);
        machine.run(&stubborn(&machine, "a", "data", 1));
        writing(&machine, "a");
        let pid = machine.tasks().into_iter().find_map(|pid| {
            let path = format!("/proc/{pid}/root/data/lines");
            File::options().append(true).open(path).ok()
        });
        let file = pid.expect("the file of a task");
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
        machine.run(&machine.job("b", "batch", &volume("data", WRITER), "wc -l < /data/lines"));
        let waits = until("the next writer to wait", || {
            let claims = machine.claims();
            let own = claims.iter().find(|claim| claim["FailedAttempts"] != 0);
            own.cloned().ok_or_else(|| format!("{claims:#?}"))
        });
        assert_ne!(waits["State"], "published", "{waits:#}");
        assert!(
            machine
                .allocs("b")
                .iter()
                .all(|alloc| alloc["ClientStatus"] != "complete")
        );
        drop(file);
        machine.wait_for("b", "complete", 1);
        machine.end();
    });
}
