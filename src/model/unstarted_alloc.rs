//! [`UnstartedAlloc`]: an allocation that should run, and whose tasks did not start.

use super::alloc::Alloc;

/// An allocation that should run, and whose tasks did not start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnstartedAlloc {
    /// The allocation, which has failed or is pending.
    pub alloc: Alloc,
    /// The last report of its node: why it failed, or what it waits for.
    pub report: String,
    /// When it reported that, in nanoseconds since the epoch.
    pub reported_at: i64,
}
