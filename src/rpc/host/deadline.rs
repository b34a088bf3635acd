//! How long a server waits for an answer of a node.
//!
//! A deadline ends the wait of the caller, and nothing on the node: it runs what changes something to its end.

use std::time::Duration;

/// For a step of a claim, and for a call of a controller that changes something: longer than what the node allows its plugin.
pub(super) const CHANGE: Duration = Duration::from_secs(31 * 60);

/// For a call that changes nothing.
pub(super) const READ: Duration = Duration::from_secs(30);
