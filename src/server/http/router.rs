//! Routes requests to handlers; adds the guard, limits, panic handling and compression.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{Request, State};
use axum::middleware::from_fn;
use axum::response::Response;
use http::request::Parts;
use http::{Extensions, HeaderMap, Method, StatusCode, Version};
use tokio::sync::Semaphore;
use tower_http::CompressionLevel;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{Predicate as _, SizeAbove};

use super::accepted_encoding::is_compressed;
use super::access::Access;
use super::body::{BodyBudget, ReceivedBody, drain, read_body};
use super::compressed_list::LEVEL;
use super::connection_slots::Connection;
use super::guard::{self, AllowedHosts};
use super::kept_lists::{KeptLists, MIN_COMPRESSED_BODY};
use super::limits::Limits;
use super::long_body::{LONG, ResponseBudget};
use super::operator::OperatorAccess;
use super::parameters::Parameters;
use super::reply::{Reply, ResponseBuilder, Uncompressed, wants_typed_errors};
use super::request::IncomingRequest;
use super::request_id::with_request_id;
use super::route::Route;
use super::{
    allocs, claims, cluster, creations, events, history, jobs, logs, metrics, namespaces, nodes,
    plugins, provider, variables, volumes,
};
use crate::error::{RequestError, ServerError};
use crate::services::Services;
use nomad_csi_wire::DecodeLimits;

/// What an operator can set for the HTTP API.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HttpSettings {
    /// The limits.
    pub limits: Limits,
    /// The names of the agent that clients may use.
    pub allowed_hosts: AllowedHosts,
}

/// What all requests share.
#[derive(Clone)]
struct Shared {
    services: Services,
    settings: Arc<HttpSettings>,
    operator: Arc<OperatorAccess>,
    bodies: BodyBudget,
    /// No other client takes it.
    operator_bodies: BodyBudget,
    responses: ResponseBudget,
    long_lists: Arc<Semaphore>,
    kept_lists: Arc<KeptLists>,
}

/// Serves the API over these services. Every request gets a response, even if its handler panics. A
/// request without a [`Connection`] in its extensions is refused.
pub fn router(
    services: Services,
    settings: HttpSettings,
    operator: OperatorAccess,
) -> axum::Router {
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
        .with_state(Shared {
            services,
            bodies: BodyBudget::new(&settings.limits),
            operator_bodies: BodyBudget::new(&settings.limits),
            responses: ResponseBudget::new(&settings.limits),
            long_lists: Arc::new(Semaphore::new(settings.limits.long_lists)),
            kept_lists: Arc::default(),
            settings: Arc::new(settings),
            operator: Arc::new(operator),
        })
        .layer(CatchPanicLayer::custom(panicked))
        .layer(
            CompressionLayer::new()
                .gzip(true)
                .quality(CompressionLevel::Precise(i32::from(LEVEL)))
                .compress_when(SizeAbove::new(MIN_COMPRESSED_BODY).and(may_be_compressed)),
        )
        .layer(from_fn(with_request_id))
}

fn may_be_compressed(_: StatusCode, _: Version, _: &HeaderMap, extensions: &Extensions) -> bool {
    extensions.get::<Uncompressed>().is_none()
}

async fn respond(State(shared): State<Shared>, request: Request) -> Response {
    let services = &shared.services;
    let builder = ResponseBuilder::of(&services.agent_info.version);
    let typed = wants_typed_errors(request.headers());
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let Some(connection) = request.extensions().get::<Connection>().cloned() else {
        let error = ServerError::Internal("the connection of the request is unknown".into());
        return builder.failure(&error, typed, services.cell.index());
    };
    let is_local = connection.is_local();
    let is_compressed = is_compressed(request.headers(), is_local);
    let (cell, measurements) = (services.cell.clone(), services.measurements.clone());
    let (begun, mut measured) = (Instant::now(), Measured::default());
    let result = handle(shared, request, connection, is_compressed, &mut measured).await;
    let index = cell.index();
    let mut response = match result {
        Ok(reply) => builder.success(reply, index),
        Err(error) => builder.failure(&error, typed, index),
    };
    if !is_compressed {
        response.extensions_mut().insert(Uncompressed);
    }
    let status = response.status().as_u16();
    measurements.request(measured.operation(), measured.is_blocking, status, begun.elapsed());
    tracing::debug!(http.method = %method, http.path = path, http.status = status, "answered");
    response
}

/// What is known of a request for metrics.
#[derive(Debug, Default)]
struct Measured {
    /// The endpoint; `None` if the request was refused before it was known.
    operation: Option<&'static str>,
    is_blocking: bool,
}

impl Measured {
    fn operation(&self) -> &'static str {
        self.operation.unwrap_or("Refused")
    }
}

async fn handle(
    shared: Shared,
    request: Request,
    connection: Connection,
    is_compressed: bool,
    measured: &mut Measured,
) -> Result<Reply, ServerError> {
    let (parts, body) = request.into_parts();
    let settings = &shared.settings;
    let checked = check(&shared, &parts, &connection);
    let has_body = parts.method == Method::PUT || parts.method == Method::POST;
    let budget = match &checked {
        Ok(checked) if checked.operator.is_ok() => Some(&shared.operator_bodies),
        Ok(_) => Some(&shared.bodies),
        Err(_) => None,
    };
    let body = if let Some(budget) = budget.filter(|_| has_body) {
        read_body(&parts.headers, body, &settings.limits, budget).await?
    } else {
        drain(body).await;
        ReceivedBody::default()
    };
    let Checked { route, parameters, operator } = checked?;
    measured.operation = Some(route.operation());
    measured.is_blocking = parameters.text("index").is_some_and(|index| index != "0");
    let is_read = parts.method == Method::GET;
    let request = IncomingRequest {
        pretty: parameters.is_pretty(),
        parameters,
        headers: parts.headers,
        body,
        decode_limits: DecodeLimits {
            json_values: settings.limits.json_values,
            list_elements: settings.limits.list_elements,
        },
        connection,
        operator,
        long_lists: shared.long_lists,
        kept_lists: shared.kept_lists,
        is_compressed,
        has_waited: false,
        services: shared.services,
    };
    // The future of a handler is large, so it exists only after the body has arrived.
    Box::pin(answer(route, request, is_read, &shared.responses)).await
}

/// What the head of a request says.
struct Checked {
    route: Route,
    parameters: Parameters,
    /// Why it is not from the operator of the agent, if it is not.
    operator: Result<(), RequestError>,
}

/// Checks the head of a request.
fn check(shared: &Shared, head: &Parts, connection: &Connection) -> Result<Checked, ServerError> {
    guard::check(head, connection.is_local(), &shared.settings.allowed_hosts)?;
    let route = Route::parse(&head.method, head.uri.path())?;
    let operator = shared.operator.check(connection.peer(), &head.headers);
    match route.access() {
        Access::Operator => operator.clone()?,
        Access::Anyone => {}
    }
    let parameters = Parameters::parse(head.uri.query());
    match parameters.text("region") {
        Some(region) if region != shared.services.agent_info.region => {
            Err(ServerError::NoPathToRegion(region.to_owned()))
        }
        _ => Ok(Checked { route, parameters, operator }),
    }
}

/// Calls the handler, and reserves the memory of a long response (`long_body`).
async fn answer(
    route: Route,
    mut request: IncomingRequest,
    is_read: bool,
    responses: &ResponseBudget,
) -> Result<Reply, ServerError> {
    let reply = dispatch(&route, &request).await?;
    let length = reply.len();
    if length <= LONG {
        return Ok(reply);
    }
    if let Some(reserved) = responses.try_reserve(length) {
        return Ok(reply.with_reservation(reserved));
    }
    if !is_read {
        // What was written is reported, also if other responses leave no room for too long.
        return Ok(match responses.reserve(length).await {
            Ok(reserved) => reply.with_reservation(reserved),
            Err(_) => reply,
        });
    }
    drop(reply);
    let reserved = responses.reserve(length).await?;
    request.has_waited = true;
    let reply = dispatch(&route, &request).await?;
    Ok(reply.with_reservation(reserved))
}

async fn dispatch(route: &Route, request: &IncomingRequest) -> Result<Reply, ServerError> {
    match route {
        Route::ListVolumes => volumes::list(request).await,
        Route::ListExternal => provider::list_volumes(request).await,
        Route::ListSnapshots => provider::list_snapshots(request).await,
        Route::CreateSnapshot => provider::create_snapshots(request).await,
        Route::DeleteSnapshot => provider::delete_snapshot(request).await,
        Route::ReadVolume(id) => volumes::read(request, id).await,
        Route::Register => volumes::register(request).await,
        Route::Create => volumes::create(request).await,
        Route::Deregister(id) => volumes::deregister(request, id).await,
        Route::DeregisterAll => volumes::deregister_all(request).await,
        Route::Delete(id) => volumes::delete(request, id).await,
        Route::Detach(id) => volumes::detach(request, id).await,
        Route::Modify(id) => volumes::modify(request, id).await,
        Route::ListClaims => claims::list_all(request).await,
        Route::ListCreations => creations::list(request),
        Route::GiveUpCreation(id) => creations::give_up(request, id).await,
        Route::ReadClaims(id) => claims::list_of_volume(request, id).await,
        Route::ReadHealth(id) => volumes::read_health(request, id).await,
        Route::ReadStats(id) => volumes::read_stats(request, id).await,
        Route::ReadHistory(id) => history::read(request, id).await,
        Route::Claim(id) => claims::claim(request, id).await,
        Route::Release(id) => claims::release(request, id).await,
        Route::Fence(id) => claims::fence(request, id).await,
        Route::Unfence(id) => claims::unfence(request, id).await,
        Route::ListPlugins => plugins::list(request).await,
        Route::ReadPlugin(id) => plugins::read(request, id).await,
        Route::ReadCapacity(id) => plugins::read_capacity(request, id).await,
        Route::ListNodes => nodes::list(request).await,
        Route::ReadNode(id) => nodes::read(request, id).await,
        Route::ListNodeAllocs(id) => nodes::list_allocs(request, id).await,
        Route::SetNodeEligibility(id) => nodes::set_eligibility(request, id).await,
        Route::DrainNode(id) => nodes::drain(request, id).await,
        Route::ListJobs => jobs::list(request).await,
        Route::RegisterJob(id) => jobs::register(request, id.as_deref()).await,
        Route::ValidateJob => jobs::validate_job(request).await,
        Route::ReadJob(id) => jobs::read(request, id).await,
        Route::DeregisterJob(id) => jobs::deregister(request, id).await,
        Route::PlanJob => jobs::plan(request),
        Route::EvaluateJob(id) => jobs::evaluate(request, id).await,
        Route::DispatchJob(id) => jobs::dispatch(request, id).await,
        Route::ForcePeriodicJob(id) => jobs::force_periodic(request, id).await,
        Route::ExplainPlacement(id) => jobs::explain_placement(request, id),
        Route::ExplainPlacementOf => jobs::explain_placement_of(request),
        Route::ReadJobSummary(id) => jobs::read_summary(request, id),
        Route::ListJobAllocs(id) => jobs::list_allocs(request, id).await,
        Route::ListJobEvaluations(id) => jobs::list_evaluations_of(request, id).await,
        Route::ReadDeployment => jobs::no_deployment(request),
        Route::ListDeployments => jobs::no_deployments(request),
        Route::ListEvaluations => jobs::list_evaluations(request).await,
        Route::ReadEvaluation(id) => jobs::read_evaluation(request, id).await,
        Route::ListEvaluationAllocs(id) => jobs::list_allocs_of_evaluation(request, id),
        Route::ListAllocs => allocs::list(request).await,
        Route::ReadAlloc(id) => allocs::read(request, id).await,
        Route::ReadLogs(id) => logs::read(request, id).await,
        Route::StopAlloc(id) => allocs::stop(request, id).await,
        Route::StreamEvents => events::stream(request),
        Route::Search => cluster::search(request),
        Route::AgentSelf => cluster::agent_self(request),
        Route::AgentHealth => cluster::agent_health(request),
        Route::Metrics => metrics::read(request),
        Route::CollectGarbage => jobs::collect_garbage(request).await,
        Route::Members => cluster::members(request),
        Route::Leader => cluster::leader(request),
        Route::Peers => cluster::peers(request),
        Route::Regions => cluster::list_regions(request),
        Route::ListNamespaces => namespaces::list(request).await,
        Route::ReadNamespace(name) => namespaces::read(request, name).await,
        Route::WriteNamespace(name) => namespaces::write(request, name.as_deref()).await,
        Route::DeleteNamespace(name) => namespaces::delete(request, name).await,
        Route::ListVariables => variables::list(request).await,
        Route::Variable(method, path) => variables::read_or_write(request, method, path).await,
    }
}
