//! [`RemoteNode`]: a node as a server calls it over a connection.
//!
//! Each call is sent once. A caller that stops waiting, or whose deadline passes, ends nothing that changes something: the node
//! runs it to its end. A call without an answer fails with one of two errors: [`HostError::Unreachable`] if it was certainly
//! not sent, and [`HostError::Unanswered`] otherwise.

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tonic::transport::Channel;
use tonic::{Response, Status};

use super::answer::Answer;
use super::description::HostDescription;
use super::field::{Malformed, Transfer as _};
use super::limits::ANSWER_BYTES;
use super::messages;
use super::messages::node_host_client::NodeHostClient;
use super::messages::reply::End;
use super::{deadline, status};
use nomad_csi_model::{
    AllocId, Bytes, HostSession, NodeId, PublishContext, RemoteVolume, TargetPath, Term,
    VolumeStats,
};
use nomad_csi_ports::{
    CallOrder, ConnectedNode, ControllerHost, ControllerPublishRequest, ControllerUnpublishRequest,
    HostError, NodeExpandRequest, NodeHost, PublishRequest, StageRequest, StatsRequest,
    SweepOutcome, UnpublishRequest, UnstageRequest,
};

/// A node that is called over a channel, for one leadership of this server. Clones use the same channel.
#[derive(Clone)]
pub struct RemoteNode {
    client: NodeHostClient<Channel>,
    node: NodeId,
    term: Term,
}

impl RemoteNode {
    /// A node behind a channel. Calls that have no order are made for this term.
    pub fn new(channel: Channel, node: NodeId, term: Term) -> Self {
        let client = NodeHostClient::new(channel).max_decoding_message_size(ANSWER_BYTES);
        Self { client, node, term }
    }

    /// Returns the ports of the node.
    pub fn connected(&self) -> ConnectedNode {
        let node = Arc::new(self.clone());
        ConnectedNode {
            host: node.clone(),
            controllers: node.clone(),
            plugins: node.clone(),
            logs: Some(node.clone()),
            allocs: Some(node),
        }
    }

    /// Returns the run of the node's agent.
    ///
    /// # Errors
    /// If the node does not answer.
    pub async fn describe(&self) -> Result<HostDescription, HostError> {
        let request = messages::DescribeRequest {};
        let reply = self
            .receive(Some(deadline::READ), request, async |mut client, request| {
                client.describe(request).await
            })
            .await?;
        Ok(HostDescription { session: HostSession::new(reply.session), boot_id: reply.boot_id })
    }

    pub(super) fn term(&self) -> Term {
        self.term
    }

    /// Sends a request that changes something.
    pub(super) async fn change<M, A, F>(
        &self,
        request: M,
        send: impl FnOnce(NodeHostClient<Channel>, M) -> F,
    ) -> Result<A, HostError>
    where
        A: Answer,
        F: Future<Output = Result<Response<messages::Reply>, Status>>,
    {
        self.answer(self.receive(Some(deadline::CHANGE), request, send).await?)
    }

    /// Sends a request that changes nothing.
    pub(super) async fn read<M, A, F>(
        &self,
        request: M,
        send: impl FnOnce(NodeHostClient<Channel>, M) -> F,
    ) -> Result<A, HostError>
    where
        A: Answer,
        F: Future<Output = Result<Response<messages::Reply>, Status>>,
    {
        self.answer(self.receive(Some(deadline::READ), request, send).await?)
    }

    /// Sends a request once, and waits for what comes back.
    pub(super) async fn receive<M, R, F>(
        &self,
        deadline: Option<Duration>,
        request: M,
        send: impl FnOnce(NodeHostClient<Channel>, M) -> F,
    ) -> Result<R, HostError>
    where
        F: Future<Output = Result<Response<R>, Status>>,
    {
        let sent = send(self.client.clone(), request);
        let received = match deadline {
            Some(deadline) => tokio::time::timeout(deadline, sent).await,
            None => Ok(sent.await),
        };
        match received {
            Ok(Ok(response)) => Ok(response.into_inner()),
            Ok(Err(failed)) if status::was_not_sent(&failed) => {
                tracing::debug!(node.id = %self.node, %failed, "the call was not sent");
                Err(HostError::Unreachable { node: self.node.clone() })
            }
            Ok(Err(failed)) => {
                tracing::debug!(node.id = %self.node, %failed, "the call has no answer");
                Err(self.unanswered())
            }
            Err(_elapsed) => {
                let seconds = deadline.map_or(0, |deadline| deadline.as_secs());
                tracing::warn!(node.id = %self.node, seconds, "the node did not answer a call in time");
                Err(self.unanswered())
            }
        }
    }

    /// Reads a reply. One that cannot be read is no answer.
    pub(super) fn answer<A: Answer>(&self, reply: messages::Reply) -> Result<A, HostError> {
        match reply.end {
            Some(End::Failure(failure)) => {
                Err(HostError::read(failure).unwrap_or_else(|malformed| self.unreadable(malformed)))
            }
            Some(end) => A::from_end(end).map_err(|malformed| self.unreadable(malformed)),
            None => Err(self.unreadable(Malformed("end"))),
        }
    }

    /// Logs an answer that cannot be read, which is none.
    fn unreadable(&self, malformed: Malformed) -> HostError {
        tracing::warn!(node.id = %self.node, %malformed, "the answer of the node cannot be read");
        self.unanswered()
    }

    pub(super) fn unanswered(&self) -> HostError {
        HostError::Unanswered { node: self.node.clone() }
    }
}

#[async_trait]
impl NodeHost for RemoteNode {
    async fn stage(&self, order: CallOrder, request: StageRequest) -> Result<(), HostError> {
        let request = (order, request).write();
        self.change(request, async |mut client, request| client.stage(request).await).await
    }

    async fn publish(
        &self,
        order: CallOrder,
        request: PublishRequest,
    ) -> Result<TargetPath, HostError> {
        let request = (order, request).write();
        self.change(request, async |mut client, request| client.publish(request).await).await
    }

    async fn unpublish(
        &self,
        order: CallOrder,
        request: UnpublishRequest,
    ) -> Result<(), HostError> {
        let request = (order, request).write();
        self.change(request, async |mut client, request| client.unpublish(request).await).await
    }

    async fn unstage(&self, order: CallOrder, request: UnstageRequest) -> Result<(), HostError> {
        let request = (order, request).write();
        self.change(request, async |mut client, request| client.unstage(request).await).await
    }

    async fn expand(
        &self,
        order: CallOrder,
        request: NodeExpandRequest,
    ) -> Result<Bytes, HostError> {
        let request = (order, request).write();
        self.change(request, async |mut client, request| client.expand(request).await).await
    }

    async fn left_behind(&self, term: Term) -> Result<Vec<RemoteVolume>, HostError> {
        let request = messages::LeftBehindRequest { term: Some(term.write()) };
        self.read(request, async |mut client, request| client.left_behind(request).await).await
    }

    async fn stats(
        &self,
        instance: &AllocId,
        request: StatsRequest,
    ) -> Result<VolumeStats, HostError> {
        let request = (instance.clone(), request).write();
        self.read(request, async |mut client, request| client.stats(request).await).await
    }

    async fn kept_files(&self, volume: &RemoteVolume) -> Result<Vec<PathBuf>, HostError> {
        let request = messages::KeptFilesRequest { volume: Some(volume.clone().write()) };
        self.read(request, async |mut client, request| client.kept_files(request).await).await
    }

    async fn sweep(
        &self,
        order: CallOrder,
        volume: RemoteVolume,
    ) -> Result<SweepOutcome, HostError> {
        let request = (order, volume).write();
        self.change(request, async |mut client, request| client.sweep(request).await).await
    }
}

#[async_trait]
impl ControllerHost for RemoteNode {
    async fn publish(
        &self,
        order: CallOrder,
        request: ControllerPublishRequest,
    ) -> Result<PublishContext, HostError> {
        let request = (order, request).write();
        self.change(request, async |mut client, request| client.controller_publish(request).await)
            .await
    }

    async fn unpublish(
        &self,
        order: CallOrder,
        request: ControllerUnpublishRequest,
    ) -> Result<(), HostError> {
        let request = (order, request).write();
        self.change(request, async |mut client, request| client.controller_unpublish(request).await)
            .await
    }
}
