//! Mounts the volumes of an allocation, all at the same time, and waits for those that are refused.
//!
//! A refusal that is not final is shown, and tried again after a pause that grows. A change on the server that may
//! help ends the pause. A mount that takes long shows what holds it up. No refusal ends a task that runs, as one that an earlier agent started: it was given its volume. What the server says is compared with what is mounted. A mount that vanished is reported to the
//! server as soon as no task runs on it, and the volume is mounted again. Dropping the future ends the wait at once
//! (W38); what was claimed is released with the allocation.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::pin::pin;
use std::time::Duration;

use futures_util::future::try_join_all;
use tokio::sync::watch;
use tokio::time::{sleep, sleep_until, timeout};

use super::super::published_source::check_source;
use super::progress::AllocProgress;
use nomad_csi_model::retry::RetryPolicy;
use nomad_csi_model::{AllocId, VolumeAlias};
use nomad_csi_ports::{Clock, ControlPlane, LostMount, MountDelay, MountRefused, Mounter};

/// The pauses between attempts: 2, 4, 8 … 60 s.
const RETRY: RetryPolicy =
    RetryPolicy { initial: Duration::from_secs(2), max: Duration::from_secs(60) };
/// The shortest pause after the second attempt. An attempt may itself change what the server waits for.
const SHORTEST: Duration = Duration::from_millis(100);

/// How long a mount may take before what holds it up is shown.
const SHOWN_AFTER: Duration = Duration::from_secs(3);

/// The ports and the allocation of a mounting.
pub(super) struct Mounting<'a> {
    /// The server.
    pub(super) control: &'a dyn ControlPlane,
    /// The allocation.
    pub(super) alloc: &'a AllocId,
    /// The mounts of this node.
    pub(super) mounter: &'a dyn Mounter,
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
        let mut losses = 0;
        loop {
            if self.report_loss(alias).await {
                losses += 1;
            }
            match self.mount_once(alias).await {
                Ok(path) => match check_source(self.mounter, &path).await {
                    Ok(_) => {
                        self.progress.send_if_modified(|progress| progress.accept_mount(alias));
                        return Ok(path);
                    }
                    Err(reason) => {
                        self.lose(alias, &reason);
                        if losses > 0 {
                            sleep(RETRY.delay(losses - 1, 1.0)).await;
                        }
                    }
                },
                Err(refused) if refused.is_final && !self.progress.borrow().is_used(alias) => {
                    return Err(refused.message);
                }
                Err(refused) => {
                    self.show(alias, &refused);
                    self.pause(alias, attempt).await;
                    attempt += 1;
                }
            }
        }
    }

    /// Makes one attempt, and shows what holds it up.
    async fn mount_once(&self, alias: &VolumeAlias) -> Result<PathBuf, MountRefused> {
        let mut mount = pin!(self.control.mount(self.alloc, alias));
        if let Ok(mounted) = timeout(SHOWN_AFTER, &mut mount).await {
            return mounted;
        }
        let mut shown = None;
        loop {
            let delay = self.control.wait_for_mount_delay(self.alloc, alias, shown.as_ref());
            let delay = tokio::select! {
                biased;
                mounted = &mut mount => return mounted,
                delay = delay => delay,
            };
            match delay {
                Ok(delay) => {
                    self.show_delay(alias, &delay);
                    shown = Some(delay);
                }
                Err(_) => return mount.await,
            }
        }
    }

    fn show_delay(&self, alias: &VolumeAlias, delay: &MountDelay) {
        let (now, reason) = (self.clock.now(), &delay.message);
        tracing::info!(alloc.id = %self.alloc, volume.alias = %alias, reason, "a mount of a volume is held up");
        self.progress.send_if_modified(|progress| progress.hold_up(alias, reason, now));
    }

    fn lose(&self, alias: &VolumeAlias, reason: &str) {
        tracing::warn!(alloc.id = %self.alloc, volume.alias = %alias, reason, "a volume is lost");
        let now = self.clock.now();
        self.progress.send_modify(|progress| progress.lose_volume(alias, reason, now));
    }

    /// Reports a volume that is lost, as soon as no task runs on it. Returns whether it was lost.
    async fn report_loss(&self, alias: &VolumeAlias) -> bool {
        let Some(reason) = self.progress.borrow().lost.get(alias).cloned() else {
            return false;
        };
        let mut changes = self.progress.subscribe();
        // The sender is borrowed here, so it is not gone.
        let _is_unused = changes.wait_for(|progress| !progress.is_used(alias)).await.is_ok();
        let lost = LostMount::Target { alloc: self.alloc.clone(), alias: alias.clone() };
        let mut attempt = 0;
        while let Err(error) = self.control.note_lost(&lost, &reason).await {
            tracing::warn!(alloc.id = %self.alloc, volume.alias = %alias, %error, "cannot report a lost volume");
            sleep(RETRY.delay(attempt, 1.0)).await;
            attempt += 1;
        }
        self.progress.send_modify(|progress| {
            progress.lost.remove(alias);
        });
        true
    }

    fn show(&self, alias: &VolumeAlias, refused: &MountRefused) {
        let reason = &refused.message;
        tracing::info!(alloc.id = %self.alloc, volume.alias = %alias, reason, "waiting for a volume");
        let now = self.clock.now();
        self.progress.send_if_modified(|progress| progress.refuse_mount(alias, reason, now));
    }

    /// Waits until another attempt may succeed.
    async fn pause(&self, alias: &VolumeAlias, attempt: u32) {
        let begun = tokio::time::Instant::now();
        let longest = RETRY.delay(attempt, 1.0);
        let changed = self.control.wait_for_claim_change(self.alloc, alias);
        match timeout(longest, changed).await {
            Ok(Ok(())) if attempt == 0 => {}
            Ok(Ok(())) => sleep_until(begun + SHORTEST).await,
            // The server cannot say when, so the pause has its full length.
            Ok(Err(_)) => sleep(longest.saturating_sub(begun.elapsed())).await,
            Err(_) => {}
        }
    }
}
