//! What the leader looks after: the space of etcd, and revisions that it need not remember.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::Shared;
use crate::error::EtcdErrorKind;
use crate::space::Space;

/// The time between two questions to the members.
const EVERY: Duration = Duration::from_secs(10);
/// The appended bytes after which the members are asked at once.
const MUCH_GROWTH: u64 = 2 << 20;
/// The time between two compactions.
const COMPACTION: Duration = Duration::from_secs(60);
/// For how long a revision is kept: a server that reads at one has this time.
const KEPT_FOR: Duration = Duration::from_secs(300);

impl Shared {
    pub(super) async fn maintain(&self, stop: CancellationToken) {
        let mut revisions = VecDeque::new();
        let mut compacted = Instant::now();
        loop {
            self.measure_space().await;
            if compacted.elapsed() >= COMPACTION {
                compacted = Instant::now();
                self.compact_before(&mut revisions).await;
            }
            tokio::select! {
                () = sleep(EVERY) => {}
                () = self.has_grown.notified() => {}
                () = stop.cancelled() => return,
                () = self.leadership.lost().cancelled() => return,
            }
        }
    }

    /// Counts appended bytes. Much growth is measured at once: between two questions, it could fill what is left.
    pub(super) fn note_growth(&self, bytes: usize) {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        if self.appended.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes) >= MUCH_GROWTH {
            self.appended.store(0, Ordering::Relaxed);
            self.has_grown.notify_one();
        }
    }

    /// Asks the members how much space they have.
    pub(super) async fn measure_space(&self) {
        let members = self.reader.etcd.status().await;
        let Ok(has_alarm) = self.reader.etcd.has_no_space_alarm().await else {
            return;
        };
        // Nothing is known while no member says its size.
        if members.is_empty() && !has_alarm {
            return;
        }
        let space = Space::of(&members, self.quota, has_alarm);
        let before = std::mem::replace(&mut *self.space.lock(), space);
        if space == before {
            return;
        }
        match space {
            Space::Full => tracing::error!(
                "etcd is full: what grows the state is refused; run `nomad-csi agent etcd reclaim --config FILE`"
            ),
            Space::Short => tracing::warn!("etcd uses more than 60 % of its quota"),
            Space::Enough => tracing::info!("etcd has space again"),
        }
    }

    /// Compacts to the newest of the revisions that are old enough. The queue has one for each compaction.
    async fn compact_before(&self, revisions: &mut VecDeque<(Instant, i64)>) {
        let Ok((_, revision)) = self.reader.read(self.reader.keys.head(), 0).await else {
            return;
        };
        let now = Instant::now();
        revisions.push_back((now, revision));
        let mut old = None;
        while let Some((seen, revision)) = revisions.front().copied()
            && now.duration_since(seen) >= KEPT_FOR
        {
            old = Some(revision);
            revisions.pop_front();
        }
        let Some(old) = old else {
            return;
        };
        match self.reader.etcd.compact(old).await {
            Err(error) if error.kind != EtcdErrorKind::Compacted => {
                tracing::warn!(%error, revision = old, "etcd was not compacted");
            }
            Ok(()) | Err(_) => {}
        }
    }
}
