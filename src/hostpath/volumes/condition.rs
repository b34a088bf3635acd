//! Checks whether the data of a volume is intact: for CSI's VolumeCondition, and before use.

use crate::csi::proto;
use crate::hostpath::catalog::{Backing, VolumeRecord};
use crate::hostpath::error::HostError;
use crate::hostpath::plugin::Plugin;
use crate::hostpath::profile::PluginCapability;

/// Returns what is wrong with a volume's data, or `None`. A blank volume has no data. Blocks.
pub(in crate::hostpath) fn find_problem(
    plugin: &Plugin,
    record: &VolumeRecord,
) -> Result<Option<String>, HostError> {
    let (id, content) = (&record.id, record.content);
    if content.is_blank {
        return Ok(None);
    }
    let data = plugin.data_dir(content.backing);
    let find = HostError::io("check the volume's data");
    let gone = || {
        format!(
            "the data of volume `{id}` is missing: `{}` does not exist, and this plugin did not remove it",
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
            "the data of volume `{id}` is truncated: another program changed `{}`, which has {} of {} bytes",
            data.path_of(id).display(),
            file.bytes,
            content.bytes
        )),
        Some(_) => None,
    })
}

/// Returns the condition, if the plugin reports conditions. Blocks.
pub(in crate::hostpath) fn reported(
    plugin: &Plugin,
    record: &VolumeRecord,
) -> Result<Option<proto::VolumeCondition>, HostError> {
    if !plugin.has(PluginCapability::Condition) {
        return Ok(None);
    }
    Ok(Some(to_proto(find_problem(plugin, record)?)))
}

/// Builds CSI's message.
pub(in crate::hostpath) fn to_proto(problem: Option<String>) -> proto::VolumeCondition {
    proto::VolumeCondition {
        abnormal: problem.is_some(),
        message: problem.unwrap_or_else(|| "the volume is healthy".to_owned()),
    }
}
