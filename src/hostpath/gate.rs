//! What stands before every RPC: whether the plugin has it, and what is to go wrong with it.
//!
//! One layer around all services, by the RPC's name in the path of the call, so that no service can
//! forget it. An RPC that the plugin does not advertise answers UNIMPLEMENTED (`csi-spec` 3.6).

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use tonic::body::Body;
use tonic::{Code, Status};
use tower::{Layer, Service};

use super::faults::{Fault, Harm};
use super::plugin::Plugin;

/// Puts the gate before a service.
#[derive(Clone)]
pub(super) struct GateLayer {
    plugin: Arc<Plugin>,
    /// How often each fault happened in this run.
    counts: Arc<Mutex<Vec<u64>>>,
}

impl GateLayer {
    pub(super) fn new(plugin: Arc<Plugin>) -> Self {
        let counts = vec![0; plugin.play.faults.len()];
        Self {
            plugin,
            counts: Arc::new(Mutex::new(counts)),
        }
    }

    /// What is to go wrong with this call: of several faults the first that has times left.
    async fn harm(&self, rpc: &str) -> Option<(Harm, String)> {
        let faults = &self.plugin.play.faults;
        for (at, fault) in faults.iter().enumerate() {
            if fault.is_for(rpc) && self.takes_place(at, fault).await {
                return Some((fault.harm, fault.text.clone()));
            }
        }
        None
    }

    async fn takes_place(&self, at: usize, fault: &Fault) -> bool {
        let Some(times) = fault.times else {
            return true;
        };
        let count = match fault.harm {
            Harm::Crash | Harm::CrashAfter => {
                let text = fault.text.clone();
                let counted = self
                    .plugin
                    .blocking(move |plugin| {
                        Ok::<_, super::error::Machine>(plugin.catalog.count_fault(&text)?)
                    })
                    .await;
                counted.unwrap_or(u64::MAX)
            }
            _ => {
                let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
                counts.get_mut(at).map_or(u64::MAX, |count| {
                    *count += 1;
                    *count
                })
            }
        };
        count <= times
    }
}

impl<S> Layer<S> for GateLayer {
    type Service = Gate<S>;

    fn layer(&self, inner: S) -> Gate<S> {
        Gate {
            layer: self.clone(),
            inner,
        }
    }
}

/// A service with the gate before it.
#[derive(Clone)]
pub(super) struct Gate<S> {
    layer: GateLayer,
    inner: S,
}

impl<S> Service<http::Request<Body>> for Gate<S>
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
        // The one that is ready answers; its copy takes its place.
        let ready = self.inner.clone();
        let inner = std::mem::replace(&mut self.inner, ready);
        Box::pin(pass(layer, inner, request))
    }
}

async fn pass<S>(
    layer: GateLayer,
    mut inner: S,
    request: http::Request<Body>,
) -> Result<http::Response<Body>, S::Error>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>> + Clone,
{
    let rpc = request.uri().path().rsplit('/').next().unwrap_or_default();
    let rpc = rpc.to_owned();
    if !layer.plugin.play.abilities.answers(&rpc) {
        let message = format!("this plugin does not have {rpc}, and does not advertise it");
        return Ok(Status::new(Code::Unimplemented, message).into_http());
    }
    let Some((harm, text)) = layer.harm(&rpc).await else {
        return inner.call(request).await;
    };
    tracing::warn!(csi.rpc = %rpc, fault = %text, "a fault on purpose");
    let on_purpose = |code| Status::new(code, format!("on purpose, by --fault {text}")).into_http();
    match harm {
        Harm::Fail(code) => Ok(on_purpose(code)),
        Harm::Delay(delay) => {
            tokio::time::sleep(delay).await;
            inner.call(request).await
        }
        Harm::LoseReply => {
            inner.call(request).await?;
            Ok(on_purpose(Code::Unavailable))
        }
        Harm::Hang => std::future::pending().await,
        Harm::Crash => std::process::abort(),
        Harm::CrashAfter => {
            inner.call(request).await?;
            std::process::abort()
        }
    }
}
