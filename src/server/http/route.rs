//! The route table, with Nomad's quirks.
//!
//! A path is split after percent-decoding, so an ID with a `/` is two segments and cannot be addressed.
//! Exact paths have no trailing slash. A wrong method on a known path is 405. An unknown second
//! segment is 404 only for methods that allow one.

use http::Method;
use percent_encoding::percent_decode_str;

use super::endpoints::Route;
use super::known_paths::known_path;
use crate::error::{RequestError, ServerError};
use nomad_csi_model::{JobId, JobPathProblem};

impl Route {
    /// Parses a method and a path that is still percent-encoded.
    pub(super) fn parse(method: &Method, path: &str) -> Result<Self, ServerError> {
        let path = percent_decode_str(path).decode_utf8();
        let path = path.map_err(|_| RequestError::Path)?;
        Self::parse_decoded(method, &path).map_err(|error| match (error, known_path(&path)) {
            (ServerError::UnknownPath, Some(known)) => {
                ServerError::NotOffered { status: known.status, sentence: known.sentence }
            }
            (error, _) => error,
        })
    }

    fn parse_decoded(method: &Method, path: &str) -> Result<Self, ServerError> {
        if let Some(rest) = path.strip_prefix("/v1/volume/csi/") {
            return volume(method, rest);
        }
        if let Some(rest) = path.strip_prefix("/v1/node/") {
            return node(method, rest);
        }
        if let Some(rest) = path.strip_prefix("/v1/job/") {
            return job(method, rest);
        }
        if let Some(rest) = path.strip_prefix("/v1/evaluation/") {
            return evaluation(method, rest);
        }
        if let Some(rest) = path.strip_prefix("/v1/allocation/") {
            return alloc(method, rest);
        }
        if let Some(rest) = path.strip_prefix("/v1/client/fs/") {
            return file(method, rest);
        }
        if let Some(rest) = path.strip_prefix("/v1/client/allocation/") {
            return task(method, rest);
        }
        if let Some(rest) = path.strip_prefix("/v1/plugin/csi/") {
            return plugin(method, rest);
        }
        if let Some(rest) = path.strip_prefix("/v1/var/") {
            return variable(method, rest);
        }
        if let Some(rest) = path.strip_prefix("/v1/acl/") {
            return acl(method, rest);
        }
        if let Some(name) = path.strip_prefix("/v1/namespace/") {
            return namespace(method, name);
        }
        exact(method, path)
    }
}

fn exact(method: &Method, path: &str) -> Result<Route, ServerError> {
    let is_put = method == Method::PUT || method == Method::POST;
    let get = |route| only(method, &Method::GET, route);
    match path {
        "/v1/volumes" if is_put => Ok(Route::Register),
        "/v1/volumes/registrations" => only(method, &Method::DELETE, Route::DeregisterAll),
        "/v1/volumes" => get(Route::ListVolumes),
        "/v1/volumes/claims" => get(Route::ListClaims),
        "/v1/volumes/creations" => get(Route::ListCreations),
        "/v1/volumes/external" => get(Route::ListExternal),
        "/v1/volumes/snapshot" if is_put => Ok(Route::CreateSnapshot),
        "/v1/volumes/snapshot" if method == Method::DELETE => Ok(Route::DeleteSnapshot),
        "/v1/volumes/snapshot" => get(Route::ListSnapshots),
        "/v1/plugins" => get(Route::ListPlugins),
        "/v1/jobs" if is_put => Ok(Route::RegisterJob(None)),
        "/v1/jobs" => get(Route::ListJobs),
        "/v1/jobs/parse" if is_put => Ok(Route::ParseJob),
        "/v1/jobs/parse" => Err(ServerError::InvalidMethod),
        "/v1/validate/job" if is_put => Ok(Route::ValidateJob),
        "/v1/validate/job" => Err(ServerError::InvalidMethod),
        "/v1/evaluations" => get(Route::ListEvaluations),
        "/v1/deployments" => get(Route::ListDeployments),
        "/v1/allocations" => get(Route::ListAllocs),
        "/v1/nodes" => get(Route::ListNodes),
        "/v1/event/stream" => get(Route::StreamEvents),
        "/v1/search" if is_put => Ok(Route::Search),
        "/v1/search" => Err(ServerError::InvalidMethod),
        "/v1/agent/self" => get(Route::AgentSelf),
        "/v1/system/gc" if is_put => Ok(Route::CollectGarbage),
        "/v1/system/gc" => Err(ServerError::InvalidMethod),
        "/v1/agent/members" => get(Route::Members),
        "/v1/agent/health" => get(Route::AgentHealth),
        "/v1/metrics" => get(Route::Metrics),
        "/v1/status/leader" => get(Route::Leader),
        "/v1/status/peers" => get(Route::Peers),
        "/v1/regions" => get(Route::Regions),
        "/v1/namespace" if is_put => Ok(Route::WriteNamespace(None)),
        "/v1/namespace" => Err(ServerError::InvalidMethod),
        "/v1/namespaces" => get(Route::ListNamespaces),
        "/v1/vars" => get(Route::ListVariables),
        _ => Err(ServerError::UnknownPath),
    }
}

fn only(method: &Method, allowed: &Method, route: Route) -> Result<Route, ServerError> {
    if method == allowed { Ok(route) } else { Err(ServerError::InvalidMethod) }
}

/// Parses paths below `/v1/volume/csi/`. Writes ignore the ID of the path and use the body's.
fn volume(method: &Method, rest: &str) -> Result<Route, ServerError> {
    let segments: Vec<_> = rest.split('/').collect();
    match (method.as_str(), segments.as_slice()) {
        ("GET", [""]) => Err(ServerError::MissingVolumeId),
        ("GET", [id]) => Ok(Route::ReadVolume((*id).to_owned())),
        ("PUT", [_]) => Ok(Route::Register),
        ("DELETE", [id]) => Ok(Route::Deregister((*id).to_owned())),
        ("GET", [id, "claims"]) => Ok(Route::ReadClaims((*id).to_owned())),
        ("GET", [id, "health"]) => Ok(Route::ReadHealth((*id).to_owned())),
        ("GET", [id, "stats"]) => Ok(Route::ReadStats((*id).to_owned())),
        ("GET", [id, "history"]) => Ok(Route::ReadHistory((*id).to_owned())),
        ("PUT" | "POST", [id, "claim"]) => Ok(Route::Claim((*id).to_owned())),
        ("DELETE", [id, "claim"]) => Ok(Route::Release((*id).to_owned())),
        ("DELETE", [id, "creation"]) => Ok(Route::GiveUpCreation((*id).to_owned())),
        ("PUT", [_, "create"]) => Ok(Route::Create),
        ("PUT", [id, "modify"]) => Ok(Route::Modify((*id).to_owned())),
        ("DELETE", [id, "delete"]) => Ok(Route::Delete((*id).to_owned())),
        ("DELETE", [id, "detach"]) => Ok(Route::Detach((*id).to_owned())),
        ("PUT" | "DELETE", [_, _]) | (_, [_, _, _, ..]) => Err(ServerError::UnknownResource),
        _ => Err(ServerError::InvalidMethod),
    }
}

/// Parses paths below `/v1/job/`. An unknown last segment is part of the job's ID, which may contain slashes. A DELETE has
/// nothing but the ID.
fn job(method: &Method, rest: &str) -> Result<Route, ServerError> {
    let is_put = method == Method::PUT || method == Method::POST;
    let (id, last) = rest.rsplit_once('/').unwrap_or((rest, ""));
    let named = || id.to_owned();
    let get = |route| only(method, &Method::GET, route);
    let put = |route| match is_put {
        true => Ok(route),
        false => Err(ServerError::InvalidMethod),
    };
    if rest.contains("/versions/") && last == "tag" {
        return Err(ServerError::UnknownPath);
    }
    if method == Method::DELETE {
        return Ok(Route::DeregisterJob(rest.to_owned()));
    }
    if let Some(id) = rest.strip_suffix("/periodic/force") {
        return put(Route::ForcePeriodicJob(id.to_owned()));
    }
    match last {
        "plan" => put(Route::PlanJob),
        "evaluate" => put(Route::EvaluateJob(named())),
        "dispatch" => put(Route::DispatchJob(named())),
        "versions" => get(Route::ReadJobVersions(named())),
        "revert" => put(Route::RevertJob(named())),
        "scale" if is_put => Ok(Route::ScaleJob(named())),
        "scale" => get(Route::ReadJobScale(named())),
        "summary" => get(Route::ReadJobSummary(named())),
        "placement" if is_put => Ok(Route::ExplainPlacementOf),
        "placement" => get(Route::ExplainPlacement(named())),
        "allocations" => get(Route::ListJobAllocs(named())),
        "evaluations" => get(Route::ListJobEvaluations(named())),
        "deployment" => get(Route::ReadDeployment),
        "deployments" => get(Route::ListDeployments),
        _ if is_endpoint(rest) => Err(ServerError::UnknownPath),
        _ if is_put => Ok(Route::RegisterJob(Some(rest.to_owned()))),
        _ => get(Route::ReadJob(rest.to_owned())),
    }
}

/// Returns whether the path of a job ends in a word that is none of its ID: an endpoint of Nomad that the agent does not have.
fn is_endpoint(rest: &str) -> bool {
    let problem = JobId::new(rest).path_problem();
    matches!(problem, Some(JobPathProblem::Endpoint(_)))
}

/// Parses paths below `/v1/evaluation/`.
fn evaluation(method: &Method, rest: &str) -> Result<Route, ServerError> {
    let route = match rest.split('/').collect::<Vec<_>>()[..] {
        [id] => Route::ReadEvaluation(id.to_owned()),
        [id, "allocations"] => Route::ListEvaluationAllocs(id.to_owned()),
        _ => return Err(ServerError::UnknownPath),
    };
    only(method, &Method::GET, route)
}

/// Parses paths below `/v1/allocation/`.
fn alloc(method: &Method, rest: &str) -> Result<Route, ServerError> {
    let is_put = method == Method::PUT || method == Method::POST;
    match rest.split('/').collect::<Vec<_>>()[..] {
        [id] => only(method, &Method::GET, Route::ReadAlloc(id.to_owned())),
        [id, "stop"] if is_put => Ok(Route::StopAlloc(id.to_owned())),
        [_, "stop"] => Err(ServerError::InvalidMethod),
        _ => Err(ServerError::UnknownPath),
    }
}

/// Parses paths below `/v1/client/fs/`.
fn file(method: &Method, rest: &str) -> Result<Route, ServerError> {
    let route = match rest.split('/').collect::<Vec<_>>()[..] {
        ["logs", id] => Route::ReadLogs(id.to_owned()),
        ["ls", id] => Route::ListFiles(id.to_owned()),
        ["stat", id] => Route::StatFile(id.to_owned()),
        ["cat", id] => Route::CatFile(id.to_owned()),
        ["readat", id] => Route::ReadFileAt(id.to_owned()),
        _ => return Err(ServerError::UnknownPath),
    };
    only(method, &Method::GET, route)
}

/// Parses paths below `/v1/client/allocation/`.
fn task(method: &Method, rest: &str) -> Result<Route, ServerError> {
    let is_put = method == Method::PUT || method == Method::POST;
    match rest.split('/').collect::<Vec<_>>()[..] {
        [id, "restart"] if is_put => Ok(Route::RestartAlloc(id.to_owned())),
        [id, "signal"] if is_put => Ok(Route::SignalAlloc(id.to_owned())),
        [_, "restart" | "signal"] => Err(ServerError::InvalidMethod),
        _ => Err(ServerError::UnknownPath),
    }
}

/// Parses paths below `/v1/acl/`.
fn acl(method: &Method, rest: &str) -> Result<Route, ServerError> {
    let is_put = method == Method::PUT || method == Method::POST;
    let get = |route| only(method, &Method::GET, route);
    match rest.split('/').collect::<Vec<_>>()[..] {
        ["bootstrap"] if is_put => Ok(Route::BootstrapAcl),
        ["token"] if is_put => Ok(Route::WriteToken(None)),
        ["bootstrap" | "token"] => Err(ServerError::InvalidMethod),
        ["tokens"] => get(Route::ListTokens),
        ["policies"] => get(Route::ListPolicies),
        ["token", "self"] => get(Route::ReadOwnToken),
        ["token", accessor] if is_put => Ok(Route::WriteToken(Some(accessor.to_owned()))),
        ["token", accessor] if method == Method::DELETE => {
            Ok(Route::DeleteToken(accessor.to_owned()))
        }
        ["token", accessor] => get(Route::ReadToken(accessor.to_owned())),
        ["policy", "self"] => get(Route::ReadOwnPolicies),
        ["policy", name] if is_put => Ok(Route::WritePolicy(name.to_owned())),
        ["policy", name] if method == Method::DELETE => Ok(Route::DeletePolicy(name.to_owned())),
        ["policy", name] => get(Route::ReadPolicy(name.to_owned())),
        _ => Err(ServerError::UnknownPath),
    }
}

/// Parses paths below `/v1/namespace/`.
fn namespace(method: &Method, name: &str) -> Result<Route, ServerError> {
    let name = name.to_owned();
    match method.as_str() {
        "PUT" | "POST" => Ok(Route::WriteNamespace(Some(name))),
        "DELETE" => Ok(Route::DeleteNamespace(name)),
        _ => only(method, &Method::GET, Route::ReadNamespace(name)),
    }
}

/// Parses paths below `/v1/node/`.
fn node(method: &Method, rest: &str) -> Result<Route, ServerError> {
    let is_put = method == Method::PUT || method == Method::POST;
    let segments: Vec<_> = rest.split('/').collect();
    match segments.as_slice() {
        [id, "fence"] if is_put => Ok(Route::Fence((*id).to_owned())),
        [id, "unfence"] if is_put => Ok(Route::Unfence((*id).to_owned())),
        [id, "eligibility"] if is_put => Ok(Route::SetNodeEligibility((*id).to_owned())),
        [id, "drain"] if is_put => Ok(Route::DrainNode((*id).to_owned())),
        [_, "fence" | "unfence" | "eligibility" | "drain"] => Err(ServerError::InvalidMethod),
        ["pools"] if method == Method::GET => Ok(Route::ListNodePools),
        ["pools"] if is_put => Err(ServerError::UnknownPath),
        ["pools"] => Err(ServerError::InvalidMethod),
        ["pool", name] if method == Method::GET => Ok(Route::ReadNodePool((*name).to_owned())),
        ["pool", ..] => Err(ServerError::UnknownPath),
        [id] => only(method, &Method::GET, Route::ReadNode((*id).to_owned())),
        [id, "allocations"] => only(method, &Method::GET, Route::ListNodeAllocs((*id).to_owned())),
        _ => Err(ServerError::UnknownPath),
    }
}

/// Parses paths below `/v1/var/`, where the rest is the variable's path with its slashes. Several
/// slashes in a row count as one, as after Nomad's redirect. A wrong method is 400 here.
fn variable(method: &Method, rest: &str) -> Result<Route, ServerError> {
    if !["GET", "PUT", "POST", "DELETE"].contains(&method.as_str()) {
        return Err(RequestError::Method.into());
    }
    let mut path = String::with_capacity(rest.len());
    for c in rest.chars() {
        if c != '/' || !path.ends_with('/') {
            path.push(c);
        }
    }
    Ok(Route::Variable(method.clone(), path))
}

/// Parses paths below `/v1/plugin/csi/`. A second segment that names nothing is ignored; a third is an error.
fn plugin(method: &Method, rest: &str) -> Result<Route, ServerError> {
    let segments: Vec<_> = rest.split('/').collect();
    match segments.as_slice() {
        [id, "capacity"] => only(method, &Method::GET, Route::ReadCapacity((*id).to_owned())),
        [id] | [id, _] => only(method, &Method::GET, Route::ReadPlugin((*id).to_owned())),
        _ => Err(ServerError::UnknownResource),
    }
}
