//! `plugin …`.

#[cfg(feature = "agent")]
pub(crate) mod check;
#[cfg(feature = "agent")]
pub(crate) mod probe;
#[cfg(feature = "agent")]
pub(crate) mod serve;
#[cfg(feature = "agent")]
mod socket;
pub(crate) mod status;
