//! Endpoints that Nomad's clients need besides volumes: agent, metrics, status, regions and search. They return only what those clients read.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::json;

use super::job_documents::placed_allocs;
use super::reply::Reply;
use super::request::IncomingRequest;
use crate::error::{RequestError, ServerError};
use crate::services::AgentInfo;
use nomad_csi_claims::state::{State, VariableFilter, VolumeFilter, plugins, variables, volumes};
use nomad_csi_model::{Namespace, PluginId};
use nomad_csi_wire::{MemberDocument, MembersDocument, metrics_summary};

/// The largest number of matches of one kind in a search.
const SEARCH_LIMIT: usize = 20;

type Result = std::result::Result<Reply, ServerError>;

/// Returns the metrics: Nomad's JSON, or with `format=prometheus` the text that Prometheus reads.
pub(super) fn metrics(request: &IncomingRequest) -> Result {
    let text = request.services.metrics();
    match request.parameters.get("format") {
        Some("prometheus") => Ok(Reply::metrics(text)),
        Some(_) | None => {
            let summary = metrics_summary(&text, request.services.now());
            Reply::json(&summary, request.pretty)
        }
    }
}

/// Describes the agent. `Version` is the Nomad version whose API it serves.
pub(super) fn agent_self(request: &IncomingRequest) -> Result {
    let info = &request.services.agent_info;
    let full_version = format!("{}+nomad-csi", AgentInfo::NOMAD_VERSION);
    let (host, port) = host_and_port(&info.address);
    let document = json!({
        "config": {
            "ACL": {"Enabled": false},
            "Client": {"Enabled": !info.node_id.is_empty()},
            "Datacenter": info.datacenter,
            "NodeName": info.name,
            "Region": info.region,
            "Server": {"Enabled": true},
            // Otherwise Nomad's command line points to pages that the agent does not have.
            "UI": {"ShowCLIHints": false},
            "Version": {
                "BuildDate": null,
                "Revision": "",
                "Version": AgentInfo::NOMAD_VERSION,
                "VersionMetadata": "nomad-csi",
                "VersionPrerelease": "",
            },
        },
        "member": {
            "Addr": host,
            "Name": format!("{}.{}", info.name, info.region),
            "Port": port,
            "Status": "alive",
            "Tags": {
                "build": full_version,
                "dc": info.datacenter,
                "region": info.region,
                "role": "nomad-csi",
            },
        },
        "stats": {
            "client": {"node_id": info.node_id},
            "nomad": {"leader": request.services.leads().is_ok().to_string(), "server": "true"},
            "nomad_csi": {"version": info.version},
        },
    });
    Reply::json(&document, request.pretty)
}

fn host_and_port(address: &str) -> (&str, u16) {
    let parts = address.rsplit_once(':');
    let parts = parts.and_then(|(host, port)| Some((host, port.parse().ok()?)));
    parts.unwrap_or_default()
}

pub(super) fn agent_health(request: &IncomingRequest) -> Result {
    let healthy = json!({"message": "ok", "ok": true});
    let document = match request.parameters.get("type") {
        Some("client") => json!({"client": healthy}),
        Some("server") => json!({"server": healthy}),
        _ => json!({"client": healthy, "server": healthy}),
    };
    Reply::json(&document, request.pretty)
}

/// The agent is the only server of its region.
pub(super) fn members(request: &IncomingRequest) -> Result {
    let info = &request.services.agent_info;
    let (host, port) = host_and_port(&info.address);
    let tags = [
        ("build", AgentInfo::NOMAD_VERSION.to_owned()),
        ("dc", info.datacenter.clone()),
        ("port", port.to_string()),
        ("raft_vsn", "3".to_owned()),
        ("region", info.region.clone()),
        ("role", "nomad-csi".to_owned()),
    ];
    let tags = tags.map(|(name, value)| (name.to_owned(), value));
    let member = MemberDocument {
        addr: host.to_owned(),
        name: format!("{}.{}", info.name, info.region),
        port: u64::from(port),
        status: "alive".to_owned(),
        tags: tags.into(),
    };
    let document = MembersDocument {
        members: vec![member],
        server_dc: info.datacenter.clone(),
        server_name: info.name.clone(),
        server_region: info.region.clone(),
    };
    Reply::json(&document, request.pretty)
}

/// The agent is its own leader.
pub(super) fn leader(request: &IncomingRequest) -> Result {
    Reply::json(&request.services.agent_info.address, request.pretty)
}

pub(super) fn peers(request: &IncomingRequest) -> Result {
    Reply::json(&[&request.services.agent_info.address], request.pretty)
}

pub(super) fn list_regions(request: &IncomingRequest) -> Result {
    Reply::json(&[&request.services.agent_info.region], request.pretty)
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct SearchRequest {
    prefix: String,
    context: String,
    namespace: String,
}

/// Searches IDs, for the shell completion of Nomad's command line.
pub(super) fn search(request: &IncomingRequest) -> Result {
    let search: SearchRequest = request.document()?;
    let namespace = request.parameters.namespace();
    let namespace = namespace.unwrap_or_else(|| match search.namespace.as_str() {
        "" => Namespace::default(),
        name => Namespace::new(name),
    });
    let contexts: &[&str] = match search.context.as_str() {
        "all" => &[
            "allocs",
            "evals",
            "host_volumes",
            "jobs",
            "namespaces",
            "nodes",
            "plugins",
            "vars",
            "volumes",
        ],
        "allocs" => &["allocs"],
        "evals" => &["evals"],
        "jobs" => &["jobs"],
        "volumes" => &["volumes"],
        "host_volumes" => &["host_volumes"],
        "plugins" => &["plugins"],
        "nodes" => &["nodes"],
        "namespaces" => &["namespaces"],
        "vars" => &["vars"],
        _ => return Err(RequestError::SearchContext.into()),
    };
    let (mut matches, mut truncations) = (BTreeMap::new(), BTreeMap::new());
    if search.context == "vars" {
        request.operator.clone()?;
    }
    let is_operator = request.operator.is_ok();
    let shown = contexts.iter().filter(|context| **context != "vars" || is_operator);
    let contexts: Vec<&str> = shown.copied().collect();
    let (found, index) = request.services.cell.read(|state| {
        let of = |context| found(state, context, &search.prefix, &namespace);
        let found: Vec<_> = contexts.iter().map(|context| of(context)).collect();
        (found, state.index())
    });
    for (context, mut found) in contexts.iter().zip(found) {
        truncations.insert(context, found.len() > SEARCH_LIMIT);
        found.truncate(SEARCH_LIMIT);
        matches.insert(context, found);
    }
    let document = json!({
        "Index": index,
        "KnownLeader": true,
        "LastContact": 0,
        "Matches": matches,
        "NextToken": "",
        "Truncations": truncations,
    });
    Reply::json(&document, request.pretty)
}

fn is_in(requested: &Namespace, own: &Namespace) -> bool {
    requested.as_str() == Namespace::ALL || requested == own
}

/// Finds matches of one kind, at most one more than the limit.
fn found(state: &State, context: &str, prefix: &str, namespace: &Namespace) -> Vec<String> {
    match context {
        "volumes" => {
            let filter = VolumeFilter {
                namespace: namespace.clone(),
                prefix: prefix.to_owned(),
                plugin: None,
                node: None,
            };
            let page = volumes(state, &filter, None, SEARCH_LIMIT + 1);
            let ids = page.volumes.iter();
            ids.map(|view| view.record.key().id.to_string()).collect()
        }
        "vars" => {
            let filter = VariableFilter { namespace: namespace.clone(), prefix: prefix.to_owned() };
            let page = variables(state, &filter, None, SEARCH_LIMIT + 1);
            let paths = page.variables.iter();
            paths.map(|record| record.key.path.to_string()).collect()
        }
        "plugins" => {
            let id = |id: &PluginId| id.to_string();
            let views = plugins(state, prefix);
            views.iter().map(|v| id(&v.plugin.summary.id)).collect()
        }
        "jobs" => {
            let jobs = state.jobs().filter(|job| !job.is_purged);
            let here = jobs.filter(|job| is_in(namespace, job.namespace()));
            let ids = here.map(|job| job.current.job.id.to_string());
            ids.filter(|id| id.starts_with(prefix)).collect()
        }
        "allocs" => {
            let here = placed_allocs(state)
                .filter(|alloc| is_in(namespace, &alloc.placement.job.job.namespace));
            let ids = here.map(|alloc| alloc.id.to_string());
            ids.filter(|id| id.starts_with(prefix)).collect()
        }
        "evals" => {
            let jobs = state.jobs().filter(|job| is_in(namespace, job.namespace()));
            let ids =
                jobs.flat_map(|job| job.evaluations.iter().map(|one| one.result.id.to_string()));
            ids.filter(|id| id.starts_with(prefix)).collect()
        }
        "nodes" => {
            let ids = state.nodes().map(|node| node.id.to_string());
            ids.filter(|id| id.starts_with(prefix)).collect()
        }
        "namespaces" => {
            let names = state.namespaces().into_iter();
            let names = names.map(|record| record.name.to_string());
            names.filter(|name| name.starts_with(prefix)).collect()
        }
        _ => vec![],
    }
}
