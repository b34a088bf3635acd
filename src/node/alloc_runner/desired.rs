//! Desired state of an allocation, in order of precedence.

/// The state that the server wants of an allocation. A later one prevails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Desired {
    /// It runs until it ends by itself.
    Run,
    /// It stops, and its end is reported.
    Stop,
    /// The server does not know it any more: it stops, and its report has no reader.
    Forgotten,
}
