//! Claims beside registrations: a registration changes no claim, and every call of a claim carries what
//! the registration says.

use std::collections::BTreeSet;
use std::time::Duration;

use nomad_csi_claims::state::{State, Table, Topic, volume};
use nomad_csi_model::{AccessMode, Bytes, ExternalId, Secrets, Volume, VolumeRequest};
use nomad_csi_ports::{Clock as _, Rpc};
use nomad_csi_server::fake::FakeAgent;
use nomad_csi_testing::{Fault, PluginSettings};

use super::claims::{
    LONG, PLUGINS, agent_on, agent_with, assert_nothing_is_left, claim, held_claims, mount,
    release, request, settings,
};

const MODE: AccessMode = AccessMode::SingleNodeWriter;

fn token(value: &str) -> Secrets {
    Secrets::from_iter([("token", value)])
}

/// A registration of the volume with other secrets.
fn with_secrets(value: &str) -> VolumeRequest {
    VolumeRequest { secrets: Some(token(value)), ..request(MODE) }
}

fn shown(agent: &FakeAgent) -> Volume {
    volume(&agent.state(), &FakeAgent::key("db")).unwrap().volume()
}

/// B10, W08: a claim that is granted while the plugin validates a registration stays.
#[tokio::test(start_paused = true)]
async fn a_claim_during_a_registration_is_kept() {
    let agent = agent_with(PLUGINS[0], MODE).await;
    agent.backend.inject_faults(Rpc::ValidateVolumeCapabilities, [Fault::Hang]);
    let arrived = agent.backend.calls().len() as u64 + 1;
    let granted = async {
        agent.backend.wait_for_calls(arrived).await;
        let claims = &agent.services.claims;
        claims.claim(&mount("a1"), Duration::ZERO).await.unwrap();
        agent.backend.release();
    };
    let registered = agent.volumes.register(vec![with_secrets("new").into()]);
    let (registered, ()) = tokio::join!(registered, granted);
    registered.unwrap();
    assert_eq!(held_claims(&agent.state()), ["a1".into()]);
    claim(&agent, "a1").await.unwrap();
    release(&agent, "a1").await.unwrap();
    assert_nothing_is_left(&agent, "");
}

/// B09, B21: registering a volume again keeps its claims, modes, external ID and context.
#[tokio::test(start_paused = true)]
async fn registering_a_claimed_volume_changes_no_claim() {
    let agent = agent_with(PLUGINS[0], MODE).await;
    claim(&agent, "a1").await.unwrap();
    let claims = |agent: &FakeAgent| agent.state().all_claims().cloned().collect::<Vec<_>>();
    let before = (claims(&agent), shown(&agent));
    let registered = agent.volumes.register(vec![with_secrets("new").into()]);
    registered.await.unwrap();
    let after = shown(&agent);
    assert_eq!(claims(&agent), before.0);
    assert_eq!(after.access_mode, Some(MODE));
    assert!(!after.context.is_empty());
    let written = Volume {
        modify_index: after.modify_index,
        modify_time: after.modify_time,
        spec_index: after.spec_index,
        ..before.1
    };
    assert_eq!(after, written);
}

/// B24, B25, B26: the plugin requires its secrets in every call of a claim that can carry them, and
/// refuses the earlier ones after they were replaced.
#[tokio::test(start_paused = true)]
async fn every_call_of_a_claim_carries_the_registered_secrets() {
    let agent = agent_on(settings(PLUGINS[0]), MODE).await;
    for value in ["first", "second"] {
        let secrets = token(value);
        agent.backend.update_settings(|plugin| plugin.secrets = secrets);
        let registered = agent.volumes.register(vec![with_secrets(value).into()]);
        registered.await.unwrap();
        claim(&agent, "a1").await.unwrap();
        release(&agent, "a1").await.unwrap();
        assert_nothing_is_left(&agent, value);
    }
}

/// B35: without an external ID, every call about the volume names it by its ID, from its registration to its deletion.
#[tokio::test(start_paused = true)]
async fn a_volume_without_an_external_id_is_named_by_its_id_in_every_call() {
    let mut settings = settings(PLUGINS[0]);
    settings.node_expansion_required = true;
    if let (Some(controller), Some(node)) = (&mut settings.controller, &mut settings.node) {
        controller.expand_volume = true;
        node.expand_volume = true;
    }
    let agent = FakeAgent::start(settings).await.unwrap();
    agent.record_start().await;
    let (key, id) = (FakeAgent::key("db"), ExternalId::new("db"));
    agent.backend.add_volume(id, Default::default());
    let registered = agent.volumes.register(vec![request(MODE).into()]);
    registered.await.unwrap();
    assert_eq!(shown(&agent).external_id, None);
    claim(&agent, "a1").await.unwrap();
    let mut larger = request(MODE);
    larger.capacity.min = Bytes::new(2 << 30).unwrap();
    agent.volumes.register(vec![larger.into()]).await.unwrap();
    let topics = |_: &State| vec![Topic::all(Table::Claims), Topic::all(Table::Volumes)];
    let is_expanded = |state: &State| !state.record(&key).unwrap().node_expansion_pending;
    let expanded = agent.cell.wait_until(topics, is_expanded);
    tokio::time::timeout(LONG, expanded).await.unwrap().unwrap();
    release(&agent, "a1").await.unwrap();
    agent.volumes.delete(key, Default::default()).await.unwrap();
    let calls = agent.backend.calls();
    for rpc in [
        Rpc::ValidateVolumeCapabilities,
        Rpc::ControllerPublishVolume,
        Rpc::NodeStageVolume,
        Rpc::NodePublishVolume,
        Rpc::ControllerExpandVolume,
        Rpc::NodeExpandVolume,
        Rpc::NodeUnpublishVolume,
        Rpc::NodeUnstageVolume,
        Rpc::ControllerUnpublishVolume,
        Rpc::DeleteVolume,
    ] {
        let own = calls.iter().filter(|call| call.rpc == rpc);
        let named: BTreeSet<_> = own.map(|call| call.subject.as_str()).collect();
        assert_eq!(named, ["db"].into(), "{rpc}");
    }
    assert_nothing_is_left(&agent, "");
}

/// W35: the server sets the time of a claim, and the volume shows it as its last change.
#[tokio::test(start_paused = true)]
async fn a_claim_has_the_time_of_the_server() {
    let agent = agent_with(PLUGINS[0], MODE).await;
    for minutes in [1, 2] {
        agent.clock.advance(Duration::from_secs(60 * minutes));
        let now = agent.clock.now();
        let claimed = claim(&agent, "a1").await.unwrap();
        assert_eq!(claimed.claim.unwrap().granted_at, now);
        assert_eq!(shown(&agent).modify_time, now);
        release(&agent, "a1").await.unwrap();
    }
}

/// W45: two volumes cannot both take the last place of the plugin on a node.
#[tokio::test(start_paused = true)]
async fn a_node_never_gets_more_volumes_than_its_plugin_allows() {
    let mut plugin: PluginSettings = settings(PLUGINS[0]);
    plugin.description.max_volumes = Some(1);
    let agent = agent_on(plugin, MODE).await;
    let other = FakeAgent::request("web");
    agent.volumes.create(vec![other.into()]).await.unwrap();
    let mut there = mount("a2");
    there.volume = FakeAgent::key("web");
    let claims = &agent.services.claims;
    let wait = Duration::from_secs(60);
    let here = mount("a1");
    let (first, second) = tokio::join!(claims.claim(&here, wait), claims.claim(&there, wait));
    let refused: Vec<_> = [first, second].into_iter().filter_map(Result::err).collect();
    assert_eq!(refused.len(), 1, "{refused:?}");
    let expected = "has reached the plugin's limit of 1 volumes";
    assert!(refused[0].text().contains(expected), "{refused:?}");
}
