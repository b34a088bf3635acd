//! From a request to its handler, and around all of them: limits, panics, compression.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::response::Response;
use futures_util::StreamExt as _;
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, Method};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::SizeAbove;

use super::parameters::Parameters;
use super::reply::{Reply, Signature, wants_typed_errors};
use super::route::Route;
use super::{neighbours, plugins, provider, variables, volumes};
use crate::server::error::{RequestError, ServerError};
use crate::server::services::Services;

/// What is smaller, as one volume is, takes longer to pack and to unpack than to send.
const WORTH_PACKING: u16 = 4096;

/// How large a body may be, in bytes: a specification has at most 16 MiB, and JSON is longer.
pub const MAX_BODY: usize = 64 << 20;

/// How long a body may take to arrive once it has begun.
const BODY_PATIENCE: Duration = Duration::from_secs(120);

/// A request, taken apart.
pub(super) struct Asked {
    pub(super) services: Services,
    pub(super) parameters: Parameters,
    pub(super) headers: HeaderMap,
    /// Of a write; empty otherwise.
    pub(super) body: Bytes,
    pub(super) pretty: bool,
}

/// The API over these services. Answers whatever it is asked: a request is never left without a
/// response, also if a handler panics.
pub fn router(services: Services) -> axum::Router {
    let signature = Signature::of(&services.about.version);
    let panicked = move |cause: Box<dyn std::any::Any + Send>| {
        let cause = cause
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
            .or_else(|| cause.downcast_ref::<String>().cloned())
            .unwrap_or_default();
        tracing::error!(cause, "a request ended in a defect");
        signature.panicked()
    };
    axum::Router::new()
        .fallback(answer)
        .with_state(services)
        .layer(CatchPanicLayer::custom(panicked))
        .layer(
            CompressionLayer::new()
                .gzip(true)
                .compress_when(SizeAbove::new(WORTH_PACKING)),
        )
}

async fn answer(State(services): State<Services>, request: Request) -> Response {
    let signature = Signature::of(&services.about.version);
    let typed = wants_typed_errors(request.headers());
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let cell = services.cell.clone();
    let result = handle(services, request).await;
    let index = cell.index();
    let response = match result {
        Ok(reply) => signature.success(reply, index),
        Err(error) => signature.failure(&error, typed, index),
    };
    tracing::debug!(http.method = %method, http.path = path, http.status = response.status().as_u16(), "answered");
    response
}

async fn handle(services: Services, request: Request) -> Result<Reply, ServerError> {
    let (parts, body) = request.into_parts();
    let route = Route::parse(&parts.method, parts.uri.path())?;
    let parameters = Parameters::parse(parts.uri.query());
    if let Some(region) = parameters.text("region")
        && region != services.about.region
    {
        return Err(ServerError::NoPathToRegion(region.to_owned()));
    }
    let body = if parts.method == Method::PUT || parts.method == Method::POST {
        read_body(&parts.headers, body).await?
    } else {
        Bytes::new()
    };
    let asked = Asked {
        services,
        pretty: parameters.is_pretty(),
        parameters,
        headers: parts.headers,
        body,
    };
    carry_out(route, asked).await
}

async fn carry_out(route: Route, asked: Asked) -> Result<Reply, ServerError> {
    match route {
        Route::ListVolumes => volumes::list(&asked).await,
        Route::ListExternal => provider::external(&asked).await,
        Route::ListSnapshots => provider::list_snapshots(&asked).await,
        Route::CreateSnapshot => provider::create_snapshots(&asked).await,
        Route::DeleteSnapshot => provider::delete_snapshot(&asked).await,
        Route::ReadVolume(id) => volumes::read(&asked, &id).await,
        Route::Register => volumes::register(&asked).await,
        Route::Create => volumes::create(&asked).await,
        Route::Deregister(id) => volumes::deregister(&asked, &id).await,
        Route::Delete(id) => volumes::delete(&asked, &id).await,
        Route::Detach(id) => volumes::detach(&asked, &id),
        Route::ListPlugins => plugins::list(&asked).await,
        Route::ReadPlugin(id) => plugins::read(&asked, &id).await,
        Route::ListNodes => neighbours::nodes(&asked),
        Route::Search => neighbours::search(&asked),
        Route::AgentSelf => neighbours::agent_self(&asked),
        Route::AgentHealth => neighbours::agent_health(&asked),
        Route::Leader => neighbours::leader(&asked),
        Route::Peers => neighbours::peers(&asked),
        Route::Regions => neighbours::regions(&asked),
        Route::ListNamespaces => neighbours::namespaces(&asked),
        Route::ReadNamespace(name) => neighbours::namespace(&asked, &name),
        Route::ListVariables => variables::list(&asked).await,
        Route::Variable(method, path) => variables::one(&asked, &method, &path).await,
    }
}

/// All of the body, if it is not too large and arrives in time.
async fn read_body(headers: &HeaderMap, body: Body) -> Result<Bytes, ServerError> {
    let announced = headers.get(CONTENT_LENGTH);
    let announced = announced.and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    let too_large = || ServerError::from(RequestError::BodyTooLarge { limit: MAX_BODY });
    if announced.is_some_and(|length| length > MAX_BODY) {
        return Err(too_large());
    }
    let lost = |why: String| ServerError::from(RequestError::BodyLost(why));
    let mut received = vec![];
    let mut chunks = body.into_data_stream();
    let arrive = async {
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(|error| lost(error.to_string()))?;
            if received.len() + chunk.len() > MAX_BODY {
                return Err(too_large());
            }
            received.extend_from_slice(&chunk);
        }
        Ok(())
    };
    match tokio::time::timeout(BODY_PATIENCE, arrive).await {
        Ok(outcome) => outcome?,
        Err(_) => return Err(lost(format!("not within {} s", BODY_PATIENCE.as_secs()))),
    }
    Ok(received.into())
}
