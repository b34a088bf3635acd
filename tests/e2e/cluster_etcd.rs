//! Two servers over a real etcd of three members, a node with its plugin, and a task that writes: servers and members are
//! killed and frozen, and a journal of a file is moved.

use rustix::process::Signal;

use crate::agent_process::program;
use crate::cluster_machine::{Cluster, PLUGIN};
use crate::etcd_process::{EtcdCluster, etcd_program};
use crate::hostpath_fixture::run_in_namespace;
use crate::job_machine::{WRITER, volume};
use crate::wait::until;

/// A script that says once that it started, and once that it was stopped.
const WRITER_SCRIPT: &str = "trap 'echo stopped >> /data/log; exit 0' TERM INT; echo started >> /data/log; \
                             while :; do sleep 0.1; done";

fn etcd(program: std::path::PathBuf, directory: &std::path::Path) -> EtcdCluster {
    let [a, b, ..] = std::process::id().to_le_bytes();
    EtcdCluster::start(program, directory, [a, b])
}

/// What the tasks have written into volumes of the plugin.
fn written(cluster: &Cluster) -> Vec<String> {
    let volumes = cluster.path("state").join("volumes");
    let logs = std::fs::read_dir(volumes).into_iter().flatten().flatten();
    let texts = logs.filter_map(|volume| std::fs::read_to_string(volume.path().join("log")).ok());
    texts.collect::<String>().lines().map(ToOwned::to_owned).collect()
}

fn start_writer(cluster: &Cluster) {
    let machine = &cluster.machine;
    machine.create_volume_with(PLUGIN, "db", WRITER, "file-system");
    machine.run(&machine.job("web", "service", &volume("db", WRITER), WRITER_SCRIPT));
    machine.wait_for("web", "running", 1);
    until("the task to write", || {
        let lines = written(cluster);
        (lines == ["started"]).then_some(()).ok_or(format!("{lines:?}"))
    });
}

/// Waits until the node is connected to the server that leads.
fn wait_for_node(cluster: &Cluster) {
    until("the node to be ready", || {
        let nodes = cluster.machine.get("/v1/nodes");
        (nodes[0]["Status"] == "ready").then_some(()).ok_or_else(|| format!("{nodes:#}"))
    });
}

fn create(cluster: &Cluster, prefix: &str) {
    for number in 0..4 {
        let id = format!("{prefix}-{number}");
        cluster.machine.create_volume_with(PLUGIN, &id, WRITER, "file-system");
    }
}

fn volume_ids(cluster: &Cluster) -> Vec<String> {
    let volumes = cluster.machine.get("/v1/volumes?type=csi");
    let ids = volumes.as_array().unwrap().iter().map(|volume| volume["ID"].as_str().unwrap());
    let mut ids: Vec<_> = ids.map(ToOwned::to_owned).collect();
    ids.sort_unstable();
    ids
}

/// B46: the volume has one writer across every change of the leader, and the last one finishes the release.
#[test]
fn a_writer_goes_on_across_killed_and_frozen_servers_and_members_of_etcd() {
    let test =
        "cluster_etcd::a_writer_goes_on_across_killed_and_frozen_servers_and_members_of_etcd";
    let Some(program) = etcd_program(test) else {
        return;
    };
    run_in_namespace(test, async {
        let directory = tempfile::tempdir().unwrap();
        let mut etcd = etcd(program, directory.path());
        let mut cluster = Cluster::start_over_etcd(&etcd.endpoints());
        start_writer(&cluster);
        let second = cluster.start_standby("server-2");
        second.wait_for_text("server `server` leads");

        cluster.kill_server();
        cluster.machine.agent = Some(second.ready());
        wait_for_node(&cluster);
        assert_eq!(volume_ids(&cluster), ["db"]);
        assert_eq!(written(&cluster), ["started"], "the task goes on");

        let first = cluster.start_standby("server");
        first.wait_for_text("server `server-2` leads");
        etcd.freeze(0);
        create(&cluster, "frozen");
        etcd.thaw(0);
        etcd.kill(1);
        create(&cluster, "killed");
        etcd.start_member(1);

        // It is silent for longer than its lease, and goes on when another server leads.
        let deposed = cluster.machine.agent.take().unwrap();
        deposed.signal(Signal::STOP);
        cluster.machine.agent = Some(first.ready());
        wait_for_node(&cluster);
        create(&cluster, "later");
        deposed.signal(Signal::CONT);
        deposed.wait_for_lines(1, |line| line.contains("leads no more: it waits"));
        assert!(deposed.address.ask("GET", "/v1/volumes?type=csi", None).is_err());
        assert_eq!(volume_ids(&cluster).len(), 13);

        assert!(deposed.stop().success());
        let last = cluster.start_standby("server-2");
        last.wait_for_text("server `server` leads");
        cluster.machine.stop("web");
        cluster.kill_server();
        cluster.machine.agent = Some(last.ready());
        cluster.machine.assert_no_claims();
        assert_eq!(written(&cluster), ["started", "stopped"]);
        assert_eq!(volume_ids(&cluster).len(), 13);
        cluster.end();
    });
}

#[test]
fn a_server_moves_its_journal_to_etcd_while_a_task_writes() {
    let test = "cluster_etcd::a_server_moves_its_journal_to_etcd_while_a_task_writes";
    let Some(etcd_path) = etcd_program(test) else {
        return;
    };
    run_in_namespace(test, async {
        let directory = tempfile::tempdir().unwrap();
        let etcd = etcd(etcd_path, directory.path());
        let mut cluster = Cluster::start(&[]);
        start_writer(&cluster);
        assert!(cluster.machine.agent.take().unwrap().stop().success());
        cluster.configure_etcd(&etcd.endpoints());
        let refused = |words: &[&str]| {
            let mut command = program(words);
            let output = command.current_dir(cluster.path("")).output().unwrap();
            assert!(!output.status.success(), "{words:?}");
            String::from_utf8(output.stderr).unwrap()
        };
        let start = ["agent", "server", "--config", "server.toml"];
        let error = refused(&start);
        assert!(error.contains("has a journal of its own"), "{error}");
        let migrate = ["agent", "migrate", "--from", "server", "--config", "server.toml"];
        let moved = cluster.run(&migrate);
        assert!(moved.starts_with("Moved the journal to etcd, up to event "), "{moved}");
        let error = refused(&migrate);
        assert!(error.contains("it has no journal"), "{error}");

        cluster.start_server();
        wait_for_node(&cluster);
        assert_eq!(volume_ids(&cluster), ["db"]);
        create(&cluster, "after");
        cluster.machine.stop("web");
        cluster.machine.assert_no_claims();
        assert_eq!(written(&cluster), ["started", "stopped"]);
        let reclaimed = cluster.run(&["agent", "etcd", "reclaim", "--config", "server.toml"]);
        assert_eq!(reclaimed.lines().count(), 3, "{reclaimed}");
        cluster.end();
    });
}
