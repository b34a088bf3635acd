//! The sizes of messages between a server and a node. A larger one is refused by the side that would send or read it.

/// The largest answer of a node: as large as the largest answer of a plugin, a list, that a node accepts.
pub(super) const ANSWER_BYTES: usize = 64 << 20;

/// The largest request to a node: one volume with its secrets.
pub(super) const REQUEST_BYTES: usize = 4 << 20;
