//! What official clients ask besides volumes and plugins (`nomad-http-api` 3.13,
//! `nomad-neighbour-apis` 4): as little as they need, and nothing that is not so.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::{Value, json};

use super::reply::Reply;
use super::router::Asked;
use super::volumes::document;
use crate::model::{Namespace, PluginId};
use crate::server::error::{RequestError, ServerError};
use crate::server::services::About;
use crate::state::{State, VariableFilter, VolumeFilter, plugins, variables, volumes};
use crate::wire::node_to_wire;

/// How many matches of one kind a search answers.
const SEARCH_LIMIT: usize = 20;

type Result = std::result::Result<Reply, ServerError>;

pub(super) fn nodes(asked: &Asked) -> Result {
    let prefix = asked.parameters.prefix();
    let nodes: Vec<_> = asked.services.cell.read(|state| {
        let nodes = state.nodes();
        let matching = nodes.filter(|node| node.id.as_str().starts_with(prefix));
        matching.map(node_to_wire).collect()
    });
    Reply::json(&nodes, asked.pretty)
}

/// Who answers: the Nomad whose API this is, and in every other field this program.
pub(super) fn agent_self(asked: &Asked) -> Result {
    let about = &asked.services.about;
    let full_version = format!("{}+nomad-csi", About::NOMAD_VERSION);
    let (host, port) = host_and_port(&about.address);
    let document = json!({
        "config": {
            "ACL": {"Enabled": false},
            "Client": {"Enabled": !about.node_id.is_empty()},
            "Datacenter": about.datacenter,
            "NodeName": about.name,
            "Region": about.region,
            "Server": {"Enabled": true},
            "Version": {
                "BuildDate": null,
                "Revision": "",
                "Version": About::NOMAD_VERSION,
                "VersionMetadata": "nomad-csi",
                "VersionPrerelease": "",
            },
        },
        "member": {
            "Addr": host,
            "Name": format!("{}.{}", about.name, about.region),
            "Port": port,
            "Status": "alive",
            "Tags": {
                "build": full_version,
                "dc": about.datacenter,
                "region": about.region,
                "role": "nomad-csi",
            },
        },
        "stats": {
            "client": {"node_id": about.node_id},
            "nomad": {"leader": "true", "server": "true"},
            "nomad_csi": {"version": about.version},
        },
    });
    Reply::json(&document, asked.pretty)
}

fn host_and_port(address: &str) -> (&str, u16) {
    let parts = address.rsplit_once(':');
    let parts = parts.and_then(|(host, port)| Some((host, port.parse().ok()?)));
    parts.unwrap_or_default()
}

pub(super) fn agent_health(asked: &Asked) -> Result {
    let well = json!({"message": "ok", "ok": true});
    let document = match asked.parameters.get("type") {
        Some("client") => json!({"client": well}),
        Some("server") => json!({"server": well}),
        _ => json!({"client": well, "server": well}),
    };
    Reply::json(&document, asked.pretty)
}

/// This agent leads itself.
pub(super) fn leader(asked: &Asked) -> Result {
    Reply::json(&asked.services.about.address, asked.pretty)
}

pub(super) fn peers(asked: &Asked) -> Result {
    Reply::json(&[&asked.services.about.address], asked.pretty)
}

pub(super) fn regions(asked: &Asked) -> Result {
    Reply::json(&[&asked.services.about.region], asked.pretty)
}

/// Any namespace is accepted; those are listed that hold something, and the default.
pub(super) fn namespaces(asked: &Asked) -> Result {
    let prefix = asked.parameters.prefix();
    let known = asked.services.cell.read(known_namespaces);
    let documents: Vec<_> = known
        .iter()
        .filter(|name| name.starts_with(prefix))
        .map(|name| namespace_document(name))
        .collect();
    Reply::json(&documents, asked.pretty)
}

pub(super) fn namespace(asked: &Asked, name: &str) -> Result {
    let known = asked.services.cell.read(known_namespaces);
    if !known.contains(name) {
        return Err(ServerError::NoNamespaceToRead);
    }
    Reply::json(&namespace_document(name), asked.pretty)
}

fn known_namespaces(state: &State) -> BTreeSet<String> {
    let of_volumes = state.records().map(|record| &record.key().namespace);
    let of_variables = state.variables().map(|record| &record.key.namespace);
    let used = of_volumes.chain(of_variables).map(ToString::to_string);
    used.chain([Namespace::DEFAULT.to_owned()]).collect()
}

fn namespace_document(name: &str) -> Value {
    json!({
        "Capabilities": null,
        "CreateIndex": State::FIRST_INDEX,
        "Description": "",
        "Hash": "",
        "Meta": null,
        "ModifyIndex": State::FIRST_INDEX,
        "Name": name,
        "Quota": "",
    })
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct SearchRequest {
    prefix: String,
    context: String,
    namespace: String,
}

/// Shell completion of Nomad's own command line.
pub(super) fn search(asked: &Asked) -> Result {
    let request: SearchRequest = document(&asked.body)?;
    let namespace = asked.parameters.namespace();
    let namespace = namespace.unwrap_or_else(|| match request.namespace.as_str() {
        "" => Namespace::default(),
        name => Namespace::new(name),
    });
    let contexts: &[&str] = match request.context.as_str() {
        "all" => &[
            "host_volumes",
            "namespaces",
            "nodes",
            "plugins",
            "vars",
            "volumes",
        ],
        "volumes" => &["volumes"],
        "host_volumes" => &["host_volumes"],
        "plugins" => &["plugins"],
        "nodes" => &["nodes"],
        "namespaces" => &["namespaces"],
        "vars" => &["vars"],
        _ => return Err(RequestError::SearchContext.into()),
    };
    let (mut matches, mut truncations) = (BTreeMap::new(), BTreeMap::new());
    let (found, index) = asked.services.cell.read(|state| {
        let of = |context| found(state, context, &request.prefix, &namespace);
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
    Reply::json(&document, asked.pretty)
}

/// At most one more than are answered.
fn found(state: &State, context: &str, prefix: &str, namespace: &Namespace) -> Vec<String> {
    match context {
        "volumes" => {
            let filter = VolumeFilter {
                namespace: namespace.clone(),
                prefix: prefix.to_owned(),
                plugin: None,
            };
            let page = volumes(state, &filter, None, SEARCH_LIMIT + 1);
            let ids = page.volumes.iter();
            ids.map(|view| view.record.key().id.to_string()).collect()
        }
        "vars" => {
            let filter = VariableFilter {
                namespace: namespace.clone(),
                prefix: prefix.to_owned(),
            };
            let page = variables(state, &filter, None, SEARCH_LIMIT + 1);
            let paths = page.variables.iter();
            paths.map(|record| record.key.path.to_string()).collect()
        }
        "plugins" => {
            let id = |id: &PluginId| id.to_string();
            let views = plugins(state, prefix);
            views.iter().map(|v| id(&v.plugin.summary.id)).collect()
        }
        "nodes" => {
            let ids = state.nodes().map(|node| node.id.to_string());
            ids.filter(|id| id.starts_with(prefix)).collect()
        }
        "namespaces" => {
            let names = known_namespaces(state).into_iter();
            names.filter(|name| name.starts_with(prefix)).collect()
        }
        _ => vec![],
    }
}
