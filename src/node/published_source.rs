//! Whether what was mounted for a volume is still there.
//!
//! The record beside a mount point says what was there after the last successful call. What is found to be as good
//! ([`super::source_comparison`]) takes its place in the record.

use std::path::Path;

use super::source_comparison::{Comparison, compare, lost};
use super::volume_files::{Durability, record_source, recorded_at};
use super::volume_steps::run_on_files;
use nomad_csi_ports::{Mounter, SourceIdentity};

/// Returns what is at the staging or target path of a volume.
///
/// # Errors
/// Why it is not what was mounted there.
pub(super) async fn check_source(
    mounter: &dyn Mounter,
    mount: &Path,
) -> Result<SourceIdentity, String> {
    let path = mount.to_owned();
    let recorded = run_on_files(move || recorded_at(&path)).await;
    let recorded = recorded.map_err(|error| error.to_string())?;
    let found = mounter.identify(mount).await;
    let found = found.map_err(|error| lost(mount, &error.source.to_string()))?;
    let recorded = recorded.map(|record| record.source);
    match compare(recorded.as_ref().map(Option::as_ref), found.as_ref()) {
        Comparison::Same(found) => Ok(found.clone()),
        Comparison::Replaced(found) => {
            let (path, source) = (mount.to_owned(), found.clone());
            // It may be the record of a staging, which outlives a power failure.
            let durability = Durability::PowerFailure;
            let written = run_on_files(move || record_source(&path, source, durability)).await;
            written.map_err(|error| error.to_string())?;
            Ok(found.clone())
        }
        Comparison::Lost(reason) => Err(lost(mount, reason)),
    }
}
