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
use super::body::{BodyBudget, ReceivedBody, drain, read_body};
use super::compressed_list::LEVEL;
use super::connection_slots::Connection;
use super::credentials::Credentials;
use super::endpoints::{Access, Answers, Route};
use super::guard::{self, AllowedHosts};
use super::kept_lists::{KeptLists, MIN_COMPRESSED_BODY};
use super::limits::Limits;
use super::long_body::{LONG, ResponseBudget};
use super::operator::OperatorAccess;
use super::parameters::Parameters;
use super::reply::{Reply, ResponseBuilder, Uncompressed, wants_typed_errors};
use super::request::IncomingRequest;
use super::request_id::with_request_id;
use super::required_rights::{missing_right, required_rights};
use super::standby::{ForwardedSender, ServerRole};
use crate::error::{AclError, RequestError, ServerError};
use crate::services::Services;
use nomad_csi_wire::DecodeLimits;

/// The operator's settings of the HTTP API.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HttpSettings {
    /// The limits.
    pub limits: Limits,
    /// The names of the agent that clients may use.
    pub allowed_hosts: AllowedHosts,
}

/// The state that all requests share.
#[derive(Clone)]
struct Shared {
    services: Services,
    settings: Arc<HttpSettings>,
    operator: Arc<OperatorAccess>,
    role: ServerRole,
    bodies: BodyBudget,
    /// No other client takes it.
    operator_bodies: BodyBudget,
    responses: ResponseBudget,
    long_lists: Arc<Semaphore>,
    kept_lists: Arc<KeptLists>,
}

/// Serves the API of the only server: see [`router_of`].
pub fn router(
    services: Services,
    settings: HttpSettings,
    operator: OperatorAccess,
) -> axum::Router {
    router_of(ServerRole::Leader { has_standbys: false }, services, settings, operator)
}

/// Serves the API over these services. Every request gets a response, even if its handler panics. A
/// request without a [`Connection`] in its extensions is refused.
pub fn router_of(
    role: ServerRole,
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
            role,
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
    let builder =
        ResponseBuilder::of(&services.agent_info.version).with_contact(shared.role.contact());
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
    let result = match forward(&shared, request, &connection, &mut measured).await {
        Forwarded::Response(response) => Ok(response),
        Forwarded::Failure(error) => Err(error),
        Forwarded::AnsweredHere(request) => {
            let handled = handle(shared, request, connection, is_compressed, &mut measured).await;
            handled.map(|reply| builder.success(reply, cell.index()))
        }
    };
    let index = cell.index();
    let mut response = result.unwrap_or_else(|error| builder.failure(&error, typed, index));
    if !is_compressed {
        response.extensions_mut().insert(Uncompressed);
    }
    let status = response.status().as_u16();
    measurements.request(measured.operation(), measured.is_blocking, status, begun.elapsed());
    tracing::debug!(http.method = %method, http.path = path, http.status = status, "answered");
    response
}

/// The facts about a request that metrics record.
#[derive(Debug, Default)]
struct Measured {
    /// The endpoint; `None` if the request was refused before it was known.
    operation: Option<&'static str>,
    is_blocking: bool,
}

impl Measured {
    fn note(&mut self, route: &Route, parameters: &Parameters) {
        self.operation = Some(route.operation());
        self.is_blocking = parameters.text("index").is_some_and(|index| index != "0");
    }

    fn operation(&self) -> &'static str {
        self.operation.unwrap_or("Refused")
    }
}

/// What became of a request before its body was read.
enum Forwarded {
    /// The leader has answered.
    Response(Response),
    /// The leader should have answered.
    Failure(ServerError),
    /// It is answered by this server, if its head is as it must be.
    AnsweredHere(Request),
}

/// Forwards a request that only the leader answers, if this server does not lead.
async fn forward(
    shared: &Shared,
    request: Request,
    connection: &Connection,
    measured: &mut Measured,
) -> Forwarded {
    let ServerRole::Standby(standby) = &shared.role else {
        return Forwarded::AnsweredHere(request);
    };
    let (parts, body) = request.into_parts();
    let checked = check(shared, &parts, connection).ok();
    let checked = checked.filter(|checked| checked.route.answers() == Answers::Leader);
    let is_read = parts.method == Method::GET;
    let request = Request::from_parts(parts, body);
    let Some(Checked { route, parameters, operator, .. }) = checked else {
        return Forwarded::AnsweredHere(request);
    };
    if connection.is_forwarded() {
        return Forwarded::Failure(ServerError::NoLeader);
    }
    measured.note(&route, &parameters);
    let sender = match (operator, shared.services.acl.is_enabled()) {
        (Ok(()), _) => ForwardedSender::Operator,
        (Err(_), true) => ForwardedSender::Bearer,
        (Err(_), false) => ForwardedSender::Anyone,
    };
    let mut answer = Err(ServerError::NoLeader);
    let forwarding = async { answer = standby.forward(request, sender, is_read).await };
    // A query that waits there waits here, too.
    let waited = match measured.is_blocking {
        true => connection.wait(forwarding).await,
        false => {
            forwarding.await;
            Ok(())
        }
    };
    match waited.map_err(ServerError::from).and(answer) {
        Ok(response) => Forwarded::Response(response),
        Err(error) => Forwarded::Failure(error),
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
    let checked = match check(&shared, &parts, &connection) {
        Ok(checked) => admit(&shared, checked).await,
        Err(error) => Err(error),
    };
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
    let Checked { route, parameters, operator, credentials } = checked?;
    measured.note(&route, &parameters);
    // A body may take its time, and the token may be gone by then.
    authorize(&shared.services, &route, &parameters, &credentials)?;
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
        credentials,
        operator,
        long_lists: shared.long_lists,
        kept_lists: shared.kept_lists,
        is_compressed,
        has_waited: false,
        services: shared.services,
    };
    // The future of a handler is large, so it exists only after the body has arrived.
    Box::pin(answer(route, request, is_read, &shared.role, &shared.responses)).await
}

/// The head of a request, checked.
struct Checked {
    route: Route,
    parameters: Parameters,
    /// Why it is not from the operator of the agent, if it is not.
    operator: Result<(), RequestError>,
    credentials: Credentials,
}

/// Lets a request in whose head is as it must be: what it reads is not older than it, and its client has the rights that it
/// needs. Nothing of the body is read before.
async fn admit(shared: &Shared, checked: Checked) -> Result<Checked, ServerError> {
    let services = &shared.services;
    let Checked { route, parameters, credentials, .. } = &checked;
    shared.role.admit(services, route, parameters).await?;
    authorize(services, route, parameters, credentials)?;
    Ok(checked)
}

/// Checks that a client has the rights that a request needs, now.
///
/// # Errors
/// If one is missing, or the token is not known.
fn authorize(
    services: &Services,
    route: &Route,
    parameters: &Parameters,
    credentials: &Credentials,
) -> Result<(), ServerError> {
    if !services.acl.is_enabled() {
        return Ok(());
    }
    let Some(required) = required_rights(route) else {
        return Ok(());
    };
    let rights = credentials.rights(services)?;
    let has_token = credentials.has_token();
    match missing_right(required, &rights, parameters) {
        None => Ok(()),
        Some(needs) => Err(AclError::Denied { needs, has_token }.into()),
    }
}

/// Checks the head of a request.
fn check(shared: &Shared, head: &Parts, connection: &Connection) -> Result<Checked, ServerError> {
    if !connection.is_forwarded() {
        guard::check(head, connection.is_local(), &shared.settings.allowed_hosts)?;
    }
    let route = Route::parse(&head.method, head.uri.path())?;
    let operator = shared.operator.check(connection.peer(), &head.headers);
    // An ACL decides by itself, when the state is current.
    if !shared.services.acl.is_enabled() {
        match route.access() {
            Access::Operator => operator.clone()?,
            Access::Anyone => {}
        }
    }
    let credentials = Credentials::of(&head.headers, &operator);
    let parameters = Parameters::parse(head.uri.query());
    match parameters.text("region") {
        Some(region) if region != shared.services.agent_info.region => {
            return Err(ServerError::NoPathToRegion(region.to_owned()));
        }
        Some(_) | None => {}
    }
    Ok(Checked { route, parameters, operator, credentials })
}

/// Calls the handler, and reserves the memory of a long response (`long_body`).
async fn answer(
    route: Route,
    mut request: IncomingRequest,
    is_read: bool,
    role: &ServerRole,
    responses: &ResponseBudget,
) -> Result<Reply, ServerError> {
    let reply = route.answer(&request).await?;
    // A query that has waited shows what its client may see now.
    if is_read {
        authorize(&request.services, &route, &request.parameters, &request.credentials)?;
    }
    // What was read may be old by now. What was written counts, whichever server leads.
    if is_read {
        role.check_read(&request.services, &route)?;
    }
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
    let reply = route.answer(&request).await?;
    Ok(reply.with_reservation(reserved))
}
