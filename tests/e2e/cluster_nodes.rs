//! Nodes that are away: their claims stay, whatever the silence means, until they return or an operator says that nothing
//! writes there.

use serde_json::Value;

use crate::cluster_fleet::Fleet;
use crate::hostpath_fixture::run_in_namespace;
use crate::wait::{until, until_true};
use nomad_csi_testing::namespace::mounts;

/// Writes the name of the node until it is stopped.
const WRITES: &str = "trap 'echo stopped >> /data/log; exit 0' TERM INT; \
                      while :; do echo $NOMAD_ALLOC_ID >> /data/log; sleep 0.05; done";

/// A fleet with an allocation that writes, and the name of its node.
fn fleet_with_writer() -> (Fleet, Value, &'static str) {
    let fleet = Fleet::start();
    let machine = &fleet.machine;
    machine.create_volume_with("shared", "db", "single-node-writer", "file-system");
    machine.run(&fleet.writer(WRITES));
    let alloc = machine.wait_for("web", "running", 1).remove(0);
    until_true("the task to write", || !fleet.lines().is_empty());
    let node = fleet.node_of(&alloc);
    (fleet, alloc, node)
}

fn id(value: &Value) -> String {
    value["ID"].as_str().unwrap().to_owned()
}

/// The writers of the volume, in the order of their writes: one that wrote again after another one is there twice.
fn writers(fleet: &Fleet) -> Vec<String> {
    let mut lines = fleet.lines();
    lines.retain(|line| line != "stopped");
    lines.dedup();
    lines
}

/// Waits until the server has placed a replacement, and returns it.
fn replacement(fleet: &Fleet, of: &Value) -> Value {
    until("a replacement to be placed", || {
        let allocs = fleet.machine.allocs("web");
        let found = allocs.iter().find(|alloc| alloc["ID"] != of["ID"]).cloned();
        found.ok_or_else(|| format!("{allocs:#?}"))
    })
}

/// The claim is the first allocation's, on its node, and no other node has been sent the volume.
fn assert_only_writer(fleet: &Fleet, alloc: &Value, node: &str) {
    let claims = fleet.machine.claims();
    let held: Vec<_> = claims.iter().filter(|claim| claim["State"] == "published").collect();
    assert_eq!(held.len(), 1, "{claims:#?}");
    assert_eq!(held[0]["AllocID"], alloc["ID"], "{claims:#?}");
    let staged = fleet.calls(&["NodeStageVolume"]);
    assert!(staged.iter().all(|call| call.node == format!("external-{node}")), "{staged:?}");
    assert!(fleet.calls(&["ControllerUnpublishVolume"]).is_empty());
}

/// W36, B43: the node's power is gone. The volume is used elsewhere only after an operator has said so, and after the
/// detach; the machine is swept when it returns.
#[test]
fn the_volume_of_a_machine_without_power_is_used_elsewhere_after_a_fence() {
    let test =
        "cluster_nodes::the_volume_of_a_machine_without_power_is_used_elsewhere_after_a_fence";
    run_in_namespace(test, async {
        let (mut fleet, first, node) = fleet_with_writer();
        let stateless = "while :; do sleep 0.1; done";
        let mut free = fleet.machine.job_without_volume("free", "service", stateless);
        free["TaskGroups"][0]["Count"] = 6.into();
        fleet.machine.run(&free);
        let placed = fleet.machine.wait_for("free", "running", 6);
        assert!(placed.iter().any(|alloc| fleet.node_of(alloc) == node), "{placed:#?}");
        fleet.power_off(node);
        fleet.wait_for_status(node, "disconnected");
        let down = fleet.wait_for_status(node, "down");
        let description = down["StatusDescription"].as_str().unwrap();
        assert!(description.contains("its claim stays until it returns or is fenced"), "{down:#}");
        let second = replacement(&fleet, &first);
        let seen = fleet.machine.get(&format!("/v1/allocation/{}", id(&first)));
        assert_eq!(
            (&seen["ClientStatus"], &seen["DesiredStatus"]),
            (&"unknown".into(), &"stop".into())
        );
        let waits = until("the replacement to say what it waits for", || {
            let alloc = fleet.machine.get(&format!("/v1/allocation/{}", id(&second)));
            let text = alloc["ClientDescription"].as_str().unwrap_or_default().to_owned();
            text.contains("node fence").then_some(text).ok_or_else(|| format!("{alloc:#}"))
        });
        assert!(waits.contains(&id(&first)), "{waits}");
        let advice = waits.split('`').find(|part| part.starts_with("nomad-csi node fence"));
        let advice: Vec<&str> = advice.unwrap().split(' ').skip(1).collect();
        let (_, found) = fleet.operate(&["volume", "doctor", "db"]);
        assert!(found.contains(&advice.join(" ")), "{found}");
        // What needs no volume of the node is elsewhere at once.
        let moved = fleet.machine.wait_for("free", "running", 6);
        assert!(moved.iter().all(|alloc| fleet.node_of(alloc) != node), "{moved:#?}");
        fleet.machine.stop("free");
        assert_only_writer(&fleet, &first, node);

        // Silence is no statement, at the desk or in the API.
        let (code, text) = fleet.operate(&["node", "fence", node, "--yes"]);
        assert_eq!(code, Some(4), "{text}");
        let path = format!("/v1/node/{}/fence", id(&fleet.node(node)));
        let answer = fleet.machine.address().ask("PUT", &path, None).unwrap();
        assert_eq!(answer.status, 400, "{}", answer.text());
        assert_only_writer(&fleet, &first, node);
        let (code, text) = fleet.operate(&[&advice[..], &["--yes"]].concat());
        assert_eq!(code, Some(0), "{text}");
        let other = fleet.node_of(&second);
        assert_ne!(other, node);
        until("the replacement to write", || {
            let found = writers(&fleet);
            (found == [id(&first), id(&second)]).then_some(()).ok_or_else(|| format!("{found:?}"))
        });
        let attached = fleet.calls(&["ControllerPublishVolume", "ControllerUnpublishVolume"]);
        let order: Vec<_> = attached.iter().map(|call| (&*call.rpc, call.node.clone())).collect();
        let expected = [
            ("ControllerPublishVolume", format!("external-{node}")),
            ("ControllerUnpublishVolume", format!("external-{node}")),
            ("ControllerPublishVolume", format!("external-{other}")),
        ];
        assert_eq!(order, expected);

        // The machine is back. What its tasks had mounted is undone before anything is placed there.
        let staged = |fleet: &Fleet| {
            let directory = fleet.machine.directory.path().join(node).display().to_string();
            mounts().into_iter().filter(|mount| mount.starts_with(&directory)).count()
        };
        assert!(staged(&fleet) > 0);
        fleet.start_plugin(node);
        fleet.start_node(node);
        fleet.wait_for_status(node, "ready");
        let (code, text) = fleet.operate(&["node", "unfence", node]);
        assert_eq!(code, Some(0), "{text}");
        until_true("the node to be swept", || fleet.node(node)["Fenced"].is_null());
        assert_eq!(staged(&fleet), 0);
        assert_eq!(writers(&fleet), [id(&first), id(&second)], "the old task wrote again");
        fleet.machine.stop("web");
        fleet.machine.assert_no_claims();
        fleet.end();
    });
}

#[derive(Clone, Copy, Debug)]
enum Silence {
    /// The agent of the node is killed. Its tasks write on.
    Killed,
    /// The agent of the node hangs, and its connection ends by pings. Its tasks write on.
    Frozen,
}

/// Silence is no end: the task of a node that is down writes on, alone, until the node returns and stops it.
fn silent_node_keeps_its_writer(silence: Silence) {
    let (mut fleet, first, node) = fleet_with_writer();
    match silence {
        Silence::Killed => fleet.kill_agent(node),
        Silence::Frozen => fleet.freeze_agent(node),
    }
    fleet.wait_for_status(node, "down");
    let second = replacement(&fleet, &first);
    let (code, text) = fleet.operate(&["node", "drain", node, "--enable", "--detach"]);
    assert_eq!(code, Some(0), "{text}");
    let (_, text) = fleet.operate(&["node", "status", node]);
    assert!(text.contains("its drain waits for it"), "{text}");
    let (code, text) = fleet.operate(&["node", "drain", node, "--disable"]);
    assert_eq!(code, Some(0), "{text}");
    // The replacement was refused at least once, and the task has written since.
    until("the replacement to wait", || {
        let alloc = fleet.machine.get(&format!("/v1/allocation/{}", id(&second)));
        let text = alloc["TaskStates"].to_string();
        text.contains("node fence").then_some(()).ok_or_else(|| format!("{alloc:#}"))
    });
    let before = fleet.lines().len();
    until_true("the first task to write on", || fleet.lines().len() > before + 20);
    assert_eq!(writers(&fleet), [id(&first)], "{silence:?}");
    assert_only_writer(&fleet, &first, node);
    // A restart of the server forgets nothing of it, and gives the node time.
    fleet.kill_server();
    fleet.start_server();
    assert_eq!(fleet.node(node)["Status"], "down");
    match silence {
        // A plugin that runs on may still carry out calls of an agent that was killed: it is called after its end only.
        Silence::Killed => {
            fleet.start_plugin(node);
            fleet.start_node(node);
        }
        Silence::Frozen => fleet.thaw_agent(node),
    }
    fleet.wait_for_status(node, "ready");
    until("the replacement to write", || {
        let found = writers(&fleet);
        (found == [id(&first), id(&second)]).then_some(()).ok_or_else(|| format!("{found:?}"))
    });
    let staged = fleet.calls(&[
        "NodeUnpublishVolume",
        "ControllerUnpublishVolume",
        "ControllerPublishVolume",
    ]);
    let names: Vec<_> = staged.iter().map(|call| &*call.rpc).collect();
    let expected = [
        "ControllerPublishVolume",
        "NodeUnpublishVolume",
        "ControllerUnpublishVolume",
        "ControllerPublishVolume",
    ];
    assert_eq!(names, expected, "{silence:?}");
    fleet.machine.stop("web");
    fleet.machine.assert_no_claims();
    fleet.end();
}

#[test]
fn the_writer_of_a_node_whose_agent_is_killed_stays_the_only_one() {
    let test = "cluster_nodes::the_writer_of_a_node_whose_agent_is_killed_stays_the_only_one";
    run_in_namespace(test, async { silent_node_keeps_its_writer(Silence::Killed) });
}

#[test]
fn the_writer_of_a_node_whose_agent_hangs_stays_the_only_one() {
    let test = "cluster_nodes::the_writer_of_a_node_whose_agent_hangs_stays_the_only_one";
    run_in_namespace(test, async { silent_node_keeps_its_writer(Silence::Frozen) });
}

/// A node that is connected is not off, and a second fence of a lost node says so.
#[test]
fn a_connected_node_is_not_fenced_as_powered_off() {
    let test = "cluster_nodes::a_connected_node_is_not_fenced_as_powered_off";
    run_in_namespace(test, async {
        let (fleet, first, node) = fleet_with_writer();
        let node_id = id(&fleet.node(node));
        let (code, text) = fleet.operate(&["node", "fence", node, "--powered-off", "--yes"]);
        assert_eq!(code, Some(1), "{text}");
        assert!(text.contains("it is up") && text.contains(&id(&first)), "{text}");
        for (statement, status) in [
            ("cuts_off={NODE}&statement=powered-off", 409),
            ("statement=cut-off-storage", 409),
            ("statement=unplugged", 400),
            ("controllers_stopped=true", 400),
            ("statement=cut-off-storage&controllers_stopped=perhaps", 400),
        ] {
            let path =
                format!("/v1/node/{node_id}/fence?{}", statement.replace("{NODE}", &node_id));
            let answer = fleet.machine.address().ask("PUT", &path, None).unwrap();
            assert_eq!(answer.status, status, "{statement}: {}", answer.text());
        }
        assert_only_writer(&fleet, &first, node);
        fleet.machine.stop("web");
        fleet.machine.assert_no_claims();
        fleet.end();
    });
}
