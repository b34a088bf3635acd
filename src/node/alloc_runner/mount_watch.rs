//! Notices that mounts of volumes vanish.
//!
//! The mount table is compared with the records beside mount points when the agent starts, and whenever the table
//! changes. Changes that come together are looked at once. Every record is compared: a mount that came and went between
//! two looks is missed by a comparison of two tables. A record that cannot be read is named in the log, and hides no other. A volume that is mounted or unmounted in order has no record, or
//! one that no claim relies on.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;

use super::super::source_comparison::loss_in_table;
use super::super::volume_files::{LeftoverMount, VolumeFile};
use super::super::volume_manager::{MountDirectories, scan_of_all_plugins};
use super::super::volume_steps::run_on_files;
use nomad_csi_model::retry::RetryPolicy;
use nomad_csi_ports::{HostFileError, LostMount, MountEntry, MountError, Mounter};

/// The pause between two looks, in which changes gather.
const PAUSE: Duration = Duration::from_millis(100);
/// The pauses after failures.
const RETRY: RetryPolicy =
    RetryPolicy { initial: Duration::from_secs(1), max: Duration::from_secs(30) };

/// A mount of a volume that is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Loss {
    /// The volume and the task of the mount.
    pub(super) lost: LostMount,
    /// The reason.
    pub(super) reason: String,
}

/// The mounts that are gone, by their paths.
pub(super) type Losses = Arc<BTreeMap<PathBuf, Loss>>;

/// Follows the mounts below the directory of all plugins. Never returns.
pub(super) async fn watch_mounts(
    mounter: Arc<dyn Mounter>,
    directories: MountDirectories,
    losses: watch::Sender<Losses>,
) {
    let mut failures = 0;
    loop {
        let followed = follow(&*mounter, &directories, &losses, &mut failures).await;
        if let Err(error) = followed {
            tracing::warn!(%error, "cannot compare the mounts of volumes with their records");
        }
        sleep(RETRY.delay(failures, 1.0)).await;
        failures = failures.saturating_add(1);
    }
}

/// Why the mounts cannot be followed.
#[derive(Debug, thiserror::Error)]
enum WatchError {
    #[error("{}: {}", .0, .0.source)]
    Mounts(#[from] MountError),
    #[error("{0}")]
    Records(#[from] HostFileError),
}

async fn follow(
    mounter: &dyn Mounter,
    directories: &MountDirectories,
    losses: &watch::Sender<Losses>,
    failures: &mut u32,
) -> Result<(), WatchError> {
    let mut changes = mounter.follow().await?;
    let mut unreadable = vec![];
    loop {
        let mounts = topmost(changes.next().await?, &directories.base);
        let all = directories.clone();
        let scan = run_on_files(move || Ok(scan_of_all_plugins(&all))).await?;
        if scan.unreadable != unreadable {
            for error in &scan.unreadable {
                tracing::warn!(%error, "cannot notice the loss of a mount whose record cannot be read; \
                    release the volume, or restore the record");
            }
            unreadable = scan.unreadable;
        }
        let lost = find_losses(scan.found, &mounts);
        losses.send_if_modified(|losses| {
            let is_new = **losses != lost;
            if is_new {
                *losses = Arc::new(lost);
            }
            is_new
        });
        *failures = 0;
        sleep(PAUSE).await;
    }
}

/// Returns the topmost mount of each mount point below a directory.
fn topmost(table: Vec<MountEntry>, base: &Path) -> BTreeMap<PathBuf, MountEntry> {
    let below = table.into_iter().filter(|entry| entry.target.starts_with(base));
    below.map(|entry| (entry.target.clone(), entry)).collect()
}

/// Returns those whose record names a mount that is not there.
fn find_losses(
    recorded: Vec<LeftoverMount>,
    mounts: &BTreeMap<PathBuf, MountEntry>,
) -> BTreeMap<PathBuf, Loss> {
    let lost = recorded.into_iter().filter_map(|found| {
        let path = found.mount().to_owned();
        let loss = loss_of(&path, found.record().clone(), mounts.get(&path))?;
        Some((path, loss))
    });
    lost.collect()
}

fn loss_of(path: &Path, record: VolumeFile, found: Option<&MountEntry>) -> Option<Loss> {
    let reason = loss_in_table(record.source.as_ref()?, path, found)?;
    let lost = match record.target {
        Some((alloc, alias)) => LostMount::Target { alloc, alias },
        None => LostMount::Staging(record.volume),
    };
    Some(Loss { lost, reason })
}
