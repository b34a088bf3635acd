//! Routes requests to handlers; adds limits, panic handling and compression.

use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::response::Response;
use http::Method;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::SizeAbove;

use super::parameters::Parameters;
use super::reply::{Reply, ResponseBuilder, wants_typed_errors};
use super::request::{ApiRequest, read_body};
use super::route::Route;
use super::{cluster, plugins, provider, variables, volumes};
use crate::server::error::ServerError;
use crate::server::services::Services;

/// Smaller bodies, such as one volume, take longer to compress than to send.
const MIN_COMPRESSED_BODY: u16 = 4096;

/// Serves the API over these services. Every request gets a response, even if its handler panics.
pub fn router(services: Services) -> axum::Router {
    let builder = ResponseBuilder::of(&services.agent_info.version);
    let panicked = move |cause: Box<dyn std::any::Any + Send>| {
        let cause = cause
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
            .or_else(|| cause.downcast_ref::<String>().cloned())
            .unwrap_or_default();
        tracing::error!(cause, "the handler of a request panicked");
        builder.panicked()
    };
    axum::Router::new()
        .fallback(respond)
        .with_state(services)
        .layer(CatchPanicLayer::custom(panicked))
        .layer(
            CompressionLayer::new()
                .gzip(true)
                .compress_when(SizeAbove::new(MIN_COMPRESSED_BODY)),
        )
}

async fn respond(State(services): State<Services>, request: Request) -> Response {
    let builder = ResponseBuilder::of(&services.agent_info.version);
    let typed = wants_typed_errors(request.headers());
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let cell = services.cell.clone();
    let result = handle(services, request).await;
    let index = cell.index();
    let response = match result {
        Ok(reply) => builder.success(reply, index),
        Err(error) => builder.failure(&error, typed, index),
    };
    tracing::debug!(http.method = %method, http.path = path, http.status = response.status().as_u16(), "answered");
    response
}

async fn handle(services: Services, request: Request) -> Result<Reply, ServerError> {
    let (parts, body) = request.into_parts();
    let route = Route::parse(&parts.method, parts.uri.path())?;
    let parameters = Parameters::parse(parts.uri.query());
    if let Some(region) = parameters.text("region")
        && region != services.agent_info.region
    {
        return Err(ServerError::NoPathToRegion(region.to_owned()));
    }
    let body = if parts.method == Method::PUT || parts.method == Method::POST {
        read_body(&parts.headers, body).await?
    } else {
        Bytes::new()
    };
    let request = ApiRequest {
        services,
        pretty: parameters.is_pretty(),
        parameters,
        headers: parts.headers,
        body,
    };
    dispatch(route, request).await
}

async fn dispatch(route: Route, request: ApiRequest) -> Result<Reply, ServerError> {
    match route {
        Route::ListVolumes => volumes::list(&request).await,
        Route::ListExternal => provider::list_volumes(&request).await,
        Route::ListSnapshots => provider::list_snapshots(&request).await,
        Route::CreateSnapshot => provider::create_snapshots(&request).await,
        Route::DeleteSnapshot => provider::delete_snapshot(&request).await,
        Route::ReadVolume(id) => volumes::read(&request, &id).await,
        Route::Register => volumes::register(&request).await,
        Route::Create => volumes::create(&request).await,
        Route::Deregister(id) => volumes::deregister(&request, &id).await,
        Route::Delete(id) => volumes::delete(&request, &id).await,
        Route::Detach(id) => volumes::detach(&request, &id),
        Route::ListPlugins => plugins::list(&request).await,
        Route::ReadPlugin(id) => plugins::read(&request, &id).await,
        Route::ListNodes => cluster::list_nodes(&request),
        Route::Search => cluster::search(&request),
        Route::AgentSelf => cluster::agent_self(&request),
        Route::AgentHealth => cluster::agent_health(&request),
        Route::Leader => cluster::leader(&request),
        Route::Peers => cluster::peers(&request),
        Route::Regions => cluster::list_regions(&request),
        Route::ListNamespaces => cluster::list_namespaces(&request),
        Route::ReadNamespace(name) => cluster::read_namespace(&request, &name),
        Route::ListVariables => variables::list(&request).await,
        Route::Variable(method, path) => variables::read_or_write(&request, &method, &path).await,
    }
}
