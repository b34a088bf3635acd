//! [`LeaderLease`]: whether this server may act as the leader at this moment.
//!
//! A server that was frozen may have been replaced. Until it knows, it calls no node, and answers neither nodes nor clients.

/// Says whether this server may act as the leader.
pub trait LeaderLease: Send + Sync {
    /// Returns whether no other server can lead at this moment.
    fn is_certain(&self) -> bool;
}

/// The lease of a server without others.
#[derive(Clone, Copy, Debug, Default)]
pub struct SoleServer;

impl LeaderLease for SoleServer {
    fn is_certain(&self) -> bool {
        true
    }
}

/// The lease of a server that does not lead.
#[derive(Clone, Copy, Debug, Default)]
pub struct NotLeading;

impl LeaderLease for NotLeading {
    fn is_certain(&self) -> bool {
        false
    }
}
