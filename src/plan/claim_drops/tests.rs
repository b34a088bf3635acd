//! Every combination of what is known about a claim.

use super::*;
use crate::{Removal, removal_problems};
use nomad_csi_model::{Alloc, ClientNode, ClientStatus, DesiredStatus, NodeId};

const FORCE: Removal = Removal::Deregister { force: true };

fn alloc(id: &str, node: &str, desired: DesiredStatus, client: ClientStatus) -> Alloc {
    Alloc {
        id: AllocId::new(id),
        node_id: NodeId::new(node),
        node_name: format!("name-{node}"),
        evaluation_id: String::new(),
        job_id: "mysql".into(),
        task_group: "db".into(),
        job_version: 3,
        desired,
        client,
        create_time: 0,
        modify_time: 0,
    }
}

fn volume(claims: &[&str], allocs: Vec<Alloc>) -> Volume {
    let document = serde_json::json!({
        "ID": "db", "Namespace": "default", "PluginID": "ebs", "ExternalID": "vol-1",
    });
    let document = nomad_csi_wire::decode_value(&document).unwrap();
    Volume {
        write_allocs: claims.iter().map(|id| AllocId::new(*id)).collect(),
        allocs,
        ..nomad_csi_wire::volume_from_wire(&document)
    }
}

fn node(id: &str, status: &str) -> ClientNode {
    ClientNode {
        id: NodeId::new(id),
        name: format!("name-{id}"),
        status: status.to_owned(),
        is_fenced: id == "fenced",
        has_returned: false,
        description: String::new(),
        modify_index: 0,
    }
}

/// Nodes of which some are away.
fn nodes() -> SeenNodes {
    SeenNodes::Read(vec![
        node("up", "ready"),
        node("down", "down"),
        node("disconnected", "disconnected"),
        node("initializing", "initializing"),
        node("fenced", "down"),
    ])
}

/// Nodes of which none is away.
fn all_up() -> SeenNodes {
    SeenNodes::Read(vec![node("up", "ready"), node("fenced", "down")])
}

/// Returns what stands against dropping the claims: the codes of the problems.
fn against(volume: &Volume, nodes: SeenNodes, cut_off: &[&str]) -> Vec<Code> {
    let drops = ClaimDrops { nodes, cut_off: cut_off.iter().map(|id| AllocId::new(*id)).collect() };
    let problems = removal_problems(volume, FORCE, &[], &drops);
    problems.iter().map(|problem| problem.code).collect()
}

#[test]
fn force_drops_only_claims_whose_end_is_proven_or_approved_by_name() {
    use ClientStatus::{Complete, Failed, Lost, Other, Pending, Running, Unknown};
    let clients = [Pending, Running, Complete, Failed, Lost, Unknown, Other("paused".into())];
    let desired = [
        DesiredStatus::Run,
        DesiredStatus::Stop,
        DesiredStatus::Evict,
        DesiredStatus::Other("x".into()),
    ];
    for client in clients {
        for desired in &desired {
            let on = |node: &str| {
                volume(&["a1"], vec![alloc("a1", node, desired.clone(), client.clone())])
            };
            let up = match client {
                Complete | Failed => vec![],
                Pending | Running | Lost | Unknown | Other(_) => vec![Code::VolumeInUse],
            };
            let case = format!("{client:?} {desired:?}");
            // An approval opens nothing that a client can still report.
            for cut_off in [&[][..], &["a1"]] {
                assert_eq!(against(&on("up"), nodes(), cut_off), up, "{case}");
                for away in ["down", "disconnected", "initializing", ""] {
                    let found = against(&on(away), nodes(), cut_off);
                    assert_eq!(found, [Code::VolumeInUse], "{case} {away}");
                }
                let unread = against(&on("up"), SeenNodes::default(), cut_off);
                assert_eq!(unread, [Code::VolumeInUse], "{case}");
            }
            for gone in ["purged", "fenced"] {
                for wrong in [&[][..], &["a"], &["a2"], &["A1"]] {
                    let found = against(&on(gone), nodes(), wrong);
                    assert_eq!(found, [Code::CliApprovalNeeded], "{case} {gone} {wrong:?}");
                }
                assert_eq!(against(&on(gone), nodes(), &["a1"]), [], "{case} {gone}");
            }
        }
    }
}

#[test]
fn a_claim_of_an_unknown_allocation_needs_an_approval_and_all_nodes() {
    let stuck = volume(&["gone"], vec![]);
    for cut_off in [&[][..], &["gone"]] {
        // It may run on a node that is away, or on one that the token does not see.
        assert_eq!(against(&stuck, nodes(), cut_off), [Code::VolumeInUse]);
        assert_eq!(against(&stuck, SeenNodes::default(), cut_off), [Code::VolumeInUse]);
    }
    assert_eq!(against(&stuck, all_up(), &[]), [Code::CliApprovalNeeded]);
    assert_eq!(against(&stuck, all_up(), &["gone"]), []);
}

#[test]
fn each_of_several_claims_is_decided_by_itself() {
    use ClientStatus::{Complete, Running};
    let several = |client| {
        volume(
            &["a1", "a2", "a3"],
            vec![
                alloc("a1", "up", DesiredStatus::Stop, Complete),
                alloc("a2", "up", DesiredStatus::Stop, client),
                alloc("a3", "purged", DesiredStatus::Stop, Running),
            ],
        )
    };
    let both = [Code::VolumeInUse, Code::CliApprovalNeeded];
    assert_eq!(against(&several(Running), nodes(), &[]), both);
    assert_eq!(against(&several(Running), nodes(), &["a3"]), [Code::VolumeInUse]);
    assert_eq!(against(&several(Complete), nodes(), &["a3"]), []);
    assert_eq!(against(&volume(&[], vec![]), SeenNodes::default(), &[]), []);
}

#[test]
fn a_refusal_names_the_allocation_its_node_and_the_reason() {
    let stopping =
        volume(&["a1"], vec![alloc("a1", "up", DesiredStatus::Stop, ClientStatus::Running)]);
    let drops = ClaimDrops { nodes: nodes(), ..ClaimDrops::default() };
    let problems = removal_problems(&stopping, FORCE, &[], &drops);
    assert_eq!(
        problems[0].notes,
        [
            "allocation a1: job mysql, group db, node name-up (up), running",
            "its client on node `name-up` has not reported the end of its tasks: it is running",
        ]
    );
    let unknown = removal_problems(&volume(&["gone"], vec![]), FORCE, &[], &drops);
    assert!(unknown[0].notes[1].contains("name-down (down, down)"), "{:?}", unknown[0].notes);
}
