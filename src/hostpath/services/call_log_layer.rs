//! The layer that logs calls to the shared directory, with the volume and the node that each names.
//!
//! It reads the whole request, because the first line of a call is on the disk before the call does anything.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http_body_util::{BodyExt as _, Full, Limited};
use prost::Message as _;
use tonic::body::Body;
use tonic::{Code, Status};
use tower::{Layer, Service};

use super::measured_layer::code_of;
use crate::call_context::CALL;
use crate::shared::{CallInProgress, CallLog};

use nomad_csi_ports::StatusCode;
use nomad_csi_proto as proto;

/// The most bytes of a request, as tonic limits a message, and its head.
const MAX_REQUEST_BYTES: usize = 4 * 1024 * 1024 + HEAD_BYTES;
/// The bytes before a message: whether it is compressed, and its length.
const HEAD_BYTES: usize = 5;

/// Adds the log to a service; none without a shared directory.
#[derive(Clone)]
pub(crate) struct CallLogLayer(pub(crate) Option<Arc<CallLog>>);

impl<S> Layer<S> for CallLogLayer {
    type Service = LoggedService<S>;

    fn layer(&self, inner: S) -> LoggedService<S> {
        LoggedService { log: self.0.clone(), inner }
    }
}

/// A service whose calls are logged.
#[derive(Clone)]
pub(crate) struct LoggedService<S> {
    log: Option<Arc<CallLog>>,
    inner: S,
}

impl<S> Service<http::Request<Body>> for LoggedService<S>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
{
    type Response = http::Response<Body>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        // `poll_ready` prepared this instance, so it answers; its clone replaces it.
        let ready = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, ready);
        match self.log.clone() {
            None => Box::pin(inner.call(request)),
            Some(log) => Box::pin(call_with_log(log, inner, request)),
        }
    }
}

async fn call_with_log<S>(
    log: Arc<CallLog>,
    mut inner: S,
    request: http::Request<Body>,
) -> Result<http::Response<Body>, S::Error>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>>,
{
    let (head, body) = request.into_parts();
    let bytes = match Limited::new(body, MAX_REQUEST_BYTES).collect().await {
        Ok(read) => read.to_bytes(),
        Err(error) => {
            let message = format!("cannot read the request: {error}");
            return Ok(Status::new(Code::ResourceExhausted, message).into_http());
        }
    };
    let rpc = head.uri.path().rsplit('/').next().unwrap_or_default().to_owned();
    let named = Named::of(&rpc, bytes.get(HEAD_BYTES..).unwrap_or_default());
    let begin = move || log.begin(&rpc, &named.volume, named.node.as_deref());
    let Ok(call) = tokio::task::spawn_blocking(begin).await else {
        return Ok(Status::new(Code::Unavailable, "the plugin is stopping").into_http());
    };
    let call = EndedOffThread(Some(Arc::new(call)));
    let request = http::Request::from_parts(head, Body::new(Full::new(bytes)));
    let answering = inner.call(request);
    let response = CALL.scope(call.0.clone(), answering).await;
    if let Ok(response) = &response {
        call.set_answer(code_of(response));
    }
    call.end().await;
    response
}

/// A call whose last line is not written on a thread of tokio.
struct EndedOffThread(Option<Arc<CallInProgress>>);

impl EndedOffThread {
    fn set_answer(&self, code: StatusCode) {
        if let Some(call) = &self.0 {
            call.set_answer(code);
        }
    }

    /// Ends the call, unless work of it still runs.
    async fn end(mut self) {
        let call = self.0.take();
        tokio::task::spawn_blocking(move || drop(call)).await.ok();
    }
}

impl Drop for EndedOffThread {
    fn drop(&mut self) {
        if let (Some(call), Ok(runtime)) = (self.0.take(), tokio::runtime::Handle::try_current()) {
            drop(runtime.spawn_blocking(move || drop(call)));
        }
    }
}

/// What a request names.
#[derive(Debug, Default, PartialEq, Eq)]
struct Named {
    volume: String,
    node: Option<String>,
}

impl Named {
    /// Reads the volume and the node from the message of an RPC. One that is malformed names nothing.
    fn of(rpc: &str, message: &[u8]) -> Self {
        macro_rules! volume {
            ($request:ident) => {
                volume!($request, volume_id)
            };
            ($request:ident, $field:ident) => {
                proto::$request::decode(message)
                    .map(|request| Self { volume: request.$field, node: None })
                    .unwrap_or_default()
            };
        }
        macro_rules! volume_and_node {
            ($request:ident) => {
                proto::$request::decode(message)
                    .map(|request| Self { volume: request.volume_id, node: Some(request.node_id) })
                    .unwrap_or_default()
            };
        }
        match rpc {
            "ControllerPublishVolume" => volume_and_node!(ControllerPublishVolumeRequest),
            "ControllerUnpublishVolume" => volume_and_node!(ControllerUnpublishVolumeRequest),
            "DeleteVolume" => volume!(DeleteVolumeRequest),
            "ValidateVolumeCapabilities" => volume!(ValidateVolumeCapabilitiesRequest),
            "ControllerGetVolume" => volume!(ControllerGetVolumeRequest),
            "ControllerExpandVolume" => volume!(ControllerExpandVolumeRequest),
            "ControllerModifyVolume" => volume!(ControllerModifyVolumeRequest),
            "ControllerGetVolumeHealth" => volume!(ControllerGetVolumeHealthRequest),
            "CreateSnapshot" => volume!(CreateSnapshotRequest, source_volume_id),
            "NodeStageVolume" => volume!(NodeStageVolumeRequest),
            "NodeUnstageVolume" => volume!(NodeUnstageVolumeRequest),
            "NodePublishVolume" => volume!(NodePublishVolumeRequest),
            "NodeUnpublishVolume" => volume!(NodeUnpublishVolumeRequest),
            "NodeGetVolumeStats" => volume!(NodeGetVolumeStatsRequest),
            "NodeExpandVolume" => volume!(NodeExpandVolumeRequest),
            "NodeGetVolumeHealth" => volume!(NodeGetVolumeHealthRequest),
            _ => Self::default(),
        }
    }
}
