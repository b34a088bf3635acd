//! `agent server` and `agent node` as two processes, with a plugin in a third one and real mounts: what a job sees, kills of
//! each process at each step, and strangers.

use serde_json::json;

use crate::cluster_machine::{Cluster, PLUGIN};
use crate::hostpath_fixture::run_in_namespace;
use crate::job_machine::{WRITER, volume};
use crate::wait::{until, until_true};

const SETUP: [&str; 3] = ["ControllerPublishVolume", "NodeStageVolume", "NodePublishVolume"];
const TEARDOWN: [&str; 3] =
    ["NodeUnpublishVolume", "NodeUnstageVolume", "ControllerUnpublishVolume"];

/// A script that says once that it started, and appends until it is stopped.
const WRITER_SCRIPT: &str = "trap 'echo stopped >> /data/log; exit 0' TERM INT; echo started >> /data/log; \
                             echo hello; while :; do sleep 0.1; done";

fn lines(cluster: &Cluster) -> Vec<String> {
    let state = cluster.machine.directory.path().join("state");
    let logs = find(&state, "log");
    let text = logs.into_iter().map(|path| std::fs::read_to_string(path).unwrap());
    text.collect::<String>().lines().map(ToOwned::to_owned).collect()
}

fn find(directory: &std::path::Path, name: &str) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap().flatten().map(|entry| entry.path());
    entries
        .flat_map(|path| match path.is_dir() {
            true => find(&path, name),
            false if path.file_name().is_some_and(|found| found == name) => vec![path],
            false => vec![],
        })
        .collect()
}

/// B99, B100, B106: the server chooses the node of a controller and calls it on its own channel, and the node serves every kind
/// of call.
#[test]
fn a_job_with_a_volume_runs_on_the_node_of_another_process() {
    let test = "cluster::a_job_with_a_volume_runs_on_the_node_of_another_process";
    run_in_namespace(test, async {
        let mut cluster = Cluster::start(&[]);
        let machine = &cluster.machine;
        machine.create_volume_with(PLUGIN, "db", WRITER, "file-system");
        machine.run(&machine.job("web", "service", &volume("db", WRITER), WRITER_SCRIPT));
        let alloc = machine.wait_for("web", "running", 1).remove(0);
        until("the task to write", || {
            let output = machine.output(&alloc);
            (output == "hello\n").then_some(()).ok_or(output)
        });
        let claims = machine.claims();
        assert_eq!(claims.len(), 1, "{claims:#?}");
        let external = machine.get(&format!("/v1/volumes/external?plugin_id={PLUGIN}"));
        assert_eq!(external["Volumes"].as_array().unwrap().len(), 1, "{external:#}");
        let node = machine.get(&format!("/v1/node/{}", alloc["NodeID"].as_str().unwrap()));
        let events = node["Events"].as_array().unwrap();
        let is_mount = |event: &serde_json::Value| event["Message"] == "Mount volume";
        assert!(events.iter().any(is_mount), "{events:#?}");

        // Neither process is needed by what runs.
        cluster.kill_server();
        cluster.kill_node();
        assert!(!cluster.machine.tasks().is_empty());
        cluster.start_server();
        cluster.kill_plugin();
        cluster.start_plugin();
        cluster.start_node();
        let machine = &cluster.machine;
        machine.wait_for("web", "running", 1);
        machine.stop("web");
        machine.wait_for("web", "complete", 1);
        machine.assert_no_claims();
        assert_eq!(lines(&cluster), ["started", "stopped"]);
        let path = "/v1/volume/csi/db/delete";
        machine.address().ask("DELETE", path, None).unwrap();
        assert_eq!(lines(&cluster), [""; 0]);
        cluster.end();
    });
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    Server,
    /// The node and the plugin on it.
    Node,
    /// Both at the same time.
    All,
}

impl Victim {
    fn kill(self, cluster: &mut Cluster, rpc: &str) {
        if self != Self::Node {
            cluster.kill_server();
        }
        if self != Self::Server {
            cluster.kill_node();
            cluster.kill_plugin();
            cluster.forget_fault(rpc);
            cluster.start_plugin();
            cluster.start_node();
        }
        if self != Self::Node {
            cluster.start_server();
        }
    }
}

/// Kills the victim at each step of a claim, before the plugin works on the step or after it. The volume has what one run of
/// one task wrote.
fn kill_at_each_step(victim: Victim, fault: &str) {
    let faults: Vec<_> =
        SETUP.iter().chain(&TEARDOWN).map(|rpc| format!("{rpc}:{fault}:1")).collect();
    let mut cluster = Cluster::start(&faults);
    let machine = &cluster.machine;
    machine.create_volume_with(PLUGIN, "db", WRITER, "file-system");
    machine.run(&machine.job("web", "service", &volume("db", WRITER), WRITER_SCRIPT));
    for rpc in SETUP {
        cluster.wait_for_fault(rpc);
        victim.kill(&mut cluster, rpc);
    }
    cluster.machine.wait_for("web", "running", 1);
    until_true("the task to write", || lines(&cluster) == ["started"]);
    cluster.machine.stop("web");
    for rpc in TEARDOWN {
        cluster.wait_for_fault(rpc);
        victim.kill(&mut cluster, rpc);
    }
    cluster.machine.assert_no_claims();
    assert_eq!(lines(&cluster), ["started", "stopped"], "{victim:?} {fault}");
    cluster.end();
}

#[test]
fn the_server_is_killed_before_the_plugin_works_on_each_step() {
    let test = "cluster::the_server_is_killed_before_the_plugin_works_on_each_step";
    run_in_namespace(test, async { kill_at_each_step(Victim::Server, "delay=1s") });
}

#[test]
fn the_server_is_killed_after_the_plugin_did_each_step() {
    let test = "cluster::the_server_is_killed_after_the_plugin_did_each_step";
    run_in_namespace(test, async { kill_at_each_step(Victim::Server, "lose-reply") });
}

#[test]
fn the_node_is_killed_before_the_plugin_works_on_each_step() {
    let test = "cluster::the_node_is_killed_before_the_plugin_works_on_each_step";
    run_in_namespace(test, async { kill_at_each_step(Victim::Node, "delay=1s") });
}

#[test]
fn the_node_is_killed_after_the_plugin_did_each_step() {
    let test = "cluster::the_node_is_killed_after_the_plugin_did_each_step";
    run_in_namespace(test, async { kill_at_each_step(Victim::Node, "lose-reply") });
}

#[test]
fn all_processes_are_killed_at_each_step() {
    let test = "cluster::all_processes_are_killed_at_each_step";
    run_in_namespace(test, async { kill_at_each_step(Victim::All, "delay=1s") });
}

/// A certificate of a node is not the right to be any node, and none of it reaches what another node runs.
#[test]
fn a_node_with_the_id_of_another_one_and_not_its_secret_is_refused() {
    let test = "cluster::a_node_with_the_id_of_another_one_and_not_its_secret_is_refused";
    run_in_namespace(test, async {
        let mut cluster = Cluster::start(&[]);
        let machine = &cluster.machine;
        machine.create_volume_with(PLUGIN, "db", WRITER, "file-system");
        machine.run(&machine.job("web", "service", &volume("db", WRITER), WRITER_SCRIPT));
        machine.wait_for("web", "running", 1);
        let directory = machine.directory.path();
        std::fs::create_dir(directory.join("copy")).unwrap();
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(directory.join("copy"), private).unwrap();
        std::fs::copy(directory.join("node/node.id"), directory.join("copy/node.id")).unwrap();
        cluster.kill_node();
        cluster.write_node("copy.toml", "copy", "stranger");
        cluster.run_node_until("copy.toml", "the secret of the node is not the one on record");
        let nodes = cluster.machine.get("/v1/nodes");
        assert_eq!(nodes.as_array().unwrap().len(), 1, "{nodes:#}");
        assert!(!cluster.machine.tasks().is_empty(), "the task of the node runs on");
        cluster.kill_plugin();
        cluster.start_plugin();
        cluster.start_node();
        cluster.machine.stop("web");
        cluster.machine.wait_for("web", "complete", 1);
        cluster.machine.assert_no_claims();
        cluster.end();
    });
}

/// A server of another cluster ends nothing of a node that it does not know.
#[test]
fn a_server_of_another_cluster_stops_no_task() {
    let test = "cluster::a_server_of_another_cluster_stops_no_task";
    run_in_namespace(test, async {
        let mut cluster = Cluster::start(&[]);
        let machine = &cluster.machine;
        machine.create_volume_with(PLUGIN, "db", WRITER, "file-system");
        machine.run(&machine.job("web", "service", &volume("db", WRITER), WRITER_SCRIPT));
        machine.wait_for("web", "running", 1);
        cluster.kill_server();
        let directory = cluster.machine.directory.path().to_owned();
        std::fs::rename(directory.join("server"), directory.join("first")).unwrap();
        cluster.start_server();
        cluster.wait_for_node("belongs to cluster");
        assert!(!cluster.machine.tasks().is_empty());
        assert_eq!(cluster.machine.get("/v1/nodes"), json!([]));
        cluster.kill_server();
        std::fs::rename(directory.join("server"), directory.join("second")).unwrap();
        std::fs::rename(directory.join("first"), directory.join("server")).unwrap();
        cluster.start_server();
        cluster.machine.stop("web");
        cluster.machine.wait_for("web", "complete", 1);
        cluster.machine.assert_no_claims();
        assert_eq!(lines(&cluster), ["started", "stopped"]);
        cluster.end();
    });
}
