//! A lease that a test ends and renews.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nomad_csi_ports::LeaderLease;

/// A lease, which is certain at first. Clones share their state.
#[derive(Clone, Debug)]
pub struct FakeLease(Arc<AtomicBool>);

impl Default for FakeLease {
    fn default() -> Self {
        Self(Arc::new(AtomicBool::new(true)))
    }
}

impl FakeLease {
    /// Says from now on whether the lease is certain.
    pub fn set_certain(&self, is_certain: bool) {
        self.0.store(is_certain, Ordering::Relaxed);
    }
}

impl LeaderLease for FakeLease {
    fn is_certain(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
