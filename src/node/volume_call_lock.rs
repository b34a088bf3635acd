//! The call lock of one volume: one call at a time, and none that was decided before one already seen.
//!
//! Pure. A request has a number in the term of its server, and later terms come after earlier ones. A request that is refused
//! as busy counts as seen: what was decided before it is out of date. The call lock is busy until its holder ends the call.
//! The highest number is kept while the call lock is idle, because an old request may still arrive. It need
//! not survive the process: requests carry the session, and those of an earlier one are refused.

use nomad_csi_model::Term;
use nomad_csi_ports::HostOperation;

/// The place of a request in the order of all: its term, then its number.
pub(super) type CallNumber = (Term, u64);

/// Why a call lock does not take a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallLockRefusal {
    /// This operation has not ended.
    Busy(HostOperation),
    /// A request with this number has arrived before.
    Overtaken(CallNumber),
}

/// The call lock of one volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VolumeCallLock {
    latest: CallNumber,
    running: Option<HostOperation>,
}

impl VolumeCallLock {
    /// Takes a request, or refuses it. A call without a number has no order.
    ///
    /// # Errors
    /// If another call runs, or a later request was seen.
    pub fn admit(
        &mut self,
        number: Option<CallNumber>,
        operation: HostOperation,
    ) -> Result<(), CallLockRefusal> {
        if let Some(number) = number {
            if number < self.latest {
                return Err(CallLockRefusal::Overtaken(self.latest));
            }
            self.latest = number;
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

    const fn number(number: u64) -> CallNumber {
        in_term(1, number)
    }

    const fn in_term(revision: u64, number: u64) -> CallNumber {
        (Term { epoch: 0, revision }, number)
    }

    #[test]
    fn a_busy_call_lock_refuses_every_request() {
        let mut call_lock = VolumeCallLock::default();
        call_lock.admit(Some(number(5)), STAGE).unwrap();
        for number in [Some(number(5)), Some(number(6)), None] {
            assert_eq!(call_lock.admit(number, UNSTAGE), Err(CallLockRefusal::Busy(STAGE)));
        }
        call_lock.end();
        assert_eq!(call_lock.admit(Some(number(6)), UNSTAGE), Ok(()));
        assert_eq!(call_lock.running(), Some(UNSTAGE));
    }

    #[test]
    fn a_request_that_was_overtaken_is_refused_also_after_a_refusal() {
        let mut call_lock = VolumeCallLock::default();
        call_lock.admit(Some(number(5)), STAGE).unwrap();
        assert_eq!(call_lock.admit(Some(number(7)), UNSTAGE), Err(CallLockRefusal::Busy(STAGE)));
        call_lock.end();
        assert_eq!(
            call_lock.admit(Some(number(6)), STAGE),
            Err(CallLockRefusal::Overtaken(number(7)))
        );
        assert_eq!(call_lock.admit(Some(number(7)), UNSTAGE), Ok(()), "it is repeated");
    }

    #[test]
    fn a_request_may_arrive_twice() {
        let mut call_lock = VolumeCallLock::default();
        for _ in 0..3 {
            assert_eq!(call_lock.admit(Some(number(5)), STAGE), Ok(()));
            call_lock.end();
        }
    }

    /// A server counts from 1 again in its term.
    #[test]
    fn the_requests_of_a_later_term_come_after_all_of_an_earlier_one() {
        let mut call_lock = VolumeCallLock::default();
        call_lock.admit(Some(in_term(3, 9)), STAGE).unwrap();
        call_lock.end();
        assert_eq!(call_lock.admit(Some(in_term(4, 1)), UNSTAGE), Ok(()));
        call_lock.end();
        for late in [in_term(3, 10), in_term(4, 0)] {
            let refused = call_lock.admit(Some(late), STAGE);
            assert_eq!(refused, Err(CallLockRefusal::Overtaken(in_term(4, 1))));
        }
        let restored = (Term { epoch: 1, revision: 1 }, 1);
        assert_eq!(call_lock.admit(Some(restored), STAGE), Ok(()));
    }

    /// What has no order needs no memory after it ended.
    #[test]
    fn only_an_ordered_call_is_remembered() {
        let mut call_lock = VolumeCallLock::default();
        call_lock.admit(None, STAGE).unwrap();
        call_lock.end();
        assert!(call_lock.is_unused());
        call_lock.admit(Some(number(1)), STAGE).unwrap();
        call_lock.end();
        assert!(!call_lock.is_unused());
    }

    proptest! {
        /// Whatever arrives in whatever order: one call runs at a time, and none that was decided before
        /// a request that has arrived.
        #[test]
        fn every_history_keeps_the_rules(
            requests in prop::collection::vec(
                (prop::option::of((0_u64..3, 0_u64..4)), any::<bool>()),
                0..40,
            ),
        ) {
            let mut call_lock = VolumeCallLock::default();
            let (mut is_running, mut seen) = (false, CallNumber::default());
            for (number, ends_first) in requests {
                let number = number.map(|(revision, number)| in_term(revision, number));
                if ends_first {
                    call_lock.end();
                    is_running = false;
                }
                let is_late = number.is_some_and(|number| number < seen);
                seen = seen.max(number.unwrap_or_default());
                let admitted = call_lock.admit(number, STAGE).is_ok();
                prop_assert_eq!(admitted, !is_running && !is_late);
                is_running |= admitted;
                prop_assert_eq!(call_lock.running().is_some(), is_running);
            }
        }
    }
}
