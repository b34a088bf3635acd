//! The history of a volume, which only this agent has.

use super::reply::Reply;
use super::request::IncomingRequest;
use crate::cell::CommitError;
use crate::error::ServerError;
use crate::history::volume_history;
use nomad_csi_claims::state::{Event, EventKind, event_text};
use nomad_csi_model::{NamespacedId, VolumeId};
use nomad_csi_wire::VolumeEventDocument;

/// How many events are returned if the request does not say it, and at most.
const USUAL: usize = 1000;
const MOST: usize = 10_000;

/// The newest events of a volume, in order. A volume that does not exist any more may have some.
pub(super) async fn read(request: &IncomingRequest, id: &str) -> Result<Reply, ServerError> {
    let namespace = request.parameters.namespace_or_default();
    let key = NamespacedId::new(namespace, VolumeId::new(id));
    let most = match request.parameters.per_page()? {
        0 => USUAL,
        given => given.min(MOST),
    };
    let _place = request.long_list().await?;
    let events = volume_history(&request.services.cell, &key, most).await;
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
