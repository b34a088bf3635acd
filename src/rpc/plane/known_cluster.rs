//! [`KnownCluster`]: the highest place of its cluster that the node knows, and what that means for an answer.
//!
//! Another cluster, or a lower term or index, is believed in nothing. The record is written before the node acts on a list that
//! changes something, when the cluster or the term changes, and otherwise once a minute: a server that was restored from a backup
//! is known by it.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use nomad_csi_ports::{ClusterMemory, ClusterMemoryError, ClusterPosition, run_blocking};

/// How long a higher index may stay unwritten.
const WRITTEN_EVERY: Duration = Duration::from_secs(60);

/// The highest place of its cluster that the node knows. Clones share it.
#[derive(Clone)]
pub(super) struct KnownCluster {
    memory: Arc<dyn ClusterMemory>,
    state: Arc<Mutex<State>>,
    /// Held while the record is written, so an older one replaces no newer one.
    writing: Arc<Mutex<()>>,
}

struct State {
    known: Option<ClusterPosition>,
    written: Option<ClusterPosition>,
    written_at: Instant,
}

/// An answer is not believed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NotBelieved {
    #[error(
        "the server belongs to cluster `{server}`, and this node to cluster `{node}`; its tasks run on"
    )]
    OtherCluster { server: String, node: String },
    #[error(
        "the server is at {server}, and this node knows {node}: it is behind, or was restored from a backup; the tasks of the node run on"
    )]
    Older { server: String, node: String },
}

fn text_of(position: &ClusterPosition) -> String {
    format!("index {} of term {}", position.index, position.term)
}

impl KnownCluster {
    /// Reads the record.
    pub(super) async fn open(memory: Arc<dyn ClusterMemory>) -> Result<Self, ClusterMemoryError> {
        let reader = memory.clone();
        let loaded = run_blocking(move || Ok(reader.load())).await;
        let written = loaded
            .map_err(|stopped| ClusterMemoryError { reason: stopped.to_string() })
            .and_then(std::convert::identity)?;
        let state = State { known: written.clone(), written, written_at: Instant::now() };
        Ok(Self { memory, state: Arc::new(Mutex::new(state)), writing: Arc::default() })
    }

    /// Returns the highest place.
    pub(super) fn get(&self) -> Option<ClusterPosition> {
        self.state.lock().known.clone()
    }

    /// Checks only that the place is of the same cluster.
    pub(super) fn check_cluster(&self, position: &ClusterPosition) -> Result<(), NotBelieved> {
        let state = self.state.lock();
        match &state.known {
            Some(known) if known.cluster_id != position.cluster_id => {
                Err(NotBelieved::OtherCluster {
                    server: position.cluster_id.clone(),
                    node: known.cluster_id.clone(),
                })
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Checks a place and remembers it, in one step: nothing that is older is believed afterwards.
    pub(super) fn advance(&self, position: &ClusterPosition) -> Result<(), NotBelieved> {
        self.check_cluster(position)?;
        let mut state = self.state.lock();
        if let Some(known) = &state.known
            && !position.follows(known)
        {
            return Err(NotBelieved::Older { server: text_of(position), node: text_of(known) });
        }
        state.known = Some(position.clone());
        Ok(())
    }

    /// Writes the record if it is due. A failure is logged: the node still knows the place until its process ends.
    pub(super) async fn write_if_due(&self) {
        if !self.is_due() {
            return;
        }
        if let Err(error) = self.write().await {
            tracing::warn!(%error, "the place of the cluster is not recorded");
        }
    }

    /// Writes the record before something is done for which the node must not forget the place.
    pub(super) async fn write(&self) -> Result<(), ClusterMemoryError> {
        let this = self.clone();
        let written = run_blocking(move || Ok(this.write_now())).await;
        written
            .map_err(|stopped| ClusterMemoryError { reason: stopped.to_string() })
            .and_then(std::convert::identity)
    }

    fn is_due(&self) -> bool {
        let state = self.state.lock();
        let Some(known) = &state.known else { return false };
        let Some(written) = &state.written else { return true };
        let is_other = (&written.cluster_id, written.term) != (&known.cluster_id, known.term);
        is_other || (written != known && state.written_at.elapsed() >= WRITTEN_EVERY)
    }

    fn write_now(&self) -> Result<(), ClusterMemoryError> {
        let _writing = self.writing.lock();
        let Some(known) = self.get() else { return Ok(()) };
        self.memory.store(&known)?;
        let mut state = self.state.lock();
        state.written = Some(known);
        state.written_at = Instant::now();
        Ok(())
    }
}
