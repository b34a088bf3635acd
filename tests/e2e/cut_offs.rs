//! An operator cuts the tasks of an allocation off from a volume: they are killed first, and no task writes beside the next
//! writer.

use serde_json::Value;

use crate::fenced_nodes::{stubborn, writers_of, writing};
use crate::hostpath_fixture::run_in_namespace;
use crate::job_machine::{Machine, WRITER};
use crate::wait::{until, until_true};

/// A task that is asked to stop goes on for this long.
const SECONDS: i64 = 20;

fn cut_off(machine: &Machine, alloc: &str, wait: &str) -> u16 {
    let path = format!("/v1/volume/csi/data/claim?alloc={alloc}&cuts_off={alloc}&wait={wait}");
    let answer = machine.address().ask("DELETE", &path, None).unwrap();
    answer.status
}

fn id(value: &Value) -> String {
    value["ID"].as_str().unwrap().to_owned()
}

fn was_asked_to_stop(machine: &Machine, job: &str) -> bool {
    let allocs = machine.allocs(job);
    let events = allocs[0]["TaskStates"]["t"]["Events"].as_array().unwrap();
    events.iter().any(|event| event["Type"] == "Killing")
}

/// The next writer starts when the volume is released, and not beside the tasks that were cut off: also if these were asked
/// to stop before, and if the agent is killed after the request.
#[test]
fn a_volume_is_cut_off_by_killing_its_tasks() {
    let test = "cut_offs::a_volume_is_cut_off_by_killing_its_tasks";
    run_in_namespace(test, async {
        for (stops, crashes) in [(false, false), (true, false), (false, true)] {
            let mut machine = Machine::new();
            machine.create_volume("data", WRITER, "file-system");
            machine.run(&stubborn(&machine, "a", "data", SECONDS));
            let first = writing(&machine, "a");
            if stops {
                machine.stop("a");
                until_true("the task to be asked to stop", || was_asked_to_stop(&machine, "a"));
            }
            if crashes {
                cut_off(&machine, &id(&first), "0s");
                machine.kill();
                machine.start();
            } else {
                assert_eq!(cut_off(&machine, &id(&first), "30s"), 200);
            }
            until("the claim to be gone", || {
                let claims = machine.claims();
                let own = claims.iter().filter(|claim| claim["AllocID"] == first["ID"]);
                match own.count() {
                    0 => Ok(()),
                    _ => Err(format!("{claims:#?}")),
                }
            });
            assert_eq!(machine.tasks(), Vec::<u32>::new(), "a task still runs");
            machine.run(&stubborn(&machine, "b", "data", 1));
            let second = writing(&machine, "b");
            until("the first allocation to end", || {
                let allocs = machine.allocs("a");
                let old = allocs.iter().find(|alloc| alloc["ID"] == first["ID"]);
                match old.is_some_and(|old| old["ClientStatus"] == "failed") {
                    true => Ok(()),
                    false => Err(format!("{allocs:#?}")),
                }
            });
            machine.stop("a");
            machine.stop("b");
            machine.wait_for("b", "complete", 1);
            let expected = [id(&first), id(&second)];
            assert_eq!(writers_of(&machine, "data"), expected, "two writers at once");
            machine.end();
        }
    });
}

/// A volume whose tasks are being cut off is not deregistered by force, and its data is not deleted under them.
#[test]
fn a_volume_is_not_deleted_under_tasks_that_were_cut_off() {
    let test = "cut_offs::a_volume_is_not_deleted_under_tasks_that_were_cut_off";
    run_in_namespace(test, async {
        let machine = Machine::new();
        machine.create_volume("data", WRITER, "file-system");
        machine.run(&stubborn(&machine, "a", "data", SECONDS));
        let first = writing(&machine, "a");
        cut_off(&machine, &id(&first), "0s");
        until("the volume to be deleted", || {
            let path = "/v1/volume/csi/data/delete";
            let answer = machine.address().ask("DELETE", path, None).unwrap();
            match answer.status {
                200 => Ok(()),
                _ => Err(answer.text()),
            }
        });
        assert_eq!(machine.tasks(), Vec::<u32>::new(), "a task still runs");
        machine.stop("a");
        machine.end();
    });
}
