//! Volumes: decode, call, encode (`nomad-http-api` 3.1 to 3.10).

use http::HeaderMap;
use serde::de::DeserializeOwned;

use super::blocking::hold;
use super::parameters::Parameters;
use super::reply::Reply;
use super::router::Asked;
use crate::model::{Namespace, NamespacedId, PluginId, Secrets, VolumeId};
use crate::server::error::{RequestError, ServerError};
use crate::server::volumes::{Submitted, WriteOutcome};
use crate::state::{State, VolumeFilter, VolumePage, VolumeToken, VolumeView, volume, volumes};
use crate::wire::{
    SECRETS, VolumeDocument, VolumeStub, WriteRequest, WriteResponse, decode, parse_secrets_header,
    request_from_wire, stub_to_wire, volume_to_wire,
};

/// Lists of more volumes are made into documents away from the threads that serve.
const MANY: usize = 256;

type Result<T = Reply> = std::result::Result<T, ServerError>;

pub(super) async fn list(asked: &Asked) -> Result {
    let parameters = &asked.parameters;
    match parameters.get("type") {
        None | Some("host") => return Reply::json(&[(); 0], asked.pretty),
        Some("csi") => {}
        Some(_) => return Err(ServerError::UnknownResource),
    }
    let limit = parameters.per_page()?;
    if parameters.text("filter").is_some() {
        return Err(RequestError::Filter.into());
    }
    let start = parameters.text("next_token").map(VolumeToken::parse);
    let start = start.transpose().map_err(|_| RequestError::NextToken)?;
    let wait = parameters.wait()?;
    hold(&asked.services, wait, State::volumes_index).await;
    let filter = VolumeFilter {
        namespace: parameters.namespace_or_default(),
        prefix: parameters.prefix().to_owned(),
        plugin: parameters.text("plugin_id").map(PluginId::new),
    };
    let on_a_node = parameters.text("node_id").is_some();
    let (page, index) = asked.services.cell.read(|state| {
        let page = if on_a_node {
            // Nothing is claimed, so no node has any.
            VolumePage::default()
        } else {
            volumes(state, &filter, start.as_ref(), limit)
        };
        (page, state.volumes_index())
    });
    let next = page.next.as_ref().map(ToString::to_string);
    let reply = encode_list(page, asked.pretty).await?;
    Ok(reply.at(index).before(next))
}

async fn encode_list(page: VolumePage, pretty: bool) -> Result {
    let is_short = page.volumes.len() < MANY;
    let encode = move || {
        let stubs: Vec<VolumeStub> = page
            .volumes
            .iter()
            .map(|view| stub_to_wire(&view.volume()))
            .collect();
        Reply::json(&stubs, pretty)
    };
    if is_short {
        return encode();
    }
    let task = tokio::task::spawn_blocking(encode).await;
    task.unwrap_or_else(|_| Err(ServerError::Defect("a list could not be encoded".into())))
}

pub(super) async fn read(asked: &Asked, id: &str) -> Result {
    let wait = asked.parameters.wait()?;
    hold(&asked.services, wait, State::volumes_index).await;
    let key = key(&asked.parameters, id);
    let (view, index) = asked
        .services
        .cell
        .read(|state| (volume(state, &key), state.volumes_index()));
    let view = view.ok_or(ServerError::NoVolumeToRead)?;
    Ok(Reply::json(&shown(&view), asked.pretty)?.at(index))
}

pub(super) async fn register(asked: &Asked) -> Result {
    let volumes = submitted(asked)?;
    let outcome = asked.services.volumes.register(volumes).await?;
    written(asked, &outcome)
}

pub(super) async fn create(asked: &Asked) -> Result {
    let volumes = submitted(asked)?;
    let outcome = asked.services.volumes.create(volumes).await?;
    written(asked, &outcome)
}

pub(super) async fn deregister(asked: &Asked, id: &str) -> Result {
    let force = asked.parameters.force()?;
    let key = key(&asked.parameters, id);
    let index = asked.services.volumes.deregister(key, force).await?;
    Ok(Reply::empty().at(index))
}

pub(super) async fn delete(asked: &Asked, id: &str) -> Result {
    let key = key(&asked.parameters, id);
    let secrets = secrets_of(&asked.headers);
    let index = asked.services.volumes.delete(key, secrets).await?;
    Ok(Reply::empty().at(index))
}

/// Nothing is claimed, so nothing is attached to any node.
pub(super) fn detach(asked: &Asked, id: &str) -> Result {
    if asked.parameters.text("node").is_none() {
        return Err(RequestError::DetachWithoutNode.into());
    }
    let key = key(&asked.parameters, id);
    let view = asked.services.cell.read(|state| volume(state, &key));
    match view {
        None => Err(ServerError::NoSuchVolume(key)),
        Some(view) => Ok(Reply::empty().at(view.record.modify_index)),
    }
}

/// A volume for an answer, with what only this agent says of it.
fn shown(view: &VolumeView) -> VolumeDocument {
    VolumeDocument {
        node_expansion_pending: view.record.node_expansion_pending,
        ..volume_to_wire(&view.volume())
    }
}

/// The secrets of a request that has no body for them (`nomad-http-api` 2.4).
pub(super) fn secrets_of(headers: &HeaderMap) -> Secrets {
    let header = headers.get(SECRETS);
    let header = header.map(|value| String::from_utf8_lossy(value.as_bytes()));
    header.map_or_else(Secrets::default, |text| parse_secrets_header(&text))
}

/// A body's document.
pub(super) fn document<T: DeserializeOwned>(body: &[u8]) -> Result<T> {
    if body.is_empty() {
        return Err(RequestError::EmptyBody.into());
    }
    let document = decode(body);
    document.map_err(|error| RequestError::Body(error.to_string()).into())
}

fn key(parameters: &Parameters, id: &str) -> NamespacedId {
    NamespacedId::new(parameters.namespace_or_default(), VolumeId::new(id))
}

fn submitted(asked: &Asked) -> Result<Vec<Submitted>> {
    let document: WriteRequest = document(&asked.body)?;
    let fallback = asked.parameters.namespace();
    let fallback = fallback.unwrap_or_else(|| {
        if document.namespace.is_empty() {
            Namespace::default()
        } else {
            Namespace::new(&document.namespace)
        }
    });
    let volumes = document.volumes.iter().map(|volume| {
        let (request, problems) = request_from_wire(volume, &fallback);
        Submitted { request, problems }
    });
    Ok(volumes.collect())
}

fn written(asked: &Asked, outcome: &WriteOutcome) -> Result {
    let response = WriteResponse {
        index: outcome.index,
        known_leader: true,
        last_contact: 0,
        next_token: String::new(),
        volumes: outcome.volumes.iter().map(shown).collect(),
        warnings: outcome.warnings.join("\n"),
    };
    Ok(Reply::json(&response, asked.pretty)?.at(outcome.index))
}
