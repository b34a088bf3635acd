//! [`GuardedService`]: what a connection may send before it has registered its node.
//!
//! That is one registration at a time, which is small. Every other request is refused before its message is read. So an
//! unknown connection holds one small message, however many requests it sends.

use std::convert::Infallible;
use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tonic::Status;
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::server::NamedService;

use super::messages::control_plane_server::{ControlPlane, ControlPlaneServer};
use super::servers::MAX_MESSAGE;
use super::status::{not_registered, registering_already};
use crate::transport::node_connection::NodeConnection;

/// The largest registration.
const MAX_REGISTRATION: usize = 1 << 20;
/// The largest other message of a node.
const MAX_REQUEST: usize = 4 << 20;
/// The name of the call that registers.
const REGISTER: &str = "Register";

/// Passes on what a connection may send. Clones answer the same.
pub(super) struct GuardedService<T> {
    registrations: ControlPlaneServer<T>,
    calls: ControlPlaneServer<T>,
}

impl<T: ControlPlane> GuardedService<T> {
    pub(super) fn new(service: T) -> Self {
        let service = Arc::new(service);
        let limited = |size| {
            ControlPlaneServer::from_arc(service.clone())
                .max_decoding_message_size(size)
                .max_encoding_message_size(MAX_MESSAGE)
        };
        Self { registrations: limited(MAX_REGISTRATION), calls: limited(MAX_REQUEST) }
    }
}

impl<T> Clone for GuardedService<T> {
    fn clone(&self) -> Self {
        Self { registrations: self.registrations.clone(), calls: self.calls.clone() }
    }
}

impl<T: ControlPlane> NamedService for GuardedService<T> {
    const NAME: &'static str = ControlPlaneServer::<T>::NAME;
}

type Answer = Pin<Box<dyn Future<Output = Result<http::Response<Body>, Infallible>> + Send>>;

fn refuse(status: Status) -> Answer {
    Box::pin(ready(Ok(status.into_http())))
}

impl<T: ControlPlane> Service<http::Request<Body>> for GuardedService<T> {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Answer;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Answer {
        let Some(connection) = request.extensions().get::<NodeConnection>().cloned() else {
            return refuse(not_registered());
        };
        if request.uri().path().rsplit('/').next() == Some(REGISTER) {
            let Some(turn) = connection.begin_registration() else {
                return refuse(registering_already());
            };
            let answer = self.registrations.call(request);
            return Box::pin(async move {
                let answer = answer.await;
                drop(turn);
                answer
            });
        }
        if connection.bound().is_none() {
            return refuse(not_registered());
        }
        self.calls.call(request)
    }
}
