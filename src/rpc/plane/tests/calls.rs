//! Every call of the ports arrives, and its answer comes back.

use std::path::PathBuf;

use nomad_csi_model::{
    AllocReport, ClientStatus, Health, Namespace, NamespacedId, PluginInstance, RemoteVolume,
    VolumeId,
};
use nomad_csi_ports::{
    ControlPlane as _, ControlPlaneError, LostMount, MountAction, MountDelay, MountEvent,
    MountObserver as _, MountRefused, PluginObserver as _,
};

use super::bed::{Bed, CANARY, TestServer, assigned, soon};
use crate::tls::role::Role;

fn report(status: ClientStatus) -> AllocReport {
    AllocReport { status, description: "Tasks are running".to_owned(), tasks: [].into() }
}

fn instance() -> PluginInstance {
    PluginInstance {
        process: Some("1:2".into()),
        alloc_id: "a1".into(),
        health: Health { healthy: true, description: "ready".to_owned() },
        updated_at: 7,
        provider: "host".to_owned(),
        provider_version: "1".to_owned(),
        requires_controller: true,
        requires_topologies: false,
        controller: None,
        node: None,
    }
}

#[tokio::test]
async fn every_answer_of_the_server_reaches_the_node() {
    let bed = Bed::new().await;
    let (control, node) = (bed.plane.control_of("n1"), &bed.node.remote);
    control.assign(assigned("a1"));
    let (alloc, alias) = ("a1".into(), "data".into());

    let path = PathBuf::from("/var/lib/é/\u{7f}target");
    control.provide("data", path.clone());
    assert_eq!(soon("a mount", node.mount(&alloc, &alias)).await, Ok(path));
    for is_final in [true, false] {
        control.refuse("data", "in use", is_final);
        let refused = soon("a refusal", node.mount(&alloc, &alias)).await;
        assert_eq!(refused, Err(MountRefused { message: "in use".to_owned(), is_final }));
    }

    let change = node.wait_for_claim_change(&alloc, &alias);
    let provide = async { control.provide("data", "/t".into()) };
    let (changed, ()) = soon("a change", async { tokio::join!(change, provide) }).await;
    assert_eq!(changed, Ok(()));

    let delay = |text: &str| MountDelay { message: text.to_owned() };
    control.delay("data", delay("slow"));
    let first = soon("a delay", node.wait_for_mount_delay(&alloc, &alias, None)).await;
    assert_eq!(first, Ok(delay("slow")));
    let (known, other) = (delay("slow"), async { control.delay("data", delay("slower")) });
    let next = node.wait_for_mount_delay(&alloc, &alias, Some(&known));
    let (next, ()) = soon("the next delay", async { tokio::join!(next, other) }).await;
    assert_eq!(next, Ok(delay("slower")));

    let target = LostMount::Target { alloc: alloc.clone(), alias: alias.clone() };
    let volume = RemoteVolume { plugin_id: "p".into(), external_id: "v".into() };
    let staging = LostMount::Staging(volume);
    for lost in [&target, &staging] {
        soon("a loss", node.note_lost(lost, "unmounted")).await.unwrap();
    }
    assert_eq!(control.lost(), [target, staging]);

    soon("a cut-off", node.note_cut_off(&alloc, &alias)).await.unwrap();
    assert_eq!(control.wait_for_given_back(1).await, [(alloc.clone(), alias)]);

    let running = report(ClientStatus::Running);
    soon("a report", node.report(&alloc, running.clone())).await.unwrap();
    assert_eq!(control.reports(&alloc), std::slice::from_ref(&running));
    control.refuse_reports(1);
    let failed = soon("a failure", node.report(&alloc, running)).await;
    assert_eq!(failed, Err(ControlPlaneError::Failed("the disk is full".to_owned())));
}

#[tokio::test]
async fn what_a_node_reports_of_its_plugins_and_mounts_is_recorded_as_its_own() {
    let bed = Bed::new().await;
    let node = &bed.node.remote;
    let (plugin, own, other) = ("p".into(), "n1".into(), "n2".into());
    soon("a change", node.changed(&plugin, &own, instance())).await.unwrap();
    soon("an end", node.gone(&plugin, &"a1".into())).await.unwrap();
    let refused = soon("a refusal", node.gone(&plugin, &"foreign".into())).await.unwrap_err();
    assert_eq!(refused.reason, "it is of another node");
    let refused = soon("a refusal", node.changed(&plugin, &other, instance())).await.unwrap_err();
    assert!(refused.reason.contains("`n2`"), "{refused}");
    let expected = [format!("n1: p on n1: {:?}", instance()), "n1: p a1 gone".to_owned()];
    assert_eq!(*bed.plane.plugins.borrow(), expected);

    let event = |action, alloc: Option<&str>, error: Option<&str>| MountEvent {
        volume: NamespacedId::new(Namespace::new("prod"), VolumeId::new("db")),
        alloc: alloc.map(Into::into),
        action,
        error: error.map(str::to_owned),
    };
    let sent = [
        event(MountAction::Mount, Some("a1"), None),
        event(MountAction::Unmount, None, Some("busy")),
        event(MountAction::Keep, Some("a1"), Some("/kept")),
    ];
    for event in &sent {
        node.observed(event.clone());
    }
    let mut events = bed.plane.events.subscribe();
    soon("the events", events.wait_for(|all| all.len() >= sent.len())).await.unwrap();
    let expected = sent.map(|event| ("n1".into(), event));
    assert_eq!(*bed.plane.events.borrow(), expected);
}

#[tokio::test]
async fn calls_that_wait_survive_a_restart_of_the_server_and_reports_fail_until_then() {
    let bed = Bed::new().await;
    let (plane, node) = (bed.plane, bed.node);
    let control = plane.control_of("n1");
    control.assign(assigned("a1"));
    let delay = MountDelay { message: "slow".to_owned() };
    control.delay("data", delay.clone());
    let (alloc, alias) = ("a1".into(), "data".into());
    let mounting = {
        let remote = node.remote.clone();
        tokio::spawn(async move { remote.mount(&"a1".into(), &"data".into()).await })
    };
    // The mount waits at the server: its delay is there.
    let shown = soon("a delay", node.remote.wait_for_mount_delay(&alloc, &alias, None)).await;
    assert_eq!(shown, Ok(delay));
    let known = MountDelay { message: "slow".to_owned() };
    let remote = node.remote.clone();
    let waiting = remote.wait_for_mount_delay(&alloc, &alias, Some(&known));
    let mut waiting = std::pin::pin!(waiting);
    assert!(futures_util::poll!(&mut waiting).is_pending());

    let address = bed.server.address.to_string();
    bed.server.stop().await;
    // The wait for a server takes no time here.
    tokio::time::pause();
    let failed = soon("a failure", node.remote.report(&alloc, report(ClientStatus::Running))).await;
    assert!(matches!(failed, Err(ControlPlaneError::Failed(_))), "{failed:?}");
    tokio::time::resume();
    assert!(!mounting.is_finished());

    let tls = bed.certificates.tls(Role::Server, "s1");
    let server = TestServer::start(&plane, tls, &address).await;
    server.wait_for_nodes(&["n1"]).await;
    soon("a report", node.remote.report(&alloc, report(ClientStatus::Running))).await.unwrap();
    control.delay("data", MountDelay { message: "slower".to_owned() });
    let shown = soon("the next delay", waiting).await;
    assert_eq!(shown, Ok(MountDelay { message: "slower".to_owned() }));
    control.provide("data", "/t".into());
    assert_eq!(soon("the mount", mounting).await.unwrap(), Ok("/t".into()));
    node.stop().await;
    server.wait_for_nodes(&[]).await;
}

#[tokio::test]
async fn no_message_and_no_error_shows_a_secret() {
    let bed = Bed::new().await;
    bed.plane.control_of("n1").assign(assigned("a1"));
    let listed = soon("a list", bed.node.remote.assigned(None)).await.unwrap();
    let json = serde_json::to_string(listed.allocs[0].job.as_ref()).unwrap();
    assert!(json.contains(CANARY), "the node needs it");
    assert!(!format!("{listed:?}").contains(CANARY));
    let broken = json.replace("\"priority\":50", &format!("\"priority\":\"{CANARY}\""));
    assert_ne!(broken, json);
    let broken = broken.into_bytes();
    let message =
        super::super::messages::Assigned { id: "a".to_owned(), job: broken, ..Default::default() };
    let part = super::super::messages::AllocsPart {
        position: Some(super::super::convert::position_message(&super::bed::at("c1", 5, 100))),
        is_first: true,
        is_last: true,
        items: vec![super::super::messages::AllocsItem {
            item: Some(super::super::messages::allocs_item::Item::Assigned(message)),
        }],
        ..Default::default()
    };
    let (_, list) = super::super::alloc_list::ListDecoder::default().add(part).unwrap().unwrap();
    assert_eq!(list.unreadable.len(), 1);
    assert!(!format!("{list:?}").contains(CANARY), "{list:?}");
}
