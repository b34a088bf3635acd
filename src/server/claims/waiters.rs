//! The reason why a claim failed, for the request that waits for it.
//!
//! A claim that can never be published is released and may be gone before its requester looks. So the
//! requester announces itself first, and the driver leaves the reason there.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use nomad_csi_claims::claim::ClaimKey;

/// The requests that wait. Clones share their state.
#[derive(Clone, Debug, Default)]
pub(super) struct Waiters(Arc<Mutex<HashMap<ClaimKey, Waiting>>>);

#[derive(Debug, Default)]
struct Waiting {
    requests: usize,
    failure: Option<String>,
}

/// A request that waits for its claim. Dropping it ends the interest.
#[derive(Debug)]
pub(super) struct Waiter {
    waiters: Waiters,
    key: ClaimKey,
}

impl Waiters {
    /// Announces a request.
    pub(super) fn wait_for(&self, key: ClaimKey) -> Waiter {
        self.lock().entry(key.clone()).or_default().requests += 1;
        Waiter { waiters: self.clone(), key }
    }

    /// Leaves the reason of a failure for the requests that wait. They hear of it when the claim is in
    /// release, so it may be left before that is committed.
    pub(super) fn failed(&self, key: &ClaimKey, reason: &str) {
        if let Some(waiting) = self.lock().get_mut(key) {
            waiting.failure = Some(reason.to_owned());
        }
    }

    /// Takes the reason back: the release was not committed.
    pub(super) fn withdraw(&self, key: &ClaimKey) {
        if let Some(waiting) = self.lock().get_mut(key) {
            waiting.failure = None;
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ClaimKey, Waiting>> {
        self.0.lock()
    }
}

impl Waiter {
    /// Returns why the claim failed, if it did. To ask while the claim is not published yet, and not in
    /// release, is too early: its release may not be committed.
    pub(super) fn failure(&self) -> Option<String> {
        self.waiters.lock().get(&self.key)?.failure.clone()
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let mut waiters = self.waiters.lock();
        if let Some(waiting) = waiters.get_mut(&self.key) {
            waiting.requests -= 1;
            if waiting.requests == 0 {
                waiters.remove(&self.key);
            }
        }
    }
}
