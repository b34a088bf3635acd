//! Creations that did not end: continued without a client, shown, and given up (W14).

use std::time::Duration;

use tokio::time::Instant;

use super::*;

use crate::fake::AppendFault;
use crate::journal::JournalErrorKind;
use crate::volumes::{PendingCreation, VolumeLimits};
use nomad_csi_claims::state::{State, Table, Topic, event_text, provider_name};
use nomad_csi_ports::StatusCode;
use nomad_csi_testing::{FakePlugin, Fault};

impl FakeAgent {
    async fn wait_for_phase(&self, id: &str, phase: Option<Phase>) {
        let key = Self::key(id);
        let topics = |_: &State| vec![Topic::all(Table::Volumes)];
        let is_there = |state: &State| state.record(&key).map(|record| record.phase) == phase;
        let waiting = self.cell.wait_until(topics, is_there);
        let limit = Duration::from_secs(3600);
        tokio::time::timeout(limit, waiting).await.unwrap().unwrap();
    }

    fn pending(&self) -> Vec<PendingCreation> {
        self.volumes.pending_creations(|_| true).0
    }
}

/// Leaves a creation of `db` whose effect is unknown.
async fn interrupted(fault: Fault) -> FakeAgent {
    let agent = agent().await;
    agent.backend.inject_faults(Rpc::CreateVolume, [fault]);
    agent.create(FakeAgent::request("db")).await.unwrap_err();
    agent
}

/// W14: with and without a restart, whether the plugin did the work or not, no client sends the request again.
#[tokio::test(start_paused = true)]
async fn a_creation_is_finished_without_a_client() {
    for fault in [
        Fault::FailAfterEffect(StatusCode::Internal),
        Fault::Fail(StatusCode::Internal),
        Fault::Fail(StatusCode::DataLoss),
    ] {
        for is_restarted in [true, false] {
            let agent = interrupted(fault).await;
            assert_eq!(agent.pending().len(), 1, "{fault:?}");
            let agent = match is_restarted {
                true => agent.restart(VolumeLimits::default()).await.unwrap(),
                false => agent,
            };
            agent.wait_for_phase("db", Some(Phase::Registered)).await;
            assert_eq!(agent.external_volumes(), ["fake-1"], "{fault:?}");
            assert!(agent.pending().is_empty());
        }
    }
}

/// W14: the requests that were sent are all tried, also by the agent alone.
#[tokio::test(start_paused = true)]
async fn an_earlier_request_is_found_without_a_client() {
    let agent = interrupted(Fault::FailAfterEffect(StatusCode::Internal)).await;
    let larger = VolumeRequest { capacity: sized(20, 20), ..FakeAgent::request("db") };
    let lost = [Fault::Fail(StatusCode::Internal)];
    agent.backend.inject_faults(Rpc::CreateVolume, lost);
    agent.create(larger).await.unwrap_err();
    assert_eq!(agent.pending()[0].record.earlier_creates.len(), 1);
    let agent = agent.restart(VolumeLimits::default()).await.unwrap();
    agent.wait_for_phase("db", Some(Phase::Registered)).await;
    assert_eq!(agent.external_volumes(), ["fake-1"]);
    assert_eq!(agent.record("db").unwrap().definition.capacity, sized(0, 0));
}

/// W14, W33: pauses grow, a change of another plugin ends none, and the plugin's own ends it.
#[tokio::test(start_paused = true)]
async fn a_pause_of_a_creation_belongs_to_its_cause() {
    let agent = interrupted(Fault::Fail(StatusCode::Internal)).await;
    let refusals = [Fault::Fail(StatusCode::Internal); 100];
    agent.backend.inject_faults(Rpc::CreateVolume, refusals);
    let mut gaps = vec![];
    for _ in 0..5 {
        let (before, start) = (agent.calls().0, Instant::now());
        let arrived = u64::try_from(agent.backend.calls().len()).unwrap();
        let next = agent.backend.wait_for_calls(arrived + 1);
        tokio::time::timeout(Duration::from_secs(120), next).await.unwrap();
        assert_eq!(agent.calls().0, before + 1);
        gaps.push(start.elapsed());
    }
    assert!(gaps[4] > gaps[0] * 4, "{gaps:?}");
    let attempts = agent.calls().0;
    for healthy in [true, false, true, false, true] {
        agent.observe_plugin("other", healthy).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(agent.calls().0, attempts, "another plugin ended the pause");
    let shown = &agent.pending()[0].attempts;
    assert!(shown.failed >= 5, "{shown:?}");
    assert!(shown.problem.as_ref().unwrap().contains("Internal"), "{shown:?}");
    assert!(shown.next_at.is_some());

    agent.backend.clear_faults();
    let another = FakePlugin::new(agent.backend.clone()).connection();
    agent.add_alloc("77777777-2222-4333-8444-555555555555", another).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(agent.calls().0, attempts, "an instance that may not be called ended the pause");
    agent.end_alloc(FakeAgent::ALLOC).await;
    let start = Instant::now();
    agent.wait_for_phase("db", Some(Phase::Registered)).await;
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
}

/// W14: a plugin that is away after a restart is awaited, and its return is no pause.
#[tokio::test(start_paused = true)]
async fn a_plugin_that_is_away_is_awaited() {
    let agent = interrupted(Fault::FailAfterEffect(StatusCode::Internal)).await;
    agent.observe(false).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(agent.phase("db"), Some(Phase::Creating));
    assert_eq!(agent.calls().0, 1, "a plugin that is not healthy was called");
    let problem = agent.pending()[0].attempts.problem.clone().unwrap();
    assert!(problem.contains("not healthy"), "{problem}");
    agent.observe(true).await;
    let start = Instant::now();
    agent.wait_for_phase("db", Some(Phase::Registered)).await;
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
}

/// W14: what the plugin refuses for good is not sent again and again, and nothing is given up: an earlier call may
/// have created the volume.
#[tokio::test(start_paused = true)]
async fn a_final_refusal_is_shown_and_not_repeated() {
    for code in [StatusCode::InvalidArgument, StatusCode::AlreadyExists] {
        let agent = interrupted(Fault::Fail(StatusCode::Internal)).await;
        let refusals = [Fault::Fail(code); 100];
        agent.backend.inject_faults(Rpc::CreateVolume, refusals);
        tokio::time::sleep(Duration::from_secs(24 * 3600)).await;
        assert_eq!(agent.calls().0, 2, "{code:?}");
        let pending = agent.pending();
        let shown = &pending[0].attempts;
        assert_eq!((shown.failed, shown.next_at), (1, None), "{code:?}");
        assert!(shown.problem.is_some());
    }
}

/// W14: while the journal refuses, the agent pauses.
#[tokio::test(start_paused = true)]
async fn a_journal_that_refuses_causes_no_spin() {
    let agent = interrupted(Fault::FailAfterEffect(StatusCode::Internal)).await;
    let refusals = [AppendFault::NotWritten(JournalErrorKind::DiskFull); 4];
    agent.journal.fail_next(refusals);
    agent.wait_for_phase("db", Some(Phase::Registered)).await;
    assert_eq!(agent.calls().0, 1 + 4 + 1, "one call for each refusal, and the last one");
    assert_eq!(agent.external_volumes(), ["fake-1"]);
}

/// W14: giving up forgets the creation and says what the provider may have; the next creation has another name.
#[tokio::test(start_paused = true)]
async fn a_creation_is_given_up_by_name() {
    let agent = interrupted(Fault::FailAfterEffect(StatusCode::Internal)).await;
    let key = FakeAgent::key("db");
    let name = agent.cell.read(|s| provider_name(s, s.record(&key).unwrap()));
    let given_up = agent.volumes.give_up_creation(key.clone()).await.unwrap();
    assert_eq!(given_up.provider_name, name);
    assert_eq!(given_up.plugin.as_str(), FakeAgent::PLUGIN);
    assert_eq!(agent.phase("db"), None);
    let events = agent.cell.read_events(given_up.index - 1, 1).await.unwrap();
    let text = event_text(&events[0].1.kind);
    assert!(text.contains(&name), "{text}");
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(agent.calls().0, 1, "a creation that was given up was continued");
    let again = agent.volumes.give_up_creation(key).await.unwrap_err();
    assert_eq!(again.code_and_status().0.as_str(), "volume/not-found");
    agent.create(FakeAgent::request("db")).await.unwrap();
    assert_eq!(agent.external_volumes(), ["fake-1", "fake-2"]);
}

/// W14: at most eight different requests of one creation are sent.
#[tokio::test(start_paused = true)]
async fn the_requests_of_a_creation_are_bounded() {
    let agent = agent().await;
    agent.backend.inject_faults(Rpc::CreateVolume, [Fault::Fail(StatusCode::Internal); 8]);
    let of_size =
        |size: u64| VolumeRequest { capacity: sized(size, size), ..FakeAgent::request("db") };
    for size in 1..=8 {
        agent.create(of_size(size)).await.unwrap_err();
    }
    let calls = agent.calls().0;
    let error = agent.create(of_size(9)).await.unwrap_err();
    assert_eq!(error.code_and_status().0.as_str(), "volume/creating");
    assert_eq!(agent.calls().0, calls);
    agent.create(of_size(3)).await.unwrap();
}
