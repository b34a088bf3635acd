//! The files of an allocation that runs are removed or damaged while the agent is away: no task starts beside one that still
//! runs, no claim goes before its task has ended, and what runs can be stopped.

use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::agent_process::processes_with;
use crate::hostpath_fixture::run_in_namespace;
use crate::job_machine::{Machine, WRITER, volume};
use crate::wait::{until, until_true};

/// A task that says in the volume that it is not alone with it.
const LONELY: &str = "exec 9>>/data/lock; flock -n 9 || echo $NOMAD_ALLOC_ID >> /data/second-writers; \
    echo ready; while :; do echo x >> /data/lines; sleep 0.05; done";

/// What becomes of the files of the task's first run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Damage {
    NoAllocation,
    NoRuns,
    NoState,
    BadState,
}

impl Damage {
    fn inflict(self, alloc: &Path) {
        let runs = alloc.join("tasks/t/runs");
        match self {
            Self::NoAllocation => std::fs::remove_dir_all(alloc).unwrap(),
            Self::NoRuns => std::fs::remove_dir_all(runs).unwrap(),
            Self::NoState => std::fs::remove_file(runs.join("1/state.json")).unwrap(),
            Self::BadState => std::fs::write(runs.join("1/state.json"), r#"{"vers"#).unwrap(),
        }
    }

    /// Whether the task cannot go on, although its supervisor lives.
    fn is_the_end(self) -> bool {
        matches!(self, Self::NoAllocation | Self::NoRuns)
    }
}

fn status_of(machine: &Machine, job: &str, alloc: &Value) -> Value {
    let allocs = machine.allocs(job);
    let found = allocs.into_iter().find(|one| one["ID"] == alloc["ID"]);
    found.unwrap_or_default()
}

fn claims_of(machine: &Machine, alloc: &Value) -> usize {
    let claims = machine.claims();
    let own = claims.iter().filter(|one| one["AllocID"] == alloc["ID"]);
    own.count()
}

fn live(pids: &[u32], machine: &Machine) -> bool {
    machine.tasks().iter().any(|pid| pids.contains(pid))
}

/// Kills the supervisor of the allocation's task, and the task with it.
fn kill_shim(machine: &Machine, alloc: &str) {
    for pid in processes_with(&["task-process", "shim", alloc]) {
        let pid = Pid::from_raw(pid.try_into().unwrap()).unwrap();
        kill_process(pid, Signal::KILL).unwrap();
    }
    until_true("the task to end", || {
        processes_with(&["task-process", "shim", alloc]).is_empty() && machine.tasks().is_empty()
    });
}

#[test]
fn a_task_whose_files_are_missing_is_not_started_beside_itself() {
    let test = "missing_files::a_task_whose_files_are_missing_is_not_started_beside_itself";
    run_in_namespace(test, async {
        for damage in [
            Damage::NoAllocation,
            Damage::NoRuns,
            Damage::NoState,
            Damage::BadState,
        ] {
            for is_shim_killed in [false, true] {
                let what = format!("{damage:?}, shim killed: {is_shim_killed}");
                let mut machine = Machine::new();
                machine.create_volume("data", WRITER, "file-system");
                machine.run(&machine.job("a", "service", &volume("data", WRITER), LONELY));
                let first = machine.wait_for("a", "running", 1).remove(0);
                until_true("the task to write", || {
                    machine.output(&first).contains("ready")
                });
                let id = first["ID"].as_str().unwrap();
                let tasks = machine.tasks();
                machine.kill();
                if is_shim_killed {
                    kill_shim(&machine, id);
                }
                damage.inflict(&machine.data().join("allocs").join(id));
                machine.start();
                if damage.is_the_end() || (is_shim_killed && damage == Damage::BadState) {
                    until("the allocation to fail", || {
                        let is_held = claims_of(&machine, &first) > 0;
                        assert!(is_held || !live(&tasks, &machine), "{what}: no claim");
                        let found = status_of(&machine, "a", &first);
                        let is_over = found["ClientStatus"] == "failed";
                        is_over
                            .then_some(())
                            .ok_or_else(|| format!("{what}: {found:#}"))
                    });
                    assert!(!live(&tasks, &machine), "{what}: the first task still runs");
                    if damage.is_the_end() {
                        let found = status_of(&machine, "a", &first);
                        let text = found["ClientDescription"].as_str().unwrap();
                        assert!(
                            text.contains("the files of task `t` were removed"),
                            "{what}: {text}"
                        );
                    }
                    machine.wait_for("a", "running", 1);
                }
                machine.stop("a");
                until("the end of the job", || {
                    let is_held = claims_of(&machine, &first) > 0;
                    assert!(is_held || !live(&tasks, &machine), "{what}: no claim");
                    let allocs = machine.allocs("a");
                    let is_over = |one: &Value| {
                        ["complete", "failed"].contains(&one["ClientStatus"].as_str().unwrap())
                    };
                    let all_over = allocs.iter().all(is_over);
                    all_over
                        .then_some(())
                        .ok_or_else(|| format!("{what}: {allocs:#?}"))
                });
                let script = "cat /data/second-writers; echo read";
                machine.run(&machine.job("r", "batch", &volume("data", WRITER), script));
                let reader = machine.wait_for("r", "complete", 1).remove(0);
                assert_eq!(machine.output(&reader), "read\n", "{what}: second writers");
                machine.end();
            }
        }
    });
}
