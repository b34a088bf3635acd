//! [`NodeConnection`]: which node an accepted connection is, once it has registered.

use std::sync::{Arc, OnceLock};

use rustls::pki_types::CertificateDer;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use nomad_csi_model::NodeId;

/// An accepted connection on which a node calls. Clones are the same connection. The handlers of its requests find it in
/// their extensions.
#[derive(Clone)]
pub(crate) struct NodeConnection(Arc<Inner>);

struct Inner {
    certificate: CertificateDer<'static>,
    is_forwarded: bool,
    closed: CancellationToken,
    bound: OnceLock<BoundNode>,
    is_bound: CancellationToken,
    registration: Arc<Semaphore>,
}

/// The node of a connection.
#[derive(Debug)]
pub(crate) struct BoundNode {
    pub(crate) node: NodeId,
}

impl NodeConnection {
    /// Describes a connection, which another server may forward.
    pub(super) fn new(
        certificate: CertificateDer<'static>,
        is_forwarded: bool,
        closed: CancellationToken,
    ) -> Self {
        let (bound, is_bound) = (OnceLock::new(), CancellationToken::new());
        let registration = Arc::new(Semaphore::new(1));
        let inner = Inner { certificate, is_forwarded, closed, bound, is_bound, registration };
        Self(Arc::new(inner))
    }

    /// Returns whether another server forwards it.
    pub(crate) fn is_forwarded(&self) -> bool {
        self.0.is_forwarded
    }

    /// Returns the node, if it has registered.
    pub(crate) fn bound(&self) -> Option<&BoundNode> {
        self.0.bound.get()
    }

    /// Returns the right to read a registration, until it is dropped; `None` while another one is read or answered.
    pub(crate) fn begin_registration(&self) -> Option<OwnedSemaphorePermit> {
        self.0.registration.clone().try_acquire_owned().ok()
    }

    /// Says which node it is. Returns whether it was not said before.
    pub(super) fn bind(&self, node: NodeId) -> bool {
        let is_first = self.0.bound.set(BoundNode { node }).is_ok();
        self.0.is_bound.cancel();
        is_first
    }

    /// Waits until it has registered.
    pub(super) async fn registered(&self) {
        self.0.is_bound.cancelled().await;
    }

    /// Closes it.
    pub(super) fn close(&self) {
        self.0.closed.cancel();
    }

    /// The token that is cancelled at its end.
    pub(super) fn closed(&self) -> &CancellationToken {
        &self.0.closed
    }

    pub(super) fn certificate(&self) -> &CertificateDer<'static> {
        &self.0.certificate
    }

    pub(super) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
