//! Attaching volumes to the node: a permission on record, with a limit (`csi-spec` 5.4, 5.5).
//!
//! There is one node, the plugin's own. What is not attached is neither staged nor published, what
//! is attached read-only cannot be written there, and what is attached is not deleted.

use std::sync::Arc;

use super::catalog::{Attachment, Backing, PlaceRecord};
use super::error::{
    AttachVolumeError, DetachVolumeError, Exhausted, InUse, Invalid, Machine, NoNode, OtherUse,
};
use super::plugin::Plugin;
use super::usage::Usage;
use super::volume::{At, Volume};

/// ControllerPublishVolume.
pub(super) async fn attach(
    plugin: Arc<Plugin>,
    id: String,
    node: String,
    usage: Usage,
    read_only: bool,
) -> Result<(), AttachVolumeError> {
    let mut volume = Volume::open::<AttachVolumeError>(&plugin, id).await?;
    if node != plugin.node_id {
        return Err(NoNode {
            asked: node,
            own: plugin.node_id.clone(),
        }
        .into());
    }
    if let Some(misfit) = usage.misfit(&volume.record.content) {
        return Err(Invalid(misfit).into());
    }
    let wanted = Attachment { usage, read_only };
    match &volume.record.attachment {
        Some(attached) if *attached == wanted => return Ok(()),
        Some(_) => {
            return Err(OtherUse {
                id: volume.record.id,
                path: format!("node {node}"),
            }
            .into());
        }
        None => {}
    }
    volume.record.attachment = Some(wanted);
    let (record, limit) = (volume.record.clone(), plugin.play.attach_limit);
    let is_within = plugin.blocking(move |plugin| {
        let limit = limit.map_or(u64::MAX, u64::from);
        Ok::<_, Machine>(plugin.catalog.put_attached(&record, limit)?)
    });
    if !is_within.await? {
        let limit = plugin.play.attach_limit.unwrap_or_default();
        return Err(Exhausted(format!(
            "node {node} has as many volumes attached as it can have ({limit}); detach one first"
        ))
        .into());
    }
    tracing::info!(volume.external_id = %volume.id(), node.id = %node, "attached a volume");
    Ok(())
}

/// ControllerUnpublishVolume. A volume or node that is not there is detached.
pub(super) async fn detach(
    plugin: Arc<Plugin>,
    id: String,
    node: String,
) -> Result<(), DetachVolumeError> {
    if !node.is_empty() && node != plugin.node_id {
        return Ok(());
    }
    let mut volume = match Volume::open::<DetachVolumeError>(&plugin, id).await {
        Err(DetachVolumeError::NoVolume(_)) => return Ok(()),
        opened => opened?,
    };
    if volume.record.attachment.is_none() {
        return Ok(());
    }
    for (path, place) in &volume.places {
        let is_there = matches!(volume.at(path).await?, At::Volume(_))
            || volume.is_block_staged(place).await?;
        if is_there {
            return Err(InUse {
                id: volume.record.id.clone(),
                path: path.into(),
            }
            .into());
        }
    }
    volume.record.attachment = None;
    volume.save().await?;
    tracing::info!(volume.external_id = %volume.id(), "detached a volume");
    Ok(())
}

impl Volume {
    /// Whether a block volume's staging is in force: its device is there.
    pub(super) async fn is_block_staged(&self, place: &PlaceRecord) -> Result<bool, Machine> {
        let is_staging = matches!(place, PlaceRecord::Staging { .. });
        let is_block = self.backing() == Backing::Block;
        Ok(is_staging && is_block && !self.devices().await?.is_empty())
    }
}
