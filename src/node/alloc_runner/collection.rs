//! Removes the directories of allocations, with the output of their tasks.
//!
//! A directory stays while its allocation runs or is on the server's list, and as long as it is one of the newest
//! [`MAX_ENDED`] that have ended and that the server remembers. Every other one is removed when none of its tasks
//! runs, unless something is mounted below it.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::stream::{StreamExt as _, iter};

use super::super::alloc_directory::AllocDirectory;
use super::deps::AllocRunnerDeps;
use super::leftovers::has_ended;
use nomad_csi_model::private::remove_tree;
use nomad_csi_ports::run_blocking;

/// How many ended allocations keep their directory, as on a client of Nomad (`gc_max_allocs`).
pub(super) const MAX_ENDED: usize = 50;
/// How many directories are removed at the same time.
const AT_ONCE: usize = 4;

/// Returns the directories to remove. `ended` has those of ended allocations, the newest first.
pub(super) fn removable(
    found: &BTreeSet<AllocDirectory>,
    running: &BTreeSet<AllocDirectory>,
    ended: &[AllocDirectory],
) -> Vec<AllocDirectory> {
    let kept: BTreeSet<_> = ended.iter().take(MAX_ENDED).collect();
    let is_needless = |one: &&AllocDirectory| !running.contains(*one) && !kept.contains(*one);
    found.iter().filter(is_needless).cloned().collect()
}

/// Stops the tasks of directories that still run, and removes the directories. One that cannot be removed stays until the next
/// start of the agent.
pub(super) async fn remove_directories(
    deps: Arc<AllocRunnerDeps>,
    directories: Vec<AllocDirectory>,
) {
    let removals = iter(directories).for_each_concurrent(AT_ONCE, async |directory| {
        if !has_ended(&deps, &directory).await {
            return;
        }
        let removed = remove_directory(&deps, directory.clone()).await;
        if let Err(error) = removed {
            let directory = directory.path().display();
            tracing::warn!(%directory, %error, "the directory of an allocation stays until the agent starts again");
        }
    });
    removals.await;
}

async fn remove_directory(
    deps: &AllocRunnerDeps,
    directory: AllocDirectory,
) -> std::io::Result<()> {
    let mounts = deps.mounter.list().await;
    let mounts = mounts.map_err(|error| std::io::Error::new(error.source.kind(), error))?;
    let mut targets = mounts.iter().map(|mount| &mount.target);
    if let Some(target) = targets.find(|target| target.starts_with(directory.path())) {
        let reason = format!("`{}` is a mount point", target.display());
        return Err(std::io::Error::new(std::io::ErrorKind::ResourceBusy, reason));
    }
    let data = deps.data_directory.clone();
    run_blocking(move || {
        directory.shut_out(&data)?;
        remove_tree(directory.path())
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn directory(number: usize) -> AllocDirectory {
        AllocDirectory::new(Path::new("/data"), &format!("{number:03}").as_str().into())
    }

    #[test]
    fn what_runs_and_the_newest_that_ended_stay() {
        let found: BTreeSet<_> = (0..MAX_ENDED + 4).map(directory).collect();
        let running = [directory(0)].into();
        // 1 is the oldest that ended, and the server has forgotten the last one.
        let ended: Vec<_> = (1..MAX_ENDED + 3).rev().map(directory).collect();
        let expected = [1, 2, MAX_ENDED + 3].map(directory);
        assert_eq!(removable(&found, &running, &ended), expected);
    }
}
