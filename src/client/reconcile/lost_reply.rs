//! How a change is confirmed after the server's reply was lost.

use std::time::Duration;

/// The pauses before each read that looks for the change: four reads within seven seconds.
pub(super) const CONFIRMATION_PAUSES: [Duration; 4] =
    [Duration::ZERO, Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(4)];
