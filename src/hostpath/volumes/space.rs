//! The space that can still be provisioned.
//!
//! Provisioned space counts as used, even if it is not written yet. The transaction that writes a
//! record compares the sum, so concurrent calls cannot provision the same space. Files are measured
//! only if space is scarce.

use crate::catalog::{CatalogError, CatalogLimits, CatalogVolume};
use crate::error::{HostError, ResourceExhausted};
use crate::plugin::Plugin;

/// Writes the record of a volume that has `more` bytes than before, if they can be provisioned.
pub(crate) fn provision<E>(plugin: &Plugin, record: &CatalogVolume, more: u64) -> Result<(), E>
where
    E: From<HostError> + From<ResourceExhausted>,
{
    within_space(plugin, more, |limits| plugin.catalog.put_volume_within(record, limits))
}

/// Checks that `more` bytes can be provisioned, before work that [`provision`] completes.
pub(crate) fn ensure_space<E>(plugin: &Plugin, more: u64) -> Result<(), E>
where
    E: From<HostError> + From<ResourceExhausted>,
{
    within_space(plugin, more, |limits| {
        let sum = plugin.catalog.provisioned_bytes()?.saturating_add(more);
        Ok(limits.provisioned_bytes.is_none_or(|limit| sum <= limit))
    })
}

/// Tries a change with the limit that the free space sets, then with the limit that the sizes of the
/// files allow.
fn within_space<E>(
    plugin: &Plugin,
    more: u64,
    attempt: impl Fn(CatalogLimits) -> Result<bool, CatalogError>,
) -> Result<(), E>
where
    E: From<HostError> + From<ResourceExhausted>,
{
    let within = |limit| {
        let limits = CatalogLimits { provisioned_bytes: limit, ..CatalogLimits::default() };
        attempt(limits).map_err(HostError::from)
    };
    if plugin.profile.overcommit {
        within(None)?;
        return Ok(());
    }
    let measure = HostError::io("measure the file system");
    let free = plugin.directories.space().map_err(measure)?.available_bytes;
    if within(Some(free))? {
        return Ok(());
    }
    let provisioned = plugin.catalog.provisioned_bytes();
    let provisioned = provisioned.map_err(HostError::from)?;
    let measure = HostError::io("measure the volumes' files");
    let written = plugin.images.allocated_bytes().map_err(measure)?;
    let limit = free.saturating_add(written.min(provisioned));
    if within(Some(limit))? {
        return Ok(());
    }
    let left = limit.saturating_sub(provisioned);
    Err(ResourceExhausted(format!(
        "{more} more bytes do not fit: {left} are left on the plugin's file system; delete volumes or snapshots, request less, or allow overcommitment (--overcommit)"
    ))
    .into())
}

/// Returns the free space of the file system, less what is provisioned and not yet written.
pub(crate) fn available_space(plugin: &Plugin) -> Result<u64, HostError> {
    let measure = || Ok((plugin.directories.space()?, plugin.images.allocated_bytes()?));
    let (space, written) = measure().map_err(HostError::io("measure the file system"))?;
    let unwritten = plugin.catalog.provisioned_bytes()?.saturating_sub(written);
    Ok(if plugin.profile.overcommit {
        space.available_bytes
    } else {
        space.available_bytes.saturating_sub(unwritten)
    })
}
