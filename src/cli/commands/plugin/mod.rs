//! `plugin …`.

#[cfg(feature = "agent")]
pub(crate) mod serve;
pub(crate) mod status;
