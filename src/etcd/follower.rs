//! [`EtcdFollower`]: the journal of the server that leads, as another server reads it.
//!
//! The log is in keys, so a follower reads what is after its own index. Where that is trimmed, it loads everything again. It
//! writes nothing.

use std::sync::Arc;

use async_trait::async_trait;

use crate::api::Etcd;
use crate::failure::Failure;
use crate::keys::Keys;
use crate::reader::Reader;
use nomad_csi_claims::state::{Event, SnapshotChanges, State};
use nomad_csi_server::{Followed, FollowedJournal, Journal, JournalError, NextSnapshot, Replay};

/// The journal of the leader, for a server that does not lead. Clones read the same.
#[derive(Clone)]
pub struct EtcdFollower(Reader);

impl EtcdFollower {
    /// Returns the journal below these keys.
    pub fn new(etcd: Arc<dyn Etcd>, keys: Keys) -> Self {
        Self(Reader { etcd, keys })
    }

    fn described<T>(
        &self,
        operation: &'static str,
        result: Result<T, Failure>,
    ) -> Result<T, JournalError> {
        result.map_err(|failure| failure.described(operation, self.place()))
    }

    async fn followed(&self, after: u64) -> Result<Followed, Failure> {
        let (head, revision) = self.0.head_at(0).await?;
        match head.unwrap_or(State::FIRST_INDEX) {
            head if head == after => Ok(Followed::Current),
            head if head < after => Ok(Followed::Gone),
            _ => {
                let events = self.0.events_after(after, revision).await?;
                Ok(events.map_or(Followed::Gone, Followed::Events))
            }
        }
    }
}

#[async_trait]
impl Journal for EtcdFollower {
    fn place(&self) -> String {
        self.0.place()
    }

    async fn load(&self) -> Result<Replay, JournalError> {
        let loaded = self.0.load().await;
        self.described("read", loaded.map(|loaded| loaded.replay))
    }

    async fn append(&self, _: u64, _: Arc<[Event]>) -> Result<(), JournalError> {
        self.described("append to", Err(Failure::NotLeader))
    }

    async fn read_events(
        &self,
        after: u64,
        limit: usize,
    ) -> Result<Vec<(u64, Event)>, JournalError> {
        self.described("read", self.0.read_events(after, limit).await)
    }

    async fn write_snapshot(&self, _: SnapshotChanges) -> Result<NextSnapshot, JournalError> {
        self.described("write a snapshot to", Err(Failure::NotLeader))
    }

    async fn close(&self) -> Result<(), JournalError> {
        Ok(())
    }
}

#[async_trait]
impl FollowedJournal for EtcdFollower {
    async fn head(&self) -> Result<u64, JournalError> {
        let head = self.0.head_at(0).await;
        self.described("read", head.map(|(head, _)| head.unwrap_or(State::FIRST_INDEX)))
    }

    async fn read_after(&self, after: u64) -> Result<Followed, JournalError> {
        self.described("read", self.followed(after).await)
    }
}

#[cfg(test)]
mod tests;
