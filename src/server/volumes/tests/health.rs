//! The health of volumes in lists, and of one volume.

use super::*;
use crate::model::{
    ControllerCapabilities, ExternalVolume, NodeCapabilities, VolumeStatus, VolumeStatusKind,
};
use crate::ports::fake::Fault;
use crate::ports::{PageRequest, StatusCode};

fn reporting() -> PluginSettings {
    PluginSettings {
        controller: Some(ControllerCapabilities {
            create_delete_volume: true,
            list_volumes: true,
            get_volume_health: true,
            list_volume_health: true,
            ..ControllerCapabilities::default()
        }),
        node: Some(NodeCapabilities {
            stage_unstage_volume: true,
            get_volume_health: true,
            ..NodeCapabilities::default()
        }),
        health_page: 1,
        ..PluginSettings::default()
    }
}

fn lost(reason: &str) -> VolumeStatus {
    VolumeStatus {
        kind: VolumeStatusKind::DataLoss,
        reason: reason.to_owned(),
        message: String::new(),
    }
}

async fn agent_with_volumes(ids: &[&str]) -> FakeAgent {
    let agent = FakeAgent::start(reporting()).await.unwrap();
    for id in ids {
        let id = ExternalId::new(*id);
        agent.backend.add_volume(id, Default::default());
    }
    agent
}

async fn listed(agent: &FakeAgent) -> Vec<ExternalVolume> {
    let page = PageRequest::default();
    let listed = agent.volumes.list_external(FakeAgent::PLUGIN.into(), page);
    listed.await.unwrap().entries
}

fn healths(volumes: &[ExternalVolume]) -> Vec<Option<&[VolumeStatus]>> {
    volumes.iter().map(|one| one.health.as_deref()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_list_has_the_health_of_every_volume() {
    let agent = agent_with_volumes(&["a", "b", "c"]).await;
    for id in ["a", "c"] {
        agent.backend.set_volume_health(id.into(), vec![lost(id)]);
    }
    let volumes = listed(&agent).await;
    assert_eq!(
        healths(&volumes),
        [Some([lost("a")].as_slice()), Some(&[]), Some(&[lost("c")])]
    );
    assert_eq!(agent.backend.count(Rpc::ControllerListVolumeHealth), 2);
}

/// CSI 1.13, ControllerListVolumeHealth Errors: after a bad token the list begins again.
#[tokio::test(start_paused = true)]
async fn a_bad_token_begins_the_list_again() {
    let agent = agent_with_volumes(&["a", "b"]).await;
    for id in ["a", "b"] {
        agent.backend.set_volume_health(id.into(), vec![lost(id)]);
    }
    let rpc = Rpc::ControllerListVolumeHealth;
    // A list is the same twice; the second page is refused once.
    let faults = [Fault::ApplyTwice, Fault::Fail(StatusCode::Aborted)];
    agent.backend.inject_faults(rpc, faults);
    let volumes = listed(&agent).await;
    let [a, b] = [[lost("a")], [lost("b")]];
    assert_eq!(healths(&volumes), [Some(a.as_slice()), Some(&b)]);
    assert_eq!(agent.backend.count(rpc), 4, "two pages, twice");
}

#[tokio::test(start_paused = true)]
async fn a_list_succeeds_while_its_health_is_unknown() {
    let agent = agent_with_volumes(&["a"]).await;
    let faults = [Fault::Fail(StatusCode::Internal)];
    let rpc = Rpc::ControllerListVolumeHealth;
    agent.backend.inject_faults(rpc, faults);
    assert_eq!(healths(&listed(&agent).await), [None]);
}

#[tokio::test(start_paused = true)]
async fn the_health_of_one_volume_is_that_of_its_controller() {
    let agent = agent_with_volumes(&[]).await;
    agent.create(FakeAgent::request("db")).await.unwrap();
    let key = FakeAgent::key("db");
    let health = agent.volumes.health(key.clone()).await.unwrap();
    assert_eq!(health, Default::default());
    let id = ExternalId::new("fake-1");
    agent.backend.set_volume_health(id, vec![lost("Gone")]);
    let health = agent.volumes.health(key.clone()).await.unwrap();
    assert_eq!(health.statuses, [(None, lost("Gone"))]);
    let faults = [Fault::Fail(StatusCode::Internal)];
    let rpc = Rpc::ControllerGetVolumeHealth;
    agent.backend.inject_faults(rpc, faults);
    let health = agent.volumes.health(key).await.unwrap();
    assert_eq!((health.statuses.len(), health.unknown.len()), (0, 1));
    let missing = agent.volumes.health(FakeAgent::key("no")).await;
    assert!(matches!(missing, Err(ServerError::NoVolumeToRead)));
}
