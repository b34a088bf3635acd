//! The tasks and the files of the allocations of a node, as a server reaches them over a connection.

use async_trait::async_trait;

use super::alloc_call::AllocCall;
use super::answer::Answer;
use super::deadline;
use super::field::Transfer as _;
use super::messages::reply::End;
use super::remote_node::RemoteNode;
use nomad_csi_model::AllocId;
use nomad_csi_ports::{AllocAccess, AllocAccessError, AllocFile};

impl RemoteNode {
    async fn access<A: Answer>(
        &self,
        alloc: &AllocId,
        call: AllocCall,
    ) -> Result<A, AllocAccessError> {
        let request = (alloc.clone(), call).write();
        let reply = self
            .receive(Some(deadline::READ), request, async |mut client, request| {
                client.alloc_access(request).await
            })
            .await
            .map_err(|error| AllocAccessError::Failed(error.to_string()))?;
        let malformed = || AllocAccessError::Failed(self.unanswered().to_string());
        match reply.end {
            Some(failure @ End::AllocFailureJson(_)) => {
                Err(AllocAccessError::from_end(failure).map_err(|_| malformed())?)
            }
            Some(end) => A::from_end(end).map_err(|_| malformed()),
            None => Err(malformed()),
        }
    }
}

#[async_trait]
impl AllocAccess for RemoteNode {
    async fn restart(&self, alloc: &AllocId, task: Option<&str>) -> Result<(), AllocAccessError> {
        let task = task.map(str::to_owned);
        self.access(alloc, AllocCall::Restart { task }).await
    }

    async fn signal(
        &self,
        alloc: &AllocId,
        task: Option<&str>,
        signal: &str,
    ) -> Result<(), AllocAccessError> {
        let (task, signal) = (task.map(str::to_owned), signal.to_owned());
        self.access(alloc, AllocCall::Signal { task, signal }).await
    }

    async fn stat(&self, alloc: &AllocId, path: &str) -> Result<AllocFile, AllocAccessError> {
        self.access(alloc, AllocCall::Stat { path: path.to_owned() }).await
    }

    async fn list(&self, alloc: &AllocId, path: &str) -> Result<Vec<AllocFile>, AllocAccessError> {
        self.access(alloc, AllocCall::List { path: path.to_owned() }).await
    }

    async fn read(
        &self,
        alloc: &AllocId,
        path: &str,
        offset: u64,
        limit: u64,
    ) -> Result<Vec<u8>, AllocAccessError> {
        self.access(alloc, AllocCall::Read { path: path.to_owned(), offset, limit }).await
    }
}
