//! CSI's own messages, sent exactly as they are, and what came back of them.
//!
//! The ports of [`crate::ports`] cannot say what a conformance check has to say: a request without a
//! name, a size below zero, an unknown token. [`RawClient`] sends any message of the specification,
//! once, under one deadline, and tells the plugin's own refusal from a connection that failed.
//! Nothing is repeated and nothing is interpreted here. Its callers know no gRPC: codes are
//! [`StatusCode`]s.

use std::error::Error;
use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use prost::Message;
use tokio::net::UnixStream;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint, Uri};
use tonic::{Request, Status};
use tonic_prost::ProstCodec;

use super::connect::lazy_channel;
use super::leaving::{Leaving, Sent};
use super::proto;
use super::status::{Transport, from_tonic};
use super::storage::LIST_BYTES;
use crate::ports::StatusCode;

/// A message that is the request of one RPC.
pub trait Call: Message + Debug + Clone + Default + 'static {
    /// The message that answers it.
    type Answer: Message + Debug + Clone + Default + 'static;
    /// The specification's name.
    const RPC: &'static str;
    /// gRPC's path.
    const PATH: &'static str;
}

macro_rules! calls {
    ($($service:literal { $($rpc:literal $request:ident $answer:ident;)* })*) => {
        $($(impl Call for proto::$request {
            type Answer = proto::$answer;
            const RPC: &'static str = $rpc;
            const PATH: &'static str = concat!("/csi.v1.", $service, "/", $rpc);
        })*)*
    };
}

calls! {
    "Identity" {
        "GetPluginInfo" GetPluginInfoRequest GetPluginInfoResponse;
        "GetPluginCapabilities" GetPluginCapabilitiesRequest GetPluginCapabilitiesResponse;
        "Probe" ProbeRequest ProbeResponse;
    }
    "Controller" {
        "CreateVolume" CreateVolumeRequest CreateVolumeResponse;
        "DeleteVolume" DeleteVolumeRequest DeleteVolumeResponse;
        "ControllerPublishVolume" ControllerPublishVolumeRequest ControllerPublishVolumeResponse;
        "ControllerUnpublishVolume" ControllerUnpublishVolumeRequest ControllerUnpublishVolumeResponse;
        "ValidateVolumeCapabilities" ValidateVolumeCapabilitiesRequest ValidateVolumeCapabilitiesResponse;
        "ListVolumes" ListVolumesRequest ListVolumesResponse;
        "GetCapacity" GetCapacityRequest GetCapacityResponse;
        "ControllerGetCapabilities" ControllerGetCapabilitiesRequest ControllerGetCapabilitiesResponse;
        "CreateSnapshot" CreateSnapshotRequest CreateSnapshotResponse;
        "DeleteSnapshot" DeleteSnapshotRequest DeleteSnapshotResponse;
        "ListSnapshots" ListSnapshotsRequest ListSnapshotsResponse;
        "GetSnapshot" GetSnapshotRequest GetSnapshotResponse;
        "ControllerExpandVolume" ControllerExpandVolumeRequest ControllerExpandVolumeResponse;
        "ControllerGetVolume" ControllerGetVolumeRequest ControllerGetVolumeResponse;
        "ControllerModifyVolume" ControllerModifyVolumeRequest ControllerModifyVolumeResponse;
    }
    "GroupController" {
        "GroupControllerGetCapabilities" GroupControllerGetCapabilitiesRequest GroupControllerGetCapabilitiesResponse;
        "CreateVolumeGroupSnapshot" CreateVolumeGroupSnapshotRequest CreateVolumeGroupSnapshotResponse;
        "DeleteVolumeGroupSnapshot" DeleteVolumeGroupSnapshotRequest DeleteVolumeGroupSnapshotResponse;
        "GetVolumeGroupSnapshot" GetVolumeGroupSnapshotRequest GetVolumeGroupSnapshotResponse;
    }
    "SnapshotMetadata" {
        "GetMetadataAllocated" GetMetadataAllocatedRequest GetMetadataAllocatedResponse;
        "GetMetadataDelta" GetMetadataDeltaRequest GetMetadataDeltaResponse;
    }
    "Node" {
        "NodeStageVolume" NodeStageVolumeRequest NodeStageVolumeResponse;
        "NodeUnstageVolume" NodeUnstageVolumeRequest NodeUnstageVolumeResponse;
        "NodePublishVolume" NodePublishVolumeRequest NodePublishVolumeResponse;
        "NodeUnpublishVolume" NodeUnpublishVolumeRequest NodeUnpublishVolumeResponse;
        "NodeGetVolumeStats" NodeGetVolumeStatsRequest NodeGetVolumeStatsResponse;
        "NodeExpandVolume" NodeExpandVolumeRequest NodeExpandVolumeResponse;
        "NodeGetCapabilities" NodeGetCapabilitiesRequest NodeGetCapabilitiesResponse;
        "NodeGetInfo" NodeGetInfoRequest NodeGetInfoResponse;
    }
}

/// Why a call has no good answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// How far it came.
    pub reached: Reached,
    /// The plugin's words, or what happened to the connection.
    pub message: String,
    /// Whether the status carried details, which the specification forbids (section 3.6).
    pub has_details: bool,
}

/// How far a call came that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reached {
    /// The plugin answered with this code.
    Answered(StatusCode),
    /// There was no connection, so nothing was sent; why, if the system says so.
    NotConnected(Option<io::ErrorKind>),
    /// No answer came within the deadline; the outcome is unknown.
    TimedOut,
    /// The connection ended before the answer came; the outcome is unknown.
    Broken,
}

impl Failure {
    /// The plugin's code, if it was the plugin that refused.
    pub const fn code(&self) -> Option<StatusCode> {
        match self.reached {
            Reached::Answered(code) => Some(code),
            Reached::NotConnected(_) | Reached::TimedOut | Reached::Broken => None,
        }
    }

    fn late(deadline: Duration) -> Self {
        Self {
            reached: Reached::TimedOut,
            message: format!("no answer within {} s", deadline.as_secs()),
            has_details: false,
        }
    }

    fn of(status: &Status) -> Self {
        let (reached, message) = match Transport::of(status) {
            Transport::Answered => {
                let code = from_tonic(status.code());
                (Reached::Answered(code), status.message().to_owned())
            }
            Transport::NotConnected(reason) => (Reached::NotConnected(io_kind(status)), reason),
            Transport::TimedOut => (Reached::TimedOut, status.message().to_owned()),
            Transport::Broken(reason) => (Reached::Broken, reason),
        };
        Self {
            reached,
            message,
            has_details: !status.details().is_empty(),
        }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.reached {
            Reached::Answered(code) => write!(f, "{}: {}", code.as_spec(), self.message),
            Reached::NotConnected(_) => write!(f, "no connection: {}", self.message),
            Reached::TimedOut => f.write_str(&self.message),
            Reached::Broken => write!(f, "the connection broke: {}", self.message),
        }
    }
}

fn io_kind(status: &Status) -> Option<io::ErrorKind> {
    let mut cause: Option<&(dyn Error + 'static)> = status.source();
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return Some(error.kind());
        }
        cause = error.source();
    }
    None
}

/// Sends CSI's messages to one plugin. Connects with its first call, and again after a break.
#[derive(Clone, Debug)]
pub struct RawClient {
    socket: PathBuf,
    channel: Channel,
    deadline: Duration,
}

impl RawClient {
    /// For the plugin that listens on `socket`, with `deadline` for each call. Has to be called on
    /// a tokio runtime.
    pub fn new(socket: &Path, deadline: Duration) -> Self {
        Self {
            socket: socket.to_owned(),
            channel: lazy_channel(socket.to_owned()),
            deadline,
        }
    }

    /// How long a call may take.
    pub const fn deadline(&self) -> Duration {
        self.deadline
    }

    /// Sends one call and waits for its answer.
    ///
    /// # Errors
    /// If there is none, or a refusal.
    pub async fn call<C: Call>(&self, request: C) -> Result<C::Answer, Failure> {
        unary(self.channel.clone(), C::PATH, request, self.deadline).await
    }

    /// Sends a call whose answer is a stream, and collects at most `limit` messages of it.
    ///
    /// # Errors
    /// If the stream ends with an error, whatever came before it.
    pub async fn collect<C: Call>(
        &self,
        request: C,
        limit: usize,
    ) -> Result<Vec<C::Answer>, Failure> {
        let collecting = async {
            let mut grpc = ready(self.channel.clone()).await?;
            let codec = ProstCodec::<C, C::Answer>::default();
            let path = PathAndQuery::from_static(C::PATH);
            let mut request = Request::new(request);
            request.set_timeout(self.deadline);
            let mut stream = grpc.server_streaming(request, path, codec).await?;
            let mut messages = vec![];
            while messages.len() < limit
                && let Some(message) = stream.get_mut().message().await?
            {
                messages.push(message);
            }
            Ok(messages)
        };
        within(self.deadline, collecting).await
    }

    /// Sends an empty message to any path, as a plugin of another version of CSI would have it.
    ///
    /// # Errors
    /// If it is refused.
    pub async fn knock(&self, path: &'static str) -> Result<(), Failure> {
        unary(self.channel.clone(), path, (), self.deadline).await
    }

    /// Sends a call over a connection of its own and cuts that as soon as the request has gone out
    /// completely. Nobody knows then whether it took effect.
    ///
    /// # Errors
    /// If the request could not be sent.
    pub async fn send_and_leave<C: Call>(&self, request: C) -> Result<(), Failure> {
        let sent = Sent::default();
        let channel = leaving_channel(self.socket.clone(), sent.clone());
        let sending = unary::<C, C::Answer>(channel, C::PATH, request, self.deadline);
        tokio::select! {
            biased;
            () = sent.wait() => Ok(()),
            ended = sending => match ended {
                // The break that was wanted may be heard of first.
                Err(_) if sent.is_out() => Ok(()),
                ended => ended.map(drop),
            },
        }
    }
}

/// A channel whose connection breaks once the first request is out.
fn leaving_channel(socket: PathBuf, sent: Sent) -> Channel {
    let connector = tower::service_fn(move |_: Uri| {
        let (socket, sent) = (socket.clone(), sent.clone());
        async move {
            let stream = UnixStream::connect(socket).await?;
            Ok::<_, io::Error>(TokioIo::new(Leaving::new(stream, sent)))
        }
    });
    Endpoint::from_static("http://localhost").connect_with_connector_lazy(connector)
}

async fn ready(channel: Channel) -> Result<Grpc<Channel>, Status> {
    let mut grpc = Grpc::new(channel).max_decoding_message_size(LIST_BYTES);
    grpc.ready()
        .await
        .map_err(|error| Status::from_error(error.into()))?;
    Ok(grpc)
}

async fn unary<Q, A>(
    channel: Channel,
    path: &'static str,
    message: Q,
    deadline: Duration,
) -> Result<A, Failure>
where
    Q: Message + 'static,
    A: Message + Default + 'static,
{
    let sending = async {
        let mut grpc = ready(channel).await?;
        let mut request = Request::new(message);
        request.set_timeout(deadline);
        let codec = ProstCodec::<Q, A>::default();
        let answer = grpc
            .unary(request, PathAndQuery::from_static(path), codec)
            .await?;
        Ok(answer.into_inner())
    };
    within(deadline, sending).await
}

async fn within<T>(
    deadline: Duration,
    sending: impl Future<Output = Result<T, Status>>,
) -> Result<T, Failure> {
    match tokio::time::timeout(deadline, sending).await {
        Err(_elapsed) => Err(Failure::late(deadline)),
        Ok(Err(status)) => Err(Failure::of(&status)),
        Ok(Ok(answer)) => Ok(answer),
    }
}
