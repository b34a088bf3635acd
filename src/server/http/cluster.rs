//! Endpoints that Nomad's clients need besides volumes: agent, metrics, status, regions and search. They return only what those clients read.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::json;

use super::access::NamespaceScope;
use super::capabilities::{LIST_JOBS, LIST_VOLUMES, READ_JOB};
use super::job_documents::placed_allocs;
use super::reply::Reply;
use super::request::IncomingRequest;
use crate::acl::Rights;
use crate::error::{RequestError, ServerError};
use crate::services::AgentInfo;
use nomad_csi_claims::state::{State, VariableFilter, VolumeFilter, plugins, variables, volumes};
use nomad_csi_model::{Namespace, PluginId, VariableKey};
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
            "ACL": {"Enabled": request.services.acl.is_enabled()},
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
    let has_acl = request.services.acl.is_enabled();
    if search.context == "vars" && !has_acl {
        request.operator.clone()?;
    }
    let lists_variables = has_acl || request.operator.is_ok();
    let shown = contexts.iter().filter(|context| **context != "vars" || lists_variables);
    let contexts: Vec<&str> = shown.copied().collect();
    let searched = Searched {
        prefix: &search.prefix,
        volumes: request.scope_in(namespace.clone(), LIST_VOLUMES)?,
        jobs: request.scope_in(namespace.clone(), LIST_JOBS)?,
        allocs: request.scope_in(namespace.clone(), READ_JOB)?,
        rights: request.rights()?,
        namespace,
    };
    let (found, index) = request.services.cell.read(|state| {
        let found: Vec<_> = contexts.iter().map(|context| searched.found(state, context)).collect();
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

/// What is searched, and what the client may see of it.
struct Searched<'a> {
    prefix: &'a str,
    namespace: Namespace,
    volumes: NamespaceScope,
    jobs: NamespaceScope,
    allocs: NamespaceScope,
    rights: Rights,
}

impl Searched<'_> {
    /// Finds matches of one kind, at most one more than the limit where a kind may have many.
    fn found(&self, state: &State, context: &str) -> Vec<String> {
        let begins = |id: &String| id.starts_with(self.prefix);
        match context {
            "volumes" => {
                let filter = VolumeFilter {
                    namespace: self.namespace.clone(),
                    among: self.volumes.among(state),
                    prefix: self.prefix.to_owned(),
                    plugin: None,
                    node: None,
                };
                let page = volumes(state, &filter, None, SEARCH_LIMIT + 1);
                let ids = page.volumes.iter();
                ids.map(|view| view.record.key().id.to_string()).collect()
            }
            "vars" => {
                let (namespace, prefix) = (self.namespace.clone(), self.prefix.to_owned());
                let filter = VariableFilter { namespace, prefix };
                let is_shown = |key: &VariableKey| {
                    self.rights.has_variable(&key.namespace, key.path.as_str(), "list")
                };
                let page = variables(state, &filter, None, SEARCH_LIMIT + 1, is_shown);
                let paths = page.variables.iter();
                paths.map(|record| record.key.path.to_string()).collect()
            }
            "plugins" if self.rights.lists_plugins() => {
                let id = |id: &PluginId| id.to_string();
                let views = plugins(state, self.prefix);
                views.iter().map(|v| id(&v.plugin.summary.id)).collect()
            }
            "jobs" => {
                let jobs = state.jobs().filter(|job| !job.is_purged);
                let here = jobs.filter(|job| self.jobs.contains(job.namespace()));
                here.map(|job| job.current.job.id.to_string()).filter(begins).collect()
            }
            "allocs" => {
                let here = placed_allocs(state)
                    .filter(|alloc| self.allocs.contains(&alloc.placement.job.job.namespace));
                here.map(|alloc| alloc.id.to_string()).filter(begins).collect()
            }
            "evals" => {
                let jobs = state.jobs().filter(|job| self.allocs.contains(job.namespace()));
                let ids = jobs
                    .flat_map(|job| job.evaluations.iter().map(|one| one.result.id.to_string()));
                ids.filter(begins).collect()
            }
            "nodes" if self.rights.reads_nodes() => {
                state.nodes().map(|node| node.id.to_string()).filter(begins).collect()
            }
            "namespaces" => {
                let names = state.namespaces().into_iter();
                let entered = names.filter(|record| self.rights.enters(&record.name));
                entered.map(|record| record.name.to_string()).filter(begins).collect()
            }
            _ => vec![],
        }
    }
}
