//! The endpoints of creations that did not end, which only this agent has.

use super::capabilities::LIST_VOLUMES;
use super::reply::Reply;
use super::request::IncomingRequest;
use crate::error::ServerError;
use crate::volumes::PendingCreation;
use nomad_csi_model::{NamespacedId, VolumeId};
use nomad_csi_wire::{CreationDocument, CreationStateDocument, GivenUpDocument};

type Result<T = Reply> = std::result::Result<T, ServerError>;

/// Lists the creations that did not end, in the form of a list of volumes.
pub(super) fn list(request: &IncomingRequest) -> Result {
    let scope = request.scope(LIST_VOLUMES)?;
    let volumes = &request.services.volumes;
    let (creations, index) = volumes.pending_creations(|volume| scope.contains(&volume.namespace));
    let documents: Vec<_> = creations.iter().map(to_wire).collect();
    Ok(Reply::json(&documents, request.pretty)?.with_index(index))
}

/// Gives up a creation. The response names what the provider may have.
pub(super) async fn give_up(request: &IncomingRequest, id: &str) -> Result {
    let namespace = request.parameters.namespace_or_default();
    let key = NamespacedId::new(namespace, VolumeId::new(id));
    let given_up = request.services.volumes.give_up_creation(key).await?;
    let document = GivenUpDocument {
        plugin_id: given_up.plugin.to_string(),
        provider_name: given_up.provider_name,
    };
    Ok(Reply::json(&document, request.pretty)?.with_index(given_up.index))
}

fn to_wire(creation: &PendingCreation) -> CreationDocument {
    let (record, attempts) = (&creation.record, &creation.attempts);
    let definition = &record.definition;
    CreationDocument {
        create_index: record.create_index,
        create_time: record.create_time,
        creation: CreationStateDocument {
            failed_attempts: attempts.failed,
            next_attempt: attempts.next_at.unwrap_or_default(),
            problem: attempts.problem.clone().unwrap_or_default(),
            provider_name: creation.provider_name.clone(),
            requests: record.earlier_creates.len() + 1,
        },
        id: definition.key.id.to_string(),
        modify_index: record.modify_index,
        modify_time: record.modify_time,
        name: definition.name.clone(),
        namespace: definition.key.namespace.to_string(),
        plugin_id: definition.plugin_id.to_string(),
        schedulable: false,
    }
}
