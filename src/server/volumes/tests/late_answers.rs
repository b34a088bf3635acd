//! Answers of the plugin that come late or never.

use std::time::Duration;

use super::*;
use nomad_csi_testing::Fault;

/// B30: a request waits for an answer that takes longer than two minutes.
#[tokio::test(start_paused = true)]
async fn an_answer_after_150_seconds_succeeds() {
    let agent = agent().await;
    let hang = [Fault::Hang];
    agent.backend.inject_faults(Rpc::CreateVolume, hang);
    let start = tokio::time::Instant::now();
    let answer = async {
        agent.backend.wait_for_calls(1).await;
        tokio::time::advance(Duration::from_secs(150)).await;
        agent.backend.release();
    };
    let (created, ()) = tokio::join!(agent.create(FakeAgent::request("db")), answer);
    created.unwrap();
    assert_eq!(start.elapsed(), Duration::from_secs(150));
    assert_eq!((agent.calls().0, agent.external_volumes().len()), (1, 1));
}

/// B30, W04: a client gets an error after five minutes. The call is not cancelled and not repeated, the
/// volume stays busy, and the late answer is recorded.
#[tokio::test(start_paused = true)]
async fn a_late_answer_is_recorded_after_its_client_got_an_error() {
    let agent = agent().await;
    let hang = [Fault::Hang];
    agent.backend.inject_faults(Rpc::CreateVolume, hang);
    let start = tokio::time::Instant::now();
    let error = agent.create(FakeAgent::request("db")).await.unwrap_err();
    assert_eq!(start.elapsed(), Duration::from_secs(300));
    assert_eq!(error.code_and_status().0.as_str(), "volume/pending");
    assert!(error.text().contains("no answer within 300 s"), "{}", error.text());
    let busy = agent.create(FakeAgent::request("db")).await.unwrap_err();
    assert_eq!(busy.code_and_status().0.as_str(), "server/busy");
    assert_eq!(agent.phase("db"), Some(Phase::Creating));

    agent.backend.release();
    agent.create(FakeAgent::request("db")).await.unwrap();
    assert_eq!(agent.phase("db"), Some(Phase::Registered));
    assert_eq!((agent.calls().0, agent.external_volumes().len()), (1, 1));
}

/// W04: a call that is never answered ends with the limit on the wire, and the next request sends it
/// again under the same name.
#[tokio::test(start_paused = true)]
async fn a_call_without_an_answer_frees_its_volume_after_half_an_hour() {
    let agent = agent().await;
    let hang = [Fault::Hang];
    agent.backend.inject_faults(Rpc::CreateVolume, hang);
    agent.create(FakeAgent::request("db")).await.unwrap_err();
    tokio::time::advance(Duration::from_secs(1501)).await;
    agent.create(FakeAgent::request("db")).await.unwrap();
    assert_eq!((agent.calls().0, agent.external_volumes().len()), (2, 1));
}
