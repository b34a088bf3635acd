//! What of a request a set records as applied.

/// What of a request a set records as applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordedScope {
    /// All of it: a file declares it.
    WholeRequest,
    /// Its size. The rest is what the server had, so drift of other fields stays visible.
    SizeOnly,
}
