//! The outermost layer: it measures every call, also those that the layers below refuse.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use tonic::body::Body;
use tower::{Layer, Service};

use super::identity::NAME;
use nomad_csi_ports::{CallMeasurements, Rpc, StatusCode};

/// Adds measurements to a service.
#[derive(Clone)]
pub(crate) struct MeasuredLayer(pub(crate) Arc<dyn CallMeasurements>);

impl<S> Layer<S> for MeasuredLayer {
    type Service = MeasuredService<S>;

    fn layer(&self, inner: S) -> MeasuredService<S> {
        MeasuredService { measurements: self.0.clone(), inner }
    }
}

/// A service whose calls are measured.
#[derive(Clone)]
pub(crate) struct MeasuredService<S> {
    measurements: Arc<dyn CallMeasurements>,
    inner: S,
}

impl<S> Service<http::Request<Body>> for MeasuredService<S>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>>,
    S::Future: Send + 'static,
{
    type Response = http::Response<Body>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let (begun, method) = (Instant::now(), known(request.uri().path()));
        let (measurements, answering) = (self.measurements.clone(), self.inner.call(request));
        Box::pin(async move {
            let response = answering.await?;
            let code = code_of(&response);
            measurements.plugin_call(NAME, &method, code, begun.elapsed());
            Ok(response)
        })
    }
}

/// Returns a method of CSI. A client can send any other text, which would be a label without limit.
fn known(path: &str) -> String {
    let is_named = |rpc: &&Rpc| rpc.method() == path;
    match Rpc::ALL.iter().find(is_named) {
        Some(rpc) => rpc.method(),
        None => "other".to_owned(),
    }
}

/// Returns the status of an answer to a call with one response: an error is in its head.
pub(super) fn code_of(response: &http::Response<Body>) -> StatusCode {
    let status = response.headers().get("grpc-status");
    let number = status.and_then(|status| status.to_str().ok()?.parse::<usize>().ok());
    let code = number.and_then(|number| StatusCode::ALL.get(number));
    code.copied().unwrap_or(StatusCode::Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_of_csi_is_named_and_any_other_is_not() {
        let method = "/csi.v1.Controller/CreateVolume";
        assert_eq!(known(method), method);
        assert_eq!(known("/csi.v1.Controller/CreateVolume2"), "other");
    }

    #[test]
    fn the_code_is_that_of_the_head() {
        for (status, expected) in [
            (tonic::Status::already_exists("x"), StatusCode::AlreadyExists),
            (tonic::Status::unauthenticated("x"), StatusCode::Unauthenticated),
        ] {
            assert_eq!(code_of(&status.into_http()), expected);
        }
        let answered = http::Response::new(Body::empty());
        assert_eq!(code_of(&answered), StatusCode::Ok);
    }
}
