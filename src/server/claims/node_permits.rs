//! How many calls run on nodes at the same time: so many on each, and so many on all. A node that does not answer holds up the
//! calls of no other one.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::limits::ClaimLimits;
use nomad_csi_model::NodeId;

/// The right to one call on a node.
pub(super) struct NodePermit {
    _of_node: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

/// The permits of all nodes. Clones share their state.
#[derive(Clone)]
pub(super) struct NodePermits {
    per_node: usize,
    all: Arc<Semaphore>,
    nodes: Arc<Mutex<HashMap<NodeId, Arc<Semaphore>>>>,
}

impl NodePermits {
    pub(super) fn new(limits: &ClaimLimits) -> Self {
        Self {
            per_node: limits.node_calls,
            all: Arc::new(Semaphore::new(limits.all_node_calls)),
            nodes: Arc::default(),
        }
    }

    /// Waits for the right to call a node: first for a call on it to end, then for any.
    pub(super) async fn acquire(&self, node: &NodeId) -> Option<NodePermit> {
        let of_node = self.of(node).acquire_owned().await.ok()?;
        let of_all = self.all.clone().acquire_owned().await.ok()?;
        Some(NodePermit { _of_node: of_node, _of_all: of_all })
    }

    /// Returns the right to call a node, if no other call has to end first.
    pub(super) fn try_acquire(&self, node: &NodeId) -> Option<NodePermit> {
        let of_node = self.of(node).try_acquire_owned().ok()?;
        let of_all = self.all.clone().try_acquire_owned().ok()?;
        Some(NodePermit { _of_node: of_node, _of_all: of_all })
    }

    /// A node without calls needs no memory.
    fn of(&self, node: &NodeId) -> Arc<Semaphore> {
        let mut nodes = self.nodes.lock();
        if let Some(known) = nodes.get(node) {
            return known.clone();
        }
        nodes.retain(|_, permits| Arc::strong_count(permits) > 1);
        let new = Arc::new(Semaphore::new(self.per_node));
        nodes.insert(node.clone(), new.clone());
        new
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn permits() -> NodePermits {
        let limits = ClaimLimits { node_calls: 2, all_node_calls: 5, ..ClaimLimits::default() };
        NodePermits::new(&limits)
    }

    #[tokio::test]
    async fn a_node_without_answers_holds_up_no_other_one() {
        let permits = permits();
        let (slow, fast) = (NodeId::new("slow"), NodeId::new("fast"));
        let hung = [permits.try_acquire(&slow).unwrap(), permits.acquire(&slow).await.unwrap()];
        assert!(permits.try_acquire(&slow).is_none());
        let mut waiting = Box::pin(permits.acquire(&slow));
        assert!(waiting.as_mut().now_or_never().is_none());
        let _other = permits.acquire(&fast).await.unwrap();
        drop(hung);
        assert!(waiting.await.is_some());
    }

    #[tokio::test]
    async fn all_nodes_have_a_limit_together() {
        let permits = permits();
        let of = |number: u32| permits.try_acquire(&NodeId::new(format!("n{}", number / 2)));
        let mut held: Vec<_> = (0..8).map_while(of).collect();
        assert_eq!(held.len(), 5);
        let other = NodeId::new("other");
        let mut waiting = Box::pin(permits.acquire(&other));
        assert!(waiting.as_mut().now_or_never().is_none());
        held.pop();
        assert!(waiting.await.is_some());
    }

    #[tokio::test]
    async fn nodes_without_calls_are_forgotten() {
        let permits = permits();
        for number in 0..100 {
            drop(permits.acquire(&NodeId::new(format!("n{number}"))).await.unwrap());
        }
        let held = permits.acquire(&NodeId::new("held")).await.unwrap();
        drop(permits.acquire(&NodeId::new("last")).await.unwrap());
        let known = permits.nodes.lock().len();
        assert!(known <= 2, "{known}");
        drop(held);
    }
}
