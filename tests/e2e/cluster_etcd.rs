//! Two servers over a real etcd of three members, a node with its plugin, and a task that writes: servers and members are
//! killed and frozen, and a journal of a file is moved.

use std::os::unix::fs::PermissionsExt;

use rustix::process::Signal;

use crate::agent_process::program;
use crate::cluster_machine::{Cluster, PLUGIN};
use crate::etcd_process::{EtcdCluster, EtcdOptions, etcd_program};
use crate::hostpath_fixture::run_in_namespace;
use crate::http::Address;
use crate::job_machine::{WRITER, volume};
use crate::wait::until;

/// A script that says once that it started, and once that it was stopped.
const WRITER_SCRIPT: &str = "trap 'echo stopped >> /data/log; exit 0' TERM INT; echo started >> /data/log; \
                             while :; do sleep 0.1; done";

fn etcd(
    program: std::path::PathBuf,
    directory: &std::path::Path,
    options: EtcdOptions,
) -> EtcdCluster {
    let [a, b, ..] = std::process::id().to_le_bytes();
    EtcdCluster::start(program, directory, [a, b], options)
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
        let encrypted = EtcdOptions { has_tls: true, ..EtcdOptions::default() };
        let mut etcd = etcd(program, directory.path(), encrypted);
        let mut cluster = Cluster::start_over_etcd(etcd.section());
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
        assert_eq!(volume_ids(&cluster).len(), 13);
        let listed = until("the deposed server to follow", || {
            let answer = deposed.address.ask("GET", "/v1/volumes?type=csi", None).unwrap();
            (answer.status == 200).then(|| answer.json()).ok_or_else(|| answer.text())
        });
        assert_eq!(listed.as_array().unwrap().len(), 13, "{listed:#}");

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

/// B98: a node that knows only the server that does not lead is called through it, and clients use either server.
#[test]
fn a_standby_answers_as_the_leader_does_and_passes_the_calls_of_its_node_on() {
    let test =
        "cluster_etcd::a_standby_answers_as_the_leader_does_and_passes_the_calls_of_its_node_on";
    let Some(program) = etcd_program(test) else {
        return;
    };
    run_in_namespace(test, async {
        let directory = tempfile::tempdir().unwrap();
        let etcd = etcd(program, directory.path(), EtcdOptions::default());
        let mut cluster = Cluster::start_over_etcd(etcd.section());
        let second = cluster.start_standby("server-2");
        let standby = second.standing();
        cluster.stop_node();
        cluster.write_node_of_second();
        cluster.start_node();
        start_writer(&cluster);

        let leader = cluster.machine.address().clone();
        for number in 0..20 {
            let (writer, reader) = match number % 2 {
                0 => (&standby, &leader),
                _ => (&leader, &standby),
            };
            let body = serde_json::json!({"Name": format!("n{number}")});
            let written = writer.ask("PUT", "/v1/namespace", Some(&body)).unwrap();
            assert_eq!(written.status, 200, "{}", written.text());
            let read = reader.ask("GET", &format!("/v1/namespace/n{number}"), None).unwrap();
            assert_eq!(read.json()["Name"], body["Name"], "{number}");
        }
        let listed = |address: &Address| address.ask("GET", "/v1/volumes?type=csi", None).unwrap();
        assert_eq!(listed(&standby).json(), listed(&leader).json());
        let alloc = cluster.machine.allocs("web")[0]["ID"].as_str().unwrap().to_owned();
        let path = format!("/v1/client/fs/ls/{alloc}?path=/");
        let files = |address: &Address| address.ask("GET", &path, None).unwrap().json();
        assert_eq!(files(&standby), files(&leader));
        let refused = Address::without_token(standby.tcp());
        let refused = refused.ask("GET", &path, None).unwrap();
        assert_eq!(refused.status, 403, "{}", refused.text());
        let leads = standby.ask("GET", "/v1/status/leader", None).unwrap().json();
        assert_eq!(leads, leader.tcp().to_string());

        // The node is away with the server that passed its calls on, and comes back with it.
        drop(second);
        let second = cluster.start_standby("server-2");
        second.standing();
        wait_for_node(&cluster);
        cluster.machine.stop("web");
        cluster.machine.assert_no_claims();
        assert_eq!(written(&cluster), ["started", "stopped"]);

        // Without the first, the second leads, and the node is its own.
        cluster.kill_server();
        cluster.machine.agent = Some(second.ready());
        wait_for_node(&cluster);
        create(&cluster, "later");
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
        let etcd = etcd(etcd_path, directory.path(), EtcdOptions::default());
        let mut cluster = Cluster::start(&[]);
        start_writer(&cluster);
        assert!(cluster.machine.agent.take().unwrap().stop().success());
        cluster.configure_etcd(etcd.section());
        let base = cluster.path("");
        let refused = |words: &[&str]| {
            let mut command = program(words);
            let output = command.current_dir(&base).output().unwrap();
            assert!(!output.status.success(), "{words:?}");
            String::from_utf8(output.stderr).unwrap()
        };
        let start = ["agent", "server", "--config", "server.toml"];
        let error = refused(&start);
        assert!(error.contains("has a journal of its own"), "{error}");
        let migrate = ["agent", "migrate", "--from", "server", "--config", "server.toml"];
        let moved = cluster.run(&migrate);
        assert!(moved.starts_with("Moved the journal to etcd, up to event "), "{moved}");
        // Killed before its last step, it left the file under its name, and is run again.
        let (file, renamed) = ("server/journal.redb", "server/journal.moved.redb");
        std::fs::rename(cluster.path(renamed), cluster.path(file)).unwrap();
        assert_eq!(cluster.run(&migrate), moved);
        let error = refused(&migrate);
        assert!(error.contains("it has no journal"), "{error}");

        cluster.start_server();
        std::fs::rename(cluster.path(renamed), cluster.path(file)).unwrap();
        std::fs::write(cluster.path("other.toml"), other_directory(&cluster)).unwrap();
        let again = ["agent", "migrate", "--from", "server", "--config", "other.toml"];
        let error = refused(&again);
        assert!(error.contains("holds the lock of the data directory"), "{error}");
        let copy = ["agent", "migrate", "--from", "copy", "--config", "other.toml"];
        std::fs::create_dir(cluster.path("copy")).unwrap();
        std::fs::set_permissions(cluster.path("copy"), PermissionsExt::from_mode(0o700)).unwrap();
        for name in ["journal.redb", "secrets.key"] {
            let from = cluster.path("server").join(name);
            std::fs::copy(from, cluster.path("copy").join(name)).unwrap();
        }
        let error = refused(&copy);
        assert!(error.contains("server `server` leads"), "{error}");
        wait_for_node(&cluster);
        assert_eq!(volume_ids(&cluster), ["db"]);
        create(&cluster, "after");
        cluster.machine.stop("web");
        cluster.machine.assert_no_claims();
        assert_eq!(written(&cluster), ["started", "stopped"]);
        assert!(cluster.machine.agent.take().unwrap().stop().success());
        let error = refused(&copy);
        assert!(error.contains("etcd has another one below `etcd.prefix`"), "{error}");
        std::fs::rename(cluster.path(file), cluster.path(renamed)).unwrap();
        let text = std::fs::read_to_string(cluster.path("server.toml")).unwrap();
        let without = text.replace(&etcd.section(), "");
        std::fs::write(cluster.path("server.toml"), without).unwrap();
        let error = refused(&start);
        assert!(error.contains("was moved to etcd"), "{error}");
        std::fs::write(cluster.path("server.toml"), text).unwrap();
        cluster.start_server();
        cluster.end();
    });
}

/// The configuration of the server with another data directory.
fn other_directory(cluster: &Cluster) -> String {
    let text = std::fs::read_to_string(cluster.path("server.toml")).unwrap();
    text.replace("data_dir = 'server'", "data_dir = 'other'")
}

/// Without a quorum nothing can be decided: the server calls no node and answers nothing, and the task writes on.
#[test]
fn without_a_quorum_a_server_answers_nothing_and_stops_when_it_is_asked_to() {
    let test =
        "cluster_etcd::without_a_quorum_a_server_answers_nothing_and_stops_when_it_is_asked_to";
    let Some(program) = etcd_program(test) else {
        return;
    };
    run_in_namespace(test, async {
        let directory = tempfile::tempdir().unwrap();
        let mut etcd = etcd(program, directory.path(), EtcdOptions::default());
        let mut cluster = Cluster::start_over_etcd(etcd.section());
        start_writer(&cluster);
        let address = cluster.machine.address().clone();
        // A change is under way when the quorum goes, and its outcome stays unknown.
        etcd.kill(0);
        etcd.kill(1);
        let body = serde_json::json!({"Path": "app", "Items": {"key": "value"}});
        let changing = std::thread::spawn({
            let address = address.clone();
            move || address.ask("PUT", "/v1/var/app", Some(&body))
        });
        until("nothing to be answered", || {
            let answer = address.ask("GET", "/v1/volumes?type=csi", None).unwrap();
            let text = answer.text();
            (answer.status == 500 && text == "No cluster leader").then_some(()).ok_or(text)
        });
        assert_eq!(written(&cluster), ["started"]);
        assert!(cluster.machine.agent.take().unwrap().stop().success());
        let answer = changing.join().unwrap();
        assert!(!answer.is_ok_and(|answer| answer.status == 200));
        etcd.start_member(0);
        etcd.start_member(1);
        cluster.start_server();
        wait_for_node(&cluster);
        assert_eq!(volume_ids(&cluster), ["db"]);
        cluster.machine.stop("web");
        cluster.machine.assert_no_claims();
        assert_eq!(written(&cluster), ["started", "stopped"]);
        cluster.end();
    });
}

#[test]
fn a_full_etcd_refuses_growth_until_the_command_of_its_error_gave_space_back() {
    let test =
        "cluster_etcd::a_full_etcd_refuses_growth_until_the_command_of_its_error_gave_space_back";
    let Some(program) = etcd_program(test) else {
        return;
    };
    run_in_namespace(test, async {
        let directory = tempfile::tempdir().unwrap();
        let small = EtcdOptions { quota: Some(16 << 20), ..EtcdOptions::default() };
        let etcd = etcd(program, directory.path(), small);
        let cluster = Cluster::start_over_etcd(etcd.section());
        start_writer(&cluster);
        let address = cluster.machine.address().clone();
        let put = || {
            let items = serde_json::json!({"text": "x".repeat(60_000)});
            let body = serde_json::json!({"Path": "filler", "Items": items});
            address.ask("PUT", "/v1/var/filler", Some(&body)).unwrap()
        };
        let refused = until("etcd to be full", || {
            let answer = put();
            (answer.status != 200).then_some(answer).ok_or_else(|| "it has space".to_owned())
        });
        assert_eq!(refused.status, 500);
        assert!(refused.text().contains("more than 80 % of its quota"), "{}", refused.text());
        // A release goes on.
        cluster.machine.stop("web");
        cluster.machine.assert_no_claims();
        let reclaimed = cluster.run(&["agent", "etcd", "reclaim", "--config", "server.toml"]);
        assert_eq!(reclaimed.lines().count(), 3, "{reclaimed}");
        until("growth to be taken again", || {
            let answer = put();
            (answer.status == 200).then_some(()).ok_or_else(|| answer.text())
        });
        assert_eq!(written(&cluster), ["started", "stopped"]);
        drop(address);
        cluster.end();
    });
}
