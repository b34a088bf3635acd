//! The newest leadership that a host knows (rule 11 of the claims machine).
//!
//! A step has its term in its order. A call without an order, such as the creation of a volume, has to be checked
//! before it is made.

use super::host_error::HostError;
use nomad_csi_model::Term;

/// Knows the newest leadership of a server that spoke to this host.
pub trait TermGuard: Send + Sync {
    /// Remembers the term of a server that speaks to this host.
    ///
    /// # Errors
    /// If a later one has spoken.
    fn obey(&self, term: Term) -> Result<(), HostError>;
}
