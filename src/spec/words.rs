//! Words without quotes that stand for a value that a file does not have.

/// Stands for a value that only the server knows.
pub(super) const UNKNOWN: &str = "unknown";

/// Is printed in place of a value that may be secret. No reader accepts it.
pub(super) const SENSITIVE: &str = "sensitive";
