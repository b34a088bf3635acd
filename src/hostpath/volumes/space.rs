//! The space that can still be provisioned.

use crate::hostpath::error::{HostError, ResourceExhausted};
use crate::hostpath::plugin::Plugin;

/// Checks that `more` bytes can be provisioned. Provisioned space counts as used, even if it is not
/// written yet. Files are measured only if space is scarce.
pub(in crate::hostpath) fn ensure_space<E>(plugin: &Plugin, more: u64) -> Result<(), E>
where
    E: From<HostError> + From<ResourceExhausted>,
{
    if plugin.profile.overcommit {
        return Ok(());
    }
    let space = plugin.directories.space();
    let free = space
        .map_err(HostError::io("measure the file system"))?
        .available_bytes;
    let provisioned = plugin
        .catalog
        .provisioned_bytes()
        .map_err(HostError::from)?;
    if free
        .checked_sub(provisioned)
        .is_some_and(|left| left >= more)
    {
        return Ok(());
    }
    let left = available_space(plugin)?;
    if left >= more {
        return Ok(());
    }
    Err(ResourceExhausted(format!(
        "{more} more bytes do not fit: {left} are left on the plugin's file system; delete volumes or snapshots, request less, or allow overcommitment (--overcommit)"
    ))
    .into())
}

/// Returns the free space of the file system, less what is provisioned and not yet written.
pub(in crate::hostpath) fn available_space(plugin: &Plugin) -> Result<u64, HostError> {
    let measure = || {
        Ok((
            plugin.directories.space()?,
            plugin.images.allocated_bytes()?,
        ))
    };
    let (space, written) = measure().map_err(HostError::io("measure the file system"))?;
    let unwritten = plugin.catalog.provisioned_bytes()?.saturating_sub(written);
    Ok(if plugin.profile.overcommit {
        space.available_bytes
    } else {
        space.available_bytes.saturating_sub(unwritten)
    })
}
