//! The files of an allocation that runs are removed or damaged while the agent is away: no task starts beside one that still
//! runs, no claim goes before its task has ended, and what runs can be stopped.

use std::path::Path;
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::agent_process::{
    AgentProcess, PROGRAM, operator_token, processes_with, runtime_directory,
};
use crate::hostpath_fixture::run_in_namespace;
use crate::http::Address;
use crate::job_machine::{Machine, WRITER, volume};
use crate::wait::{until, until_true};

/// A task that says in the volume that it is not alone with it.
const LONELY: &str = "exec 9>>/data/lock; flock -n 9 || echo $NOMAD_ALLOC_ID >> /data/second-writers; \
    echo ready; while :; do echo x >> /data/lines; sleep 0.05; done";

/// The damage to the files of the task's first run.
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

    /// Returns whether the task cannot go on, although its supervisor lives.
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

/// A machine on which job `a` writes to its volume, and the ID of its allocation.
fn machine_with_a_task() -> (Machine, String) {
    let machine = Machine::new();
    machine.create_volume("data", WRITER, "file-system");
    machine.run(&machine.job("a", "service", &volume("data", WRITER), LONELY));
    let alloc = machine.wait_for("a", "running", 1).remove(0);
    (machine, alloc["ID"].as_str().unwrap().to_owned())
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
        for damage in [Damage::NoAllocation, Damage::NoRuns, Damage::NoState, Damage::BadState] {
            for is_shim_killed in [false, true] {
                let what = format!("{damage:?}, shim killed: {is_shim_killed}");
                let mut machine = Machine::new();
                machine.create_volume("data", WRITER, "file-system");
                machine.run(&machine.job("a", "service", &volume("data", WRITER), LONELY));
                let first = machine.wait_for("a", "running", 1).remove(0);
                until_true("the task to write", || machine.output(&first).contains("ready"));
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
                        is_over.then_some(()).ok_or_else(|| format!("{what}: {found:#}"))
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
                    all_over.then_some(()).ok_or_else(|| format!("{what}: {allocs:#?}"))
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

/// A container of the same machine, or a backup that is tried out at the usual path: each agent has another directory there.
#[test]
fn an_agent_elsewhere_with_the_same_path_touches_none_of_our_tasks() {
    let test = "missing_files::an_agent_elsewhere_with_the_same_path_touches_none_of_our_tasks";
    run_in_namespace(test, async {
        let (machine, alloc) = machine_with_a_task();
        let shims = || processes_with(&["task-process", "shim", &alloc]);
        let before = shims();
        assert_eq!(before.len(), 1);

        let other = tempfile::tempdir().unwrap();
        let script = "mount --bind \"$1\" \"$2\" || exit 1; data=$2; program=$3; shift 3; \
            exec \"$program\" agent --dev --http 127.0.0.1:0 --data-dir \"$data\" \"$@\"";
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-c", script, "sh"]);
        command.arg(other.path()).arg(machine.data()).arg(PROGRAM);
        command.env("XDG_RUNTIME_DIR", runtime_directory());
        let agent = AgentProcess::run_with_its_log(command);
        let Address::Tcp(address, _) = agent.address else {
            unreachable!("the agent listens on TCP");
        };
        let token = operator_token(&other.path().to_string_lossy());
        let address = Address::Tcp(address, Some(token));
        // Its first task starts after it has looked for those of an earlier run.
        let job = machine.job_without_volume("b", "batch", "true");
        let ask = |method, path: &str, body| address.ask(method, path, body).unwrap().json();
        let job = json!({ "Job": job });
        ask("PUT", "/v1/jobs", Some(&job));
        until("the other agent's job to complete", || {
            let allocs = ask("GET", "/v1/job/b/allocations", None);
            let is_complete = allocs[0]["ClientStatus"] == "complete";
            is_complete.then_some(()).ok_or_else(|| format!("{allocs:#}"))
        });
        assert_eq!(shims(), before, "{:#?}", agent.log());
        assert!(agent.stop().success());
        machine.stop("a");
        machine.wait_for("a", "complete", 1);
        machine.end();
    });
}

/// The data directory is renamed while volumes are mounted in it: the mounts go with it, and the plugin has recorded them at
/// other paths.
#[test]
fn a_renamed_directory_gives_its_volumes_back() {
    let test = "missing_files::a_renamed_directory_gives_its_volumes_back";
    run_in_namespace(test, async {
        for (attachment, size) in
            [("file-system", 0), ("file-system", 32 << 20), ("block-device", 16 << 20)]
        {
            let mut machine = Machine::new();
            machine.create_sized_volume("data", WRITER, attachment, size);
            let (script, mut claimed) = match attachment {
                "file-system" => (LONELY, volume("data", WRITER)),
                _ => ("echo ready; exec sleep 600", volume("data", WRITER)),
            };
            claimed["AttachmentMode"] = json!(attachment);
            machine.run(&machine.job("a", "service", &claimed, script));
            let alloc = machine.wait_for("a", "running", 1).remove(0);
            until_true("the task to use the volume", || machine.output(&alloc).contains("ready"));
            assert!(machine.agent.take().unwrap().stop().success());
            machine.rename_data("moved");
            machine.start();
            machine.stop("a");
            machine.assert_clean();
            // It is used again, and then deleted.
            machine.run(&machine.job("b", "batch", &claimed, "echo again"));
            machine.wait_for("b", "complete", 1);
            machine.assert_clean();
            let path = "/v1/volume/csi/data/delete";
            let deleted = machine.address().ask("DELETE", path, None).unwrap();
            assert_eq!(deleted.status, 200, "{attachment} {size}: {}", deleted.text());
            machine.end();
        }
    });
}

/// A copy that was made while tasks ran, as for the rehearsal of a restore: its files name processes of the original.
#[test]
fn an_agent_on_a_copy_of_our_directory_touches_none_of_our_tasks() {
    let test = "missing_files::an_agent_on_a_copy_of_our_directory_touches_none_of_our_tasks";
    run_in_namespace(test, async {
        let (machine, alloc) = machine_with_a_task();
        let shims = || processes_with(&["task-process", "shim", &alloc]);
        let before = shims();
        assert_eq!(before.len(), 1);
        let base = tempfile::tempdir().unwrap();
        let copy = base.path().join("copy");
        // Without what is mounted below it.
        let copied = Command::new("cp")
            .args(["--archive", "--one-file-system"])
            .args([&machine.data(), &copy])
            .status();
        assert!(copied.unwrap().success());
        let agent = AgentProcess::start(&copy);
        agent.wait_for_lines(1, |line| line.contains("this directory is a copy of"));
        let Address::Tcp(address, _) = agent.address else {
            unreachable!("the agent listens on TCP");
        };
        let token = operator_token(&copy.to_string_lossy());
        let address = Address::Tcp(address, Some(token));
        let stopped = address.ask("DELETE", "/v1/job/a", None).unwrap();
        assert_eq!(stopped.status, 200);
        agent.wait_for_lines(2, |line| line.contains("this directory is a copy of"));
        assert_eq!(shims(), before, "{:#?}", agent.log());
        assert!(agent.stop().success());
        machine.stop("a");
        machine.wait_for("a", "complete", 1);
        machine.end();
    });
}

/// An older journal knows neither a task nor what it has mounted: the plugin refuses the volume, until what doctor proposes is
/// done to the letter.
#[test]
fn what_an_older_state_does_not_know_is_given_back_as_doctor_says() {
    let test = "missing_files::what_an_older_state_does_not_know_is_given_back_as_doctor_says";
    run_in_namespace(test, async {
        let mut machine = Machine::new();
        machine.create_volume("data", WRITER, "file-system");
        assert!(machine.agent.take().unwrap().stop().success());
        let (journal, older) =
            (machine.data().join("journal.redb"), machine.directory.path().join("older"));
        std::fs::copy(&journal, &older).unwrap();
        machine.start();
        let job = |id: &str| machine.job(id, "service", &volume("data", WRITER), LONELY);
        let (first, second, third) = (job("a"), job("b"), job("c"));
        machine.run(&first);
        machine.wait_for("a", "running", 1);
        assert!(machine.agent.take().unwrap().stop().success());
        std::fs::copy(&older, &journal).unwrap();
        machine.start();
        machine.run(&second);
        let run = |machine: &Machine, command: &str| {
            let address = machine.address().tcp();
            let output = Command::new("sh")
                .args(["-c", command])
                .env("NOMAD_ADDR", format!("http://{address}"))
                .env("XDG_RUNTIME_DIR", runtime_directory())
                .output();
            let output = output.unwrap();
            (
                output.status.code(),
                String::from_utf8(output.stdout).unwrap(),
                String::from_utf8(output.stderr).unwrap(),
            )
        };
        let fence = until("doctor to propose the fence", || {
            let (_, found, problems) = run(&machine, &format!("{PROGRAM} volume doctor data"));
            let mut lines = found.lines().map(str::trim);
            let proposed = lines.find(|line| line.starts_with("nomad-csi node fence"));
            proposed.map(str::to_owned).ok_or_else(|| format!("{found}{problems}"))
        });
        machine.stop("b");
        machine.wait_for("b", "complete", 1);
        let done = run(&machine, &fence.replace("nomad-csi ", &format!("{PROGRAM} ")));
        assert_eq!(done.0, Some(0), "{fence}: {done:?}");
        machine.assert_no_claims();
        machine.run(&third);
        machine.wait_for("c", "running", 1);
        machine.stop("c");
        machine.wait_for("c", "complete", 1);
        machine.end();
    });
}
