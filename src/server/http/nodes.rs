//! The endpoints of nodes.

use std::collections::BTreeMap;

use super::access::NamespaceScope;
use super::blocking::wait_for_index;
use super::capabilities::{READ_JOB, READ_VOLUME};
use super::filtering::Paging;
use super::job_documents::placed_allocs;
use super::reply::Reply;
use super::request::IncomingRequest;
use crate::claims::ClaimService;
use crate::error::{JobError, ServerError};
use crate::node_events::NodeEvent;
use nomad_csi_claims::state::{State, Table, Topic, plugins};
use nomad_csi_model::{Namespace, Node, NodeId, NodeStatus, PluginInstance};
use nomad_csi_ports::{MountAction, MountEvent};
use nomad_csi_wire::{
    DrainStrategyDocument, HostVolumeDocument, InstanceDocument, NodeDocument, NodeDrainRequest,
    NodeEligibilityRequest, NodeEventDocument, NodeStub, NodeUpdateResponse, instance_to_wire,
    node_to_wire, time_to_wire,
};

const NANOSECONDS_PER_SECOND: i64 = 1_000_000_000;

type Result<T = Reply> = std::result::Result<T, ServerError>;

fn topics(_: &State) -> Vec<Topic> {
    [Table::Nodes, Table::Plugins].map(Topic::all).into()
}

fn index(state: &State) -> u64 {
    state.nodes_index().max(state.plugins_index())
}

pub(super) async fn list(request: &IncomingRequest) -> Result {
    let page = Paging::of(&request.parameters)?;
    let wait = request.parameters.wait()?;
    wait_for_index(request, wait, topics, index).await?;
    let prefix = request.parameters.prefix();
    let (nodes, index) = request.services.cell.read(|state| {
        let nodes = state.nodes();
        let matching = nodes.filter(|node| node.id.as_str().starts_with(prefix));
        let stub = |node: &Node| NodeStub {
            fenced: state.node_loss(&node.id).is_some(),
            returned: state.node_loss(&node.id).is_some_and(|loss| loss.has_returned),
            status_description: status_description(state, &request.services.claims, &node.id),
            ..node_to_wire(node)
        };
        let stubs: Vec<_> = matching.map(stub).collect();
        (stubs, index(state))
    });
    let (nodes, next) = page.page(nodes, |node| node.id.clone())?;
    let reply = Reply::json(&nodes, request.pretty)?;
    Ok(reply.with_index(index).with_next_token(next))
}

pub(super) async fn read(request: &IncomingRequest, id: &str) -> Result {
    let id = NodeId::new(id);
    let wait = request.parameters.wait()?;
    wait_for_index(request, wait, topics, index).await?;
    let claims = &request.services.claims;
    let scope = request.scope_in(Namespace::new(Namespace::ALL), READ_VOLUME)?;
    let found = request.services.cell.read(|state| {
        let node = state.node(&id)?;
        let document = NodeDocument {
            status_description: status_description(state, claims, &id),
            events: events(request, &scope, &id),
            ..document(state, node)
        };
        Some((document, index(state)))
    });
    let (document, index) = found.ok_or_else(|| JobError::NoNode(id.to_string()))?;
    Ok(Reply::json(&document, request.pretty)?.with_index(index))
}

/// The events of the volumes that the client may see.
fn events(
    request: &IncomingRequest,
    scope: &NamespaceScope,
    node: &NodeId,
) -> Vec<NodeEventDocument> {
    let events = request.services.node_events.as_ref();
    let events = events.map(|events| events.of(node)).unwrap_or_default();
    let seen = events.iter().filter(|event| scope.contains(&event.event.volume.namespace));
    seen.map(event_document).collect()
}

/// Nomad's form of an event, with the allocation. What a task wrote beside a volume has no form there.
fn event_document(event: &NodeEvent) -> NodeEventDocument {
    let MountEvent { volume, alloc, action, error } = &event.event;
    let (message, outcome) = match action {
        MountAction::Mount => ("Mount volume", "error"),
        MountAction::Unmount => ("Unmount volume", "error"),
        MountAction::Keep => ("Kept files that were written beside a volume", "path"),
    };
    let is_success = error.is_none() || *action == MountAction::Keep;
    let details = [
        ("volume_id", Some(volume.id.to_string())),
        ("namespace", Some(volume.namespace.to_string())),
        ("alloc_id", alloc.as_ref().map(ToString::to_string)),
        ("success", Some(is_success.to_string())),
        (outcome, error.clone()),
    ];
    let details = details.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
    NodeEventDocument {
        create_index: event.number,
        details: Some(details.collect()),
        message: message.to_owned(),
        subsystem: "Storage".to_owned(),
        timestamp: time_to_wire(event.at),
    }
}

/// Why a node is not used, and what that waits for; empty for one that is used.
fn status_description(state: &State, claims: &ClaimService, node: &NodeId) -> String {
    let status = state.node(node).map(|node| node.status);
    match (state.node_loss(node), status) {
        (Some(loss), _) if loss.has_returned => claims.sweep_progress(node),
        (Some(loss), _) => loss.reason.clone(),
        (None, None | Some(NodeStatus::Ready)) => String::new(),
        (None, Some(NodeStatus::Disconnected)) => {
            format!("it is not connected; {}", kept_claims(state, node))
        }
        (None, Some(NodeStatus::Down)) => {
            format!("its services are placed elsewhere; {}", kept_claims(state, node))
        }
    }
}

/// What a node that is away still holds.
fn kept_claims(state: &State, node: &NodeId) -> String {
    let claims = state.all_claims().flat_map(|record| record.claims.on(node));
    let kept = match claims.count() {
        0 => "it has no claims".to_owned(),
        1 => "its claim stays until it returns or is fenced".to_owned(),
        count => format!("its {count} claims stay until it returns or is fenced"),
    };
    match state.node(node).is_some_and(|node| node.is_draining) {
        true => kept + "; its drain waits for it",
        false => kept,
    }
}

/// The document of a node. It has no address: clients would go there with their token, past the tunnel or the socket over
/// which they reached the agent.
pub(super) fn document(state: &State, node: &Node) -> NodeDocument {
    let stub = node_to_wire(node);
    let attributes = node.all_attributes();
    let host_volumes = node.host_volumes.iter().map(|(name, volume)| {
        let document = HostVolumeDocument {
            name: name.clone(),
            path: volume.path.display().to_string(),
            read_only: volume.read_only,
        };
        (name.clone(), document)
    });
    NodeDocument {
        attributes,
        host_volumes: host_volumes.collect(),
        controller_plugins: instances(state, &node.id, |one| one.controller.is_some()),
        node_plugins: instances(state, &node.id, |one| one.node.is_some()),
        datacenter: stub.datacenter,
        drain: stub.drain,
        drain_strategy: node.is_draining.then(|| DrainStrategyDocument {
            ignore_system_jobs: node.keeps_system_jobs,
            ..DrainStrategyDocument::default()
        }),
        drivers: stub.drivers,
        id: stub.id,
        name: stub.name,
        node_pool: stub.node_pool,
        scheduling_eligibility: stub.scheduling_eligibility,
        status: stub.status,
        status_description: state
            .node_loss(&node.id)
            .map(|loss| loss.reason.clone())
            .unwrap_or_default(),
        status_updated_at: node.status_since / NANOSECONDS_PER_SECOND,
        ..NodeDocument::default()
    }
}

/// The plugins on the node that have a service.
fn instances(
    state: &State,
    node: &NodeId,
    has_service: fn(&PluginInstance) -> bool,
) -> BTreeMap<String, InstanceDocument> {
    let ids = plugins(state, "").into_iter().map(|view| view.plugin.summary.id);
    let found = ids.filter_map(|id| {
        let record = state.plugin_record(&id)?;
        let here = record
            .allocs
            .values()
            .filter(|alloc| alloc.node == *node && has_service(&alloc.instance));
        let newest =
            here.max_by_key(|alloc| (alloc.instance.health.healthy, alloc.create_index))?;
        Some((id.to_string(), instance_to_wire(&id, &newest.instance)))
    });
    found.collect()
}

/// The allocations of a node, complete.
pub(super) async fn list_allocs(request: &IncomingRequest, id: &str) -> Result {
    let id = NodeId::new(id);
    let wait = request.parameters.wait()?;
    let topics = |_: &State| vec![Topic::all(Table::Allocs)];
    wait_for_index(request, wait, topics, State::allocs_index).await?;
    let scope = request.scope_in(Namespace::new(Namespace::ALL), READ_JOB)?;
    let (documents, index) = request.services.cell.read(|state| {
        let here = placed_allocs(state).filter(|alloc| {
            alloc.record.node == id && scope.contains(&alloc.placement.job.job.namespace)
        });
        let documents: Vec<_> = here.map(|alloc| alloc.document(state)).collect();
        (documents, state.allocs_index())
    });
    Ok(Reply::json(&documents, request.pretty)?.with_index(index))
}

pub(super) async fn set_eligibility(request: &IncomingRequest, id: &str) -> Result {
    let document: NodeEligibilityRequest = request.document()?;
    let is_eligible = match document.eligibility.as_str() {
        "eligible" => true,
        "ineligible" => false,
        other => {
            let text = format!("invalid scheduling eligibility \"{other}\"");
            return Err(JobError::BadRequest(text).into());
        }
    };
    update(request, id, |node| {
        node.is_eligible = is_eligible;
        node.is_draining &= !is_eligible;
    })
    .await
}

/// Starts a drain, which makes the node ineligible and stops its allocations, or ends it.
pub(super) async fn drain(request: &IncomingRequest, id: &str) -> Result {
    let document: NodeDrainRequest = request.document()?;
    let drains = document.drain_spec.is_some();
    let keeps_system_jobs = document.drain_spec.is_some_and(|drain| drain.ignore_system_jobs);
    update(request, id, |node| {
        node.is_draining = drains;
        node.keeps_system_jobs = keeps_system_jobs;
        node.is_eligible = !drains && (node.is_eligible || document.mark_eligible);
    })
    .await
}

async fn update(request: &IncomingRequest, id: &str, change: impl Fn(&mut Node)) -> Result {
    let id = NodeId::new(id);
    let index = request.services.jobs.set_node(&id, change).await?;
    let document =
        NodeUpdateResponse { index, node_modify_index: index, ..NodeUpdateResponse::default() };
    Ok(Reply::json(&document, request.pretty)?.with_index(index))
}
