//! The output of tasks: the places of its readers, and what is said where there is none.

use std::future::pending;

use async_trait::async_trait;

use super::*;
use crate::http::connection_slots::{Connection, ConnectionSlots, Peer};
use crate::http::operator::OperatorAccess;
use nomad_csi_claims::state::samples::jobs::{
    alloc_placed, alloc_reported, job_key, job_registered,
};
use nomad_csi_model::ClientStatus;
use nomad_csi_ports::{LogChunk, LogOrigin, LogPosition, TaskLogError, TaskLogs, TaskOutput};

const LINE: &str = "/v1/client/fs/logs/a1?task=t&type=stdout";

/// A node where no task has written anything yet.
struct SilentTasks {
    has_files: bool,
}

#[async_trait]
impl TaskLogs for SilentTasks {
    async fn has_files(&self, _: &TaskOutput) -> Result<bool, TaskLogError> {
        Ok(self.has_files)
    }

    async fn locate(
        &self,
        _: &TaskOutput,
        _: LogOrigin,
        _: u64,
    ) -> Result<LogPosition, TaskLogError> {
        Ok(LogPosition::default())
    }

    async fn read(
        &self,
        _: &TaskOutput,
        position: LogPosition,
        _: u64,
    ) -> Result<LogChunk, TaskLogError> {
        Ok(LogChunk { data: vec![], file: String::new(), next: position })
    }

    async fn wait_for_more(&self, _: &TaskOutput, _: LogPosition) -> Result<(), TaskLogError> {
        pending().await
    }
}

/// An agent with allocation `a1` of a job, and its services with such a node.
async fn services(has_files: bool) -> (FakeAgent, Services) {
    let agent = agent().await;
    let key = job_key("web");
    agent.record_event(job_registered(&key)).await;
    agent.record_event(alloc_placed(&key, "a1", FakeAgent::NODE)).await;
    let logs = Arc::new(SilentTasks { has_files });
    agent.hosts.set_logs(logs);
    let services = agent.services.clone();
    (agent, services)
}

fn get(line: &str) -> Request<Body> {
    Request::get(line).body(Body::empty()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_follower_has_the_place_of_a_stream() {
    let (_agent, services) = services(true).await;
    let router = router(services, HttpSettings::default(), OperatorAccess::default());
    let places = ConnectionSlots::new(1, 1, 1);
    let open = async |line: String| {
        let mut request = get(&line);
        let connection = Connection::new(Peer::Operator, places.enter().await.unwrap());
        request.extensions_mut().insert(connection);
        router.clone().oneshot(request).await.unwrap()
    };
    let first = open(format!("{LINE}&follow=true")).await;
    assert_eq!(first.status(), 200);
    let second = open(format!("{LINE}&follow=true")).await;
    assert_eq!(second.status(), 429, "the only place is taken");
    let reader = open(LINE.to_owned()).await;
    assert_eq!(reader.status(), 200, "a reader that does not follow works");
    drop((first, reader));
    assert_eq!(open(format!("{LINE}&follow=true")).await.status(), 200);
}

#[tokio::test(start_paused = true)]
async fn the_output_of_an_allocation_whose_files_are_gone_is_refused_in_words() {
    for has_files in [true, false] {
        let (agent, services) = services(has_files).await;
        let running = send(&services, get(LINE)).await;
        assert_eq!((running.status, running.text()), (200, ""));
        agent.record_event(alloc_reported("a1", ClientStatus::Complete)).await;
        let ended = send(&services, get(LINE)).await;
        let gone = "allocation `a1` has no output: no task started, or the agent has removed its files; it keeps \
                    those of the newest allocations that have ended";
        let expected = if has_files { (200, "") } else { (404, gone) };
        assert_eq!((ended.status, ended.text()), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn the_output_of_a_task_on_a_node_without_a_connection_is_not_read() {
    let agent = agent().await;
    let key = job_key("web");
    agent.record_event(job_registered(&key)).await;
    agent.record_event(alloc_placed(&key, "a1", FakeAgent::NODE)).await;
    let refused = send(&agent.services, get(LINE)).await;
    assert_eq!((refused.status, refused.text()), (404, "No path to node"));
    let request = Request::get(LINE).header("Accept", ErrorBody::MEDIA_TYPE);
    let refused = send(&agent.services, request.body(Body::empty()).unwrap()).await;
    let body: ErrorBody = serde_json::from_slice(&refused.body).unwrap();
    assert_eq!(body.code, Code::NodeUnreachable.as_str());
    assert!(body.message.contains(FakeAgent::NODE), "{}", body.message);
}
