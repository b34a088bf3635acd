//! Mounts the volumes of an allocation, all at the same time, and waits for those that are refused.
//!
//! A refusal that is not final is shown, and tried again after a pause that grows. A change on the server that may
//! help ends the pause. Dropping the future ends the wait at once (W38); what was claimed is released with the
//! allocation.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use futures_util::future::try_join_all;
use tokio::sync::watch;
use tokio::time::{sleep, sleep_until, timeout};

use super::progress::AllocProgress;
use crate::model::{AllocId, VolumeAlias};
use crate::ports::{Clock, ControlPlane, MountRefused};
use crate::retry::RetryPolicy;

/// The pauses between attempts: 2, 4, 8 … 60 s.
const RETRY: RetryPolicy = RetryPolicy {
    initial: Duration::from_secs(2),
    max: Duration::from_secs(60),
};
/// The shortest pause after the second attempt. An attempt may itself change what the server waits for.
const SHORTEST: Duration = Duration::from_millis(100);

/// What mounting needs.
pub(super) struct Mounting<'a> {
    /// The server.
    pub(super) control: &'a dyn ControlPlane,
    /// The allocation.
    pub(super) alloc: &'a AllocId,
    /// Where refusals are shown.
    pub(super) progress: &'a watch::Sender<AllocProgress>,
    /// The time of events.
    pub(super) clock: &'a dyn Clock,
}

impl Mounting<'_> {
    /// Mounts volumes. Returns where they are.
    ///
    /// # Errors
    /// Why one of them can never be mounted.
    pub(super) async fn mount_all(
        &self,
        aliases: impl Iterator<Item = &VolumeAlias>,
    ) -> Result<BTreeMap<VolumeAlias, PathBuf>, String> {
        let mounts = aliases.map(async |alias| {
            let path = self.mount(alias).await?;
            Ok::<_, String>((alias.clone(), path))
        });
        Ok(try_join_all(mounts).await?.into_iter().collect())
    }

    async fn mount(&self, alias: &VolumeAlias) -> Result<PathBuf, String> {
        let mut attempt = 0;
        loop {
            match self.control.mount(self.alloc, alias).await {
                Ok(path) => {
                    self.progress
                        .send_if_modified(|progress| progress.accept_mount(alias));
                    return Ok(path);
                }
                Err(refused) if refused.is_final => return Err(refused.message),
                Err(refused) => {
                    self.show(alias, &refused);
                    self.pause(alias, attempt).await;
                    attempt += 1;
                }
            }
        }
    }

    fn show(&self, alias: &VolumeAlias, refused: &MountRefused) {
        let reason = &refused.message;
        tracing::info!(alloc.id = %self.alloc, volume.alias = %alias, reason, "waiting for a volume");
        let now = self.clock.now();
        self.progress
            .send_if_modified(|progress| progress.refuse_mount(alias, reason, now));
    }

    /// Waits until another attempt may succeed.
    async fn pause(&self, alias: &VolumeAlias, attempt: u32) {
        let begun = tokio::time::Instant::now();
        let longest = RETRY.delay(attempt, 1.0);
        let changed = self.control.mount_may_succeed(self.alloc, alias);
        match timeout(longest, changed).await {
            Ok(Ok(())) if attempt == 0 => {}
            Ok(Ok(())) => sleep_until(begun + SHORTEST).await,
            // The server cannot say when, so the pause has its full length.
            Ok(Err(_)) => sleep(longest.saturating_sub(begun.elapsed())).await,
            Err(_) => {}
        }
    }
}
