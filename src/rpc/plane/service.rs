//! [`ControlPlaneService`]: answers nodes.
//!
//! A connection registers one node, and all its later calls are that node's. Nothing in a later request names a node, so no
//! node can speak for another one. A server that is not the leader answers nothing.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::Stream;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::service::Routes;
use tonic::{Request, Response, Status};

use super::alloc_list::ListEncoder;
use super::convert::{
    InvalidMessage, event_of, from_json, lost_of, path_bytes, position_message, position_of,
};
use super::guarded_service::GuardedService;
use super::messages::control_plane_server::ControlPlane as Service;
use super::messages::{self as wire, mount_reply, register_reply, wait_for_mount_delay_reply};
use super::refusal::refusal_message;
use super::status::{not_leader, not_registered, stopping};
use crate::transport::connected_nodes::{BeginRefused, ConnectedNodes, Registering};
use crate::transport::node_connection::NodeConnection;
use nomad_csi_model::{HostSession, Node, NodeId};
use nomad_csi_ports::{
    ControlPlane, ControlPlaneError, MountDelay, MountRefused, NodePlane, NodeSecret, Registration,
    RegistrationRefused, ReportRefused,
};

/// How long a call that waits takes at most. The node asks again, so each of many gets its turn.
const WAIT_LIMIT: Duration = Duration::from_secs(60);
/// How often a stream looks whether this server is still the leader.
const LEADER_CHECKED: Duration = Duration::from_secs(5);
/// The parts of lists that wait for a slow node.
const PARTS: usize = 2;
/// The most events of one request that are taken.
const MAX_EVENTS: usize = 1_024;
/// The longest text that a node says of itself: of its session, boot, version, or a feature.
const MAX_TEXT: usize = 256;
/// The most features of a node.
const MAX_FEATURES: usize = 64;

/// Answers nodes.
pub struct ControlPlaneService {
    plane: Arc<dyn NodePlane>,
    nodes: Arc<ConnectedNodes>,
}

impl ControlPlaneService {
    /// Answers from `plane`, and notes in `nodes` who is registered: the listener has the same one.
    pub fn new(plane: Arc<dyn NodePlane>, nodes: Arc<ConnectedNodes>) -> Self {
        Self { plane, nodes }
    }

    /// Returns it for [`LeaderServices`](crate::LeaderServices).
    pub fn into_routes(self) -> Routes {
        Routes::new(GuardedService::new(self))
    }

    /// Returns the node of the connection, if this server answers nodes.
    fn caller<T>(&self, request: &Request<T>) -> Result<NodeId, Status> {
        let connection = request.extensions().get::<NodeConnection>();
        let bound = connection.and_then(NodeConnection::bound).ok_or_else(not_registered)?;
        self.plane.position().map_err(|refused| not_leader(&refused))?;
        Ok(bound.node.clone())
    }

    fn plane_of<T>(&self, request: &Request<T>) -> Result<Arc<dyn ControlPlane>, Status> {
        Ok(self.plane.of(&self.caller(request)?))
    }

    fn begin(
        &self,
        registration: &Registration,
        is_forwarded: bool,
    ) -> Result<Registering, RegistrationRefused> {
        let begun = self.nodes.begin(&registration.node.id, &registration.session, is_forwarded);
        begun.map_err(|refused| match refused {
            BeginRefused::Duplicate => RegistrationRefused::Duplicate,
            BeginRefused::Busy => {
                RegistrationRefused::Failed("another registration of this node runs".to_owned())
            }
            BeginRefused::Connected => {
                RegistrationRefused::Failed("the node is connected already".to_owned())
            }
        })
    }

    async fn register_on(
        &self,
        connection: &NodeConnection,
        registration: Registration,
    ) -> Result<wire::Registered, RegistrationRefused> {
        let registering = self.begin(&registration, connection.is_forwarded())?;
        let position = self.plane.register(registration).await?;
        let token = registering.bind(connection).ok_or_else(|| {
            RegistrationRefused::Failed("the connection cannot be bound to the node".to_owned())
        })?;
        let position = Some(position_message(&position));
        Ok(wire::Registered { position, token: token.expose().to_vec() })
    }
}

fn registration_of(message: wire::RegisterRequest) -> Result<Registration, InvalidMessage> {
    let node: Node = from_json(&message.node, "node")?;
    let secret: [u8; NodeSecret::LENGTH] =
        message.secret.try_into().map_err(|_| InvalidMessage("secret"))?;
    let is_text = |text: &str| !text.is_empty() && text.len() <= MAX_TEXT;
    for (text, what) in [
        (node.id.as_str(), "node ID"),
        (message.session.as_str(), "session"),
        (message.boot_id.as_str(), "boot ID"),
        (message.version.as_str(), "version"),
    ] {
        if !is_text(text) {
            return Err(InvalidMessage(what));
        }
    }
    let are_features = message.features.len() <= MAX_FEATURES;
    if !are_features || !message.features.iter().all(|feature| is_text(feature)) {
        return Err(InvalidMessage("features"));
    }
    let known = message.known.map(|known| position_of(Some(known))).transpose()?;
    Ok(Registration {
        node,
        secret: NodeSecret::new(secret),
        session: HostSession::new(message.session),
        boot_id: message.boot_id,
        version: message.version,
        features: message.features,
        known,
    })
}

/// Returns the reply of a call that is done or failed.
fn done(result: Result<(), ControlPlaneError>) -> Result<Response<wire::DoneReply>, Status> {
    let failed = match result {
        Ok(()) => None,
        Err(ControlPlaneError::Failed(reason)) => Some(reason),
        Err(ControlPlaneError::Stopping) => return Err(stopping()),
    };
    Ok(Response::new(wire::DoneReply { failed }))
}

fn recorded(result: Result<(), ReportRefused>) -> Result<Response<wire::DoneReply>, Status> {
    let failed = result.err().map(|refused| refused.reason);
    Ok(Response::new(wire::DoneReply { failed }))
}

/// Sends lists until the node is gone, the server is not the leader any more, or the lists end.
async fn send_lists(
    plane: Arc<dyn NodePlane>,
    control: Arc<dyn ControlPlane>,
    mut after: Option<u64>,
    parts: &mpsc::Sender<Result<wire::AllocsPart, Status>>,
) -> Status {
    let mut encoder = ListEncoder::default();
    loop {
        let listed = match timeout(LEADER_CHECKED, control.assigned(after)).await {
            Ok(Ok(listed)) => Some(listed),
            Ok(Err(ControlPlaneError::Stopping)) => return stopping(),
            Ok(Err(ControlPlaneError::Failed(reason))) => return Status::internal(reason),
            Err(_) => None,
        };
        // After the list, so that the list is not of a later leader than it says.
        let position = match plane.position() {
            Ok(position) => position,
            Err(refused) => return not_leader(&refused),
        };
        let Some(listed) = listed else { continue };
        after = Some(listed.revision);
        for part in encoder.encode(listed, &position) {
            if parts.send(Ok(part)).await.is_err() {
                return Status::cancelled("the node is gone");
            }
        }
    }
}

#[async_trait]
impl Service for ControlPlaneService {
    async fn register(
        &self,
        request: Request<wire::RegisterRequest>,
    ) -> Result<Response<wire::RegisterReply>, Status> {
        let connection = request.extensions().get::<NodeConnection>().cloned();
        let connection = connection.ok_or_else(not_registered)?;
        if connection.bound().is_some() {
            return Err(Status::failed_precondition("this connection has registered its node"));
        }
        let registration = registration_of(request.into_inner())?;
        let node = registration.node.id.clone();
        let end = match self.register_on(&connection, registration).await {
            Ok(registered) => register_reply::End::Registered(registered),
            Err(refused) => {
                tracing::warn!(node.id = %node, reason = %refused, "a node is not registered");
                register_reply::End::Refused(refusal_message(&refused))
            }
        };
        Ok(Response::new(wire::RegisterReply { end: Some(end) }))
    }

    type WatchAllocsStream =
        Pin<Box<dyn Stream<Item = Result<wire::AllocsPart, Status>> + Send + 'static>>;

    async fn watch_allocs(
        &self,
        request: Request<wire::WatchAllocsRequest>,
    ) -> Result<Response<Self::WatchAllocsStream>, Status> {
        let (control, plane) = (self.plane_of(&request)?, self.plane.clone());
        let after = request.into_inner().after;
        let (sender, parts) = mpsc::channel(PARTS);
        tokio::spawn(async move {
            let ended = tokio::select! {
                () = sender.closed() => return,
                ended = send_lists(plane, control, after, &sender) => ended,
            };
            // A node that is gone needs no reason.
            sender.send(Err(ended)).await.ok();
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(parts))))
    }

    async fn mount(
        &self,
        request: Request<wire::MountRequest>,
    ) -> Result<Response<wire::MountReply>, Status> {
        let control = self.plane_of(&request)?;
        let wire::MountRequest { alloc, alias } = request.into_inner();
        let (alloc, alias) = (alloc.as_str().into(), alias.as_str().into());
        let end = match timeout(WAIT_LIMIT, control.mount(&alloc, &alias)).await {
            Ok(Ok(target)) => mount_reply::End::Target(path_bytes(&target)),
            Ok(Err(MountRefused { message, is_final })) => {
                mount_reply::End::Refused(wire::MountRefused { message, is_final })
            }
            Err(_) => mount_reply::End::Pending(wire::Pending {}),
        };
        // A refusal of a server that is not the leader any more is of an old state, and may be final.
        self.plane.position().map_err(|refused| not_leader(&refused))?;
        Ok(Response::new(wire::MountReply { end: Some(end) }))
    }

    async fn wait_for_mount_delay(
        &self,
        request: Request<wire::WaitForMountDelayRequest>,
    ) -> Result<Response<wire::WaitForMountDelayReply>, Status> {
        let control = self.plane_of(&request)?;
        let wire::WaitForMountDelayRequest { alloc, alias, known } = request.into_inner();
        let (alloc, alias) = (alloc.as_str().into(), alias.as_str().into());
        let known = known.map(|message| MountDelay { message });
        let delay = control.wait_for_mount_delay(&alloc, &alias, known.as_ref());
        use wait_for_mount_delay_reply::End;
        let end = match timeout(WAIT_LIMIT, delay).await {
            Ok(Ok(delay)) => End::Delay(delay.message),
            Ok(Err(ControlPlaneError::Failed(reason))) => End::Failed(reason),
            Ok(Err(ControlPlaneError::Stopping)) => return Err(stopping()),
            Err(_) => End::Pending(wire::Pending {}),
        };
        Ok(Response::new(wire::WaitForMountDelayReply { end: Some(end) }))
    }

    async fn wait_for_claim_change(
        &self,
        request: Request<wire::WaitForClaimChangeRequest>,
    ) -> Result<Response<wire::DoneReply>, Status> {
        let control = self.plane_of(&request)?;
        let wire::WaitForClaimChangeRequest { alloc, alias } = request.into_inner();
        let (alloc, alias) = (alloc.as_str().into(), alias.as_str().into());
        let changed = control.wait_for_claim_change(&alloc, &alias);
        // At the limit the node tries again: the server forgets what it watched.
        done(timeout(WAIT_LIMIT, changed).await.unwrap_or(Ok(())))
    }

    async fn note_lost(
        &self,
        request: Request<wire::NoteLostRequest>,
    ) -> Result<Response<wire::DoneReply>, Status> {
        let control = self.plane_of(&request)?;
        let wire::NoteLostRequest { lost, reason } = request.into_inner();
        done(control.note_lost(&lost_of(lost)?, &reason).await)
    }

    async fn note_cut_off(
        &self,
        request: Request<wire::NoteCutOffRequest>,
    ) -> Result<Response<wire::DoneReply>, Status> {
        let control = self.plane_of(&request)?;
        let wire::NoteCutOffRequest { alloc, alias } = request.into_inner();
        done(control.note_cut_off(&alloc.as_str().into(), &alias.as_str().into()).await)
    }

    async fn report(
        &self,
        request: Request<wire::ReportRequest>,
    ) -> Result<Response<wire::DoneReply>, Status> {
        let control = self.plane_of(&request)?;
        let wire::ReportRequest { alloc, report } = request.into_inner();
        let report = from_json(&report, "report")?;
        done(control.report(&alloc.as_str().into(), report).await)
    }

    async fn plugin_changed(
        &self,
        request: Request<wire::PluginChangedRequest>,
    ) -> Result<Response<wire::DoneReply>, Status> {
        let node = self.caller(&request)?;
        let wire::PluginChangedRequest { plugin_id, instance } = request.into_inner();
        let instance = from_json(&instance, "plugin instance")?;
        let observer = self.plane.plugins_of(&node);
        recorded(observer.changed(&plugin_id.as_str().into(), &node, instance).await)
    }

    async fn plugin_gone(
        &self,
        request: Request<wire::PluginGoneRequest>,
    ) -> Result<Response<wire::DoneReply>, Status> {
        let node = self.caller(&request)?;
        let wire::PluginGoneRequest { plugin_id, alloc } = request.into_inner();
        let observer = self.plane.plugins_of(&node);
        recorded(observer.gone(&plugin_id.as_str().into(), &alloc.as_str().into()).await)
    }

    async fn mount_events(
        &self,
        request: Request<wire::MountEventsRequest>,
    ) -> Result<Response<wire::DoneReply>, Status> {
        let node = self.caller(&request)?;
        let events = request.into_inner().events;
        if events.len() > MAX_EVENTS {
            return Err(InvalidMessage("number of events").into());
        }
        let events: Result<Vec<_>, _> = events.into_iter().map(event_of).collect();
        let observer = self.plane.mounts_of(&node);
        for event in events? {
            observer.observed(event);
        }
        done(Ok(()))
    }
}
