//! How a volume is, looked at where it lies: for an orchestrator's VolumeCondition, and before it is
//! used.

use super::abilities::Ability;
use super::catalog::{Backing, VolumeRecord};
use super::error::Machine;
use super::plugin::Plugin;
use crate::csi::proto;

/// What is the matter with a volume's data, if anything is. Blocking.
pub(super) fn trouble(plugin: &Plugin, record: &VolumeRecord) -> Result<Option<String>, Machine> {
    let (id, content) = (&record.id, record.content);
    let data = plugin.data_of(content.backing);
    let find = Machine::files("find the volume's data");
    let gone = || {
        format!(
            "the data of volume {id} is gone: {} was removed by something else than this plugin",
            data.path_of(id).display()
        )
    };
    if content.backing == Backing::Directory {
        let is_there = data.exists(id).map_err(find)?;
        return Ok((!is_there).then(gone));
    }
    Ok(match data.file(id).map_err(find)? {
        None => Some(gone()),
        Some(file) if file.bytes < content.bytes => Some(format!(
            "the data of volume {id} was cut off by something else than this plugin: {} has {} of {} bytes",
            data.path_of(id).display(),
            file.bytes,
            content.bytes
        )),
        Some(_) => None,
    })
}

/// The condition that the controller tells, if it tells any. Blocking.
pub(super) fn of(
    plugin: &Plugin,
    record: &VolumeRecord,
) -> Result<Option<proto::VolumeCondition>, Machine> {
    if !plugin.has(Ability::Condition) {
        return Ok(None);
    }
    Ok(Some(message(trouble(plugin, record)?)))
}

/// Trouble or none, as CSI tells it.
pub(super) fn message(trouble: Option<String>) -> proto::VolumeCondition {
    proto::VolumeCondition {
        abnormal: trouble.is_some(),
        message: trouble.unwrap_or_else(|| "the volume is well".to_owned()),
    }
}
