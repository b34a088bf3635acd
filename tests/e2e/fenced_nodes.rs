//! `node fence` and `node unfence` of a node that runs: no mount is undone under a task, no second writer starts beside
//! one that still runs, and the node is used again.

use std::path::Path;

use serde_json::{Value, json};

use crate::hostpath_fixture::run_in_namespace;
use crate::job_machine::{Machine, WRITER, volume};
use crate::plugin_endpoint::start_plugin;
use crate::plugin_process::endpoint;
use crate::wait::until;
use nomad_csi_testing::namespace::mounts;

/// A task that writes lines with the ID of its allocation, and does not end before it is killed.
const STUBBORN: &str = "trap '' INT TERM; echo ready; while :; do echo $NOMAD_ALLOC_ID >> /data/lines; sleep 0.05; done";

/// A service whose task goes on for as long as its kill timeout after it was asked to stop.
pub(crate) fn stubborn(machine: &Machine, id: &str, source: &str, seconds: i64) -> Value {
    let mut job = machine.job(id, "service", &volume(source, WRITER), STUBBORN);
    job["TaskGroups"][0]["Tasks"][0]["KillTimeout"] = json!(seconds * 1_000_000_000);
    job
}

/// Waits until a task writes.
pub(crate) fn writing(machine: &Machine, job: &str) -> Value {
    let alloc = machine.wait_for(job, "running", 1).remove(0);
    until("the task to write", || match machine.output(&alloc) {
        output if output.contains("ready") => Ok(()),
        output => Err(output),
    });
    alloc
}

/// The allocations that wrote to a volume, in the order of their writes; one that wrote again after another one appears
/// twice.
pub(crate) fn writers_of(machine: &Machine, source: &str) -> Vec<String> {
    let job = machine.job("reader", "batch", &volume(source, WRITER), "uniq /data/lines");
    machine.run(&job);
    let reader = machine.wait_for("reader", "complete", 1).remove(0);
    let lines = machine.output(&reader);
    lines.lines().map(str::to_owned).collect()
}

fn check(is_so: bool, seen: &Value) -> Result<(), String> {
    is_so.then_some(()).ok_or_else(|| format!("{seen:#}"))
}

/// Waits until all allocations of a job have ended.
fn all_ended(machine: &Machine, job: &str) {
    until("the end of all allocations", || {
        let allocs = machine.allocs(job);
        let is_over = |alloc: &Value| alloc["ClientStatus"] == "complete";
        check(allocs.iter().all(is_over), &json!(allocs))
    });
}

fn node(machine: &Machine) -> Value {
    machine.get("/v1/nodes")[0].clone()
}

fn id(value: &Value) -> String {
    value["ID"].as_str().unwrap().to_owned()
}

fn fence(machine: &Machine) {
    let node = id(&node(machine));
    let path = format!("/v1/node/{node}/fence?cuts_off={node}");
    let answer = machine.address().ask("PUT", &path, None).unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
}

fn unfence(machine: &Machine) {
    let path = format!("/v1/node/{}/unfence", id(&node(machine)));
    let answer = machine.address().ask("PUT", &path, None).unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
}

/// The mounts of targets of the machine's plugins.
fn targets(machine: &Machine) -> Vec<String> {
    let data = machine.data();
    let all = mounts().into_iter();
    all.filter(|path| Path::new(path).starts_with(&data) && path.contains("/targets/")).collect()
}

/// Two writers: the second one starts after the first one has ended, and until then nothing is unmounted. Once with a plugin
/// that the agent started, and once with one that runs anyway.
#[test]
fn a_returned_node_is_not_swept_under_a_task_that_still_runs() {
    let test = "fenced_nodes::a_returned_node_is_not_swept_under_a_task_that_still_runs";
    run_in_namespace(test, async {
        for plugin in ["ext", "hostpath"] {
            let beside = tempfile::tempdir().unwrap();
            let running = start_plugin(beside.path());
            let option = format!("--plugin-endpoint=ext={}", endpoint(beside.path()));
            let machine = Machine::with_options([option]);
            until("the volume to be created", || {
                let healthy = machine.get("/v1/plugins?type=csi");
                let all = healthy.as_array().unwrap();
                let is_up = |one: &Value| one["ID"] == plugin && one["NodesHealthy"] == 1;
                check(all.iter().any(is_up), &healthy)
            });
            machine.create_volume_with(plugin, "data", WRITER, "file-system");
            machine.run(&stubborn(&machine, "a", "data", 4));
            let first = writing(&machine, "a");
            let mounted = targets(&machine);
            assert_eq!(mounted.len(), 1);
            fence(&machine);
            unfence(&machine);
            until("the node to say what it waits for", || {
                let node = node(&machine);
                let expected = format!("waits for the end of allocation `{}`", id(&first));
                let description = node["StatusDescription"].to_string();
                check(description.contains(&expected), &node)
            });
            let second = until("the next allocation to run", || {
                let still = targets(&machine);
                let allocs = machine.allocs("a");
                let status = |alloc: &Value| alloc["ClientStatus"].clone();
                let old = allocs.iter().find(|alloc| alloc["ID"] == first["ID"]);
                if old.is_some_and(|old| status(old) == "running") {
                    assert_eq!(still, mounted, "unmounted under a task");
                }
                let new = allocs.iter().find(|alloc| status(alloc) == "running");
                let new = new.filter(|alloc| alloc["ID"] != first["ID"]).cloned();
                new.ok_or_else(|| format!("{allocs:#?}"))
            });
            until("the next allocation to write", || match machine.output(&second) {
                output if output.contains("ready") => Ok(()),
                output => Err(output),
            });
            machine.stop("a");
            all_ended(&machine, "a");
            let expected = [id(&first), id(&second)];
            assert_eq!(writers_of(&machine, "data"), expected, "two writers at once");
            machine.end();
            drop(running);
        }
    });
}

/// A node whose plugin is a task is used again after a fence, whether it is eligible or drains.
#[test]
fn a_fenced_node_is_swept_and_used_again_with_its_plugin() {
    let test = "fenced_nodes::a_fenced_node_is_swept_and_used_again_with_its_plugin";
    run_in_namespace(test, async {
        for change in ["", "eligibility", "drain"] {
            let machine = Machine::new();
            machine.create_volume("data", WRITER, "file-system");
            machine.run(&stubborn(&machine, "a", "data", 1));
            writing(&machine, "a");
            let node_id = id(&node(&machine));
            fence(&machine);
            match change {
                "eligibility" => {
                    let path = format!("/v1/node/{node_id}/eligibility");
                    machine.put(&path, &json!({"Eligibility": "ineligible"}));
                }
                "drain" => {
                    let path = format!("/v1/node/{node_id}/drain");
                    machine.put(&path, &json!({"DrainSpec": {"IgnoreSystemJobs": false}}));
                }
                _ => {}
            }
            unfence(&machine);
            until("the node to be swept", || {
                let node = node(&machine);
                check(node["Fenced"].is_null(), &node)
            });
            assert_eq!(targets(&machine), Vec::<String>::new());
            let path = format!("/v1/node/{node_id}/drain");
            machine.put(&path, &json!({"DrainSpec": null, "MarkEligible": true}));
            let path = format!("/v1/node/{node_id}/eligibility");
            machine.put(&path, &json!({"Eligibility": "eligible"}));
            machine.wait_for("a", "running", 1);
            machine.stop("a");
            all_ended(&machine, "a");
            machine.end();
        }
    });
}

/// A node that the agent hears from is fenced only with an approval that names it.
#[test]
fn a_node_that_is_heard_from_is_not_fenced_by_mistake() {
    let test = "fenced_nodes::a_node_that_is_heard_from_is_not_fenced_by_mistake";
    run_in_namespace(test, async {
        let machine = Machine::new();
        machine.create_volume("data", WRITER, "file-system");
        machine.run(&stubborn(&machine, "a", "data", 1));
        let alloc = writing(&machine, "a");
        let node_id = id(&node(&machine));
        for (approval, status) in [("", 409), ("?cuts_off=other", 400), ("?cuts_off=true", 400)] {
            let path = format!("/v1/node/{node_id}/fence{approval}");
            let answer = machine.address().ask("PUT", &path, None).unwrap();
            assert_eq!(answer.status, status, "{approval}: {}", answer.text());
            if status == 409 {
                let text = answer.text();
                assert!(text.contains(&id(&alloc)), "{text}");
            }
        }
        assert!(node(&machine)["Fenced"].is_null());
        assert_eq!(machine.allocs("a").len(), 1);
        machine.stop("a");
        machine.wait_for("a", "complete", 1);
        machine.end();
    });
}
