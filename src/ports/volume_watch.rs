//! Waiting for a server's volumes to change.

use std::time::Duration;

use async_trait::async_trait;

use super::volume_api::{ApiError, Reading, VolumeQuery};
use crate::model::{NamespacedId, Volume, VolumeSummary};

/// What was there, and from where to wait on.
#[derive(Clone, Debug, PartialEq)]
pub struct Watched<T> {
    /// What was there.
    pub value: T,
    /// What to wait for a change from; at least 1, since 0 would not wait
    /// (`nomad-neighbour-apis` 0.5).
    pub index: u64,
    /// Whether it may have changed since; `false` if the time ran out.
    pub changed: bool,
}

/// From where to wait, and for how long at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitFor {
    /// [`Watched::index`] of the answer before; `None` to be answered at once.
    pub index: Option<u64>,
    /// A server waits for at most five minutes, and up to a sixteenth longer, by chance.
    pub at_most: Duration,
}

/// Waits for changes. A change that concerns another volume may end a wait too, and so may a server
/// that starts anew: what is answered is what is there, and `changed` only says that a look pays.
#[async_trait]
pub trait VolumeWatch: Send + Sync {
    /// All volumes that match, once something changed or the time ran out.
    async fn watch_volumes(
        &self,
        query: &VolumeQuery,
        wait: WaitFor,
    ) -> Result<Watched<Vec<Reading<VolumeSummary>>>, ApiError>;

    /// One volume, once something changed or the time ran out; `None` if there is none of that name.
    async fn watch_volume(
        &self,
        key: &NamespacedId,
        wait: WaitFor,
    ) -> Result<Watched<Option<Reading<Volume>>>, ApiError>;
}
