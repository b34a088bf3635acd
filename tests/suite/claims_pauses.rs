//! No step without progress is repeated without a pause (rule 15 of the claims machine), and a pause
//! belongs to its cause (W33). Attempts are counted on a paused clock.

use std::time::Duration;

use nomad_csi_claims::claim::{Known, PluginSteps};
use nomad_csi_claims::state::{EventKind, State, Table, Topic};
use nomad_csi_model::{AccessMode, AllocId};
use nomad_csi_ports::{Rpc, StatusCode};
use nomad_csi_server::fake::{AppendFault, FakeAgent};
use nomad_csi_server::{JournalErrorKind, MountRequest};
use nomad_csi_testing::{FakePlugin, Fault};
use tokio::time::Instant;

use super::claims::{
    LONG, PLUGINS, agent_with, assert_nothing_is_left, claim, held_claims, is_published, mount,
    release, settings, wait_until_released,
};

const MODE: AccessMode = AccessMode::SingleNodeWriter;

/// More faults than there are attempts.
const MANY: usize = 100_000;

/// The most attempts that the usual pauses allow in ten minutes: 200 ms, doubled up to 60 s, with jitter.
const IN_TEN_MINUTES: usize = 40;

fn refuse_appends(agent: &FakeAgent) {
    let fault = AppendFault::NotWritten(JournalErrorKind::DiskFull);
    agent.journal.fail_next(std::iter::repeat_n(fault, MANY));
}

/// Lets ten minutes pass, in steps in which everything that is ready runs.
async fn ten_minutes() {
    let end = Instant::now() + Duration::from_secs(600);
    while Instant::now() < end {
        tokio::time::advance(Duration::from_millis(250)).await;
        tokio::task::yield_now().await;
    }
}

/// A full disk while a claim is being released, at every place where its release commits something.
#[tokio::test(start_paused = true)]
async fn a_release_that_cannot_be_journalled_pauses() {
    for steps in PLUGINS {
        for refuses_after in 0..12 {
            let context = format!("{steps:?}, refused after {refuses_after} writes");
            let agent = agent_with(steps, MODE).await;
            assert!(is_published(&claim(&agent, "a1").await.unwrap()), "{context}");
            let alloc = AllocId::new("a1");
            agent.record_event(EventKind::AllocEnded { alloc }).await;
            let before = agent.journal.append_sizes().len();
            while agent.journal.append_sizes().len() < before + refuses_after
                && agent.state().all_claims().len() > 0
            {
                tokio::task::yield_now().await;
            }
            refuse_appends(&agent);
            let calls = agent.backend.calls().len();
            ten_minutes().await;
            let attempts = MANY - agent.journal.faults_left();
            assert!(attempts <= 2 * IN_TEN_MINUTES, "{context}: {attempts} appends");
            let calls = agent.backend.calls().len() - calls;
            assert!(calls <= 2 * IN_TEN_MINUTES, "{context}: {calls} calls");
            agent.journal.accept();
            wait_until_released(&agent).await;
            assert_nothing_is_left(&agent, &context);
        }
    }
}

/// A full disk while a claim is being published.
#[tokio::test(start_paused = true)]
async fn a_publication_that_cannot_be_journalled_pauses() {
    for steps in PLUGINS {
        for rpc in [Rpc::ControllerPublishVolume, Rpc::NodeStageVolume, Rpc::NodePublishVolume] {
            let context = format!("{steps:?}, refused during {rpc}");
            let agent = agent_with(steps, MODE).await;
            agent.backend.inject_faults(rpc, [Fault::Hang]);
            let claims = &agent.services.claims;
            claims.claim(&mount("a1"), Duration::from_secs(1)).await.unwrap();
            refuse_appends(&agent);
            agent.backend.release();
            let calls = agent.backend.calls().len();
            ten_minutes().await;
            let attempts = MANY - agent.journal.faults_left();
            assert!(attempts <= 2 * IN_TEN_MINUTES, "{context}: {attempts} appends");
            let calls = agent.backend.calls().len() - calls;
            assert!(calls <= 2 * IN_TEN_MINUTES, "{context}: {calls} calls");
            agent.journal.accept();
            assert!(is_published(&claim(&agent, "a1").await.unwrap()), "{context}");
            release(&agent, "a1").await.unwrap();
            assert_nothing_is_left(&agent, &context);
        }
    }
}

/// A claim that can never be published is released, and no requester hears of it before that is on record: neither the
/// one that waits, nor one that looks at every moment.
#[tokio::test(start_paused = true)]
async fn a_requester_hears_of_a_failure_after_its_commit() {
    for refuses in [false, true] {
        let agent = agent_with(PLUGINS[3], MODE).await;
        let permanent = std::iter::repeat_n(Fault::Fail(StatusCode::InvalidArgument), MANY);
        agent.backend.inject_faults(Rpc::NodePublishVolume, [Fault::Hang]);
        let claims = agent.services.claims.clone();
        let calls = agent.backend.calls().len() as u64;
        claims.claim(&mount("a1"), Duration::ZERO).await.unwrap();
        agent.backend.wait_for_calls(calls + 1).await;
        agent.backend.inject_faults(Rpc::NodePublishVolume, permanent);
        agent.backend.crash();
        agent.backend.restart();
        if refuses {
            refuse_appends(&agent);
        }
        let request = mount("a1");
        let waiting = claims.claim(&request, LONG);
        let looks = async {
            let mut early = 0;
            loop {
                match claims.claim(&request, Duration::ZERO).await {
                    Ok(_) => early += 1,
                    Err(_) => break early,
                }
                if early == 10_000 {
                    agent.journal.accept();
                }
                tokio::time::advance(Duration::from_millis(1)).await;
            }
        };
        let waiting = async {
            let failed = waiting.await;
            (failed, held_claims(&agent.state()))
        };
        let looks = async {
            let early = looks.await;
            (early, held_claims(&agent.state()))
        };
        let ((failed, held), (early, still_held)) = tokio::join!(waiting, looks);
        let failed = failed.unwrap_err();
        assert!(failed.text().contains("InvalidArgument"), "{failed:?}");
        let none = Vec::<AllocId>::new();
        assert_eq!(
            (held, still_held),
            (none.clone(), none),
            "a requester knew of it before its commit"
        );
        assert!(early >= if refuses { 10_000 } else { 1 }, "{early}");
        wait_until_released(&agent).await;
        assert_nothing_is_left(&agent, "");
    }
}

/// A refusal whose release was not committed is no failure: the step is repeated, and may succeed.
#[tokio::test(start_paused = true)]
async fn a_requester_does_not_hear_of_a_failure_that_was_not_committed() {
    let agent = agent_with(PLUGINS[3], MODE).await;
    let publish = Rpc::NodePublishVolume;
    agent.backend.inject_faults(publish, [Fault::Hang]);
    let claims = agent.services.claims.clone();
    let calls = agent.backend.calls().len() as u64;
    let story = async {
        agent.backend.wait_for_calls(calls + 1).await;
        let refusal = [Fault::Fail(StatusCode::InvalidArgument)];
        agent.backend.inject_faults(publish, refusal);
        agent.backend.crash();
        agent.backend.restart();
        refuse_appends(&agent);
        ten_minutes().await;
        assert!(agent.backend.count(publish) > 2, "it was refused, and tried again");
        agent.journal.accept();
    };
    let request = mount("a1");
    let (claimed, ()) = tokio::join!(claims.claim(&request, LONG), story);
    assert!(is_published(claimed.as_ref().unwrap()), "{claimed:?}");
    release(&agent, "a1").await.unwrap();
    assert_nothing_is_left(&agent, "");
}

/// A plugin that starts to attach volumes while a claim without the provider's ID of its node is held:
/// the ID is resolved at the step.
#[tokio::test(start_paused = true)]
async fn a_plugin_that_gains_attach_gets_the_id_of_the_node_at_the_step() {
    for stage in [true, false] {
        let before = PluginSteps { attach: false, stage };
        let agent = agent_with(before, MODE).await;
        let rpc = if stage { Rpc::NodeStageVolume } else { Rpc::NodePublishVolume };
        let failing = std::iter::repeat_n(Fault::Fail(StatusCode::Unavailable), 3);
        agent.backend.inject_faults(rpc, failing);
        let claims = &agent.services.claims;
        claims.claim(&mount("a1"), Duration::ZERO).await.unwrap();
        agent.backend.update_settings(|plugin| {
            if let Some(controller) = &mut plugin.controller {
                controller.publish_unpublish_volume = true;
            }
        });
        agent.observe(true).await;
        let claimed = claim(&agent, "a1").await.unwrap();
        assert!(is_published(&claimed), "stage {stage}: {claimed:?}");
        assert_eq!(agent.backend.attachments().len(), 1, "stage {stage}");
        release(&agent, "a1").await.unwrap();
        assert_nothing_is_left(&agent, &format!("stage {stage}"));
    }
}

/// Lets the paused time pass.
async fn pass(time: Duration) {
    let never = std::future::pending::<()>();
    assert!(tokio::time::timeout(time, never).await.is_err());
}

/// W33: the pauses of a volume whose step fails, while another plugin comes and goes all the time.
#[tokio::test(start_paused = true)]
async fn an_unrelated_plugin_ends_no_pause() {
    let mut attempts = vec![];
    for flaps in [false, true] {
        let agent = agent_with(PLUGINS[0], MODE).await;
        let other = FakePlugin::new(agent.backend.clone()).connection();
        agent.add_plugin("other", settings(PLUGINS[0]), other).await;
        let failing = std::iter::repeat_n(Fault::Fail(StatusCode::Unavailable), MANY);
        agent.backend.inject_faults(Rpc::NodeStageVolume, failing);
        let claims = &agent.services.claims;
        claims.claim(&mount("a1"), Duration::ZERO).await.unwrap();
        for round in 0..52_u32 {
            pass(Duration::from_millis(500)).await;
            if flaps {
                let is_healthy = round % 2 == 0;
                agent.observe_plugin("other", is_healthy).await;
            }
        }
        attempts.push(agent.backend.count(Rpc::NodeStageVolume));
    }
    assert_eq!(attempts[0], attempts[1], "{attempts:?}");
    assert!((5..=10).contains(&attempts[0]), "{attempts:?}");
}

/// The plugin that a step waits for ends its pause when it is back, and only then.
#[tokio::test(start_paused = true)]
async fn the_plugin_of_a_step_ends_its_pause() {
    let agent = agent_with(PLUGINS[0], MODE).await;
    assert!(is_published(&claim(&agent, "a1").await.unwrap()));
    agent.observe(false).await;
    let key = FakeAgent::key("db");
    let claims = &agent.services.claims;
    let released = claims.release(&key, &"a1".into(), None, LONG).await;
    assert_eq!(released.unwrap().0, 1);
    agent.observe(true).await;
    let back = Instant::now();
    wait_until_released(&agent).await;
    assert_eq!(back.elapsed(), Duration::ZERO);
    assert_nothing_is_left(&agent, "");
}

/// A reader and its writer share the wait: one claim that is stuck does not make the driver spin for the
/// other.
#[tokio::test(start_paused = true)]
async fn a_held_claim_rests_while_another_one_waits() {
    let agent = agent_with(PLUGINS[0], AccessMode::MultiNodeMultiWriter).await;
    assert!(is_published(&claim(&agent, "a1").await.unwrap()));
    let failing = std::iter::repeat_n(Fault::Fail(StatusCode::Unavailable), MANY);
    agent.backend.inject_faults(Rpc::NodePublishVolume, failing);
    let request = MountRequest { read_only: true, ..mount("a2") };
    let claims = &agent.services.claims;
    claims.claim(&request, Duration::ZERO).await.unwrap();
    let (appends, calls) = (agent.journal.append_sizes().len(), agent.backend.calls().len());
    ten_minutes().await;
    assert!(agent.backend.calls().len() - calls <= IN_TEN_MINUTES);
    assert!(agent.journal.append_sizes().len() - appends <= IN_TEN_MINUTES);
    agent.backend.clear_faults();
    let topics = |_: &State| vec![Topic::all(Table::Claims)];
    let is_settled = |state: &State| {
        let mut claims = state.all_claims().flat_map(|record| record.claims.claims.values());
        claims.all(|claim| claim.published == Known::Yes)
    };
    let settled = agent.cell.wait_until(topics, is_settled);
    tokio::time::timeout(LONG, settled).await.unwrap().unwrap();
    for alloc in ["a1", "a2"] {
        release(&agent, alloc).await.unwrap();
    }
    assert_nothing_is_left(&agent, "");
}
