//! Sends CSI messages exactly as given.
//!
//! The ports of [`nomad_csi_ports`] cannot express the invalid requests of a conformance check, such as
//! an empty name or a negative size. [`RawClient`] sends any CSI message once, with one deadline. Its
//! error distinguishes a status of the plugin from a failed connection. It neither retries nor
//! interprets anything, and hides gRPC: codes are [`StatusCode`]s.

use std::error::Error;
use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use prost::Message;
use tokio::net::UnixStream;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Uri};
use tonic::{Request, Status};
use tonic_prost::ProstCodec;

use super::call_secrets::CallSecrets;
use super::connect::lazy_channel;
use super::disconnecting_stream::{DisconnectingStream, RequestSent};
use super::status::{StatusOrigin, from_tonic};
use nomad_csi_ports::StatusCode;
use nomad_csi_proto as proto;
use nomad_csi_proto::MessageTexts;

/// The request message of one RPC.
pub trait CsiRequest: Message + MessageTexts + Debug + Clone + Default + 'static {
    /// The response message.
    type Response: Message + MessageTexts + Debug + Clone + Default + 'static;
    /// The name of the RPC in the CSI specification.
    const RPC: &'static str;
    /// The gRPC path.
    const PATH: &'static str;
}

macro_rules! csi_requests {
    ($($service:literal { $($rpc:literal $request:ident $response:ident;)* })*) => {
        $($(impl CsiRequest for proto::$request {
            type Response = proto::$response;
            const RPC: &'static str = $rpc;
            const PATH: &'static str = concat!("/csi.v1.", $service, "/", $rpc);
        })*)*
    };
}

csi_requests! {
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
        "ControllerGetVolumeHealth" ControllerGetVolumeHealthRequest ControllerGetVolumeHealthResponse;
        "ControllerListVolumeHealth" ControllerListVolumeHealthRequest ControllerListVolumeHealthResponse;
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
        "NodeGetVolumeHealth" NodeGetVolumeHealthRequest NodeGetVolumeHealthResponse;
        "NodeGetStorageHealth" NodeGetStorageHealthRequest NodeGetStorageHealthResponse;
    }
}

/// A failed call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallFailure {
    /// The kind of failure.
    pub kind: FailureKind,
    /// The message of the plugin, or the reason of a failed connection.
    pub message: String,
    /// True if the message repeated a secret that was sent. It is hidden in the message.
    pub repeats_secret: bool,
    /// True if the status has details, which the specification forbids (CSI, "Error Scheme").
    pub has_details: bool,
}

/// The kind of a failed call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// The plugin returned this code.
    Answered(StatusCode),
    /// No connection, so nothing was sent; with the system's reason, if known.
    NotConnected(Option<io::ErrorKind>),
    /// No response within the deadline; the outcome is unknown.
    TimedOut,
    /// The connection was lost before the response; the outcome is unknown.
    ConnectionLost,
}

impl CallFailure {
    /// Returns the code of the plugin, if the plugin responded.
    pub const fn code(&self) -> Option<StatusCode> {
        match self.kind {
            FailureKind::Answered(code) => Some(code),
            FailureKind::NotConnected(_) | FailureKind::TimedOut | FailureKind::ConnectionLost => {
                None
            }
        }
    }

    fn timed_out(deadline: Duration) -> Self {
        Self {
            kind: FailureKind::TimedOut,
            message: format!("no response within {}s", deadline.as_secs()),
            repeats_secret: false,
            has_details: false,
        }
    }

    fn from_status(status: &Status) -> Self {
        let (kind, message) = match StatusOrigin::of(status) {
            StatusOrigin::Plugin => {
                let code = from_tonic(status.code());
                (FailureKind::Answered(code), status.message().to_owned())
            }
            StatusOrigin::NotConnected(reason) => {
                (FailureKind::NotConnected(io_kind(status)), reason)
            }
            StatusOrigin::TimedOut => (FailureKind::TimedOut, status.message().to_owned()),
            StatusOrigin::ConnectionLost(reason) => (FailureKind::ConnectionLost, reason),
        };
        Self { kind, message, repeats_secret: false, has_details: !status.details().is_empty() }
    }
}

impl std::fmt::Display for CallFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.kind {
            FailureKind::Answered(code) => write!(f, "{}: {}", code.as_spec(), self.message),
            FailureKind::NotConnected(_) => write!(f, "no connection: {}", self.message),
            FailureKind::TimedOut => f.write_str(&self.message),
            FailureKind::ConnectionLost => write!(f, "connection lost: {}", self.message),
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

/// Sends CSI messages to one plugin. Connects on the first call, and reconnects after a break.
#[derive(Clone, Debug)]
pub struct RawClient {
    socket: PathBuf,
    channel: Channel,
    secrets: Arc<CallSecrets>,
    deadline: Duration,
}

impl RawClient {
    /// Returns a client for the plugin at `socket`, with `deadline` for each call. Must be called on
    /// a tokio runtime.
    pub fn new(socket: &Path, deadline: Duration) -> Self {
        Self {
            socket: socket.to_owned(),
            channel: lazy_channel(socket.to_owned()),
            secrets: Arc::default(),
            deadline,
        }
    }

    /// Returns the deadline of each call.
    pub const fn deadline(&self) -> Duration {
        self.deadline
    }

    /// Sends one call and waits for its response.
    ///
    /// # Errors
    /// If the call fails.
    pub async fn call<C: CsiRequest>(&self, request: C) -> Result<C::Response, CallFailure> {
        self.unary(self.channel.clone(), C::PATH, request).await
    }

    /// Sends a call with a streamed response, and collects at most `limit` messages.
    ///
    /// # Errors
    /// If the stream ends with an error, also after some messages.
    pub async fn collect<C: CsiRequest>(
        &self,
        request: C,
        limit: usize,
    ) -> Result<Vec<C::Response>, CallFailure> {
        let mut request = request;
        self.secrets.note(&mut request);
        let collecting = async {
            let mut grpc = ready_client(self.channel.clone()).await?;
            let codec = ProstCodec::<C, C::Response>::default();
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
        let collected = with_deadline(self.deadline, collecting).await;
        self.without_secrets(collected)
    }

    /// Hides the secrets that were sent.
    fn without_secrets<R: MessageTexts>(
        &self,
        answer: Result<R, CallFailure>,
    ) -> Result<R, CallFailure> {
        let answer = answer.and_then(|mut answer| match self.secrets.hide_in(&mut answer) {
            Ok(()) => Ok(answer),
            Err(error) => Err(CallFailure {
                kind: FailureKind::Answered(StatusCode::Internal),
                message: error.to_string(),
                repeats_secret: true,
                has_details: false,
            }),
        });
        answer.map_err(|failure| {
            let message = self.secrets.hidden_in(failure.message.clone());
            CallFailure {
                repeats_secret: failure.repeats_secret || message != failure.message,
                message,
                ..failure
            }
        })
    }

    async fn unary<Q, R>(
        &self,
        channel: Channel,
        path: &'static str,
        mut message: Q,
    ) -> Result<R, CallFailure>
    where
        Q: Message + MessageTexts + 'static,
        R: Message + MessageTexts + Default + 'static,
    {
        self.secrets.note(&mut message);
        self.without_secrets(unary(channel, path, message, self.deadline).await)
    }

    /// Sends an empty message to any path, such as one of another version of CSI.
    ///
    /// # Errors
    /// If the call fails.
    pub async fn call_empty(&self, path: &'static str) -> Result<(), CallFailure> {
        self.unary(self.channel.clone(), path, ()).await
    }

    /// Sends a call over its own connection, and closes that once the request is sent. The outcome of
    /// the call is then unknown.
    ///
    /// # Errors
    /// If the request cannot be sent.
    pub async fn send_and_disconnect<C: CsiRequest>(&self, request: C) -> Result<(), CallFailure> {
        let sent = RequestSent::default();
        let channel = disconnecting_channel(self.socket.clone(), sent.clone());
        let sending = self.unary::<C, C::Response>(channel, C::PATH, request);
        tokio::select! {
            biased;
            () = sent.wait() => Ok(()),
            ended = sending => match ended {
                // The client may notice the intended disconnect first.
                Err(_) if sent.is_set() => Ok(()),
                ended => ended.map(drop),
            },
        }
    }
}

/// Returns a channel whose connection closes after the first request.
fn disconnecting_channel(socket: PathBuf, sent: RequestSent) -> Channel {
    let connector = tower::service_fn(move |_: Uri| {
        let (socket, sent) = (socket.clone(), sent.clone());
        async move {
            let stream = UnixStream::connect(socket).await?;
            Ok::<_, io::Error>(TokioIo::new(DisconnectingStream::new(stream, sent)))
        }
    });
    super::connect::endpoint().connect_with_connector_lazy(connector)
}

async fn ready_client(channel: Channel) -> Result<Grpc<Channel>, Status> {
    let mut grpc = Grpc::new(channel).max_decoding_message_size(super::connect::ANSWER_BYTES);
    grpc.ready().await.map_err(|error| Status::from_error(error.into()))?;
    Ok(grpc)
}

async fn unary<Q, R>(
    channel: Channel,
    path: &'static str,
    message: Q,
    deadline: Duration,
) -> Result<R, CallFailure>
where
    Q: Message + 'static,
    R: Message + Default + 'static,
{
    let sending = async {
        let mut grpc = ready_client(channel).await?;
        let mut request = Request::new(message);
        request.set_timeout(deadline);
        let codec = ProstCodec::<Q, R>::default();
        let response = grpc.unary(request, PathAndQuery::from_static(path), codec).await?;
        Ok(response.into_inner())
    };
    with_deadline(deadline, sending).await
}

async fn with_deadline<T>(
    deadline: Duration,
    sending: impl Future<Output = Result<T, Status>>,
) -> Result<T, CallFailure> {
    match tokio::time::timeout(deadline, sending).await {
        Err(_elapsed) => Err(CallFailure::timed_out(deadline)),
        Ok(Err(status)) => Err(CallFailure::from_status(&status)),
        Ok(Ok(response)) => Ok(response),
    }
}
