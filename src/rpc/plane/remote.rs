//! [`RemoteControlPlane`]: the servers as a node sees them.
//!
//! The node asks one server at a time, and the next one if it does not answer or is not the leader. A list counts only as a
//! whole, from the node's own cluster, and at a place that is not below the highest that the node knows. Everything else, and
//! silence, makes a call wait or fail, and stops no task.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tonic::transport::Channel;
use tonic::{Response, Status};

use super::alloc_list::ListDecoder;
use super::convert::{
    event_message, lost_message, path_of, position_message, position_of, to_json,
};
use super::event_queue::EventQueue;
use super::known_cluster::KnownCluster;
use super::messages::control_plane_client::ControlPlaneClient;
use super::messages::{self as wire, mount_reply, register_reply, wait_for_mount_delay_reply};
use super::node_profile::NodeProfile;
use super::refusal::refusal_text;
use super::servers::{ConnectedServer, Servers, client_over};
use super::status::{is_refused, leader_of, reason_of};
use crate::transport::connection_token::ConnectionToken;
use crate::transport::dialer::Registrar;
use nomad_csi_model::retry::RetryPolicy;
use nomad_csi_model::{AllocId, AllocReport, NodeId, PluginId, PluginInstance, VolumeAlias};
use nomad_csi_ports::{
    AssignedAllocs, ClusterMemory, ClusterMemoryError, ControlPlane, ControlPlaneError, IdSource,
    LostMount, MountDelay, MountEvent, MountObserver, MountRefused, PluginObserver, ReportRefused,
};

type Client = ControlPlaneClient<Channel>;

/// How long a call that does not wait takes at most; then the next server is asked.
const CALL_LIMIT: Duration = Duration::from_secs(10);
/// The pauses between attempts of what waits for a server.
const RETRY: RetryPolicy =
    RetryPolicy { initial: Duration::from_millis(250), max: Duration::from_secs(5) };
/// A stream that lasted this long was a success: the pauses begin again.
const LASTED: Duration = Duration::from_secs(30);
/// The most mounts, waits for delays and waits for changes at the same time. Others wait here, so that a connection always
/// has room for reports.
const MOUNTS: usize = 1_024;
const DELAYS: usize = 512;
const CHANGES: usize = 256;

/// The servers as a node sees them. [`Dialer`](crate::Dialer) connects it, and [`run`](Self::run) keeps it up to date.
pub struct RemoteControlPlane {
    profile: NodeProfile,
    known: KnownCluster,
    servers: Servers,
    ids: Arc<dyn IdSource>,
    /// The newest list that counts.
    listed: watch::Sender<Option<Arc<AssignedAllocs>>>,
    events: EventQueue,
    mounts: Semaphore,
    delays: Semaphore,
    changes: Semaphore,
}

impl RemoteControlPlane {
    /// Reads what the node remembers of its cluster.
    ///
    /// # Errors
    /// If that cannot be read.
    pub async fn open(
        profile: NodeProfile,
        memory: Arc<dyn ClusterMemory>,
        ids: Arc<dyn IdSource>,
    ) -> Result<Self, ClusterMemoryError> {
        Ok(Self {
            profile,
            known: KnownCluster::open(memory).await?,
            servers: Servers::default(),
            ids,
            listed: watch::Sender::new(None),
            events: EventQueue::default(),
            mounts: Semaphore::new(MOUNTS),
            delays: Semaphore::new(DELAYS),
            changes: Semaphore::new(CHANGES),
        })
    }

    /// Follows the lists of allocations and sends the events of mounts until `stop`. Without it, no list after the first one
    /// arrives.
    pub async fn run(&self, stop: CancellationToken) {
        tokio::select! {
            () = stop.cancelled() => {}
            () = self.follow_lists() => {}
            () = self.send_events() => {}
        }
    }

    async fn follow_lists(&self) {
        let mut failures = 0;
        loop {
            let server = self.servers.any().await;
            let begun = Instant::now();
            let ended = self.follow_lists_of(&server).await;
            if begun.elapsed() >= LASTED {
                failures = 0;
            }
            match ended {
                ListsEnded::Server(reason) => tracing::warn!(
                    server.address = server.name,
                    reason,
                    "the allocations of this node cannot be followed; its tasks run on"
                ),
                ListsEnded::OwnRecord(error) => tracing::warn!(
                    %error,
                    "this node cannot record the place of its cluster, and takes no list of allocations before it can; its tasks run on"
                ),
            }
            self.pause(&mut failures).await;
        }
    }

    /// Follows the lists of one server, and returns why no more come.
    async fn follow_lists_of(&self, server: &ConnectedServer) -> ListsEnded {
        let mut lists = match self.open_lists(server).await {
            Ok(lists) => lists,
            Err(reason) => return ListsEnded::Server(reason),
        };
        loop {
            match self.next_list(server, &mut lists).await {
                Ok(list) => self.publish(server, list),
                Err(ended) => return ended,
            }
        }
    }

    async fn open_lists(&self, server: &ConnectedServer) -> Result<Lists, String> {
        let mut client = server.client.clone();
        let opened =
            timeout(CALL_LIMIT, client.watch_allocs(wire::WatchAllocsRequest { after: None }));
        match opened.await {
            Ok(Ok(opened)) => {
                Ok(Lists { parts: opened.into_inner(), decoder: ListDecoder::default() })
            }
            Ok(Err(status)) => Err(self.leave(server, &status)),
            Err(_) => Err(self.leave(server, &took_too_long())),
        }
    }

    /// Waits for the next list that counts.
    async fn next_list(
        &self,
        server: &ConnectedServer,
        lists: &mut Lists,
    ) -> Result<Arc<AssignedAllocs>, ListsEnded> {
        let left = |status: &Status| ListsEnded::Server(self.leave(server, status));
        loop {
            let part = match lists.parts.message().await {
                Ok(Some(part)) => part,
                Ok(None) => return Err(left(&Status::unavailable("the stream ended"))),
                Err(status) => return Err(left(&status)),
            };
            let added = lists.decoder.add(part);
            let added = added.map_err(|invalid| invalid.to_string());
            let believed = added.and_then(|complete| match complete {
                Some((position, list)) => match self.known.advance(&position) {
                    Ok(()) => Ok(Some(list)),
                    Err(not_believed) => Err(not_believed.to_string()),
                },
                None => Ok(None),
            });
            match believed {
                Ok(Some(list)) => {
                    self.remember(&list).await.map_err(ListsEnded::OwnRecord)?;
                    return Ok(Arc::new(list));
                }
                Ok(None) => {}
                Err(reason) => {
                    self.servers.leave(server, None);
                    return Err(ListsEnded::Server(reason));
                }
            }
        }
    }

    /// Remembers the place of the cluster before the node acts on a list. A list that changes nothing can wait.
    async fn remember(&self, list: &AssignedAllocs) -> Result<(), ClusterMemoryError> {
        let is_news = {
            let listed = self.listed.borrow();
            listed.as_ref().is_none_or(|old| {
                let revision = list.revision;
                AssignedAllocs { revision, ..AssignedAllocs::clone(old) } != *list
            })
        };
        match is_news {
            true => self.known.write().await,
            false => {
                self.known.write_if_due().await;
                Ok(())
            }
        }
    }

    /// Publishes a list, unless a newer one is there.
    fn publish(&self, server: &ConnectedServer, list: Arc<AssignedAllocs>) {
        self.servers.answered(server);
        self.listed.send_if_modified(|listed| {
            let is_newer = listed.as_ref().is_none_or(|old| old.revision <= list.revision);
            if is_newer {
                *listed = Some(list);
            }
            is_newer
        });
    }

    async fn send_events(&self) {
        loop {
            let events: Vec<_> = self.events.take().await.into_iter().map(event_message).collect();
            let request = wire::MountEventsRequest { events };
            let mut failures = 0;
            loop {
                let sent = self
                    .ask(request.clone(), |mut client, request| async move {
                        client.mount_events(request).await
                    })
                    .await;
                match sent {
                    Ok(_) => break,
                    Err(failed) if failed.is_refused => {
                        let reason = failed.reason;
                        tracing::warn!(reason, "events of mounts are forgotten");
                        break;
                    }
                    Err(failed) => {
                        let reason = failed.reason;
                        tracing::debug!(reason, "the events of mounts are not sent");
                        self.pause(&mut failures).await;
                    }
                }
            }
        }
    }

    /// Puts a server that gave no answer behind the others, and returns why.
    fn leave(&self, server: &ConnectedServer, status: &Status) -> String {
        self.servers.leave(server, leader_of(status));
        reason_of(&server.name, status)
    }

    async fn pause(&self, failures: &mut u32) {
        sleep(RETRY.delay(*failures, self.ids.jitter())).await;
        *failures = failures.saturating_add(1);
    }

    /// Asks each server once, until one answers.
    async fn ask<Q: Clone, R, F: Future<Output = Result<Response<R>, Status>>>(
        &self,
        request: Q,
        call: impl Fn(Client, Q) -> F,
    ) -> Result<R, NoAnswer> {
        let Ok(mut server) = timeout(CALL_LIMIT, self.servers.any()).await else {
            let reason = "this node is connected to no server".to_owned();
            return Err(NoAnswer { reason, is_refused: false });
        };
        let mut asked = vec![];
        loop {
            let answer = timeout(CALL_LIMIT, call(server.client.clone(), request.clone())).await;
            let failed = match answer.unwrap_or_else(|_| Err(took_too_long())) {
                Ok(answer) => {
                    self.servers.answered(&server);
                    return Ok(answer.into_inner());
                }
                Err(status) => NoAnswer {
                    reason: self.leave(&server, &status),
                    is_refused: is_refused(&status),
                },
            };
            asked.push(server.connection);
            server = self.servers.next(&asked).ok_or(failed)?;
        }
    }

    /// Asks one server after the other until one answers, without a limit.
    async fn ask_until_answered<Q: Clone, R, F: Future<Output = Result<Response<R>, Status>>>(
        &self,
        request: &Q,
        call: impl Fn(Client, Q) -> F,
    ) -> R {
        let mut failures = 0;
        loop {
            let server = self.servers.any().await;
            match call(server.client.clone(), request.clone()).await {
                Ok(answer) => {
                    self.servers.answered(&server);
                    return answer.into_inner();
                }
                Err(status) => {
                    let reason = self.leave(&server, &status);
                    tracing::debug!(reason, "a call is repeated");
                }
            }
            self.pause(&mut failures).await;
        }
    }
}

/// Why no more lists of a server come.
#[derive(Debug, thiserror::Error)]
enum ListsEnded {
    /// Because of the server or the connection.
    #[error("{0}")]
    Server(String),
    /// The node cannot write its own record.
    #[error("{0}")]
    OwnRecord(ClusterMemoryError),
}

/// No server answered a call.
struct NoAnswer {
    reason: String,
    /// True if a server will not answer the same call later either.
    is_refused: bool,
}

/// A stream of lists.
struct Lists {
    parts: tonic::Streaming<wire::AllocsPart>,
    decoder: ListDecoder,
}

fn took_too_long() -> Status {
    Status::unavailable(format!("it took longer than {} s", CALL_LIMIT.as_secs()))
}

/// Returns the result of a call that is done or failed.
fn done(reply: Result<wire::DoneReply, NoAnswer>) -> Result<(), ControlPlaneError> {
    match reply.map_err(|failed| ControlPlaneError::Failed(failed.reason))?.failed {
        Some(reason) => Err(ControlPlaneError::Failed(reason)),
        None => Ok(()),
    }
}

fn recorded(reply: Result<wire::DoneReply, NoAnswer>) -> Result<(), ReportRefused> {
    match reply.map_err(|failed| ReportRefused { reason: failed.reason })?.failed {
        Some(reason) => Err(ReportRefused { reason }),
        None => Ok(()),
    }
}

#[async_trait]
impl Registrar for RemoteControlPlane {
    async fn register(&self, _: &str, channel: &Channel) -> Result<ConnectionToken, String> {
        let NodeProfile { node, secret, session, boot_id, version, features } = &self.profile;
        let request = wire::RegisterRequest {
            node: to_json(node, "node").map_err(|invalid| invalid.to_string())?,
            secret: secret.expose().to_vec(),
            session: session.as_str().to_owned(),
            boot_id: boot_id.clone(),
            version: version.clone(),
            features: features.clone(),
            known: self.known.get().as_ref().map(position_message),
        };
        let answer = client_over(channel.clone()).register(request).await;
        let answer = answer.map_err(|status| status.message().to_owned())?.into_inner();
        let registered = match answer.end {
            Some(register_reply::End::Registered(registered)) => registered,
            Some(register_reply::End::Refused(refused)) => return Err(refusal_text(&refused)),
            None => return Err("the server sent an empty answer".to_owned()),
        };
        let position = position_of(registered.position).map_err(|invalid| invalid.to_string())?;
        self.known.check_cluster(&position).map_err(|refused| refused.to_string())?;
        // A standby may be behind: it is connected, and its lists do not count.
        if self.known.advance(&position).is_ok() {
            self.known.write_if_due().await;
        }
        let token = registered.token.try_into().map(ConnectionToken::new);
        token.map_err(|_| "the server sent no token".to_owned())
    }

    fn connected(&self, server: &str, channel: Channel) {
        self.servers.add(server, channel);
    }

    fn disconnected(&self, server: &str) {
        self.servers.remove(server);
    }

    fn is_served(&self) -> watch::Receiver<bool> {
        self.servers.is_served()
    }
}

#[async_trait]
impl ControlPlane for RemoteControlPlane {
    /// Without `after`, it asks a server, so the list has what was reported before. Otherwise it waits for the next list that
    /// arrives by itself.
    async fn assigned(&self, after: Option<u64>) -> Result<AssignedAllocs, ControlPlaneError> {
        if let Some(after) = after {
            let mut listed = self.listed.subscribe();
            let is_newer = |list: &Option<Arc<AssignedAllocs>>| {
                list.as_ref().is_some_and(|list| list.revision > after)
            };
            let newer = listed.wait_for(is_newer).await;
            let newer = newer.map_err(|_| ControlPlaneError::Stopping)?;
            return Ok(newer.as_deref().cloned().unwrap_or_default());
        }
        let server = self.servers.any().await;
        let failed = ControlPlaneError::Failed;
        let mut lists = self.open_lists(&server).await.map_err(failed)?;
        let list = self.next_list(&server, &mut lists).await;
        let list = list.map_err(|ended| failed(ended.to_string()))?;
        self.publish(&server, list.clone());
        Ok(Arc::unwrap_or_clone(list))
    }

    async fn mount(&self, alloc: &AllocId, alias: &VolumeAlias) -> Result<PathBuf, MountRefused> {
        let request = wire::MountRequest {
            alloc: alloc.as_str().to_owned(),
            alias: alias.as_str().to_owned(),
        };
        loop {
            // Taken for each attempt: those that wait take turns.
            let _permit = self.mounts.acquire().await;
            let reply = self.ask_until_answered(&request, |mut client, request| async move {
                client.mount(request).await
            });
            match reply.await.end {
                Some(mount_reply::End::Target(target)) => return Ok(path_of(target)),
                Some(mount_reply::End::Refused(refused)) => {
                    let wire::MountRefused { message, is_final } = refused;
                    return Err(MountRefused { message, is_final });
                }
                Some(mount_reply::End::Pending(wire::Pending {})) => {}
                None => {
                    let message = format!("the server sent no answer for volume `{alias}`");
                    return Err(MountRefused { message, is_final: false });
                }
            }
        }
    }

    async fn wait_for_mount_delay(
        &self,
        alloc: &AllocId,
        alias: &VolumeAlias,
        known: Option<&MountDelay>,
    ) -> Result<MountDelay, ControlPlaneError> {
        let request = wire::WaitForMountDelayRequest {
            alloc: alloc.as_str().to_owned(),
            alias: alias.as_str().to_owned(),
            known: known.map(|known| known.message.clone()),
        };
        use wait_for_mount_delay_reply::End;
        loop {
            let _permit = self.delays.acquire().await;
            let reply = self.ask_until_answered(&request, |mut client, request| async move {
                client.wait_for_mount_delay(request).await
            });
            match reply.await.end {
                Some(End::Delay(message)) => return Ok(MountDelay { message }),
                Some(End::Failed(reason)) => return Err(ControlPlaneError::Failed(reason)),
                Some(End::Pending(wire::Pending {})) => {}
                None => {
                    let reason = "the server sent an empty answer".to_owned();
                    return Err(ControlPlaneError::Failed(reason));
                }
            }
        }
    }

    /// Also ends after a minute, without a change: the server forgets what it watched.
    async fn wait_for_claim_change(
        &self,
        alloc: &AllocId,
        alias: &VolumeAlias,
    ) -> Result<(), ControlPlaneError> {
        let request = wire::WaitForClaimChangeRequest {
            alloc: alloc.as_str().to_owned(),
            alias: alias.as_str().to_owned(),
        };
        let _permit = self.changes.acquire().await;
        let reply = self.ask_until_answered(&request, |mut client, request| async move {
            client.wait_for_claim_change(request).await
        });
        done(Ok(reply.await))
    }

    async fn note_lost(&self, lost: &LostMount, reason: &str) -> Result<(), ControlPlaneError> {
        let (lost, reason) = (Some(lost_message(lost)), reason.to_owned());
        let request = wire::NoteLostRequest { lost, reason };
        done(
            self.ask(request, |mut client, request| async move { client.note_lost(request).await })
                .await,
        )
    }

    async fn note_cut_off(
        &self,
        alloc: &AllocId,
        alias: &VolumeAlias,
    ) -> Result<(), ControlPlaneError> {
        let request = wire::NoteCutOffRequest {
            alloc: alloc.as_str().to_owned(),
            alias: alias.as_str().to_owned(),
        };
        done(
            self.ask(
                request,
                |mut client, request| async move { client.note_cut_off(request).await },
            )
            .await,
        )
    }

    async fn report(&self, alloc: &AllocId, report: AllocReport) -> Result<(), ControlPlaneError> {
        let report = to_json(&report, "report");
        let request = wire::ReportRequest {
            alloc: alloc.as_str().to_owned(),
            report: report.map_err(|invalid| ControlPlaneError::Failed(invalid.to_string()))?,
        };
        done(
            self.ask(request, |mut client, request| async move { client.report(request).await })
                .await,
        )
    }
}

#[async_trait]
impl PluginObserver for RemoteControlPlane {
    async fn changed(
        &self,
        plugin: &PluginId,
        node: &NodeId,
        instance: PluginInstance,
    ) -> Result<(), ReportRefused> {
        if *node != self.profile.node.id {
            let own = &self.profile.node.id;
            let reason = format!("node `{own}` cannot report the plugins of node `{node}`");
            return Err(ReportRefused { reason });
        }
        let instance = to_json(&instance, "plugin instance");
        let request = wire::PluginChangedRequest {
            plugin_id: plugin.as_str().to_owned(),
            instance: instance.map_err(|invalid| ReportRefused { reason: invalid.to_string() })?,
        };
        let asked =
            self.ask(
                request,
                |mut client, request| async move { client.plugin_changed(request).await },
            );
        recorded(asked.await)
    }

    async fn gone(&self, plugin: &PluginId, alloc: &AllocId) -> Result<(), ReportRefused> {
        let request = wire::PluginGoneRequest {
            plugin_id: plugin.as_str().to_owned(),
            alloc: alloc.as_str().to_owned(),
        };
        let asked = self
            .ask(request, |mut client, request| async move { client.plugin_gone(request).await });
        recorded(asked.await)
    }
}

impl MountObserver for RemoteControlPlane {
    fn observed(&self, event: MountEvent) {
        self.events.push(event);
    }
}
