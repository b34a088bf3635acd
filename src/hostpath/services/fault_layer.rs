//! The layer before every RPC: it refuses RPCs that the plugin does not have, and injects faults.
//!
//! One layer covers all services and matches the RPC name in the request path, so no service can
//! bypass it. An RPC that is not advertised answers UNIMPLEMENTED.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use parking_lot::Mutex;
use tonic::body::Body;
use tonic::{Code, Status};
use tower::{Layer, Service};

use crate::error::{ProbeError, Unhealthy};
use crate::plugin::Plugin;
use crate::profile::{Fault, FaultKind};

/// Adds fault injection to a service.
#[derive(Clone)]
pub(crate) struct FaultLayer {
    plugin: Arc<Plugin>,
    /// How often each fault occurred in this run.
    counts: Arc<Mutex<Vec<u64>>>,
}

impl FaultLayer {
    pub(crate) fn new(plugin: Arc<Plugin>) -> Self {
        let counts = vec![0; plugin.profile.faults.len()];
        Self { plugin, counts: Arc::new(Mutex::new(counts)) }
    }

    /// Returns the first fault for this call that has occurrences left.
    async fn fault_for(&self, rpc: &str) -> Option<(FaultKind, String)> {
        let faults = &self.plugin.profile.faults;
        for (at, fault) in faults.iter().enumerate() {
            if fault.matches_rpc(rpc) && self.applies_now(at, fault).await {
                return Some((fault.kind, fault.text.clone()));
            }
        }
        None
    }

    async fn applies_now(&self, at: usize, fault: &Fault) -> bool {
        let Some(times) = fault.times else {
            return true;
        };
        let count = match fault.kind {
            FaultKind::Crash | FaultKind::CrashAfter => {
                let text = fault.text.clone();
                let work = move |plugin: &Arc<Plugin>| {
                    let counted = plugin.catalog.count_fault(&text);
                    counted.map_err(|error| Unhealthy(error.to_string()).into())
                };
                let counted = self.plugin.call::<_, ProbeError>(work).await;
                counted.unwrap_or(u64::MAX)
            }
            _ => {
                let mut counts = self.counts.lock();
                counts.get_mut(at).map_or(u64::MAX, |count| {
                    *count += 1;
                    *count
                })
            }
        };
        count <= times
    }
}

impl<S> Layer<S> for FaultLayer {
    type Service = FaultService<S>;

    fn layer(&self, inner: S) -> FaultService<S> {
        FaultService { layer: self.clone(), inner }
    }
}

/// A service with fault injection.
#[derive(Clone)]
pub(crate) struct FaultService<S> {
    layer: FaultLayer,
    inner: S,
}

impl<S> Service<http::Request<Body>> for FaultService<S>
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
        let layer = self.layer.clone();
        // `poll_ready` prepared this instance, so it answers; its clone replaces it.
        let ready = self.inner.clone();
        let inner = std::mem::replace(&mut self.inner, ready);
        Box::pin(call_with_faults(layer, inner, request))
    }
}

async fn call_with_faults<S>(
    layer: FaultLayer,
    mut inner: S,
    request: http::Request<Body>,
) -> Result<http::Response<Body>, S::Error>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>> + Clone,
{
    let rpc = request.uri().path().rsplit('/').next().unwrap_or_default();
    let rpc = rpc.to_owned();
    if !layer.plugin.profile.capabilities.supports_rpc(&rpc) {
        let message = format!("this plugin does not support {rpc}");
        return Ok(Status::new(Code::Unimplemented, message).into_http());
    }
    let Some((kind, text)) = layer.fault_for(&rpc).await else {
        return inner.call(request).await;
    };
    tracing::warn!(csi.rpc = %rpc, fault = %text, "injecting a fault");
    let on_purpose = |code| Status::new(code, format!("injected by --fault {text}")).into_http();
    match kind {
        FaultKind::Fail(code) => Ok(on_purpose(code)),
        FaultKind::Delay(delay) => {
            tokio::time::sleep(delay).await;
            inner.call(request).await
        }
        FaultKind::LoseReply => {
            inner.call(request).await?;
            Ok(on_purpose(Code::Unavailable))
        }
        FaultKind::Hang => std::future::pending().await,
        FaultKind::Crash => std::process::abort(),
        FaultKind::CrashAfter => {
            inner.call(request).await?;
            std::process::abort()
        }
    }
}
