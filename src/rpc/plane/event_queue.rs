//! [`EventQueue`]: the events of mounts that the server has not got yet. Adding one returns at once; the oldest are forgotten
//! beyond the limit.

use std::collections::VecDeque;

use parking_lot::Mutex;
use tokio::sync::Notify;

use nomad_csi_ports::MountEvent;

/// The most events that wait.
const LIMIT: usize = 1_024;
/// The most events of one request.
const BATCH: usize = 128;

/// The events of mounts that the server has not got yet.
#[derive(Default)]
pub(super) struct EventQueue {
    waiting: Mutex<VecDeque<MountEvent>>,
    added: Notify,
}

impl EventQueue {
    /// Adds an event.
    pub(super) fn push(&self, event: MountEvent) {
        let mut waiting = self.waiting.lock();
        if waiting.len() >= LIMIT {
            waiting.pop_front();
            tracing::warn!(
                limit = LIMIT,
                "the oldest event of a mount is forgotten: no server took it"
            );
        }
        waiting.push_back(event);
        drop(waiting);
        self.added.notify_one();
    }

    /// Waits for events, and takes the oldest ones.
    pub(super) async fn take(&self) -> Vec<MountEvent> {
        loop {
            let taken: Vec<_> = {
                let mut waiting = self.waiting.lock();
                let count = waiting.len().min(BATCH);
                waiting.drain(..count).collect()
            };
            if !taken.is_empty() {
                return taken;
            }
            self.added.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nomad_csi_model::{Namespace, NamespacedId, VolumeId};
    use nomad_csi_ports::MountAction;

    #[tokio::test]
    async fn the_oldest_events_are_forgotten_and_the_others_keep_their_order() {
        let queue = EventQueue::default();
        for number in 0..LIMIT + 10 {
            let id = VolumeId::new(number.to_string());
            let volume = NamespacedId::new(Namespace::default(), id);
            queue.push(MountEvent { volume, alloc: None, action: MountAction::Mount, error: None });
        }
        let mut taken = vec![];
        while taken.len() < LIMIT {
            let batch = queue.take().await;
            assert!(batch.len() <= BATCH);
            taken.extend(batch.into_iter().map(|event| event.volume.id.as_str().to_owned()));
        }
        let expected: Vec<_> = (10..LIMIT + 10).map(|number| number.to_string()).collect();
        assert_eq!(taken, expected);
    }
}
