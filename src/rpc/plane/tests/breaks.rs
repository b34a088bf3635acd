//! Connections that break, and servers that are silent.

use std::net::SocketAddr;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use nomad_csi_model::{AllocReport, ClientStatus, Health, PluginInstance, RemoteVolume};
use nomad_csi_ports::{
    ControlPlane as _, ControlPlaneError, LostMount, MountDelay, PluginObserver as _,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::Instant;

use super::super::remote::RemoteControlPlane;
use super::bed::{Bed, Certificates, TestNode, TestPlane, TestServer, assigned, at, profile, soon};
use crate::tls::role::Role;

type Call = fn(Arc<RemoteControlPlane>, u64) -> BoxFuture<'static, Result<(), String>>;

fn instance() -> PluginInstance {
    PluginInstance {
        process: Some("1:2".into()),
        alloc_id: "a1".into(),
        health: Health { healthy: true, description: String::new() },
        updated_at: 7,
        provider: "host".to_owned(),
        provider_version: "1".to_owned(),
        requires_controller: true,
        requires_topologies: false,
        controller: None,
        node: None,
    }
}

fn text<T, E: ToString>(result: Result<T, E>) -> Result<(), String> {
    result.map(|_| ()).map_err(|error| error.to_string())
}

/// Every call of the ports that waits for its answer.
fn calls() -> [(&'static str, Call); 10] {
    [
        ("assigned", |node, _| async move { text(node.assigned(None).await) }.boxed()),
        ("the next list", |node, after| {
            async move { text(node.assigned(Some(after)).await) }.boxed()
        }),
        ("mount", |node, _| {
            async move { text(node.mount(&"a1".into(), &"data".into()).await) }.boxed()
        }),
        ("wait_for_mount_delay", |node, _| {
            let call = async move {
                text(node.wait_for_mount_delay(&"a1".into(), &"slow".into(), None).await)
            };
            call.boxed()
        }),
        ("wait_for_claim_change", |node, _| {
            async move { text(node.wait_for_claim_change(&"a1".into(), &"data".into()).await) }
                .boxed()
        }),
        ("note_lost", |node, _| {
            let volume = RemoteVolume { plugin_id: "p".into(), external_id: "v".into() };
            async move { text(node.note_lost(&LostMount::Staging(volume), "gone").await) }.boxed()
        }),
        ("note_cut_off", |node, _| {
            async move { text(node.note_cut_off(&"a1".into(), &"data".into()).await) }.boxed()
        }),
        ("report", |node, _| {
            let status = ClientStatus::Running;
            let report = AllocReport { status, description: String::new(), tasks: [].into() };
            async move { text(node.report(&"a1".into(), report).await) }.boxed()
        }),
        ("changed", |node, _| {
            async move { text(node.changed(&"p".into(), &"n1".into(), instance()).await) }.boxed()
        }),
        ("gone", |node, _| async move { text(node.gone(&"p".into(), &"a1".into()).await) }.boxed()),
    ]
}

#[tokio::test]
async fn a_call_whose_connection_breaks_is_answered_by_the_other_server() {
    for (name, call) in calls() {
        let certificates = Certificates::new();
        let planes = [TestPlane::new(at("c1", 5, 100)), TestPlane::new(at("c1", 5, 100))];
        let mut servers = vec![];
        for (number, plane) in planes.iter().enumerate() {
            let control = plane.control_of("n1");
            control.assign(assigned("a1"));
            control.provide("data", "/t".into());
            control.delay("slow", MountDelay { message: "slow".to_owned() });
            let tls = certificates.tls(Role::Server, &format!("s{number}"));
            servers.push(TestServer::start(plane, tls, "127.0.0.1:0").await);
        }
        let tls = certificates.tls(Role::Node, "n1");
        let addresses: Vec<SocketAddr> = servers.iter().map(|server| server.address).collect();
        let node = TestNode::start(profile("n1", 1, "run"), tls, &addresses, None).await;
        for server in &servers {
            server.wait_for_nodes(&["n1"]).await;
        }
        let mut listed = soon("a list", node.remote.assigned(Some(0))).await.unwrap();
        for plane in &planes {
            plane.gate.close();
        }
        let is_next_list = name == "the next list";
        if is_next_list {
            // The stream has passed the gate, and is stopped there after one more list.
            planes.iter().for_each(|plane| plane.control_of("n1").assign(assigned("a2")));
            listed = soon("a list", node.remote.assigned(Some(listed.revision))).await.unwrap();
        }
        let before = match is_next_list {
            true => [0, 0],
            false => [planes[0].gate.arrivals(), planes[1].gate.arrivals()],
        };
        let calling = tokio::spawn(call(node.remote.clone(), listed.revision));
        let asked = soon(name, async {
            tokio::select! {
                () = planes[0].gate.wait_for_arrivals(before[0] + 1) => 0,
                () = planes[1].gate.wait_for_arrivals(before[1] + 1) => 1,
            }
        })
        .await;
        assert!(!calling.is_finished(), "{name}");
        if is_next_list {
            planes.iter().for_each(|plane| plane.control_of("n1").assign(assigned("a3")));
        }
        planes[1 - asked].gate.open();
        servers.remove(asked).stop().await;
        let ended = soon(name, calling).await.unwrap();
        match name {
            // Its caller asks again.
            "assigned" => {
                assert!(ended.unwrap_err().contains("did not answer"));
                soon("a list", node.remote.assigned(None)).await.unwrap();
            }
            _ => assert_eq!(ended, Ok(()), "{name}"),
        }
        node.stop().await;
    }
}

#[tokio::test]
async fn a_registration_whose_connection_breaks_is_repeated() {
    let certificates = Certificates::new();
    let plane = TestPlane::new(at("c1", 5, 100));
    plane.gate.close();
    let tls = certificates.tls(Role::Server, "s1");
    let server = TestServer::start(&plane, tls, "127.0.0.1:0").await;
    let address = server.address;
    let tls = certificates.tls(Role::Node, "n1");
    let _node = TestNode::start(profile("n1", 1, "run"), tls, &[address], None).await;
    soon("a registration", plane.gate.wait_for_arrivals(1)).await;
    server.stop().await;
    plane.gate.open();
    let tls = certificates.tls(Role::Server, "s1");
    let server = TestServer::start(&plane, tls, &address.to_string()).await;
    server.wait_for_nodes(&["n1"]).await;
}

/// Passes bytes on until it is frozen. Then connections stay open, and silent.
async fn start_proxy(server: SocketAddr, frozen: watch::Receiver<bool>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((from_node, _)) = listener.accept().await {
            let to_server = TcpStream::connect(server).await.unwrap();
            let (node, server) = (from_node.into_split(), to_server.into_split());
            for (mut from, mut to) in [(node.0, server.1), (server.0, node.1)] {
                let frozen = frozen.clone();
                tokio::spawn(async move {
                    let mut bytes = vec![0; 4_096];
                    while let Ok(read @ 1..) = from.read(&mut bytes).await {
                        if *frozen.borrow() {
                            std::future::pending::<()>().await;
                        }
                        to.write_all(&bytes[..read]).await.ok();
                    }
                });
            }
        }
    });
    address
}

#[tokio::test]
async fn both_ends_of_a_silent_connection_give_it_up_after_seconds() {
    let certificates = Certificates::new();
    let plane = TestPlane::new(at("c1", 5, 100));
    let tls = certificates.tls(Role::Server, "s1");
    let server = TestServer::start(&plane, tls, "127.0.0.1:0").await;
    let (freeze, frozen) = watch::channel(false);
    let proxy = start_proxy(server.address, frozen).await;
    let tls = certificates.tls(Role::Node, "n1");
    let node = TestNode::start(profile("n1", 1, "run"), tls, &[proxy], None).await;
    server.wait_for_nodes(&["n1"]).await;
    soon("a list", node.remote.assigned(None)).await.unwrap();

    freeze.send_replace(true);
    tokio::time::pause();
    let begun = Instant::now();
    let failed = soon("a failure", node.remote.assigned(None)).await;
    assert!(matches!(failed, Err(ControlPlaneError::Failed(_))), "{failed:?}");
    server.wait_for_nodes(&[]).await;
    let took = begun.elapsed().as_secs();
    assert!((5..=16).contains(&took), "{took} s");

    freeze.send_replace(false);
    tokio::time::resume();
    server.wait_for_nodes(&["n1"]).await;
}

#[tokio::test]
async fn a_node_that_is_gone_leaves_no_call_at_the_server() {
    let bed = Bed::new().await;
    let channel = bed.server.nodes.channel(&"n1".into()).unwrap();
    bed.node.stop().await;
    soon("the channel ends", channel.ended()).await;
    bed.server.wait_for_nodes(&[]).await;
    assert!(bed.server.nodes.channel(&"n1".into()).is_none());
}
