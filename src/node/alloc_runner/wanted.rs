//! What the server wants of an allocation, from the weakest wish to the strongest.

/// What the server wants of an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Wanted {
    /// It runs until it ends by itself.
    Run,
    /// It stops, and its end is reported.
    Stop,
    /// The server does not know it any more: it stops, and its report has no reader.
    Forgotten,
}
