//! The endpoints of volumes.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::blocking::wait_for_index;
use super::capabilities::{LIST_VOLUMES, WRITE_VOLUME};
use super::claims;
use super::filtering::{fields, filter, is_listed};
use super::kept_lists::KeptLists;
use super::parameters::Parameters;
use super::reply::Reply;
use super::request::{IncomingRequest, LONG_LIST};
use super::volume_documents::{volume_document, volume_stub};
use crate::cell::CommitError;
use crate::error::{RequestError, ServerError};
use crate::history::volume_history;
use crate::volumes::{VolumeSubmission, VolumeWriteResult};
use nomad_csi_claims::state::{
    Event, EventKind, State, Subject, Table, Topic, VolumeFilter, VolumePage, VolumeToken,
    VolumeView, event_text, plugin, volume, volumes,
};
use nomad_csi_model::{Namespace, NamespacedId, NodeId, PluginId, VolumeId, one_line};
use nomad_csi_wire::{
    Filter, KeptFilesDocument, ModifyRequest, ModifyResponse, VolumeDocument, VolumeEventDocument,
    VolumeStub, WriteRequest, WriteResponse, request_from_wire, stats_to_wire,
    volume_health_to_wire,
};

/// How many events are returned if the request does not say it, and at most.
const DEFAULT_EVENTS: usize = 1000;
const MAX_EVENTS: usize = 10_000;

type Result<T = Reply> = std::result::Result<T, ServerError>;

pub(super) async fn list(request: &IncomingRequest) -> Result {
    let parameters = &request.parameters;
    match parameters.get("type") {
        None | Some("host") => return Reply::json(&[(); 0], request.pretty),
        Some("csi") => {}
        Some(_) => return Err(ServerError::UnknownResource),
    }
    let limit = parameters.per_page()?;
    let expression = filter(parameters)?;
    let start = parameters.text("next_token").map(VolumeToken::parse);
    let start = start.transpose().map_err(|_| RequestError::NextToken)?;
    let wait = parameters.wait()?;
    let mut conditions = VolumeFilter {
        namespace: parameters.namespace_or_default(),
        among: None,
        prefix: parameters.prefix().to_owned(),
        plugin: parameters.text("plugin_id").map(PluginId::new),
        node: parameters.text("node_id").map(NodeId::new),
    };
    let topics = |_: &State| list_topics(&conditions);
    wait_for_index(request, wait, topics, State::volumes_index).await?;
    let scope = request.scope(LIST_VOLUMES)?;
    conditions.among = request.services.cell.read(|state| scope.among(state));
    // An expression is tested on JSON, which is built later.
    let max = if expression.is_some() { 0 } else { limit };
    let read = |max| {
        request.services.cell.read(|state| {
            let page = volumes(state, &conditions, start.as_ref(), max);
            (page, state.volumes_index())
        })
    };
    // A long list is read when it is its turn: while it waits, it takes no memory.
    let few = if max == 0 { LONG_LIST } else { max.min(LONG_LIST) };
    let (mut page, mut index) = read(few);
    let encoding = ListEncoding {
        kept: request.kept_lists.clone(),
        pretty: request.pretty,
        is_compressed: request.is_compressed,
    };
    let reply = if page.volumes.len() < LONG_LIST {
        encoding.encode(page, expression.as_ref(), limit)?
    } else {
        drop(page);
        let permit = request.long_list().await?;
        (page, index) = read(max);
        let encode = move || encoding.encode(page, expression.as_ref(), limit);
        let task = tokio::task::spawn_blocking(encode).await;
        let failed = |_| Err(ServerError::Internal("a list could not be encoded".into()));
        drop(permit);
        task.unwrap_or_else(failed)?
    };
    Ok(reply.with_index(index))
}

/// Returns what changes a list: its volumes, and the plugins, which determine their health.
fn list_topics(filter: &VolumeFilter) -> Vec<Topic> {
    let plugin = filter.plugin.clone().map(Subject::Plugin);
    vec![
        Topic::list(Table::Volumes, &filter.namespace, &filter.prefix),
        plugin.map_or(Topic::all(Table::Plugins), Topic::Object),
    ]
}

/// Returns what changes a volume's document: the volume, and its plugin.
fn volume_topics(state: &State, key: &NamespacedId) -> Vec<Topic> {
    let plugin = state.record(key).map(|record| &record.definition.plugin_id);
    let plugin = plugin.cloned().map(Subject::Plugin);
    let subjects = [Subject::Volume(key.clone())].into_iter().chain(plugin);
    subjects.map(Topic::Object).collect()
}

/// How a list is encoded.
struct ListEncoding {
    kept: Arc<KeptLists>,
    pretty: bool,
    is_compressed: bool,
}

impl ListEncoding {
    /// Encodes a page. With an expression, `page` is the rest of the list, and `limit` volumes of it are
    /// encoded for which the expression is true.
    fn encode(&self, page: VolumePage, expression: Option<&Filter>, limit: usize) -> Result {
        let page = match expression {
            Some(expression) => filtered(page, expression, limit)?,
            None => page,
        };
        let reply = if self.pretty {
            let stubs: Vec<VolumeStub> = page.volumes.iter().map(volume_stub).collect();
            Reply::json(&stubs, true)?
        } else {
            self.kept.reply(&page.volumes, self.is_compressed)?
        };
        let next = page.next.as_ref().map(ToString::to_string);
        Ok(reply.with_next_token(next))
    }
}

fn filtered(rest: VolumePage, expression: &Filter, limit: usize) -> Result<VolumePage> {
    let mut page = VolumePage::default();
    for view in rest.volumes {
        if !is_listed(expression, &filter_item(&view))? {
            continue;
        }
        if limit > 0 && page.volumes.len() == limit {
            page.next = Some(VolumeToken::new(view.record.key().clone()));
            break;
        }
        page.volumes.push(view);
    }
    Ok(page)
}

/// Returns what an expression tests of a volume: the fields of its document, as in Nomad, and those that only a
/// list has.
fn filter_item(view: &VolumeView) -> Map<String, Value> {
    let document = volume_document(view);
    let mut item = fields(&document);
    let own = [
        ("CurrentReaders", document.read_allocs.len().into()),
        ("CurrentWriters", document.write_allocs.len().into()),
        ("NodeExpansionPending", document.node_expansion_pending.into()),
    ];
    item.extend(own.map(|(name, value): (&str, Value)| (name.to_owned(), value)));
    item
}

pub(super) async fn read(request: &IncomingRequest, id: &str) -> Result {
    let wait = request.parameters.wait()?;
    let key = key(&request.parameters, id);
    let topics = |state: &State| volume_topics(state, &key);
    wait_for_index(request, wait, topics, State::volumes_index).await?;
    let (view, index) =
        request.services.cell.read(|state| (volume(state, &key), state.volumes_index()));
    let view = view.ok_or(ServerError::NoVolumeToRead)?;
    let document = VolumeDocument {
        reports_health: reports_health(request, &view),
        reports_stats: reports_stats(request, &view),
        kept_files: kept_files(request, &view).await,
        ..volume_document(&view)
    };
    Ok(Reply::json(&document, request.pretty)?.with_index(index))
}

/// The files that were written beside the volume.
async fn kept_files(request: &IncomingRequest, view: &VolumeView) -> Vec<KeptFilesDocument> {
    let Some(volume) = view.record.remote_volume() else {
        return vec![];
    };
    let kept = request.services.claims.kept_files(&volume).await;
    let document = |(node, path): (NodeId, PathBuf)| KeptFilesDocument {
        node_id: node.to_string(),
        path: path.to_string_lossy().into_owned(),
    };
    kept.into_iter().map(document).collect()
}

/// Returns whether the volume's plugin reports the health of volumes.
fn reports_health(request: &IncomingRequest, view: &VolumeView) -> bool {
    let id = &view.record.definition.plugin_id;
    let found = request.services.cell.read(|state| plugin(state, id));
    found.is_some_and(|found| {
        let controllers = found.plugin.controllers.values();
        let mut controllers = controllers.filter_map(|one| one.controller.as_ref());
        let nodes = found.plugin.nodes.values();
        let mut nodes = nodes.filter_map(|one| one.node.as_ref());
        controllers.any(|info| info.capabilities.get_volume_health)
            || nodes.any(|info| info.capabilities.get_volume_health)
    })
}

/// The health of a volume, as its plugin reports it now.
pub(super) async fn read_health(request: &IncomingRequest, id: &str) -> Result {
    let key = key(&request.parameters, id);
    let report = request.services.volumes.health(key).await?;
    Reply::json(&volume_health_to_wire(&report), request.pretty)
}

/// Returns whether the volume's plugin reports the statistics of published volumes.
fn reports_stats(request: &IncomingRequest, view: &VolumeView) -> bool {
    let plugin = &view.record.definition.plugin_id;
    request.services.claims.reports_stats(plugin)
}

/// Returns the newest events of a volume, in order. A volume that does not exist any more may have some.
pub(super) async fn read_history(request: &IncomingRequest, id: &str) -> Result {
    let namespace = request.parameters.namespace_or_default();
    let key = NamespacedId::new(namespace, VolumeId::new(id));
    let limit = match request.parameters.per_page()? {
        0 => DEFAULT_EVENTS,
        given => given.min(MAX_EVENTS),
    };
    let _permit = request.long_list().await?;
    let events = volume_history(&request.services.cell, &key, limit).await;
    let events = events.map_err(CommitError::from)?;
    let exists = request.services.cell.read(|state| state.record(&key).is_some());
    if events.is_empty() && !exists {
        return Err(ServerError::NoVolumeToRead);
    }
    let documents: Vec<_> = events.iter().map(event_to_wire).collect();
    Reply::json(&documents, request.pretty)
}

fn event_to_wire((index, event): &(u64, Event)) -> VolumeEventDocument {
    let name = match &event.kind {
        EventKind::Claim { event, .. } => event.name(),
        kind => kind.name(),
    };
    VolumeEventDocument {
        event: name.to_owned(),
        index: *index,
        text: event_text(&event.kind),
        time: event.at,
    }
}

/// How much a volume has of bytes and inodes on the nodes where it is published, as its plugin reports it now.
pub(super) async fn read_stats(request: &IncomingRequest, id: &str) -> Result {
    let key = key(&request.parameters, id);
    let report = request.services.claims.volume_stats(&key).await?;
    Reply::json(&stats_to_wire(&report), request.pretty)
}

pub(super) async fn register(request: &IncomingRequest) -> Result {
    let volumes = read_submissions(request)?;
    let at = request.parameters.cas()?;
    if at.is_some() && volumes.len() > 1 {
        return Err(RequestError::CasOfSeveral.into());
    }
    let outcome = request.services.volumes.register_at(volumes, at).await?;
    write_response(request, &outcome)
}

pub(super) async fn create(request: &IncomingRequest) -> Result {
    if request.parameters.text("cas").is_some() {
        return Err(RequestError::CasOfCreate.into());
    }
    let volumes = read_submissions(request)?;
    let outcome = request.services.volumes.create(volumes).await?;
    write_response(request, &outcome)
}

/// Changes mutable parameters. The response has all that are in force.
pub(super) async fn modify(request: &IncomingRequest, id: &str) -> Result {
    let body: ModifyRequest = request.document()?;
    let key = key(&request.parameters, id);
    let mut parameters = BTreeMap::new();
    for (name, value) in body.mutable_parameters {
        let value = value.ok_or_else(|| {
            RequestError::Body(format!("MutableParameters: `{}` has no value", one_line(&name)))
        })?;
        parameters.insert(name, value);
    }
    let modified = request.services.volumes.modify(key, parameters).await?;
    let document = ModifyResponse { mutable_parameters: modified.parameters };
    Ok(Reply::json(&document, request.pretty)?.with_index(modified.index))
}

pub(super) async fn deregister(request: &IncomingRequest, id: &str) -> Result {
    let force = request.parameters.force()?;
    let at = request.parameters.cas()?;
    let key = key(&request.parameters, id);
    let volumes = &request.services.volumes;
    let index = volumes.deregister_at(key, force, at).await?;
    Ok(Reply::empty().with_index(index))
}

/// Deregisters all volumes that the request names (`id`, repeatable) or none.
pub(super) async fn deregister_all(request: &IncomingRequest) -> Result {
    let force = request.parameters.force()?;
    let ids = request.parameters.all("id").filter(|id| !id.is_empty());
    let keys = ids.map(|id| key(&request.parameters, id)).collect();
    let index = request.services.volumes.deregister_all(keys, force).await?;
    Ok(Reply::empty().with_index(index))
}

pub(super) async fn delete(request: &IncomingRequest, id: &str) -> Result {
    let key = key(&request.parameters, id);
    let at = request.parameters.cas()?;
    let secrets = request.secrets();
    let volumes = &request.services.volumes;
    let index = volumes.delete_at(key, secrets, at).await?;
    Ok(Reply::empty().with_index(index))
}

/// Detaches the volume from a node: what ended allocations have there is undone (W16).
pub(super) async fn detach(request: &IncomingRequest, id: &str) -> Result {
    let Some(node) = request.parameters.text("node") else {
        return Err(RequestError::DetachWithoutNode.into());
    };
    let key = key(&request.parameters, id);
    if request.services.cell.read(|state| volume(state, &key)).is_none() {
        return Err(ServerError::NoSuchVolume(key));
    }
    claims::detach(request, key, node).await
}

fn key(parameters: &Parameters, id: &str) -> NamespacedId {
    NamespacedId::new(parameters.namespace_or_default(), VolumeId::new(id))
}

fn read_submissions(request: &IncomingRequest) -> Result<Vec<VolumeSubmission>> {
    let document: WriteRequest = request.document()?;
    let fallback = request.parameters.namespace();
    let fallback = fallback.unwrap_or_else(|| {
        if document.namespace.is_empty() {
            Namespace::default()
        } else {
            Namespace::new(&document.namespace)
        }
    });
    let share = request.parameters.share()?;
    let volumes = document.volumes.iter().map(|volume| {
        let (mut request, problems) = request_from_wire(volume, &fallback);
        request.share = share;
        VolumeSubmission { request, problems }
    });
    let volumes: Vec<_> = volumes.collect();
    for volume in &volumes {
        request.require(&volume.request.key().namespace, WRITE_VOLUME)?;
    }
    Ok(volumes)
}

fn write_response(request: &IncomingRequest, outcome: &VolumeWriteResult) -> Result {
    let response = WriteResponse {
        index: outcome.index,
        known_leader: true,
        last_contact: 0,
        next_token: String::new(),
        volumes: outcome.volumes.iter().map(volume_document).collect(),
        warnings: outcome.warnings.join("\n"),
    };
    Ok(Reply::json(&response, request.pretty)?.with_index(outcome.index))
}
