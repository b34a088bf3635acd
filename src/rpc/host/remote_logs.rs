//! The output of tasks on a node, as a server reads it over a connection.

use std::time::Duration;

use async_trait::async_trait;

use super::answer::Answer;
use super::deadline;
use super::field::Transfer as _;
use super::log_call::LogCall;
use super::messages::reply::End;
use super::remote_node::RemoteNode;
use nomad_csi_ports::{LogChunk, LogOrigin, LogPosition, TaskLogError, TaskLogs, TaskOutput};

impl RemoteNode {
    async fn ask<A: Answer>(
        &self,
        limit: Option<Duration>,
        output: &TaskOutput,
        call: LogCall,
    ) -> Result<A, TaskLogError> {
        let failed = |reason: String| TaskLogError { task: output.task.clone(), reason };
        let request = (output.clone(), call).write();
        let reply = self
            .receive(limit, request, async |mut client, request| client.task_logs(request).await)
            .await
            .map_err(|error| failed(error.to_string()))?;
        match reply.end {
            Some(End::TaskLogFailure(failure)) => {
                Err(TaskLogError { task: failure.task, reason: failure.reason })
            }
            Some(end) => A::from_end(end).map_err(|malformed| failed(malformed.to_string())),
            None => Err(failed(self.unanswered().to_string())),
        }
    }
}

#[async_trait]
impl TaskLogs for RemoteNode {
    async fn has_files(&self, output: &TaskOutput) -> Result<bool, TaskLogError> {
        self.ask(Some(deadline::READ), output, LogCall::HasFiles).await
    }

    async fn locate(
        &self,
        output: &TaskOutput,
        origin: LogOrigin,
        offset: u64,
    ) -> Result<LogPosition, TaskLogError> {
        self.ask(Some(deadline::READ), output, LogCall::Locate(origin, offset)).await
    }

    async fn read(
        &self,
        output: &TaskOutput,
        position: LogPosition,
        limit: u64,
    ) -> Result<LogChunk, TaskLogError> {
        self.ask(Some(deadline::READ), output, LogCall::Read(position, limit)).await
    }

    async fn wait_for_more(
        &self,
        output: &TaskOutput,
        position: LogPosition,
    ) -> Result<(), TaskLogError> {
        self.ask(None, output, LogCall::WaitForMore(position)).await
    }
}
