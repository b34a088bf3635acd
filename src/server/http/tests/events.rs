//! The event stream: its lines, its selection, and what it never contains.

use axum::body::BodyDataStream;
use futures_util::StreamExt as _;

use super::*;
use nomad_csi_wire::EventBatchDocument;

async fn open(agent: &FakeAgent, query: &str) -> (u16, BodyDataStream) {
    let request = Request::get(format!("/v1/event/stream{query}"));
    let request = request.body(Body::empty()).unwrap();
    let router = operator_router(agent.services.clone(), HttpSettings::default()).await;
    let response = router.oneshot(request).await.unwrap();
    let status = response.status().as_u16();
    (status, response.into_body().into_data_stream())
}

/// The batches of the next part.
async fn next(stream: &mut BodyDataStream) -> Vec<EventBatchDocument> {
    let part = stream.next().await.unwrap().unwrap();
    let lines = part.split_inclusive(|byte| *byte == b'\n');
    lines.map(|line| serde_json::from_slice(line).unwrap()).collect()
}

/// Topic, type and key of the next events; heartbeats are skipped.
async fn received(stream: &mut BodyDataStream, count: usize) -> Vec<String> {
    let mut found = vec![];
    while found.len() < count {
        for batch in next(stream).await {
            let events = batch.events.into_iter();
            found.extend(events.map(|one| format!("{} {} {}", one.topic, one.event_type, one.key)));
        }
    }
    found
}

#[tokio::test(start_paused = true)]
async fn a_subscriber_hears_of_changes_in_order() {
    let agent = agent().await;
    let from = agent.cell.index() + 1;
    let (status, mut all) = open(&agent, &format!("?index={from}")).await;
    assert_eq!(status, 200);
    assert_eq!(next(&mut all).await, [EventBatchDocument::default()], "the first line is empty");
    agent.volumes.create(vec![FakeAgent::request("db").into()]).await.unwrap();
    agent.observe(false).await;
    assert_eq!(
        received(&mut all, 2).await,
        ["CSIVolume CSIVolumeRegistered db", "CSIPlugin NodeRegistration fake"]
    );
    assert_eq!(next(&mut all).await, [EventBatchDocument::default()], "a heartbeat");
    let (_, mut some) =
        open(&agent, &format!("?index={from}&topic=CSIPlugin:fake&topic=Job")).await;
    assert_eq!(received(&mut some, 1).await, ["CSIPlugin NodeRegistration fake"]);
    agent.services.drain(Duration::ZERO).await;
    assert!(all.next().await.is_none(), "the agent stops");
}

#[tokio::test(start_paused = true)]
async fn no_secret_is_in_a_stream() {
    let agent = agent().await;
    let from = agent.cell.index() + 1;
    let mut request = FakeAgent::request("db");
    request.secrets = Some(Secrets::from_iter([("token", "canary")]));
    agent.volumes.create(vec![request.into()]).await.unwrap();
    let mut web = job(&job_key("web"));
    web.groups[0].tasks[0].environment = [("PASSWORD", "canary")].into_iter().collect();
    let body = json!({"Job": job_to_wire(&web)}).to_string();
    assert_eq!(send_line(&agent, "PUT /v1/jobs", &body).await.status, 200);
    let (_, mut stream) = open(&agent, &format!("?index={from}")).await;
    let mut text = String::new();
    while !text.contains("JobRegistered") {
        let part = stream.next().await.unwrap().unwrap();
        text.push_str(std::str::from_utf8(&part).unwrap());
    }
    assert!(text.contains("CSIVolumeRegistered"));
    assert!(!text.contains("canary"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_falls_behind_is_cut_off_with_words() {
    let agent = agent().await;
    let from = agent.cell.index() + 1;
    let (_, mut stream) = open(&agent, &format!("?index={from}")).await;
    next(&mut stream).await;
    agent.observe(false).await;
    assert_eq!(received(&mut stream, 1).await.len(), 1);
    for healthy in [true, false, true] {
        agent.observe(healthy).await;
    }
    agent.journal.forget_events(agent.cell.index() - 1);
    let last = next(&mut stream).await.remove(0);
    assert!(last.error.unwrap().contains("reads too slowly"));
    assert!(stream.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_wrong_subscription_is_refused() {
    let agent = agent().await;
    for query in ["?topic=a:b:c", "?topic=", "?index=x"] {
        let (status, _) = open(&agent, query).await;
        assert_eq!(status, 400, "{query}");
    }
}
