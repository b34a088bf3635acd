//! The call lock of one volume: one call at a time, and none that was decided before one already seen.
//!
//! Pure. A request names the journal index of its step. A request that is refused as busy counts as
//! seen: what was decided before it is out of date. The call lock is busy until its holder ends the call.
//! The highest index is kept while the call lock is idle, because an old request may still arrive. It need
//! not survive the process: requests carry the session, and those of an earlier one are refused.

use nomad_csi_ports::HostOperation;

/// Why a call lock does not take a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallLockRefusal {
    /// This operation has not ended.
    Busy(HostOperation),
    /// A request with this index has arrived before.
    Overtaken(u64),
}

/// The call lock of one volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VolumeCallLock {
    latest: u64,
    running: Option<HostOperation>,
}

impl VolumeCallLock {
    /// Takes a request, or refuses it. A call without an index has no order.
    ///
    /// # Errors
    /// If another call runs, or a later request was seen.
    pub fn admit(
        &mut self,
        index: Option<u64>,
        operation: HostOperation,
    ) -> Result<(), CallLockRefusal> {
        if let Some(index) = index {
            if index < self.latest {
                return Err(CallLockRefusal::Overtaken(self.latest));
            }
            self.latest = index;
        }
        match self.running {
            Some(running) => Err(CallLockRefusal::Busy(running)),
            None => {
                self.running = Some(operation);
                Ok(())
            }
        }
    }

    /// Ends the running call.
    pub fn end(&mut self) {
        self.running = None;
    }

    /// The operation that runs.
    pub fn running(self) -> Option<HostOperation> {
        self.running
    }

    /// Returns whether the call lock is as if it had never been used.
    pub fn is_unused(self) -> bool {
        self == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const STAGE: HostOperation = HostOperation::Stage;
    const UNSTAGE: HostOperation = HostOperation::Unstage;

    #[test]
    fn a_busy_call_lock_refuses_every_request() {
        let mut call_lock = VolumeCallLock::default();
        call_lock.admit(Some(5), STAGE).unwrap();
        for index in [Some(5), Some(6), None] {
            assert_eq!(call_lock.admit(index, UNSTAGE), Err(CallLockRefusal::Busy(STAGE)));
        }
        call_lock.end();
        assert_eq!(call_lock.admit(Some(6), UNSTAGE), Ok(()));
        assert_eq!(call_lock.running(), Some(UNSTAGE));
    }

    #[test]
    fn a_request_that_was_overtaken_is_refused_also_after_a_refusal() {
        let mut call_lock = VolumeCallLock::default();
        call_lock.admit(Some(5), STAGE).unwrap();
        assert_eq!(call_lock.admit(Some(7), UNSTAGE), Err(CallLockRefusal::Busy(STAGE)));
        call_lock.end();
        assert_eq!(call_lock.admit(Some(6), STAGE), Err(CallLockRefusal::Overtaken(7)));
        assert_eq!(call_lock.admit(Some(7), UNSTAGE), Ok(()), "it is repeated");
    }

    #[test]
    fn a_repeated_request_keeps_its_index() {
        let mut call_lock = VolumeCallLock::default();
        for _ in 0..3 {
            assert_eq!(call_lock.admit(Some(5), STAGE), Ok(()));
            call_lock.end();
        }
    }

    /// What has no order needs no memory after it ended.
    #[test]
    fn only_an_ordered_call_is_remembered() {
        let mut call_lock = VolumeCallLock::default();
        call_lock.admit(None, STAGE).unwrap();
        call_lock.end();
        assert!(call_lock.is_unused());
        call_lock.admit(Some(1), STAGE).unwrap();
        call_lock.end();
        assert!(!call_lock.is_unused());
    }

    proptest! {
        /// Whatever arrives in whatever order: one call runs at a time, and none that was decided before
        /// a request that has arrived.
        #[test]
        fn every_history_keeps_the_rules(
            requests in prop::collection::vec((prop::option::of(0_u64..6), any::<bool>()), 0..40),
        ) {
            let mut call_lock = VolumeCallLock::default();
            let (mut is_running, mut seen) = (false, 0);
            for (index, ends_first) in requests {
                if ends_first {
                    call_lock.end();
                    is_running = false;
                }
                let is_late = index.is_some_and(|index| index < seen);
                seen = seen.max(index.unwrap_or_default());
                let admitted = call_lock.admit(index, STAGE).is_ok();
                prop_assert_eq!(admitted, !is_running && !is_late);
                is_running |= admitted;
                prop_assert_eq!(call_lock.running().is_some(), is_running);
            }
        }
    }
}
