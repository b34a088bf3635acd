//! Attaching volumes to the nodes that share a directory (ControllerPublishVolume).
//!
//! The file of an attachment decides (`shared::attachment_files`). The content of a volume is made before its first
//! attachment, so nodes never make it. As at a network storage, a volume can be detached while it is staged, and the
//! controller does not know which nodes exist.

use std::sync::Arc;

use super::volume::{ContentMade, Volume};
use crate::catalog::Attachment;
use crate::error::{
    ConflictingUse, ControllerPublishError, ControllerUnpublishError, FailedPrecondition,
    HostError, InvalidArgument, ResourceExhausted,
};
use crate::plugin::Plugin;
use crate::shared::{AttachDecision, Elsewhere, SharedDirectory, decide_attach, is_node_name};

/// Implements ControllerPublishVolume.
pub(super) fn attach(
    plugin: &Arc<Plugin>,
    shared: &SharedDirectory,
    id: String,
    node: &str,
    requested: &Attachment,
) -> Result<(), ControllerPublishError> {
    if !is_node_name(node) {
        return Err(InvalidArgument(format!(
            "node ID {node:?} cannot be the name of a file, and no node of this plugin has it; use the ID that NodeGetInfo returns"
        ))
        .into());
    }
    let mut volume = Volume::open::<ControllerPublishError>(plugin, id)?;
    if let Some(incompatibility) = volume.record.content.incompatibility(&requested.capability) {
        return Err(InvalidArgument(incompatibility).into());
    }
    let attachments = shared.attachments.of(volume.id());
    let attachments = attachments.map_err(HostError::io("list the attachments of the volume"))?;
    match decide_attach(node, requested, volume.backing(), &attachments) {
        AttachDecision::Attach => {}
        AttachDecision::IsAttached => return Ok(()),
        AttachDecision::Differs => {
            let path = format!("node `{node}`");
            return Err(ConflictingUse { id: volume.record.id, path }.into());
        }
        AttachDecision::Elsewhere(other, why) => {
            return Err(attached_elsewhere(volume.id(), &other, why).into());
        }
    }
    match volume.make_content::<ControllerPublishError>()? {
        ContentMade::Now => volume.save()?,
        ContentMade::Before => plugin.catalog.publish(&volume.record).map_err(HostError::from)?,
    }
    let limit = plugin.profile.attach_limit;
    let limit_of_node = limit.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let put = shared.attachments.put(volume.id(), node, requested, limit_of_node);
    if !put.map_err(HostError::io("write the attachment of the volume"))? {
        let limit = limit.unwrap_or_default();
        return Err(ResourceExhausted(format!(
            "node `{node}` has reached its limit of attached volumes ({limit}); detach one first"
        ))
        .into());
    }
    tracing::info!(volume.external_id = %volume.id(), node.id = %node, "attached a volume");
    Ok(())
}

fn attached_elsewhere(id: &str, node: &str, why: Elsewhere) -> FailedPrecondition {
    let why = match why {
        Elsewhere::OtherMode => "with an access mode that allows one node",
        Elsewhere::RequestedMode => "and the requested access mode allows one node",
        Elsewhere::Backing => "and only a directory can be attached to several nodes",
    };
    FailedPrecondition(format!(
        "volume `{id}` is attached to node `{node}`, {why}; detach it from that node first"
    ))
}

/// Implements ControllerUnpublishVolume, from every node if none is named.
pub(super) fn detach(
    plugin: &Arc<Plugin>,
    shared: &SharedDirectory,
    id: String,
    node: &str,
) -> Result<(), ControllerUnpublishError> {
    let volume = match Volume::open::<ControllerUnpublishError>(plugin, id) {
        Err(ControllerUnpublishError::VolumeNotFound(_)) => return Ok(()),
        opened => opened?,
    };
    let nodes = if node.is_empty() {
        plugin.attached_nodes(&volume.record)?
    } else {
        vec![node.to_owned()]
    };
    for node in nodes {
        let removed = shared.attachments.remove(volume.id(), &node);
        removed.map_err(HostError::io("remove the attachment of the volume"))?;
        tracing::info!(volume.external_id = %volume.id(), node.id = %node, "detached a volume");
    }
    Ok(())
}
