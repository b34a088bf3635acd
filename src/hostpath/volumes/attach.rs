//! Attaching volumes to the node: a record with a limit (ControllerPublishVolume).
//!
//! Without a shared directory (`attach_shared`), the plugin serves one node. A volume that is not attached can be neither staged nor published. A
//! volume that is attached read-only cannot be written there. An attached volume cannot be deleted.

use std::sync::Arc;

use super::attach_shared;
use super::volume::Volume;
use crate::catalog::{Attachment, CatalogLimits};
use crate::error::{
    ConflictingUse, ControllerPublishError, ControllerUnpublishError, HostError, InUse,
    InvalidArgument, NodeNotFound, ResourceExhausted,
};
use crate::plugin::Plugin;
use crate::volume_capability::VolumeCapability;

/// Implements ControllerPublishVolume.
pub(crate) fn attach(
    plugin: &Arc<Plugin>,
    id: String,
    node: String,
    capability: VolumeCapability,
    read_only: bool,
) -> Result<(), ControllerPublishError> {
    if let Some(shared) = &plugin.shared {
        let requested = Attachment { capability, read_only };
        return attach_shared::attach(plugin, shared, id, &node, &requested);
    }
    let mut volume = Volume::open::<ControllerPublishError>(plugin, id)?;
    if node != plugin.node_id {
        return Err(NodeNotFound { requested: node, own: plugin.node_id.clone() }.into());
    }
    if let Some(incompatibility) = volume.record.content.incompatibility(&capability) {
        return Err(InvalidArgument(incompatibility).into());
    }
    let requested = Attachment { capability, read_only };
    match &volume.record.attachment {
        Some(attached) if *attached == requested => return Ok(()),
        Some(_) => {
            return Err(
                ConflictingUse { id: volume.record.id, path: format!("node `{node}`") }.into()
            );
        }
        None => {}
    }
    volume.record.attachment = Some(requested);
    let limits = CatalogLimits {
        attached: plugin.profile.attach_limit.map(u64::from),
        ..CatalogLimits::default()
    };
    let is_within = plugin.catalog.put_volume_within(&volume.record, limits);
    if !is_within.map_err(HostError::from)? {
        let limit = plugin.profile.attach_limit.unwrap_or_default();
        return Err(ResourceExhausted(format!(
            "node `{node}` has reached its limit of attached volumes ({limit}); detach one first"
        ))
        .into());
    }
    tracing::info!(volume.external_id = %volume.id(), node.id = %node, "attached a volume");
    Ok(())
}

/// Implements ControllerUnpublishVolume. An unknown volume or node counts as detached.
pub(crate) fn detach(
    plugin: &Arc<Plugin>,
    id: String,
    node: &str,
) -> Result<(), ControllerUnpublishError> {
    if let Some(shared) = &plugin.shared {
        return attach_shared::detach(plugin, shared, id, node);
    }
    if !node.is_empty() && node != plugin.node_id {
        return Ok(());
    }
    let mut volume = match Volume::open::<ControllerUnpublishError>(plugin, id) {
        Err(ControllerUnpublishError::VolumeNotFound(_)) => return Ok(()),
        opened => opened?,
    };
    if volume.record.attachment.is_none() {
        return Ok(());
    }
    for (path, path_record) in &volume.paths {
        let is_there =
            volume.mount_state(path)?.is_of_plugin() || volume.is_block_staged(path_record)?;
        if is_there {
            return Err(InUse { id: volume.record.id.clone(), path: path.into() }.into());
        }
    }
    volume.record.attachment = None;
    volume.save()?;
    tracing::info!(volume.external_id = %volume.id(), "detached a volume");
    Ok(())
}
