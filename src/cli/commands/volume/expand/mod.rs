//! `volume expand`: a volume becomes larger, and nothing else about it changes.
//!
//! A server takes a new size only together with everything else that it stores of a volume, and what
//! is left out is erased there, depending on its version (`users` 10 and 11). So the request is the
//! volume as the server shows it, or as a file says, with another size; and where the server hides
//! something that this would erase, it is refused until a file gives it or somebody accepts the loss.
//! Where a set owns the volume, its ledger remembers the new size as applied, and of what was sent only
//! to keep it nothing. It goes the way of every change: planned by the server's rules, read again right
//! before, sent once, read back.

mod problems;
mod run;
mod told;
mod wanted;

pub(crate) use run::run;
