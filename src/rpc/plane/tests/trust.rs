//! Which servers a node believes: no other cluster, no older state, no server that is not the leader.

use std::sync::atomic::Ordering;

use nomad_csi_model::NodeId;
use nomad_csi_ports::{ControlPlane as _, ControlPlaneError, NotLeader};

use super::bed::{
    Bed, Certificates, TestNode, TestPlane, TestServer, Warnings, assigned, at, profile, soon,
};
use crate::tls::role::Role;

/// Two servers with one list each, and a node that knows them.
struct Pair {
    planes: [std::sync::Arc<TestPlane>; 2],
    servers: [TestServer; 2],
    certificates: Certificates,
}

impl Pair {
    async fn new() -> Self {
        let certificates = Certificates::new();
        let planes = [TestPlane::new(at("c1", 5, 100)), TestPlane::new(at("c1", 5, 100))];
        let first = certificates.tls(Role::Server, "s1");
        let second = certificates.tls(Role::Server, "s2");
        let servers = [
            TestServer::start(&planes[0], first, "127.0.0.1:0").await,
            TestServer::start(&planes[1], second, "127.0.0.1:0").await,
        ];
        planes[0].control_of("n1").assign(assigned("of-first"));
        planes[1].control_of("n1").assign(assigned("of-second"));
        Self { planes, servers, certificates }
    }

    async fn node(&self, memory: Option<nomad_csi_ports::ClusterPosition>) -> TestNode {
        let tls = self.certificates.tls(Role::Node, "n1");
        let addresses = [self.servers[0].address, self.servers[1].address];
        TestNode::start(profile("n1", 1, "run-1"), tls, &addresses, memory).await
    }
}

/// Returns the only allocation of the first list that counts.
async fn listed(node: &TestNode) -> String {
    soon("a list", async {
        loop {
            match node.remote.assigned(None).await {
                Ok(list) => return list.allocs[0].id.as_str().to_owned(),
                Err(ControlPlaneError::Failed(_)) => tokio::task::yield_now().await,
                Err(ControlPlaneError::Stopping) => panic!("the node does not stop"),
            }
        }
    })
    .await
}

#[tokio::test]
async fn a_dead_server_is_passed_over() {
    let pair = Pair::new().await;
    let node = pair.node(None).await;
    for server in &pair.servers {
        server.wait_for_nodes(&["n1"]).await;
    }
    let [first, second] = pair.servers;
    first.stop().await;
    assert_eq!(listed(&node).await, "of-second");
    second.wait_for_nodes(&["n1"]).await;
}

#[tokio::test]
async fn a_server_that_is_not_the_leader_is_passed_over() {
    let pair = Pair::new().await;
    let node = pair.node(None).await;
    for server in &pair.servers {
        server.wait_for_nodes(&["n1"]).await;
    }
    for (number, name) in [(0, "of-second"), (1, "of-first"), (0, "of-second")] {
        let address = pair.servers[1 - number].address.to_string();
        *pair.planes[number].position.lock() = Err(NotLeader { leader: Some(address) });
        *pair.planes[1 - number].position.lock() = Ok(at("c1", 5, 100));
        assert_eq!(listed(&node).await, name);
        // Also those that wait go on at the leader.
        pair.planes[1 - number].control_of("n1").provide("data", "/t".into());
        let alloc = name.into();
        assert_eq!(
            soon("a mount", node.remote.mount(&alloc, &"data".into())).await,
            Ok("/t".into())
        );
    }
}

#[tokio::test]
async fn a_list_of_an_older_term_or_index_is_ignored() {
    for old in [at("c1", 4, 1_000), at("c1", 5, 99)] {
        let pair = Pair::new().await;
        *pair.planes[0].position.lock() = Ok(old);
        let node = pair.node(Some(at("c1", 5, 100))).await;
        for server in &pair.servers {
            server.wait_for_nodes(&["n1"]).await;
        }
        for _ in 0..3 {
            assert_eq!(listed(&node).await, "of-second");
        }
        let [_, second] = pair.servers;
        second.stop().await;
        // The old server is the only one that is left: a failure, and no list.
        let failed = soon("a failure", node.remote.assigned(None)).await;
        assert!(matches!(failed, Err(ControlPlaneError::Failed(_))), "{failed:?}");
        let mut waiting = std::pin::pin!(node.remote.assigned(Some(1)));
        assert!(futures_util::poll!(&mut waiting).is_pending());
        assert_eq!(*node.memory.0.lock(), Some(at("c1", 5, 100)));
    }
}

#[tokio::test]
async fn a_server_of_another_cluster_is_ignored_also_if_it_accepts_the_node() {
    let pair = Pair::new().await;
    *pair.planes[0].position.lock() = Ok(at("other", 9, 900));
    let node = pair.node(Some(at("c1", 5, 100))).await;
    pair.servers[1].wait_for_nodes(&["n1"]).await;
    for _ in 0..3 {
        assert_eq!(listed(&node).await, "of-second");
    }
    assert_eq!(pair.servers[0].nodes.nodes(), Vec::<NodeId>::new());
    // The first one becomes a member of the other cluster while it is connected.
    *pair.planes[1].position.lock() = Ok(at("other", 9, 900));
    let failed = soon("a failure", node.remote.assigned(None)).await;
    let Err(ControlPlaneError::Failed(reason)) = failed else { panic!("{failed:?}") };
    assert!(reason.contains("`other`") && reason.contains("run on"), "{reason}");
    assert_eq!(*node.memory.0.lock(), Some(at("c1", 5, 100)));
}

#[tokio::test]
async fn the_node_remembers_a_later_term_before_it_acts_on_its_list() {
    let bed = Bed::new().await;
    assert_eq!(*bed.node.memory.0.lock(), Some(at("c1", 5, 100)));
    bed.plane.control_of("n1").assign(assigned("a1"));
    *bed.plane.position.lock() = Ok(at("c1", 6, 150));
    assert_eq!(listed(&bed.node).await, "a1");
    assert_eq!(*bed.node.memory.0.lock(), Some(at("c1", 6, 150)));
    *bed.plane.position.lock() = Ok(at("c1", 5, 160));
    let failed = soon("a failure", bed.node.remote.assigned(None)).await;
    assert!(matches!(failed, Err(ControlPlaneError::Failed(_))), "{failed:?}");
}

/// No server is at fault for the disk of the node.
#[tokio::test]
async fn a_record_that_cannot_be_written_is_a_problem_of_the_node() {
    let warnings = Warnings::default();
    let _guard = tracing::subscriber::set_default(warnings.clone());
    let bed = Bed::new().await;
    bed.plane.control_of("n1").assign(assigned("a1"));
    assert_eq!(listed(&bed.node).await, "a1");
    bed.node.memory.1.store(true, Ordering::SeqCst);
    warnings.0.send_replace(vec![]);
    bed.plane.control_of("n1").stop(&"a1".into());
    let mut warned = warnings.0.subscribe();
    let own = |all: &Vec<String>| {
        let of_node = all.iter().filter(|one| one.contains("this node cannot record"));
        of_node.clone().any(|one| one.contains("the disk of the node is full"))
    };
    soon("a warning", warned.wait_for(own)).await.unwrap();
    let all = warnings.0.borrow().clone();
    let is_of_server = |one: &&String| one.contains("server.address");
    assert_eq!(all.iter().find(is_of_server), None, "{all:?}");
    bed.node.memory.1.store(false, Ordering::SeqCst);
    let list = soon("the list", async {
        loop {
            match bed.node.remote.assigned(None).await {
                Ok(list) if list.allocs[0].wants_stop => return list,
                Ok(_) | Err(_) => tokio::task::yield_now().await,
            }
        }
    });
    assert_eq!(list.await.allocs[0].id, "a1".into());
}
