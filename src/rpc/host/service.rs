//! [`NodeHostService`]: what a node carries out for the server at the other end of a connection.
//!
//! A call that changes something runs as a task of its own: a caller that is gone cancels nothing. Of the others, each ends with
//! its caller. A call without an order is made only for the newest leadership that the host knows (rule 11 of the claims
//! machine); the hosts themselves check the calls with an order. A request that cannot be read has no effect, and its status
//! says so.

use std::future::Future;
use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::Semaphore;
use tonic::service::Routes;
use tonic::{Request, Response, Status};
use tracing::Instrument as _;

use super::alloc_call::AllocCall;
use super::answer::Answer;
use super::description::HostDescription;
use super::field::{Malformed, Transfer, required};
use super::limits::{ANSWER_BYTES, REQUEST_BYTES};
use super::log_call::LogCall;
use super::messages;
use super::messages::node_host_server::{NodeHost, NodeHostServer};
use super::messages::reply::End;
use super::plugin_dispatch::{ControllerChange, PluginRead};
use super::status;
use nomad_csi_model::{AllocId, PluginId, RemoteVolume, Term};
use nomad_csi_ports::{
    AllocAccessError, AllocFile, CallOrder, ConnectedNode, ControllerPublishRequest,
    ControllerUnpublishRequest, HostError, LogChunk, NodeExpandRequest, PluginConnection,
    PublishRequest, StageRequest, StatsRequest, TaskLogError, TaskOutput, TermGuard,
    UnpublishRequest, UnstageRequest,
};

/// The number of calls that change something and run at once. A call of a plugin that never answers keeps its place.
const MAX_CHANGES: usize = 1024;

/// The most bytes of an output in one answer.
const CHUNK_BYTES: u64 = 64 << 10;

/// The service of a node. Clones share their state.
#[derive(Clone)]
pub struct NodeHostService {
    node: ConnectedNode,
    terms: Arc<dyn TermGuard>,
    description: HostDescription,
    changes: Arc<Semaphore>,
}

impl NodeHostService {
    /// The service of this run of a node's agent.
    pub fn new(
        node: ConnectedNode,
        terms: Arc<dyn TermGuard>,
        description: HostDescription,
    ) -> Self {
        Self::limited((node, terms), description, MAX_CHANGES)
    }

    /// The same, with another limit.
    pub(super) fn limited(
        (node, terms): (ConnectedNode, Arc<dyn TermGuard>),
        description: HostDescription,
        max_changes: usize,
    ) -> Self {
        Self { node, terms, description, changes: Arc::new(Semaphore::new(max_changes)) }
    }

    /// Returns the service for a server of gRPC.
    pub fn into_routes(self) -> Routes {
        Routes::new(
            NodeHostServer::new(self)
                .max_decoding_message_size(REQUEST_BYTES)
                .max_encoding_message_size(ANSWER_BYTES),
        )
    }

    /// Runs a call that changes something to its end.
    async fn run<A: Answer>(
        &self,
        call: impl Future<Output = Result<A, HostError>> + Send + 'static,
    ) -> Answered {
        let Ok(permit) = self.changes.clone().try_acquire_owned() else {
            let full = Status::resource_exhausted("the node runs too many calls of its servers");
            return Err(status::not_sent(full));
        };
        let call = async move {
            let end = end(call.await);
            drop(permit);
            end
        };
        let end = tokio::spawn(call.in_current_span()).await;
        end.map(reply)
            .map_err(|_| Status::internal("the node lost the call by an error of its own"))
    }
}

type Answered = Result<Response<messages::Reply>, Status>;

fn end<A: Answer>(result: Result<A, HostError>) -> End {
    match result {
        Ok(answer) => answer.end(),
        Err(error) => End::Failure(error.write()),
    }
}

fn log_end<A: Answer>(result: Result<A, TaskLogError>) -> End {
    match result {
        Ok(answer) => answer.end(),
        Err(error) => error.end(),
    }
}

fn alloc_end<A: Answer>(result: Result<A, AllocAccessError>) -> End {
    match result {
        Ok(answer) => answer.end(),
        Err(error) => error.end(),
    }
}

fn reply(end: End) -> Response<messages::Reply> {
    Response::new(messages::Reply { end: Some(end) })
}

/// Reads a request.
fn read<T: Transfer>(request: Request<T::Message>) -> Result<T, Status> {
    T::read(request.into_inner()).map_err(malformed)
}

/// A request that cannot be read is perhaps of a newer version.
fn malformed(error: Malformed) -> Status {
    status::not_sent(Status::invalid_argument(error.to_string()))
}

async fn find(
    node: &ConnectedNode,
    (plugin, alloc): (PluginId, AllocId),
) -> Result<PluginConnection, HostError> {
    let found = node.plugins.instance(&plugin, &alloc).await;
    found.ok_or(HostError::NoPlugin { plugin, instance: alloc })
}

#[async_trait]
impl NodeHost for NodeHostService {
    async fn describe(
        &self,
        _: Request<messages::DescribeRequest>,
    ) -> Result<Response<messages::DescribeReply>, Status> {
        let HostDescription { session, boot_id } = &self.description;
        Ok(Response::new(messages::DescribeReply {
            session: session.as_str().to_owned(),
            boot_id: boot_id.clone(),
        }))
    }

    async fn stage(&self, request: Request<messages::StageRequest>) -> Answered {
        let (order, request): (CallOrder, StageRequest) = read(request)?;
        let host = self.node.host.clone();
        self.run(async move { host.stage(order, request).await }).await
    }

    async fn publish(&self, request: Request<messages::PublishRequest>) -> Answered {
        let (order, request): (CallOrder, PublishRequest) = read(request)?;
        let host = self.node.host.clone();
        self.run(async move { host.publish(order, request).await }).await
    }

    async fn unpublish(&self, request: Request<messages::UnpublishRequest>) -> Answered {
        let (order, request): (CallOrder, UnpublishRequest) = read(request)?;
        let host = self.node.host.clone();
        self.run(async move { host.unpublish(order, request).await }).await
    }

    async fn unstage(&self, request: Request<messages::UnstageRequest>) -> Answered {
        let (order, request): (CallOrder, UnstageRequest) = read(request)?;
        let host = self.node.host.clone();
        self.run(async move { host.unstage(order, request).await }).await
    }

    async fn expand(&self, request: Request<messages::ExpandRequest>) -> Answered {
        let (order, request): (CallOrder, NodeExpandRequest) = read(request)?;
        let host = self.node.host.clone();
        self.run(async move { host.expand(order, request).await }).await
    }

    async fn sweep(&self, request: Request<messages::SweepRequest>) -> Answered {
        let (order, volume): (CallOrder, RemoteVolume) = read(request)?;
        let host = self.node.host.clone();
        self.run(async move { host.sweep(order, volume).await }).await
    }

    async fn left_behind(&self, request: Request<messages::LeftBehindRequest>) -> Answered {
        let term: Term = required(request.into_inner().term, "term").map_err(malformed)?;
        Ok(reply(end(self.node.host.left_behind(term).await)))
    }

    async fn kept_files(&self, request: Request<messages::KeptFilesRequest>) -> Answered {
        let volume: RemoteVolume =
            required(request.into_inner().volume, "volume").map_err(malformed)?;
        Ok(reply(end(self.node.host.kept_files(&volume).await)))
    }

    async fn stats(&self, request: Request<messages::StatsRequest>) -> Answered {
        let (instance, request): (AllocId, StatsRequest) = read(request)?;
        Ok(reply(end(self.node.host.stats(&instance, request).await)))
    }

    async fn controller_publish(
        &self,
        request: Request<messages::ControllerPublishRequest>,
    ) -> Answered {
        let (order, request): (CallOrder, ControllerPublishRequest) = read(request)?;
        let controllers = self.node.controllers.clone();
        self.run(async move { controllers.publish(order, request).await }).await
    }

    async fn controller_unpublish(
        &self,
        request: Request<messages::ControllerUnpublishRequest>,
    ) -> Answered {
        let (order, request): (CallOrder, ControllerUnpublishRequest) = read(request)?;
        let controllers = self.node.controllers.clone();
        self.run(async move { controllers.unpublish(order, request).await }).await
    }

    async fn controller(&self, request: Request<messages::ControllerRequest>) -> Answered {
        let request = request.into_inner();
        let term: Term = required(request.term, "term").map_err(malformed)?;
        let instance = required(request.instance, "instance").map_err(malformed)?;
        let call = ControllerChange::read(request.call).map_err(malformed)?;
        let (node, terms) = (self.node.clone(), self.terms.clone());
        self.run(async move {
            terms.obey(term)?;
            let plugin = find(&node, instance).await?;
            // A newer leader may have spoken while the plugin was looked up.
            terms.obey(term)?;
            call.send(&plugin).await.map_err(HostError::Plugin)
        })
        .await
    }

    async fn read_plugin(&self, request: Request<messages::ReadPluginRequest>) -> Answered {
        let request = request.into_inner();
        let instance = required(request.instance, "instance").map_err(malformed)?;
        let call = PluginRead::read(request.call).map_err(malformed)?;
        let plugin = find(&self.node, instance).await;
        let Some(call) = call else {
            return Ok(reply(plugin.is_ok().end()));
        };
        let plugin = match plugin {
            Ok(plugin) => plugin,
            Err(error) => return Ok(reply(End::Failure(error.write()))),
        };
        let answer = call.send(&plugin).await.map_err(HostError::Plugin);
        Ok(reply(end(answer)))
    }

    async fn task_logs(&self, request: Request<messages::TaskLogsRequest>) -> Answered {
        let (output, call): (TaskOutput, LogCall) = read(request)?;
        let Some(logs) = &self.node.logs else {
            let reason = "the node runs no tasks".to_owned();
            return Ok(reply(TaskLogError { task: output.task, reason }.end()));
        };
        let end = match call {
            LogCall::HasFiles => log_end(logs.has_files(&output).await),
            LogCall::Locate(origin, offset) => log_end(logs.locate(&output, origin, offset).await),
            LogCall::Read(position, limit) => {
                let chunk = logs.read(&output, position, limit.min(CHUNK_BYTES)).await;
                log_end::<LogChunk>(chunk)
            }
            LogCall::WaitForMore(position) => log_end(logs.wait_for_more(&output, position).await),
        };
        Ok(reply(end))
    }
    async fn alloc_access(&self, request: Request<messages::AllocAccessRequest>) -> Answered {
        let (alloc, call): (AllocId, AllocCall) = read(request)?;
        let Some(allocs) = &self.node.allocs else {
            let reason = "the node runs no tasks".to_owned();
            return Ok(reply(AllocAccessError::Failed(reason).end()));
        };
        let end = match call {
            AllocCall::Restart { task } => alloc_end(allocs.restart(&alloc, task.as_deref()).await),
            AllocCall::Signal { task, signal } => {
                alloc_end(allocs.signal(&alloc, task.as_deref(), &signal).await)
            }
            AllocCall::Stat { path } => alloc_end::<AllocFile>(allocs.stat(&alloc, &path).await),
            AllocCall::List { path } => alloc_end(allocs.list(&alloc, &path).await),
            AllocCall::Read { path, offset, limit } => {
                let content = allocs.read(&alloc, &path, offset, limit.min(CHUNK_BYTES)).await;
                alloc_end(content)
            }
        };
        Ok(reply(end))
    }
}
